/* Golden cases of src/insn: bytes in, decoded kind or copy out, one or more for each rule. `insn_golden --print` shows what the code makes
 * of each case instead of checking it, for updating the tables; test/insn/state_equal proves that what it makes is right. */
#include "insn/insn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool print_only;
static unsigned checks, failures;

static unsigned from_hex(const char *text, uint8_t *out)
{
    unsigned n = 0;
    while (*text) {
        if (*text == ' ') {
            text++;
            continue;
        }
        unsigned value;
        if (sscanf(text, "%2x", &value) != 1)
            abort();
        out[n++] = (uint8_t)value;
        text += 2;
    }
    return n;
}

static void to_hex(const uint8_t *bytes, unsigned count, char *out)
{
    *out = 0;
    for (unsigned i = 0; i < count; i++)
        out += sprintf(out, i ? " %02x" : "%02x", bytes[i]);
}

static void expect(const char *what, const char *bytes, const char *field, const char *want, const char *got)
{
    checks++;
    if (print_only || strcmp(want, got) == 0)
        return;
    failures++;
    printf("insn_golden: %s %s: %s\n  want %s\n  got  %s\n", what, bytes, field, want, got);
}

/* ==== decoding ==== */

static const char *const kind_names[] = {"plain",         "jmp", "jmp-indirect", "jcc",  "loop", "call",
                                         "call-indirect", "ret", "syscall",      "stop", "nop"};

