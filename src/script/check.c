/* Checking: passes over clauses until the types of maps and variables are stable, then one that gives trees and messages. */
#include "script/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PASSES = 12 };

/* ---- nodes ---- */

static void count_node(struct checker *c, struct script_span span)
{
    if (++c->n_nodes > LIMIT_NODES && !c->is_exhausted) {
        c->is_exhausted = true;
        ERROR(c->program, span, "the clause is too large (limit %d nodes with its macros expanded)", LIMIT_NODES);
    }
}

struct script_expr *expr_new(struct checker *c, enum script_expr_kind kind, struct script_span span, const struct script_type *type)
{
    struct script_expr *expr = arena_alloc(c->arena, sizeof *expr);
    expr->kind = kind;
    expr->span = span;
    expr->type = type;
    count_node(c, span);
    return expr;
}

struct script_stmt *stmt_new(struct checker *c, enum script_stmt_kind kind, struct script_span span)
{
    struct script_stmt *stmt = arena_alloc(c->arena, sizeof *stmt);
    stmt->kind = kind;
    stmt->span = span;
    count_node(c, span);
    return stmt;
}

struct script_expr *expr_bad(struct checker *c, struct script_span span)
{
    return expr_new(c, SCRIPT_E_INT, span, script_type_plain(c->types, SCRIPT_T_UNKNOWN));
}

struct script_expr *expr_int(struct checker *c, struct script_span span, const struct script_type *type, uint64_t value)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_INT, span, type);
    expr->value = value;
    return expr;
}

const char *type_text(struct checker *c, const struct script_type *type)
{
    return script_type_name(c->arena, type);
}

bool enter(struct checker *c, struct script_span span)
{
    if (c->program->n_errors > 2 * LIMIT_DIAGNOSTICS)
        c->is_exhausted = true;
    if (c->depth >= LIMIT_DEPTH * 3 || c->is_exhausted) {
        if (!c->is_exhausted)
            ERROR(c->program, span, "nested too deeply (limit %d)", LIMIT_DEPTH * 3);
        c->is_exhausted = true;
        return false;
    }
    c->depth++;
    return true;
}

void leave(struct checker *c)
{
    c->depth--;
}

/* ---- variables ---- */

struct variable *variable_find(struct checker *c, const char *name, const struct frame *frame)
{
    for (size_t i = c->variables.n; i-- > 0;)
        if (c->variables.at[i].frame == frame && strcmp(c->variables.at[i].name, name) == 0)
            return &c->variables.at[i];
    return NULL;
}

struct variable *variable_declare(struct checker *c, const char *name, const struct frame *frame, struct script_span span)
{
    uint32_t slot = (uint32_t)c->slots.n;
    /* A branch that is known to be dead in one pass only changes the numbers: the place tells whether it is the same variable. */
    bool is_known = slot < c->wider.n && c->wider_places.at[slot].begin == span.begin && c->wider_places.at[slot].file == span.file;
    const struct script_type *known = is_known ? c->wider.at[slot] : NULL;
    if (slot >= LIMIT_VARIABLES && !c->is_exhausted) {
        c->is_exhausted = true;
        ERROR(c->program, span, "too many variables in a clause (limit %d)", LIMIT_VARIABLES);
    }
    VEC_PUSH(&c->places, span);
    VEC_PUSH(&c->slots, known ? known : script_type_plain(c->types, SCRIPT_T_UNKNOWN));
    struct variable variable = {.name = name, .frame = frame, .slot = slot, .span = span};
    VEC_PUSH(&c->variables, variable);
    return &c->variables.at[c->variables.n - 1];
}

const struct script_type *variable_type(struct checker *c, uint32_t slot, const struct script_type *type)
{
    const struct script_type *old = c->slots.at[slot];
    const struct script_type *both = unify(c, old, type);
    if (!both)
        return NULL;
    if (old->kind != SCRIPT_T_UNKNOWN && !(script_type_equal(old, both) && old->bytes == both->bytes))
        c->slots_changed = true;
    c->slots.at[slot] = both;
    return both;
}

const struct node *variable_follow(struct checker *c, const struct node *node, const struct frame **frame)
{
    *frame = c->frame;
    for (;;) {
        bool found = false;
        for (size_t i = 0; *frame && i < (*frame)->macro->n_params; i++) {
            const struct node *param = (*frame)->macro->params[i];
            if (param->kind == N_VARIABLE && strcmp(param->text, node->text) == 0) {
                node = (*frame)->arguments[i];
                *frame = (*frame)->caller;
                found = true;
                break;
            }
        }
        if (!found)
            return node;
    }
}

/* ---- one clause, one pass ---- */

