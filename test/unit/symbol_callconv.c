/* The calling conventions by hand-made cases; with `--check PROGRAM DUMP` against what gcc did in a program that test/layout/calls.c
 * made: each parameter and result is read from where symbol/ says it is and compared with what was passed. */
#include "base/memory.h"
#include "symbol/callconv.h"
#include "symbol/dwarf.h"
#include "test/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hand-made cases ---- */

static struct symbol_passed scalar(enum symbol_leaf_class leaf_class, unsigned size)
{
    return (struct symbol_passed){
        .size = size, .align = size < 16 ? size : 16, .leaf_count = 1, .leaves = {{(uint8_t)leaf_class, 0, size}}};
}

static struct symbol_passed pair(enum symbol_leaf_class first, enum symbol_leaf_class second)
{
    return (struct symbol_passed){
        .size = 16, .align = 8, .is_aggregate = true, .leaf_count = 2, .leaves = {{(uint8_t)first, 0, 8}, {(uint8_t)second, 8, 8}}};
}

static void print_location(const struct symbol_location *location, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (unsigned i = 0; i < location->piece_count; i++) {
        const struct symbol_piece *piece = &location->pieces[i];
        at += (size_t)snprintf(out + at, room - at, "%s%s%d", i ? "," : "",
                               piece->place == SYMBOL_PLACE_REGISTER ? "r"
                               : piece->place == SYMBOL_PLACE_MEMORY ? "m"
                                                                     : "?",
                               piece->reg);
        if (piece->place == SYMBOL_PLACE_MEMORY)
            at += (size_t)snprintf(out + at, room - at, "%+" PRId64 "%s", piece->offset, piece->deref_count ? "*" : "");
    }
}

static void expect(int width, struct symbol_passed result, const struct symbol_passed *arguments, size_t count, const char *want)
{
    struct symbol_location locations[16];
    char text[512] = "", one[128];
    symbol_callconv_arguments(width, &result, arguments, count, locations);
    for (size_t i = 0; i < count; i++) {
        print_location(&locations[i], one, sizeof one);
        strcat(text, one);
        strcat(text, " ");
    }
    symbol_callconv_result(width, &result, &locations[0]);
    print_location(&locations[0], one, sizeof one);
    strcat(text, "-> ");
    strcat(text, one);
    CHECK(strcmp(text, want) == 0, "%d bit: %s, wanted %s", width, text, want);
}

static void cases(void)
{
    struct symbol_passed i4 = scalar(SYMBOL_LEAF_INT, 4), i8 = scalar(SYMBOL_LEAF_INT, 8), f8 = scalar(SYMBOL_LEAF_FLOAT, 8);
    struct symbol_passed ld = scalar(SYMBOL_LEAF_X87, 16), ld12 = scalar(SYMBOL_LEAF_X87, 12), none = {.is_void = true};
    struct symbol_passed ii = pair(SYMBOL_LEAF_INT, SYMBOL_LEAF_INT), fi = pair(SYMBOL_LEAF_FLOAT, SYMBOL_LEAF_INT);
    struct symbol_passed big = {.size = 24,
                                .align = 8,
                                .is_aggregate = true,
                                .leaf_count = 3,
                                .leaves = {{SYMBOL_LEAF_INT, 0, 8}, {SYMBOL_LEAF_INT, 8, 8}, {SYMBOL_LEAF_INT, 16, 8}}};
    struct symbol_passed object = {
        .size = 8, .align = 8, .is_aggregate = true, .by_reference = true, .leaf_count = 1, .leaves = {{SYMBOL_LEAF_INT, 0, 8}}};
    struct symbol_passed unknown = {.size = 4, .align = 4, .is_unknown = true};
    expect(64, i4, (struct symbol_passed[]){i4, f8, i8}, 3, "r5 r17 r4 -> r0");
    expect(64, none, (struct symbol_passed[]){i4, i4, i4, i4, i4, i4, i4, i8}, 8, "r5 r4 r1 r2 r8 r9 m7+8 m7+16 -> ");
    /* A pair that no longer fits goes to memory whole, and a later value may still have the register. */
    expect(64, ii, (struct symbol_passed[]){i4, i4, i4, i4, i4, ii, i4}, 7, "r5 r4 r1 r2 r8 m7+8 r9 -> r0,r1");
    expect(64, fi, (struct symbol_passed[]){fi, big, ld, i4}, 4, "r17,r5 m7+8 m7+40 r4 -> r17,r0");
    expect(64, big, (struct symbol_passed[]){i4}, 1, "r4 -> m0+0");
    expect(64, ld, (struct symbol_passed[]){object}, 1, "m5+0 -> r33");
    expect(64, object, (struct symbol_passed[]){i4, unknown, i4}, 3, "r4   -> m0+0");
    expect(32, i8, (struct symbol_passed[]){i4, f8, ld12, i4}, 4, "m4+4 m4+8 m4+16 m4+28 -> r0,r2");
    expect(32, big, (struct symbol_passed[]){i4, big, i4}, 3, "m4+8 m4+12 m4+36 -> m0+0");
    expect(32, f8, (struct symbol_passed[]){object}, 1, "m4+4* -> r11");
}