/* At va 0x401000. `want`: length, kind, then what else is set: ->target, @memory, refusal. */
static const struct {
    int mode;
    const char *bytes, *want;
} decodings[] = {
    {64, "90", "1 nop"},
    {64, "66 90", "2 nop"},
    {64, "48 90", "2 nop"},
    {64, "41 90", "2 plain"},
    {64, "f3 90", "2 plain"},
    {64, "0f 1f 00", "3 nop"},
    {64, "0f 1f 44 00 00", "5 nop"},
    {64, "0f 1f 05 00 00 00 00", "7 nop"},
    {64, "66 2e 0f 1f 84 00 00 00 00 00", "10 nop"},
    {64, "66 66 2e 0f 1f 84 00 00 00 00 00", "11 nop"},
    {64, "2e 66 0f 1f 84 00 00 00 00 00", "10 nop"},
    {64, "66 87 c0", "3 nop"},
    {64, "87 c0", "2 plain"},
    {64, "48 8d 76 00", "4 nop"},
    {64, "8d 76 00", "3 plain"},
    {64, "48 8d 77 00", "4 plain"},
    {64, "4d 8d 76 00", "4 nop"},
    {64, "4c 8d 76 00", "4 plain"},
    {64, "49 8d 6d 00", "4 plain"},
    {64, "4d 8d 6d 00", "4 nop"},
    {64, "4d 8d 2d 00 00 00 00", "7 plain @401007"},
    {64, "48 89 f6", "3 nop"},
    {64, "89 f6", "2 plain"},
    {64, "f3 0f 1e fa", "4 plain"},
    {64, "f3 0f 1e fb", "4 plain"},
    {64, "cc", "1 stop"},
    {64, "0f 0b", "2 stop"},
    {64, "f4", "1 stop"},
    {64, "cd 80", "2 syscall"},
    {64, "cd 29", "2 plain"},
    {64, "0f 05", "2 syscall"},
    {64, "0f 34", "2 syscall pc-read"},
    {64, "eb fe", "2 jmp ->401000"},
    {64, "e9 fb 0f 00 00", "5 jmp ->402000"},
    {64, "f2 e9 fa 0f 00 00", "6 jmp ->402000"},
    {64, "74 10", "2 jcc ->401012"},
    {64, "0f 84 fa ff ff ff", "6 jcc ->401000"},
    {64, "e2 10", "2 loop ->401012"},
    {64, "67 e3 10", "3 loop ->401013"},
    {64, "e8 fb 0f 00 00", "5 call ->402000"},
    {64, "67 e8 fa 0f 00 00", "6 call ->402000"},
    {64, "66 66 48 e8 f8 0f 00 00", "8 call ->402000"},
    {64, "66 e8 fa 0f 00 00", "6 call ->402000 short-operand"},
    {64, "ff d0", "2 call-indirect"},
    {64, "41 ff d4", "3 call-indirect"},
    {64, "ff d4", "2 call-indirect stack-target"},
    {64, "ff 15 fa 0f 00 00", "6 call-indirect @402000"},
    {64, "66 48 ff 15 f8 0f 00 00", "8 call-indirect @402000"},
    {64, "ff e0", "2 jmp-indirect"},
    {64, "3e ff e0", "3 jmp-indirect"},
    {64, "ff 25 fa 0f 00 00", "6 jmp-indirect @402000"},
    {64, "66 ff e0", "3 jmp-indirect short-operand"},
    {64, "c3", "1 ret"},
    {64, "f3 c3", "2 ret"},
    {64, "c2 08 00", "3 ret"},
    {64, "66 c3", "2 ret short-operand"},
    {64, "cb", "1 ret far-transfer"},
    {64, "48 cf", "2 ret far-transfer"},
    {64, "ff 18", "2 call-indirect far-transfer"},
    {64, "ff 28", "2 jmp-indirect far-transfer"},
    {64, "c7 f8 00 00 00 00", "6 jcc ->401006 transaction"},
    {64, "0f 01 d5", "3 plain transaction"},
    {64, "c6 f8 00", "3 plain transaction"},
    {64, "0f 01 d6", "3 plain"},
    {64, "0f 01 d7", "3 plain pc-read"},
    {64, "fa", "1 plain"},
    {64, "0f 30", "2 plain"},
    {64, "48 8b 05 f9 0f 00 00", "7 plain @402000"},
    {64, "48 c7 05 f5 0f 00 00 01 00 00 00", "11 plain @402000"},
    {64, "62 f1 7c 48 58 05 f6 0f 00 00", "10 plain @402000"},
    {64, "67 8b 05 f9 ff bf ff", "7 plain @1000"},
    {64, "67 8b 05 f8 ef bf ff", "7 plain @ffffffff"},
    {64, "c5 fc 84 00 00 00 00", "undecodable"},
    {64, "06", "undecodable"},
    {64, "e8 00 00", "truncated"},
    {64, "66", "truncated"},
    {32, "90", "1 nop"},
    {32, "66 90", "2 nop"},
    {32, "8d 76 00", "3 nop"},
    {32, "8d b6 00 00 00 00", "6 nop"},
    {32, "8d 74 26 00", "4 nop"},
    {32, "8d b4 26 00 00 00 00", "7 nop"},
    {32, "2e 8d b4 26 00 00 00 00", "8 nop"},
    {32, "2e 8d 74 26 00", "5 nop"},
    {32, "8d bc 27 00 00 00 00", "7 nop"},
    {32, "8d 74 26 01", "4 plain"},
    {32, "8d 74 16 00", "4 plain"},
    {32, "8d 35 00 00 00 00", "6 plain"},
    {32, "8d 6d 00", "3 nop"},
    {32, "89 f6", "2 nop"},
    {32, "8b ff", "2 nop"},
    {32, "89 f7", "2 plain"},
    {32, "f3 0f 1e fb", "4 plain"},
    {32, "e8 fb 0f 00 00", "5 call ->402000"},
    {32, "e9 fb ef bf ff", "5 jmp ->0"},
    {32, "66 e8 00 00", "4 call ->401004 short-operand"},
    {32, "8b 05 00 00 00 00", "6 plain"},
    {32, "65 ff 15 10 00 00 00", "7 call-indirect"},
    {32, "0f 05", "2 syscall pc-read"},
    {32, "0f 34", "2 syscall pc-read"},
    {32, "cd 80", "2 syscall"},
    {32, "9a 00 00 00 00 33 00", "7 call-indirect far-transfer"},
    {32, "ea 00 00 00 00 33 00", "7 jmp-indirect far-transfer"},
};

static void check_decoding(int mode, const char *bytes, const char *want)
{
    uint8_t raw[32];
    struct insn insn;
    char got[200];
    unsigned size = from_hex(bytes, raw);
    enum insn_reason reason = insn_decode(mode, raw, size, 0x401000, &insn);
    if (reason != INSN_OK) {
        snprintf(got, sizeof got, "%s", insn_reason_name(reason));
    } else {
        int n = snprintf(got, sizeof got, "%u %s", insn.length, kind_names[insn.kind]);
        if (insn.kind == INSN_JMP || insn.kind == INSN_JCC || insn.kind == INSN_LOOP || insn.kind == INSN_CALL)
            n += snprintf(got + n, sizeof got - (size_t)n, " ->%lx", (unsigned long)insn.target_va);
        if (insn.flags & INSN_PC_RELATIVE)
            n += snprintf(got + n, sizeof got - (size_t)n, " @%lx", (unsigned long)insn.memory_va);
        if (insn.refusal != INSN_OK)
            snprintf(got + n, sizeof got - (size_t)n, " %s", insn_reason_name(insn.refusal));
        if (insn.va != 0x401000 || insn.mode != mode || memcmp(insn.bytes, raw, insn.length))
            expect("decode", bytes, "va, mode, bytes", "as given", "changed");
    }
    if (print_only)
        printf("    {%d, \"%s\", \"%s\"},\n", mode, bytes, got);
    expect(mode == 64 ? "decode 64" : "decode 32", bytes, "kind", want, got);
}

