/* Expressions: operators, literals, variables, parameters. */
#include "script/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- types as written ---- */

static const struct script_type *find_type(struct checker *c, const char *name)
{
    const struct script_type *type = script_types_find(c->types, name);
    if (type && !(type->kind == SCRIPT_T_RECORD && !type->record->is_complete))
        return type;
    const struct script_type *found = c->env && c->env->type ? c->env->type(c->env->cookie, c->types, name) : NULL;
    return found ? found : type;
}

static const struct script_type *script_type(struct checker *c, const struct spelling *spelling, unsigned *used)
{
    const char *name = spelling->name;
    uint64_t bytes =
        spelling->n_dimensions && spelling->dimensions[0] != SCRIPT_FLEXIBLE ? spelling->dimensions[0] : c->program->max_strlen;
    *used = spelling->n_dimensions > 0;
    if (bytes < 1 || bytes > LIMIT_STRING)
        return NULL;
    if (strcmp(name, "string") == 0)
        return script_type_string(c->types, bytes);
    if (strcmp(name, "buffer") == 0)
        return script_type_buffer(c->types, bytes);
    *used = 0;
    if (strcmp(name, "inet") == 0)
        return script_type_plain(c->types, SCRIPT_T_INET);
    if (strcmp(name, "mac_address") == 0)
        return script_type_plain(c->types, SCRIPT_T_MAC);
    if (strcmp(name, "usym") == 0 || strcmp(name, "usym_t") == 0)
        return script_type_plain(c->types, SCRIPT_T_SYMBOL);
    if (strcmp(name, "ustack") == 0)
        return script_type_plain(c->types, SCRIPT_T_STACK);
    if (strcmp(name, "timestamp") == 0)
        return script_type_plain(c->types, SCRIPT_T_TIMESTAMP);
    return NULL;
}

static void unknown_type(struct checker *c, const struct spelling *spelling)
{
    struct near near = {.wanted = spelling->name};
    for (size_t i = 0; i < c->types->names.room; i++)
        if (c->types->names.slots[i].name)
            near_try(&near, c->types->names.slots[i].name);
    bool is_tagged = strchr(spelling->name, ' ') != NULL;
    report(c->program, true, spelling->span, near_hint(&near, c->arena), is_tagged ? "Unknown struct/union: '%s'" : "Unknown type: '%s'",
           spelling->name);
}

const struct script_type *resolve_spelling(struct checker *c, const struct spelling *spelling)
{
    unsigned used = 0;
    const struct script_type *type = find_type(c, spelling->name);
    if (!type)
        type = script_type(c, spelling, &used);
    if (!type) {
        /* A struct's tag alone, as bpftrace allows. */
        type = find_type(c, arena_format(c->arena, "struct %s", spelling->name));
    }
    if (!type) {
        unknown_type(c, spelling);
        return NULL;
    }
    for (unsigned i = 0; i < spelling->pointers; i++)
        type = script_type_pointer(c->types, type);
    for (unsigned i = spelling->n_dimensions; i-- > used;) {
        type = script_type_array(c->types, type, spelling->dimensions[i]);
        if (!type) {
            ERROR(c->program, spelling->span, "an array of this type has no size, or is too large");
            return NULL;
        }
    }
    return type;
}

/* ---- operators ---- */

static enum script_op op_of(uint32_t op)
{
    switch (op) {
    case '+':
        return SCRIPT_O_ADD;
    case '-':
        return SCRIPT_O_SUB;
    case '*':
        return SCRIPT_O_MUL;
    case '/':
        return SCRIPT_O_DIV;
    case '%':
        return SCRIPT_O_MOD;
    case '&':
        return SCRIPT_O_AND;
    case '|':
        return SCRIPT_O_OR;
    case '^':
        return SCRIPT_O_XOR;
    case OP2('<', '<'):
        return SCRIPT_O_SHL;
    case OP2('>', '>'):
        return SCRIPT_O_SHR;
    case '<':
        return SCRIPT_O_LT;
    case '>':
        return SCRIPT_O_GT;
    case OP2('<', '='):
        return SCRIPT_O_LE;
    case OP2('>', '='):
        return SCRIPT_O_GE;
    case OP2('=', '='):
        return SCRIPT_O_EQ;
    default:
        return SCRIPT_O_NE;
    }
}

