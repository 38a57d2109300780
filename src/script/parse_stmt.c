/* Statements and blocks: tokens to tree. */
#include "script/internal.h"

#include <string.h>

static struct node *parse_statement(struct parser *parser, bool *is_value);

/* { ... }: the last expression without a semicolon is the block's value. */
struct node *parse_block(struct parser *parser)
{
    struct node *node = node_new(parser, N_BLOCK, parser_peek(parser, 0)->span);
    if (!parser_enter(parser))
        return node;
    bool was = parser->in_predicate;
    parser->in_predicate = false;
    if (parser_expect(parser, '{')) {
        while (!parser->failed && !parser_is(parser, '}')) {
            if (parser_accept(parser, ';'))
                continue;
            bool is_value = false;
            struct node *statement = parse_statement(parser, &is_value);
            if (parser->failed)
                break;
            node_add(parser, node, statement);
            node->value = is_value && parser_is(parser, '}');
            if (is_value && !parser_is(parser, '}') && !parser_accept(parser, ';')) {
                parser_unexpected(parser, "; or }");
                break;
            }
        }
        node->span = span_join(node->span, parser_peek(parser, 0)->span);
        if (!parser->failed)
            parser_expect(parser, '}');
    }
    parser->in_predicate = was;
    parser_leave(parser);
    return node;
}

static struct node *parse_if(struct parser *parser)
{
    struct node *node = node_new(parser, N_IF, parser_next(parser)->span);
    if (!parser_enter(parser))
        return node;
    if (parser_is_name(parser, "comptime")) {
        struct node *comptime = node_new(parser, N_COMPTIME, parser_next(parser)->span);
        node_add(parser, comptime, parse_expression(parser));
        node_add(parser, node, comptime);
    } else {
        node_add(parser, node, parse_expression(parser));
    }
    if (!parser->failed)
        node_add(parser, node, parse_block(parser));
    if (!parser->failed && parser_is_name(parser, "else")) {
        parser_next(parser);
        node_add(parser, node, parser_is_name(parser, "if") ? parse_if(parser) : parse_block(parser));
    }
    parser_leave(parser);
    return node;
}

static struct node *parse_for(struct parser *parser)
{
    struct node *node = node_new(parser, N_EACH, parser_next(parser)->span);
    bool has_parenthesis = parser_accept(parser, '(');
    const struct token *variable = parser_peek(parser, 0);
    if (variable->kind != TOKEN_VARIABLE) {
        parser_unexpected(parser, "a variable: for ($x : @map) or for ($i : 0..10)");
        return node;
    }
    parser_next(parser);
    struct node *target = node_new(parser, N_VARIABLE, variable->span);
    target->text = variable->text;
    node_add(parser, node, target);
    if (!parser_expect(parser, ':'))
        return node;
    node_add(parser, node, parse_expression(parser));
    if (!parser->failed && parser_accept(parser, OP2('.', '.'))) {
        node->kind = N_RANGE;
        node_add(parser, node, parse_expression(parser));
    }
    if (has_parenthesis && !parser->failed)
        parser_expect(parser, ')');
    if (!parser->failed)
        node_add(parser, node, parse_block(parser));
    return node;
}

static struct node *parse_let(struct parser *parser)
{
    struct node *node = node_new(parser, N_LET, parser_next(parser)->span);
    const struct token *variable = parser_peek(parser, 0);
    if (variable->kind != TOKEN_VARIABLE) {
        parser_unexpected(parser, "a variable: let $x = value");
        return node;
    }
    parser_next(parser);
    struct node *target = node_new(parser, N_VARIABLE, variable->span);
    target->text = variable->text;
    node_add(parser, node, target);
    if (parser_accept(parser, ':')) {
        struct spelling *spelling = arena_alloc(&parser->program->arena, sizeof *spelling);
        if (!parse_spelling(parser, spelling))
            return node;
        node->spelling = spelling;
    }
    if (parser_accept(parser, '='))
        node_add(parser, node, parse_expression(parser));
    return node;
}

static struct node *parse_delete(struct parser *parser)
{
    struct node *node = node_new(parser, N_CALL, parser_next(parser)->span);
    node->text = "delete";
    node_add(parser, node, parse_expression(parser));
    return node;
}

static bool is_assignment(const struct parser *parser)
{
    const struct token *token = parser_peek(parser, 0);
    if (token->kind != TOKEN_PUNCT)
        return false;
    switch (token->op) {
    case '=':
    case OP2('+', '='):
    case OP2('-', '='):
    case OP2('*', '='):
    case OP2('/', '='):
    case OP2('%', '='):
    case OP2('&', '='):
    case OP2('|', '='):
    case OP2('^', '='):
    case OP3('<', '<', '='):
    case OP3('>', '>', '='):
        return true;
    default:
        return false;
    }
}

static struct node *parse_simple(struct parser *parser)
{
    if (parser_is_name(parser, "_") && parser_peek(parser, 1)->kind == TOKEN_PUNCT && parser_peek(parser, 1)->op == '=') {
        struct node *node = node_new(parser, N_DISCARD, parser_next(parser)->span);
        parser_next(parser);
        node_add(parser, node, parse_expression(parser));
        return node;
    }
    if (parser_is_name(parser, "let"))
        return parse_let(parser);
    if (parser_is_name(parser, "delete") && parser_peek(parser, 1)->kind == TOKEN_MAP)
        return parse_delete(parser);
    if (parser_is_name(parser, "break") || parser_is_name(parser, "continue")) {
        const struct token *token = parser_next(parser);
        return node_new(parser, token->text[0] == 'b' ? N_BREAK : N_CONTINUE, token->span);
    }
    if (parser_is_name(parser, "return")) {
        struct node *node = node_new(parser, N_RETURN, parser_next(parser)->span);
        if (!parser_is(parser, ';') && !parser_is(parser, '}'))
            node_add(parser, node, parse_expression(parser));
        return node;
    }
    struct node *left = parse_expression(parser);
    if (parser->failed || !is_assignment(parser))
        return left;
    struct node *node = node_new(parser, N_ASSIGN, left->span);
    node->op = parser_next(parser)->op;
    node_add(parser, node, left);
    node_add(parser, node, parse_expression(parser));
    return node;
}

static struct node *parse_statement(struct parser *parser, bool *is_value)
{
    if (parser_is_name(parser, "if"))
        return parse_if(parser);
    if (parser_is_name(parser, "while") || (parser_is_name(parser, "unroll"))) {
        const struct token *token = parser_next(parser);
        struct node *node = node_new(parser, token->text[0] == 'w' ? N_WHILE : N_UNROLL, token->span);
        if (!parser_is(parser, '('))
            parser_unexpected(parser, "(");
        else
            node_add(parser, node, parse_expression(parser));
        if (!parser->failed)
            node_add(parser, node, parse_block(parser));
        return node;
    }
    if (parser_is_name(parser, "for"))
        return parse_for(parser);
    if (parser_is(parser, '{')) {
        /* A block statement needs no semicolon; with an operator behind, it is an expression. */
        struct node *node = parse_block(parser);
        const struct token *after = parser_peek(parser, 0);
        *is_value = !parser->failed && node->value && after->kind == TOKEN_PUNCT && after->op == '}';
        return node;
    }
    *is_value = true;
    return parse_simple(parser);
}
