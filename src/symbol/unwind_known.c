/* Code that no call frame information covers, known by its bytes: what signal handlers return to, thunks, PLT stubs, .init and .fini. */
#include "symbol/unwind_internal.h"

#include <string.h>

enum { MIN_GAP = 16 }; /* bytes; what is less is padding */

/* Code is read only where it is needed: clearing memory for all of it would take longer than everything else. */
const uint8_t *symbol_unwind_code(struct symbol_file *file, uint64_t va, uint64_t size)
{
    struct symbol_elf *elf = &file->elf;
    for (size_t i = 0; i < elf->segments.n; i++) {
        const struct symbol_segment *segment = &elf->segments.at[i];
        if (segment->executable && va >= segment->va && va - segment->va < segment->size && size <= segment->size - (va - segment->va))
            return symbol_image_need(&elf->image, segment->file_offset + (va - segment->va), size);
    }
    return NULL;
}

/* ---- anywhere ---- */

/* What signal handlers return to, where no call frame information says so (musl): known by its bytes, as to libgcc and gdb. Such code is
 * reached by returning to its first byte, so the byte before counts, too. */
static const struct restorer {
    int width;
    uint8_t size, bytes[9];
    int32_t offset;    /* of the struct sigcontext from the stack pointer */
    uint8_t pop_bytes; /* a first instruction that takes a word from the stack */
} restorers[] = {
    {64, 9, {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05}, 40, 0}, /* mov $15,%rax; syscall */
    {64, 7, {0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05}, 40, 0},             /* mov $15,%eax; syscall */
    {32, 7, {0xb8, 0xad, 0, 0, 0, 0xcd, 0x80}, 160, 0},            /* mov $173,%eax; int $0x80: behind signal number and siginfo */
    {32, 8, {0x58, 0xb8, 0x77, 0, 0, 0, 0xcd, 0x80}, 4, 1},        /* pop %eax; mov $119,%eax; int $0x80 */
};

/* `mov (%esp),%reg; ret`, through which 32-bit code learns its address: often the one of crti.o, for the whole file, which says nothing. */
static void find_thunks(struct symbol_file *file, uint64_t va, const uint8_t *bytes, size_t size, symbol_unwind_pieces *out)
{
    for (const uint8_t *at = bytes; size >= 4 && (at = memchr(at, 0x8b, size - 3 - (size_t)(at - bytes))); at++) {
        uint64_t thunk_va = va + (uint64_t)(at - bytes);
        if ((at[1] & 0xc7) == 0x04 && at[2] == 0x24 && at[3] == 0xc3)
            VEC_PUSH(out,
                     (struct symbol_unwind_piece){.va = thunk_va, .end = thunk_va + 4, .rule = symbol_unwind_plain(file->elf.width, 4)});
    }
}

static void find_restorers(struct symbol_file *file, uint64_t va, const uint8_t *bytes, size_t size, symbol_unwind_pieces *out)
{
    for (size_t i = 0; i < sizeof restorers / sizeof *restorers; i++) {
        const struct restorer *restorer = &restorers[i];
        if (restorer->width != file->elf.width)
            continue;
        for (const uint8_t *at = bytes; size && (at = memmem(at, size - (size_t)(at - bytes), restorer->bytes, restorer->size));
             at += restorer->size) {
            struct symbol_unwind_piece piece = {.va = va + (uint64_t)(at - bytes),
                                                .rule = symbol_unwind_signal(file->elf.width, restorer->offset)};
            piece.end = piece.va + restorer->size;
            if (restorer->pop_bytes) {
                struct symbol_unwind_piece popped = piece;
                popped.va += restorer->pop_bytes;
                popped.rule.cfa_offset -= file->elf.width / 8;
                piece.end = popped.va;
                VEC_PUSH(out, popped);
            }
            piece.va -= at > bytes;
            VEC_PUSH(out, piece);
        }
    }
}

void symbol_unwind_find_known(struct symbol_file *file, uint64_t va, uint64_t end, symbol_unwind_pieces *out)
{
    const uint8_t *bytes = end - va >= MIN_GAP ? symbol_unwind_code(file, va, end - va) : NULL;
    if (!bytes)
        return;
    find_restorers(file, va, bytes, (size_t)(end - va), out);
    if (file->elf.width == 32)
        find_thunks(file, va, bytes, (size_t)(end - va), out);
}

/* ---- sections ---- */

