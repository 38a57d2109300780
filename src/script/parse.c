/* A source: C declarations first, then config, maps, macros, imports and clauses, each parsed on its own so that one error does not
 * hide the next. */
#include "script/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- tokens ---- */

const struct token *parser_peek(const struct parser *parser, size_t ahead)
{
    size_t i = parser->at + ahead;
    return &parser->tokens[i < parser->n ? i : parser->n - 1];
}

const struct token *parser_next(struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0);
    if (parser->at + 1 < parser->n)
        parser->at++;
    return token;
}

bool parser_is(const struct parser *parser, uint32_t op)
{
    const struct token *token = parser_peek(parser, 0);
    return token->kind == TOKEN_PUNCT && token->op == op;
}

bool parser_is_name(const struct parser *parser, const char *name)
{
    const struct token *token = parser_peek(parser, 0);
    return token->kind == TOKEN_NAME && strcmp(token->text, name) == 0;
}

bool parser_accept(struct parser *parser, uint32_t op)
{
    bool is = parser_is(parser, op);
    if (is)
        parser_next(parser);
    return is;
}

void parser_unexpected(struct parser *parser, const char *expected)
{
    const struct token *token = parser_peek(parser, 0);
    struct script_span span = token->span;
    if (token->kind == TOKEN_END && parser->at > 0)
        span = parser->tokens[parser->at - 1].span;
    if (!parser->failed && token->kind != TOKEN_BAD)
        ERROR(parser->program, span, "syntax error, unexpected %s, expecting %s", token_describe(&parser->program->arena, token), expected);
    parser->failed = true;
}

bool parser_expect(struct parser *parser, uint32_t op)
{
    if (parser_accept(parser, op))
        return true;
    struct token wanted = {.kind = TOKEN_PUNCT, .op = op};
    parser_unexpected(parser, token_describe(&parser->program->arena, &wanted));
    return false;
}

bool parser_enter(struct parser *parser)
{
    if (parser->depth >= LIMIT_DEPTH) {
        if (!parser->failed)
            ERROR(parser->program, parser_peek(parser, 0)->span, "nested too deeply (limit %d)", LIMIT_DEPTH);
        parser->failed = true;
        return false;
    }
    parser->depth++;
    return true;
}

void parser_leave(struct parser *parser)
{
    parser->depth--;
}

static void parser_init(struct parser *parser, struct script_program *program, uint32_t file, size_t begin, size_t end)
{
    struct lexer lexer;
    lexer_init(&lexer, program, &program->arena, file, begin, end);
    VEC(struct token) tokens = {0};
    do {
        VEC_PUSH(&tokens, lexer_next(&lexer));
    } while (tokens.at[tokens.n - 1].kind != TOKEN_END);
    *parser = (struct parser){.program = program, .tokens = tokens.at, .n = tokens.n};
}

static void parser_deinit(struct parser *parser)
{
    free(parser->tokens);
}

struct node *parse_part(struct script_program *program, struct script_span span)
{
    struct parser parser;
    parser_init(&parser, program, span.file, span.begin, span.end);
    struct node *node = parse_expression(&parser);
    if (!parser.failed && parser_peek(&parser, 0)->kind != TOKEN_END)
        parser_unexpected(&parser, "the end of the macro");
    bool failed = parser.failed;
    parser_deinit(&parser);
    return failed ? NULL : node;
}

/* ---- items ---- */

static const char *const config_names[] = {
    "cache_user_symbols", "cpp_demangle",   "lazy_symbolication", "license",           "log_size",          "max_bpf_progs",
    "max_cat_bytes",      "max_map_keys",   "max_probes",         "max_strlen",        "max_stack_nodes",   "max_type_res_iterations",
    "missing_probes",     "on_stack_limit", "perf_rb_pages",      "stack_mode",        "str_trunc_trailer", "print_maps_on_exit",
    "show_debug_info",    "use_blazesym",   "unstable_import",    "unstable_map_decl", "unstable_tseries",  "unstable_addr",
    "unstable_macro"};

