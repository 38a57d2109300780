/* Calls: which function, how many arguments, and those that are settled while checking. */
#include "script/check.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned fewest, most;
    const char *flags;
} calls[] = {
#define CALL(id, name, fewest, most, flags) {name, fewest, most, flags},
#include "script/calls.def"
};

const char *script_call_name(enum script_call call)
{
    return calls[call].name;
}

bool call_has(enum script_call call, char flag)
{
    return strchr(calls[call].flags, flag) != NULL;
}

/* pid, tid, comm, nsecs and ustack are also builtins: without arguments they are not calls. */
bool call_find(const char *name, size_t n, enum script_call *call)
{
    for (int i = 0; i < SCRIPT_CALLS; i++)
        if (strcmp(calls[i].name, name) == 0) {
            bool is_builtin = i == SCRIPT_C_PIDNS || i == SCRIPT_C_TIDNS || i == SCRIPT_C_COMM || i == SCRIPT_C_NSECS;
            if (is_builtin && n == 0)
                return false;
            *call = (enum script_call)i;
            return true;
        }
    return false;
}

struct script_expr *call_new(struct checker *c, enum script_call call, struct script_span span, const struct script_type *type, size_t n)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_CALL, span, type);
    expr->call = call;
    expr->n_list = n;
    expr->list = arena_alloc(c->arena, n * sizeof *expr->list);
    return expr;
}

uint32_t action_add(struct checker *c, struct script_action action)
{
    VEC_PUSH(&c->actions, action);
    return (uint32_t)c->actions.n - 1;
}

bool constant_text(struct checker *c, const struct node *node, const char **text, size_t *length)
{
    struct script_expr *value = check_expr(c, node);
    if (value->kind != SCRIPT_E_STRING)
        return false;
    *text = value->text;
    *length = value->length;
    return true;
}

bool constant_int(struct checker *c, const struct node *node, int64_t *value)
{
    struct script_expr *expr = check_expr(c, node);
    if (expr->kind != SCRIPT_E_INT || is_bad(expr))
        return false;
    *value = (int64_t)expr->value;
    return true;
}

/* ---- settled while checking ---- */

static struct script_expr *text_constant(struct checker *c, struct script_span span, const char *text)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_STRING, span, script_type_string(c->types, strlen(text) + 1));
    expr->text = text;
    expr->length = strlen(text);
    return expr;
}

static const char *option_value(struct checker *c, const char *name)
{
    size_t n = strlen(name);
    const struct script_options *options = &c->program->options;
    for (size_t i = options->n_arguments; i-- > 0;) {
        const char *argument = options->arguments[i];
        if (strncmp(argument, "--", 2) == 0 && strncmp(argument + 2, name, n) == 0 && (argument[n + 2] == '=' || argument[n + 2] == 0))
            return argument[n + 2] ? argument + n + 3 : "";
    }
    return NULL;
}

static void note_option(struct checker *c, const char *name, const struct script_expr *fallback, const char *help)
{
    for (size_t i = 0; i < c->program->option_uses.n; i++)
        if (strcmp(c->program->option_uses.at[i].name, name) == 0)
            return;
    struct option_use use = {.name = name, .help = help ? arena_text(&c->program->arena, help, strlen(help)) : NULL};
    if (fallback->kind == SCRIPT_E_STRING)
        use.fallback = arena_text(&c->program->arena, fallback->text, fallback->length);
    else if (fallback->type->kind == SCRIPT_T_BOOL)
        use.fallback = fallback->value ? "true" : "false";
    else
        use.fallback = arena_format(&c->program->arena, "%lld", (long long)fallback->value);
    VEC_PUSH(&c->program->option_uses, use);
}

