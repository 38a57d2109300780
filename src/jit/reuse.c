/* What a clause has done already: scripts name the same thing again and again, as in
 *
 *   /@start[tid]/ { @ = hist(nsecs - @start[tid]); delete(@start[tid]); }
 *
 * In a stretch of code that is entered at its start only, a key that lies in the frame is not put there again, and a node that was found
 * for it is not looked for again. */
#include "jit/internal.h"

#include "stream/op.h"

enum { KNOWN_MAX = 16 };

/* What is known at one instruction. */
struct known {
    const struct wire_insn *maker[WIRE_REGS]; /* by virtual register: what gave its value, where that gives the same every time */
    struct {
        uint32_t offset; /* in the frame, 8 bytes */
        const struct wire_insn *maker;
    } word[KNOWN_MAX];
    uint32_t words;
    uint32_t finder[KNOWN_MAX]; /* instructions that found a node */
    uint32_t finders;
};

/* It gives the same in all of a run. */
static bool is_constant(const struct wire_insn *insn)
{
    switch (insn->op) {
    case WIRE_MOVI:
    case WIRE_MOVL:
    case WIRE_ARG:
    case WIRE_REG:
        return true;
    case WIRE_CTX:
        return insn->i == WIRE_CTX_TID || insn->i == WIRE_CTX_PID;
    }
    return false;
}

static bool is_same(const struct wire_insn *a, const struct wire_insn *b)
{
    return a->op == b->op && a->i == b->i && a->j == b->j;
}

/* Some bytes of the frame may be other ones after it. */
static bool writes_frame(uint32_t op)
{
    switch (op) {
    case WIRE_FLD:
    case WIRE_FLDX:
    case WIRE_SLEN:
    case WIRE_SCMP:
    case WIRE_SFIND:
    case WIRE_SGLOB:
    case WIRE_BCMP:
    case WIRE_MSETV:
    case WIRE_EMIT:
        return false;
    }
    return stream_op_has(op, 'F') || stream_op_has(op, 'G') || stream_op_has(op, 'V');
}

static bool overlaps(uint32_t word_offset, uint32_t from, uint32_t bytes)
{
    return from < word_offset + 8 && word_offset < from + bytes;
}

/* The bytes of the frame are other ones from here on. */
static void forget(struct jit *jit, struct known *known, uint32_t from, uint32_t bytes)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < known->words; i++)
        if (!overlaps(known->word[i].offset, from, bytes))
            known->word[kept++] = known->word[i];
    known->words = kept;
    kept = 0;
    for (uint32_t i = 0; i < known->finders; i++)
        if (!overlaps(jit->insns[known->finder[i]].j, from, bytes))
            known->finder[kept++] = known->finder[i];
    known->finders = kept;
}

static void look_at_store(struct jit *jit, struct known *known, uint32_t at)
{
    const struct wire_insn *insn = &jit->insns[at], *maker = known->maker[insn->a];
    for (uint32_t i = 0; i < known->words && maker && insn->k == 8; i++)
        if (known->word[i].offset == insn->j && is_same(known->word[i].maker, maker)) {
            jit->is_repeated[at] = 1;
            return;
        }
    forget(jit, known, insn->j, insn->k);
    if (maker && insn->k == 8 && known->words < KNOWN_MAX) {
        known->word[known->words].offset = insn->j;
        known->word[known->words++].maker = maker;
    }
}

static void look_at_map(struct jit *jit, struct known *known, uint32_t at)
{
    const struct wire_insn *insn = &jit->insns[at];
    for (uint32_t i = 0; i < known->words; i++)
        if (known->word[i].offset == insn->j && known->word[i].maker->op == WIRE_CTX && known->word[i].maker->i == WIRE_CTX_TID)
            jit->node[at].is_own = true;
    for (uint32_t i = 0; i < known->finders; i++) {
        uint32_t finder = known->finder[i];
        if (jit->insns[finder].h != insn->h || jit->insns[finder].j != insn->j)
            continue;
        if (!jit->node[finder].slot) {
            if (jit->node_slots == JIT_NODES_MAX)
                return;
            jit->node[finder].slot = ++jit->node_slots;
        }
        jit->node[finder].last = at;
        jit->node[at].slot = jit->node[finder].slot;
        jit->node[at].is_found = true;
        return;
    }
    if (known->finders < KNOWN_MAX)
        known->finder[known->finders++] = at;
}

void jit_find_repeated(struct jit *jit)
{
    struct known known = {0};
    for (uint32_t at = 0; at < jit->count; at++) {
        const struct wire_insn *insn = &jit->insns[at];
        if (jit->is_target[at])
            known = (struct known){0};
        if (insn->op == WIRE_FST)
            look_at_store(jit, &known, at);
        else if (writes_frame(insn->op))
            forget(jit, &known, 0, UINT32_MAX);
        else if (insn->op == WIRE_EMIT) /* a thread in a body has a node or a record in hand, not both */
            known.finders = 0;
        else if (jit_finds_node(jit, insn))
            look_at_map(jit, &known, at);
        if (stream_op_has(insn->op, 'D'))
            known.maker[insn->d] = is_constant(insn) ? insn : NULL;
    }
}

uint8_t *jit_find_added_to(const struct wire_stream *stream)
{
    uint8_t *is_added_to = memory_zero(stream->map_count, sizeof *is_added_to);
    for (uint32_t model = 0; model < WIRE_MODELS; model++) {
        const struct wire_insn *insn = (const void *)((const char *)stream + stream->code_offset[model]);
        for (uint32_t i = 0; i < stream->code_count[model]; i++)
            if (insn[i].op == WIRE_MADD)
                is_added_to[insn[i].h] = 1;
    }
    return is_added_to;
}