static const char *op_text(struct checker *c, uint32_t op)
{
    struct token token = {.kind = TOKEN_PUNCT, .op = op};
    return token_describe(c->arena, &token);
}

static struct script_expr *make_binary(struct checker *c, enum script_expr_kind kind, enum script_op op, struct script_span span,
                                       const struct script_type *type, struct script_expr *left, struct script_expr *right)
{
    struct script_expr *expr = expr_new(c, kind, span, type);
    expr->op = op;
    expr->left = left;
    expr->right = right;
    return fold(c, expr);
}

static bool is_comparison(enum script_op op)
{
    return op >= SCRIPT_O_LT && op <= SCRIPT_O_NE;
}

static struct script_expr *mismatch(struct checker *c, uint32_t op, struct script_span span, const struct script_expr *left,
                                    const struct script_expr *right)
{
    if (!is_comparison(op_of(op)))
        return FAIL(c, span, "The %s operator can not be used on expressions of types '%s', '%s'", op_text(c, op), type_text(c, left->type),
                    type_text(c, right->type));
    return FAIL(c, span, "Type mismatch for '%s': comparing '%s' with '%s'", op_text(c, op), type_text(c, left->type),
                type_text(c, right->type));
}

/* == and != of strings, buffers, arrays, tuples. */
static struct script_expr *compare_bytes(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                         struct script_expr *right)
{
    enum script_op code = op_of(op);
    if (code != SCRIPT_O_EQ && code != SCRIPT_O_NE)
        return FAIL(c, span, "The %s operator can not be used on expressions of types '%s', '%s'", op_text(c, op), type_text(c, left->type),
                    type_text(c, right->type));
    if (left->type->kind == SCRIPT_T_STRING && right->type->kind == SCRIPT_T_NAME) {
        struct script_expr *name = right;
        right = left;
        left = name;
    }
    if (left->type->kind == SCRIPT_T_NAME) {
        bool is_kept = left->kind != SCRIPT_E_BUILTIN || left->builtin == SCRIPT_B_PROBETYPE;
        if (right->kind != SCRIPT_E_STRING || is_kept)
            return FAIL(c, span, "func, probe and username can be compared with string literals only, other names not at all");
    } else if (left->type->kind == SCRIPT_T_TUPLE && right->type->kind == SCRIPT_T_TUPLE) {
        const struct script_type *both = unify(c, widen(c, left->type), widen(c, right->type));
        if (!both)
            return mismatch(c, op, span, left, right);
        left = convert(c, left, both);
        right = convert(c, right, both);
    } else if (left->type->kind != right->type->kind || (left->type->kind == SCRIPT_T_ARRAY && left->type->bytes != right->type->bytes)) {
        return mismatch(c, op, span, left, right);
    }
    return make_binary(c, SCRIPT_E_COMPARE_BYTES, code, span, bool_type(c), left, right);
}

static bool is_bytes(const struct script_type *type)
{
    return type->kind == SCRIPT_T_STRING || type->kind == SCRIPT_T_BUFFER || type->kind == SCRIPT_T_ARRAY || type->kind == SCRIPT_T_TUPLE ||
           type->kind == SCRIPT_T_MAC || type->kind == SCRIPT_T_INET || type->kind == SCRIPT_T_NAME;
}

static struct script_expr *double_binary(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                         struct script_expr *right)
{
    enum script_op code = op_of(op);
    const struct script_type *type = script_types_find(c->types, "double");
    if (!is_comparison(code) && code > SCRIPT_O_DIV)
        return FAIL(c, span, "The %s operator can not be used on expressions of types '%s', '%s'", op_text(c, op), type_text(c, left->type),
                    type_text(c, right->type));
    left = convert(c, left, type);
    right = convert(c, right, type);
    if (is_comparison(code))
        return make_binary(c, SCRIPT_E_COMPARE, code, span, bool_type(c), left, right);
    return make_binary(c, SCRIPT_E_BINARY, code, span, type, left, right);
}

