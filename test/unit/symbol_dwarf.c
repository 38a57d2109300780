/* symbol_dwarf_*() on this very program: its own types, functions, lines and variables, as the compiler and the running program know them;
 * error codes. With an option and a FILE it prints instead, for symbol_dwarf_tools.sh and others:
 *
 *   --layout FILE COUNT      types t0 to tCOUNT-1 in the form of test/layout/generate.c
 *   --line FILE SOURCE LINE  addresses and lines
 *   --addresses FILE         lines of the addresses on standard input
 *   --inlines FILE           functions and lines of the addresses on standard input, in the form of addr2line
 *   --cfa FILE               the CFA at the addresses on standard input, in the form of readelf
 *   --gdb FILE ADDRESS       commands for gdb that compare the variables in scope with where they should be
 *   --func FILE NAME         parameters and result */
#include "base/memory.h"
#include "symbol/dwarf.h"
#include "symbol/dwarf_internal.h"
#include "test/check.h"

#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail_with(struct err *error)
{
    printf("error %d %s\n", error->code, error->message);
    err_free(error);
    return 1;
}

/* ---- printing ---- */

static void print_members(struct symbol_dwarf *dwarf, const char *owner, const struct symbol_type *type, uint64_t offset)
{
    const struct symbol_member *members;
    size_t count;
    struct err *error = symbol_dwarf_members(dwarf, type, &members, &count);
    if (error) {
        fail_with(error);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const struct symbol_member *member = &members[i];
        if (!member->name)
            print_members(dwarf, owner, member->type, offset + member->offset_bytes);
        else
            printf("member %s %s %" PRIu64 " %u %u %" PRIu64 "\n", owner, member->name, offset + member->offset_bytes, member->bit_offset,
                   member->bit_size, member->bit_size ? 0 : symbol_dwarf_resolve(dwarf, member->type)->size_bytes);
    }
}

static int print_layout(struct symbol_dwarf *dwarf, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct symbol_type *type;
        char name[32];
        snprintf(name, sizeof name, "%s t%u", i % 4 == 3 ? "union" : "struct", i);
        struct err *error = symbol_dwarf_type(dwarf, name, &type);
        if (error)
            return fail_with(error);
        printf("type t%u %" PRIu64 "\n", i, type->size_bytes);
        print_members(dwarf, strchr(name, ' ') + 1, type, 0);
    }
    return 0;
}

static int print_lines(struct symbol_dwarf *dwarf, const char *source, unsigned line)
{
    const struct symbol_line *lines;
    size_t count;
    struct err *error = symbol_dwarf_line_places(dwarf, source, line, &lines, &count);
    if (error)
        return fail_with(error);
    for (size_t i = 0; i < count; i++)
        printf("%" PRIx64 " %u\n", lines[i].va, lines[i].line);
    return 0;
}

static int print_addresses(struct symbol_dwarf *dwarf)
{
    uint64_t va;
    while (scanf("%" SCNx64, &va) == 1) {
        struct symbol_line line;
        struct err *error = symbol_dwarf_line_at(dwarf, va, &line);
        if (error)
            printf("??:0\n");
        else
            printf("%s:%u\n", strrchr(line.path, '/') ? strrchr(line.path, '/') + 1 : line.path, line.line);
        err_free(error);
    }
    return 0;
}

/* As `addr2line -a -i -f -C`, which has ?? for what is not known. */
static int print_inlines(struct symbol_dwarf *dwarf)
{
    uint64_t va;
    while (scanf("%" SCNx64, &va) == 1) {
        struct symbol_inline inlines[SYMBOL_INLINES_MAX];
        size_t count = symbol_dwarf_inlines(dwarf, va, inlines);
        printf("0x%0*" PRIx64 "\n", dwarf->width / 4, va);
        for (size_t i = 0; i < count; i++) {
            printf("%s\n%s:", inlines[i].name ? inlines[i].name : "??", inlines[i].path ? inlines[i].path : "??");
            printf(inlines[i].line ? "%u\n" : "?\n", inlines[i].line);
        }
        if (!count)
            printf("??\n??:0\n");
    }
    return 0;
}

