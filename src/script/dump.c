/* A checked clause as indented text, for -d and for tests. */
#include "script/check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct dump {
    FILE *out;
    const struct script_program *program;
    struct arena arena;
};

static const char *const op_names[] = {"+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "-", "~", "!"};

static void line(struct dump *d, unsigned depth)
{
    fprintf(d->out, "%*s", (int)depth * 2, "");
}

static void quoted(struct dump *d, const char *text, size_t length)
{
    fputc('"', d->out);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (isprint(c) && c != '"' && c != '\\')
            fputc(c, d->out);
        else
            fprintf(d->out, "\\x%02x", c);
    }
    fputc('"', d->out);
}

static const char *expr_name(enum script_expr_kind kind)
{
    static const char *const names[] = {
#define EXPR(name, fields) #name,
#include "script/nodes.def"
    };
    return names[kind];
}

static const char *stmt_name(enum script_stmt_kind kind)
{
    static const char *const names[] = {
#define STMT(name, fields) #name,
#include "script/nodes.def"
    };
    return names[kind];
}

static void statements(struct dump *d, const struct script_stmt *stmt, unsigned depth);

static void detail(struct dump *d, const struct script_expr *expr)
{
    FILE *out = d->out;
    switch (expr->kind) {
    case SCRIPT_E_INT:
        fprintf(out, expr->type->is_signed ? " %lld" : " %llu", (long long)expr->value);
        break;
    case SCRIPT_E_DOUBLE:
        fprintf(out, " %g", expr->number);
        break;
    case SCRIPT_E_STRING:
        fputc(' ', out);
        quoted(d, expr->text, expr->length);
        break;
    case SCRIPT_E_SCRATCH:
        fprintf(out, " slot %u", expr->slot);
        break;
    case SCRIPT_E_THREAD:
        fprintf(out, " self->%s", d->program->threads.at[expr->slot].name);
        break;
    case SCRIPT_E_MAP:
        fprintf(out, " %s", d->program->maps.at[expr->map].map.name);
        break;
    case SCRIPT_E_BUILTIN:
        fprintf(out, " %s", script_builtin_name(expr->builtin));
        if (expr->builtin == SCRIPT_B_ARG || expr->builtin == SCRIPT_B_SARG)
            fprintf(out, " %llu", (unsigned long long)expr->value);
        break;
    case SCRIPT_E_ARGUMENT:
        fprintf(out, " %s", expr->argument->name);
        break;
    case SCRIPT_E_REGISTER:
        fprintf(out, " %s", expr->text);
        break;
    case SCRIPT_E_UNARY:
    case SCRIPT_E_BINARY:
    case SCRIPT_E_COMPARE:
    case SCRIPT_E_COMPARE_BYTES:
        fprintf(out, " %s", op_names[expr->op]);
        break;
    case SCRIPT_E_STEP:
        fprintf(out, " %+lld%s", (long long)expr->value, expr->is_post ? " after" : "");
        break;
    case SCRIPT_E_LOAD:
    case SCRIPT_E_EXTRACT:
        fprintf(out, " +%llu bytes %llu", (unsigned long long)expr->offset, (unsigned long long)expr->bytes);
        if (expr->bit_size)
            fprintf(out, " bits %u:%u", expr->bit_offset, expr->bit_size);
        break;
    case SCRIPT_E_ADDRESS:
        fprintf(out, " %+lld", (long long)expr->offset);
        if (expr->right)
            fprintf(out, " %+lld * index", (long long)expr->value);
        break;
    case SCRIPT_E_CALL:
        fprintf(out, " %s", script_call_name(expr->call));
        if (expr->text) {
            fputc(' ', out);
            quoted(d, expr->text, expr->length);
        }
        if (expr->call == SCRIPT_C_USTACK)
            fprintf(out, " %llu", (unsigned long long)expr->value);
        if (call_has(expr->call, 'M') || (expr->call == SCRIPT_C_LEN && !expr->n_list))
            fprintf(out, " %s", d->program->maps.at[expr->map].map.name);
        break;
    default:
        break;
    }
}