/* ---- against gcc ---- */

enum { MAX_VALUE = 4096 };

struct dump {
    uint64_t regs[16];
    uint8_t fx[512], stack[512];
    uint8_t buffer[MAX_VALUE];
    uint64_t buffer_va;
    size_t buffer_size;
};

static uint64_t read_count, skipped_count;

static size_t unhex(const char *text, uint8_t *out, size_t room)
{
    size_t size = 0;
    unsigned byte;
    for (; size < room && sscanf(text, "%2x", &byte) == 1; text += 2)
        out[size++] = (uint8_t)byte;
    return size;
}

/* What a program that follows the location would read. False when the dump does not hold it. */
static bool fetch(int width, const struct dump *dump, const struct symbol_location *location, size_t size, uint8_t *out)
{
    int st = width == 64 ? SYMBOL_REG_64_ST0 : SYMBOL_REG_32_ST0, xmm = width == 64 ? SYMBOL_REG_64_XMM0 : SYMBOL_REG_32_XMM0;
    int sp = width == 64 ? SYMBOL_REG_64_RSP : SYMBOL_REG_32_ESP;
    size_t at = 0;
    for (unsigned i = 0; i < location->piece_count; i++) {
        const struct symbol_piece *piece = &location->pieces[i];
        size_t part = piece->size_bytes ? piece->size_bytes : size;
        if (part > size - at)
            part = size - at;
        if (piece->place == SYMBOL_PLACE_REGISTER && piece->reg >= st && piece->reg < st + 8) {
            long double wide;
            memcpy(&wide, dump->fx + 32 + 16 * (piece->reg - st), 10);
            float narrow = (float)wide;
            double middle = (double)wide;
            if (part == 4)
                memcpy(out + at, &narrow, 4);
            else if (part == 8)
                memcpy(out + at, &middle, 8);
            else
                memcpy(out + at, dump->fx + 32 + 16 * (piece->reg - st), part < 16 ? part : 16);
        } else if (piece->place == SYMBOL_PLACE_REGISTER && piece->reg >= xmm && piece->reg < xmm + 16) {
            memcpy(out + at, dump->fx + 160 + 16 * (piece->reg - xmm), part < 16 ? part : 16);
        } else if (piece->place == SYMBOL_PLACE_REGISTER && piece->reg < 16 && part <= 8) {
            memcpy(out + at, &dump->regs[piece->reg], part);
        } else if (piece->place == SYMBOL_PLACE_MEMORY && piece->reg == sp && !piece->deref_count) {
            if (piece->offset < 0 || (uint64_t)piece->offset + part > sizeof dump->stack) {
                skipped_count++;
                return false;
            }
            memcpy(out + at, dump->stack + piece->offset, part);
        } else if (piece->place == SYMBOL_PLACE_MEMORY && dump->buffer_size && dump->regs[piece->reg] == dump->buffer_va) {
            memcpy(out + at, dump->buffer + piece->offset, part);
        } else if (piece->place != SYMBOL_PLACE_NONE) {
            CHECK(false, "a place that the dump does not have");
            return false;
        }
        at += part;
    }
    return at == size;
}

/* Equal but for padding; of a union only the first member was set. */
static bool same(struct symbol_dwarf *dwarf, const struct symbol_type *type, const uint8_t *a, const uint8_t *b)
{
    type = symbol_dwarf_resolve(dwarf, type);
    const struct symbol_member *members;
    size_t count;
    switch (type->kind) {
    case SYMBOL_TYPE_FLOAT:
        return memcmp(a, b, type->size_bytes > 8 && !type->is_float128 ? 10 : type->size_bytes) == 0;
    case SYMBOL_TYPE_COMPLEX: {
        size_t half = type->size_bytes / 2, part = half > 8 ? 10 : half;
        return memcmp(a, b, part) == 0 && memcmp(a + half, b + half, part) == 0;
    }
    case SYMBOL_TYPE_ARRAY:
        for (uint64_t i = 0; i < type->count; i++)
            if (!same(dwarf, type->target, a + i * type->target->size_bytes, b + i * type->target->size_bytes))
                return false;
        return true;
    case SYMBOL_TYPE_STRUCT:
    case SYMBOL_TYPE_UNION:
        err_free(symbol_dwarf_members(dwarf, type, &members, &count));
        CHECK(count, "no members");
        for (size_t i = 0; i < (type->kind == SYMBOL_TYPE_UNION ? 1 : count); i++) {
            if (!members[i].bit_size) {
                if (!same(dwarf, members[i].type, a + members[i].offset_bytes, b + members[i].offset_bytes))
                    return false;
                continue;
            }
            for (unsigned bit = members[i].bit_offset; bit < members[i].bit_offset + (unsigned)members[i].bit_size; bit++)
                if ((a[members[i].offset_bytes + bit / 8] ^ b[members[i].offset_bytes + bit / 8]) >> bit % 8 & 1)
                    return false;
        }
        return true;
    default:
        return memcmp(a, b, type->size_bytes) == 0;
    }
}

