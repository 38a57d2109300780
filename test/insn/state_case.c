/* Makes cases. Instructions come from the whole opcode space: random prefixes and opcodes of every map through the decoder, so that no
 * class can be forgotten, evened out by a catalogue of what was found (half of the cases choose a mnemonic first). Then the operands are
 * bent so that most accesses succeed and most branches land on a stub; the rest fault. */
#include "state.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CATALOGUE_DEPTH = 6, CATALOGUE_TRIES = 1500000, POOL_IMAGES = 48, POOL_MEMORIES = 24, PROBES = 60 };

enum { FLAG_ALWAYS = 0x202, FLAG_ARITHMETIC = 0x8d5, FLAG_DIRECTION = 0x400, FLAG_NT = 0x4000, FLAG_AC = 0x40000, FLAG_ID = 0x200000 };

static const struct {
    ZydisMnemonic mnemonic;
    const char *why;
} exclusions[] = {
    {ZYDIS_MNEMONIC_WRFSBASE, "moves the base under the data that the next case expects"},
    {ZYDIS_MNEMONIC_WRGSBASE, "moves the base under the data that the next case expects"},
    {ZYDIS_MNEMONIC_LDS, "loads a segment register"},
    {ZYDIS_MNEMONIC_LES, "loads a segment register"},
    {ZYDIS_MNEMONIC_LFS, "loads a segment register"},
    {ZYDIS_MNEMONIC_LGS, "loads a segment register"},
    {ZYDIS_MNEMONIC_LSS, "loads a segment register"},
    {ZYDIS_MNEMONIC_MONITORX, "arms a wait whose end depends on other processors"},
    {ZYDIS_MNEMONIC_MWAITX, "waits for another processor"},
    {ZYDIS_MNEMONIC_UMONITOR, "arms a wait whose end depends on other processors"},
    {ZYDIS_MNEMONIC_UMWAIT, "waits for another processor"},
    {ZYDIS_MNEMONIC_TPAUSE, "waits for a time"},
    {ZYDIS_MNEMONIC_VMCALL, "asks the hypervisor for something"},
    {ZYDIS_MNEMONIC_VMMCALL, "asks the hypervisor for something"},
    {ZYDIS_MNEMONIC_VMFUNC, "changes the memory that the guest sees"},
    {ZYDIS_MNEMONIC_WRPKRU, "takes the test's own memory away"},
};

static enum insn_mode mode;
static uint64_t seed;
static ZydisDecoder decoder;
static uint8_t catalogue[ZYDIS_MNEMONIC_MAX_VALUE + 1][CATALOGUE_DEPTH][15];
static uint8_t catalogue_depth[ZYDIS_MNEMONIC_MAX_VALUE + 1];
static uint16_t known[ZYDIS_MNEMONIC_MAX_VALUE + 1];
static unsigned known_count;
static bool unsupported[ZYDIS_ISA_SET_MAX_VALUE + 1];
static uint8_t images[POOL_IMAGES][STATE_XSAVE_BYTES] __attribute__((aligned(64)));
static uint8_t memories[2][POOL_MEMORIES][STATE_MEMORY_BYTES];
static uint64_t excluded;

/* ==== numbers ==== */

static uint64_t random_state;

