/* Text to tokens, for scripts and for C declarations. */
#include "script/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void lexer_init(struct lexer *lexer, struct script_program *program, struct arena *arena, uint32_t file, size_t begin, size_t end)
{
    *lexer = (struct lexer){.program = program, .arena = arena, .file = file, .at = begin, .end = end};
}

static const char *text_of(const struct lexer *lexer)
{
    return lexer->program->sources.at[lexer->file].text;
}

static int look(const struct lexer *lexer, size_t ahead)
{
    return lexer->at + ahead < lexer->end ? (unsigned char)text_of(lexer)[lexer->at + ahead] : -1;
}

static struct script_span span_from(const struct lexer *lexer, size_t begin)
{
    return (struct script_span){.file = lexer->file, .begin = (uint32_t)begin, .end = (uint32_t)lexer->at};
}

static struct token bad(struct lexer *lexer, size_t begin, const char *message)
{
    struct token token = {.kind = TOKEN_BAD, .span = span_from(lexer, begin)};
    if (!lexer->is_quiet)
        ERROR(lexer->program, token.span, "%s", message);
    return token;
}

static bool is_name_start(int c)
{
    return c == '_' || isalpha(c);
}

static bool is_name(int c)
{
    return c == '_' || isalnum(c);
}

/* ---- what is skipped ---- */

static bool at_line_start(const struct lexer *lexer)
{
    size_t i = lexer->at;
    while (i > 0 && (text_of(lexer)[i - 1] == ' ' || text_of(lexer)[i - 1] == '\t'))
        i--;
    return i == 0 || text_of(lexer)[i - 1] == '\n';
}

static void skip_line(struct lexer *lexer)
{
    while (look(lexer, 0) >= 0 && look(lexer, 0) != '\n')
        lexer->at += look(lexer, 0) == '\\' && look(lexer, 1) == '\n' ? 2 : 1;
}

/* False: a comment that does not end. */
static bool skip_blank(struct lexer *lexer)
{
    for (;;) {
        int c = look(lexer, 0);
        if (c >= 0 && (isspace(c) || (c == '\\' && look(lexer, 1) == '\n' && lexer->is_c))) {
            lexer->at++;
        } else if (c == '/' && look(lexer, 1) == '/') {
            skip_line(lexer);
        } else if (c == '/' && look(lexer, 1) == '*') {
            size_t begin = lexer->at;
            lexer->at += 2;
            while (look(lexer, 0) >= 0 && !(look(lexer, 0) == '*' && look(lexer, 1) == '/'))
                lexer->at++;
            if (look(lexer, 0) < 0) {
                lexer->at = begin;
                return false;
            }
            lexer->at += 2;
        } else if (c == '#' && at_line_start(lexer)) {
            skip_line(lexer);
        } else {
            return true;
        }
    }
}

/* ---- numbers ---- */

static int digit_value(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

/* Multiplies by the unit's nanoseconds; consumes the suffix. False: no such suffix, or too large. */
static bool apply_suffix(struct lexer *lexer, uint64_t *value)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } suffixes[] = {{"u", 1},
                    {"ul", 1},
                    {"ull", 1},
                    {"l", 1},
                    {"ll", 1},
                    {"lu", 1},
                    {"llu", 1},
                    {"ns", 1},
                    {"us", 1000},
                    {"ms", 1000000},
                    {"s", 1000000000},
                    {"m", 60000000000},
                    {"h", 3600000000000},
                    {"d", 86400000000000}};
    char name[8];
    size_t n = 0;
    while (is_name(look(lexer, n)) && n < sizeof name - 1) {
        name[n] = (char)look(lexer, n);
        n++;
    }
    name[n] = 0;
    if (n == 0)
        return true;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if ((suffixes[i].factor == 1 && name[0] != 'n' ? strcasecmp : strcmp)(suffixes[i].name, name) == 0) {
            if (lexer->is_c && suffixes[i].factor != 1)
                return false;
            lexer->at += n;
            return !__builtin_mul_overflow(*value, suffixes[i].factor, value);
        }
    return false;
}

