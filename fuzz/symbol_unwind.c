/* Mutates ELF files, builds their unwind tables, and walks with them: with the table as it is, and with one in which bytes were changed
 * since.
 *
 * Besides what the sanitizers see, a run fails when it takes more than two seconds, when a table is not valid, or when a walk has more
 * frames than there is room. */
#include "fuzz/mutate.h"
#include "symbol/unwind.h"
#include "unwind/walk.h"

enum { ROOM = 64, WALKS = 64 };

static uint64_t chance; /* xorshift64* of its own: the same file gives the same walks */

static uint64_t random_word(void)
{
    chance ^= chance >> 12;
    chance ^= chance << 25;
    chance ^= chance >> 27;
    return chance * 0x2545f4914f6cdd1d;
}

/* A stack that holds addresses in the code, in itself, and anything. */
static bool read_word(void *context, uint64_t va, uint64_t *word)
{
    const struct unwind_module *module = context;
    switch (random_word() % 16) {
    case 0:
        return false;
    case 1:
        *word = random_word();
        return true;
    case 2:
    case 3:
        *word = va + random_word() % 256;
        return true;
    default:
        *word = module->start_va + random_word() % (module->end_va - module->start_va + 1);
        return true;
    }
}

static void walk(const struct wire_unwind *table, size_t bytes, uint32_t width)
{
    uint32_t last =
        table->row_count && 32 + 4 * (uint64_t)table->row_count <= bytes ? ((const uint32_t *)(table + 1))[table->row_count - 1] : 0;
    struct unwind_module module = {.start_va = table->text_va, .end_va = table->text_va + last + 64, .table_bytes = bytes};
    struct unwind_space space = {.module = &module, .module_count = 1, .width = width};
    module.table_va = (uintptr_t)table;
    if (module.end_va < module.start_va)
        return;
    for (int i = 0; i < WALKS; i++) {
        uint64_t pcs[ROOM + 1];
        struct unwind_regs regs = {.pc = module.start_va + random_word() % (last + 64), .known = (uint32_t)random_word() | 0x90};
        for (int r = 0; r < WIRE_REG64_COUNT; r++)
            regs.reg[r] = random_word() >> (random_word() % 64);
        uint32_t room = (uint32_t)(random_word() % (ROOM + 1));
        pcs[room] = 0x7e57;
        struct unwind_work work = {.regs = regs};
        struct unwind_walk walk = {.work = &work, .space = &space, .read = read_word, .context = &module};
        unwind_walk(&walk, pcs, room);
        if (walk.result.count > room || pcs[room] != 0x7e57 || (room && !walk.result.count) || (room && pcs[0] != regs.pc))
            fail("a walk without bounds");
    }
}

static void look(const struct symbol_unwind *unwind)
{
    const struct wire_unwind *table = unwind->table;
    if (!symbol_unwind_is_valid(table, table->bytes))
        fail("the table is not valid");
    chance = 0x9e3779b97f4a7c15 ^ table->row_count;
    walk(table, table->bytes, table->width);
    /* Where it was made is not where it is used. */
    struct wire_unwind *changed = malloc(table->bytes);
    memcpy(changed, table, table->bytes);
    for (uint64_t i = 0; i < 1 + random_word() % 64; i++)
        ((uint8_t *)changed)[random_word() % table->bytes] = (uint8_t)random_word();
    walk(changed, table->bytes, table->width);
    free(changed);
}

static bool read_file(int fd, const uint8_t *bytes, size_t size)
{
    (void)bytes;
    (void)size;
    struct symbol_unwind unwind;
    struct err *error = symbol_unwind_open_fd(fd, "/nonexistent/fuzz", &unwind);
    bool is_open = !error;
    if (is_open)
        look(&unwind);
    else if (unwind.table)
        fail("an error and a table");
    symbol_unwind_deinit(&unwind);
    err_free(error);
    return is_open;
}

static const struct fuzzer fuzzer = {"symbol_unwind", false, 2000000000, read_file};