static void begin_pass(struct checker *c)
{
    c->variables.n = 0;
    c->wider.n = c->wider_places.n = 0;
    for (size_t i = 0; i < c->slots.n; i++) {
        VEC_PUSH(&c->wider, c->slots.at[i]);
        VEC_PUSH(&c->wider_places, c->places.at[i]);
    }
    c->slots.n = c->places.n = 0;
    c->actions.n = 0;
    c->slots_changed = false;
    c->depth = c->loops = 0;
    c->n_nodes = 0;
    c->is_exhausted = false;
    c->frame = NULL;
}

static struct script_checked *one_pass(struct checker *c)
{
    struct script_checked *checked = arena_alloc(c->arena, sizeof *checked);
    begin_pass(c);
    if (c->clause->predicate)
        checked->predicate = to_bool(c, check_expr(c, c->clause->predicate), "predicate");
    checked->body = check_statements(c, c->clause->body, c->clause->body->n_list);
    checked->model = c->model;
    checked->n_slots = c->slots.n;
    checked->slots = arena_alloc(c->arena, c->slots.n * sizeof *checked->slots);
    checked->n_actions = c->actions.n;
    checked->actions = arena_alloc(c->arena, c->actions.n * sizeof *checked->actions);
    if (c->slots.n)
        memcpy(checked->slots, c->slots.at, c->slots.n * sizeof *checked->slots);
    if (c->actions.n)
        memcpy(checked->actions, c->actions.at, c->actions.n * sizeof *checked->actions);
    return checked;
}

static void checker_deinit(struct checker *c)
{
    VEC_FREE(&c->variables);
    VEC_FREE(&c->slots);
    VEC_FREE(&c->wider);
    VEC_FREE(&c->places);
    VEC_FREE(&c->wider_places);
    VEC_FREE(&c->actions);
}

/* Infers with the types so far (is_last false: no messages, no tree), or gives the tree. */
static struct script_checked *check_context(struct script_program *program, const struct script_context *context, bool is_last)
{
    struct arena scratch = {0};
    struct checker c = {.program = program,
                        .types = program->types[context->model],
                        .model = context->model,
                        .env = context->env,
                        .clause = &program->clauses.at[context->clause]};
    size_t errors = program->n_errors;
    program->is_tentative = true;
    c.arena = &scratch;
    for (unsigned i = 0; i < MOST_PASSES; i++) {
        one_pass(&c);
        if (!c.slots_changed)
            break;
    }
    program->n_errors = errors;
    struct script_checked *checked = NULL;
    if (is_last) {
        program->is_tentative = false;
        program->is_narrow = context->model == SCRIPT_ILP32;
        c.is_last = true;
        c.arena = &program->arena;
        checked = one_pass(&c);
        checked->clause = context->clause;
        if (program->n_errors > errors)
            checked = NULL;
    }
    program->is_tentative = program->is_narrow = false;
    checker_deinit(&c);
    arena_deinit(&scratch);
    return checked;
}

/* ---- all clauses ---- */

static void declare_maps(struct script_program *program)
{
    for (size_t i = 0; i < program->declared.n; i++) {
        const struct map_declaration *declared = &program->declared.at[i];
        for (size_t j = 0; j < program->maps.n; j++)
            if (strcmp(program->maps.at[j].map.name, declared->name) == 0)
                ERROR(program, declared->span, "%s is declared twice", declared->name);
        struct map_entry entry = {.map = {.name = declared->name, .kind = declared->kind, .entries = declared->entries},
                                  .defined = declared->span};
        entry.map.value = script_type_plain(program->types[SCRIPT_LP64], SCRIPT_T_UNKNOWN);
        VEC_PUSH(&program->maps, entry);
    }
}

static void infer(struct script_program *program, struct script_context *contexts, size_t n)
{
    for (unsigned pass = 0; pass < MOST_PASSES; pass++) {
        program->maps_changed = false;
        for (size_t i = 0; i < n; i++)
            check_context(program, &contexts[i], false);
        if (!program->maps_changed)
            break;
    }
}

/* Maps that are assigned only what depends on themselves (`@n = @n + 1`), or that are declared and never used, are integers. False: there
 * are none. */
static bool settle_maps(struct script_program *program)
{
    bool settled = false;
    for (size_t i = 0; i < program->maps.n; i++) {
        struct map_entry *map = &program->maps.at[i];
        if ((!map->is_target && map->is_used) || map->map.value->kind != SCRIPT_T_UNKNOWN)
            continue;
        map->map.value = script_type_int(program->types[SCRIPT_LP64], 8, true);
        settled = true;
    }
    return settled;
}