static void skip_word(struct lexer *lexer)
{
    while (is_name(look(lexer, 0)))
        lexer->at++;
}

static struct token lex_float(struct lexer *lexer, size_t begin)
{
    char text[64];
    size_t n = 0;
    while (isdigit(look(lexer, 0)) || look(lexer, 0) == '.' || look(lexer, 0) == '_') {
        if (n < sizeof text - 1 && look(lexer, 0) != '_')
            text[n++] = (char)look(lexer, 0);
        lexer->at++;
    }
    if ((look(lexer, 0) == 'e' || look(lexer, 0) == 'E') &&
        (isdigit(look(lexer, 1)) || ((look(lexer, 1) == '-' || look(lexer, 1) == '+') && isdigit(look(lexer, 2))))) {
        size_t digits = 0;
        do {
            if (n < sizeof text - 1)
                text[n++] = (char)look(lexer, 0);
            lexer->at++;
            digits++;
        } while (isdigit(look(lexer, 0)) || digits < 2);
    }
    text[n] = 0;
    if (lexer->is_c && (look(lexer, 0) == 'f' || look(lexer, 0) == 'F' || look(lexer, 0) == 'l' || look(lexer, 0) == 'L'))
        lexer->at++;
    if (is_name(look(lexer, 0))) {
        skip_word(lexer);
        return bad(lexer, begin, "invalid number");
    }
    return (struct token){.kind = TOKEN_FLOAT, .span = span_from(lexer, begin), .number = strtod(text, NULL)};
}

static bool starts_float(const struct lexer *lexer)
{
    size_t i = 0;
    while (isdigit(look(lexer, i)) || look(lexer, i) == '_')
        i++;
    return !lexer->after_dot && look(lexer, i) == '.' && isdigit(look(lexer, i + 1));
}

static struct token lex_number(struct lexer *lexer)
{
    size_t begin = lexer->at;
    if (starts_float(lexer))
        return lex_float(lexer, begin);
    int base = 10;
    if (look(lexer, 0) == '0' && (look(lexer, 1) == 'x' || look(lexer, 1) == 'X')) {
        base = 16;
        lexer->at += 2;
    } else if (look(lexer, 0) == '0' && (look(lexer, 1) == 'b' || look(lexer, 1) == 'B') &&
               (look(lexer, 2) == '0' || look(lexer, 2) == '1')) {
        base = 2;
        lexer->at += 2;
    } else if (look(lexer, 0) == '0' && isdigit(look(lexer, 1))) {
        base = 8;
    }
    uint64_t value = 0;
    size_t digits = 0;
    bool overflow = false;
    for (; digit_value(look(lexer, 0)) < base || (look(lexer, 0) == '_' && digits); lexer->at++) {
        if (look(lexer, 0) == '_')
            continue;
        digits++;
        overflow |= __builtin_mul_overflow(value, (uint64_t)base, &value);
        overflow |= __builtin_add_overflow(value, (uint64_t)digit_value(look(lexer, 0)), &value);
    }
    if (base == 10 && (look(lexer, 0) == 'e' || look(lexer, 0) == 'E') && isdigit(look(lexer, 1))) {
        unsigned power = 0;
        for (lexer->at++; isdigit(look(lexer, 0)); lexer->at++)
            power = power < 1000 ? power * 10 + (unsigned)digit_value(look(lexer, 0)) : power;
        for (; power > 0 && !overflow; power--)
            overflow |= __builtin_mul_overflow(value, UINT64_C(10), &value);
    }
    if (!digits) {
        skip_word(lexer);
        return bad(lexer, begin, "invalid integer: no digits");
    }
    uint64_t plain = value;
    if (!apply_suffix(lexer, &value)) {
        overflow |= value != plain;
        skip_word(lexer);
        if (!overflow)
            return bad(lexer, begin, "invalid integer: expected a C suffix (u, l, ull) or a duration (ns, us, ms, s, m, h, d)");
    }
    if (overflow)
        return bad(lexer, begin, "integer is too large for 64 bits");
    return (struct token){.kind = TOKEN_INT, .span = span_from(lexer, begin), .value = value};
}

