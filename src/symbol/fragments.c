/* Which functions are parts that the compiler moved away from another function, and from which.
 *
 * With symbols the name says it: NAME.cold or NAME.cold.N. Without, a range whose first instruction already has a frame (its CFA is not
 * that of a function entry) can not be called, so it is a fragment; its parent is the function with a direct jump to it. The jump is
 * looked for in raw bytes: a 32-bit displacement that leads exactly to a fragment is hardly ever chance. Where none is found, as with
 * fragments that only exceptions enter, a jump back into the middle of a function tells as well. */
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>

struct fragment {
    struct symbol_func *func;
    size_t base_length;  /* of the parent's name inside func->name; 0 when the name does not tell */
    uint64_t hash;       /* of that name */
    uint64_t va_by_jump; /* found parents, 0 = none; better ones replace */
    bool is_exact;       /* va_by_jump jumps to the fragment's first byte */
    uint64_t va_by_name;
    bool is_ambiguous; /* several functions have the parent's name */
};

typedef VEC(struct fragment) fragment_vec;

/* Length of NAME in NAME.cold and NAME.cold.N, else 0. */
static size_t cold_base(const char *name)
{
    const char *found = NULL;
    for (const char *at = name; (at = strstr(at, ".cold")); at += 5)
        if (!at[5] || (at[5] == '.' && at[6] && !at[6 + strspn(at + 6, "0123456789")]))
            found = at;
    return found ? (size_t)(found - name) : 0;
}

static uint64_t hash_text(const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return hash ^ hash >> 29;
}

static void collect(struct symbol_file *file, fragment_vec *fragments)
{
    for (size_t i = 0; i < file->func_count; i++) {
        struct symbol_func *func = &file->funcs[i];
        struct fragment fragment = {.func = func};
        if (func->source == SYMBOL_FROM_EH_FRAME) {
            const struct symbol_fde *fde = symbol_file_fde_at(file, func->va);
            if (!fde || fde->is_entry_rule || fde->is_signal)
                continue;
        } else if (func->source == SYMBOL_FROM_PLT || !(fragment.base_length = cold_base(func->name))) {
            continue;
        } else {
            fragment.hash = hash_text(func->name, fragment.base_length);
        }
        func->is_fragment = true;
        VEC_PUSH(fragments, fragment);
    }
}

/* ---- by name ---- */

enum { MAX_PROBES = 64 }; /* names chosen to collide cost a parent, not time */

static void find_by_name(struct symbol_file *file, fragment_vec *fragments)
{
    size_t slots = 16;
    while (slots < fragments->n * 2)
        slots *= 2;
    uint32_t *table = memory_zero(slots, sizeof *table); /* index + 1 */
    bool is_empty = true;
    for (size_t i = 0; i < fragments->n; i++) {
        if (!fragments->at[i].base_length)
            continue;
        is_empty = false;
        for (size_t probe = 0; probe < MAX_PROBES; probe++) {
            uint32_t *slot = &table[(fragments->at[i].hash + probe) & (slots - 1)];
            if (!*slot) {
                *slot = (uint32_t)i + 1;
                break;
            }
        }
    }
    for (size_t i = 0; i < file->func_count && !is_empty; i++) {
        const struct symbol_func *func = &file->funcs[i];
        if (func->is_fragment || func->source > SYMBOL_FROM_DYNSYM)
            continue;
        size_t length = strlen(func->name);
        uint64_t hash = hash_text(func->name, length);
        for (size_t probe = 0; probe < MAX_PROBES; probe++) {
            uint32_t slot = table[(hash + probe) & (slots - 1)];
            if (!slot)
                break;
            struct fragment *fragment = &fragments->at[slot - 1];
            if (fragment->hash != hash || fragment->base_length != length || memcmp(fragment->func->name, func->name, length) != 0)
                continue;
            if (!fragment->va_by_name)
                fragment->va_by_name = func->va;
            else if (fragment->va_by_name != func->va)
                fragment->is_ambiguous = true;
        }
    }
    free(table);
}

/* ---- by jumps ---- */