/* getopt(name[, default[, help]]) */
static struct script_expr *check_getopt(struct checker *c, const struct node *node)
{
    const char *name, *help = NULL;
    size_t length;
    if (node->list[0]->kind != N_STRING)
        return FAIL(c, node->list[0]->span, "getopt: the name must be a string literal");
    name = node->list[0]->text;
    struct script_expr *fallback = node->n_list > 1 ? check_expr(c, node->list[1]) : expr_int(c, node->span, bool_type(c), 0);
    if (is_bad(fallback))
        return fallback;
    if (fallback->kind != SCRIPT_E_INT && fallback->kind != SCRIPT_E_STRING)
        return FAIL(c, node->list[1]->span, "getopt: the default must be a constant: an integer, a string or a boolean");
    if (node->n_list > 2 && !constant_text(c, node->list[2], &help, &length))
        return FAIL(c, node->list[2]->span, "getopt: the description must be a string literal");
    note_option(c, name, fallback, help);
    const char *value = option_value(c, name);
    if (!value)
        return fallback;
    if (fallback->kind == SCRIPT_E_STRING)
        return text_constant(c, node->span, value);
    if (fallback->type->kind == SCRIPT_T_BOOL) {
        bool is_true = !*value || strcmp(value, "1") == 0 || strcmp(value, "true") == 0;
        if (!is_true && strcmp(value, "0") != 0 && strcmp(value, "false") != 0)
            return FAIL(c, node->span, "Invalid value '%s' for the option --%s: expected true, false, 1 or 0", value, name);
        return expr_int(c, node->span, fallback->type, is_true);
    }
    char *rest;
    long long number = strtoll(value, &rest, 0);
    if (!*value || *rest)
        return FAIL(c, node->span, "Invalid value '%s' for the option --%s: expected an integer", value, name);
    return expr_int(c, node->span, fallback->type, (uint64_t)number);
}