static void check_value(struct symbol_dwarf *dwarf, const char *what, const struct symbol_type *type,
                        const struct symbol_location *location, const struct dump *dump, const uint8_t *want, size_t size)
{
    uint8_t got[MAX_VALUE];
    CHECK(type->size_bytes == size, "%s: %" PRIu64 " bytes, gcc says %zu", what, type->size_bytes, size);
    CHECK(location->piece_count || !size, "%s (%s): %s", what, type->name ? type->name : "", location->reason);
    if (!location->piece_count || type->size_bytes != size || !fetch(symbol_dwarf_width(dwarf), dump, location, size, got))
        return;
    read_count++;
    char text[256];
    print_location(location, text, sizeof text);
    CHECK(same(dwarf, type, got, want), "%s (%s, %zu bytes) is not at %s", what, type->name ? type->name : "", size, text);
}

static int check(const char *program, const char *path)
{
    enum { LINE = 1 << 14 };
    struct symbol_dwarf *dwarf;
    struct err *error = symbol_dwarf_open(program, &dwarf);
    FILE *file = fopen(path, "re");
    if (error || !file) {
        printf("%s\n", error ? error->message : path);
        return 1;
    }
    static char line[LINE];
    static struct dump dump;
    const struct symbol_dwarf_func *func = NULL;
    uint8_t value[MAX_VALUE];
    size_t value_size = 0, index;
    char name[32] = "", what[64];
    bool is_call = false;
    while (fgets(line, sizeof line, file)) {
        char *at;
        if (sscanf(line, "call %zu", &index) == 1 || sscanf(line, "ret %zu", &index) == 1) {
            const uint64_t *entries;
            size_t count;
            is_call = line[0] == 'c';
            snprintf(name, sizeof name, "%c%zu", is_call ? 'f' : 'r', index);
            memset(&dump, 0, sizeof dump);
            error = symbol_dwarf_entries(dwarf, name, &entries, &count);
            CHECK(!error && count == 1, "%s: %s", name, error ? error->message : "");
            if (!error)
                error = symbol_dwarf_func_at(dwarf, entries[0], &func);
            CHECK(!error && !func->is_changed, "%s: %s", name, error ? error->message : "changed");
            if (error)
                return 1;
        } else if (strncmp(line, "state ", 6) == 0) {
            CHECK(unhex(line + 6, (uint8_t *)dump.regs, 1152) == 1152, "state");
        } else if (sscanf(line, "value %zu", &index) == 1) {
            value_size = unhex(strchr(line + 6, ' ') + 1, value, sizeof value);
            snprintf(what, sizeof what, "%s p%zu", name, index);
            CHECK(!is_call || index < func->param_count, "%s", what);
            if (is_call && index < func->param_count) {
                snprintf(line, sizeof line, "p%zu", index);
                CHECK(strcmp(func->params[index].name, line) == 0, "%s is named %s", what, func->params[index].name);
                check_value(dwarf, what, func->params[index].type, &func->params[index].location, &dump, value, value_size);
            }
        } else if (sscanf(line, "buffer %" SCNx64, &dump.buffer_va) == 1 && (at = strrchr(line, ' '))) {
            dump.buffer_size = unhex(at + 1, dump.buffer, sizeof dump.buffer);
            snprintf(what, sizeof what, "result of %s", name);
            check_value(dwarf, what, func->result, &func->result_location, &dump, value, value_size);
        }
    }
    fclose(file);
    symbol_dwarf_close(dwarf);
    printf("%s: %" PRIu64 " values read, %" PRIu64 " too far up the stack, %d wrong\n", program, read_count, skipped_count, failures);
    return failures || !read_count;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "--check") == 0)
        return check(argv[2], argv[3]);
    cases();
    if (!failures)
        puts("ok");
    return failures != 0;
}
