/* struct, union and enum declarations. */
#include "script/declare.h"

#include <stdlib.h>
#include <string.h>

struct fields {
    VEC(struct script_field) list;
};

static bool bit_field(struct c_parser *c, struct script_field *field)
{
    int64_t width;
    if (!c_constant(c, &width))
        return c_error(c, "expected the width of a bit-field");
    bool is_integer = field->type->kind == SCRIPT_T_INT || field->type->kind == SCRIPT_T_BOOL;
    if (!is_integer || width < 0 || (uint64_t)width > field->type->bytes * 8 || (field->type->kind == SCRIPT_T_BOOL && width > 1) ||
        width > 64)
        return c_error(c, "the width of a bit-field does not fit its type");
    if (width == 0 && field->name)
        return c_error(c, "a bit-field of no width can not have a name");
    field->bit_size = width ? (unsigned)width : SCRIPT_ZERO_WIDTH;
    return true;
}

/* One declaration inside a record: `int a, *b, c : 3;`. */
static bool members(struct c_parser *c, struct fields *fields)
{
    struct c_attributes base_attributes = {0};
    bool is_inline = c_is_name(c, "struct") || c_is_name(c, "union");
    const struct script_type *base = c_specifiers(c, &base_attributes, NULL);
    if (!base)
        return false;
    if (c_accept(c, ';')) {
        struct script_field field = {
            .type = base, .offset = SCRIPT_COMPUTED, .align = base_attributes.align, .is_packed = base_attributes.is_packed};
        if (is_inline && base->kind == SCRIPT_T_RECORD && strstr(base->record->name, " (unnamed "))
            VEC_PUSH(&fields->list, field); /* else it declares only a type */
        return true;
    }
    do {
        struct c_attributes attributes = base_attributes;
        struct script_field field = {.type = base, .offset = SCRIPT_COMPUTED};
        if (!c_is(c, ':')) {
            field.type = c_declarator(c, base, &attributes, &field.name);
            if (!field.type)
                return c_error(c, "syntax error in a declaration: this type is not understood");
            if (!field.name)
                return c_error(c, "syntax error in a declaration: expected a member's name");
        }
        if (c_accept(c, ':') && !bit_field(c, &field))
            return false;
        c_attributes(c, &attributes);
        field.align = attributes.align;
        field.is_packed = attributes.is_packed;
        const struct script_type *type = field.type;
        if (type->kind == SCRIPT_T_VOID || type->kind == SCRIPT_T_FUNCTION || (type->kind == SCRIPT_T_RECORD && !type->record->is_complete))
            return c_error(c, "member '%s' has an incomplete type", field.name ? field.name : "");
        VEC_PUSH(&fields->list, field);
    } while (c_accept(c, ','));
    if (!c_accept(c, ';'))
        return c_error(c, "syntax error in a declaration, unexpected %s, expecting ;", token_describe(&c->program->arena, c_peek(c, 0)));
    return true;
}

static const struct script_type *record_body(struct c_parser *c, const struct script_type *type, struct c_attributes *attributes)
{
    struct fields fields = {0};
    bool ok = true;
    while (ok && !c_is(c, '}')) {
        if (c_peek(c, 0)->kind == TOKEN_END)
            ok = c_error(c, "syntax error in a declaration, unexpected end of file, expecting }");
        else if (c_is_name(c, "_Static_assert"))
            while (c_peek(c, 0)->kind != TOKEN_END && !c_accept(c, ';'))
                c->at++;
        else if (!c_accept(c, ';'))
            ok = members(c, &fields);
    }
    if (ok) {
        c->at++;
        c_attributes(c, attributes);
        ok = script_record_close(c->types, type, fields.list.at, fields.list.n, attributes->is_packed, attributes->align, SCRIPT_COMPUTED);
        if (!ok)
            c_error(c, "%s is too large", type->record->name);
    }
    VEC_FREE(&fields.list);
    return ok ? type : NULL;
}

