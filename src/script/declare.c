/* C declarations to types of one model. What is in a header and not understood is skipped: a script needs a few types of the thousands
 * that a system header declares. */
#include "script/declare.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct token *c_peek(const struct c_parser *c, size_t ahead)
{
    size_t i = c->at + ahead;
    return &c->tokens[i < c->n ? i : c->n - 1];
}

bool c_is(const struct c_parser *c, uint32_t op)
{
    const struct token *token = c_peek(c, 0);
    return token->kind == TOKEN_PUNCT && token->op == op;
}

bool c_is_name(const struct c_parser *c, const char *name)
{
    const struct token *token = c_peek(c, 0);
    return token->kind == TOKEN_NAME && strcmp(token->text, name) == 0;
}

bool c_accept(struct c_parser *c, uint32_t op)
{
    bool is = c_is(c, op);
    c->at += is;
    return is;
}

static bool at_end(const struct c_parser *c)
{
    return c_peek(c, 0)->kind == TOKEN_END;
}

void c_skip_balanced(struct c_parser *c)
{
    size_t depth = 0;
    while (!at_end(c)) {
        const struct token *token = c_peek(c, 0);
        c->at++;
        if (token->kind != TOKEN_PUNCT)
            continue;
        depth += token->op == '(' || token->op == '{' || token->op == '[';
        if ((token->op == ')' || token->op == '}' || token->op == ']') && (depth == 0 || --depth == 0))
            return;
    }
}

bool c_error(struct c_parser *c, const char *format, ...)
{
    const struct token *token = c_peek(c, 0);
    struct script_span span = token->kind == TOKEN_END && c->at > 0 ? c->tokens[c->at < c->n ? c->at - 1 : c->n - 1].span : token->span;
    if (source_is_own(c->program, span)) {
        va_list args;
        va_start(args, format);
        char text[256];
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        ERROR(c->program, span, "%s", text);
    }
    return false;
}

/* ---- attributes ---- */

static void parse_attribute(struct c_parser *c, struct c_attributes *out)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } modes[] = {{"QI", 1}, {"HI", 2}, {"SI", 4}, {"DI", 8}, {"byte", 1}, {"TI", 16}};
    char name[32];
    const char *text = c_peek(c, 0)->kind == TOKEN_NAME ? c_peek(c, 0)->text : "";
    size_t skip = strncmp(text, "__", 2) == 0 ? 2 : 0, length = strlen(text + skip);
    if (skip && length > 2 && strcmp(text + skip + length - 2, "__") == 0)
        length -= 2;
    snprintf(name, sizeof name, "%.*s", (int)length, text + skip);
    c->at++;
    size_t arguments = c->at;
    if (c_is(c, '('))
        c_skip_balanced(c);
    size_t after = c->at;
    if (strcmp(name, "packed") == 0) {
        out->is_packed = true;
    } else if (strcmp(name, "aligned") == 0) {
        int64_t value = 16; /* the largest alignment that x86 needs */
        if (after > arguments) {
            c->at = arguments + 1;
            if (!c_constant(c, &value) || value <= 0 || (value & (value - 1)) || value > 1 << 28)
                value = 1;
            c->at = after;
        }
        if ((uint32_t)value > out->align)
            out->align = (uint32_t)value;
    } else if (strcmp(name, "mode") == 0 && after > arguments + 1) {
        const char *mode = c->tokens[arguments + 1].text ? c->tokens[arguments + 1].text : "";
        if (strstr(mode, "word") || strstr(mode, "pointer"))
            out->mode = script_types_model(c->types) == SCRIPT_ILP32 ? 4 : 8;
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strstr(mode, modes[i].name))
                out->mode = modes[i].bytes;
    } else if (strcmp(name, "vector_size") == 0) {
        out->is_unknown = true;
    }
}