static const char *reg_name(int width, int reg)
{
    static const char *const names[2][17] = {
        {"eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "eip"},
        {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rip"}};
    return reg >= 0 && reg < 17 ? names[width == 64][reg] : "?";
}

static int print_cfa(struct symbol_dwarf *dwarf)
{
    uint64_t va;
    while (scanf("%" SCNx64, &va) == 1) {
        struct symbol_piece cfa;
        symbol_dw_begin_call(dwarf);
        if (!symbol_dw_cfa_at(dwarf, va, &cfa))
            printf("%" PRIx64 " none\n", va);
        else if (cfa.deref_count)
            printf("%" PRIx64 " exp\n", va);
        else
            printf("%" PRIx64 " %s%+" PRId64 "\n", va, reg_name(dwarf->width, cfa.reg), cfa.offset);
    }
    return 0;
}

/* An expression in gdb's language for what a piece computes. */
static void piece_text(int width, const struct symbol_piece *piece, char *out, size_t room)
{
    char inner[256];
    if (piece->reg == SYMBOL_NO_REG)
        snprintf(out, room, "(%" PRId64 "%s)", piece->offset, piece->is_file_va ? "+$bias" : "");
    else
        snprintf(out, room, "((long)$%s%+" PRId64 ")", reg_name(width, piece->reg), piece->offset);
    for (unsigned i = 0; i < piece->deref_count; i++) {
        snprintf(inner, sizeof inner, "%s", out);
        snprintf(out, room, "(*(long *)%s%+" PRId64 ")", inner, piece->deref_offset[i]);
    }
}

static int print_gdb(struct symbol_dwarf *dwarf, uint64_t va)
{
    const struct symbol_variable *variables;
    size_t count;
    struct err *error = symbol_dwarf_locals(dwarf, va, &variables, &count);
    if (error)
        return fail_with(error);
    for (size_t i = 0; i < count; i++) {
        const struct symbol_variable *variable = &variables[i];
        const struct symbol_type *type = symbol_dwarf_resolve(dwarf, variable->type);
        char text[300];
        piece_text(dwarf->width, &variable->location.pieces[0], text, sizeof text);
        if (!variable->location.piece_count && !variable->inline_depth)
            printf("echo none %s: %s\\n\n", variable->name, variable->location.reason);
        else if (variable->location.pieces[0].is_entry || variable->location.piece_count > 1 || variable->inline_depth)
            printf("echo skip %s\\n\n", variable->name);
        else if (variable->location.pieces[0].place == SYMBOL_PLACE_MEMORY)
            printf("printf \"%%d %s: memory\\n\", (char *)&%s == (char *)%s\n", variable->name, variable->name, text);
        else if (type->kind == SYMBOL_TYPE_INT || type->kind == SYMBOL_TYPE_POINTER)
            printf("printf \"%%d %s: value\\n\", (long)%s == (long)(%s)%s\n", variable->name, variable->name,
                   type->size_bytes == 4 ? (type->is_signed ? "int" : "unsigned") : "long", text);
        else
            printf("echo skip %s\\n\n", variable->name);
    }
    return 0;
}

static void print_place(int width, const struct symbol_location *location)
{
    for (unsigned i = 0; i < location->piece_count; i++) {
        const struct symbol_piece *piece = &location->pieces[i];
        char text[300];
        piece_text(width, piece, text, sizeof text);
        printf(" %s%s", piece->place == SYMBOL_PLACE_REGISTER ? "in " : piece->place == SYMBOL_PLACE_MEMORY ? "at " : "is ", text);
    }
    if (!location->piece_count)
        printf(" nowhere: %s", location->reason);
}

static int print_func(struct symbol_dwarf *dwarf, const char *name)
{
    const uint64_t *entries;
    size_t count;
    struct err *error = symbol_dwarf_entries(dwarf, name, &entries, &count);
    if (error)
        return fail_with(error);
    for (size_t i = 0; i < count; i++) {
        const struct symbol_dwarf_func *func;
        if ((error = symbol_dwarf_func_at(dwarf, entries[i], &func)))
            return fail_with(error);
        printf("%s%s\n", func->name, func->is_changed ? " (changed)" : "");
        for (size_t k = 0; k < func->param_count; k++) {
            const struct symbol_variable *param = &func->params[k];
            printf("  %s %s:", param->type->name ? param->type->name : "-", param->name);
            print_place(dwarf->width, &param->location);
            printf("%s\n", param->location.is_convention ? " (convention)" : "");
        }
        printf("  result %s:", func->result->name ? func->result->name : "-");
        print_place(dwarf->width, &func->result_location);
        puts("");
    }
    return 0;
}

static int print(int argc, char **argv)
{
    struct symbol_dwarf *dwarf;
    struct err *error = symbol_dwarf_open(argv[2], &dwarf);
    int code = 2;
    if (error)
        return fail_with(error);
    if (strcmp(argv[1], "--layout") == 0 && argc == 4)
        code = print_layout(dwarf, (unsigned)atoi(argv[3]));
    else if (strcmp(argv[1], "--line") == 0 && argc == 5)
        code = print_lines(dwarf, argv[3], (unsigned)atoi(argv[4]));
    else if (strcmp(argv[1], "--addresses") == 0)
        code = print_addresses(dwarf);
    else if (strcmp(argv[1], "--inlines") == 0)
        code = print_inlines(dwarf);
    else if (strcmp(argv[1], "--cfa") == 0)
        code = print_cfa(dwarf);
    else if (strcmp(argv[1], "--gdb") == 0 && argc == 4)
        code = print_gdb(dwarf, strtoull(argv[3], NULL, 16));
    else if (strcmp(argv[1], "--func") == 0 && argc == 4)
        code = print_func(dwarf, argv[3]);
    symbol_dwarf_close(dwarf);
    return code;
}

/* ---- this program ---- */

enum mood { GLOOMY = -3, CHEERFUL = 4 };
enum wide { WIDE_TOP = 0xfffffffffffffff0 };
struct node;
typedef struct node *node_link;
struct node {
    node_link next;
    const volatile struct node *twin;
    enum mood mood;
    enum wide wide;
    unsigned low : 3, middle : 7;
    signed long long high : 40;
    struct {
        short inner;
        union {
            float f;
            double d;
        };
    };
    char text[3][5];
    int (*call)(struct node *, long);
    long double precise;
    _Bool flag;
    int rest[];
};
typedef unsigned long number;

__attribute__((noipa)) int subject(struct node *node, double ratio, struct node by_value, const char *name);
int subject(struct node *node, double ratio, struct node by_value, const char *name)
{
    number local = (number)ratio + (number)by_value.mood;
    return node->mood + (int)local + name[0];
}

static const struct symbol_type *type_of(struct symbol_dwarf *dwarf, const char *name)
{
    const struct symbol_type *type = NULL;
    struct err *error = symbol_dwarf_type(dwarf, name, &type);
    CHECK(!error, "%s", error ? error->message : "");
    err_free(error);
    return type;
}

static const struct symbol_member *member_of(struct symbol_dwarf *dwarf, const struct symbol_type *type, const char *name)
{
    const struct symbol_member *members = NULL;
    size_t count = 0;
    struct err *error = symbol_dwarf_members(dwarf, type, &members, &count);
    CHECK(!error, "%s", error ? error->message : "");
    err_free(error);
    for (size_t i = 0; i < count; i++)
        if (name ? members[i].name && strcmp(members[i].name, name) == 0 : !members[i].name)
            return &members[i];
    CHECK(false, "no member %s", name ? name : "without a name");
    static const struct symbol_type none = {0};
    static const struct symbol_member nothing = {.type = &none};
    return &nothing;
}

static void own_types(struct symbol_dwarf *dwarf)
{
    static const char *const spellings[] = {"unsigned long", "long unsigned int", "unsigned long int", "long unsigned"};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        const struct symbol_type *type = type_of(dwarf, spellings[i]);
        CHECK(type && type->kind == SYMBOL_TYPE_INT && type->size_bytes == sizeof(long) && !type->is_signed, "%s", spellings[i]);
    }
    const struct symbol_type *type = type_of(dwarf, "number");
    CHECK(type && type->kind == SYMBOL_TYPE_TYPEDEF && symbol_dwarf_resolve(dwarf, type)->kind == SYMBOL_TYPE_INT, "number");
    type = type_of(dwarf, "char");
    CHECK(type && type->kind == SYMBOL_TYPE_CHAR && type->is_signed && type->size_bytes == 1, "char");
    const struct symbol_type *node = type_of(dwarf, "struct node");
    if (!node)
        return;
    CHECK(node->kind == SYMBOL_TYPE_STRUCT && node->size_bytes == sizeof(struct node) && type_of(dwarf, "node") == node, "node");
    const struct symbol_member *next = member_of(dwarf, node, "next"), *twin = member_of(dwarf, node, "twin");
    const struct symbol_type *target = NULL, *back = NULL;
    err_free(symbol_dwarf_target(dwarf, symbol_dwarf_resolve(dwarf, next->type), &target));
    err_free(symbol_dwarf_target(dwarf, twin->type, &back));
    CHECK(target == node && back == node && twin->type->size_bytes == sizeof(void *), "pointers lead back");

    const struct symbol_member *mood = member_of(dwarf, node, "mood"), *high = member_of(dwarf, node, "high");
    const struct symbol_enumerator *values;
    size_t count = 0;
    struct err *error = symbol_dwarf_enumerators(dwarf, mood->type, &values, &count);
    CHECK(!error && count == 2 && values[0].value == -3 && strcmp(values[1].name, "CHEERFUL") == 0, "mood");
    CHECK(mood->type->is_signed && mood->type->size_bytes == sizeof(enum mood), "mood");
    error = symbol_dwarf_enumerators(dwarf, type_of(dwarf, "enum wide"), &values, &count);
    CHECK(!error && count == 1 && (uint64_t)values[0].value == 0xfffffffffffffff0 && !type_of(dwarf, "enum wide")->is_signed, "wide");
    struct node probe = {.high = 1};
    size_t at = 0;
    while (!((const uint8_t *)&probe)[at])
        at++;
    CHECK(high->bit_size == 40 && high->offset_bytes == at && 1 << high->bit_offset == ((const uint8_t *)&probe)[at], "high");
    const struct symbol_member *anonymous = member_of(dwarf, node, NULL);
    CHECK(anonymous->offset_bytes == offsetof(struct node, inner), "inner");
    const struct symbol_member *within = member_of(dwarf, anonymous->type, NULL);
    CHECK(within->type->kind == SYMBOL_TYPE_UNION && anonymous->offset_bytes + within->offset_bytes == offsetof(struct node, d), "d");
    const struct symbol_type *text = member_of(dwarf, node, "text")->type;
    CHECK(text->kind == SYMBOL_TYPE_ARRAY && text->count == 3 && text->size_bytes == 15 && text->target->count == 5, "text");
    const struct symbol_type *rest = member_of(dwarf, node, "rest")->type;
    CHECK(rest->kind == SYMBOL_TYPE_ARRAY && rest->is_open && !rest->count, "rest");
    CHECK(member_of(dwarf, node, "flag")->type->kind == SYMBOL_TYPE_BOOL, "flag");
    CHECK(member_of(dwarf, node, "precise")->type->size_bytes == sizeof(long double), "precise");
    const struct symbol_type *call = NULL, *returned = NULL;
    err_free(symbol_dwarf_target(dwarf, member_of(dwarf, node, "call")->type, &call));
    CHECK(call && call->kind == SYMBOL_TYPE_FUNCTION, "call");
    err_free(symbol_dwarf_target(dwarf, call, &returned));
    CHECK(returned && returned->kind == SYMBOL_TYPE_INT && returned->size_bytes == 4, "what call returns");

    error = symbol_dwarf_type(dwarf, "struct no_such_thing", &type);
    CHECK(error && error->code == ERR_NO_MATCH && !type, "no such type");
    err_free(error);
    /* struct symbol_dw_frames is opaque here and defined in dwarf_cfa.c. */
    type = symbol_dwarf_resolve(dwarf, type_of(dwarf, "struct symbol_dw_frames"));
    CHECK(!type->is_incomplete && type->size_bytes, "a definition in another unit");
}

static int at_load(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    *(uint64_t *)context = info->dlpi_addr;
    return 1;
}

static void own_functions(struct symbol_dwarf *dwarf)
{
    uint64_t bias = 0;
    const uint64_t *entries;
    size_t count = 0;
    dl_iterate_phdr(at_load, &bias);
    struct err *error = symbol_dwarf_entries(dwarf, "subject", &entries, &count);
    CHECK(!error && count == 1 && entries[0] == (uint64_t)(uintptr_t)subject - bias, "subject");
    if (error)
        return;
    const struct symbol_dwarf_func *func;
    error = symbol_dwarf_func_at(dwarf, entries[0], &func);
    CHECK(!error && func->param_count == 4 && !func->is_changed, "subject");
    static const char *const names[] = {"node", "ratio", "by_value", "name"};
    static const int regs[] = {SYMBOL_REG_64_RDI, SYMBOL_REG_64_XMM0, SYMBOL_REG_64_RSP, SYMBOL_REG_64_RSI};
    for (size_t i = 0; !error && i < 4; i++) {
        const struct symbol_location *location = &func->params[i].location;
        CHECK(strcmp(func->params[i].name, names[i]) == 0 && location->piece_count == 1 && location->pieces[0].reg == regs[i], "%s",
              names[i]);
    }
    CHECK(!error && func->params[2].location.pieces[0].offset == 8, "by_value is the first on the stack");
    CHECK(!error && func->result_location.pieces[0].reg == SYMBOL_REG_64_RAX, "result");
    struct symbol_line line;
    err_free(symbol_dwarf_line_at(dwarf, entries[0], &line));
    CHECK(line.path && strstr(line.path, "symbol_dwarf.c"), "line");
    const struct symbol_line *places;
    error = symbol_dwarf_line_places(dwarf, "unit/symbol_dwarf.c", line.line, &places, &count);
    bool is_found = false;
    for (size_t i = 0; !error && i < count; i++)
        is_found |= places[i].va == entries[0];
    CHECK(is_found, "line %u leads back to the entry", line.line);
    error = symbol_dwarf_line_places(dwarf, "symbol_dwarf.c", 1000000, &places, &count);
    CHECK(error && error->code == ERR_NO_MATCH && strstr(error->message, "last line"), "beyond the end");
    err_free(error);
    error = symbol_dwarf_line_places(dwarf, "nit/symbol_dwarf.c", 10, &places, &count);
    CHECK(error && error->code == ERR_NO_MATCH, "half a component");
    err_free(error);
    error = symbol_dwarf_func_at(dwarf, 1, &func);
    CHECK(error && error->code == ERR_NO_MATCH && !func, "no function");
    err_free(error);
}

static void bad_files(void)
{
    static const struct {
        const char *path;
        enum err_code code;
    } files[] = {{"/bin/true", ERR_NO_MATCH}, {"/nonexistent", ERR_SYSTEM}, {"/etc/passwd", ERR_FILE}, {"/", ERR_FILE}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct symbol_dwarf *dwarf;
        struct err *error = symbol_dwarf_open(files[i].path, &dwarf);
        CHECK(error && error->code == files[i].code && !dwarf, "%s: %s", files[i].path, error ? error->message : "opened");
        err_free(error);
        symbol_dwarf_close(dwarf);
    }
}

int main(int argc, char **argv)
{
    if (argc > 2)
        return print(argc, argv);
    struct symbol_dwarf *dwarf;
    struct err *error = symbol_dwarf_open("/proc/self/exe", &dwarf);
    if (error)
        return fail_with(error);
    CHECK(symbol_dwarf_width(dwarf) == 64, "width");
    own_types(dwarf);
    own_functions(dwarf);
    symbol_dwarf_close(dwarf);
    bad_files();
    if (!failures)
        puts("ok");
    return failures != 0;
}