/* ==== copies ==== */

#define HIGH 0x7f1234560000ull
#define TAKEN_FLAG 1 /* insn_relocate_taken() to copy_va + 0x1000 */

/* `steps`: offset:pc-va:sp_undo of each step; "ends" if the copy does not fall through. */
static const struct {
    int mode, taken;
    uint64_t va, copy_va;
    const char *bytes, *copy, *steps;
} copies[] = {
    /* as they are */
    {64, 0, 0x401000, HIGH, "48 89 e5", "48 89 e5", "0:0:0"},
    {64, 0, 0x401000, HIGH, "c3", "c3", "0:0:0 ends"},
    {64, 0, 0x401000, HIGH, "ff e0", "ff e0", "0:0:0 ends"},
    {64, 0, 0x401000, HIGH, "cc", "cc", "0:0:0"},
    {64, 0, 0x401000, HIGH, "cd 80", "cd 80", "0:0:0"},
    {64, 0, 0x401000, HIGH, "0f 1f 05 00 00 00 00", "0f 1f 05 00 00 00 00", "0:0:0"},
    /* RIP-relative operands, the last byte of the displacement not always the last of the instruction */
    {64, 0, 0x401000, 0x500000, "48 8b 05 f9 0f 00 00", "48 8b 05 f9 1f f0 ff", "0:0:0"},
    {64, 0, 0x401000, 0x500000, "48 c7 05 f5 0f 00 00 01 00 00 00", "48 c7 05 f5 1f f0 ff 01 00 00 00", "0:0:0"},
    {64, 0, 0x401000, 0x500000, "ff 25 fa 0f 00 00", "ff 25 fa 1f f0 ff", "0:0:0 ends"},
    {64, 0, 0x401000, 0x80402006, "48 8b 05 f9 0f 00 00", "out-of-reach", ""},
    {64, 0, 0x401000, 0x80401ff9, "48 8b 05 f9 0f 00 00", "48 8b 05 00 00 00 80", "0:0:0"},
    {64, 0, 0x401000, HIGH, "67 8b 05 f9 ff bf ff", "67 8b 05 f9 0f aa cb", "0:0:0"},
    /* branches */
    {64, 0, 0x401000, 0x500000, "eb 10", "e9 0d 10 f0 ff", "0:0:0 ends"},
    {64, 0, 0x401000, 0x500000, "e9 fb 0f 00 00", "e9 fb 1f f0 ff", "0:0:0 ends"},
    {64, 0, 0x401000, 0x500000, "f2 e9 fa 0f 00 00", "f2 e9 fa 1f f0 ff", "0:0:0 ends"},
    {64, 0, 0x401000, 0x500000, "74 10", "0f 84 0c 10 f0 ff", "0:0:0"},
    {64, 0, 0x401000, 0x500000, "2e 0f 8f f9 ff ff ff", "0f 8f fa 0f f0 ff", "0:0:0"},
    {64, 0, 0x401000, 0x500000, "e2 10", "e2 02 eb 05 e9 09 10 f0 ff", "0:0:0 2:2:0 4:12:0"},
    {64, 0, 0x401000, 0x500000, "67 e3 10", "67 e3 02 eb 05 e9 09 10 f0 ff", "0:0:0 3:3:0 5:13:0"},
    {64, 0, 0x401000, 0x500000, "f3 e0 10", "f3 e0 02 eb 05 e9 09 10 f0 ff", "0:0:0 3:3:0 5:13:0"},
    {64, 0, 0x401000, HIGH, "eb 10", "out-of-reach", ""},
    {64, TAKEN_FLAG, 0x401000, 0x500000, "74 10", "0f 84 fa 0f 00 00", "0:0:0"},
    {64, TAKEN_FLAG, 0x401000, HIGH, "74 10", "0f 84 fa 0f 00 00", "0:0:0"},
    {64, TAKEN_FLAG, 0x401000, 0x500000, "e3 10", "e3 02 eb 05 e9 f7 0f 00 00", "0:0:0 2:2:0 4:12:0"},
    {64, TAKEN_FLAG, 0x401000, 0x500000, "eb 10", "undecodable", ""},
    /* calls: the return address below 2 GB, between 2 and 4 GB, above */
    {64, 0, 0x401000, 0x500000, "e8 fb 0f 00 00", "68 05 10 40 00 e9 f6 1f f0 ff", "0:0:0 5:0:8 ends"},
    {64, 0, 0x80001000, 0x80100000, "e8 fb 0f 00 00", "68 05 10 00 80 c7 44 24 04 00 00 00 00 e9 ee 1f f0 ff", "0:0:0 5:0:8 13:0:8 ends"},
    {64, 0, HIGH, HIGH + 0x100000, "e8 00 00 00 00", "68 05 00 56 34 c7 44 24 04 12 7f 00 00 e9 f3 ff ef ff", "0:0:0 5:0:8 13:0:8 ends"},
    {64, 0, HIGH, HIGH + 0x100000, "66 66 48 e8 00 00 00 00", "68 08 00 56 34 c7 44 24 04 12 7f 00 00 e9 f6 ff ef ff",
     "0:0:0 5:0:8 13:0:8 ends"},
    {64, 0, HIGH, 0x500000, "ff d0", "68 02 00 56 34 c7 44 24 04 12 7f 00 00 ff e0", "0:0:0 5:0:8 13:0:8 ends"},
    {64, 0, 0x401000, HIGH, "41 ff d4", "68 03 10 40 00 41 ff e4", "0:0:0 5:0:8 ends"},
    {64, 0, 0x401000, HIGH, "3e ff d0", "68 03 10 40 00 3e ff e0", "0:0:0 5:0:8 ends"},
    {64, 0, 0x401000, HIGH, "f2 ff d0", "68 03 10 40 00 f2 ff e0", "0:0:0 5:0:8 ends"},
    {64, 0, 0x401000, HIGH, "41 f2 ff d1", "68 04 10 40 00 f2 ff e1", "0:0:0 5:0:8 ends"},
    {64, 0, 0x401000, HIGH, "ff d4", "stack-target", ""},
    {64, 0, 0x401000, HIGH, "ff 10", "ff 30 8f 44 24 f0 68 02 10 40 00 ff 64 24 f8", "0:0:0 2:0:8 6:0:0 11:0:8 ends"},
    {64, 0, HIGH, 0x500000, "ff 50 18", "ff 70 18 8f 44 24 f0 68 03 00 56 34 c7 44 24 04 12 7f 00 00 ff 64 24 f8",
     "0:0:0 3:0:8 7:0:0 12:0:8 20:0:8 ends"},
    {64, 0, 0x401000, HIGH, "ff 14 24", "ff 34 24 8f 44 24 f0 68 03 10 40 00 ff 64 24 f8", "0:0:0 3:0:8 7:0:0 12:0:8 ends"},
    {64, 0, 0x401000, HIGH, "ff 54 24 7c", "ff 74 24 7c 8f 44 24 f0 68 04 10 40 00 ff 64 24 f8", "0:0:0 4:0:8 8:0:0 13:0:8 ends"},
    {64, 0, 0x401000, HIGH, "64 41 ff 54 cc 10", "64 41 ff 74 cc 10 8f 44 24 f0 68 06 10 40 00 ff 64 24 f8",
     "0:0:0 6:0:8 10:0:0 15:0:8 ends"},
    {64, 0, 0x401000, HIGH, "3e ff 10", "3e ff 30 8f 44 24 f0 68 03 10 40 00 3e ff 64 24 f8", "0:0:0 3:0:8 7:0:0 12:0:8 ends"},
    {64, 0, 0x401000, 0x500000, "ff 15 fa 0f 00 00", "ff 35 fa 1f f0 ff 8f 44 24 f0 68 06 10 40 00 ff 64 24 f8",
     "0:0:0 6:0:8 10:0:0 15:0:8 ends"},
    {64, 0, 0x401000, 0x500000, "66 48 ff 15 f8 0f 00 00", "48 ff 35 f9 1f f0 ff 8f 44 24 f0 68 08 10 40 00 ff 64 24 f8",
     "0:0:0 7:0:8 11:0:0 16:0:8 ends"},
    {64, 0, 0x401000, HIGH, "ff 15 fa 0f 00 00", "out-of-reach", ""},
    /* syscalls */
    {64, 0, 0x401000, HIGH, "0f 05", "0f 05 b9 02 10 40 00", "0:0:0 2:2:0"},
    {64, 0, HIGH, 0x500000, "0f 05", "0f 05 48 b9 02 00 56 34 12 7f 00 00", "0:0:0 2:2:0"},
    {64, 0, 0x401000, HIGH, "48 0f 05", "0f 05 b9 03 10 40 00", "0:0:0 2:3:0"},
    {64, 0, 0x401000, HIGH, "0f 34", "pc-read", ""},
    {64, 0, 0x401000, HIGH, "66 c3", "short-operand", ""},
    {64, 0, 0x401000, HIGH, "cb", "far-transfer", ""},
    {64, 0, 0x401000, HIGH, "0f 01 d5", "transaction", ""},
    /* 32-bit mode: everything is within reach */
    {32, 0, 0x08049000, 0xf7000000, "89 e5", "89 e5", "0:0:0"},
    {32, 0, 0x08049000, 0xf7000000, "8b 05 f9 0f 00 00", "8b 05 f9 0f 00 00", "0:0:0"},
    {32, 0, 0x08049000, 0xf7000000, "eb 10", "e9 0d 90 04 11", "0:0:0 ends"},
    {32, 0, 0xf7000000, 0x08049000, "75 fe", "0f 85 fa 6f fb ee", "0:0:0"},
    {32, 0, 0x08049000, 0xf7000000, "e3 10", "e3 02 eb 05 e9 09 90 04 11", "0:0:0 2:2:0 4:12:0"},
    {32, 0, 0x08049000, 0xf7000000, "e8 00 00 00 00", "68 05 90 04 08 e9 fb 8f 04 11", "0:0:0 5:0:4 ends"},
    {32, 0, 0xf7001000, 0x08049000, "e8 fb 0f 00 00", "68 05 10 00 f7 e9 f6 8f fb ee", "0:0:0 5:0:4 ends"},
    {32, 0, 0x08049000, 0xf7000000, "ff d0", "68 02 90 04 08 ff e0", "0:0:0 5:0:4 ends"},
    {32, 0, 0x08049000, 0xf7000000, "65 ff 15 10 00 00 00", "65 ff 35 10 00 00 00 ff 34 24 c7 44 24 04 07 90 04 08 c3",
     "0:0:0 7:0:4 10:0:8 18:0:8 ends"},
    {32, 0, 0x08049000, 0xf7000000, "ff 14 24", "ff 34 24 ff 34 24 c7 44 24 04 03 90 04 08 c3", "0:0:0 3:0:4 6:0:8 14:0:8 ends"},
    {32, 0, 0x08049000, 0xf7000000, "67 ff 17", "67 ff 37 ff 34 24 c7 44 24 04 03 90 04 08 c3", "0:0:0 3:0:4 6:0:8 14:0:8 ends"},
    {32, 0, 0x08049000, 0xf7000000, "cd 80", "cd 80", "0:0:0"},
    {32, 0, 0x08049000, 0xf7000000, "66 e8 00 00", "short-operand", ""},
    {32, 0, 0x08049000, 0xf7000000, "0f 34", "pc-read", ""},
    {32, TAKEN_FLAG, 0x08049000, 0xf7000000, "74 10", "0f 84 fa 0f 00 00", "0:0:0"},
};