static bool fits_unsigned(const struct script_expr *expr)
{
    return expr->kind == SCRIPT_E_INT && (int64_t)expr->value >= 0;
}

static struct script_expr *int_binary(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                      struct script_expr *right)
{
    enum script_op code = op_of(op);
    bool left_signed = left->type->kind == SCRIPT_T_INT && left->type->is_signed,
         right_signed = right->type->kind == SCRIPT_T_INT && right->type->is_signed;
    if (code == SCRIPT_O_SHL || code == SCRIPT_O_SHR)
        return make_binary(c, SCRIPT_E_BINARY, code, span, int64_type(c, left_signed), to_int(c, left, left_signed),
                           to_int(c, right, false));
    /* Smaller types fit a signed 64-bit one whatever their sign; constants take the other side's. */
    bool is_signed = left_signed && right_signed;
    if (left_signed != right_signed) {
        const struct script_expr *one = left_signed ? left : right, *other = left_signed ? right : left;
        if (fits_unsigned(one))
            is_signed = false;
        else if (other->type->bytes < 8 || fits_unsigned(other))
            is_signed = true;
        else if (is_comparison(code) && code != SCRIPT_O_EQ && code != SCRIPT_O_NE)
            WARN(c->program, span, "comparison of integers of different signs: '%s' and '%s' can lead to undefined behavior",
                 type_text(c, left->type), type_text(c, right->type));
    }
    if ((code == SCRIPT_O_DIV || code == SCRIPT_O_MOD) && right->kind == SCRIPT_E_INT && right->value == 0)
        return FAIL(c, right->span, "division by zero");
    left = to_int(c, left, is_signed);
    right = to_int(c, right, is_signed);
    if (is_comparison(code))
        return make_binary(c, SCRIPT_E_COMPARE, code, span, bool_type(c), left, right);
    return make_binary(c, SCRIPT_E_BINARY, code, span, int64_type(c, is_signed), left, right);
}

static struct script_expr *pointer_binary(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                          struct script_expr *right)
{
    enum script_op code = op_of(op);
    bool is_left = left->type->kind == SCRIPT_T_POINTER, is_right = right->type->kind == SCRIPT_T_POINTER;
    if (is_comparison(code)) {
        const struct script_type *type = int64_type(c, false);
        return make_binary(c, SCRIPT_E_COMPARE, code, span, bool_type(c), convert(c, left, type), convert(c, right, type));
    }
    if (is_left && is_right && code == SCRIPT_O_SUB)
        return make_binary(c, SCRIPT_E_BINARY, code, span, int64_type(c, true), to_int(c, left, true), to_int(c, right, true));
    if (code == SCRIPT_O_ADD && is_left != is_right)
        return is_left ? pointer_add(c, span, left, right, false) : pointer_add(c, span, right, left, false);
    if (code == SCRIPT_O_SUB && is_left)
        return pointer_add(c, span, left, right, true);
    return FAIL(c, span, "The %s operator can not be used on expressions of types '%s', '%s'", op_text(c, op), type_text(c, left->type),
                type_text(c, right->type));
}