/* ---- strings ---- */

static int escape(struct lexer *lexer)
{
    static const char from[] = "abfnrtve", to[] = "\a\b\f\n\r\t\v\033";
    int c = look(lexer, 0);
    if (c == 'x') {
        int value = 0, n = 0;
        for (lexer->at++; n < 2 && digit_value(look(lexer, 0)) < 16; n++, lexer->at++)
            value = value * 16 + digit_value(look(lexer, 0));
        return n ? value : -1;
    }
    if (c >= '0' && c <= '7') {
        int value = 0;
        for (int n = 0; n < 3 && digit_value(look(lexer, 0)) < 8; n++, lexer->at++)
            value = value * 8 + digit_value(look(lexer, 0));
        return value & 0xff;
    }
    lexer->at++;
    if (c == '"' || c == '\\' || c == '\'' || c == '?' || c == '\n')
        return c;
    const char *found = c > 0 ? strchr(from, c) : NULL;
    return found && *found ? to[found - from] : -1;
}

static struct token lex_string(struct lexer *lexer)
{
    size_t begin = lexer->at++, n = 0;
    size_t close = lexer->at;
    while (close < lexer->end && text_of(lexer)[close] != '"')
        close += text_of(lexer)[close] == '\\' ? 2 : 1;
    if (close >= lexer->end) {
        lexer->at = lexer->end;
        struct token token = bad(lexer, begin, "unterminated string");
        return token;
    }
    char *text = arena_alloc(lexer->arena, close - lexer->at + 1);
    while (lexer->at < close) {
        int c = look(lexer, 0);
        size_t at = lexer->at++;
        if (c == '\\') {
            bool is_line = look(lexer, 0) == '\n';
            c = escape(lexer);
            if (c < 0) {
                lexer->at = close + 1;
                return bad(lexer, at, "invalid escape in a string: expected \\n \\t \\r \\\" \\\\ \\xNN or \\NNN");
            }
            if (is_line)
                continue;
        }
        text[n++] = (char)c;
    }
    lexer->at = close + 1;
    return (struct token){.kind = TOKEN_STRING, .span = span_from(lexer, begin), .text = text, .length = n};
}

static struct token lex_char(struct lexer *lexer)
{
    size_t begin = lexer->at++;
    int c = look(lexer, 0);
    lexer->at++;
    if (c == '\\')
        c = escape(lexer);
    if (c < 0 || look(lexer, 0) != '\'')
        return bad(lexer, begin, "invalid character constant");
    lexer->at++;
    return (struct token){.kind = TOKEN_INT, .span = span_from(lexer, begin), .value = (uint64_t)(int64_t)(signed char)c};
}

/* ---- names and operators ---- */

static struct token lex_word(struct lexer *lexer, enum token_kind kind, size_t begin, size_t text_begin)
{
    skip_word(lexer);
    struct token token = {.kind = kind, .span = span_from(lexer, begin)};
    token.length = lexer->at - text_begin;
    token.text = arena_text(lexer->arena, text_of(lexer) + text_begin, token.length);
    return token;
}

