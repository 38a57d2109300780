/* Fields, elements, pointers and casts: everything that reads the process's memory or takes values apart. */
#include "script/check.h"

#include <string.h>

/* A piece of a record, array or tuple: of memory if the base is read from there, else of the value. */
static struct script_expr *piece(struct checker *c, struct script_span span, struct script_expr *base, const struct script_type *type,
                                 uint64_t offset)
{
    struct script_expr *expr;
    if (base->kind == SCRIPT_E_LOAD || base->kind == SCRIPT_E_EXTRACT) {
        expr = expr_new(c, base->kind, span, type);
        expr->left = base->left;
        expr->offset = base->offset + offset;
    } else {
        expr = expr_new(c, SCRIPT_E_EXTRACT, span, type);
        expr->left = base;
        expr->offset = offset;
    }
    expr->bytes = base->type->kind == SCRIPT_T_TUPLE ? type_value_bytes(type) : type->bytes;
    return expr;
}

static struct script_expr *load(struct checker *c, struct script_span span, struct script_expr *pointer, const struct script_type *type)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_LOAD, span, type);
    expr->left = pointer;
    expr->bytes = type->bytes;
    if (pointer->kind == SCRIPT_E_ADDRESS && !pointer->right) {
        expr->left = pointer->left;
        expr->offset = pointer->offset;
    }
    return expr;
}

/* The word that holds a bit-field: a load of 1, 2, 4 or 8 bytes inside the record if there is one. */
static void place_bits(struct script_expr *expr, const struct script_member *member, uint64_t record_bytes)
{
    uint64_t first = member->offset, bits = member->bit_offset + member->bit_size;
    expr->bit_size = member->bit_size;
    for (uint64_t bytes = 1; bytes <= 8; bytes *= 2) {
        uint64_t unit = first / bytes * bytes, shift = (first - unit) * 8;
        if (shift + bits <= bytes * 8 && unit + bytes <= record_bytes) {
            expr->offset -= first - unit;
            expr->bytes = bytes;
            expr->bit_offset = (uint8_t)(shift + member->bit_offset);
            return;
        }
    }
    expr->bytes = (bits + 7) / 8;
    expr->bit_offset = member->bit_offset;
}

struct script_expr *check_deref(struct checker *c, struct script_span span, struct script_expr *pointer)
{
    if (is_bad(pointer))
        return pointer;
    if (pointer->type->kind == SCRIPT_T_ARRAY && (pointer->kind == SCRIPT_E_LOAD || pointer->kind == SCRIPT_E_EXTRACT))
        return piece(c, span, pointer, pointer->type->to, 0);
    if (pointer->type->kind != SCRIPT_T_POINTER)
        return FAIL(c, span, "Can not dereference a value of type '%s': cast it to a pointer first, as *(uint64 *)x",
                    type_text(c, pointer->type));
    const struct script_type *to = pointer->type->to;
    if (to->kind == SCRIPT_T_RECORD && !to->record->is_complete) {
        const struct script_type *found = c->env && c->env->type ? c->env->type(c->env->cookie, c->types, to->record->name) : NULL;
        to = found ? found : to;
    }
    if (to->kind == SCRIPT_T_VOID || to->kind == SCRIPT_T_FUNCTION || (to->kind == SCRIPT_T_RECORD && !to->record->is_complete))
        return FAIL(c, span, "Can not dereference a pointer to '%s', whose size is not known", type_text(c, to));
    return load(c, span, pointer, to);
}

struct script_expr *pointer_add(struct checker *c, struct script_span span, struct script_expr *pointer, struct script_expr *index,
                                bool is_minus)
{
    if (is_bad(pointer) || is_bad(index))
        return expr_bad(c, span);
    if (!is_number(index->type))
        return FAIL(c, span, "pointer arithmetic needs an integer, found '%s'", type_text(c, index->type));
    const struct script_type *to = pointer->type->to;
    uint64_t size = to->kind == SCRIPT_T_VOID || to->kind == SCRIPT_T_FUNCTION || to->bytes == 0 ? 1 : to->bytes;
    if (is_minus)
        size = -size;
    struct script_expr *expr = expr_new(c, SCRIPT_E_ADDRESS, span, pointer->type);
    expr->left = pointer;
    index = to_int(c, index, true);
    if (index->kind == SCRIPT_E_INT) {
        expr->offset = size * index->value;
        if (pointer->kind == SCRIPT_E_ADDRESS && !pointer->right) {
            expr->left = pointer->left;
            expr->offset += pointer->offset;
        }
        return expr;
    }
    expr->value = size;
    expr->right = index;
    return expr;
}