static void parse_setting(struct parser *parser)
{
    const struct token *name = parser_peek(parser, 0);
    if (name->kind != TOKEN_NAME) {
        parser_unexpected(parser, "a config variable's name");
        return;
    }
    parser_next(parser);
    char lower[64];
    const char *text = strncasecmp(name->text, "bpftrace_", 9) == 0 ? name->text + 9 : name->text;
    size_t n = 0;
    for (; n < sizeof lower - 1 && text[n]; n++)
        lower[n] = text[n] >= 'A' && text[n] <= 'Z' ? (char)(text[n] - 'A' + 'a') : text[n];
    lower[n] = 0;
    struct near near = {.wanted = lower};
    const char *known = NULL;
    for (size_t i = 0; i < sizeof config_names / sizeof *config_names; i++) {
        near_try(&near, config_names[i]);
        if (strcmp(config_names[i], lower) == 0)
            known = config_names[i];
    }
    if (!known)
        report(parser->program, true, name->span, near_hint(&near, &parser->program->arena), "%s: not a config variable", name->text);
    if (!parser_expect(parser, '='))
        return;
    bool is_negative = parser_accept(parser, '-');
    const struct token *value = parser_next(parser);
    struct setting setting = {.name = known};
    if (value->kind == TOKEN_INT)
        setting.value = arena_format(&parser->program->arena, "%s%llu", is_negative ? "-" : "", (unsigned long long)value->value);
    else if (value->kind == TOKEN_STRING || value->kind == TOKEN_NAME)
        setting.value = value->text;
    if (!setting.value) {
        parser->at--;
        parser_unexpected(parser, "a number, a string or a word");
        return;
    }
    if (known)
        VEC_PUSH(&parser->program->settings, setting);
    if (known && strcmp(known, "max_strlen") == 0) {
        if (value->kind != TOKEN_INT || value->value < 2 || value->value > LIMIT_STRING)
            ERROR(parser->program, value->span, "max_strlen must be between 2 and %d", LIMIT_STRING);
        else if (!parser->program->options.max_strlen)
            parser->program->max_strlen = (unsigned)value->value;
    }
}

/* config = { name = value; ... } */
static void parse_config(struct parser *parser)
{
    parser_next(parser);
    if (!parser_expect(parser, '=') || !parser_expect(parser, '{'))
        return;
    while (!parser->failed && !parser_is(parser, '}')) {
        parse_setting(parser);
        if (!parser->failed && !parser_accept(parser, ';'))
            break;
    }
    if (!parser->failed)
        parser_expect(parser, '}');
}

/* let @x = hash(N); */
static void parse_map_declaration(struct parser *parser)
{
    static const char *const known[] = {"hash", "lruhash", "percpuhash", "percpulruhash", "percpuarray"};
    parser_next(parser);
    const struct token *name = parser_next(parser);
    if (name->kind != TOKEN_MAP) {
        parser->at--;
        parser_unexpected(parser, "a map: let @name = hash(ENTRIES);");
        return;
    }
    if (!parser_expect(parser, '='))
        return;
    const struct token *kind = parser_next(parser);
    bool is_known = false;
    struct near near = {.wanted = kind->kind == TOKEN_NAME ? kind->text : ""};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        is_known |= kind->kind == TOKEN_NAME && strcmp(known[i], kind->text) == 0;
        near_try(&near, known[i]);
    }
    if (!is_known) {
        report(parser->program, true, kind->span, near_hint(&near, &parser->program->arena),
               "unknown kind of map: expected hash, lruhash, percpuhash or percpulruhash");
        return;
    }
    struct map_declaration declaration = {.name = name->text, .kind = kind->text, .span = name->span};
    if (!parser_expect(parser, '('))
        return;
    const struct token *entries = parser_next(parser);
    if (entries->kind != TOKEN_INT || entries->value == 0) {
        ERROR(parser->program, entries->span, "expected the most entries of %s, a number above 0", name->text);
        return;
    }
    declaration.entries = entries->value;
    if (parser->program->declared.n >= LIMIT_MAPS)
        ERROR(parser->program, name->span, "too many maps (limit %d)", LIMIT_MAPS);
    else if (parser_expect(parser, ')') && parser_expect(parser, ';'))
        VEC_PUSH(&parser->program->declared, declaration);
}