static struct token lex_dollar(struct lexer *lexer)
{
    size_t begin = lexer->at++;
    if (look(lexer, 0) == '#') {
        lexer->at++;
        return (struct token){.kind = TOKEN_COUNT, .span = span_from(lexer, begin)};
    }
    if (isdigit(look(lexer, 0))) {
        uint64_t value = 0;
        for (; isdigit(look(lexer, 0)); lexer->at++)
            value = value < 1000000 ? value * 10 + (uint64_t)digit_value(look(lexer, 0)) : value;
        if (is_name(look(lexer, 0))) {
            skip_word(lexer);
            return bad(lexer, begin, "a variable's name can not begin with a digit");
        }
        return (struct token){.kind = TOKEN_PARAM, .span = span_from(lexer, begin), .value = value};
    }
    if (is_name_start(look(lexer, 0)))
        return lex_word(lexer, TOKEN_VARIABLE, begin, begin + 1);
    return bad(lexer, begin, "expected a name after $");
}

static struct token lex_operator(struct lexer *lexer)
{
    static const char *const operators[] = {"<<=", ">>=", "...", "..", "->", "++", "--", "<<", ">>", "<=", ">=", "==",
                                            "!=",  "&&",  "||",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "::"};
    size_t begin = lexer->at;
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *op = operators[i];
        size_t n = 0;
        while (op[n] && look(lexer, n) == op[n])
            n++;
        if (op[n])
            continue;
        lexer->at += n;
        return (struct token){
            .kind = TOKEN_PUNCT, .op = n == 3 ? OP3(op[0], op[1], op[2]) : OP2(op[0], op[1]), .span = span_from(lexer, begin)};
    }
    int c = look(lexer, 0);
    lexer->at++;
    if (strchr("+-*/%&|^~!<>=?:;,.(){}[]#", c))
        return (struct token){.kind = TOKEN_PUNCT, .op = OP1(c), .span = span_from(lexer, begin)};
    return bad(lexer, begin, "unexpected character");
}

static struct token lex(struct lexer *lexer)
{
    if (!skip_blank(lexer)) {
        size_t begin = lexer->at;
        lexer->at = lexer->end;
        return bad(lexer, begin, "unterminated comment");
    }
    size_t begin = lexer->at;
    int c = look(lexer, 0);
    if (c < 0)
        return (struct token){.kind = TOKEN_END, .span = {.file = lexer->file, .begin = (uint32_t)begin, .end = (uint32_t)begin + 1}};
    if (isdigit(c))
        return lex_number(lexer);
    if (is_name_start(c))
        return lex_word(lexer, TOKEN_NAME, begin, begin);
    if (c == '"')
        return lex_string(lexer);
    if (c == '\'')
        return lex_char(lexer);
    if (c == '$' && !lexer->is_c)
        return lex_dollar(lexer);
    if (c == '@' && !lexer->is_c) {
        lexer->at++;
        return lex_word(lexer, TOKEN_MAP, begin, begin);
    }
    if (c == 0) {
        lexer->at++;
        return bad(lexer, begin, "unexpected NUL byte");
    }
    return lex_operator(lexer);
}

struct token lexer_next(struct lexer *lexer)
{
    struct token token = lex(lexer);
    lexer->after_dot = token.kind == TOKEN_PUNCT && token.op == OP1('.');
    return token;
}

const char *token_describe(struct arena *arena, const struct token *token)
{
    switch (token->kind) {
    case TOKEN_END:
        return "end of file";
    case TOKEN_INT:
        return "integer";
    case TOKEN_FLOAT:
        return "number";
    case TOKEN_STRING:
        return "string";
    case TOKEN_NAME:
        return arena_format(arena, "identifier '%s'", token->text);
    case TOKEN_VARIABLE:
        return arena_format(arena, "variable '$%s'", token->text);
    case TOKEN_MAP:
        return arena_format(arena, "map '%s'", token->text);
    case TOKEN_PARAM:
    case TOKEN_COUNT:
        return "positional parameter";
    case TOKEN_PUNCT: {
        char text[4] = {(char)token->op, (char)(token->op >> 8), (char)(token->op >> 16), 0};
        return arena_text(arena, text, strlen(text));
    }
    default:
        return "invalid text";
    }
}