/* ---- fields ---- */

static struct script_expr *no_field(struct checker *c, const struct node *node, const struct script_type *type)
{
    struct near near = {.wanted = node->text};
    for (size_t i = 0; i < type->record->n_members; i++)
        if (type->record->members[i].name)
            near_try(&near, type->record->members[i].name);
    report(c->program, true, node->span, near_hint(&near, c->arena), "Struct/union of type '%s' does not contain a field named '%s'",
           type->record->name, node->text);
    return expr_bad(c, node->span);
}

/* A member, also by the name that a header gives to one inside another: `#define sa_handler __sigaction_handler.sa_handler`. */
static bool find_field(struct checker *c, const struct script_type *type, const char *name, struct script_member *out)
{
    if (script_type_member(type, name, out))
        return true;
    const char *path = table_get(&c->types->paths, name);
    uint64_t offset = 0;
    while (path && type->kind == SCRIPT_T_RECORD) {
        size_t length = strcspn(path, ".");
        if (!script_type_member(type, arena_text(c->arena, path, length), out))
            return false;
        out->offset += offset;
        if (!path[length])
            return true;
        offset = out->offset;
        type = out->type;
        path += length + 1;
    }
    return false;
}

static struct script_expr *argument(struct checker *c, struct script_span span, const struct script_argument *found)
{
    struct script_argument *kept = arena_alloc(c->arena, sizeof *kept);
    *kept = *found;
    struct script_expr *expr = expr_new(c, SCRIPT_E_ARGUMENT, span, found->type);
    expr->argument = kept;
    return expr;
}

static struct script_expr *check_args_field(struct checker *c, const struct node *node)
{
    if (!clause_has(c, POINTS_OF_PROCESS))
        return FAIL(c, node->span, "The args builtin can only be used with uprobe, uretprobe and usdt probes");
    const struct script_argument *list = NULL;
    size_t n = c->env && c->env->arguments ? c->env->arguments(c->env->cookie, c->types, &list) : 0;
    struct near near = {.wanted = node->text};
    for (size_t i = 0; i < n; i++) {
        if (!list[i].name)
            continue;
        if (strcmp(list[i].name, node->text) == 0)
            return argument(c, node->span, &list[i]);
        near_try(&near, list[i].name);
    }
    struct script_argument local;
    if (c->env && c->env->local && c->env->local(c->env->cookie, c->types, node->text, &local))
        return argument(c, node->span, &local);
    const char *place = c->env && c->env->name       ? c->env->name
                        : c->clause->clause.n_points ? c->clause->clause.points[0].text
                                                     : "this probe";
    if (n == 0)
        return FAIL(c, node->span, "args.%s: the arguments of %s are not known: it has no debug information; arg0, arg1, ... can be used",
                    node->text, place);
    report(c->program, true, node->span, near_hint(&near, c->arena), "Can't find function parameter %s of %s", node->text, place);
    return expr_bad(c, node->span);
}

struct script_expr *check_all_args(struct checker *c, struct script_span span)
{
    const struct script_argument *list = NULL;
    if (!clause_has(c, POINTS_OF_PROCESS))
        return FAIL(c, span, "The args builtin can only be used with uprobe, uretprobe and usdt probes");
    size_t n = c->env && c->env->arguments ? c->env->arguments(c->env->cookie, c->types, &list) : 0;
    struct script_expr *expr = expr_new(c, SCRIPT_E_TUPLE, span, script_record_open(c->types, NULL, false));
    struct script_field *fields = arena_alloc(c->arena, (n + 1) * sizeof *fields);
    expr->list = arena_alloc(c->arena, (n + 1) * sizeof *expr->list);
    for (size_t i = 0; i < n; i++) {
        if (!list[i].name)
            continue;
        struct script_expr *value = argument(c, span, &list[i]);
        if (value->type->kind == SCRIPT_T_DOUBLE) /* a float, too, is one as a value */
            value = convert(c, value, script_types_find(c->types, "double"));
        fields[expr->n_list] = (struct script_field){.name = list[i].name, .type = value->type, .offset = SCRIPT_COMPUTED};
        expr->list[expr->n_list++] = value;
    }
    if (!expr->n_list)
        return FAIL(c, span,
                    "the arguments of this probe are not known: it has no debug information, or none; arg0, arg1, ... can be used");
    if (!script_record_close(c->types, expr->type, fields, expr->n_list, false, 0, SCRIPT_COMPUTED))
        return FAIL(c, span, "the arguments of this probe can not be printed together");
    return expr;
}