struct script_expr *check_binary(struct checker *c, uint32_t op, struct script_span span, struct script_expr *left,
                                 struct script_expr *right)
{
    if (is_bad(left) || is_bad(right))
        return expr_bad(c, span);
    if (op == OP2('&', '&') || op == OP2('|', '|')) {
        left = to_bool(c, left, op_text(c, op));
        right = to_bool(c, right, op_text(c, op));
        if (is_bad(left) || is_bad(right))
            return expr_bad(c, span);
        return make_binary(c, op == OP2('&', '&') ? SCRIPT_E_AND : SCRIPT_E_OR, SCRIPT_O_AND, span, bool_type(c), left, right);
    }
    /* An array of bytes beside an integer of its size is that integer (addresses). */
    if (left->type->kind == SCRIPT_T_ARRAY && right->type->kind == SCRIPT_T_INT && left->type->bytes <= 8 &&
        (left->type->bytes & (left->type->bytes - 1)) == 0)
        left = convert(c, left, script_type_int(c->types, (unsigned)left->type->bytes, false));
    if (is_bytes(left->type) || is_bytes(right->type)) {
        bool is_name = left->type->kind == SCRIPT_T_NAME || right->type->kind == SCRIPT_T_NAME;
        if (left->type->kind != right->type->kind && !is_name)
            return mismatch(c, op, span, left, right);
        return compare_bytes(c, op, span, left, right);
    }
    bool left_ok = is_number(left->type) || left->type->kind == SCRIPT_T_POINTER || left->type->kind == SCRIPT_T_DOUBLE;
    bool right_ok = is_number(right->type) || right->type->kind == SCRIPT_T_POINTER || right->type->kind == SCRIPT_T_DOUBLE;
    if (!left_ok || !right_ok)
        return FAIL(c, span, "The %s operator can not be used on expressions of types '%s', '%s'", op_text(c, op), type_text(c, left->type),
                    type_text(c, right->type));
    if (left->type->kind == SCRIPT_T_POINTER || right->type->kind == SCRIPT_T_POINTER)
        return pointer_binary(c, op, span, left, right);
    if (left->type->kind == SCRIPT_T_DOUBLE || right->type->kind == SCRIPT_T_DOUBLE)
        return double_binary(c, op, span, left, right);
    return int_binary(c, op, span, left, right);
}

static struct script_expr *check_unary(struct checker *c, const struct node *node)
{
    if (node->op == '&')
        return FAIL(c, node->span, "the address of a variable or map can not be taken: neither has a place in the traced process");
    if (node->op == '*')
        return check_deref(c, node->span, check_raw(c, node->list[0]));
    struct script_expr *value = check_expr(c, node->list[0]);
    if (is_bad(value))
        return value;
    if (node->op == '!') {
        value = to_bool(c, value, "!");
        if (is_bad(value))
            return value;
        struct script_expr *expr = expr_new(c, SCRIPT_E_UNARY, node->span, bool_type(c));
        expr->op = SCRIPT_O_NOT;
        expr->left = value;
        return fold(c, expr);
    }
    if (value->kind == SCRIPT_E_DOUBLE && node->op == '-') {
        struct script_expr *expr = expr_new(c, SCRIPT_E_DOUBLE, node->span, value->type);
        expr->number = -value->number;
        return expr;
    }
    bool is_double = value->type->kind == SCRIPT_T_DOUBLE && node->op == '-';
    if (!is_number(value->type) && !is_double)
        return FAIL(c, node->span, "The %s operator can not be used on expressions of type '%s'", op_text(c, node->op),
                    type_text(c, value->type));
    bool is_signed = node->op == '-' || (value->type->kind == SCRIPT_T_INT && value->type->is_signed);
    const struct script_type *type = is_double ? script_types_find(c->types, "double") : int64_type(c, is_signed);
    struct script_expr *expr = expr_new(c, SCRIPT_E_UNARY, node->span, type);
    expr->op = node->op == '-' ? SCRIPT_O_NEG : SCRIPT_O_INV;
    expr->left = convert(c, value, type);
    return fold(c, expr);
}

/* ---- variables ---- */