/* Stubs push at most the number of a relocation, and their head one word more; some linkers write no call frame information for them. */
static void add_plt(struct symbol_file *file, uint64_t va, uint64_t size, bool is_lazy, symbol_unwind_pieces *out)
{
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e};
    enum { PLT_ENTRY = 16, PUSHED = 11, LANDING_PUSHED = 9, HEAD_PUSHED = 6 }; /* bytes up to the end of the push: jmp, push; endbr, push */
    int word = file->elf.width / 8;
    struct symbol_unwind_piece stubs = {.va = va, .end = va + size, .rule = symbol_unwind_plain(file->elf.width, word)};
    if (is_lazy && size >= PLT_ENTRY) {
        const uint8_t *second = size > PLT_ENTRY ? symbol_unwind_code(file, va + PLT_ENTRY, sizeof landing) : NULL;
        struct symbol_unwind_piece head = {.va = va, .end = va + HEAD_PUSHED, .rule = symbol_unwind_plain(file->elf.width, 2 * word)};
        VEC_PUSH(out, head);
        head = (struct symbol_unwind_piece){head.end, va + PLT_ENTRY, .rule = symbol_unwind_plain(file->elf.width, 3 * word)};
        VEC_PUSH(out, head);
        stubs.va += PLT_ENTRY;
        stubs.rule.cfa = WIRE_CFA_PLT;
        stubs.rule.cfa_extra = second && memcmp(second, landing, sizeof landing) == 0 ? LANDING_PUSHED : PUSHED;
    }
    if (stubs.va < stubs.end)
        VEC_PUSH(out, stubs);
}

/* One function that fills a section: it makes room, and the last bytes give it back, instruction by instruction (crti.o, crtn.o). */
static void add_function(struct symbol_file *file, uint64_t va, uint64_t size, symbol_unwind_pieces *out)
{
    enum { MAX_STEPS = 8, MAX_TAIL = 40, MAX_SIZE = 1 << 16 };
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e};
    bool is_wide = file->elf.width == 64;
    unsigned prefix = is_wide ? 1 : 0; /* REX.W */
    const uint8_t *bytes = size <= MAX_SIZE ? symbol_unwind_code(file, va, size) : NULL;
    uint8_t tail[MAX_TAIL];                            /* written from its end */
    struct symbol_unwind_row steps[MAX_STEPS] = {{0}}; /* rule behind each instruction that makes room; `end` is its size at the tail */
    struct wire_unwind_rule rule = symbol_unwind_plain(file->elf.width, file->elf.width / 8);
    size_t at = 0, tail_at = MAX_TAIL;
    unsigned count = 0;
    if (!bytes || bytes[size - 1] != 0xc3)
        return;
    tail[--tail_at] = 0xc3;
    if (size > 4 && memcmp(bytes, landing, sizeof landing) == 0)
        at = 4;
    for (; count < MAX_STEPS && size - at > 4; count++) {
        struct wire_unwind_rule before = rule;
        size_t was = tail_at;
        if (bytes[at] >= 0x50 && bytes[at] <= 0x57) { /* push reg; pop reg */
            tail[--tail_at] = (uint8_t)(bytes[at] + 8);
            rule.cfa_offset += file->elf.width / 8;
            if (bytes[at] == 0x53)
                rule.saved[0] = (int16_t)-rule.cfa_offset; /* bx is the first in both widths */
            at += 1;
        } else if ((!is_wide || bytes[at] == 0x48) && bytes[at + prefix] == 0x83 && bytes[at + prefix + 1] == 0xec) {
            /* sub $imm8,%sp; add $imm8,%sp */
            tail_at -= 3 + prefix;
            memcpy(tail + tail_at, bytes + at, 3 + prefix);
            tail[tail_at + prefix + 1] = 0xc4;
            rule.cfa_offset += (int8_t)bytes[at + prefix + 2];
            at += 3 + prefix;
        } else {
            break;
        }
        steps[count] = (struct symbol_unwind_row){va + at, was - tail_at, before};
    }
    size_t tail_size = MAX_TAIL - tail_at;
    if (at + tail_size > size || memcmp(bytes + size - tail_size, tail + tail_at, tail_size) != 0)
        return;
    uint64_t from = va, tail_va = va + size - tail_size;
    for (unsigned i = 0; i < count; from = steps[i++].va)
        VEC_PUSH(out, (struct symbol_unwind_piece){from, steps[i].va, .rule = steps[i].rule});
    for (unsigned i = count; i-- > 0;) {
        tail_va += steps[i].end;
        VEC_PUSH(out, (struct symbol_unwind_piece){from, tail_va, .rule = rule});
        from = tail_va;
        rule = steps[i].rule;
    }
    VEC_PUSH(out, (struct symbol_unwind_piece){from, va + size, .rule = rule});
}

void symbol_unwind_find_sections(struct symbol_file *file, symbol_unwind_pieces *out)
{
    for (size_t i = 0; i < file->elf.sections.n; i++) {
        const struct symbol_section *section = &file->elf.sections.at[i];
        const struct symbol_range *range = symbol_file_code_at(file, section->va);
        if (!range || !section->size || section->size > range->end - section->va)
            continue;
        if (symbol_is_plt(section))
            add_plt(file, section->va, section->size, strcmp(section->name, ".plt") == 0, out);
        else if (strcmp(section->name, ".init") == 0 || strcmp(section->name, ".fini") == 0)
            add_function(file, section->va, section->size, out);
    }
}