static uint64_t any(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static unsigned below(unsigned limit)
{
    return (unsigned)((any() >> 32) * limit >> 32);
}

static bool percent(unsigned chance)
{
    return below(100) < chance;
}

/* ==== bytes ==== */

static void random_bytes(uint8_t *out)
{
    static const uint8_t prefixes[] = {0x66, 0x66, 0xf2, 0xf2, 0xf3, 0xf3, 0x67, 0x2e, 0x3e, 0x64, 0x65, 0x26, 0x36, 0xf0, 0xf0};
    uint8_t *p = out;
    for (unsigned i = 0; i < 15; i++)
        out[i] = (uint8_t)any();
    for (unsigned i = 0; i < 3 && percent(25); i++)
        *p++ = prefixes[below(sizeof prefixes)];

    unsigned map = below(100);
    if (map < 62 && mode == INSN_MODE_64 && percent(50))
        *p++ = (uint8_t)(0x40 | below(16));
    uint8_t inverted = mode == INSN_MODE_64 ? 0 : 0xc0; /* the R and X bits that keep VEX and EVEX apart from les, lds and bound */
    uint8_t vvvv = percent(50) ? 0x78 : (uint8_t)(below(16) << 3);
    if (map < 25) {
        ;
    } else if (map < 45) {
        *p++ = 0x0f;
    } else if (map < 53) {
        *p++ = 0x0f;
        *p++ = 0x38;
    } else if (map < 60) {
        *p++ = 0x0f;
        *p++ = 0x3a;
    } else if (map < 62) {
        *p++ = 0x0f;
        *p++ = 0x0f;
    } else if (map < 66) {
        *p++ = 0xc5;
        *p++ = (uint8_t)(inverted | vvvv | (any() & 0x87));
    } else if (map < 78) {
        *p++ = 0xc4;
        *p++ = (uint8_t)(inverted | (any() & 0xe0) | (1 + below(3)));
        *p++ = (uint8_t)(vvvv | (any() & 0x87));
    } else if (map < 80) {
        *p++ = 0x8f;
        *p++ = (uint8_t)(inverted | (any() & 0xe0) | (8 + below(3)));
        *p++ = (uint8_t)(vvvv | (any() & 0x87));
    } else {
        static const uint8_t maps[] = {1, 1, 2, 2, 3, 5, 6};
        *p++ = 0x62;
        *p++ = (uint8_t)(inverted | (any() & 0xf0) | maps[below(sizeof maps)]);
        *p++ = (uint8_t)(vvvv | (any() & 0x83) | 4);
        *p = (uint8_t)any();
        if (percent(60))
            *p = (uint8_t)((*p & 0x6f) | 8); /* no zeroing, no broadcast, V' unused */
    }
}

static bool decode(const uint8_t *bytes, ZydisDecodedInstruction *out)
{
    return ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, bytes, 15, out));
}

static void make_catalogue(void)
{
    uint8_t bytes[15];
    ZydisDecodedInstruction decoded;
    for (unsigned i = 0; i < CATALOGUE_TRIES; i++) {
        random_bytes(bytes);
        if (!decode(bytes, &decoded))
            continue;
        unsigned m = decoded.mnemonic;
        if (catalogue_depth[m] == 0)
            known[known_count++] = (uint16_t)m;
        if (catalogue_depth[m] < CATALOGUE_DEPTH)
            memcpy(catalogue[m][catalogue_depth[m]++], bytes, 15);
    }
}

static void catalogue_bytes(uint8_t *out)
{
    ZydisDecodedInstruction decoded;
    unsigned m = known[below(known_count)];
    memcpy(out, catalogue[m][below(catalogue_depth[m])], 15);
    if (!decode(out, &decoded) || !(decoded.attributes & ZYDIS_ATTRIB_HAS_MODRM))
        return;
    unsigned at = decoded.raw.modrm.offset;
    uint8_t keep = percent(50) ? 0x38 : 0; /* the register field may be part of the opcode */
    out[at] = (uint8_t)((out[at] & keep) | (any() & ~(unsigned)keep));
    for (unsigned i = at + 1u; i < 15; i++)
        out[i] = (uint8_t)any();
}

/* What relocation rewrites, and strings, deserve more than their share of the opcodes. */
static void favoured_bytes(uint8_t *out)
{
    static const uint8_t opcodes[] = {0xe8, 0xe8, 0xe9, 0xeb, 0x70, 0x74, 0x7d, 0xe0, 0xe1, 0xe2, 0xe3, 0xc3, 0xc2, 0xff, 0xff, 0xff,
                                      0xff, 0x0f, 0x0f, 0xa4, 0xa5, 0xa6, 0xa7, 0xaa, 0xab, 0xac, 0xae, 0x8b, 0x89, 0x8d, 0xcd, 0xcc};
    static const uint8_t prefixes[] = {0x66, 0xf2, 0xf3, 0x67, 0x2e, 0x3e, 0x65, 0xf2, 0xf3};
    for (unsigned i = 0; i < 15; i++)
        out[i] = (uint8_t)any();
    uint8_t *p = out;
    for (unsigned i = 0; i < 3 && percent(30); i++)
        *p++ = prefixes[below(sizeof prefixes)];
    if (mode == INSN_MODE_64 && percent(40))
        *p++ = (uint8_t)(0x40 | below(16));
    if (percent(10)) /* takes the effect from a REX before it */
        *p++ = prefixes[below(sizeof prefixes)];
    *p = opcodes[below(sizeof opcodes)];
    switch (*p++) {
    case 0x0f:
        *p = percent(20) ? 0x05 : (uint8_t)(0x80 | below(16));
        break;
    case 0xff:
        *p = (uint8_t)((*p & 0xc7) | (percent(70) ? 2 : 4) << 3);
        if (percent(25)) /* a base of rsp */
            *p = (uint8_t)((*p & 0xf8) | 4);
        else if (percent(25))
            *p = (uint8_t)((*p & 0x38) | 5);
        if (percent(25))
            p[1] = 0x24;
        break;
    case 0x8b:
    case 0x89:
    case 0x8d:
        *p = (uint8_t)((*p & 0x38) | 5);
        break;
    case 0xcd:
        if (percent(70))
            *p = 0x80;
        break;
    default:
        break;
    }
}

