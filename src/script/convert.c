/* Conversions, constant folding, and the types that hold two types. */
#include "script/check.h"

#include <string.h>

const struct script_type *int64_type(struct checker *c, bool is_signed)
{
    return script_types_find(c->types, is_signed ? "int64" : "uint64");
}

const struct script_type *bool_type(struct checker *c)
{
    return script_types_find(c->types, "bool");
}

bool is_number(const struct script_type *type)
{
    return type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_BOOL;
}

/* The value as a register holds it: extended from the type. */
static uint64_t extend(uint64_t value, const struct script_type *type)
{
    if (type->kind == SCRIPT_T_BOOL)
        return value != 0;
    if (type->kind == SCRIPT_T_POINTER)
        return type->bytes == 4 ? (uint32_t)value : value;
    unsigned shift = type->bytes >= 8 ? 0 : 64 - (unsigned)type->bytes * 8;
    return type->is_signed ? (uint64_t)((int64_t)(value << shift) >> shift) : value << shift >> shift;
}

static bool is_scalar(const struct script_type *type)
{
    return is_number(type) || type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE;
}

bool can_convert(const struct script_type *from, const struct script_type *to)
{
    if (from->kind == SCRIPT_T_UNKNOWN || to->kind == SCRIPT_T_UNKNOWN)
        return true;
    if (is_number(from) && is_number(to))
        return true;
    if (from->kind == SCRIPT_T_DOUBLE && to->kind == SCRIPT_T_DOUBLE)
        return true;
    if (is_number(from) && to->kind == SCRIPT_T_DOUBLE)
        return true;
    if (from->kind != to->kind)
        return false;
    if (from->kind == SCRIPT_T_STRING || from->kind == SCRIPT_T_BUFFER)
        return true;
    if (from->kind == SCRIPT_T_TUPLE) {
        if (from->count != to->count)
            return false;
        for (uint64_t i = 0; i < from->count; i++)
            if (!can_convert(from->items[i].type, to->items[i].type))
                return false;
        return true;
    }
    return script_type_equal(from, to);
}

static bool same_shape(const struct script_type *a, const struct script_type *b)
{
    return script_type_equal(a, b) && a->bytes == b->bytes;
}

struct script_expr *convert(struct checker *c, struct script_expr *expr, const struct script_type *type)
{
    if (is_bad(expr) || type->kind == SCRIPT_T_UNKNOWN)
        return expr;
    if (same_shape(expr->type, type)) {
        if (expr->type->kind == SCRIPT_T_INT && type->enumeration != expr->type->enumeration && expr->kind == SCRIPT_E_INT)
            return expr_int(c, expr->span, type, expr->value);
        return expr;
    }
    if (expr->kind == SCRIPT_E_INT && is_scalar(type)) {
        if (type->kind != SCRIPT_T_DOUBLE)
            return expr_int(c, expr->span, type, extend(expr->value, type));
        struct script_expr *number = expr_new(c, SCRIPT_E_DOUBLE, expr->span, type);
        number->number = expr->type->is_signed ? (double)(int64_t)expr->value : (double)expr->value;
        return number;
    }
    if (expr->kind == SCRIPT_E_TUPLE && type->kind == SCRIPT_T_TUPLE && expr->n_list == type->count) {
        struct script_expr *tuple = expr_new(c, SCRIPT_E_TUPLE, expr->span, type);
        tuple->n_list = expr->n_list;
        tuple->list = arena_alloc(c->arena, expr->n_list * sizeof *tuple->list);
        for (size_t i = 0; i < expr->n_list; i++)
            tuple->list[i] = convert(c, expr->list[i], type->items[i].type);
        return tuple;
    }
    struct script_expr *result = expr_new(c, SCRIPT_E_CONVERT, expr->span, type);
    result->left = expr;
    return result;
}