/* Calls `visit` with the target of everything in the function that may be a direct near jump. */
typedef void jump_fn(void *context, const struct symbol_func *from, uint64_t target);
static void each_jump(const struct symbol_file *file, const struct symbol_func *func, jump_fn *visit, void *context)
{
    size_t available;
    const uint8_t *bytes = symbol_file_text(file, func->va, &available);
    if (!bytes)
        return;
    size_t size = func->size < available ? (size_t)func->size : available;
    for (size_t i = 0; i + 5 <= size; i++) {
        size_t at; /* of the displacement */
        if (bytes[i] == 0xe9)
            at = i + 1;
        else if (bytes[i] == 0x0f && (bytes[i + 1] & 0xf0) == 0x80 && i + 6 <= size)
            at = i + 2;
        else
            continue;
        int32_t displacement;
        memcpy(&displacement, bytes + at, 4);
        uint64_t target = func->va + at + 4 + (uint64_t)displacement;
        visit(context, func, file->elf.width == 64 ? target : (uint32_t)target);
    }
}

struct search {
    const struct symbol_file *file;
    fragment_vec *fragments; /* by va */
    uint64_t low_va, high_va;
};

static struct fragment *fragment_at(const struct search *search, uint64_t va)
{
    if (va < search->low_va || va >= search->high_va)
        return NULL;
    size_t low = 0, high = search->fragments->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (search->fragments->at[middle].func->va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    struct fragment *fragment = low ? &search->fragments->at[low - 1] : NULL;
    return fragment && va - fragment->func->va < fragment->func->size ? fragment : NULL;
}

static void jump_to_fragment(void *context, const struct symbol_func *from, uint64_t target)
{
    struct search *search = context;
    struct fragment *fragment = fragment_at(search, target);
    if (!fragment || fragment->is_exact)
        return;
    if (fragment->base_length &&
        (strlen(from->name) != fragment->base_length || memcmp(from->name, fragment->func->name, fragment->base_length) != 0))
        return;
    if (target == fragment->func->va || !fragment->va_by_jump) {
        fragment->va_by_jump = from->va;
        fragment->is_exact = target == fragment->func->va;
    }
}

struct back_search {
    const struct symbol_file *file;
    uint64_t parent_va;
};

static void jump_back(void *context, const struct symbol_func *from, uint64_t target)
{
    struct back_search *search = context;
    (void)from;
    if (search->parent_va)
        return;
    const struct symbol_func *func = symbol_file_func_at(search->file, target);
    if (func && func->va != target && !func->is_fragment && func->source != SYMBOL_FROM_PLT)
        search->parent_va = func->va;
}

static void find_by_jumps(struct symbol_file *file, fragment_vec *fragments)
{
    const struct symbol_func *last = fragments->at[fragments->n - 1].func;
    struct search search = {file, fragments, fragments->at[0].func->va, last->va + last->size};
    uint64_t done_va = UINT64_MAX;
    for (size_t i = 0; i < file->func_count; i++) {
        /* Aliases share their bytes. */
        if (file->funcs[i].is_fragment || file->funcs[i].source == SYMBOL_FROM_PLT || file->funcs[i].va == done_va)
            continue;
        done_va = file->funcs[i].va;
        each_jump(file, &file->funcs[i], jump_to_fragment, &search);
    }
    for (size_t i = 0; i < fragments->n; i++) {
        struct fragment *fragment = &fragments->at[i];
        if (fragment->va_by_jump || fragment->base_length)
            continue;
        struct back_search back = {file, 0};
        each_jump(file, fragment->func, jump_back, &back);
        fragment->va_by_jump = back.parent_va;
    }
}

void symbol_find_parents(struct symbol_file *file)
{
    fragment_vec fragments = {0};
    collect(file, &fragments);
    if (fragments.n) {
        find_by_name(file, &fragments);
        bool is_open = false;
        for (size_t i = 0; i < fragments.n; i++)
            is_open |= !fragments.at[i].va_by_name || fragments.at[i].is_ambiguous;
        if (is_open)
            find_by_jumps(file, &fragments);
    }
    for (size_t i = 0; i < fragments.n; i++) {
        const struct fragment *fragment = &fragments.at[i];
        uint64_t parent_va = fragment->va_by_name;
        if (fragment->va_by_jump && (!parent_va || fragment->is_ambiguous))
            parent_va = fragment->va_by_jump;
        if (parent_va)
            fragment->func->parent_va = parent_va;
    }
    VEC_FREE(&fragments);
}