void c_attributes(struct c_parser *c, struct c_attributes *out)
{
    static const char *const ignored[] = {"const",        "volatile",      "restrict",      "__restrict", "__const",
                                          "__volatile__", "__restrict__",  "_Atomic",       "inline",     "__inline",
                                          "__inline__",   "extern",        "static",        "register",   "_Noreturn",
                                          "auto",         "__extension__", "_Thread_local", "__thread",   "__signed__"};
    for (;;) {
        const struct token *token = c_peek(c, 0);
        if (token->kind != TOKEN_NAME)
            return;
        if (strcmp(token->text, "__attribute__") == 0 || strcmp(token->text, "__attribute") == 0) {
            c->at++;
            if (!c_accept(c, '(') || !c_accept(c, '('))
                return;
            while (!at_end(c) && !c_is(c, ')'))
                if (!c_accept(c, ','))
                    parse_attribute(c, out);
            c_accept(c, ')');
            c_accept(c, ')');
            continue;
        }
        if (strcmp(token->text, "__asm__") == 0 || strcmp(token->text, "asm") == 0 || strcmp(token->text, "__asm") == 0) {
            c->at++;
            if (c_is(c, '('))
                c_skip_balanced(c);
            continue;
        }
        if (strcmp(token->text, "_Alignas") == 0) {
            c->at++;
            int64_t value = 0;
            size_t open = c->at;
            if (c_accept(c, '(')) {
                const struct script_type *type = c_starts_type(c, 0) ? c_type_name(c) : NULL;
                if (type)
                    value = type->align;
                else if (!c_constant(c, &value))
                    value = 0;
                c->at = open;
                c_skip_balanced(c);
            }
            if (value > 0 && value <= 1 << 28 && (value & (value - 1)) == 0 && value > out->align)
                out->align = (uint32_t)value;
            continue;
        }
        size_t i = 0, n = sizeof ignored / sizeof *ignored;
        while (i < n && strcmp(ignored[i], token->text) != 0)
            i++;
        if (i == n)
            return;
        c->at++;
    }
}

/* ---- specifiers ---- */

static bool is_basic_word(const char *text)
{
    static const char *const words[] = {"void",   "char",   "short",    "int",   "long",     "float",
                                        "double", "signed", "unsigned", "_Bool", "__int128", "__signed__"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i], text) == 0)
            return true;
    return false;
}

bool c_starts_type(const struct c_parser *c, size_t ahead)
{
    const struct token *token = c_peek(c, ahead);
    if (token->kind != TOKEN_NAME)
        return false;
    return is_basic_word(token->text) || strcmp(token->text, "struct") == 0 || strcmp(token->text, "union") == 0 ||
           strcmp(token->text, "enum") == 0 || strcmp(token->text, "const") == 0 || strcmp(token->text, "volatile") == 0 ||
           script_types_find(c->types, token->text);
}

static const struct script_type *basic_type(struct c_parser *c, const char *base, unsigned n_long, bool is_short, bool is_unsigned,
                                            bool is_signed)
{
    const char *name;
    char text[40];
    if (base && strcmp(base, "int") != 0 && strcmp(base, "char") != 0 && strcmp(base, "__int128") != 0 && strcmp(base, "double") != 0)
        return script_types_find(c->types, base);
    if (base && strcmp(base, "double") == 0)
        return script_types_find(c->types, n_long ? "long double" : "double");
    if (base && strcmp(base, "char") == 0)
        return script_types_find(c->types, is_unsigned ? "unsigned char" : is_signed ? "signed char" : "char");
    name = base && base[0] == '_' ? base : is_short ? "short" : n_long > 1 ? "long long" : n_long ? "long" : "int";
    snprintf(text, sizeof text, "%s%s", is_unsigned ? "unsigned " : "", name);
    return script_types_find(c->types, text);
}

static const struct script_type *apply_mode(struct c_parser *c, const struct script_type *type, const struct c_attributes *attributes)
{
    if (!type || attributes->is_unknown)
        return NULL;
    if (attributes->mode && type->kind == SCRIPT_T_INT)
        return script_type_int(c->types, attributes->mode, type->is_signed);
    return type;
}