static void check_copy(unsigned i)
{
    uint8_t raw[32];
    struct insn insn;
    struct insn_copy copy = {0};
    char got[3 * INSN_COPY_MAX_BYTES + 1], steps[INSN_COPY_MAX_STEPS * 40] = "";
    unsigned size = from_hex(copies[i].bytes, raw);
    enum insn_reason reason = insn_decode(copies[i].mode, raw, size, copies[i].va, &insn);
    if (reason == INSN_OK && copies[i].taken)
        reason = insn_relocate_taken(&insn, copies[i].copy_va, copies[i].copy_va + 0x1000, &copy);
    else if (reason == INSN_OK)
        reason = insn_relocate(&insn, copies[i].copy_va, &copy);

    if (reason != INSN_OK) {
        snprintf(got, sizeof got, "%s", insn_reason_name(reason));
    } else {
        char *p = steps;
        to_hex(copy.bytes, copy.length, got);
        for (unsigned s = 0; s < copy.step_count; s++)
            p += sprintf(p, "%s%u:%lx:%u", s ? " " : "", copy.step[s].offset, (unsigned long)(copy.step[s].pc_va - copies[i].va),
                         copy.step[s].sp_undo);
        if (!copy.falls_through)
            strcpy(p, " ends");
    }
    if (print_only)
        printf("    {%d, %d, %#lx, %#lx, \"%s\", \"%s\", \"%s\"},\n", copies[i].mode, copies[i].taken, (unsigned long)copies[i].va,
               (unsigned long)copies[i].copy_va, copies[i].bytes, got, steps);
    const char *what = copies[i].mode == 64 ? "copy 64" : "copy 32";
    expect(what, copies[i].bytes, "bytes", copies[i].copy, got);
    expect(what, copies[i].bytes, "steps", copies[i].steps, steps);
}