static void expression(struct dump *d, const char *label, const struct script_expr *expr, unsigned depth)
{
    if (!expr)
        return;
    line(d, depth);
    if (label)
        fprintf(d->out, "%s: ", label);
    fputs(expr_name(expr->kind), d->out);
    detail(d, expr);
    fprintf(d->out, " :: %s\n", script_type_name(&d->arena, expr->type));
    expression(d, "key", expr->key, depth + 1);
    expression(d, "condition", expr->condition, depth + 1);
    expression(d, "target", expr->target, depth + 1);
    statements(d, expr->body, depth + 1);
    expression(d, NULL, expr->left, depth + 1);
    expression(d, NULL, expr->right, depth + 1);
    for (size_t i = 0; i < expr->n_list; i++)
        expression(d, NULL, expr->list[i], depth + 1);
}

static void statements(struct dump *d, const struct script_stmt *stmt, unsigned depth)
{
    for (; stmt; stmt = stmt->next) {
        if (stmt->kind == SCRIPT_S_EXPR) {
            expression(d, NULL, stmt->value, depth);
            continue;
        }
        line(d, depth);
        fprintf(d->out, "%s", stmt_name(stmt->kind));
        if (stmt->kind == SCRIPT_S_REPEAT)
            fprintf(d->out, " %llu", (unsigned long long)stmt->count);
        if (stmt->kind == SCRIPT_S_EACH)
            fprintf(d->out, " %s", d->program->maps.at[stmt->map].map.name);
        fputc('\n', d->out);
        expression(d, "condition", stmt->condition, depth + 1);
        expression(d, "to", stmt->target, depth + 1);
        expression(d, NULL, stmt->value, depth + 1);
        expression(d, "times", stmt->weight, depth + 1);
        expression(d, "from", stmt->low, depth + 1);
        expression(d, "below", stmt->high, depth + 1);
        statements(d, stmt->body, depth + 1);
        if (stmt->other) {
            line(d, depth);
            fputs("ELSE\n", d->out);
            statements(d, stmt->other, depth + 1);
        }
    }
}

static void actions(struct dump *d, const struct script_checked *checked)
{
    for (size_t i = 0; i < checked->n_actions; i++) {
        const struct script_action *action = &checked->actions[i];
        fprintf(d->out, "  action %zu: %s", i, script_call_name(action->call));
        if (action->is_map)
            fprintf(d->out, " %s", d->program->maps.at[action->map].map.name);
        if (action->top || action->divide)
            fprintf(d->out, " top %llu div %llu", (unsigned long long)action->top, (unsigned long long)action->divide);
        if (action->text) {
            fputc(' ', d->out);
            quoted(d, action->text, action->length);
        }
        fputs(" (", d->out);
        for (size_t j = 0; j < action->n_list; j++)
            fprintf(d->out, "%s%s", j ? ", " : "", script_type_name(&d->arena, action->list[j]->type));
        fputs(")\n", d->out);
    }
}

char *script_dump(const struct script_program *program, const struct script_checked *checked)
{
    char *text = NULL;
    size_t size = 0;
    struct dump d = {.out = open_memstream(&text, &size), .program = program};
    if (!d.out)
        return memory_text("");
    const struct script_clause *clause = &program->clauses.at[checked->clause].clause;
    for (size_t i = 0; i < clause->n_points; i++)
        fprintf(d.out, "%s%s", i ? ", " : "", clause->points[i].text);
    fprintf(d.out, " %s\n", checked->model == SCRIPT_ILP32 ? "ILP32" : "LP64");
    for (size_t i = 0; i < checked->n_slots; i++)
        fprintf(d.out, "  slot %zu :: %s\n", i, script_type_name(&d.arena, checked->slots[i]));
    actions(&d, checked);
    expression(&d, "predicate", checked->predicate, 1);
    statements(&d, checked->body, 1);
    fclose(d.out);
    arena_deinit(&d.arena);
    return text;
}