static struct script_expr *check_reg(struct checker *c, const struct node *node)
{
    static const char *const registers[] = {"ax", "bx", "cx", "dx", "si",  "di",  "bp",  "sp",  "ip",  "flags",
                                            "cs", "ss", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"};
    enum { N_ILP32 = 12 }; /* how many of them a 32-bit process has */
    const char *name;
    size_t length;
    if (!constant_text(c, node->list[0], &name, &length))
        return FAIL(c, node->span, "reg() expects a string literal, such as reg(\"ip\")");
    if (!clause_has(c, POINTS_OF_PROCESS))
        return FAIL(c, node->span, "The reg function can only be used with uprobe, uretprobe and usdt probes");
    struct near near = {.wanted = name};
    for (size_t i = 0; i < sizeof registers / sizeof *registers; i++) {
        near_try(&near, registers[i]);
        if (strcmp(registers[i], name) != 0)
            continue;
        if (c->model == SCRIPT_ILP32 && i >= N_ILP32) {
            WARN(c->program, node->span, "there is no register '%s': it reads as 0", name);
            return expr_int(c, node->span, int64_type(c, false), 0);
        }
        struct script_expr *expr = expr_new(c, SCRIPT_E_REGISTER, node->span, int64_type(c, false));
        expr->text = registers[i];
        return expr;
    }
    report(c->program, true, node->span, near_hint(&near, c->arena), "'%s' is not a valid register", name);
    return expr_bad(c, node->span);
}

static struct script_expr *check_predicate_call(struct checker *c, enum script_call call, const struct node *node)
{
    struct script_expr *value = check_raw(c, node->list[0]);
    if (is_bad(value))
        return value;
    const struct script_type *type = value->type;
    bool answer = call == SCRIPT_C_IS_ARRAY              ? type->kind == SCRIPT_T_ARRAY
                  : call == SCRIPT_C_IS_INTEGER          ? type->kind == SCRIPT_T_INT
                  : call == SCRIPT_C_IS_UNSIGNED_INTEGER ? type->kind == SCRIPT_T_INT && !type->is_signed
                  : call == SCRIPT_C_IS_PTR              ? type->kind == SCRIPT_T_POINTER
                  : call == SCRIPT_C_IS_STR              ? decay(c, value)->type->kind == SCRIPT_T_STRING
                                                         : value->kind == SCRIPT_E_INT || value->kind == SCRIPT_E_STRING;
    return expr_int(c, node->span, bool_type(c), answer);
}

static struct script_expr *check_static_assert(struct checker *c, const struct node *node)
{
    const char *text = "assertion failed";
    size_t length;
    struct script_expr *condition = to_bool(c, check_expr(c, node->list[0]), "static_assert");
    if (is_bad(condition))
        return condition;
    if (condition->kind != SCRIPT_E_INT)
        return FAIL(c, node->list[0]->span, "static_assert: the condition is not known before the script runs");
    constant_text(c, node->list[1], &text, &length);
    if (!condition->value)
        return FAIL(c, node->span, "%s", text);
    return expr_int(c, node->span, script_types_find(c->types, "void"), 0);
}

struct script_expr *check_compile_time(struct checker *c, enum script_call call, const struct node *node)
{
    switch (call) {
    case SCRIPT_C_GETOPT:
        return check_getopt(c, node);
    case SCRIPT_C_REG:
        return check_reg(c, node);
    case SCRIPT_C_UPTR:
        return check_raw(c, node->list[0]);
    case SCRIPT_C_STATIC_ASSERT:
        return check_static_assert(c, node);
    case SCRIPT_C_FAIL: {
        const char *text = "";
        size_t length;
        constant_text(c, node->list[0], &text, &length);
        return FAIL(c, node->span, "%s", text);
    }
    case SCRIPT_C_STRCAP: {
        struct script_expr *value = check_expr(c, node->list[0]);
        if (is_bad(value))
            return value;
        if (value->type->kind != SCRIPT_T_STRING && value->type->kind != SCRIPT_T_BUFFER)
            return FAIL(c, node->span, "strcap() expects a string (%s provided)", type_text(c, value->type));
        return expr_int(c, node->span, int64_type(c, true), value->type->bytes - (value->type->kind == SCRIPT_T_STRING));
    }
    default:
        return check_predicate_call(c, call, node);
    }
}

/* ---- which call ---- */

static struct script_expr *unknown_call(struct checker *c, const struct node *node)
{
    struct script_expr *builtin = check_builtin(c, node->span, node->text);
    if (builtin) {
        if (node->n_list && !is_bad(builtin))
            return FAIL(c, node->span, "%s takes no arguments (%zu provided)", node->text, node->n_list);
        return builtin;
    }
    struct near near = {.wanted = node->text};
    for (int i = 0; i < SCRIPT_CALLS; i++)
        near_try(&near, calls[i].name);
    for (size_t i = 0; i < c->program->macros.n; i++)
        near_try(&near, c->program->macros.at[i].name);
    struct script_span name = {node->span.file, node->span.begin, node->span.begin + (uint32_t)strlen(node->text)};
    report(c->program, true, name, near_hint(&near, c->arena), "Unknown function: '%s'", node->text);
    return expr_bad(c, node->span);
}

bool count_fits(struct checker *c, enum script_call call, const struct node *node)
{
    unsigned fewest = calls[call].fewest, most = calls[call].most;
    if (node->n_list >= fewest && node->n_list <= most)
        return true;
    if (fewest == most && most == 0)
        ERROR(c->program, node->span, "%s() requires no arguments (%zu provided)", calls[call].name, node->n_list);
    else if (fewest == most)
        ERROR(c->program, node->span, "%s() requires %u argument%s (%zu provided)", calls[call].name, most, most == 1 ? "" : "s",
              node->n_list);
    else if (node->n_list < fewest)
        ERROR(c->program, node->span, "%s() requires at least %u argument%s (%zu provided)", calls[call].name, fewest,
              fewest == 1 ? "" : "s", node->n_list);
    else
        ERROR(c->program, node->span, "%s() takes up to %u argument%s (%zu provided)", calls[call].name, most, most == 1 ? "" : "s",
              node->n_list);
    return false;
}

struct script_expr *check_call(struct checker *c, const struct node *node)
{
    enum script_call call;
    bool found;
    const struct macro *macro = find_macro(c, node->text);
    if (macro)
        return check_macro(c, macro, node, &found);
    if (!call_find(node->text, node->n_list, &call))
        return unknown_call(c, node);
    if (!count_fits(c, call, node))
        return expr_bad(c, node->span);
    if (call_has(call, 'U') && !c->program->options.allow_unsafe)
        return FAIL(c, node->span, "%s() is an unsafe function being used in safe mode: it needs --unsafe", calls[call].name);
    if (call == SCRIPT_C_USTACK)
        return check_stack(c, node);
    if (call_has(call, 'G'))
        return FAIL(c, node->span, "%s() should be directly assigned to a map", calls[call].name);
    if (call_has(call, 'C'))
        return check_compile_time(c, call, node);
    if (call_has(call, 'F'))
        return check_format(c, call, node);
    if (call_has(call, 'M'))
        return check_map_call(c, call, node);
    return call_has(call, 'V') ? check_text_call(c, call, node) : check_action(c, call, node);
}