static struct script_expr *check_variable(struct checker *c, const struct node *node)
{
    const struct frame *frame;
    const struct node *real = variable_follow(c, node, &frame);
    struct variable *variable = variable_find(c, real->text, frame);
    if (!variable) {
        struct near near = {.wanted = real->text};
        for (size_t i = 0; i < c->variables.n; i++)
            if (c->variables.at[i].frame == frame)
                near_try(&near, c->variables.at[i].name);
        const char *hint = near.best ? arena_format(c->arena, "did you mean '$%s'?", near.best) : NULL;
        report(c->program, true, node->span, hint, "Undefined or undeclared variable: $%s", real->text);
        return expr_bad(c, node->span);
    }
    variable->is_used = true;
    struct script_expr *expr = expr_new(c, SCRIPT_E_SCRATCH, node->span, c->slots.at[variable->slot]);
    expr->slot = variable->slot;
    if (is_bad(expr) && c->is_last && !variable->is_assigned)
        ERROR(c->program, node->span, "Variable used before it was assigned: $%s", real->text);
    return expr;
}

static struct script_expr *check_self(struct checker *c, const struct node *node)
{
    for (size_t i = 0; i < c->program->threads.n; i++) {
        const struct script_thread_variable *variable = &c->program->threads.at[i];
        if (strcmp(variable->name, node->text) != 0)
            continue;
        struct script_expr *expr = expr_new(c, SCRIPT_E_THREAD, node->span, variable->type);
        expr->slot = (uint32_t)i;
        return expr;
    }
    if (!c->is_last)
        return expr_bad(c, node->span);
    struct near near = {.wanted = node->text};
    for (size_t i = 0; i < c->program->threads.n; i++)
        near_try(&near, c->program->threads.at[i].name);
    report(c->program, true, node->span, near_hint(&near, c->arena), "Undefined thread variable: self->%s", node->text);
    return expr_bad(c, node->span);
}

static struct script_expr *check_step(struct checker *c, const struct node *node)
{
    const struct node *target = node->list[0];
    if (target->kind != N_VARIABLE && target->kind != N_MAP && target->kind != N_SELF)
        return FAIL(c, node->span, "%s can only be used on a variable or a map", op_text(c, node->op));
    struct script_expr *value;
    if (target->kind == N_MAP) {
        /* The first use may define it: an integer. */
        struct map_entry *map = map_of(c, target);
        if (!map)
            return expr_bad(c, node->span);
        if (map->map.value->kind == SCRIPT_T_UNKNOWN && !map_value(c, map, node->span, int64_type(c, true)))
            return expr_bad(c, node->span);
        map->is_assigned = true;
        value = check_map(c, target, true);
    } else {
        if (target->kind == N_SELF && !define_thread(c, node->span, target->text, int64_type(c, true)))
            return expr_bad(c, node->span);
        value = check_raw(c, target);
    }
    if (is_bad(value))
        return value;
    bool is_pointer = value->type->kind == SCRIPT_T_POINTER;
    if (value->type->kind != SCRIPT_T_INT && !is_pointer)
        return FAIL(c, node->span, "The %s operator can not be used on a value of type '%s'", op_text(c, node->op),
                    type_text(c, value->type));
    struct script_expr *expr = expr_new(c, SCRIPT_E_STEP, node->span, value->type);
    uint64_t size = is_pointer && value->type->to->bytes ? value->type->to->bytes : 1;
    expr->target = value;
    expr->value = node->op == OP2('+', '+') ? size : -size;
    expr->is_post = node->value;
    return expr;
}

/* ---- parameters of the script ---- */

static struct script_expr *check_param(struct checker *c, const struct node *node)
{
    const struct script_type *type = int64_type(c, true);
    if (node->kind == N_PARAM_COUNT)
        return expr_int(c, node->span, type, c->program->n_positional);
    if (node->value == 0 || node->value > c->program->n_positional)
        return expr_int(c, node->span, type, 0);
    const char *text = c->program->positional[node->value - 1];
    char *rest;
    errno = 0;
    long long value = strtoll(text, &rest, 0);
    bool is_unsigned = errno == ERANGE && text[0] != '-';
    if (is_unsigned) {
        errno = 0;
        value = (long long)strtoull(text, &rest, 0);
    }
    if (*text && !*rest && errno == 0)
        return expr_int(c, node->span, int64_type(c, !is_unsigned), (uint64_t)value);
    struct script_expr *expr = expr_new(c, SCRIPT_E_STRING, node->span, script_type_string(c->types, strlen(text) + 1));
    expr->text = text;
    expr->length = strlen(text);
    return expr;
}

