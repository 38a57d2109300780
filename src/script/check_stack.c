/* ustack, ustack(frames), ustack(mode), ustack(mode, frames), and len() of one. */
#include "script/check.h"

#include <string.h>

enum { USUAL_FRAMES = 127, MOST_FRAMES = 1024 };

static const char *const modes[] = {[SCRIPT_STACK_BPFTRACE] = "bpftrace", [SCRIPT_STACK_PERF] = "perf", [SCRIPT_STACK_RAW] = "raw"};
enum { MODES = sizeof modes / sizeof *modes };

/* Its number, or MODES. */
static size_t find_mode(const char *name)
{
    size_t i = 0;
    while (i < MODES && strcmp(modes[i], name) != 0)
        i++;
    return i;
}

static bool take_mode(struct checker *c, const struct node *node, size_t *mode)
{
    *mode = find_mode(node->text);
    if (*mode < MODES)
        return true;
    struct near near = {.wanted = node->text};
    for (size_t i = 0; i < MODES; i++)
        near_try(&near, modes[i]);
    report(c->program, true, node->span, near_hint(&near, c->arena), "ustack: no such mode: '%s'; there are bpftrace, perf and raw",
           node->text);
    return false;
}

static bool take_frames(struct checker *c, const struct node *node, uint64_t *frames)
{
    struct script_expr *value = check_expr(c, node);
    if (is_bad(value))
        return false;
    if (value->kind != SCRIPT_E_INT || value->type->kind != SCRIPT_T_INT) {
        ERROR(c->program, node->span, "ustack: the number of frames must be known before the script runs");
        return false;
    }
    if (value->value < 1 || value->value > MOST_FRAMES) {
        ERROR(c->program, node->span, "ustack: the number of frames must be between 1 and %d (%lld provided)", MOST_FRAMES,
              (long long)value->value);
        return false;
    }
    *frames = value->value;
    return true;
}

struct script_expr *check_stack(struct checker *c, const struct node *node)
{
    const char *usual = script_config(c->program, "stack_mode");
    size_t mode = usual ? find_mode(usual) : SCRIPT_STACK_BPFTRACE, at = 0;
    uint64_t frames = USUAL_FRAMES;
    if (mode == MODES)
        return FAIL(c, node->span, "stack_mode: no such mode: '%s'; there are bpftrace, perf and raw", usual);
    bool names_mode = node->n_list && node->list[0]->kind == N_NAME && (node->n_list == 2 || find_mode(node->list[0]->text) < MODES);
    if (names_mode && !take_mode(c, node->list[at++], &mode))
        return expr_bad(c, node->span);
    if (at < node->n_list && !take_frames(c, node->list[at++], &frames))
        return expr_bad(c, node->span);
    if (at < node->n_list)
        return FAIL(c, node->span, "ustack: expected ustack(mode, frames)");
    struct script_expr *expr = call_new(c, SCRIPT_C_USTACK, node->span, script_type_plain(c->types, SCRIPT_T_STACK), 0);
    expr->text = modes[mode];
    expr->length = strlen(modes[mode]);
    expr->slot = (uint32_t)mode;
    expr->value = frames;
    return expr;
}

struct script_expr *check_stack_length(struct checker *c, const struct node *node)
{
    struct script_expr *value = check_expr(c, node->list[0]);
    if (is_bad(value))
        return value;
    if (value->type->kind != SCRIPT_T_STACK)
        return FAIL(c, node->list[0]->span, "len() expects a map or a stack to be provided");
    struct script_expr *expr = call_new(c, SCRIPT_C_LEN, node->span, int64_type(c, true), 1);
    expr->list[0] = value;
    return expr;
}
