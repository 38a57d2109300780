/* Unwind tables of this program and of a file that has none; tables that are damaged are not valid. With `--rows FILE` prints the table of
 * a file, a row a line: address, CFA, and where bx, bp, the other kept registers and the return address are; for symbol_unwind_readelf.sh.
 */
#include "symbol/unwind.h"
#include "test/check.h"
#include "wire/stream.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint32_t *starts(const struct wire_unwind *table)
{
    return (const uint32_t *)(table + 1);
}

static const struct wire_unwind_rule *rule_of(const struct wire_unwind *table, uint32_t row)
{
    const uint16_t *rules = (const uint16_t *)(starts(table) + table->row_count);
    const uint8_t *first = (const uint8_t *)rules + ((table->row_count * 2u + 3) & ~3u);
    return (const struct wire_unwind_rule *)first + rules[row];
}

static const struct wire_unwind_rule *rule_at(const struct wire_unwind *table, uint64_t va)
{
    const struct wire_unwind_rule *found = NULL;
    for (uint32_t i = 0; i < table->row_count && table->text_va + starts(table)[i] <= va; i++)
        found = rule_of(table, i);
    return found;
}

/* ---- printing ---- */

static const char *const names64[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                      "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
static const char *const names32[] = {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"};

static void print_saved(const struct wire_unwind_rule *rule, int16_t place, bool is_return)
{
    if (place == WIRE_SAVED_SAME)
        printf(" u");
    else if (place == WIRE_SAVED_LOST)
        printf(" lost");
    else if (place < WIRE_SAVED_PLACES)
        printf(" r%d", place - WIRE_SAVED_REGISTER);
    else if (rule->base_register != WIRE_BASE_CFA && !is_return)
        printf(" exp");
    else
        printf(" c%+d", place);
}

static int print_rows(const char *path)
{
    struct symbol_unwind unwind;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct err *error = symbol_unwind_open_fd(fd, path, &unwind);
    close(fd);
    if (error) {
        puts(error->message);
        err_free(error);
        return 1;
    }
    const struct wire_unwind *table = unwind.table;
    const char *const *names = table->width == 64 ? names64 : names32;
    for (uint32_t i = 0; i < table->row_count; i++) {
        const struct wire_unwind_rule *rule = rule_of(table, i);
        printf("%" PRIx64 " ", table->text_va + starts(table)[i]);
        if (rule->cfa == WIRE_CFA_REGISTER)
            printf("%s%+d", names[rule->cfa_register], rule->cfa_offset);
        else
            printf("%s", (const char *[]){"none", "end", "", "exp", "exp", "exp"}[rule->cfa]);
        for (unsigned k = 0; k < (table->width == 64 ? 6 : 4) && rule->cfa >= WIRE_CFA_REGISTER; k++)
            print_saved(rule, rule->saved[k], false);
        if (rule->cfa >= WIRE_CFA_REGISTER)
            print_saved(rule, rule->return_offset, true);
        puts("");
    }
    symbol_unwind_deinit(&unwind);
    return 0;
}

/* ---- the test ---- */

static void check_valid(struct wire_unwind *table)
{
    CHECK(symbol_unwind_is_valid(table, table->bytes), "a table of ours");
    CHECK(!symbol_unwind_is_valid(table, table->bytes - 1), "cut");
    CHECK(!symbol_unwind_is_valid(table, 16), "cut in its head");
    uint32_t *start = (uint32_t *)(table + 1), second = start[1];
    start[1] = start[0];
    CHECK(!symbol_unwind_is_valid(table, table->bytes), "rows that do not ascend");
    start[1] = second;
    uint16_t *rule = (uint16_t *)(start + table->row_count), first = rule[0];
    rule[0] = (uint16_t)table->rule_count;
    CHECK(!symbol_unwind_is_valid(table, table->bytes), "a rule that is not there");
    rule[0] = first;
    table->magic ^= 1;
    CHECK(!symbol_unwind_is_valid(table, table->bytes), "not a table");
    table->magic ^= 1;
    CHECK(symbol_unwind_is_valid(table, table->bytes), "as it was");
}

static void check_self(void)
{
    struct symbol_file *file;
    struct symbol_unwind light;
    struct err *error = symbol_file_open("/proc/self/exe", &file);
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (!error)
        error = symbol_unwind_open_fd(fd, "/proc/self/exe", &light);
    if (error) {
        CHECK(false, "%s", error->message);
        err_free(error);
        return;
    }
    struct wire_unwind *table = symbol_unwind_build(file);
    CHECK(table->bytes == light.table->bytes && memcmp(table, light.table, table->bytes) == 0, "two ways, two tables");
    CHECK(light.code_count == 1 && light.build_id_size, "%zu segments", light.code_count);
    const struct wire_unwind_rule *start = rule_at(table, symbol_file_entry(file));
    CHECK(start && start->cfa == WIRE_CFA_END, "_start has a caller");
    size_t count, found = 0;
    const struct symbol_func *funcs = symbol_file_funcs(file, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(funcs[i].name, "main") == 0) {
            const struct wire_unwind_rule *rule = rule_at(table, funcs[i].va);
            CHECK(rule && rule->cfa == WIRE_CFA_REGISTER && rule->cfa_register == WIRE_REG64_SP && rule->cfa_offset == 8 &&
                      rule->return_offset == -8,
                  "the rule at an entry");
            found++;
        }
    CHECK(found == 1, "%zu functions", found);
    check_valid(table);
    free(table);
    symbol_unwind_deinit(&light);
    symbol_file_close(file);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--rows") == 0)
        return print_rows(argv[2]);
    check_self();
    struct symbol_unwind unwind;
    struct err *error = symbol_unwind_open_memory("\177ELF is not all of it", 21, "short", &unwind);
    CHECK(error && error->code == ERR_FILE && !unwind.table, "a file that is cut");
    err_free(error);
    return failures ? 1 : 0;
}