const struct script_type *c_specifiers(struct c_parser *c, struct c_attributes *attributes, bool *is_typedef)
{
    const struct script_type *type = NULL;
    const char *base = NULL;
    unsigned n_long = 0;
    bool is_short = false, is_unsigned = false, is_signed = false, any = false;
    for (;;) {
        c_attributes(c, attributes);
        const struct token *token = c_peek(c, 0);
        if (token->kind != TOKEN_NAME)
            break;
        const char *text = token->text;
        if (strcmp(text, "typedef") == 0 && is_typedef) {
            *is_typedef = true;
        } else if (is_basic_word(text)) {
            if (type)
                break;
            any = true;
            if (strcmp(text, "long") == 0)
                n_long++;
            else if (strcmp(text, "short") == 0)
                is_short = true;
            else if (strcmp(text, "unsigned") == 0)
                is_unsigned = true;
            else if (strcmp(text, "signed") == 0 || strcmp(text, "__signed__") == 0)
                is_signed = true;
            else
                base = text;
        } else if (any || type) {
            break;
        } else if (strcmp(text, "struct") == 0 || strcmp(text, "union") == 0) {
            type = c_record(c);
            if (!type)
                return NULL;
            continue;
        } else if (strcmp(text, "enum") == 0) {
            type = c_enum(c);
            if (!type)
                return NULL;
            continue;
        } else {
            type = script_types_find(c->types, text);
            if (!type) {
                struct near near = {.wanted = text};
                for (size_t i = 0; i < c->types->names.room; i++)
                    if (c->types->names.slots[i].name)
                        near_try(&near, c->types->names.slots[i].name);
                if (source_is_own(c->program, token->span))
                    report(c->program, true, token->span, near_hint(&near, &c->program->arena), "unknown type name '%s'", text);
                return NULL;
            }
        }
        c->at++;
    }
    if (any)
        type = basic_type(c, base, n_long, is_short, is_unsigned, is_signed);
    if (!type) {
        c_error(c, "syntax error in a declaration: expected a type");
        return NULL;
    }
    return type;
}

/* ---- declarators ---- */

static const struct script_type *suffixes(struct c_parser *c, const struct script_type *base)
{
    if (!base || c->depth > LIMIT_NESTING) {
        return NULL;
    }
    if (c_is(c, '(')) {
        c_skip_balanced(c);
        struct script_type *function = arena_alloc(&c->types->arena, sizeof *function);
        function->kind = SCRIPT_T_FUNCTION;
        function->align = 1;
        function->bytes = 1; /* as gcc's sizeof */
        return function;
    }
    if (!c_accept(c, '['))
        return base;
    int64_t count = 0;
    bool is_flexible = c_is(c, ']');
    while (c_is_name(c, "static") || c_is_name(c, "restrict") || c_is_name(c, "__restrict") || c_is_name(c, "const"))
        c->at++;
    if (!is_flexible && (!c_constant(c, &count) || count < 0)) {
        c_error(c, "expected a constant number of elements");
        return NULL;
    }
    if (!c_accept(c, ']')) {
        c_error(c, "syntax error in a declaration: expected ]");
        return NULL;
    }
    c->depth++;
    const struct script_type *element = suffixes(c, base);
    c->depth--;
    const struct script_type *array =
        element ? script_type_array(c->types, element, is_flexible ? SCRIPT_FLEXIBLE : (uint64_t)count) : NULL;
    if (element && !array)
        c_error(c, "an array of this type has no size, or is too large");
    return array;
}

static bool is_group(const struct c_parser *c)
{
    const struct token *token = c_peek(c, 1);
    if (token->kind == TOKEN_PUNCT)
        return token->op == '*' || token->op == '(' || token->op == '^';
    return token->kind == TOKEN_NAME && (strcmp(token->text, "__attribute__") == 0 || !c_starts_type(c, 1));
}

