#include "insn/insn.h"

static const char *const names[] = {
#define REASON(name, json, text) json,
#include "insn/reasons.def"
#undef REASON
};

static const char *const texts[] = {
#define REASON(name, json, text) text,
#include "insn/reasons.def"
#undef REASON
};

const char *insn_reason_name(enum insn_reason reason)
{
    return (unsigned)reason < INSN_REASON_COUNT ? names[reason] : "?";
}

const char *insn_reason_text(enum insn_reason reason)
{
    return (unsigned)reason < INSN_REASON_COUNT ? texts[reason] : "?";
}
