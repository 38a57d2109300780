/* The System V classification for both widths; see callconv.h. */
#include "symbol/callconv.h"

#include <string.h>

/* x86-64 psABI 3.2.3, "Classification". X87UP is not kept apart from X87. */
enum eightbyte { CLASS_NONE, CLASS_INTEGER, CLASS_SSE, CLASS_SSEUP, CLASS_X87, CLASS_MEMORY };

enum { EIGHTBYTES = 2 };

static void nowhere(struct symbol_location *out, const char *reason)
{
    memset(out, 0, sizeof *out);
    out->reason = reason;
    out->is_convention = true;
}

static void add_piece(struct symbol_location *out, struct symbol_piece piece)
{
    out->pieces[out->piece_count++] = piece;
}

static void in_memory(struct symbol_location *out, int reg, int64_t offset)
{
    memset(out, 0, sizeof *out);
    out->is_convention = true;
    add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_MEMORY, .reg = (int16_t)reg, .offset = offset});
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* ---- x86-64 ---- */

static enum eightbyte merge(enum eightbyte a, enum eightbyte b)
{
    if (a == b || b == CLASS_NONE)
        return a;
    if (a == CLASS_NONE)
        return b;
    if (a == CLASS_MEMORY || b == CLASS_MEMORY)
        return CLASS_MEMORY;
    if (a == CLASS_INTEGER || b == CLASS_INTEGER)
        return CLASS_INTEGER;
    if (a == CLASS_X87 || b == CLASS_X87)
        return CLASS_MEMORY;
    return CLASS_SSE;
}

/* The class of eightbyte `part` of a leaf, counted from the leaf's first. */
static enum eightbyte leaf_class(const struct symbol_leaf *leaf, unsigned part)
{
    switch (leaf->leaf_class) {
    case SYMBOL_LEAF_INT:
        return CLASS_INTEGER;
    case SYMBOL_LEAF_X87:
        return CLASS_X87;
    default:
        return part ? CLASS_SSEUP : CLASS_SSE;
    }
}

/* Classifies a value of at most 16 bytes into `classes`; CLASS_MEMORY in the first when it goes to memory. */
static void classify(const struct symbol_passed *value, enum eightbyte classes[EIGHTBYTES])
{
    classes[0] = classes[1] = CLASS_NONE;
    if (value->size > 16 || value->is_memory) {
        classes[0] = CLASS_MEMORY;
        return;
    }
    for (unsigned i = 0; i < value->leaf_count; i++) {
        const struct symbol_leaf *leaf = &value->leaves[i];
        uint32_t last = leaf->size ? (leaf->offset + leaf->size - 1) / 8 : leaf->offset / 8;
        for (uint32_t part = leaf->offset / 8; part <= last && part < EIGHTBYTES; part++)
            classes[part] = merge(classes[part], leaf_class(leaf, part - leaf->offset / 8));
    }
    bool memory = classes[0] == CLASS_MEMORY || classes[1] == CLASS_MEMORY;
    memory |= (classes[0] == CLASS_X87) != (classes[1] == CLASS_X87);
    if (memory)
        classes[0] = CLASS_MEMORY;
    else if (classes[0] != CLASS_SSE && classes[1] == CLASS_SSEUP)
        classes[1] = CLASS_SSE;
}

bool symbol_callconv_is_memory(const struct symbol_passed *value)
{
    enum eightbyte classes[EIGHTBYTES];
    classify(value, classes);
    return classes[0] == CLASS_MEMORY;
}

static uint32_t piece_size(const struct symbol_passed *value, unsigned part)
{
    uint64_t left = value->size - 8 * part;
    return (uint32_t)(left < 8 ? left : 8);
}

/* Registers that arguments or results use up, in order. */
struct registers {
    const int16_t *integer;
    unsigned integers_left, vectors_left;
    int16_t vector;
};