const struct script_type *c_record(struct c_parser *c)
{
    bool is_union = c_is_name(c, "union");
    c->at++;
    struct c_attributes attributes = {0};
    c_attributes(c, &attributes);
    const char *name = NULL;
    if (c_peek(c, 0)->kind == TOKEN_NAME) {
        name = arena_format(&c->types->arena, "%s %s", is_union ? "union" : "struct", c_peek(c, 0)->text);
        c->at++;
        c_attributes(c, &attributes);
    }
    bool has_body = c_is(c, '{');
    if (!has_body && !name) {
        c_error(c, "syntax error in a declaration: expected a tag or {");
        return NULL;
    }
    const struct script_type *old = name ? table_get(&c->types->names, name) : NULL;
    if (has_body && old && old->record->is_complete) {
        c_error(c, "%s is declared twice", name);
        return NULL;
    }
    const struct script_type *type = script_record_open(c->types, name, is_union);
    if (!has_body)
        return type;
    c->at++;
    if (c->depth >= LIMIT_NESTING) {
        c_error(c, "declarations are nested too deeply (limit %d)", LIMIT_NESTING);
        return NULL;
    }
    c->depth++;
    const struct script_type *result = record_body(c, type, &attributes);
    c->depth--;
    return result;
}

static bool constants(struct c_parser *c, struct script_constant **list, size_t *n)
{
    VEC(struct script_constant) found = {0};
    int64_t next = 0;
    bool ok = true;
    while (ok && !c_is(c, '}')) {
        const struct token *name = c_peek(c, 0);
        if (name->kind != TOKEN_NAME) {
            ok = c_error(c, "syntax error in a declaration, unexpected %s, expecting a name", token_describe(&c->program->arena, name));
            break;
        }
        c->at++;
        struct c_attributes ignored = {0};
        c_attributes(c, &ignored);
        if (c_accept(c, '=') && !c_constant(c, &next))
            ok = c_error(c, "expected an integer constant");
        struct script_constant constant = {.name = name->text, .value = next};
        VEC_PUSH(&found, constant);
        script_types_define_constant(c->types, name->text, next);
        next = (int64_t)((uint64_t)next + 1);
        if (ok && !c_accept(c, ',') && !c_is(c, '}'))
            ok = c_error(c, "syntax error in a declaration, unexpected %s, expecting , or }",
                         token_describe(&c->program->arena, c_peek(c, 0)));
    }
    *n = found.n;
    *list = arena_alloc(&c->types->arena, found.n * sizeof **list);
    if (found.n)
        memcpy(*list, found.at, found.n * sizeof **list);
    VEC_FREE(&found);
    return ok;
}

/* gcc: unsigned int, or int if a constant is negative; 64 bits if a constant needs them; packed: the smallest. */
static const struct script_type *enum_type(struct c_parser *c, const struct script_enum *enumeration, bool is_packed)
{
    int64_t low = 0, high = 0;
    for (size_t i = 0; i < enumeration->n_constants; i++) {
        if (enumeration->constants[i].value < low)
            low = enumeration->constants[i].value;
        if (enumeration->constants[i].value > high)
            high = enumeration->constants[i].value;
    }
    bool is_signed = low < 0;
    unsigned bytes = is_packed ? 1 : 4;
    while (bytes < 8) {
        unsigned bits = bytes * 8 - is_signed;
        if (high < INT64_C(1) << bits && low >= -(INT64_C(1) << (bytes * 8 - 1)))
            break;
        bytes *= 2;
    }
    return script_type_enum(c->types, bytes, is_signed, enumeration);
}

const struct script_type *c_enum(struct c_parser *c)
{
    c->at++;
    struct c_attributes attributes = {0};
    c_attributes(c, &attributes);
    struct script_enum *enumeration = arena_alloc(&c->types->arena, sizeof *enumeration);
    enumeration->name = "enum (unnamed)";
    bool has_name = c_peek(c, 0)->kind == TOKEN_NAME;
    if (has_name) {
        enumeration->name = arena_format(&c->types->arena, "enum %s", c_peek(c, 0)->text);
        c->at++;
    }
    if (!c_accept(c, '{')) {
        const struct script_type *old = has_name ? table_get(&c->types->names, enumeration->name) : NULL;
        return old ? old : script_type_int(c->types, 4, false);
    }
    if (!constants(c, &enumeration->constants, &enumeration->n_constants))
        return NULL;
    c->at++;
    c_attributes(c, &attributes);
    const struct script_type *type = enum_type(c, enumeration, attributes.is_packed);
    for (size_t i = 0; i < enumeration->n_constants; i++)
        table_put(&c->types->enumerators, enumeration->constants[i].name, (void *)type);
    if (has_name)
        script_types_define(c->types, enumeration->name, type);
    return type;
}