struct script_expr *to_bool(struct checker *c, struct script_expr *expr, const char *where)
{
    if (is_bad(expr))
        return expr;
    if (!is_scalar(expr->type) || expr->type->kind == SCRIPT_T_DOUBLE) {
        if (expr->type->kind == SCRIPT_T_DOUBLE)
            return convert(c, expr, bool_type(c));
        return FAIL(c, expr->span, "%s: expected a condition, found a value of type '%s'", where, type_text(c, expr->type));
    }
    return convert(c, expr, bool_type(c));
}

struct script_expr *to_int(struct checker *c, struct script_expr *expr, bool is_signed)
{
    if (is_bad(expr))
        return expr;
    return convert(c, expr, int64_type(c, is_signed));
}

/* ---- what a map holds ---- */

const struct script_type *widen(struct checker *c, const struct script_type *type)
{
    struct script_types *types = c->program->types[SCRIPT_LP64];
    switch (type->kind) {
    case SCRIPT_T_INT:
        if (type->enumeration)
            return script_type_enum(types, 8, type->is_signed, type->enumeration);
        return script_type_int(types, 8, type->is_signed);
    case SCRIPT_T_DOUBLE:
        return script_type_double(types, 8);
    case SCRIPT_T_POINTER:
        return script_type_pointer(types, type->to);
    case SCRIPT_T_TUPLE: {
        const struct script_type **items = arena_alloc(c->arena, type->count * sizeof *items);
        for (uint64_t i = 0; i < type->count; i++)
            items[i] = widen(c, type->items[i].type);
        return script_type_tuple(types, items, type->count);
    }
    default:
        return type;
    }
}

static const struct script_type *unify_tuple(struct checker *c, const struct script_type *old, const struct script_type *new)
{
    if (old->count != new->count)
        return NULL;
    const struct script_type **items = arena_alloc(c->arena, old->count * sizeof *items);
    for (uint64_t i = 0; i < old->count; i++) {
        items[i] = unify(c, old->items[i].type, new->items[i].type);
        if (!items[i])
            return NULL;
    }
    return script_type_tuple(c->program->types[SCRIPT_LP64], items, old->count);
}

const struct script_type *unify(struct checker *c, const struct script_type *old, const struct script_type *new)
{
    if (old->kind == SCRIPT_T_UNKNOWN)
        return new;
    if (new->kind == SCRIPT_T_UNKNOWN)
        return old;
    if (is_number(old) && is_number(new)) {
        if (old->kind == SCRIPT_T_BOOL)
            return new;
        if (new->kind == SCRIPT_T_BOOL || (old->bytes >= new->bytes && old->is_signed == new->is_signed))
            return old;
        /* The smallest that holds both; of 64-bit ones, the first. */
        bool is_signed = old->is_signed || new->is_signed;
        uint64_t bytes = old->bytes > new->bytes ? old->bytes : new->bytes;
        if (old->is_signed != new->is_signed && (old->is_signed ? new->bytes >= old->bytes : old->bytes >= new->bytes) && bytes < 8)
            bytes *= 2;
        if (bytes == 8 && old->bytes == 8)
            return old;
        return script_type_int(c->types, (unsigned)bytes, is_signed);
    }
    if (old->kind == SCRIPT_T_DOUBLE && is_number(new))
        return old;
    if (old->kind != new->kind)
        return NULL;
    switch (old->kind) {
    case SCRIPT_T_STRING:
    case SCRIPT_T_BUFFER:
        return new->bytes > old->bytes ? new : old;
    case SCRIPT_T_TUPLE:
        return unify_tuple(c, old, new);
    case SCRIPT_T_RECORD:
    case SCRIPT_T_ARRAY:
        return script_type_equal(old, new) && old->bytes == new->bytes ? old : NULL;
    case SCRIPT_T_POINTER:
        if (script_type_equal(old->to, new->to) || new->to->kind == SCRIPT_T_VOID)
            return old;
        return old->to->kind == SCRIPT_T_VOID ? new : NULL;
    default:
        return script_type_equal(old, new) ? old : NULL;
    }
}

/* ---- folding ---- */