/* Takes registers for the classes, all or none. */
static bool take(struct registers *from, const struct symbol_passed *value, const enum eightbyte *classes, struct symbol_location *out)
{
    unsigned integers = 0, vectors = 0, parts = (unsigned)(value->size + 7) / 8;
    for (unsigned i = 0; i < parts; i++) {
        integers += classes[i] == CLASS_INTEGER;
        vectors += classes[i] == CLASS_SSE;
    }
    if (integers > from->integers_left || vectors > from->vectors_left)
        return false;
    memset(out, 0, sizeof *out);
    out->is_convention = true;
    if (classes[1] == CLASS_SSEUP) { /* one register holds both */
        add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = from->vector++});
        from->vectors_left--;
        return true;
    }
    for (unsigned i = 0; i < parts; i++) {
        struct symbol_piece piece = {.place = SYMBOL_PLACE_REGISTER, .size_bytes = parts > 1 ? piece_size(value, i) : 0};
        if (classes[i] == CLASS_INTEGER) {
            piece.reg = *from->integer++;
            from->integers_left--;
        } else if (classes[i] == CLASS_SSE) {
            piece.reg = from->vector++;
            from->vectors_left--;
        } else { /* padding: nothing of it is passed */
            piece.place = SYMBOL_PLACE_NONE;
            out->reason = "padding";
        }
        add_piece(out, piece);
    }
    return true;
}

static bool result_in_memory_64(const struct symbol_passed *result)
{
    enum eightbyte classes[EIGHTBYTES];
    if (result->is_void || result->is_unknown ||
        (result->is_complex && result->size == 32 && result->leaves[0].leaf_class == SYMBOL_LEAF_X87))
        return false;
    classify(result, classes);
    return result->by_reference || classes[0] == CLASS_MEMORY;
}

static void arguments_64(const struct symbol_passed *result, const struct symbol_passed *arguments, size_t count,
                         struct symbol_location *out)
{
    static const int16_t integer[] = {SYMBOL_REG_64_RDI, SYMBOL_REG_64_RSI, SYMBOL_REG_64_RDX,
                                      SYMBOL_REG_64_RCX, SYMBOL_REG_64_R8,  SYMBOL_REG_64_R8 + 1};
    static const struct symbol_passed pointer = {
        .size = 8, .align = 8, .leaf_count = 1, .leaves = {{.leaf_class = SYMBOL_LEAF_INT, .size = 8}}};
    struct registers left = {integer, 6, 8, SYMBOL_REG_64_XMM0};
    uint64_t stack = 0;
    bool is_lost = result->is_unknown;
    if (!is_lost && result_in_memory_64(result)) {
        left.integer++;
        left.integers_left--;
    }
    for (size_t i = 0; i < count; i++) {
        const struct symbol_passed *value = arguments[i].by_reference ? &pointer : &arguments[i];
        enum eightbyte classes[EIGHTBYTES];
        is_lost |= value->is_unknown;
        if (is_lost) {
            nowhere(&out[i], "the calling convention of its type, or of one before it, is not known");
            continue;
        }
        if (!value->size || (value->is_aggregate && !value->leaf_count && value->size <= 16 && !value->is_memory)) {
            nowhere(&out[i], "an empty type is not passed");
            continue;
        }
        classify(value, classes);
        bool memory = classes[0] == CLASS_MEMORY || classes[0] == CLASS_X87;
        if (memory || !take(&left, value, classes, &out[i])) {
            stack = round_up(stack, value->align > 8 ? value->align : 8);
            in_memory(&out[i], SYMBOL_REG_64_RSP, (int64_t)(8 + stack));
            stack = round_up(stack + value->size, 8);
        }
        if (arguments[i].by_reference) {
            struct symbol_piece *piece = &out[i].pieces[0];
            piece->deref_count = piece->place == SYMBOL_PLACE_MEMORY;
            piece->place = SYMBOL_PLACE_MEMORY;
        }
    }
}

