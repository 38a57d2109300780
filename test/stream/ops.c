/* The interpreter's operations on numbers against what the C compiler makes of the same: in 32-bit code they are written out, and JIT code
 * calls them there; those on bytes against the C library's. Usage: ops [--count N] */
#include "stream/eval.h"
#include "test/stream/equal.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t equal_random = 1;

static uint64_t run(struct wire_insn insn, uint64_t a, uint64_t b, uint32_t *error)
{
    struct wire_fire fire = {.session_va = (uintptr_t)world_interpreted.session, .model = MODEL};
    insn.d = 3;
    insn.a = 1;
    insn.b = 2;
    fire.reg[1] = a;
    fire.reg[2] = b;
    *error = eval_op(&fire, &insn);
    return fire.reg[3];
}

static void require(uint32_t op, int32_t i, uint64_t a, uint64_t b, uint64_t wanted, uint32_t wanted_error)
{
    uint32_t error;
    uint64_t got = run((struct wire_insn){.op = (uint16_t)op, .i = i}, a, b, &error);
    if (error == wanted_error && (error || got == wanted))
        return;
    printf("FAIL operation %u of %#llx and %#llx, constant %d: %#llx, not %#llx (error %u)\n", op, (unsigned long long)a,
           (unsigned long long)b, i, (unsigned long long)got, (unsigned long long)wanted, error);
    exit(1);
}

static void check(uint64_t a, uint64_t b, int32_t i)
{
    int64_t x = (int64_t)a, y = (int64_t)b;
    uint64_t wide = (uint64_t)(int64_t)i;
    uint32_t divide = b ? 0 : WIRE_ERROR_DIVIDE;
    require(WIRE_MOVI, i, a, b, wide, 0);
    require(WIRE_MOV, 0, a, b, a, 0);
    require(WIRE_ADD, 0, a, b, a + b, 0);
    require(WIRE_SUB, 0, a, b, a - b, 0);
    require(WIRE_MUL, 0, a, b, a * b, 0);
    require(WIRE_AND, 0, a, b, a & b, 0);
    require(WIRE_OR, 0, a, b, a | b, 0);
    require(WIRE_XOR, 0, a, b, a ^ b, 0);
    require(WIRE_SHL, 0, a, b, a << (b & 63), 0);
    require(WIRE_SHR, 0, a, b, a >> (b & 63), 0);
    require(WIRE_SAR, 0, a, b, (uint64_t)(x >> (b & 63)), 0);
    require(WIRE_DIVU, 0, a, b, b ? a / b : 0, divide);
    require(WIRE_MODU, 0, a, b, b ? a % b : 0, divide);
    require(WIRE_DIVS, 0, a, b, b == 0 ? 0 : y == -1 ? 0 - a : (uint64_t)(x / y), divide);
    require(WIRE_MODS, 0, a, b, b == 0 || y == -1 ? 0 : (uint64_t)(x % y), divide);
    require(WIRE_EQ, 0, a, b, a == b, 0);
    require(WIRE_NE, 0, a, b, a != b, 0);
    require(WIRE_LTU, 0, a, b, a < b, 0);
    require(WIRE_LTS, 0, a, b, x < y, 0);
    require(WIRE_LEU, 0, a, b, a <= b, 0);
    require(WIRE_LES, 0, a, b, x <= y, 0);
    require(WIRE_ADDI, i, a, b, a + wide, 0);
    require(WIRE_MULI, i, a, b, a * wide, 0);
    require(WIRE_ANDI, i, a, b, a & wide, 0);
    require(WIRE_ORI, i, a, b, a | wide, 0);
    require(WIRE_XORI, i, a, b, a ^ wide, 0);
    require(WIRE_SHLI, i & 63, a, b, a << (i & 63), 0);
    require(WIRE_SHRI, i & 63, a, b, a >> (i & 63), 0);
    require(WIRE_SARI, i & 63, a, b, (uint64_t)(x >> (i & 63)), 0);
    require(WIRE_EQI, i, a, b, a == wide, 0);
    require(WIRE_NEI, i, a, b, a != wide, 0);
    require(WIRE_LTUI, i, a, b, a < wide, 0);
    require(WIRE_LTSI, i, a, b, x < i, 0);
    require(WIRE_GTUI, i, a, b, a > wide, 0);
    require(WIRE_GTSI, i, a, b, x > i, 0);
    require(WIRE_NEG, 0, a, b, 0 - a, 0);
    require(WIRE_NOT, 0, a, b, ~a, 0);
    require(WIRE_LNOT, 0, a, b, !a, 0);
}