/* A lock prefix on random bytes seldom meets an instruction that takes one. */
static void atomic_bytes(uint8_t *out)
{
    static const uint8_t one[] = {0x00, 0x01, 0x09, 0x11, 0x19, 0x21, 0x29, 0x31, 0x80, 0x81, 0x83, 0x86, 0x87, 0xf6, 0xf7, 0xfe, 0xff};
    static const uint8_t two[] = {0xab, 0xb0, 0xb1, 0xb3, 0xba, 0xbb, 0xc0, 0xc1, 0xc7};
    for (unsigned i = 0; i < 15; i++)
        out[i] = (uint8_t)any();
    uint8_t *p = out;
    if (percent(30))
        *p++ = (uint8_t[]){0x66, 0xf2, 0xf3, 0x65}[below(4)];
    *p++ = 0xf0;
    if (mode == INSN_MODE_64 && percent(50))
        *p++ = (uint8_t)(0x40 | below(16));
    if (percent(50)) {
        *p++ = one[below(sizeof one)];
    } else {
        *p++ = 0x0f;
        *p++ = two[below(sizeof two)];
    }
    *p &= 0xbf; /* never a register as destination */
}

static const char *exclusion(const ZydisDecodedInstruction *decoded)
{
    for (unsigned i = 0; i < sizeof exclusions / sizeof *exclusions; i++)
        if (exclusions[i].mnemonic == decoded->mnemonic)
            return exclusions[i].why;
    bool one_byte = decoded->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && decoded->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT;
    bool two_byte = decoded->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && decoded->opcode_map == ZYDIS_OPCODE_MAP_0F;
    uint8_t opcode = decoded->opcode;
    if (one_byte && (opcode == 0x8e || opcode == 0x07 || opcode == 0x17 || opcode == 0x1f))
        return "loads a segment register";
    if (two_byte && (opcode == 0xa1 || opcode == 0xa9))
        return "loads a segment register";
    return NULL;
}

/* ==== memory and vectors ==== */

static uint64_t far_stub(const struct state_arena *arena)
{
    return arena->far_va + below(STATE_FAR_STUBS) * 64;
}

static void make_memory(const struct state_arena *arena, uint8_t *out)
{
    unsigned word = mode == INSN_MODE_64 ? 8 : 4;
    for (unsigned i = 0; i < STATE_MEMORY_BYTES; i += word) {
        uint64_t value = any();
        switch (below(8)) {
        case 0:
        case 1:
            value = far_stub(arena);
            break;
        case 2:
            value = arena->data_va + below(STATE_DATA_BYTES);
            break;
        case 3:
            value &= 0xff;
            break;
        case 4: /* an ordinary double */
            value = (value & 0x800fffffffffffff) | (uint64_t)(1000 + below(50)) << 52;
            break;
        default:
            break;
        }
        memcpy(out + i, &value, word);
    }
}