struct script_expr *check_field(struct checker *c, const struct node *node)
{
    const struct node *inner = node->list[0];
    if (inner->kind == N_NAME && strcmp(inner->text, "args") == 0)
        return check_args_field(c, node);
    struct script_expr *base = check_raw(c, inner);
    if (is_bad(base))
        return base;
    if (base->type->kind == SCRIPT_T_POINTER) {
        if (base->type->to->kind != SCRIPT_T_RECORD)
            return FAIL(c, node->span, "Can not access field '%s' on expression of type '%s'", node->text, type_text(c, base->type));
        base = check_deref(c, node->span, base);
        if (is_bad(base))
            return base;
    }
    if (base->type->kind != SCRIPT_T_RECORD)
        return FAIL(c, node->span, "Can not access field '%s' on expression of type '%s'", node->text, type_text(c, base->type));
    struct script_member member;
    if (!find_field(c, base->type, node->text, &member))
        return no_field(c, node, base->type);
    struct script_expr *expr = piece(c, node->span, base, member.type, member.offset);
    if (member.bit_size)
        place_bits(expr, &member, base->type->bytes);
    return expr;
}

static struct script_expr *tuple_item(struct checker *c, const struct node *node, struct script_expr *base, uint64_t index)
{
    if (index >= base->type->count)
        return FAIL(c, node->span, "Invalid tuple index: %llu. Found %llu elements in tuple.", (unsigned long long)index,
                    (unsigned long long)base->type->count);
    if (base->kind == SCRIPT_E_TUPLE)
        return base->list[index];
    return piece(c, node->span, base, base->type->items[index].type, base->type->items[index].offset);
}

struct script_expr *check_item(struct checker *c, const struct node *node)
{
    struct script_expr *base = check_raw(c, node->list[0]);
    if (is_bad(base))
        return base;
    if (base->type->kind != SCRIPT_T_TUPLE)
        return FAIL(c, node->span, "Can not access index '%llu' on expression of type '%s'", (unsigned long long)node->value,
                    type_text(c, base->type));
    return tuple_item(c, node, base, node->value);
}

/* ---- elements ---- */

static bool is_plain(const struct script_type *type)
{
    return is_number(type) || type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE;
}

static struct script_expr *element_of(struct checker *c, const struct node *node, struct script_expr *base, struct script_expr *index,
                                      const struct script_type *type)
{
    struct script_expr *expr = expr_new(c, SCRIPT_E_ELEMENT, node->span, type);
    expr->left = base;
    expr->right = to_int(c, index, false);
    return expr;
}

static struct script_expr *array_element(struct checker *c, const struct node *node, struct script_expr *base, struct script_expr *index)
{
    const struct script_type *element = base->type->to;
    bool is_open = base->type->is_flexible || base->type->count == 0;
    if (index->kind == SCRIPT_E_INT) {
        if (!is_open && index->value >= base->type->count)
            return FAIL(c, node->span, "the index %lld is out of bounds for array of size %llu", (long long)index->value,
                        (unsigned long long)base->type->count);
        return piece(c, node->span, base, element, index->value * element->bytes);
    }
    if (base->kind == SCRIPT_E_LOAD) {
        struct script_expr *address = expr_new(c, SCRIPT_E_ADDRESS, node->span, script_type_pointer(c->types, element));
        address->left = base->left;
        address->offset = base->offset;
        address->value = element->bytes;
        address->right = to_int(c, index, true);
        address->bound = is_open ? 0 : base->type->count;
        return load(c, node->span, address, element);
    }
    if (!is_plain(element) || element->bytes > 8)
        return FAIL(c, node->span, "in a copied array of '%s' the index must be a constant", type_text(c, element));
    return element_of(c, node, base, index, element);
}

/* A character of a string, or a byte of a buffer. */
static struct script_expr *byte_of(struct checker *c, const struct node *node, struct script_expr *base, struct script_expr *index)
{
    uint64_t room = base->type->bytes;
    if (index->kind == SCRIPT_E_INT && index->value >= room)
        return FAIL(c, node->span, "the index %lld is out of bounds for %s of size %llu", (long long)index->value,
                    base->type->kind == SCRIPT_T_STRING ? "a string" : "a buffer", (unsigned long long)room);
    return element_of(c, node, base, index, script_type_int(c->types, 1, base->type->kind == SCRIPT_T_STRING));
}