static void parse_macro(struct parser *parser)
{
    parser_next(parser);
    const struct token *name = parser_peek(parser, 0);
    if (name->kind != TOKEN_NAME) {
        parser_unexpected(parser, "the macro's name");
        return;
    }
    parser_next(parser);
    struct node *params = node_new(parser, N_TUPLE, name->span);
    if (!parser_expect(parser, '('))
        return;
    while (!parser_is(parser, ')')) {
        const struct token *token = parser_peek(parser, 0);
        enum node_kind kind = token->kind == TOKEN_VARIABLE ? N_VARIABLE : token->kind == TOKEN_MAP ? N_MAP : N_NAME;
        if (kind == N_NAME && token->kind != TOKEN_NAME) {
            parser_unexpected(parser, "a parameter: $variable, @map or name");
            return;
        }
        parser_next(parser);
        struct node *param = node_new(parser, kind, token->span);
        param->text = token->text;
        node_add(parser, params, param);
        if (!parser_accept(parser, ','))
            break;
    }
    if (!parser_expect(parser, ')'))
        return;
    for (size_t i = 0; i < parser->program->macros.n; i++)
        if (strcmp(parser->program->macros.at[i].name, name->text) == 0)
            ERROR(parser->program, name->span, "macro '%s' is defined twice", name->text);
    struct macro macro = {
        .name = name->text, .span = name->span, .params = params->list, .n_params = params->n_list, .body = parse_block(parser)};
    if (parser->program->macros.n >= LIMIT_MAPS)
        ERROR(parser->program, name->span, "too many macros (limit %d)", LIMIT_MAPS);
    else if (!parser->failed)
        VEC_PUSH(&parser->program->macros, macro);
}

static void parse_clause(struct script_program *program, uint32_t file, const struct item *item)
{
    struct parsed_clause clause = {.clause.span = {file, (uint32_t)item->begin, (uint32_t)item->end}};
    size_t at = item->begin;
    if (!parse_points(program, file, &at, item->end, &clause.clause))
        return;
    struct parser parser;
    parser_init(&parser, program, file, at, item->end);
    if (parser_accept(&parser, '/')) {
        parser.in_predicate = true;
        clause.predicate = parse_expression(&parser);
        parser.in_predicate = false;
        if (!parser.failed)
            parser_expect(&parser, '/');
    }
    if (!parser.failed)
        clause.body = parse_block(&parser);
    if (!parser.failed && parser_peek(&parser, 0)->kind != TOKEN_END)
        parser_unexpected(&parser, "end of the clause");
    if (!parser.failed)
        VEC_PUSH(&program->clauses, clause);
    parser_deinit(&parser);
}

/* ---- imports ---- */

static void import_file(struct script_program *program, struct script_span span, uint32_t from, const char *name)
{
    if (program->options.no_files) {
        ERROR(program, span, "import is not allowed here");
        return;
    }
    const char *slash = strrchr(program->sources.at[from].name, '/');
    const char *path = name;
    if (name[0] != '/' && slash)
        path =
            arena_format(&program->arena, "%.*s/%s", (int)(slash - program->sources.at[from].name), program->sources.at[from].name, name);
    for (size_t i = 0; i < program->sources.n; i++)
        if (strcmp(program->sources.at[i].name, path) == 0)
            return; /* already read */
    if (program->sources.n >= LIMIT_SOURCES) {
        ERROR(program, span, "too many imports (limit %d)", LIMIT_SOURCES);
        return;
    }
    FILE *file = fopen(path, "re");
    if (!file) {
        ERROR(program, span, "import: %s: %s", path, strerror(errno));
        return;
    }
    char *text = memory_alloc(LIMIT_TEXT + 1);
    size_t length = fread(text, 1, LIMIT_TEXT + 1, file);
    bool failed = ferror(file);
    fclose(file);
    if (failed || length > LIMIT_TEXT)
        ERROR(program, span, "import: %s: %s", path, failed ? "can not be read" : "is too large");
    else
        parse_source(program, source_add(program, path, text, length));
    free(text);
}

