/* Types of debug information in C's own words, for -lv. */
#include "live/match.h"

static void put_type(FILE *out, struct symbol_dwarf *dwarf, const struct symbol_type *type, int depth)
{
    enum { DEEPEST = 16 };
    const struct symbol_type *to = NULL;
    const char *name = type && type->name ? type->name : "";
    if (!type || depth > DEEPEST) {
        fprintf(out, "?");
        return;
    }
    switch (type->kind) {
    case SYMBOL_TYPE_VOID:
        fprintf(out, "void");
        break;
    case SYMBOL_TYPE_STRUCT:
        fprintf(out, "struct %s", *name ? name : "{...}");
        break;
    case SYMBOL_TYPE_UNION:
        fprintf(out, "union %s", *name ? name : "{...}");
        break;
    case SYMBOL_TYPE_ENUM:
        fprintf(out, "enum %s", *name ? name : "{...}");
        break;
    case SYMBOL_TYPE_FUNCTION:
        fprintf(out, "void (*)()");
        break;
    case SYMBOL_TYPE_POINTER:
        err_free(symbol_dwarf_target(dwarf, type, &to));
        put_type(out, dwarf, to, depth + 1);
        fprintf(out, to && to->kind == SYMBOL_TYPE_POINTER ? "*" : to && to->kind == SYMBOL_TYPE_FUNCTION ? "" : " *");
        break;
    case SYMBOL_TYPE_ARRAY:
        put_type(out, dwarf, type->target, depth + 1);
        fprintf(out, "[%llu]", (unsigned long long)type->count);
        break;
    default:
        fprintf(out, "%s", *name ? name : "?");
        break;
    }
}

void live_put_declaration(FILE *out, struct symbol_dwarf *dwarf, const struct symbol_type *type, const char *name)
{
    put_type(out, dwarf, type, 0);
    fprintf(out, " %s", name && *name ? name : "?");
}