struct script_expr *check_index(struct checker *c, const struct node *node)
{
    struct script_expr *base = check_raw(c, node->list[0]), *index = check_expr(c, node->list[1]);
    if (is_bad(base) || is_bad(index))
        return expr_bad(c, node->span);
    if (!is_number(index->type))
        return FAIL(c, node->span, "The array index operator [] only accepts positive (unsigned) integer indices, found '%s'",
                    type_text(c, index->type));
    switch (base->type->kind) {
    case SCRIPT_T_TUPLE:
        if (index->kind != SCRIPT_E_INT)
            return FAIL(c, node->list[1]->span, "the index of a tuple must be a constant");
        return tuple_item(c, node, base, index->value);
    case SCRIPT_T_ARRAY:
        return array_element(c, node, base, index);
    case SCRIPT_T_POINTER:
        return check_deref(c, node->span, pointer_add(c, node->span, base, index, false));
    case SCRIPT_T_STRING:
    case SCRIPT_T_BUFFER:
        return byte_of(c, node, base, index);
    default:
        return FAIL(c, node->span, "The array index operator [] can only be used on arrays, pointers, strings and tuples, found '%s'",
                    type_text(c, base->type));
    }
}

struct script_expr *check_offsetof(struct checker *c, const struct node *node)
{
    const struct script_type *type = NULL;
    if (node->spelling) {
        type = resolve_spelling(c, node->spelling);
    } else if (node->n_list) {
        struct script_expr *value = check_raw(c, node->list[0]);
        type = is_bad(value) ? NULL : value->type;
    }
    if (!type || !node->text)
        return expr_bad(c, node->span);
    uint64_t offset = 0;
    for (const char *rest = node->text; *rest;) {
        size_t n = strcspn(rest, ".");
        const char *name = arena_text(c->arena, rest, n);
        struct script_member member;
        if (type->kind != SCRIPT_T_RECORD)
            return FAIL(c, node->span, "offsetof: '%s' is not a struct or union", type_text(c, type));
        if (!script_type_member(type, name, &member))
            return FAIL(c, node->span, "Struct/union of type '%s' does not contain a field named '%s'", type->record->name, name);
        if (member.bit_size)
            return FAIL(c, node->span, "offsetof: '%s' is a bit-field, which has no offset in bytes", name);
        offset += member.offset;
        type = member.type;
        rest += n + (rest[n] == '.');
    }
    return expr_int(c, node->span, int64_type(c, false), offset);
}

/* ---- casts ---- */

struct script_expr *check_cast(struct checker *c, const struct node *node)
{
    const struct script_type *type = resolve_spelling(c, node->spelling);
    struct script_expr *value = check_raw(c, node->list[0]);
    if (!type || is_bad(value))
        return expr_bad(c, node->span);
    const struct script_type *from = value->type;
    if (type->kind == SCRIPT_T_RECORD)
        return FAIL(c, node->spelling->span, "Cannot cast to '%s': cast to a pointer, (%s *)", type_text(c, type), type_text(c, type));
    if (type->kind == SCRIPT_T_ARRAY && type->is_flexible && type->to->bytes && from->bytes % type->to->bytes == 0)
        type = script_type_array(c->types, type->to, from->bytes / type->to->bytes);
    bool is_array =
        type && type->kind == SCRIPT_T_ARRAY && (from->kind == SCRIPT_T_INT || from->kind == SCRIPT_T_ARRAY) && type->bytes == from->bytes;
    bool from_array = type && type->kind == SCRIPT_T_INT && from->kind == SCRIPT_T_ARRAY && type->bytes == from->bytes;
    bool is_text = type && type->kind == SCRIPT_T_STRING && decay(c, value)->type->kind == SCRIPT_T_STRING;
    if (type && type->kind == SCRIPT_T_POINTER && from->kind == SCRIPT_T_ARRAY && value->kind == SCRIPT_E_LOAD) {
        /* An array in memory is its address. */
        struct script_expr *address = expr_new(c, SCRIPT_E_ADDRESS, node->span, type);
        address->left = value->left;
        address->offset = value->offset;
        return address;
    }
    if (!type || (!is_array && !from_array && !is_text && !(is_plain(type) && is_plain(from))))
        return FAIL(c, node->span, "Cannot cast from '%s' to '%s'", type_text(c, from), type ? type_text(c, type) : "an array");
    struct script_expr *result = convert(c, is_text ? decay(c, value) : value, type);
    if (result == value && !script_type_equal(value->type, type)) {
        result = expr_new(c, SCRIPT_E_CONVERT, node->span, type);
        result->left = value;
    }
    if (result == value && value->type != type) {
        struct script_expr *retyped = expr_new(c, value->kind, value->span, type);
        *retyped = *value;
        retyped->type = type;
        result = retyped;
    }
    return result;
}