static void parse_import(struct script_program *program, struct parser *parser, uint32_t file)
{
    parser_next(parser);
    const struct token *name = parser_peek(parser, 0);
    if (name->kind != TOKEN_STRING) {
        parser_unexpected(parser, "a file: import \"file.bt\";");
        return;
    }
    import_file(program, name->span, file, name->text);
}

/* ---- sources ---- */

static void note_typedefs(struct script_program *program, const struct script_types *types)
{
    for (size_t i = 0; i < types->names.room; i++)
        if (types->names.slots[i].name)
            table_put(&program->typedefs, types->names.slots[i].name, (void *)"");
}

/* The C declarations of a source with everything else blanked, so that places in it are places in the source. */
static char *c_text(const struct source *source, const struct items *items)
{
    char *text = memory_alloc(source->length + 1);
    for (size_t i = 0; i < source->length; i++)
        text[i] = source->text[i] == '\n' ? '\n' : ' ';
    text[source->length] = 0;
    for (size_t i = 0; i < items->list.n; i++) {
        const struct item *item = &items->list.at[i];
        if (item->kind != ITEM_C && item->kind != ITEM_DIRECTIVE)
            continue;
        memcpy(text + item->begin, source->text + item->begin, item->end - item->begin);
    }
    return text;
}

static void parse_declarations(struct script_program *program, uint32_t file, const struct items *items)
{
    bool has_c = false, has_directive = false;
    for (size_t i = 0; i < items->list.n; i++) {
        has_c |= items->list.at[i].kind == ITEM_C;
        has_directive |= items->list.at[i].kind == ITEM_DIRECTIVE;
    }
    bool has_extra = file == 0 && program->options.n_include_files > 0;
    if (!has_c && !has_directive && !has_extra)
        return;
    char *text = c_text(&program->sources.at[file], items);
    for (int model = 0; model < SCRIPT_MODELS && program->n_errors == 0; model++) {
        uint32_t declared;
        program->is_narrow = program->is_deferred = model == SCRIPT_ILP32;
        if (has_directive || has_extra) {
            if (program->options.no_files) {
                ERROR(program, ((struct script_span){file, 0, 1}), "# lines are not allowed here");
                break;
            }
            char *result = preprocess(program, (enum script_model)model, file, text);
            if (!result)
                break;
            declared = source_add(program, program->sources.at[file].name, result, strlen(result));
            program->sources.at[declared].is_preprocessed = true;
            free(result);
            declare_macros(program, declared, program->types[model]);
        } else {
            declared = source_add(program, program->sources.at[file].name, text, strlen(text));
        }
        declare_types(program, declared, program->types[model]);
        if (program->sources.at[declared].is_preprocessed)
            declare_macros(program, declared, program->types[model]); /* those that use enumerators and sizeof */
        note_typedefs(program, program->types[model]);
    }
    program->is_narrow = program->is_deferred = false;
    free(text);
}

void parse_source(struct script_program *program, uint32_t file)
{
    struct items items = {0};
    split_source(program, file, &items);
    parse_declarations(program, file, &items);
    for (size_t i = 0; i < items.list.n; i++) {
        const struct item *item = &items.list.at[i];
        if (item->kind == ITEM_C || item->kind == ITEM_DIRECTIVE)
            continue;
        if (item->kind == ITEM_CLAUSE) {
            parse_clause(program, file, item);
            continue;
        }
        struct parser parser;
        parser_init(&parser, program, file, item->begin, item->end);
        if (item->kind == ITEM_CONFIG)
            parse_config(&parser);
        else if (item->kind == ITEM_LET)
            parse_map_declaration(&parser);
        else if (item->kind == ITEM_MACRO)
            parse_macro(&parser);
        else if (item->kind == ITEM_IMPORT)
            parse_import(program, &parser, file);
        else
            ERROR(program, parser_peek(&parser, 0)->span, "functions (fn) are not supported: a macro can be used instead");
        parser_deinit(&parser);
    }
    VEC_FREE(&items.list);
}