static void make_image(uint8_t *image, bool small)
{
    for (unsigned i = 0; i < STATE_XSAVE_BYTES; i += 4) {
        uint32_t value = (uint32_t)any();
        if (small)
            value = (i & 4) ? 0 : below(200);
        else if (percent(40)) /* an ordinary float */
            value = (value & 0x807fffff) | (110 + below(30)) << 23;
        memcpy(image + i, &value, 4);
    }
    memset(image, 0, 32);
    memset(image + 416, 0, 160); /* reserved and the header */
    uint16_t control = percent(85) ? (uint16_t)(0x37f | below(16) << 8) : (uint16_t)(any() & 0x1f7f);
    uint16_t status = (uint16_t)(below(8) << 11 | (percent(20) ? any() & 0x477f : 0));
    uint32_t mxcsr = percent(85) ? 0x1f80 | (below(4) << 13) : (uint32_t)(any() & 0xffff);
    uint64_t features = state_run_xfeatures();
    memcpy(image, &control, 2);
    memcpy(image + 2, &status, 2);
    image[4] = percent(50) ? 0xff : (uint8_t)any();
    memcpy(image + 24, &mxcsr, 4);
    for (unsigned i = 0; i < 8; i++) {
        uint8_t *st = image + 32 + 16 * i;
        uint16_t exponent = (uint16_t)(0x3fe0 + below(64));
        if (percent(70)) {
            st[7] |= 0x80;
            memcpy(st + 8, &exponent, 2);
        }
        memset(st + 10, 0, 6);
    }
    memcpy(image + 512, &features, 8);
}

/* ==== registers ==== */

static uint64_t random_register(const struct state_arena *arena)
{
    uint64_t value = any();
    switch (below(10)) {
    case 0:
    case 1:
    case 2:
        return arena->data_va + below(STATE_DATA_BYTES);
    case 3:
    case 4:
        return below(64);
    case 5:
        return far_stub(arena);
    case 6: /* all lengths of numbers, both signs */
        value >>= below(64);
        return percent(50) ? value : ~value;
    default:
        return value;
    }
}

static int gpr_of(ZydisRegister reg)
{
    if (reg == ZYDIS_REGISTER_NONE || ZydisRegisterGetClass(reg) == ZYDIS_REGCLASS_IP)
        return -1;
    ZydisRegisterClass class = ZydisRegisterGetClass(reg);
    if (class != ZYDIS_REGCLASS_GPR64 && class != ZYDIS_REGCLASS_GPR32 && class != ZYDIS_REGCLASS_GPR16)
        return -1;
    return ZydisRegisterGetId(reg);
}

static uint64_t segment_base(const struct state_case *c, ZydisRegister segment)
{
    bool based = segment == ZYDIS_REGISTER_GS || (segment == ZYDIS_REGISTER_FS && mode == INSN_MODE_64);
    return based ? c->arena->data_va : 0;
}

static uint64_t width_mask(unsigned bits)
{
    return bits >= 64 ? UINT64_MAX : (1ull << bits) - 1;
}

/* The effective address of an operand with general registers. */
static uint64_t operand_va(const struct state_case *c, const ZydisDecodedOperand *op)
{
    int base = gpr_of(op->mem.base), index = gpr_of(op->mem.index);
    uint64_t va = op->mem.disp.has_displacement ? (uint64_t)op->mem.disp.value : 0;
    if (c->insn.flags & INSN_PC_RELATIVE && op->mem.base != ZYDIS_REGISTER_NONE && base < 0)
        return c->insn.memory_va + segment_base(c, op->mem.segment);
    if (base >= 0)
        va += c->gpr[base];
    if (index >= 0)
        va += c->gpr[index] * op->mem.scale;
    va &= width_mask(c->decoded.address_width);
    va += segment_base(c, op->mem.segment);
    return mode == INSN_MODE_32 ? (uint32_t)va : va;
}

/* Where `va` lies in the memory image of the case, or NULL. */
static uint8_t *image_at(struct state_case *c, uint64_t va, unsigned bytes)
{
    uint64_t data = va - c->arena->data_va, stack = va - c->arena->stack_va;
    if (data <= STATE_DATA_BYTES - bytes)
        return c->memory + data;
    if (stack <= STATE_STACK_BYTES - bytes)
        return c->memory + STATE_DATA_BYTES + stack;
    return NULL;
}

static void put_word(struct state_case *c, uint64_t va, uint64_t value)
{
    unsigned word = mode == INSN_MODE_64 ? 8 : 4;
    uint8_t *at = image_at(c, va, word);
    if (at)
        memcpy(at, &value, word);
}