/* ---- the rest ---- */

static struct script_expr *check_choose(struct checker *c, const struct node *node)
{
    struct script_expr *condition = to_bool(c, check_expr(c, node->list[0]), "?:");
    struct script_expr *left = check_expr(c, node->list[1]), *right = check_expr(c, node->list[2]);
    if (is_bad(condition) || is_bad(left) || is_bad(right))
        return expr_bad(c, node->span);
    const struct script_type *type = unify(c, left->type, right->type);
    if (!type)
        return FAIL(c, node->span, "Ternary operator must return the same type: have '%s' and '%s'", type_text(c, left->type),
                    type_text(c, right->type));
    struct script_expr *expr = expr_new(c, SCRIPT_E_CHOOSE, node->span, type);
    expr->condition = condition;
    expr->left = convert(c, left, type);
    expr->right = convert(c, right, type);
    return fold(c, expr);
}

static struct script_expr *check_tuple(struct checker *c, const struct node *node)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_TUPLE, node->span, NULL);
    const struct script_type **types = arena_alloc(c->arena, node->n_list * sizeof *types);
    expr->list = arena_alloc(c->arena, node->n_list * sizeof *expr->list);
    expr->n_list = node->n_list;
    bool bad = false;
    for (size_t i = 0; i < node->n_list; i++) {
        expr->list[i] = check_expr(c, node->list[i]);
        types[i] = expr->list[i]->type;
        bad |= is_bad(expr->list[i]);
        if (types[i]->kind == SCRIPT_T_VOID)
            return FAIL(c, node->list[i]->span, "an expression without a value can not be part of a tuple");
    }
    if (bad)
        return expr_bad(c, node->span);
    expr->type = script_type_tuple(c->types, types, node->n_list);
    if (expr->type->bytes > LIMIT_STRING)
        return FAIL(c, node->span, "the tuple is too large (limit %d bytes)", LIMIT_STRING);
    return expr;
}

static struct script_expr *check_block_value(struct checker *c, const struct node *node)
{
    size_t scope = c->variables.n;
    struct script_expr *expr = expr_new(c, SCRIPT_E_BLOCK, node->span, script_types_find(c->types, "void"));
    size_t n = node->n_list - (node->value ? 1 : 0);
    expr->body = check_statements(c, node, n);
    if (node->value) {
        const struct node *last = node->list[n];
        if (last->kind < N_ASSIGN) {
            expr->left = check_expr(c, last);
            expr->type = expr->left->type;
        } else {
            struct node only = *node;
            only.list = &node->list[n];
            only.n_list = 1;
            struct script_stmt *statement = check_statements(c, &only, 1), **end = &expr->body;
            while (*end)
                end = &(*end)->next;
            *end = statement;
        }
    }
    c->variables.n = scope;
    if (expr->left && !expr->body)
        return expr->left;
    return expr;
}

static struct script_expr *check_sizeof(struct checker *c, const struct node *node)
{
    const struct script_type *type;
    if (node->spelling) {
        type = resolve_spelling(c, node->spelling);
        if (!type)
            return expr_bad(c, node->span);
    } else {
        bool was = c->in_sizeof;
        c->in_sizeof = true;
        struct script_expr *value = check_raw(c, node->list[0]);
        c->in_sizeof = was;
        if (is_bad(value))
            return value;
        type = value->type;
    }
    if (type->kind == SCRIPT_T_VOID || (type->kind == SCRIPT_T_RECORD && !type->record->is_complete))
        return FAIL(c, node->span, "the size of '%s' is not known", type_text(c, type));
    return expr_int(c, node->span, int64_type(c, false), type->bytes);
}

