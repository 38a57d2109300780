/* Calls that give a value: strings, buffers, addresses, time. */
#include "script/check.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_address(const struct script_type *type)
{
    return type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_INT;
}

/* An array in memory as its address. */
static struct script_expr *address_of(struct checker *c, struct script_expr *value)
{
    struct script_expr *address = expr_new(c, SCRIPT_E_ADDRESS, value->span, script_type_pointer(c->types, value->type->to));
    address->left = value->left;
    address->offset = value->offset;
    return address;
}

/* ---- str, buf ---- */

static struct script_expr *check_str(struct checker *c, const struct node *node)
{
    const struct node *first = node->list[0];
    uint64_t bytes = c->program->max_strlen;
    struct script_expr *value = check_expr(c, first), *limit = NULL;
    if (node->n_list > 1) {
        limit = check_expr(c, node->list[1]);
        if (is_bad(limit))
            return limit;
        if (!is_number(limit->type))
            return FAIL(c, limit->span, "str() expects an integer as its length (%s provided)", type_text(c, limit->type));
        if (limit->kind == SCRIPT_E_INT && (int64_t)limit->value < 0)
            return FAIL(c, limit->span, "str() expects a length that is not negative");
        limit = to_int(c, limit, false);
        /* As bpftrace: the length counts the NUL. */
        if (limit->kind == SCRIPT_E_INT && limit->value < bytes)
            bytes = limit->value ? limit->value : 1;
    }
    if (is_bad(value))
        return value;
    bool is_param = first->kind == N_PARAM;
    if (is_param && value->kind == SCRIPT_E_INT) {
        const char *text = first->value >= 1 && first->value <= c->program->n_positional ? c->program->positional[first->value - 1] : "";
        value = expr_new(c, SCRIPT_E_STRING, node->span, script_type_string(c->types, strlen(text) + 1));
        value->text = text;
        value->length = strlen(text);
    }
    if (value->type->kind == SCRIPT_T_STRING) /* of a parameter, or an array of char: already one */
        return value;
    if (value->type->kind == SCRIPT_T_ARRAY && value->type->to->kind == SCRIPT_T_INT && value->type->to->bytes == 1 &&
        value->kind == SCRIPT_E_LOAD) {
        if (!value->type->is_flexible && value->type->count < bytes)
            bytes = value->type->count;
        value = address_of(c, value);
    }
    if (!is_address(value->type))
        return FAIL(c, node->span, "str() expects an integer or a pointer type as first argument (%s provided)", type_text(c, value->type));
    struct script_expr *expr = call_new(c, SCRIPT_C_STR, node->span, script_type_string(c->types, bytes), limit ? 2 : 1);
    expr->list[0] = to_int(c, value, false);
    if (limit)
        expr->list[1] = limit;
    return expr;
}

static struct script_expr *check_buf(struct checker *c, const struct node *node)
{
    struct script_expr *value = check_raw(c, node->list[0]), *limit = node->n_list > 1 ? check_expr(c, node->list[1]) : NULL;
    uint64_t bytes = c->program->max_strlen;
    if (is_bad(value) || (limit && is_bad(limit)))
        return expr_bad(c, node->span);
    if (value->type->kind == SCRIPT_T_ARRAY && value->kind == SCRIPT_E_LOAD) {
        if (!limit && !value->type->is_flexible)
            limit = expr_int(c, node->span, int64_type(c, false), value->type->bytes);
        value = address_of(c, value);
    }
    if (!is_address(value->type))
        return FAIL(c, node->span, "buf() expects an integer, an array or a pointer as first argument (%s provided)",
                    type_text(c, value->type));
    if (!limit)
        return FAIL(c, node->span, "buf() expects a length argument for non-array type %s", type_text(c, value->type));
    if (!is_number(limit->type))
        return FAIL(c, limit->span, "buf() expects an integer as its length (%s provided)", type_text(c, limit->type));
    limit = to_int(c, limit, false);
    if (limit->kind == SCRIPT_E_INT && limit->value < bytes)
        bytes = limit->value;
    struct script_expr *expr = call_new(c, SCRIPT_C_BUF, node->span, script_type_buffer(c->types, bytes), 2);
    expr->list[0] = to_int(c, value, false);
    expr->list[1] = limit;
    return expr;
}

/* ---- strings ---- */

