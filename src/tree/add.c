/* Records to nodes: calls and time (rules 1 and 5). */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_ROOM_MIN = 16, OPEN_ROOM_SURE = 64, NAMES_ROOM_MIN = 64, NAMES_ROOM_EASY = 4096 };

/* ---- open calls by function: the innermost one of each, from there outwards by `outer` ---- */

static uint32_t find_name(const struct tree *tree, uint32_t ident)
{
    uint32_t mask = tree->names_room - 1;
    uint32_t at = (uint32_t)((ident * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (tree->names[at].ident != ident && tree->names[at].ident != TRACE_NONE)
        at = (at + 1) & mask;
    return at;
}

static void link_call(struct tree *tree, uint32_t index)
{
    struct open_call *call = &tree->open[index];
    call->slot = find_name(tree, call->ident);
    struct open_name *name = &tree->names[call->slot];
    if (name->ident == TRACE_NONE) {
        *name = (struct open_name){call->ident, TRACE_NONE};
        tree->names_n++;
    }
    call->outer = name->top;
    name->top = index;
}

/* Functions that are not open are left behind. */
static void rebuild_names(struct tree *tree, uint32_t room)
{
    if (room != tree->names_room) {
        tree_memory(tree, tree->names, tree->names_room * sizeof *tree->names, 0);
        tree->names = tree_memory(tree, NULL, 0, room * sizeof *tree->names);
        tree->names_room = room;
    }
    memset(tree->names, 0xff, room * sizeof *tree->names);
    tree->names_n = 0;
    for (uint32_t i = 0; i < tree->open_n; i++)
        if (tree->open[i].ident != TRACE_NONE)
            link_call(tree, i);
}

static __attribute__((noinline)) void make_room_for_name(struct tree *tree)
{
    uint32_t room = tree->names_room;
    if (room < NAMES_ROOM_EASY && tree_fits(tree, 2 * room * sizeof *tree->names))
        room *= 2;
    rebuild_names(tree, room);
}

/* ---- the stack of open calls ---- */

void tree_reset_open(struct tree *tree)
{
    if (!tree->open) {
        tree->open = tree_memory(tree, NULL, 0, OPEN_ROOM_MIN * sizeof *tree->open);
        tree->open_room = OPEN_ROOM_MIN;
        tree->set->open_room += tree->is_on_top ? 0 : OPEN_ROOM_MIN;
    }
    tree->open[0] = (struct open_call){.ident = TRACE_NONE, .recent_routine = TRACE_NONE};
    tree->open_n = 1;
    tree->too_deep = 0;
    rebuild_names(tree, tree->names_room ? tree->names_room : NAMES_ROOM_MIN);
}

/* An open call holds memory that folding can not give back: all of them together get a quarter of it. */
static bool may_deepen(const struct tree *tree)
{
    size_t limit = tree->set->options.memory_bytes, room = tree->open_room;
    size_t each = sizeof *tree->open + 4 * sizeof *tree->names + tree_node_bytes(tree);
    return !limit || 2 * room <= OPEN_ROOM_SURE || (tree->set->open_room + room) * each <= limit / 4;
}

static bool deepen(struct tree *tree)
{
    uint32_t room = 2 * tree->open_room, names_room = tree->names_room;
    while (names_room < 2 * room)
        names_room *= 2;
    if (room < tree->open_room || !may_deepen(tree) || !tree_make_room(tree, room * sizeof *tree->open + names_room * sizeof *tree->names))
        return false;
    tree->set->open_room += tree->is_on_top ? 0 : tree->open_room;
    tree->open = tree_memory(tree, tree->open, tree->open_room * sizeof *tree->open, room * sizeof *tree->open);
    tree->open_room = room;
    if (names_room != tree->names_room)
        rebuild_names(tree, names_room);
    return true;
}

/* The call has no place of its own: the one that stands for all of these is paid by the innermost one that has. */
static void enter_too_deep(struct tree *tree)
{
    tree_column(tree, 0, COLUMN_FOLDED);
    const struct open_call *top = &tree->open[tree->open_n - 1];
    tree->node[top->node].folded_calls++;
    if (!tree->too_deep++)
        tree->open[tree->open_n++] = (struct open_call){
            .node = top->node, .ident = TRACE_NONE, .recent_routine = TRACE_NONE, .flags = CALL_FOLDED, .enter_ns = tree->last_ns};
}

/* The node of a call of `routine` by the innermost open call. */
static __attribute__((noinline)) uint32_t find_node(struct tree *tree, uint32_t routine, uint32_t *flags)
{
    uint32_t at = tree->open_n - 1, parent = tree->open[at].node;
    *flags = tree->open[at].flags & CALL_FOLDED;
    if (!*flags && tree->set->options.by == TREE_BY_MODULE && at && tree->node[parent].routine == routine)
        *flags = CALL_INNER;
    if (*flags)
        return parent;
    /* The caller's node was just in use, and the callee's will be: where it is the first child nothing else is touched. */
    uint32_t node = tree->node[parent].first_child;
    if (node == TRACE_NONE || tree->node[node].routine != routine || tree->node[node].is_sampled)
        node = tree_add_child(tree, parent, routine, false);
    if (node != TRACE_NONE) {
        tree->open[at].recent_routine = routine;
        tree->open[at].recent_child = node;
        return node;
    }
    *flags = CALL_FOLDED;
    tree_column(tree, 0, COLUMN_FOLDED);
    return tree->open[at].node;
}

static inline void enter(struct tree *tree, struct tree_ids ids)
{
    if (__builtin_expect(tree->open_n + 1 >= tree->open_room, 0) && (tree->too_deep || !deepen(tree))) {
        enter_too_deep(tree);
        return;
    }
    if (__builtin_expect(4 * tree->names_n >= 3 * tree->names_room, 0))
        make_room_for_name(tree);
    const struct open_call *top = &tree->open[tree->open_n - 1];
    uint32_t flags = 0, node;
    if (top->recent_routine == ids.routine)
        node = top->recent_child;
    else
        node = find_node(tree, ids.routine, &flags);
    /* It is written when the call ends. */
    __builtin_prefetch(&tree->metric[0]->at[COLUMN_BASE][node], 1);
    if (!flags)
        tree->node[node].calls++;
    else if (flags & CALL_FOLDED)
        tree->node[node].folded_calls++;
    tree->open[tree->open_n] =
        (struct open_call){.node = node, .ident = ids.ident, .recent_routine = TRACE_NONE, .flags = flags, .enter_ns = tree->last_ns};
    link_call(tree, tree->open_n++);
    if (__builtin_expect(tree->use->used_n, 0) && !flags)
        tree_begin_elapsed(tree, tree->open_n - 1);
}

static inline void settle_call(struct tree *tree, struct open_call *call)
{
    struct metric_columns *time = tree->metric[0];
    if (__builtin_expect(call->flags & CALL_FOLDED, 0))
        time->at[COLUMN_FOLDED][call->node] += call->base;
    else
        time->at[COLUMN_BASE][call->node] += call->base;
    call->base = 0;
}

void tree_settle(struct tree *tree)
{
    for (uint32_t i = 0; i < tree->open_n; i++)
        settle_call(tree, &tree->open[i]);
}

/* Ends the innermost open call. */
static inline void leave(struct tree *tree)
{
    if (__builtin_expect(tree->use->used_n, 0) && !tree->open[tree->open_n - 1].flags)
        tree_end_elapsed(tree, tree->open_n - 1);
    struct open_call *call = &tree->open[--tree->open_n];
    settle_call(tree, call);
    if (!call->flags)
        tree->node[call->node].elapsed_ns += tree->last_ns - call->enter_ns;
    if (call->ident != TRACE_NONE)
        tree->names[call->slot].top = call->outer;
}

static void leave_too_deep(struct tree *tree)
{
    if (!--tree->too_deep)
        leave(tree);
}

static inline void leave_function(struct tree *tree, uint32_t ident)
{
    if (__builtin_expect(tree->open[tree->open_n - 1].ident == ident, 1)) {
        leave(tree);
        return;
    }
    if (tree->too_deep) {
        leave_too_deep(tree);
        return;
    }
    const struct open_name *name = &tree->names[find_name(tree, ident)];
    if (name->ident == TRACE_NONE || name->top == TRACE_NONE) {
        tree->oddities.returns_without_call++;
        return;
    }
    uint32_t index = name->top;
    tree->oddities.calls_without_return += tree->open_n - 1 - index;
    while (tree->open_n > index)
        leave(tree);
}

static void enter_by_jump(struct tree *tree, struct tree_ids ids)
{
    if (tree->too_deep)
        leave_too_deep(tree);
    else if (tree->open_n > 1)
        leave(tree);
    enter(tree, ids);
}

/* ---- what the kernel says of the thread's time ---- */

/* Takes from what is owed, at most so much. */
static uint64_t pay(uint64_t *owed, uint64_t most)
{
    uint64_t paid = *owed < most ? *owed : most;
    *owed -= paid;
    return paid;
}

static void add_ran(struct tree *tree, uint64_t ran_ns)
{
    uint64_t missing = ran_ns > tree->ran_ns ? ran_ns - tree->ran_ns : 0;
    tree->owed_ns += ran_ns < tree->ran_ns ? tree->ran_ns - ran_ns : 0;
    tree->ran_ns = ran_ns;
    tree->open[tree->open_n - 1].base += missing - pay(&tree->owed_ns, missing);
    for (uint32_t i = tree->open_n; i-- > 0 && tree->owed_ns;)
        tree->open[i].base -= pay(&tree->owed_ns, tree->open[i].base);
}

static uint64_t sum_of(const uint64_t *value, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; value && i < n; i++)
        sum += value[i];
    return sum;
}

/* What is still owed, in proportion; what rounding leaves is taken from the first that have so much. */
static void pay_all(struct tree *tree)
{
    uint64_t *const column[2] = {tree->metric[0]->at[COLUMN_BASE], tree->metric[0]->at[COLUMN_FOLDED]};
    uint64_t sum = sum_of(column[0], tree->n) + sum_of(column[1], tree->n);
    double share = sum > tree->owed_ns ? (double)tree->owed_ns / (double)sum : 1;
    for (int round = 0; round < 2 && tree->owed_ns; round++)
        for (int c = 0; c < 2; c++)
            for (uint32_t i = 0; column[c] && i < tree->n && tree->owed_ns; i++)
                column[c][i] -= pay(&tree->owed_ns, round ? column[c][i] : (uint64_t)((double)column[c][i] * share));
}

/* ---- records ---- */

static inline void advance(struct tree *tree, uint64_t time_ns)
{
    if (time_ns > tree->last_ns) {
        if (tree->is_running) {
            uint64_t passed_ns = time_ns - tree->last_ns;
            tree->ran_ns += passed_ns;
            tree->open[tree->open_n - 1].base +=
                __builtin_expect(tree->owed_ns, 0) ? passed_ns - pay(&tree->owed_ns, passed_ns) : passed_ns;
        }
        tree->last_ns = time_ns;
    } else if (time_ns < tree->last_ns) {
        tree->oddities.backward_times++;
    }
}

static void start(struct tree *tree, const struct trace_record *record, bool has_switches)
{
    tree->has_started = true;
    tree->start_ns = tree->last_ns = tree->open[0].enter_ns = record->time_ns;
    tree->is_running = !(has_switches && record->major == TRACE_THREAD && record->minor == TRACE_SWITCH_IN);
    tree->is_root_entered = true;
    tree_begin_elapsed(tree, 0);
}

static void say_running(struct tree *tree)
{
    if (tree->is_unsure) {
        tree->is_running = true;
        tree->is_unsure = false;
    }
}

static inline void add_call(struct tree *tree, const struct trace_record *record)
{
    struct tree_ids ids = tree_function_ids(tree->set, record->number);
    if (__builtin_expect(ids.ident == TRACE_NONE, 0)) {
        tree->oddities.ignored_records++;
        return;
    }
    if (__builtin_expect(tree->is_unsure, 0))
        say_running(tree);
    if (record->minor == TRACE_ENTER)
        enter(tree, ids);
    else if (record->minor == TRACE_RETURN)
        leave_function(tree, ids.ident);
    else if (record->minor == TRACE_ENTER_TAIL)
        enter_by_jump(tree, ids);
    else
        tree->oddities.ignored_records++;
}

static void add_loss(struct tree *tree, const struct trace_record *record, bool has_switches)
{
    switch (record->number) {
    case TRACE_LOSS_CALLS:
        tree->oddities.lost_calls += record->value;
        break;
    case TRACE_LOSS_SAMPLES:
        tree->oddities.lost_samples += record->value;
        tree->is_unsure = has_switches;
        break;
    case TRACE_LOSS_STACKS:
        tree->oddities.lost_stacks += record->value;
        break;
    default:
        tree->oddities.ignored_records++;
    }
}

static void add_other(struct tree *tree, const struct trace_record *record, bool has_switches)
{
    if (record->major == TRACE_SAMPLE && record->minor >= TRACE_TIMER && record->minor <= TRACE_OFF_CPU_PC) {
        if (record->minor == TRACE_TIMER || record->minor == TRACE_PC)
            say_running(tree);
        tree_add_sample(tree, record);
    } else if (record->major == TRACE_THREAD && (record->minor == TRACE_SWITCH_IN || record->minor == TRACE_SWITCH_OUT)) {
        tree->is_running = !has_switches || record->minor == TRACE_SWITCH_IN;
        tree->is_unsure = false;
    } else if (record->major == TRACE_THREAD && record->minor == TRACE_RAN && record->number == TRACE_ACCOUNT_RAN) {
        if (has_switches) /* else its time is elapsed time */
            add_ran(tree, record->value);
    } else if (record->major == TRACE_THREAD && record->minor == TRACE_RAN && record->number == TRACE_ACCOUNT_ESTIMATED) {
        tree->oddities.estimated_ns = record->value;
    } else if (record->major == TRACE_LOSS && record->minor == TRACE_LOST) {
        add_loss(tree, record, has_switches);
    } else {
        tree->oddities.ignored_records++;
    }
}

void tree_add(struct tree *tree, const struct trace_record *records, size_t count, bool has_switches)
{
    if (tree->is_ended)
        return;
    for (const struct trace_record *record = records; record < records + count; record++) {
        if (record->major == TRACE_CALL && __builtin_expect(tree->has_started, 1)) {
            advance(tree, record->time_ns);
            add_call(tree, record);
            continue;
        }
        if (record->major == TRACE_TREE) {
            tree_load_item(tree, record);
            continue;
        }
        if (!tree->has_started)
            start(tree, record, has_switches);
        advance(tree, record->time_ns);
        if (record->major == TRACE_CALL)
            add_call(tree, record);
        else
            add_other(tree, record, has_switches);
    }
}

void tree_end(struct tree *tree, uint64_t end_ns)
{
    if (tree->is_ended)
        return;
    tree_load_end(tree);
    if (tree->has_started && end_ns > tree->last_ns)
        advance(tree, end_ns);
    tree->oddities.open_at_end += tree->open_n - 1 + (tree->too_deep ? tree->too_deep - 1 : 0);
    while (tree->open_n > 1)
        leave(tree);
    if (tree->is_root_entered)
        tree_end_elapsed(tree, 0);
    settle_call(tree, &tree->open[0]);
    if (tree->owed_ns)
        pay_all(tree);
    if (tree->has_started)
        tree->node[0].elapsed_ns += tree->last_ns - tree->start_ns;
    tree->is_ended = true;
    tree_forget_samples(tree);
    tree_memory(tree, tree->names, tree->names_room * sizeof *tree->names, 0);
    tree->names = NULL;
    tree->names_n = tree->names_room = 0;
    tree_derive(tree);
}