struct script_expr *decay(struct checker *c, struct script_expr *expr)
{
    const struct script_type *type = expr->type;
    if (type->kind != SCRIPT_T_ARRAY || !type->to->is_char ||
        (expr->kind != SCRIPT_E_LOAD && expr->kind != SCRIPT_E_EXTRACT && expr->kind != SCRIPT_E_ARGUMENT))
        return expr;
    struct script_expr *text = expr_new(c, expr->kind, expr->span, NULL);
    *text = *expr;
    /* The characters; the string has room for its end, too. */
    text->bytes = type->is_flexible || type->count >= LIMIT_STRING ? c->program->max_strlen - 1 : type->count;
    text->type = script_type_string(c->types, text->bytes + 1);
    if (expr->kind == SCRIPT_E_ARGUMENT) {
        text->kind = SCRIPT_E_EXTRACT;
        text->left = expr;
    }
    return text;
}

struct script_expr *check_expr(struct checker *c, const struct node *node)
{
    struct script_expr *expr = decay(c, check_raw(c, node));
    if (expr->type->bytes > LIMIT_STRING)
        return FAIL(c, node->span, "a value of type '%s' is too large (limit %d bytes)", type_text(c, expr->type), LIMIT_STRING);
    return expr;
}

static struct script_expr *check_literal(struct checker *c, const struct node *node)
{
    if (node->kind == N_INT)
        return expr_int(c, node->span, int64_type(c, (int64_t)node->value >= 0), node->value);
    if (node->kind == N_BOOL)
        return expr_int(c, node->span, bool_type(c), node->value);
    if (node->kind == N_FLOAT) {
        struct script_expr *expr = expr_new(c, SCRIPT_E_DOUBLE, node->span, script_types_find(c->types, "double"));
        expr->number = node->number;
        return expr;
    }
    struct script_expr *expr = expr_new(c, SCRIPT_E_STRING, node->span, script_type_string(c->types, node->length + 1));
    expr->text = node->text;
    expr->length = node->length;
    return expr;
}

static struct script_expr *dispatch(struct checker *c, const struct node *node)
{
    switch (node->kind) {
    case N_INT:
    case N_BOOL:
    case N_FLOAT:
    case N_STRING:
        return check_literal(c, node);
    case N_NAME:
        return check_name(c, node);
    case N_VARIABLE:
        return check_variable(c, node);
    case N_MAP:
        return check_map(c, node, false);
    case N_PARAM:
    case N_PARAM_COUNT:
        return check_param(c, node);
    case N_SELF:
        return check_self(c, node);
    case N_CALL:
        return check_call(c, node);
    case N_UNARY:
        return check_unary(c, node);
    case N_STEP:
        return check_step(c, node);
    case N_BINARY: {
        struct script_expr *left = check_expr(c, node->list[0]);
        return check_binary(c, node->op, node->span, left, check_expr(c, node->list[1]));
    }
    case N_CHOOSE:
        return check_choose(c, node);
    case N_CAST:
        return check_cast(c, node);
    case N_SIZEOF:
        return check_sizeof(c, node);
    case N_OFFSETOF:
        return check_offsetof(c, node);
    case N_FIELD:
        return check_field(c, node);
    case N_ITEM:
        return check_item(c, node);
    case N_INDEX:
        return check_index(c, node);
    case N_TUPLE:
        return check_tuple(c, node);
    case N_BLOCK:
        return check_block_value(c, node);
    case N_COMPTIME: {
        struct script_expr *value = check_expr(c, node->list[0]);
        if (!is_bad(value) && value->kind != SCRIPT_E_INT && value->kind != SCRIPT_E_STRING)
            return FAIL(c, node->span, "comptime: the value is not known before the script runs");
        return value;
    }
    case N_BAD:
        return expr_bad(c, node->span);
    default:
        return FAIL(c, node->span, "a statement can not be used as a value");
    }
}

struct script_expr *check_raw(struct checker *c, const struct node *node)
{
    if (!enter(c, node->span))
        return expr_bad(c, node->span);
    struct script_expr *expr = dispatch(c, node);
    leave(c);
    return expr;
}
