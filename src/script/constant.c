/* Integer constant expressions of C, and the macros that are such. */
#include "script/declare.h"

#include <stdlib.h>
#include <string.h>

static bool expression(struct c_parser *c, unsigned lowest, int64_t *value);

static bool parse_sizeof(struct c_parser *c, int64_t *value)
{
    c->at++;
    if (!c_accept(c, '(') || !c_starts_type(c, 0))
        return false;
    const struct script_type *type = c_type_name(c);
    if (!type || !c_accept(c, ')'))
        return false;
    *value = (int64_t)type->bytes;
    return true;
}

static bool primary(struct c_parser *c, int64_t *value)
{
    const struct token *token = c_peek(c, 0);
    if (token->kind == TOKEN_INT) {
        c->at++;
        *value = (int64_t)token->value;
        return true;
    }
    if (token->kind == TOKEN_NAME) {
        if (strcmp(token->text, "sizeof") == 0)
            return parse_sizeof(c, value);
        c->at++;
        return script_types_constant(c->types, token->text, value);
    }
    if (!c_accept(c, '('))
        return false;
    if (c_starts_type(c, 0)) {
        const struct script_type *type = c_type_name(c);
        int64_t inner;
        if (!type || !c_accept(c, ')') || !expression(c, 11, &inner))
            return false;
        unsigned bits = type->kind == SCRIPT_T_INT && type->bytes < 8 ? (unsigned)type->bytes * 8 : 64;
        *value = bits == 64        ? inner
                 : type->is_signed ? (int64_t)((uint64_t)inner << (64 - bits)) >> (64 - bits)
                                   : (int64_t)((uint64_t)inner << (64 - bits) >> (64 - bits));
        return type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_POINTER;
    }
    return c_constant(c, value) && c_accept(c, ')');
}

static bool unary(struct c_parser *c, int64_t *value)
{
    const struct token *token = c_peek(c, 0);
    if (token->kind == TOKEN_PUNCT && (token->op == '-' || token->op == '+' || token->op == '~' || token->op == '!')) {
        c->at++;
        if (c->depth > LIMIT_DEPTH)
            return false;
        c->depth++;
        bool ok = unary(c, value);
        c->depth--;
        *value = token->op == '-' ? (int64_t) - (uint64_t)*value : token->op == '~' ? ~*value : token->op == '!' ? !*value : *value;
        return ok;
    }
    return primary(c, value);
}

static bool apply(uint32_t op, int64_t a, int64_t b, int64_t *value)
{
    uint64_t left = (uint64_t)a, right = (uint64_t)b;
    switch (op) {
    case OP2('|', '|'):
        *value = a || b;
        return true;
    case OP2('&', '&'):
        *value = a && b;
        return true;
    case '|':
        *value = a | b;
        return true;
    case '^':
        *value = a ^ b;
        return true;
    case '&':
        *value = a & b;
        return true;
    case OP2('=', '='):
        *value = a == b;
        return true;
    case OP2('!', '='):
        *value = a != b;
        return true;
    case '<':
        *value = a < b;
        return true;
    case '>':
        *value = a > b;
        return true;
    case OP2('<', '='):
        *value = a <= b;
        return true;
    case OP2('>', '='):
        *value = a >= b;
        return true;
    case OP2('<', '<'):
        *value = right < 64 ? (int64_t)(left << right) : 0;
        return true;
    case OP2('>', '>'):
        *value = right < 64 ? a >> right : 0;
        return true;
    case '+':
        *value = (int64_t)(left + right);
        return true;
    case '-':
        *value = (int64_t)(left - right);
        return true;
    case '*':
        *value = (int64_t)(left * right);
        return true;
    default:
        if (b == 0 || (a == INT64_MIN && b == -1))
            return false;
        *value = op == '/' ? a / b : a % b;
        return true;
    }
}