size_t script_check(struct script_program *program, struct script_context *contexts, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        contexts[i].checked = NULL;
        if (contexts[i].model == SCRIPT_ILP32)
            report_deferred(program);
    }
    if (program->n_errors || program->is_checked)
        return program->n_errors;
    program->is_checked = true;
    declare_maps(program);
    infer(program, contexts, n);
    if (settle_maps(program))
        infer(program, contexts, n);
    for (size_t i = 0; i < n; i++)
        contexts[i].checked = check_context(program, &contexts[i], true);
    if (program->n_errors)
        for (size_t i = 0; i < n; i++)
            contexts[i].checked = NULL;
    program->maps_fixed = true;
    return program->n_errors;
}

size_t script_check_late(struct script_program *program, struct script_context *context)
{
    size_t errors = program->n_errors;
    if (context->model == SCRIPT_ILP32)
        report_deferred(program);
    context->checked = check_context(program, context, true);
    return program->n_errors - errors;
}

/* ---- the program ---- */

static void sort_arguments(struct script_program *program)
{
    const struct script_options *options = &program->options;
    program->positional = arena_alloc(&program->arena, options->n_arguments * sizeof *program->positional);
    for (size_t i = 0; i < options->n_arguments; i++)
        if (strncmp(options->arguments[i], "--", 2) != 0 || options->arguments[i][2] == 0)
            program->positional[program->n_positional++] = options->arguments[i];
}

struct script_program *script_parse(const char *text, size_t length, const struct script_options *options)
{
    struct script_program *program = memory_zero(1, sizeof *program);
    program->options = *options;
    program->max_strlen = options->max_strlen ? options->max_strlen : 1024;
    for (int model = 0; model < SCRIPT_MODELS; model++)
        program->types[model] = types_create((enum script_model)model);
    sort_arguments(program);
    bool is_large = length > LIMIT_TEXT;
    uint32_t file = source_add(program, options->name ? options->name : "stdin", text, is_large ? 0 : length);
    struct script_span whole = {.file = file, .begin = 0, .end = 1};
    if (is_large) {
        ERROR(program, whole, "the script is too large (limit %d bytes)", LIMIT_TEXT);
        return program;
    }
    parse_source(program, file);
    if (program->clauses.n == 0 && program->n_errors == 0)
        ERROR(program, whole, "syntax error, unexpected end of file: no probes to attach");
    return program;
}

void script_destroy(struct script_program *program)
{
    if (!program)
        return;
    VEC_FREE(&program->sources);
    VEC_FREE(&program->diagnostics);
    VEC_FREE(&program->deferred);
    VEC_FREE(&program->clauses);
    VEC_FREE(&program->macros);
    VEC_FREE(&program->settings);
    VEC_FREE(&program->declared);
    VEC_FREE(&program->option_uses);
    VEC_FREE(&program->maps);
    VEC_FREE(&program->threads);
    table_deinit(&program->typedefs);
    for (int model = 0; model < SCRIPT_MODELS; model++)
        types_destroy(program->types[model]);
    arena_deinit(&program->arena);
    free(program);
}

struct script_types *script_program_types(struct script_program *program, enum script_model model)
{
    return program->types[model];
}

size_t script_n_clauses(const struct script_program *program)
{
    return program->clauses.n;
}

const struct script_clause *script_clause_at(const struct script_program *program, size_t index)
{
    return &program->clauses.at[index].clause;
}

const char *script_config(const struct script_program *program, const char *name)
{
    for (size_t i = program->settings.n; i-- > 0;)
        if (strcmp(program->settings.at[i].name, name) == 0)
            return program->settings.at[i].value;
    return NULL;
}

unsigned script_max_strlen(const struct script_program *program)
{
    return program->max_strlen;
}

char *script_help(const struct script_program *program)
{
    char *text = memory_text("");
    for (size_t i = 0; i < program->option_uses.n; i++) {
        const struct option_use *use = &program->option_uses.at[i];
        char *more = memory_format("%s  --%s=%s%s%s\n", text, use->name, use->fallback, use->help ? "  " : "", use->help ? use->help : "");
        free(text);
        text = more;
    }
    return text;
}

size_t script_n_maps(const struct script_program *program)
{
    return program->maps.n;
}

const struct script_map *script_map_at(const struct script_program *program, size_t index)
{
    return &program->maps.at[index].map;
}

size_t script_n_thread_variables(const struct script_program *program)
{
    return program->threads.n;
}

const struct script_thread_variable *script_thread_variable_at(const struct script_program *program, size_t index)
{
    return &program->threads.at[index];
}

bool script_uses_speculation(const struct script_program *program)
{
    return program->speculates;
}

bool script_uses_cpid(const struct script_program *program)
{
    return program->uses_cpid;
}