/* Solves for the registers that bring the operand into the data. */
static void aim_operand(struct state_case *c, const ZydisDecodedOperand *op)
{
    static const unsigned alignments[] = {64, 64, 64, 16, 8, 4, 1, 1};
    int base = gpr_of(op->mem.base), index = gpr_of(op->mem.index);
    uint64_t where = c->arena->data_va + (below(STATE_DATA_BYTES) & ~(alignments[below(8)] - 1u));
    where -= segment_base(c, op->mem.segment);
    uint64_t disp = op->mem.disp.has_displacement ? (uint64_t)op->mem.disp.value : 0;
    uint64_t scale = op->mem.scale ? op->mem.scale : 1;
    if (base == RSP)
        return;
    if (index >= 0 && index != base && index != RSP) {
        c->gpr[index] = below(64);
        disp += c->gpr[index] * scale;
    }
    if (base >= 0)
        c->gpr[base] = base == index ? (where - disp) / (1 + scale) : where - disp;
    else if (index >= 0 && index != RSP)
        c->gpr[index] = (where - (disp - c->gpr[index] * scale)) / scale;
}

static void make_registers(struct state_case *c, const ZydisDecodedOperand *ops, unsigned count)
{
    const ZydisDecodedInstruction *decoded = &c->decoded;
    const struct state_arena *arena = c->arena;
    unsigned word = mode == INSN_MODE_64 ? 8 : 4;
    bool vsib = false;

    for (unsigned i = 0; i < 16; i++)
        c->gpr[i] = random_register(arena);
    if (percent(92))
        c->gpr[RSP] = arena->stack_va + STATE_STACK_BYTES / 2 + (below(1024) & ~(percent(90) ? word - 1u : 0u));
    c->flags = FLAG_ALWAYS | (any() & (FLAG_ARITHMETIC | FLAG_ID)) | (percent(25) ? FLAG_DIRECTION : 0) | (percent(2) ? FLAG_NT : 0) |
               (percent(2) ? FLAG_AC : 0);

    for (unsigned i = 0; i < count; i++) {
        if (ops[i].type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        vsib |= ops[i].mem.type == ZYDIS_MEMOP_TYPE_VSIB;
        if (percent(88))
            aim_operand(c, &ops[i]);
    }
    if (decoded->attributes & (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE) && percent(85))
        c->gpr[RCX] = below(40);
    if (c->insn.kind == INSN_LOOP && percent(60))
        c->gpr[RCX] = below(3) | (percent(30) ? any() << 32 : 0);

    /* Vector indices must be small to hit the data. */
    c->xsave = images[vsib && percent(80) ? below(POOL_IMAGES / 4) : below(POOL_IMAGES)];

    switch (decoded->mnemonic) {
    case ZYDIS_MNEMONIC_BT:
    case ZYDIS_MNEMONIC_BTC:
    case ZYDIS_MNEMONIC_BTR:
    case ZYDIS_MNEMONIC_BTS:
        if (ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY && ops[1].type == ZYDIS_OPERAND_TYPE_REGISTER && percent(70)) {
            int reg = gpr_of(ops[1].reg.value);
            if (reg >= 0 && reg != RSP && reg != gpr_of(ops[0].mem.base) && reg != gpr_of(ops[0].mem.index))
                c->gpr[reg] = below(256);
        }
        break;
    case ZYDIS_MNEMONIC_SYSCALL:
        c->gpr[RAX] = percent(50) ? 39 : 0x10000 + below(1000); /* getpid, or a number that does not exist */
        break;
    case ZYDIS_MNEMONIC_INT:
        c->gpr[RAX] = percent(50) ? 20 : 0x10000 + below(1000);
        break;
    /* Components the test does not know, such as protection keys, stay as they are. */
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
    case ZYDIS_MNEMONIC_XRSTORS:
    case ZYDIS_MNEMONIC_XRSTORS64:
        c->gpr[RAX] &= state_run_xfeatures();
        c->gpr[RDX] = 0;
        break;
    default:
        break;
    }
    if (mode == INSN_MODE_32)
        for (unsigned i = 0; i < 16; i++)
            c->gpr[i] = i < 8 ? (uint32_t)c->gpr[i] : 0;
}

/* What the instruction finds in memory. Runs when the registers are final. */
static void make_operand_memory(struct state_case *c, const ZydisDecodedOperand *ops, unsigned count)
{
    bool branch = c->insn.kind == INSN_CALL_INDIRECT || c->insn.kind == INSN_JMP_INDIRECT;
    bool restore = strstr(ZydisMnemonicGetString(c->decoded.mnemonic), "xrstor") != NULL;

    /* The copy of a call through memory needs one word more of stack than the call (insn.h, c). */
    if (c->insn.kind == INSN_CALL_INDIRECT && image_at(c, c->gpr[RSP] - 8, 8) && !image_at(c, c->gpr[RSP] - 16, 16))
        c->gpr[RSP] += 64;
    c->operand_va = count && ops[0].type == ZYDIS_OPERAND_TYPE_MEMORY ? operand_va(c, &ops[0]) : 0;
    if (branch && c->operand_va && percent(88))
        put_word(c, c->operand_va, far_stub(c->arena));
    if (branch && count && ops[0].type == ZYDIS_OPERAND_TYPE_REGISTER && gpr_of(ops[0].reg.value) >= 0 && percent(88))
        c->gpr[gpr_of(ops[0].reg.value)] = far_stub(c->arena);
    if (c->insn.kind == INSN_RET && percent(88))
        put_word(c, c->gpr[RSP], far_stub(c->arena));
    if (restore && c->operand_va && percent(75)) {
        uint8_t *at = image_at(c, c->operand_va, 2696);
        if (at)
            memcpy(at, images[below(POOL_IMAGES)], 2696);
    }
    /* A trace trap would hit the jump after the copy, but the stub after the native instruction. */
    if (c->decoded.mnemonic == ZYDIS_MNEMONIC_POPF || c->decoded.mnemonic == ZYDIS_MNEMONIC_POPFD ||
        c->decoded.mnemonic == ZYDIS_MNEMONIC_POPFQ) {
        uint8_t *at = image_at(c, c->gpr[RSP] + 1, 1);
        if (at)
            *at &= 0xfe;
        else
            c->gpr[RSP] = 8; /* code pages can be read too */
    }
}

/* ==== cases ==== */

/* Bends displacements in the bytes: branches go to stubs, RIP-relative operands to the data. */
static void aim_bytes(struct state_case *c, uint64_t va, uint8_t *bytes)
{
    const ZydisDecodedInstruction *decoded = &c->decoded;
    const ZydisDecodedInstructionRaw *raw = &decoded->raw;
    uint64_t next = va + decoded->length;

    if (raw->imm[0].is_relative && raw->imm[0].size == 8) {
        static const int near[] = {-STATE_NEAR_BEFORE, STATE_NEAR_AFTER};
        unsigned which = below(5);
        bytes[raw->imm[0].offset] = which == 4 ? 0 : (uint8_t)(near[which & 1] - decoded->length);
    } else if (raw->imm[0].is_relative && raw->imm[0].size == 32) {
        uint64_t target = percent(25) ? va - STATE_NEAR_BEFORE : percent(25) ? va + STATE_NEAR_AFTER : far_stub(c->arena);
        if (percent(8)) {
            int32_t distance = (int32_t)any();
            if (distance < -4096 || distance > 4096)
                target = next + (uint64_t)(int64_t)distance;
        }
        uint32_t value = (uint32_t)(target - next);
        memcpy(bytes + raw->imm[0].offset, &value, 4);
    }

    bool memory = (decoded->attributes & ZYDIS_ATTRIB_HAS_MODRM) && raw->modrm.mod != 3;
    bool reaches = decoded->address_width != 32 || c->arena->data_va <= UINT32_MAX;
    if (memory && raw->modrm.mod == 0 && raw->modrm.rm == 5 && raw->disp.size == 32 && reaches && percent(90)) {
        uint64_t target = c->arena->data_va + (below(STATE_DATA_BYTES) & ~(percent(60) ? 63u : 0u));
        uint64_t segment = decoded->attributes & ZYDIS_ATTRIB_HAS_SEGMENT_GS ? c->arena->data_va : 0;
        uint32_t value = (uint32_t)(target - segment - (mode == INSN_MODE_64 ? next : 0));
        memcpy(bytes + raw->disp.offset, &value, 4);
    } else if (memory && raw->disp.size == 32 && raw->modrm.rm == 4 && raw->sib.base == 4) {
        int32_t value = (int32_t)below(512) - 256;
        memcpy(bytes + raw->disp.offset, &value, 4);
    } else if (!memory && raw->disp.size >= 32) {
        uint64_t target = c->arena->data_va + below(STATE_DATA_BYTES);
        memcpy(bytes + raw->disp.offset, &target, raw->disp.size / 8);
    }
}

static bool make(struct state_case *c)
{
    uint8_t bytes[15];
    ZydisDecodedOperand ops[ZYDIS_MAX_OPERAND_COUNT];
    unsigned source = below(100);
    if (source < 12)
        favoured_bytes(bytes);
    else if (source < 16)
        atomic_bytes(bytes);
    else if (source < 65)
        catalogue_bytes(bytes);
    else
        random_bytes(bytes);
    if (!decode(bytes, &c->decoded))
        return false;
    if (exclusion(&c->decoded)) {
        excluded++;
        return false;
    }
    if (unsupported[c->decoded.meta.isa_set] && !percent(4))
        return false;

    /* 32-bit addresses are useful in the low arena only; in the high one they fault, or are just loaded by lea. */
    bool low = state_run_arena_count() == 1 || (c->decoded.address_width == 32 && percent(80));
    unsigned which = low ? 0 : below(state_run_arena_count());
    c->arena = state_run_arena(which);
    c->native_page = below(STATE_NATIVE_PAGES);
    c->copy_page = below(STATE_COPY_PAGES);
    c->copy_va = c->arena->copy_va[c->copy_page] + 0x100 + below(256);
    uint64_t va = c->arena->native_va[c->native_page] + 0x400 + below(64);

    aim_bytes(c, va, bytes);
    if (ZYAN_FAILED(ZydisDecoderDecodeFull(&decoder, bytes, 15, &c->decoded, ops)) ||
        insn_decode(mode, bytes, c->decoded.length, va, &c->insn) != INSN_OK)
        return false;
    c->refusal = insn_relocate(&c->insn, c->copy_va, &c->copy);
    memcpy(c->memory, memories[which][below(POOL_MEMORIES)], STATE_MEMORY_BYTES);
    make_registers(c, ops, c->decoded.operand_count);
    make_operand_memory(c, ops, c->decoded.operand_count);
    return true;
}

void state_case_make(uint64_t number, struct state_case *out)
{
    random_state = seed ^ number * 0xd1342543de82ef95;
    any();
    while (!make(out))
        ;
}

/* Finds the instruction sets that this processor answers with SIGILL whatever the operands, so that they do not crowd out the others. */
static void probe_processor(void)
{
    static unsigned tried[ZYDIS_ISA_SET_MAX_VALUE + 1], worked[ZYDIS_ISA_SET_MAX_VALUE + 1];
    static struct state_case c;
    static struct state_result result;
    for (uint64_t i = 0; i < 60000; i++) {
        state_case_make(~i, &c);
        unsigned set = c.decoded.meta.isa_set;
        if (tried[set] >= PROBES || c.refusal != INSN_OK)
            continue;
        tried[set]++;
        state_run_place(&c);
        state_run_at(&c, c.insn.va, &result);
        worked[set] += result.signo != SIGILL;
    }
    for (unsigned i = 0; i <= ZYDIS_ISA_SET_MAX_VALUE; i++)
        unsupported[i] = tried[i] && !worked[i];
}

void state_case_init(enum insn_mode run_mode, uint64_t run_seed)
{
    mode = run_mode;
    seed = run_seed;
    if (mode == INSN_MODE_64)
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    else
        ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
    random_state = seed;
    for (unsigned i = 0; i < POOL_IMAGES; i++)
        make_image(images[i], i < POOL_IMAGES / 4);
    for (unsigned a = 0; a < state_run_arena_count(); a++)
        for (unsigned i = 0; i < POOL_MEMORIES; i++)
            make_memory(state_run_arena(a), memories[a][i]);
    make_catalogue();
    probe_processor();
    excluded = 0;
}

void state_case_print_exclusions(void)
{
    printf("excluded: segment register loads (mov, pop): loads a segment register\n");
    for (unsigned i = 0; i < sizeof exclusions / sizeof *exclusions; i++)
        printf("excluded: %s: %s\n", ZydisMnemonicGetString(exclusions[i].mnemonic), exclusions[i].why);
}

uint64_t state_case_excluded(void)
{
    return excluded;
}
