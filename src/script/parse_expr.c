/* Expressions: tokens to tree, by precedence climbing. */
#include "script/internal.h"

#include <string.h>

struct node *node_new(struct parser *parser, enum node_kind kind, struct script_span span)
{
    struct node *node = arena_alloc(&parser->program->arena, sizeof *node);
    node->kind = kind;
    node->span = span;
    return node;
}

void node_add(struct parser *parser, struct node *node, struct node *child)
{
    /* Room is a power of two: grown when the number is one. */
    if ((node->n_list & (node->n_list - 1)) == 0) {
        struct node **more = arena_alloc(&parser->program->arena, (node->n_list ? node->n_list * 2 : 1) * sizeof *more);
        if (node->n_list)
            memcpy(more, node->list, node->n_list * sizeof *more);
        node->list = more;
    }
    node->list[node->n_list++] = child;
    node->span = span_join(node->span, child->span);
}

static struct node *bad_node(struct parser *parser)
{
    return node_new(parser, N_BAD, parser_peek(parser, 0)->span);
}

/* ---- types ---- */

static bool is_c_word(const char *text)
{
    static const char *const words[] = {"unsigned", "signed", "long", "short", "int",  "char",
                                        "float",    "double", "void", "_Bool", "bool", "__int128"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

static bool is_qualifier(const char *text)
{
    return strcmp(text, "const") == 0 || strcmp(text, "volatile") == 0;
}

static bool is_tag_word(const char *text)
{
    return strcmp(text, "struct") == 0 || strcmp(text, "union") == 0 || strcmp(text, "enum") == 0;
}

/* Types that can be named without being declared. */
static bool is_script_type(const char *text)
{
    static const char *const words[] = {"string", "buffer", "inet", "usym", "usym_t", "timestamp", "mac_address"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

/* Whether a type begins at the token: certain for keywords and declared names. */
bool parse_is_type(const struct parser *parser, size_t ahead)
{
    const struct token *token = parser_peek(parser, ahead);
    if (token->kind != TOKEN_NAME)
        return false;
    return is_c_word(token->text) || is_qualifier(token->text) || is_tag_word(token->text) || is_script_type(token->text) ||
           table_get(&parser->program->typedefs, token->text) || script_types_find(parser->program->types[SCRIPT_LP64], token->text);
}

/* `unsigned long int` and its permutations to the name in the table of basic types. */
static const char *canonical(struct parser *parser, unsigned n_long, bool is_unsigned, bool is_signed, bool is_short, const char *base)
{
    struct arena *arena = &parser->program->arena;
    const char *sign = is_unsigned ? "unsigned " : "";
    if (base && strcmp(base, "char") == 0)
        return is_unsigned ? "unsigned char" : is_signed ? "signed char" : "char";
    if (base && strcmp(base, "double") == 0)
        return n_long ? "long double" : "double";
    if (base && strcmp(base, "int") != 0)
        return arena_format(arena, "%s%s", strcmp(base, "__int128") == 0 ? sign : "", base);
    if (is_short)
        return arena_format(arena, "%sshort", sign);
    return arena_format(arena, "%s%s", sign, n_long >= 2 ? "long long" : n_long ? "long" : "int");
}

bool parse_spelling(struct parser *parser, struct spelling *out)
{
    *out = (struct spelling){.span = parser_peek(parser, 0)->span};
    unsigned n_long = 0;
    bool is_unsigned = false, is_signed = false, is_short = false, any = false;
    const char *base = NULL;
    struct script_span last = out->span;
    for (;;) {
        const struct token *token = parser_peek(parser, 0);
        if (token->kind != TOKEN_NAME)
            break;
        if (is_qualifier(token->text)) {
            parser_next(parser);
            continue;
        }
        if (!any && is_tag_word(token->text)) {
            parser_next(parser);
            const struct token *tag = parser_peek(parser, 0);
            if (tag->kind != TOKEN_NAME) {
                parser_unexpected(parser, "a name");
                return false;
            }
            parser_next(parser);
            out->name = arena_format(&parser->program->arena, "%s %s", token->text, tag->text);
            last = tag->span;
            break;
        }
        if (!is_c_word(token->text)) {
            if (!any) {
                out->name = token->text;
                last = token->span;
                parser_next(parser);
            }
            break;
        }
        any = true;
        last = token->span;
        if (strcmp(token->text, "long") == 0)
            n_long++;
        else if (strcmp(token->text, "unsigned") == 0)
            is_unsigned = true;
        else if (strcmp(token->text, "signed") == 0)
            is_signed = true;
        else if (strcmp(token->text, "short") == 0)
            is_short = true;
        else
            base = token->text;
        parser_next(parser);
    }
    if (any)
        out->name = canonical(parser, n_long, is_unsigned, is_signed, is_short, base);
    if (!out->name) {
        parser_unexpected(parser, "a type");
        return false;
    }
    out->span = span_join(out->span, last);
    while (parser_is_name(parser, "const") || parser_is_name(parser, "volatile"))
        parser_next(parser);
    while (parser_is(parser, '*')) {
        out->span = span_join(out->span, parser_next(parser)->span);
        if (++out->pointers > LIMIT_NESTING) {
            ERROR(parser->program, out->span, "too many levels of pointers");
            return false;
        }
        while (parser_is_name(parser, "const") || parser_is_name(parser, "volatile"))
            parser_next(parser);
    }
    while (parser_is(parser, '[')) {
        parser_next(parser);
        uint64_t count = SCRIPT_FLEXIBLE;
        if (parser_peek(parser, 0)->kind == TOKEN_INT)
            count = parser_next(parser)->value;
        if (out->n_dimensions == sizeof out->dimensions / sizeof *out->dimensions) {
            parser_unexpected(parser, "fewer dimensions");
            return false;
        }
        out->dimensions[out->n_dimensions++] = count;
        out->span = span_join(out->span, parser_peek(parser, 0)->span);
        if (!parser_expect(parser, ']'))
            return false;
    }
    return true;
}

static const struct spelling *keep_spelling(struct parser *parser, const struct spelling *spelling)
{
    struct spelling *kept = arena_alloc(&parser->program->arena, sizeof *kept);
    *kept = *spelling;
    return kept;
}

/* ---- primary ---- */

static struct node *parse_arguments(struct parser *parser, struct node *call, uint32_t close)
{
    if (!parser_is(parser, close)) {
        do {
            if (parser_is(parser, close))
                break;
            node_add(parser, call, parse_expression(parser));
        } while (!parser->failed && parser_accept(parser, ','));
    }
    call->span = span_join(call->span, parser_peek(parser, 0)->span);
    parser_expect(parser, close);
    return call;
}

static struct node *parse_map(struct parser *parser)
{
    const struct token *token = parser_next(parser);
    struct node *node = node_new(parser, N_MAP, token->span);
    node->text = token->text;
    if (parser_accept(parser, '[')) {
        node->value = 1;
        parse_arguments(parser, node, ']');
        if (!parser->failed && node->n_list == 0)
            ERROR(parser->program, node->span, "a map's key is empty: expected %s[key], or %s alone", node->text, node->text);
    }
    return node;
}

/* sizeof(x), offsetof(x, a.b): x is a type or an expression. */
static struct node *parse_measure(struct parser *parser, bool is_offset)
{
    struct node *node = node_new(parser, is_offset ? N_OFFSETOF : N_SIZEOF, parser_next(parser)->span);
    if (!parser_expect(parser, '('))
        return node;
    const struct token *after = parser_peek(parser, 1);
    bool is_type = parse_is_type(parser, 0) || (parser_peek(parser, 0)->kind == TOKEN_NAME && after->kind == TOKEN_PUNCT &&
                                                (after->op == ',' || after->op == '*') && is_offset);
    if (is_type) {
        struct spelling spelling;
        if (!parse_spelling(parser, &spelling))
            return node;
        node->spelling = keep_spelling(parser, &spelling);
    } else {
        node_add(parser, node, parse_expression(parser));
    }
    if (is_offset && parser_expect(parser, ',')) {
        const char *path = "";
        do {
            const struct token *name = parser_peek(parser, 0);
            if (name->kind != TOKEN_NAME) {
                parser_unexpected(parser, "a field's name");
                return node;
            }
            path = arena_format(&parser->program->arena, "%s%s%s", path, *path ? "." : "", parser_next(parser)->text);
        } while (parser_accept(parser, '.') && strlen(path) < 4096);
        node->text = path;
    }
    node->span = span_join(node->span, parser_peek(parser, 0)->span);
    parser_expect(parser, ')');
    return node;
}

static struct node *parse_name(struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0);
    if (strcmp(token->text, "sizeof") == 0 || strcmp(token->text, "offsetof") == 0)
        return parse_measure(parser, token->text[0] == 'o');
    parser_next(parser);
    struct node *node = node_new(parser, N_NAME, token->span);
    node->text = token->text;
    if (strcmp(token->text, "true") == 0 || strcmp(token->text, "false") == 0) {
        node->kind = N_BOOL;
        node->value = token->text[0] == 't';
        return node;
    }
    if (strcmp(token->text, "comptime") == 0 && !parser_is(parser, '(')) {
        node->kind = N_COMPTIME;
        node_add(parser, node, parse_expression(parser));
        return node;
    }
    if (strcmp(token->text, "self") == 0 && (parser_is(parser, OP2('-', '>')) || parser_is(parser, '.'))) {
        parser_next(parser);
        const struct token *field = parser_peek(parser, 0);
        if (field->kind != TOKEN_NAME) {
            parser_unexpected(parser, "a name after self->");
            return node;
        }
        node->kind = N_SELF;
        node->text = field->text;
        node->span = span_join(node->span, parser_next(parser)->span);
        return node;
    }
    if (parser_accept(parser, '(')) {
        node->kind = N_CALL;
        bool was = parser->in_predicate;
        parser->in_predicate = false;
        parse_arguments(parser, node, ')');
        parser->in_predicate = was;
    }
    return node;
}

/* Whether what follows `(NAME)` shows that it was a cast: something that can not follow a value. */
static bool follows_cast(const struct parser *parser, size_t ahead, bool is_certain)
{
    const struct token *token = parser_peek(parser, ahead);
    switch (token->kind) {
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_STRING:
    case TOKEN_NAME:
    case TOKEN_VARIABLE:
    case TOKEN_MAP:
    case TOKEN_PARAM:
    case TOKEN_COUNT:
        return true;
    case TOKEN_PUNCT:
        return token->op == '(' || token->op == '~' || token->op == '!' ||
               (is_certain && (token->op == '-' || token->op == '*' || token->op == '&' || token->op == '+' || token->op == OP2('-', '-') ||
                               token->op == OP2('+', '+')));
    default:
        return false;
    }
}

static bool is_cast(const struct parser *parser)
{
    if (parser_peek(parser, 1)->kind != TOKEN_NAME)
        return false;
    if (parse_is_type(parser, 1)) {
        /* A type's name that is also a builtin, or `(uint8)`: only the end tells. */
        size_t i = 1;
        while (parser_peek(parser, i)->kind == TOKEN_NAME)
            i++;
        const struct token *token = parser_peek(parser, i);
        return token->kind == TOKEN_PUNCT && (token->op == ')' ? follows_cast(parser, i + 1, true) : token->op == '*' || token->op == '[');
    }
    size_t i = 2;
    while (parser_peek(parser, i)->kind == TOKEN_PUNCT && parser_peek(parser, i)->op == '*')
        i++;
    const struct token *token = parser_peek(parser, i);
    bool closes = token->kind == TOKEN_PUNCT && token->op == ')';
    return closes && (i > 2 || follows_cast(parser, i + 1, false));
}

static struct node *parse_unary(struct parser *parser);

static struct node *parse_parenthesis(struct parser *parser)
{
    struct script_span open = parser_peek(parser, 0)->span;
    if (is_cast(parser)) {
        parser_next(parser);
        struct spelling spelling;
        struct node *node = node_new(parser, N_CAST, open);
        if (!parse_spelling(parser, &spelling) || !parser_expect(parser, ')'))
            return node;
        node->spelling = keep_spelling(parser, &spelling);
        node_add(parser, node, parse_unary(parser));
        return node;
    }
    parser_next(parser);
    bool was = parser->in_predicate;
    parser->in_predicate = false;
    struct node *node = node_new(parser, N_TUPLE, open);
    bool is_tuple = parser_is(parser, ')');
    while (!parser->failed && !parser_is(parser, ')')) {
        node_add(parser, node, parse_expression(parser));
        if (!parser_accept(parser, ','))
            break;
        is_tuple = true;
    }
    parser->in_predicate = was;
    struct script_span close = parser_peek(parser, 0)->span;
    parser_expect(parser, ')');
    if (!is_tuple && node->n_list == 1)
        return node->list[0];
    node->span = span_join(node->span, close);
    return node;
}

static struct node *parse_primary(struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0);
    struct node *node;
    switch (token->kind) {
    case TOKEN_INT:
    case TOKEN_FLOAT:
    case TOKEN_STRING:
        parser_next(parser);
        node = node_new(parser, token->kind == TOKEN_INT ? N_INT : token->kind == TOKEN_FLOAT ? N_FLOAT : N_STRING, token->span);
        node->value = token->value;
        node->number = token->number;
        node->text = token->text;
        node->length = token->length;
        return node;
    case TOKEN_VARIABLE:
    case TOKEN_PARAM:
    case TOKEN_COUNT:
        parser_next(parser);
        node = node_new(parser,
                        token->kind == TOKEN_VARIABLE ? N_VARIABLE
                        : token->kind == TOKEN_PARAM  ? N_PARAM
                                                      : N_PARAM_COUNT,
                        token->span);
        node->text = token->text;
        node->value = token->value;
        return node;
    case TOKEN_MAP:
        return parse_map(parser);
    case TOKEN_NAME:
        return parse_name(parser);
    case TOKEN_PUNCT:
        if (token->op == '(')
            return parse_parenthesis(parser);
        if (token->op == '{')
            return parse_block(parser);
        break;
    default:
        break;
    }
    parser_unexpected(parser, "an expression");
    return bad_node(parser);
}

static struct node *parse_postfix(struct parser *parser)
{
    struct node *node = parse_primary(parser);
    while (!parser->failed) {
        const struct token *token = parser_peek(parser, 0);
        if (token->kind != TOKEN_PUNCT)
            break;
        if (token->op == '[') {
            parser_next(parser);
            struct node *outer = node_new(parser, N_INDEX, node->span);
            node_add(parser, outer, node);
            bool was = parser->in_predicate;
            parser->in_predicate = false;
            node_add(parser, outer, parse_expression(parser));
            parser->in_predicate = was;
            outer->span = span_join(outer->span, parser_peek(parser, 0)->span);
            parser_expect(parser, ']');
            node = outer;
        } else if (token->op == '.' || token->op == OP2('-', '>')) {
            parser_next(parser);
            const struct token *field = parser_peek(parser, 0);
            struct node *outer = node_new(parser, field->kind == TOKEN_INT ? N_ITEM : N_FIELD, node->span);
            if (field->kind != TOKEN_INT && field->kind != TOKEN_NAME) {
                parser_unexpected(parser, "a field's name");
                return outer;
            }
            outer->text = field->text;
            outer->value = field->value;
            node_add(parser, outer, node);
            outer->span = span_join(outer->span, parser_next(parser)->span);
            node = outer;
        } else if (token->op == OP2('+', '+') || token->op == OP2('-', '-')) {
            parser_next(parser);
            struct node *outer = node_new(parser, N_STEP, node->span);
            outer->op = token->op;
            outer->value = 1;
            node_add(parser, outer, node);
            outer->span = span_join(outer->span, token->span);
            node = outer;
        } else {
            break;
        }
    }
    return node;
}

static struct node *parse_unary(struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0);
    if (!parser_enter(parser))
        return bad_node(parser);
    struct node *node;
    bool is_step = token->kind == TOKEN_PUNCT && (token->op == OP2('+', '+') || token->op == OP2('-', '-'));
    if (is_step || (token->kind == TOKEN_PUNCT && token->op && token->op < 256 && strchr("-~!*&+", (int)token->op))) {
        parser_next(parser);
        node = node_new(parser, is_step ? N_STEP : N_UNARY, token->span);
        node->op = token->op;
        node_add(parser, node, parse_unary(parser));
        if (token->op == '+' && node->n_list)
            node = node->list[0];
    } else {
        node = parse_postfix(parser);
    }
    parser_leave(parser);
    return node;
}

/* ---- binary ---- */

unsigned token_precedence(const struct token *token)
{
    if (token->kind != TOKEN_PUNCT)
        return 0;
    switch (token->op) {
    case OP2('|', '|'):
        return 1;
    case OP2('&', '&'):
        return 2;
    case '|':
        return 3;
    case '^':
        return 4;
    case '&':
        return 5;
    case OP2('=', '='):
    case OP2('!', '='):
        return 6;
    case '<':
    case '>':
    case OP2('<', '='):
    case OP2('>', '='):
        return 7;
    case OP2('<', '<'):
    case OP2('>', '>'):
        return 8;
    case '+':
    case '-':
        return 9;
    case '*':
    case '/':
    case '%':
        return 10;
    default:
        return 0;
    }
}

/* The / that ends a predicate divides nothing. */
static unsigned precedence(const struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0), *after;
    if (token->kind == TOKEN_PUNCT && token->op == '/' && parser->in_predicate) {
        after = parser_peek(parser, 1);
        if (after->kind == TOKEN_PUNCT && after->op == '{')
            return 0;
    }
    return token_precedence(token);
}

static struct node *parse_binary(struct parser *parser, unsigned lowest)
{
    struct node *left = parse_unary(parser);
    while (!parser->failed) {
        unsigned level = precedence(parser);
        if (level == 0 || level < lowest)
            return left;
        uint32_t op = parser_next(parser)->op;
        struct node *node = node_new(parser, N_BINARY, left->span);
        node->op = op;
        node_add(parser, node, left);
        node_add(parser, node, parse_binary(parser, level + 1));
        left = node;
    }
    return left;
}

struct node *parse_expression(struct parser *parser)
{
    if (!parser_enter(parser))
        return bad_node(parser);
    struct node *node = parse_binary(parser, 1);
    if (!parser->failed && parser_accept(parser, '?')) {
        struct node *choose = node_new(parser, N_CHOOSE, node->span);
        node_add(parser, choose, node);
        node_add(parser, choose, parse_expression(parser));
        if (parser_expect(parser, ':'))
            node_add(parser, choose, parse_expression(parser));
        node = choose;
    }
    parser_leave(parser);
    return node;
}
