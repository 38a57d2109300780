/* Mutates ELF files, most of all their debug information, and reads everything that symbol_dwarf_*() and symbol_usdt_*() give of them.
 *
 * Besides what the sanitizers see, a run fails when it takes more than five seconds or leaves the program with more than a gigabyte. */
#include "fuzz/mutate.h"
#include "symbol/dwarf.h"
#include "symbol/usdt.h"

#include <sys/resource.h>

/* ---- reading ---- */

static volatile uint64_t total;
static unsigned visits;

static void walk_type(struct symbol_dwarf *dwarf, const struct symbol_type *type, unsigned depth)
{
    const struct symbol_type *target;
    const struct symbol_member *members;
    const struct symbol_enumerator *values;
    size_t count;
    if (depth > 6 || ++visits > 3000)
        return;
    total += type->size_bytes + type->count + (type->name ? strlen(type->name) : 0);
    if (type->kind == SYMBOL_TYPE_UNKNOWN && !type->reason)
        fail("an unknown type without a reason");
    if ((type->kind == SYMBOL_TYPE_ARRAY || type->kind == SYMBOL_TYPE_TYPEDEF) && !type->target)
        fail("an array or typedef of nothing");
    type = symbol_dwarf_resolve(dwarf, type);
    struct err *error = NULL;
    if (type->kind == SYMBOL_TYPE_STRUCT || type->kind == SYMBOL_TYPE_UNION) {
        error = symbol_dwarf_members(dwarf, type, &members, &count);
        for (size_t i = 0; !error && i < count; i++) {
            if (members[i].bit_size > 64 || members[i].bit_offset > 7 || !members[i].type)
                fail("a member that is none");
            walk_type(dwarf, members[i].type, depth + 1);
        }
    } else if (type->kind == SYMBOL_TYPE_ENUM) {
        error = symbol_dwarf_enumerators(dwarf, type, &values, &count);
        for (size_t i = 0; !error && i < count; i++)
            total += strlen(values[i].name);
    } else if (type->kind == SYMBOL_TYPE_POINTER || type->kind == SYMBOL_TYPE_FUNCTION || type->kind == SYMBOL_TYPE_ARRAY) {
        error = symbol_dwarf_target(dwarf, type, &target);
        if (!error)
            walk_type(dwarf, target, depth + 1);
    }
    err_free(error);
}

static void walk_location(const struct symbol_location *location)
{
    if (location->piece_count > SYMBOL_MAX_PIECES || (!location->piece_count && !location->reason))
        fail("a location that is none");
    for (unsigned i = 0; i < location->piece_count; i++) {
        const struct symbol_piece *piece = &location->pieces[i];
        if (piece->deref_count > SYMBOL_MAX_DEREFS || piece->reg < SYMBOL_NO_REG)
            fail("a piece that is none");
        for (uint32_t k = 0; piece->place == SYMBOL_PLACE_CONSTANT && k < piece->size_bytes; k++)
            total += piece->bytes[k];
    }
}

static void walk_variables(struct symbol_dwarf *dwarf, const struct symbol_variable *variables, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        total += strlen(variables[i].name);
        walk_type(dwarf, variables[i].type, 0);
        walk_location(&variables[i].location);
    }
}

static void walk_address(struct symbol_dwarf *dwarf, uint64_t va)
{
    const struct symbol_dwarf_func *func;
    const struct symbol_variable *variables;
    const struct symbol_line *places;
    struct symbol_line line;
    size_t count;
    struct err *error = symbol_dwarf_func_at(dwarf, va, &func);
    if (!error) {
        walk_variables(dwarf, func->params, func->param_count);
        walk_location(&func->result_location);
        walk_type(dwarf, func->result, 0);
    }
    err_free(error);
    error = symbol_dwarf_locals(dwarf, va, &variables, &count);
    if (!error)
        walk_variables(dwarf, variables, count);
    err_free(error);
    error = symbol_dwarf_line_at(dwarf, va, &line);
    if (!error) {
        err_free(symbol_dwarf_line_places(dwarf, line.path, line.line, &places, &count));
        total += strlen(line.path);
    }
    err_free(error);
    struct symbol_inline inlines[SYMBOL_INLINES_MAX];
    count = symbol_dwarf_inlines(dwarf, va, inlines);
    if (count > SYMBOL_INLINES_MAX || (count && inlines[count - 1].is_inlined))
        fail("inlined into nothing");
    for (size_t i = 0; i < count; i++) {
        if (i + 1 < count && !inlines[i].is_inlined)
            fail("a function that is not inlined, in another");
        if (!inlines[i].path != !inlines[i].line)
            fail("a line of no file");
        total += (inlines[i].name ? strlen(inlines[i].name) : 0) + (inlines[i].path ? strlen(inlines[i].path) : 0) +
                 (inlines[i].declared_path ? strlen(inlines[i].declared_path) : 0);
    }
}