static void result_64(const struct symbol_passed *result, struct symbol_location *out)
{
    static const int16_t integer[] = {SYMBOL_REG_64_RAX, SYMBOL_REG_64_RDX};
    struct registers left = {integer, 2, 2, SYMBOL_REG_64_XMM0};
    enum eightbyte classes[EIGHTBYTES];
    if (result->is_complex && result->size == 32 && result->leaves[0].leaf_class == SYMBOL_LEAF_X87) {
        nowhere(out, NULL);
        for (int16_t i = 0; i < 2; i++)
            add_piece(out,
                      (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = (int16_t)(SYMBOL_REG_64_ST0 + i), .size_bytes = 16});
        return;
    }
    classify(result, classes);
    if (result->by_reference || classes[0] == CLASS_MEMORY) {
        in_memory(out, SYMBOL_REG_64_RAX, 0);
    } else if (classes[0] == CLASS_X87) {
        nowhere(out, NULL);
        add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = SYMBOL_REG_64_ST0});
    } else if (!result->leaf_count) {
        nowhere(out, "an empty type is not returned");
    } else {
        take(&left, result, classes, out); /* two eightbytes always fit */
    }
}

/* ---- i386 ---- */

/* gcc's ix86_return_in_memory() with -fpcc-struct-return, Linux's default. */
static bool result_in_memory_32(const struct symbol_passed *result)
{
    if (result->is_void || result->is_unknown || result->leaf_count == 0)
        return !result->is_void && !result->is_unknown && result->is_aggregate && result->size;
    return result->is_aggregate || result->by_reference || result->size > 12;
}

static void arguments_32(const struct symbol_passed *result, const struct symbol_passed *arguments, size_t count,
                         struct symbol_location *out)
{
    uint64_t stack = result_in_memory_32(result) ? 4 : 0;
    bool is_lost = result->is_unknown;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_passed *value = &arguments[i];
        is_lost |= value->is_unknown;
        for (unsigned k = 0; k < value->leaf_count && !value->is_aggregate; k++)
            is_lost |= value->leaves[k].leaf_class == SYMBOL_LEAF_VECTOR; /* in registers, if the program is built for SSE */
        if (is_lost) {
            nowhere(&out[i], "the calling convention of its type, or of one before it, is not known");
        } else if (!value->size) {
            nowhere(&out[i], "an empty type is not passed");
        } else {
            if (value->has_16 && !value->by_reference)
                stack = round_up(stack, 16);
            in_memory(&out[i], SYMBOL_REG_32_ESP, (int64_t)(4 + stack));
            out[i].pieces[0].deref_count = value->by_reference;
            stack = round_up(stack + (value->by_reference ? 4 : value->size), 4);
        }
    }
}

static void result_32(const struct symbol_passed *result, struct symbol_location *out)
{
    if (result_in_memory_32(result)) {
        in_memory(out, SYMBOL_REG_32_EAX, 0);
        return;
    }
    nowhere(out, NULL);
    if (!result->leaf_count) {
        out->reason = "an empty type is not returned";
    } else if (result->leaves[0].leaf_class == SYMBOL_LEAF_VECTOR || result->leaves[0].leaf_class == SYMBOL_LEAF_FLOAT128) {
        out->reason = "the calling convention of its type is not known";
    } else if (result->leaves[0].leaf_class != SYMBOL_LEAF_INT && !result->is_complex) {
        add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = SYMBOL_REG_32_ST0});
    } else if (result->size <= 4) {
        add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = SYMBOL_REG_32_EAX});
    } else {
        add_piece(out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = SYMBOL_REG_32_EAX, .size_bytes = 4});
        add_piece(
            out, (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = SYMBOL_REG_32_EDX, .size_bytes = (uint32_t)result->size - 4});
    }
}

/* ---- both ---- */

void symbol_callconv_arguments(int width, const struct symbol_passed *result, const struct symbol_passed *arguments, size_t count,
                               struct symbol_location *out)
{
    if (width == 64)
        arguments_64(result, arguments, count, out);
    else
        arguments_32(result, arguments, count, out);
}

void symbol_callconv_result(int width, const struct symbol_passed *result, struct symbol_location *out)
{
    if (result->is_void)
        nowhere(out, "it returns nothing");
    else if (result->is_unknown)
        nowhere(out, "the calling convention of its type is not known");
    else if (width == 64)
        result_64(result, out);
    else
        result_32(result, out);
}