/* ==== scans ==== */

static void found(void *context, uint64_t from_va, uint64_t va)
{
    (void)from_va;
    char *text = context;
    sprintf(text + strlen(text), "%s%lx", *text ? " " : "", (unsigned long)va);
}

typedef void scan_fn(const uint8_t *, size_t, uint64_t, enum insn_mode, insn_found_fn *, void *);

static void check_scan(const char *name, scan_fn *scan, enum insn_mode mode, const char *bytes, const char *want)
{
    uint8_t raw[64];
    char got[200] = "";
    unsigned size = from_hex(bytes, raw);
    scan(raw, size, 0x1000, mode, found, got);
    if (print_only)
        printf("%s %s: %s\n", name, bytes, got);
    expect(name, bytes, "found", want, got);
}

static void check_scans(void)
{
    check_scan("branches", insn_scan_branches, INSN_MODE_64, "90 e9 10 00 00 00 0f 85 fa ff ff ff", "1016 1006");
    check_scan("branches", insn_scan_branches, INSN_MODE_64, "e9 00 00 00", "");
    check_scan("branches", insn_scan_branches, INSN_MODE_64, "0f 84 00 00 00", "");
    check_scan("branches", insn_scan_branches, INSN_MODE_64, "0f 84 00 00 00 00", "1006");
    check_scan("branches", insn_scan_branches, INSN_MODE_64, "e9 00 f0 ff ff", "5");
    check_scan("branches", insn_scan_branches, INSN_MODE_32, "e9 00 e0 ff ff", "fffff005");
    check_scan("short branches", insn_scan_short_branches, INSN_MODE_64, "90 eb 10 74 fd e3 00 e4", "1013 1002 1007");
    check_scan("short branches", insn_scan_short_branches, INSN_MODE_64, "eb", "");
    check_scan("lea", insn_scan_lea, INSN_MODE_64, "48 8d 05 01 00 00 00 8d 3d 00 00 00 00", "1008 100d");
    check_scan("lea", insn_scan_lea, INSN_MODE_64, "48 8d 44 01 00 00 00", "");
    check_scan("lea", insn_scan_lea, INSN_MODE_64, "8d 05 00 00 00", "");
    check_scan("lea", insn_scan_lea, INSN_MODE_32, "48 8d 05 01 00 00 00", "");
}

int main(int argc, char **argv)
{
    print_only = argc == 2 && strcmp(argv[1], "--print") == 0;
    for (unsigned i = 0; i < sizeof decodings / sizeof *decodings; i++)
        check_decoding(decodings[i].mode, decodings[i].bytes, decodings[i].want);
    for (unsigned i = 0; i < sizeof copies / sizeof *copies; i++)
        check_copy(i);
    check_scans();
    for (unsigned i = 0; i < INSN_REASON_COUNT; i++)
        for (const char *p = insn_reason_name(i); *p; p++)
            if (!(*p == '-' || (*p >= 'a' && *p <= 'z')))
                expect("reason", insn_reason_name(i), "letters", "a-z and '-'", insn_reason_name(i));
    expect("reason", "short-operand", "name", "short-operand", insn_reason_name(INSN_SHORT_OPERAND));
    expect("reason", "out of range", "name", "?", insn_reason_name(INSN_REASON_COUNT));
    printf("insn_golden: %u checks, %u failed\n", checks, failures);
    return failures ? 1 : 0;
}