/* A string, or a pointer to one, which is read. */
static struct script_expr *text_argument(struct checker *c, enum script_call call, const struct node *node, size_t index)
{
    struct script_expr *value = check_expr(c, node->list[index]);
    if (is_bad(value) || value->type->kind == SCRIPT_T_STRING)
        return value;
    if (value->type->kind == SCRIPT_T_POINTER && value->type->to->kind == SCRIPT_T_INT && value->type->to->bytes == 1) {
        struct script_expr *text = call_new(c, SCRIPT_C_STR, value->span, script_type_string(c->types, c->program->max_strlen), 1);
        text->list[0] = to_int(c, value, false);
        return text;
    }
    return FAIL(c, node->list[index]->span, "%s() expects a string argument (%s provided)", script_call_name(call),
                type_text(c, value->type));
}

static struct script_expr *check_strings(struct checker *c, enum script_call call, const struct node *node, size_t n_texts,
                                         const struct script_type *type)
{
    struct script_expr *expr = call_new(c, call, node->span, type, node->n_list);
    bool bad = false;
    for (size_t i = 0; i < node->n_list; i++) {
        if (i < n_texts) {
            expr->list[i] = text_argument(c, call, node, i);
        } else {
            struct script_expr *value = check_expr(c, node->list[i]);
            if (!is_bad(value) && !is_number(value->type))
                return FAIL(c, value->span, "%s() expects an integer as its last argument (%s provided)", script_call_name(call),
                            type_text(c, value->type));
            if (value->kind == SCRIPT_E_INT && !is_bad(value) && (int64_t)value->value < 0)
                return FAIL(c, value->span, "%s() expects a length that is not negative", script_call_name(call));
            expr->list[i] = to_int(c, value, false);
            if (!is_bad(value) && expr->list[i]->kind != SCRIPT_E_INT)
                return FAIL(c, value->span, "%s() expects a constant as its length", script_call_name(call));
        }
        bad |= is_bad(expr->list[i]);
    }
    return bad ? expr_bad(c, node->span) : expr;
}

/* Bytes that memcmp() can look at: what a pointer leads to is read. */
static struct script_expr *bytes_argument(struct checker *c, const struct node *node, uint64_t count)
{
    struct script_expr *value = check_raw(c, node), *expr;
    if (is_bad(value))
        return value;
    if (value->type->kind == SCRIPT_T_POINTER) {
        expr = call_new(c, SCRIPT_C_BUF, node->span, script_type_buffer(c->types, count), 2);
        expr->list[0] = to_int(c, value, false);
        expr->list[1] = expr_int(c, node->span, int64_type(c, false), count);
        return expr;
    }
    switch (value->type->kind) {
    case SCRIPT_T_STRING:
    case SCRIPT_T_BUFFER:
    case SCRIPT_T_ARRAY:
    case SCRIPT_T_RECORD:
        break;
    default:
        return FAIL(c, node->span, "memcmp() expects a string, a buffer, an array, a struct or a pointer (%s provided)",
                    type_text(c, value->type));
    }
    if (value->type->bytes < count)
        return FAIL(c, node->span, "memcmp() is to compare %llu bytes, but %s has %llu", (unsigned long long)count,
                    type_text(c, value->type), (unsigned long long)value->type->bytes);
    return value;
}

static struct script_expr *check_memcmp(struct checker *c, const struct node *node)
{
    struct script_expr *count = check_expr(c, node->list[2]);
    if (is_bad(count))
        return count;
    if (count->kind != SCRIPT_E_INT || (int64_t)count->value < 1 || count->value > c->program->max_strlen)
        return FAIL(c, count->span, "memcmp() expects a constant from 1 to %llu (max_strlen) as its length",
                    (unsigned long long)c->program->max_strlen);
    struct script_expr *expr = call_new(c, SCRIPT_C_MEMCMP, node->span, int64_type(c, true), 3);
    expr->list[0] = bytes_argument(c, node->list[0], count->value);
    expr->list[1] = bytes_argument(c, node->list[1], count->value);
    expr->list[2] = to_int(c, count, false);
    return is_bad(expr->list[0]) || is_bad(expr->list[1]) ? expr_bad(c, node->span) : expr;
}

static struct script_expr *check_strftime(struct checker *c, const struct node *node)
{
    struct script_action action = {.call = SCRIPT_C_STRFTIME, .span = node->span};
    if (!constant_text(c, node->list[0], &action.text, &action.length))
        return FAIL(c, node->list[0]->span, "strftime() expects a string literal as its format");
    struct script_expr *value = check_expr(c, node->list[1]);
    if (is_bad(value))
        return value;
    if (!is_number(value->type))
        return FAIL(c, value->span, "strftime() expects a time in nanoseconds (%s provided)", type_text(c, value->type));
    struct script_expr *expr = call_new(c, SCRIPT_C_STRFTIME, node->span, script_type_plain(c->types, SCRIPT_T_TIMESTAMP), 1);
    expr->list[0] = to_int(c, value, false);
    expr->action = action_add(c, action);
    return expr;
}