const struct script_type *c_declarator(struct c_parser *c, const struct script_type *base, struct c_attributes *attributes,
                                       const char **name)
{
    unsigned pointers = 0;
    c_attributes(c, attributes);
    while (c_accept(c, '*')) {
        if (++pointers > LIMIT_NESTING)
            return NULL;
        struct c_attributes ignored = {0};
        base = script_type_pointer(c->types, base);
        c_attributes(c, &ignored);
    }
    if (c_is(c, '(') && is_group(c)) {
        size_t inside = c->at + 1;
        c_skip_balanced(c);
        base = suffixes(c, base);
        size_t after = c->at;
        if (!base || c->depth > LIMIT_NESTING)
            return NULL;
        c->at = inside;
        c->depth++;
        const struct script_type *type = c_declarator(c, base, attributes, name);
        c->depth--;
        c->at = after;
        c_attributes(c, attributes);
        return type;
    }
    if (c_peek(c, 0)->kind == TOKEN_NAME) {
        *name = c_peek(c, 0)->text;
        c->at++;
        c_attributes(c, attributes);
    }
    base = suffixes(c, base);
    c_attributes(c, attributes);
    return apply_mode(c, base, attributes);
}

const struct script_type *c_type_name(struct c_parser *c)
{
    struct c_attributes attributes = {0};
    const char *name = NULL;
    const struct script_type *base = c_specifiers(c, &attributes, NULL);
    return base ? c_declarator(c, base, &attributes, &name) : NULL;
}

/* ---- declarations ---- */

static void skip_declaration(struct c_parser *c)
{
    while (!at_end(c)) {
        if (c_accept(c, ';'))
            return;
        bool is_body = c_is(c, '{');
        if (is_body || c_is(c, '(') || c_is(c, '['))
            c_skip_balanced(c);
        else
            c->at++;
        /* The body of a function ends its declaration; that of a struct is followed by a `;` or declarators. */
        if (is_body && !c_is(c, ';') && !c_is(c, '*') && c_peek(c, 0)->kind != TOKEN_NAME)
            return;
    }
}

static void define_name(struct c_parser *c, const char *name, const struct script_type *type, const struct c_attributes *attributes)
{
    if (attributes->align && attributes->align != type->align) {
        struct script_type *aligned = arena_alloc(&c->types->arena, sizeof *aligned);
        *aligned = *type;
        aligned->align = attributes->align;
        type = aligned;
    }
    script_types_define(c->types, name, type);
}

static void declaration(struct c_parser *c)
{
    size_t begin = c->at;
    bool is_typedef = false;
    if (c_is_name(c, "_Static_assert")) {
        skip_declaration(c);
        return;
    }
    struct c_attributes attributes = {0};
    const struct script_type *base = c_specifiers(c, &attributes, &is_typedef);
    if (!base) {
        c->at = begin;
        skip_declaration(c);
        return;
    }
    if (c_accept(c, ';') || at_end(c))
        return;
    do {
        const char *name = NULL;
        struct c_attributes own = attributes;
        const struct script_type *type = c_declarator(c, base, &own, &name);
        if (type && name && is_typedef)
            define_name(c, name, type, &own);
        if (c_is(c, '=') || c_is(c, '{'))
            break;
    } while (c_accept(c, ','));
    if (c_is(c, '{')) {
        c_skip_balanced(c);
        return;
    }
    if (!c_is(c, ';') && !c_is(c, '='))
        c_error(c, "syntax error in a declaration, unexpected %s, expecting ;", token_describe(&c->program->arena, c_peek(c, 0)));
    skip_declaration(c);
}

void declare_types(struct script_program *program, uint32_t file, struct script_types *types)
{
    const struct source *source = &program->sources.at[file];
    struct lexer lexer;
    lexer_init(&lexer, program, &types->arena, file, 0, source->length);
    lexer.is_c = true;
    lexer.is_quiet = source->is_preprocessed;
    VEC(struct token) tokens = {0};
    do {
        VEC_PUSH(&tokens, lexer_next(&lexer));
    } while (tokens.at[tokens.n - 1].kind != TOKEN_END);
    struct c_parser c = {.program = program, .types = types, .tokens = tokens.at, .n = tokens.n};
    while (!at_end(&c) && program->diagnostics.n + program->deferred.n < LIMIT_DIAGNOSTICS) {
        if (!c_accept(&c, ';'))
            declaration(&c);
    }
    free(tokens.at);
}
