/* Names: builtins, constants, macros and their parameters. */
#include "script/check.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    const char *type;
} builtins[] = {
#define BUILTIN(id, name, type) [SCRIPT_B_##id] = {name, #type},
#include "script/builtins.def"
};

static const struct {
    const char *name, *advice;
} kernel_names[] = {
#define KERNEL(name, advice) {name, advice},
#include "script/builtins.def"
};

const char *script_builtin_name(enum script_builtin builtin)
{
    return builtins[builtin].name;
}

/* Whether every point of the clause is of one of the kinds. */
bool clause_has(const struct checker *c, unsigned wanted)
{
    for (size_t i = 0; i < c->clause->clause.n_points; i++)
        if (!(wanted & POINT(c->clause->clause.points[i].kind)))
            return false;
    return true;
}

/* ---- builtins ---- */

/* argN, sargN. */
static struct script_expr *check_argument(struct checker *c, struct script_span span, const char *name)
{
    bool is_stack = name[0] == 's';
    const char *digits = name + (is_stack ? 4 : 3);
    size_t n = strspn(digits, "0123456789");
    if (strncmp(name, is_stack ? "sarg" : "arg", is_stack ? 4 : 3) != 0 || n == 0 || n > 3 || digits[n] || (n > 1 && digits[0] == '0'))
        return NULL;
    if (!clause_has(c, POINT(SCRIPT_P_UPROBE) | (is_stack ? 0 : POINT(SCRIPT_P_USDT))))
        return FAIL(c, span, "The %s builtin can only be used with uprobe%s probes", name, is_stack ? "" : " and usdt");
    struct script_expr *expr = expr_new(c, SCRIPT_E_BUILTIN, span, int64_type(c, false));
    expr->builtin = is_stack ? SCRIPT_B_SARG : SCRIPT_B_ARG;
    expr->value = strtoul(digits, NULL, 10);
    return expr;
}

static struct script_expr *check_retval(struct checker *c, struct script_span span)
{
    if (!clause_has(c, POINT(SCRIPT_P_URETPROBE)))
        return FAIL(c, span, "The retval builtin can only be used with uretprobe probes");
    const struct script_type *type = c->env && c->env->retval ? c->env->retval(c->env->cookie, c->types) : NULL;
    bool is_known = type && type->kind != SCRIPT_T_VOID;
    struct script_expr *expr = expr_new(c, SCRIPT_E_RETVAL, span, is_known ? type : int64_type(c, false));
    expr->value = is_known;
    return expr;
}

static const struct script_type *builtin_type(struct checker *c, const char *type)
{
    if (strcmp(type, "string") == 0)
        return script_type_string(c->types, 16);
    if (strcmp(type, "name") == 0)
        return script_type_plain(c->types, SCRIPT_T_NAME);
    return script_types_find(c->types, strcmp(type, "u32") == 0 ? "uint32" : strcmp(type, "i64") == 0 ? "int64" : "uint64");
}

struct script_expr *check_builtin(struct checker *c, struct script_span span, const char *name)
{
    struct script_expr *argument = check_argument(c, span, name);
    if (argument)
        return argument;
    if (strncmp(name, "__builtin_", 10) == 0)
        name += 10;
    for (int i = 0; i < SCRIPT_BUILTINS; i++) {
        if (strcmp(builtins[i].name, name) != 0 || i == SCRIPT_B_ARG || i == SCRIPT_B_SARG)
            continue;
        if (i == SCRIPT_B_RETVAL)
            return check_retval(c, span);
        if (i == SCRIPT_B_ARGS)
            return FAIL(c, span, "args can only be printed as a whole: use args.NAME");
        if (i == SCRIPT_B_USTACK)
            return check_stack(c, &(struct node){.kind = N_CALL, .span = span});
        if (i == SCRIPT_B_FUNC && !clause_has(c, POINTS_OF_PROCESS))
            return FAIL(c, span, "The func builtin can only be used with uprobe, uretprobe and usdt probes");
        struct script_expr *expr = expr_new(c, SCRIPT_E_BUILTIN, span, builtin_type(c, builtins[i].type));
        expr->builtin = (enum script_builtin)i;
        if (i == SCRIPT_B_MODEL && clause_has(c, POINTS_OF_PROCESS))
            return expr_int(c, span, expr->type, c->model == SCRIPT_ILP32 ? 32 : 64);
        if (i == SCRIPT_B_CPID)
            c->program->uses_cpid = true;
        if (i == SCRIPT_B_HAS_CPID)
            expr->type = bool_type(c);
        return expr;
    }
    for (size_t i = 0; i < sizeof kernel_names / sizeof *kernel_names; i++)
        if (strcmp(kernel_names[i].name, name) == 0) {
            const char *advice = *kernel_names[i].advice ? kernel_names[i].advice : NULL;
            report(c->program, true, span, advice, "%s needs the kernel's tracing; probity traces user-space programs", name);
            return expr_bad(c, span);
        }
    return NULL;
}

/* ---- macros ---- */

const struct macro *find_macro(const struct checker *c, const char *name)
{
    for (size_t i = 0; i < c->program->macros.n; i++)
        if (strcmp(c->program->macros.at[i].name, name) == 0)
            return &c->program->macros.at[i];
    return NULL;
}