/* ---- addresses ---- */

static struct script_expr *check_ntop(struct checker *c, const struct node *node)
{
    size_t at = node->n_list - 1;
    struct script_expr *address = check_raw(c, node->list[at]), *family = at ? check_expr(c, node->list[0]) : NULL;
    if (is_bad(address) || (family && is_bad(family)))
        return expr_bad(c, node->span);
    const struct script_type *type = address->type;
    bool is_bytes =
        type->kind == SCRIPT_T_ARRAY && type->to->kind == SCRIPT_T_INT && type->to->bytes == 1 && (type->count == 4 || type->count == 16);
    if (!is_bytes && type->kind != SCRIPT_T_INT && !(type->kind == SCRIPT_T_RECORD && (type->bytes == 4 || type->bytes == 16)))
        return FAIL(c, node->list[at]->span, "ntop() expects an integer or an array of 4 or 16 bytes (%s provided)", type_text(c, type));
    if (family && !is_number(family->type))
        return FAIL(c, family->span, "ntop() expects an address family, such as AF_INET (%s provided)", type_text(c, family->type));
    if (!family)
        family = expr_int(c, node->span, int64_type(c, false), type->kind != SCRIPT_T_INT && type->bytes == 16 ? AF_INET6 : AF_INET);
    struct script_expr *expr = call_new(c, SCRIPT_C_NTOP, node->span, script_type_plain(c->types, SCRIPT_T_INET), 2);
    expr->list[0] = to_int(c, family, false);
    expr->list[1] = type->kind == SCRIPT_T_INT ? to_int(c, address, false) : address;
    return expr;
}

static struct script_expr *check_pton(struct checker *c, const struct node *node)
{
    const char *text;
    size_t length;
    unsigned char bytes[16];
    if (!constant_text(c, node->list[0], &text, &length))
        return FAIL(c, node->span, "pton() expects a string literal");
    bool is_6 = strchr(text, ':') != NULL;
    if (inet_pton(is_6 ? AF_INET6 : AF_INET, text, bytes) != 1)
        return FAIL(c, node->span, "pton() expects a string literal of a valid IPv4/IPv6 address, got '%s'", text);
    const struct script_type *type = script_type_array(c->types, script_types_find(c->types, "uint8"), is_6 ? 16 : 4);
    struct script_expr *expr = call_new(c, SCRIPT_C_PTON, node->span, type, 0);
    expr->text = arena_text(c->arena, (char *)bytes, is_6 ? 16 : 4);
    expr->length = is_6 ? 16 : 4;
    return expr;
}

static struct script_expr *check_uaddr(struct checker *c, const struct node *node)
{
    const char *text;
    size_t length;
    if (!constant_text(c, node->list[0], &text, &length))
        return FAIL(c, node->span, "uaddr() expects a string literal");
    if (!clause_has(c, POINTS_OF_PROCESS))
        return FAIL(c, node->span, "The uaddr function can only be used with uprobe, uretprobe and usdt probes");
    struct script_expr *expr = call_new(c, SCRIPT_C_UADDR, node->span, script_type_pointer(c->types, int64_type(c, false)), 0);
    expr->text = text;
    expr->length = length;
    return expr;
}

static struct script_expr *check_clock(struct checker *c, const struct node *node)
{
    static const char *const clocks[] = {"monotonic", "boot", "tai", "sw_tai"};
    const struct node *name = node->list[0];
    struct near near = {.wanted = name->kind == N_NAME ? name->text : ""};
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        near_try(&near, clocks[i]);
        if (strcmp(clocks[i], near.wanted) == 0) {
            struct script_expr *expr = call_new(c, SCRIPT_C_NSECS, node->span, int64_type(c, false), 0);
            expr->text = clocks[i];
            expr->length = strlen(clocks[i]);
            return expr;
        }
    }
    report(c->program, true, name->span, near_hint(&near, c->arena), "nsecs: expected monotonic, boot, tai or sw_tai");
    return expr_bad(c, node->span);
}

static struct script_expr *check_namespace(struct checker *c, enum script_call call, const struct node *node)
{
    const struct node *name = node->list[0];
    if (name->kind != N_NAME || (strcmp(name->text, "curr_ns") != 0 && strcmp(name->text, "init") != 0))
        return FAIL(c, name->span, "%s(): expected curr_ns or init", script_call_name(call));
    struct script_expr *expr = call_new(c, call, node->span, script_types_find(c->types, "uint32"), 0);
    expr->text = name->text;
    expr->length = strlen(name->text);
    return expr;
}