static bool fold_int(enum script_op op, const struct script_type *type, uint64_t a, uint64_t b, uint64_t *value)
{
    bool is_signed = type->is_signed && type->kind == SCRIPT_T_INT;
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    switch (op) {
    case SCRIPT_O_ADD:
        *value = a + b;
        return true;
    case SCRIPT_O_SUB:
        *value = a - b;
        return true;
    case SCRIPT_O_MUL:
        *value = a * b;
        return true;
    case SCRIPT_O_DIV:
    case SCRIPT_O_MOD:
        if (b == 0 || (is_signed && sa == INT64_MIN && sb == -1))
            return false;
        if (op == SCRIPT_O_DIV)
            *value = is_signed ? (uint64_t)(sa / sb) : a / b;
        else
            *value = is_signed ? (uint64_t)(sa % sb) : a % b;
        return true;
    case SCRIPT_O_AND:
        *value = a & b;
        return true;
    case SCRIPT_O_OR:
        *value = a | b;
        return true;
    case SCRIPT_O_XOR:
        *value = a ^ b;
        return true;
    case SCRIPT_O_SHL:
        *value = b < 64 ? a << b : 0;
        return true;
    case SCRIPT_O_SHR:
        *value = b < 64 ? (is_signed ? (uint64_t)(sa >> b) : a >> b) : is_signed && sa < 0 ? UINT64_MAX : 0;
        return true;
    case SCRIPT_O_LT:
        *value = is_signed ? sa < sb : a < b;
        return true;
    case SCRIPT_O_LE:
        *value = is_signed ? sa <= sb : a <= b;
        return true;
    case SCRIPT_O_GT:
        *value = is_signed ? sa > sb : a > b;
        return true;
    case SCRIPT_O_GE:
        *value = is_signed ? sa >= sb : a >= b;
        return true;
    case SCRIPT_O_EQ:
        *value = a == b;
        return true;
    case SCRIPT_O_NE:
        *value = a != b;
        return true;
    case SCRIPT_O_NEG:
        *value = -a;
        return true;
    case SCRIPT_O_INV:
        *value = ~a;
        return true;
    case SCRIPT_O_NOT:
        *value = !a;
        return true;
    }
    return false;
}

static struct script_expr *fold_text(struct checker *c, struct script_expr *expr)
{
    const struct script_expr *left = expr->left, *right = expr->right;
    if (left->kind != SCRIPT_E_STRING || right->kind != SCRIPT_E_STRING)
        return expr;
    bool same = left->length == right->length && memcmp(left->text, right->text, left->length) == 0;
    return expr_int(c, expr->span, expr->type, same == (expr->op == SCRIPT_O_EQ));
}

struct script_expr *fold(struct checker *c, struct script_expr *expr)
{
    uint64_t value;
    switch (expr->kind) {
    case SCRIPT_E_UNARY:
        if (expr->left->kind == SCRIPT_E_INT && fold_int(expr->op, expr->type, expr->left->value, 0, &value))
            return expr_int(c, expr->span, expr->type, extend(value, expr->type));
        return expr;
    case SCRIPT_E_BINARY:
    case SCRIPT_E_COMPARE:
        if (expr->left->kind == SCRIPT_E_INT && expr->right->kind == SCRIPT_E_INT &&
            fold_int(expr->op, expr->left->type, expr->left->value, expr->right->value, &value))
            return expr_int(c, expr->span, expr->type, extend(value, expr->type));
        return expr;
    case SCRIPT_E_COMPARE_BYTES:
        return fold_text(c, expr);
    case SCRIPT_E_AND:
    case SCRIPT_E_OR: {
        bool decides = expr->kind == SCRIPT_E_OR;
        if (expr->left->kind != SCRIPT_E_INT)
            return expr;
        return (expr->left->value != 0) == decides ? expr_int(c, expr->span, expr->type, decides) : expr->right;
    }
    case SCRIPT_E_CHOOSE:
        if (expr->condition->kind != SCRIPT_E_INT)
            return expr;
        return expr->condition->value ? expr->left : expr->right;
    default:
        return expr;
    }
}