static void walk_dwarf(struct symbol_dwarf *dwarf)
{
    static const char *const types[] = {"struct totals", "unsigned long", "uint32_t", "std::exception", "no_such_type"};
    static const char *const functions[] = {"main", "f1", "plain", "_start", "guarded", "worker", "many", "shaped"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const struct symbol_type *type;
        struct err *error = symbol_dwarf_type(dwarf, types[i], &type);
        if (!error)
            walk_type(dwarf, type, 0);
        err_free(error);
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        const uint64_t *entries;
        size_t count;
        struct err *error = symbol_dwarf_entries(dwarf, functions[i], &entries, &count);
        for (size_t k = 0; !error && k < count && k < 4; k++)
            for (uint64_t offset = 0; offset < 64; offset += 13)
                walk_address(dwarf, entries[k] + offset);
        err_free(error);
    }
    walk_address(dwarf, 0x1200);
}

static void walk_usdt(const struct symbol_usdt *usdt)
{
    size_t count;
    const struct symbol_usdt_probe *probes = symbol_usdt_probes(usdt, &count);
    for (size_t i = 0; i < count; i++) {
        total += strlen(probes[i].provider) + strlen(probes[i].name) + strlen(probes[i].arguments);
        for (size_t k = 0; k < probes[i].arg_count; k++)
            if ((probes[i].args[k].kind == SYMBOL_USDT_UNKNOWN) != (probes[i].args[k].reason != NULL))
                fail("an unknown argument without a reason");
    }
}

/* Random argument strings. */
static void walk_args(const uint8_t *bytes, size_t size)
{
    static const char *const parts[] = {
        "8@",  "-4@",     "4f@",    "$", "%rax",  "%eax", "(",    ")", ",", "-", "+", "0x", "12", "99999999999999999999",
        "sym", "@GOTOFF", "(%rip)", " ", "%xmm0", "4",    "%fs:", "@", "%", "8"};
    struct symbol_usdt_arg args[SYMBOL_USDT_MAX_ARGS];
    char text[256] = "";
    for (size_t i = 0; i < 24 && i < size; i++)
        if (strlen(text) + 24 < sizeof text)
            strcat(text, parts[bytes[(i * 7919) % size] % (sizeof parts / sizeof *parts)]);
    for (int width = 32; width <= 64; width += 32)
        for (size_t i = symbol_usdt_parse(text, width, args); i > 0; i--)
            if ((args[i - 1].kind == SYMBOL_USDT_UNKNOWN) != (args[i - 1].reason != NULL))
                fail("an unknown argument without a reason");
}

static bool read_file(int fd, const uint8_t *bytes, size_t size)
{
    visits = 0;
    struct symbol_dwarf *dwarf;
    struct symbol_usdt *usdt;
    struct err *error = symbol_dwarf_open_fd(fd, "/nonexistent/fuzz", &dwarf);
    bool is_open = !error;
    if (is_open)
        walk_dwarf(dwarf);
    symbol_dwarf_close(dwarf);
    err_free(error);
    error = symbol_usdt_open_fd(fd, "/nonexistent/fuzz", &usdt);
    if (!error)
        walk_usdt(usdt);
    symbol_usdt_close(usdt);
    err_free(error);
    walk_args(bytes, size);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss > 1 << 20)
        fail("too much memory");
    return is_open;
}

static const struct fuzzer fuzzer = {"symbol_dwarf", true, 5000000000, read_file};
