/* printf and its like: the format string against the arguments. */
#include "script/check.h"

#include <ctype.h>
#include <string.h>

struct directive {
    size_t begin, end; /* in the text */
    char kind;         /* the conversion: d, s, r, ... */
    bool has_star_width, has_star_precision;
};

/* The next directive from *at on. False: none is left; an error is in *error. */
static bool next_directive(const char *text, size_t length, size_t *at, struct directive *out, const char **error)
{
    *error = NULL;
    while (*at < length && text[*at] != '%')
        (*at)++;
    if (*at >= length)
        return false;
    *out = (struct directive){.begin = (*at)++};
    while (*at < length && strchr("-+ #0'", text[*at]) && text[*at])
        (*at)++;
    if (*at < length && text[*at] == '*') {
        out->has_star_width = true;
        (*at)++;
    }
    while (*at < length && isdigit((unsigned char)text[*at]))
        (*at)++;
    if (*at < length && text[*at] == '.') {
        (*at)++;
        if (*at < length && text[*at] == '*') {
            out->has_star_precision = true;
            (*at)++;
        }
        while (*at < length && isdigit((unsigned char)text[*at]))
            (*at)++;
    }
    while (*at < length && strchr("hljztL", text[*at]) && text[*at])
        (*at)++;
    if (*at >= length) {
        *error = "the format string ends inside a specifier";
        return false;
    }
    out->kind = text[(*at)++];
    if (out->kind == 'r' && *at < length && (text[*at] == 'x' || text[*at] == 'h'))
        (*at)++;
    out->end = *at;
    return true;
}

static bool prints_as_text(const struct script_type *type)
{
    switch (type->kind) {
    case SCRIPT_T_STRING:
    case SCRIPT_T_SYMBOL:
    case SCRIPT_T_NAME:
    case SCRIPT_T_TIMESTAMP:
    case SCRIPT_T_MAC:
    case SCRIPT_T_INET:
    case SCRIPT_T_STACK:
    case SCRIPT_T_BUFFER:
    case SCRIPT_T_BOOL:
        return true;
    case SCRIPT_T_INT:
        return type->enumeration != NULL;
    default:
        return false;
    }
}

/* NULL: fits. Else what the directive expects. */
static const char *expected(const struct directive *directive, const struct script_type *type)
{
    bool is_int = is_number(type) || type->kind == SCRIPT_T_POINTER;
    switch (directive->kind) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'c':
        return is_int ? NULL : "integer";
    case 'p':
        return is_int ? NULL : "pointer";
    case 's':
        return prints_as_text(type) ? NULL : "string";
    case 'r':
        return type->kind == SCRIPT_T_BUFFER ? NULL : "buffer";
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'e':
    case 'E':
    case 'a':
        return type->kind == SCRIPT_T_DOUBLE || is_number(type) ? NULL : "float";
    default:
        return "";
    }
}

static const char *kind_text(struct checker *c, const struct script_type *type)
{
    return is_number(type)                  ? "int"
           : type->kind == SCRIPT_T_STRING  ? "string"
           : type->kind == SCRIPT_T_POINTER ? "pointer"
                                            : type_text(c, type);
}

/* Where in the source the directive stands, if the format is written there without escapes before it. */
static struct script_span place_of(const struct node *format, const struct script_program *program, const struct directive *directive)
{
    const char *source = program->sources.at[format->span.file].text + format->span.begin;
    size_t n = format->span.end - format->span.begin, at = 1, index = 0;
    if (format->kind != N_STRING || source[0] != '"')
        return format->span;
    while (at + 1 < n && index < directive->begin) {
        if (source[at] == '\\') {
            at++;
            if (source[at] == 'x' || isdigit((unsigned char)source[at]))
                return format->span;
        }
        at++;
        index++;
    }
    return (struct script_span){format->span.file, format->span.begin + (uint32_t)at,
                                format->span.begin + (uint32_t)(at + directive->end - directive->begin)};
}

static bool fits(struct checker *c, enum script_call call, const struct node *node, struct script_expr **list, size_t n, const char *text,
                 size_t length)
{
    const char *name = script_call_name(call), *error;
    size_t at = 0, used = 0;
    struct directive directive;
    bool ok = true;
    while (next_directive(text, length, &at, &directive, &error)) {
        if (directive.kind == '%')
            continue;
        struct script_span span = place_of(node->list[0], c->program, &directive);
        for (int star = 0; star < directive.has_star_width + directive.has_star_precision; star++, used++)
            if (used < n && !is_bad(list[used]) && !is_number(list[used]->type)) {
                ERROR(c->program, list[used]->span, "%s: * in a specifier expects an integer (%s supplied)", name,
                      kind_text(c, list[used]->type));
                ok = false;
            }
        struct script_type nothing = {.kind = SCRIPT_T_INT};
        const char *wanted = expected(&directive, used < n ? list[used]->type : &nothing);
        if (wanted && !*wanted) {
            ERROR(c->program, span, "%s: unknown specifier '%.*s'", name, (int)(directive.end - directive.begin), text + directive.begin);
            return false;
        }
        if (used < n && wanted && !is_bad(list[used])) {
            ERROR(c->program, list[used]->span, "%s: %.*s specifier expects a value of type %s (%s supplied)", name,
                  (int)(directive.end - directive.begin), text + directive.begin, wanted, kind_text(c, list[used]->type));
            ok = false;
        }
        if (used < n && !wanted && strchr("fFgGeEa", directive.kind) && is_number(list[used]->type))
            list[used] = convert(c, list[used], script_types_find(c->types, "double"));
        used++;
    }
    if (error) {
        ERROR(c->program, node->list[0]->span, "%s: %s", name, error);
        return false;
    }
    if (used != n) {
        ERROR(c->program, node->span, "%s: %s arguments for format string (%zu supplied, %zu expected)", name,
              n < used ? "Not enough" : "Too many", n, used);
        return false;
    }
    return ok;
}

struct script_expr *check_format(struct checker *c, enum script_call call, const struct node *node)
{
    const char *text;
    size_t length;
    if (!constant_text(c, node->list[0], &text, &length))
        return FAIL(c, node->list[0]->span, "%s() expects a string literal as its format", script_call_name(call));
    struct script_expr *expr = call_new(c, call, node->span, script_types_find(c->types, "void"), node->n_list - 1);
    bool bad = false;
    for (size_t i = 1; i < node->n_list; i++) {
        struct script_expr *value = check_expr(c, node->list[i]);
        bad |= is_bad(value);
        expr->list[i - 1] = value;
    }
    if (!fits(c, call, node, expr->list, expr->n_list, text, length) || bad)
        return expr_bad(c, node->span);
    expr->action = action_add(c, (struct script_action){.call = call,
                                                        .span = node->span,
                                                        .text = text,
                                                        .length = length,
                                                        .list = (const struct script_expr *const *)expr->list,
                                                        .n_list = expr->n_list});
    return expr;
}