static void require_sized(uint32_t op, uint8_t k, uint16_t h, int32_t i, uint64_t a, uint64_t wanted)
{
    uint32_t error;
    uint64_t got = run((struct wire_insn){.op = (uint16_t)op, .k = k, .h = h, .i = i}, a, 0, &error);
    if (!error && got == wanted)
        return;
    printf("FAIL operation %u of %#llx, k %u, h %u: %#llx, not %#llx\n", op, (unsigned long long)a, k, h, (unsigned long long)got,
           (unsigned long long)wanted);
    exit(1);
}

static void check_sizes(uint64_t a)
{
    require_sized(WIRE_EXT, 1, 0, 0, a, (uint8_t)a);
    require_sized(WIRE_EXT, 2, 0, 0, a, (uint16_t)a);
    require_sized(WIRE_EXT, 4, 0, 0, a, (uint32_t)a);
    require_sized(WIRE_EXT, 8, 0, 0, a, a);
    require_sized(WIRE_EXT, 1 | WIRE_SIGNED, 0, 0, a, (uint64_t)(int8_t)a);
    require_sized(WIRE_EXT, 2 | WIRE_SIGNED, 0, 0, a, (uint64_t)(int16_t)a);
    require_sized(WIRE_EXT, 4 | WIRE_SIGNED, 0, 0, a, (uint64_t)(int32_t)a);
    require_sized(WIRE_BSWAP, 2, 0, 0, a, __builtin_bswap16((uint16_t)a));
    require_sized(WIRE_BSWAP, 4, 0, 0, a, __builtin_bswap32((uint32_t)a));
    require_sized(WIRE_BSWAP, 8, 0, 0, a, __builtin_bswap64(a));
    for (unsigned first = 0; first < 64; first += 5) {
        for (unsigned count = 1; count <= 64 - first; count += 3) {
            uint64_t plain = a >> first & (count == 64 ? UINT64_MAX : (1ull << count) - 1), sign = 1ull << (count - 1);
            require_sized(WIRE_BITS, (uint8_t)first, (uint16_t)count, 0, a, plain);
            require_sized(WIRE_BITS, (uint8_t)first, (uint16_t)count, 1, a, (plain ^ sign) - sign);
        }
    }
}

/* Strings of a few characters, so that patterns match now and then. */
static void check_bytes(void)
{
    enum { ROOM = 12 };
    static const char in_text[] = "ab-", in_pattern[] = "ab-*?[]!";
    uint64_t frame[2 * ROOM / 8] = {0};
    char *text = (char *)frame, *pattern = text + ROOM;
    for (uint32_t i = below(ROOM - 1); i-- > 0;)
        text[i] = in_text[below(sizeof in_text - 1)];
    for (uint32_t i = below(ROOM - 1); i-- > 0;)
        pattern[i] = in_pattern[below(sizeof in_pattern - 1)];
    struct wire_fire fire = {.session_va = (uintptr_t)world_interpreted.session, .frame_va = (uintptr_t)frame, .model = MODEL};
    struct wire_insn match = {.op = WIRE_SGLOB, .h = ROOM, .b = ROOM, .i = ROOM}, differ = {.op = WIRE_BCMP, .h = ROOM, .i = ROOM};
    eval_op(&fire, &match);
    if (fire.reg[0] != (fnmatch(pattern, text, FNM_NOESCAPE) == 0)) {
        printf("FAIL \"%s\" and the pattern \"%s\": %d\n", text, pattern, (int)fire.reg[0]);
        exit(1);
    }
    eval_op(&fire, &differ);
    int wanted = memcmp(text, pattern, ROOM), got = (int)fire.reg[0];
    if ((got < 0) != (wanted < 0) || (got > 0) != (wanted > 0)) {
        printf("FAIL \"%s\" and \"%s\": %d\n", text, pattern, got);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     3,
                                     7,
                                     63,
                                     64,
                                     65,
                                     0x7f,
                                     0x80,
                                     0xffff,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0x8000000000000001,
                                     0xfffffffffffffffe,
                                     0xffffffffffffffff};
    enum { EDGES = sizeof edges / sizeof *edges };
    unsigned long count = argc == 3 && strcmp(argv[1], "--count") == 0 ? strtoul(argv[2], NULL, 0) : 100000;
    world_init();
    for (int i = 0; i < EDGES; i++)
        for (int j = 0; j < EDGES; j++)
            check(edges[i], edges[j], (int32_t)edges[(i + j) % EDGES]);
    for (unsigned long i = 0; i < count; i++) {
        check(any() >> below(64), any() >> below(64), (int32_t)any() >> below(32));
        check(any(), any() | 1ull << 63, (int32_t)any());
        check_bytes();
        if (i % 16 == 0)
            check_sizes(any());
    }
    printf("%d-bit: %lu random operands and all edge cases as C has them\n", (int)sizeof(void *) * 8, count);
    return 0;
}