static bool argument_fits(struct checker *c, const struct macro *macro, const struct node *param, const struct node *argument)
{
    if (param->kind == N_VARIABLE && argument->kind != N_VARIABLE) {
        ERROR(c->program, argument->span, "Mismatched arg to macro call. Macro '%s' expects a variable for arg $%s", macro->name,
              param->text);
        return false;
    }
    if (param->kind == N_MAP && (argument->kind != N_MAP || argument->n_list)) {
        ERROR(c->program, argument->span, "Mismatched arg to macro call. Macro '%s' expects a map for arg %s", macro->name, param->text);
        return false;
    }
    return true;
}

/* The macro's body as an expression, with its parameters standing for the arguments (call.list). */
struct script_expr *check_macro(struct checker *c, const struct macro *macro, const struct node *call, bool *found)
{
    size_t n = call->kind == N_CALL ? call->n_list : 0;
    *found = true;
    if (n != macro->n_params)
        return FAIL(c, call->span, "Call to macro '%s' has wrong number of arguments. Expected: %zu but got %zu", macro->name,
                    macro->n_params, n);
    struct frame *frame = arena_alloc(c->arena, sizeof *frame);
    *frame = (struct frame){.macro = macro, .arguments = call->list, .caller = c->frame, .depth = c->frame ? c->frame->depth + 1 : 1};
    if (frame->depth > LIMIT_MACRO_DEPTH)
        return FAIL(c, call->span, "Recursive macro call detected: macros are nested more than %d deep", LIMIT_MACRO_DEPTH);
    for (size_t i = 0; i < n; i++)
        if (!argument_fits(c, macro, macro->params[i], call->list[i]))
            return expr_bad(c, call->span);
    const struct frame *was = c->frame;
    c->frame = frame;
    struct script_expr *expr = check_raw(c, macro->body);
    c->frame = was;
    return expr;
}

/* A name that is a parameter of the macro being expanded: the argument, as its caller sees it. */
static struct script_expr *check_parameter(struct checker *c, const struct node *node)
{
    const struct frame *frame = c->frame;
    for (size_t i = 0; frame && i < frame->macro->n_params; i++) {
        const struct node *param = frame->macro->params[i];
        if (param->kind != N_NAME || strcmp(param->text, node->text) != 0)
            continue;
        c->frame = frame->caller;
        struct script_expr *expr = check_raw(c, frame->arguments[i]);
        c->frame = frame;
        return expr;
    }
    return NULL;
}

/* ---- constants ---- */

static struct script_expr *check_constant(struct checker *c, const struct node *node)
{
    int64_t value;
    const char *text = table_get(&c->types->texts, node->text);
    if (text) {
        struct script_expr *expr = expr_new(c, SCRIPT_E_STRING, node->span, script_type_string(c->types, strlen(text) + 1));
        expr->text = text;
        expr->length = strlen(text);
        return expr;
    }
    bool found = script_types_constant(c->types, node->text, &value);
    if (!found && c->env && c->env->constant)
        found = c->env->constant(c->env->cookie, node->text, &value);
    if (!found)
        return NULL;
    /* An enumerator keeps its enumeration, so that %s can print its name. */
    const struct script_type *type = table_get(&c->types->enumerators, node->text);
    if (type)
        return expr_int(c, node->span, script_type_enum(c->types, 8, true, type->enumeration), (uint64_t)value);
    return expr_int(c, node->span, int64_type(c, true), (uint64_t)value);
}

/* `#define NAME expression` in the script. */
static struct script_expr *check_body(struct checker *c, const struct node *node)
{
    const struct script_span *span = table_get(&c->types->bodies, node->text);
    struct node *body = span ? parse_part(c->program, *span) : NULL;
    if (!body || !enter(c, node->span))
        return NULL;
    struct script_expr *expr = check_raw(c, body);
    leave(c);
    return expr;
}

struct script_expr *check_name(struct checker *c, const struct node *node)
{
    struct script_expr *expr = check_parameter(c, node);
    if (!expr)
        expr = check_constant(c, node);
    if (!expr)
        expr = check_body(c, node);
    const struct macro *macro = expr ? NULL : find_macro(c, node->text);
    bool found;
    if (!expr && macro)
        expr = check_macro(c, macro, node, &found);
    if (!expr)
        expr = check_builtin(c, node->span, node->text);
    struct script_argument local;
    if (!expr && c->env && c->env->local && c->env->local(c->env->cookie, c->types, node->text, &local)) {
        struct script_argument *kept = arena_alloc(c->arena, sizeof *kept);
        *kept = local;
        expr = expr_new(c, SCRIPT_E_ARGUMENT, node->span, local.type);
        expr->argument = kept;
    }
    if (expr)
        return expr;
    struct near near = {.wanted = node->text};
    for (int i = 0; i < SCRIPT_BUILTINS; i++)
        near_try(&near, builtins[i].name);
    for (size_t i = 0; i < c->program->macros.n; i++)
        near_try(&near, c->program->macros.at[i].name);
    for (size_t i = 0; i < c->types->constants.room; i++)
        if (c->types->constants.slots[i].name)
            near_try(&near, c->types->constants.slots[i].name);
    report(c->program, true, node->span, near_hint(&near, c->arena), "Unknown identifier: '%s'", node->text);
    return expr_bad(c, node->span);
}