static bool expression(struct c_parser *c, unsigned lowest, int64_t *value)
{
    if (!unary(c, value))
        return false;
    for (;;) {
        const struct token *token = c_peek(c, 0);
        unsigned level = token_precedence(token);
        if (level == 0 || level < lowest)
            return true;
        c->at++;
        int64_t right;
        if (!expression(c, level + 1, &right) || !apply(token->op, *value, right, value))
            return false;
    }
}

bool c_constant(struct c_parser *c, int64_t *value)
{
    if (c->depth > LIMIT_DEPTH)
        return false;
    c->depth++;
    bool ok = expression(c, 1, value);
    if (ok && c_accept(c, '?')) {
        int64_t yes, no;
        ok = c_constant(c, &yes) && c_accept(c, ':') && c_constant(c, &no);
        if (ok)
            *value = *value ? yes : no;
    }
    c->depth--;
    return ok;
}

/* ---- macros ---- */

/* a.b.c */
static bool is_path(const struct token *tokens, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i % 2 ? tokens[i].kind != TOKEN_PUNCT || tokens[i].op != OP1('.') : tokens[i].kind != TOKEN_NAME)
            return false;
    return n % 2;
}

static void define_macro(struct script_program *program, uint32_t file, struct script_types *types, size_t begin, size_t end, bool is_own)
{
    struct lexer lexer;
    lexer_init(&lexer, program, &types->arena, file, begin, end);
    lexer.is_c = lexer.is_quiet = true;
    enum { MOST = 64 };
    struct token tokens[MOST];
    size_t n = 0;
    do {
        tokens[n] = lexer_next(&lexer);
    } while (tokens[n].kind != TOKEN_END && tokens[n].kind != TOKEN_BAD && ++n < MOST - 1);
    if (n == 0 || n >= MOST - 1 || tokens[n].kind != TOKEN_END || tokens[0].kind != TOKEN_NAME)
        return;
    const char *name = tokens[0].text;
    if (n == 1 || (tokens[1].span.begin == tokens[0].span.end && tokens[1].kind == TOKEN_PUNCT))
        return; /* empty, or with parameters */
    if (n == 2 && tokens[1].kind == TOKEN_STRING) {
        table_put(&types->texts, name, (void *)tokens[1].text);
        return;
    }
    if (n > 3 && is_path(tokens + 1, n - 1)) {
        const char *text = tokens[1].text;
        for (size_t i = 3; i < n; i += 2)
            text = arena_format(&types->arena, "%s.%s", text, tokens[i].text);
        table_put(&types->paths, name, (void *)text);
        return;
    }
    struct c_parser c = {.program = program, .types = types, .tokens = tokens, .at = 1, .n = n + 1};
    int64_t value;
    if (c_constant(&c, &value) && c_peek(&c, 0)->kind == TOKEN_END)
        script_types_define_constant(types, name, value);
    else if (is_own) {
        struct script_span *body = arena_alloc(&types->arena, sizeof *body);
        *body = (struct script_span){file, tokens[1].span.begin, tokens[n - 1].span.end};
        table_put(&types->bodies, name, body);
    }
}

void declare_macros(struct script_program *program, uint32_t file, struct script_types *types)
{
    const struct source *source = &program->sources.at[file];
    const char *line = source->text;
    size_t name_length = strlen(source->name);
    bool is_own = false; /* lines `# 12 "file.h"` say whose the next ones are */
    while (line && *line) {
        const char *end = strchr(line, '\n'), *quote;
        if (strncmp(line, "#define ", 8) == 0) {
            size_t begin = (size_t)(line - source->text) + 8;
            define_macro(program, file, types, begin, end ? (size_t)(end - source->text) : source->length, is_own);
        } else if (line[0] == '#' && line[1] == ' ' && (quote = strchr(line, '"')) && (!end || quote < end)) {
            is_own = strncmp(quote + 1, source->name, name_length) == 0 && quote[name_length + 1] == '"';
        }
        line = end ? end + 1 : NULL;
    }
}