static struct script_expr *check_len(struct checker *c, const struct node *node)
{
    const struct node *target = node->list[0];
    if (target->kind != N_MAP || target->n_list)
        return check_stack_length(c, node);
    struct map_entry *map = map_of(c, target);
    if (!map)
        return expr_bad(c, node->span);
    map->is_used = true;
    if (map->has_keys_known && !map->map.key)
        return FAIL(c, target->span, "call to len() expects a map with explicit keys (non-scalar map)");
    struct script_expr *expr = call_new(c, SCRIPT_C_LEN, node->span, int64_type(c, true), 0);
    expr->map = map_index(c, map);
    return expr;
}

/* One argument, an integer or a pointer, passed as uint64. */
static struct script_expr *check_number_call(struct checker *c, enum script_call call, const struct node *node,
                                             const struct script_type *type)
{
    struct script_expr *value = check_expr(c, node->list[0]);
    if (is_bad(value))
        return value;
    if (!is_address(value->type) && value->type->kind != SCRIPT_T_BOOL)
        return FAIL(c, node->span, "%s() expects an integer argument (%s provided)", script_call_name(call), type_text(c, value->type));
    if (call == SCRIPT_C_BSWAP)
        type = script_type_int(c->types, value->type->kind == SCRIPT_T_INT ? (unsigned)value->type->bytes : 8, false);
    struct script_expr *expr = call_new(c, call, node->span, type, 1);
    expr->list[0] = call == SCRIPT_C_BSWAP ? convert(c, value, type) : to_int(c, value, call == SCRIPT_C_STRERROR);
    return expr;
}

static struct script_expr *check_macaddr(struct checker *c, const struct node *node)
{
    struct script_expr *value = check_raw(c, node->list[0]);
    if (is_bad(value))
        return value;
    bool is_six = value->type->kind == SCRIPT_T_ARRAY && value->type->bytes == 6;
    if (!is_six && !is_address(value->type))
        return FAIL(c, node->span, "macaddr() only supports array or pointer arguments (%s provided)", type_text(c, value->type));
    struct script_expr *expr = call_new(c, SCRIPT_C_MACADDR, node->span, script_type_plain(c->types, SCRIPT_T_MAC), 1);
    expr->list[0] = is_six ? value : to_int(c, value, false);
    return expr;
}

struct script_expr *check_text_call(struct checker *c, enum script_call call, const struct node *node)
{
    switch (call) {
    case SCRIPT_C_STR:
        return check_str(c, node);
    case SCRIPT_C_BUF:
        return check_buf(c, node);
    case SCRIPT_C_STRLEN:
        return check_strings(c, call, node, 1, int64_type(c, false));
    case SCRIPT_C_MEMCMP:
        return check_memcmp(c, node);
    case SCRIPT_C_STRNCMP:
        return check_strings(c, call, node, 2, int64_type(c, true));
    case SCRIPT_C_STRSTR:
        return check_strings(c, call, node, 2, int64_type(c, true));
    case SCRIPT_C_STRCONTAINS:
    case SCRIPT_C_GLOBMATCH:
        return check_strings(c, call, node, 2, bool_type(c));
    case SCRIPT_C_STRFTIME:
        return check_strftime(c, node);
    case SCRIPT_C_STRERROR:
        return check_number_call(c, call, node, script_type_plain(c->types, SCRIPT_T_NAME));
    case SCRIPT_C_COMM:
        return check_number_call(c, call, node, script_type_plain(c->types, SCRIPT_T_NAME));
    case SCRIPT_C_USYM:
        return check_number_call(c, call, node, script_type_plain(c->types, SCRIPT_T_SYMBOL));
    case SCRIPT_C_BSWAP:
        return check_number_call(c, call, node, NULL);
    case SCRIPT_C_UADDR:
        return check_uaddr(c, node);
    case SCRIPT_C_NTOP:
        return check_ntop(c, node);
    case SCRIPT_C_PTON:
        return check_pton(c, node);
    case SCRIPT_C_MACADDR:
        return check_macaddr(c, node);
    case SCRIPT_C_NSECS:
        return check_clock(c, node);
    case SCRIPT_C_PIDNS:
    case SCRIPT_C_TIDNS:
        return check_namespace(c, call, node);
    case SCRIPT_C_LEN:
        return check_len(c, node);
    default:
        return FAIL(c, node->span, "%s() is not supported", script_call_name(call));
    }
}
