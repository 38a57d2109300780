#include "stream/op.h"
#include "test/stream/equal.h"

#include <string.h>

/* ---- chance ---- */

extern uint64_t equal_random;

uint64_t any(void)
{
    uint64_t z = equal_random += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

uint32_t below(uint32_t limit)
{
    return (uint32_t)(any() >> 33) % limit;
}

bool chance(uint32_t percent)
{
    return below(100) < percent;
}

/* ---- a program being made ---- */

enum { OPEN_MAX = 6, LOOPS_MAX = 3, WORDS = FRAME_MAX / 64 };

struct known {
    uint32_t registers;
    uint64_t frame[WORDS];
};

/* A jump whose target is not yet set, and what is known there. */
struct open_jump {
    uint32_t at;
    struct known known;
};

struct open_loop {
    uint32_t head, counter;
    struct known known;
};

static struct {
    struct program *program;
    struct known now;
    struct open_jump jump[OPEN_MAX];
    uint32_t jumps;
    struct open_loop loop[LOOPS_MAX];
    uint32_t loops;
} making;

static struct wire_insn *add(uint32_t op)
{
    struct wire_insn *insn = &making.program->insn[making.program->count++];
    *insn = (struct wire_insn){.op = (uint16_t)op};
    return insn;
}

static bool is_counter(uint32_t reg)
{
    for (uint32_t i = 0; i < making.loops; i++)
        if (making.loop[i].counter == reg)
            return true;
    return false;
}

static uint8_t any_d(void)
{
    uint32_t reg;
    do
        reg = below(chance(70) ? 6 : WIRE_REGS);
    while (is_counter(reg));
    making.now.registers |= 1u << reg;
    return (uint8_t)reg;
}

static void constant(uint32_t reg)
{
    struct wire_insn *insn = add(chance(60) ? WIRE_MOVL : WIRE_MOVI);
    insn->d = (uint8_t)reg;
    if (insn->op == WIRE_MOVL)
        insn->j = 8 * below(chance(80) ? 48 : DATA_BYTES / 8);
    else
        insn->i = chance(70) ? (int32_t)below(300) - 100 : (int32_t)any();
    making.now.registers |= 1u << reg;
}

/* A register that has been written: the last one often. */
static uint8_t any_a(void)
{
    const struct program *program = making.program;
    if (!making.now.registers)
        constant(below(WIRE_REGS));
    if (program->count && chance(50)) {
        const struct wire_insn *last = &program->insn[program->count - 1];
        if (stream_op_has(last->op, 'D') && making.now.registers >> last->d & 1)
            return last->d;
    }
    for (;;) {
        uint32_t reg = below(WIRE_REGS);
        if (making.now.registers >> reg & 1)
            return (uint8_t)reg;
    }
}

/* ---- the frame ---- */

static bool is_known(uint32_t at, uint32_t bytes)
{
    for (uint32_t i = at; i < at + bytes; i++)
        if (!(making.now.frame[i / 64] >> i % 64 & 1))
            return false;
    return true;
}

static void set_known(uint32_t at, uint32_t bytes)
{
    for (uint32_t i = at; i < at + bytes; i++)
        making.now.frame[i / 64] |= 1ull << i % 64;
}

/* Somewhere with so many bytes. */
static uint32_t room(uint32_t bytes, uint32_t align)
{
    uint32_t last = making.program->frame_bytes - bytes;
    if (chance(60) && last > 64)
        last = 64;
    return below(last / align + 1) * align;
}

/* Somewhere with so many bytes that have been written; writes them when need be. */
static uint32_t known_room(uint32_t bytes, uint32_t align)
{
    uint32_t at = 0;
    for (int tries = 0; tries < 4; tries++) {
        at = room(bytes, align);
        if (is_known(at, bytes))
            return at;
    }
    struct wire_insn *insn;
    if (bytes == 8 && chance(70)) {
        uint8_t a = any_a();
        insn = add(WIRE_FST);
        insn->a = a;
        insn->k = 8;
    } else if (chance(50) && bytes < DATA_BYTES) {
        insn = add(WIRE_FDATA);
        insn->i = (int32_t)below(DATA_BYTES - bytes + 1);
        insn->h = (uint16_t)bytes;
    } else {
        insn = add(WIRE_FZERO);
        insn->i = (int32_t)bytes;
    }
    insn->j = at;
    set_known(at, bytes);
    return at;
}

static uint32_t any_bytes(void)
{
    uint32_t most = making.program->frame_bytes, bytes = chance(80) ? 1 + below(40) : 1 + below(200);
    return bytes > most ? most : bytes;
}

/* ---- instructions ---- */

static void number_op(void)
{
    uint8_t a = any_a(), b = any_a();
    uint32_t op = WIRE_MOV + below(WIRE_BSWAP - WIRE_MOV + 1);
    struct wire_insn *insn = add(op);
    insn->a = a;
    if (stream_op_has(op, 'B'))
        insn->b = b;
    insn->d = any_d();
    if (stream_op_has(op, 'I'))
        insn->i = op == WIRE_SHLI || op == WIRE_SHRI || op == WIRE_SARI ? (int32_t)below(64)
                  : chance(60)                                          ? (int32_t)below(20) - 8
                                                                        : (int32_t)any();
    if (op == WIRE_EXT)
        insn->k = (uint8_t)(1u << below(4) | (chance(50) ? WIRE_SIGNED : 0));
    if (op == WIRE_BSWAP)
        insn->k = (uint8_t)(2u << below(3));
    if (op == WIRE_BITS) {
        insn->k = (uint8_t)below(64);
        insn->h = (uint16_t)(1 + below(64u - insn->k));
        insn->i = (int32_t)below(2);
    }
}

static void double_op(void)
{
    uint8_t a = any_a(), b = any_a();
    uint32_t op = WIRE_FADD + below(WIRE_F2D - WIRE_FADD + 1);
    struct wire_insn *insn = add(op);
    insn->a = a;
    if (stream_op_has(op, 'B'))
        insn->b = b;
    insn->d = any_d();
}

static void context_op(void)
{
    struct wire_insn *insn;
    switch (below(5)) {
    case 0:
        insn = add(WIRE_CTX);
        insn->i = (int32_t)below(WIRE_CTX_COUNT);
        break;
    case 1:
        insn = add(WIRE_ARG);
        insn->i = (int32_t)below(chance(80) ? 8 : 64);
        break;
    case 2:
        insn = add(WIRE_REG);
        insn->i = (int32_t)below(MODEL == WIRE_LP64 ? WIRE_REG64_COUNT : WIRE_REG32_COUNT);
        break;
    case 3:
        insn = add(WIRE_XMM);
        insn->i = (int32_t)below(MODEL == WIRE_LP64 ? 16 : 8);
        insn->k = chance(50) ? 4 : 8;
        break;
    default:
        insn = add(WIRE_ST0);
    }
    insn->d = any_d();
}

static void memory_op(void)
{
    struct wire_insn *insn;
    uint8_t a = any_a(), b = any_a();
    if (chance(85)) { /* an address that can mostly be read */
        a = any_d();
        insn = add(WIRE_MOVL);
        insn->d = a;
        insn->j = 8 * below(chance(85) ? 9 : 16);
    }
    uint32_t op = making.program->frame_bytes ? WIRE_LDT + below(3) : WIRE_LDT, bytes = 0;
    if (op != WIRE_LDT) {
        bytes = any_bytes();
        if (chance(60)) {
            do
                b = any_d();
            while (b == a);
            insn = add(WIRE_MOVI);
            insn->d = b;
            insn->i = (int32_t)below(bytes + 4);
        }
    }
    insn = add(op);
    insn->a = a;
    if (op == WIRE_LDT) {
        insn->i = chance(50) ? 0 : (int32_t)below(64) - 8;
        insn->k = (uint8_t)(1u << below(4) | (chance(50) ? WIRE_SIGNED : 0));
    } else {
        insn->b = b;
        insn->i = (int32_t)bytes;
        insn->j = room(bytes, 1);
        set_known(insn->j, bytes);
    }
    insn->d = any_d();
}

static void frame_op(void)
{
    struct wire_insn *insn;
    uint32_t frame_bytes = making.program->frame_bytes, size = 1u << below(4), at, bytes, other;
    uint8_t a = any_a();
    switch (below(10)) {
    case 0:
    case 1:
        at = known_room(size, 1);
        insn = add(WIRE_FLD);
        insn->j = at;
        insn->k = (uint8_t)(size | (chance(50) ? WIRE_SIGNED : 0));
        insn->d = any_d();
        return;
    case 2:
    case 3:
        insn = add(WIRE_FST);
        insn->a = a;
        insn->j = room(size, 1);
        insn->k = (uint8_t)size;
        set_known(insn->j, size);
        return;
    case 4:
        bytes = any_bytes();
        bytes = bytes < size ? size : bytes;
        at = known_room(bytes, 1);
        if (chance(80)) {
            insn = add(WIRE_ANDI);
            insn->a = a;
            insn->i = 15;
            insn->d = a = any_d();
        }
        if (chance(30)) {
            insn = add(WIRE_BOUND);
            insn->a = a;
            insn->i = chance(90) ? 1 + (int32_t)below(40) : 0x7fffffff;
            insn->d = a = any_d();
        }
        insn = add(WIRE_FLDX);
        insn->a = a;
        insn->j = at;
        insn->i = (int32_t)bytes;
        insn->k = (uint8_t)(size | (chance(50) ? WIRE_SIGNED : 0));
        insn->d = any_d();
        return;
    case 5:
        bytes = any_bytes();
        if (2 * bytes > frame_bytes)
            bytes = frame_bytes / 2;
        at = known_room(bytes, 1);
        other = room(bytes, 1);
        if (other < at + bytes && at < other + bytes)
            return;
        insn = add(WIRE_FCPY);
        insn->i = (int32_t)at;
        insn->j = other;
        insn->h = (uint16_t)bytes;
        set_known(other, bytes);
        return;
    case 6:
        bytes = any_bytes();
        insn = add(WIRE_FZERO);
        insn->i = (int32_t)bytes;
        insn->j = room(bytes, 1);
        set_known(insn->j, bytes);
        return;
    case 7:
        bytes = any_bytes();
        insn = add(WIRE_FDATA);
        insn->i = (int32_t)below(DATA_BYTES - bytes + 1);
        insn->h = (uint16_t)bytes;
        insn->j = room(bytes, 1);
        set_known(insn->j, bytes);
        return;
    case 8:
        bytes = any_bytes() / 8;
        if (!bytes || frame_bytes < WIRE_WALK_BYTES + 8 * bytes)
            return;
        insn = add(WIRE_USTACK);
        insn->h = (uint16_t)(bytes > 1 ? below(2) : 0);
        insn->i = (int32_t)(bytes - insn->h);
        insn->j = room(WIRE_WALK_BYTES + 8 * bytes, 8);
        insn->k = (uint8_t)below(4);
        insn->d = any_d();
        return;
    default:
        insn = add(WIRE_COMM);
        insn->j = room(16, 1);
        insn->i = chance(50);
        set_known(insn->j, 16);
    }
}

static void string_op(void)
{
    struct wire_insn *insn;
    uint32_t bytes = any_bytes(), small = bytes < 4 ? bytes : 1 + below(4), at = known_room(bytes, 1), other;
    switch (below(4)) {
    case 0:
        insn = add(WIRE_SLEN);
        insn->i = (int32_t)bytes;
        break;
    case 1:
        other = known_room(bytes, 1);
        insn = add(chance(50) ? WIRE_SCMP : WIRE_BCMP);
        insn->i = (int32_t)other;
        insn->h = (uint16_t)bytes;
        break;
    case 2: /* a pattern of a few characters, which sometimes matches */
        if (making.program->frame_bytes < 8)
            return;
        other = room(8, 1);
        for (uint32_t i = 0; i < 8; i++) {
            static const char characters[] = "**??[]!-ac\0";
            insn = add(WIRE_MOVI);
            insn->d = any_d();
            insn->i = characters[below(sizeof characters)];
            uint8_t value = insn->d;
            insn = add(WIRE_FST);
            insn->a = value;
            insn->k = 1;
            insn->j = other + i;
        }
        set_known(other, 8);
        insn = add(WIRE_SGLOB);
        insn->i = (int32_t)other;
        insn->b = 8;
        insn->h = (uint16_t)bytes;
        break;
    default:
        other = known_room(small, 1);
        insn = add(WIRE_SFIND);
        insn->i = (int32_t)other;
        insn->b = (uint8_t)small;
        insn->h = (uint16_t)bytes;
    }
    insn->j = at;
    insn->d = any_d();
}

static uint32_t any_map(bool (*wanted)(const struct wire_map_type *))
{
    for (;;) {
        uint32_t map = below(world_map_count);
        const struct wire_map_type *type = &world_maps[map];
        if (type->key_bytes + type->value_bytes > making.program->frame_bytes && (type->key_bytes || type->kind == WIRE_MAP_VALUE))
            continue;
        if (wanted(type))
            return map;
    }
}

static bool is_int(const struct wire_map_type *type)
{
    return type->kind == WIRE_MAP_INT;
}

static bool is_value(const struct wire_map_type *type)
{
    return type->kind == WIRE_MAP_VALUE;
}

static bool is_aggregate(const struct wire_map_type *type)
{
    return type->kind >= WIRE_MAP_COUNT;
}

static bool is_keyed(const struct wire_map_type *type)
{
    return type->key_bytes;
}

static bool is_histogram(const struct wire_map_type *type)
{
    return type->kind == WIRE_MAP_HIST || type->kind == WIRE_MAP_LHIST;
}

static bool is_any(const struct wire_map_type *type)
{
    (void)type;
    return true;
}

static void map_op(void)
{
    static const uint8_t ops[] = {WIRE_MGET, WIRE_MSET, WIRE_MADD, WIRE_MGETV, WIRE_MSETV, WIRE_MDEL, WIRE_MHAS,
                                  WIRE_MLEN, WIRE_MAGG, WIRE_MAGG, WIRE_MAGGN, WIRE_MRED,  WIRE_MNEXT};
    uint32_t frame_bytes = making.program->frame_bytes, op = ops[below(sizeof ops)], key = 0, other = 0;
    if ((op == WIRE_MGETV || op == WIRE_MSETV || op == WIRE_MNEXT) && frame_bytes < 64)
        return;
    uint32_t map = any_map(op <= WIRE_MADD                      ? is_int
                           : op <= WIRE_MSETV                   ? is_value
                           : op == WIRE_MAGG || op == WIRE_MRED ? is_aggregate
                           : op == WIRE_MAGGN                   ? is_histogram
                           : op == WIRE_MNEXT                   ? is_keyed
                                                                : is_any);
    const struct wire_map_type *type = &world_maps[map];
    uint8_t a = any_a(), b = any_a();
    if (op == WIRE_MSETV)
        other = known_room(type->value_bytes, 8);
    if (op == WIRE_MNEXT) {
        other = known_room(8, 8);
        if (chance(70)) { /* a sensible iterator */
            struct wire_insn *zero = add(WIRE_FZERO);
            zero->i = 8;
            zero->j = other;
        }
    }
    if (type->key_bytes && op != WIRE_MLEN) {
        if (op == WIRE_MNEXT) {
            key = room(type->key_bytes, 8);
        } else if (chance(60)) { /* one of few keys */
            key = room(type->key_bytes, 8);
            struct wire_insn *insn = add(WIRE_FDATA);
            insn->i = (int32_t)(512 + 8 * below(8));
            insn->h = (uint16_t)type->key_bytes;
            insn->j = key;
            set_known(key, type->key_bytes);
        } else {
            key = known_room(type->key_bytes, 8);
        }
    }
    if (op == WIRE_MGETV)
        other = room(type->value_bytes, 8);
    uint32_t other_bytes = op == WIRE_MNEXT ? 8 : type->value_bytes;
    if ((op == WIRE_MNEXT || op == WIRE_MGETV) && type->key_bytes && key < other + other_bytes && other < key + type->key_bytes)
        return;
    struct wire_insn *insn = add(op);
    insn->h = (uint16_t)map;
    insn->j = key;
    insn->i = (int32_t)other;
    if (stream_op_has(op, 'A'))
        insn->a = a;
    if (stream_op_has(op, 'B'))
        insn->b = b;
    if (op == WIRE_MRED)
        insn->k = (uint8_t)below(WIRE_REDUCES);
    if (op == WIRE_MGETV || op == WIRE_MNEXT)
        set_known(op == WIRE_MNEXT ? key : other, op == WIRE_MNEXT ? type->key_bytes : type->value_bytes);
    if (stream_op_has(op, 'D'))
        insn->d = any_d();
}

/* What gives the same all through a run, or seldom something made of it, into the 8 bytes of the frame. */
static void put_constant(uint32_t which, uint32_t at)
{
    static const struct wire_insn makers[] = {{.op = WIRE_CTX, .i = WIRE_CTX_TID},
                                              {.op = WIRE_CTX, .i = WIRE_CTX_PID},
                                              {.op = WIRE_ARG, .i = 1},
                                              {.op = WIRE_ARG, .i = 2},
                                              {.op = WIRE_REG, .i = 3},
                                              {.op = WIRE_MOVI, .i = 7},
                                              {.op = WIRE_MOVI, .i = 8},
                                              {.op = WIRE_MOVL, .j = 136}};
    struct wire_insn *insn = add(WIRE_MOVI);
    *insn = makers[which % (sizeof makers / sizeof *makers)];
    uint8_t d = insn->d = any_d();
    if (chance(10)) {
        insn = add(WIRE_ANDI);
        insn->d = insn->a = d;
        insn->i = 1;
    }
    insn = add(WIRE_FST);
    insn->a = d;
    insn->k = 8;
    insn->j = at;
    set_known(at, 8);
}

static bool is_short(const struct wire_map_type *type)
{
    return type->key_bytes == 8 && (type->kind == WIRE_MAP_INT || type->kind == WIRE_MAP_COUNT);
}

/* A key that is named again and again with other things in between, as bodies do it once where they can. */
static void same_key_ops(void)
{
    static const uint8_t ops[] = {WIRE_MGET, WIRE_MSET, WIRE_MSET, WIRE_MADD, WIRE_MDEL, WIRE_MDEL, WIRE_MHAS};
    uint32_t map = any_map(is_short), at = room(8, 8), which = below(100);
    bool is_count = world_maps[map].kind == WIRE_MAP_COUNT;
    for (uint32_t left = 2 + below(5), first = 1; left; left--, first = 0) {
        if (first || chance(70))
            put_constant(chance(90) ? which : below(100), at);
        if (chance(30))
            (chance(50) ? number_op : chance(50) ? map_op : context_op)();
        if (chance(10))
            frame_op();
        if (!is_known(at, 8))
            continue;
        uint32_t op = is_count ? (chance(50) ? WIRE_MAGG : chance(50) ? WIRE_MDEL : WIRE_MHAS) : ops[below(sizeof ops)];
        uint8_t a = any_a();
        struct wire_insn *insn = add(op);
        insn->h = (uint16_t)map;
        insn->j = at;
        if (stream_op_has(op, 'A'))
            insn->a = a;
        if (stream_op_has(op, 'D'))
            insn->d = any_d();
    }
}

static void emit_record(uint32_t record)
{
    uint32_t bytes = world_payload[record];
    if (bytes > making.program->frame_bytes)
        return;
    uint32_t at = bytes ? known_room(bytes, 8) : 0;
    struct wire_insn *insn = add(WIRE_EMIT);
    insn->h = (uint16_t)record;
    insn->i = (int32_t)at;
    insn->j = bytes;
}

static void out_op(void)
{
    struct wire_insn *insn;
    uint8_t a = any_a();
    switch (below(6)) {
    case 0:
        add(WIRE_SPECNEW)->d = any_d();
        return;
    case 1:
        insn = add(WIRE_SPECSET);
        insn->a = a;
        return;
    case 2:
        insn = add(WIRE_SIGNAL);
        insn->a = a;
        return;
    default:
        emit_record(below(RECORDS));
    }
}

/* ---- control ---- */

static void keep_common(struct known *known, const struct known *other)
{
    known->registers &= other->registers;
    for (int i = 0; i < WORDS; i++)
        known->frame[i] &= other->frame[i];
}

static bool has_all_of(const struct known *known, const struct known *part)
{
    bool all = !(part->registers & ~known->registers);
    for (int i = 0; i < WORDS; i++)
        all &= !(part->frame[i] & ~known->frame[i]);
    return all;
}

/* The open jump goes here. */
static void close_jump(uint32_t number, bool alive)
{
    struct open_jump *jump = &making.jump[number];
    making.program->insn[jump->at].j = making.program->count;
    if (alive)
        keep_common(&making.now, &jump->known);
    else
        making.now = jump->known;
    *jump = making.jump[--making.jumps];
}

static void open_jump(uint32_t op, uint8_t a)
{
    struct wire_insn *insn = add(op);
    insn->a = a;
    making.jump[making.jumps++] = (struct open_jump){making.program->count - 1, making.now};
}

static void begin_loop(void)
{
    struct open_loop *loop = &making.loop[making.loops];
    uint32_t counter;
    do
        counter = below(WIRE_REGS);
    while (is_counter(counter));
    struct wire_insn *insn = add(WIRE_MOVI);
    insn->d = (uint8_t)counter;
    insn->i = (int32_t)(1 + below(5));
    making.now.registers |= 1u << counter;
    *loop = (struct open_loop){making.program->count, counter, making.now};
    making.loops++;
}

static void end_loop(void)
{
    struct open_loop *loop = &making.loop[making.loops - 1];
    struct program *program = making.program;
    making.loops--;
    if (making.jumps == OPEN_MAX || program->count == loop->head || !has_all_of(&making.now, &loop->known))
        return;
    if (making.jumps && below(3000) == 0) { /* never ends by itself; what follows is reached by a jump */
        add(WIRE_LOOP)->j = loop->head;
        close_jump(below(making.jumps), false);
        return;
    }
    struct wire_insn *insn = add(WIRE_ADDI);
    insn->d = insn->a = (uint8_t)loop->counter;
    insn->i = -1;
    open_jump(WIRE_JZ, (uint8_t)loop->counter);
    add(WIRE_LOOP)->j = loop->head;
    close_jump(making.jumps - 1, false);
}

static void control_op(void)
{
    uint8_t a = any_a();
    uint32_t choice = below(10);
    if (choice < 4 && making.jumps < OPEN_MAX) {
        if (chance(50)) {
            number_op();
            const struct wire_insn *last = &making.program->insn[making.program->count - 1];
            a = last->d;
        }
        open_jump(chance(50) ? WIRE_JZ : WIRE_JNZ, a);
    } else if (choice < 6 && making.jumps) {
        close_jump(below(making.jumps), true);
    } else if (choice < 7 && making.jumps && making.jumps < OPEN_MAX) {
        open_jump(WIRE_JMP, 0);
        close_jump(below(making.jumps - 1), false);
    } else if (choice < 8 && making.jumps && chance(30)) {
        add(WIRE_END);
        close_jump(below(making.jumps), false);
    } else if (choice < 8 && chance(20)) {
        add(WIRE_ENDZ)->a = a;
    } else if (choice == 8 && making.loops < LOOPS_MAX) {
        begin_loop();
    } else if (choice == 9 && making.loops) {
        end_loop();
    }
}

/* ---- the whole ---- */

static void make_data(struct program *program)
{
    uint64_t target = (uintptr_t)world_target, words[DATA_BYTES / 8];
    const uint64_t special[] = {
        target, target + 1, target + 100, target + 60, target + 4090, target + 4096, target + 4099, target + TARGET_BYTES - 8,
        target + TARGET_BYTES - 3, target + TARGET_BYTES, target - 1, target + 5000, target + 2000, target + 33, 0, UINT64_MAX,
        /* numbers */
        0, 1, 2, 10, 63, 64, 100, 255, 256, 65535, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000, INT64_MAX, 1ull << 63,
        /* doubles */
        0x3ff0000000000000, 0xbff8000000000000, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000001, 0xfff0000000000001, 1,
        0x000fffffffffffff, 0x0010000000000000, 0x7fefffffffffffff, 0x8000000000000000, 0x43e0000000000000, 0xc3e0000000000000,
        0x4340000000000001, 0x3ca0000000000000, 0x40590ccccccccccd};
    for (size_t i = 0; i < DATA_BYTES / 8; i++)
        words[i] = i < sizeof special / sizeof *special ? special[i] : chance(50) ? any() : any() >> below(64);
    memcpy(program->data, words, DATA_BYTES);
    for (int i = 768; i < DATA_BYTES; i++) /* text */
        program->data[i] = chance(10) ? 0 : (uint8_t)('a' + below(3));
}

/* All registers that were written, as a record. */
static void show_registers(void)
{
    if (making.program->frame_bytes < 128)
        return;
    for (uint32_t i = 0; i < WIRE_REGS; i++) {
        if (!(making.now.registers >> i & 1))
            constant(i);
        struct wire_insn *insn = add(WIRE_FST);
        insn->a = (uint8_t)i;
        insn->k = 8;
        insn->j = 8 * i;
    }
    set_known(0, 128);
    struct wire_insn *insn = add(WIRE_EMIT);
    insn->h = 3;
    insn->j = 128;
}

void program_make(struct program *program)
{
    static const uint16_t frames[] = {0, 8, 40, 128, 128, 128, 136, 512, FRAME_MAX};
    memset(program, 0, offsetof(struct program, data));
    memset(&making, 0, sizeof making);
    making.program = program;
    program->frame_bytes = frames[below(sizeof frames / sizeof *frames)];
    make_data(program);
    uint32_t length = chance(20) ? 3 : chance(80) ? 5 + below(40) : 5 + below(200);
    while (program->count < length) {
        uint32_t choice = below(100), frame_bytes = program->frame_bytes;
        if (choice < 30)
            number_op();
        else if (choice < 38)
            double_op();
        else if (choice < 45)
            constant(any_d());
        else if (choice < 53)
            context_op();
        else if (choice < 60)
            memory_op();
        else if (choice < 70 && frame_bytes >= 16)
            frame_op();
        else if (choice < 73 && frame_bytes >= 16)
            string_op();
        else if (choice < 80)
            map_op();
        else if (choice < 83 && frame_bytes >= 16)
            same_key_ops();
        else if (choice < 86)
            out_op();
        else
            control_op();
    }
    if (chance(90))
        show_registers();
    while (making.loops)
        end_loop();
    bool must_end = !program->count || making.jumps;
    for (uint32_t i = 0; i < program->count; i++)
        must_end |= stream_op_has(program->insn[i].op, 'J') && program->insn[i].j == program->count;
    if (must_end || chance(50))
        add(WIRE_END);
    while (making.jumps) /* to the END that was just added */
        program->insn[making.jump[--making.jumps].at].j = program->count - 1;
    program->predicate_count = below(3) ? 0 : below(program->count + 1);
}
