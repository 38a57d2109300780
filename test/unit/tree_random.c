/* Random traces against the model (test/tree/model.h): recursion, returns that are missing or too many, exceptions, longjmp, tail calls,
 * threads, switches, losses, samples of complete, cut and foreign stacks. Every node, flat row and ArcFlow row is what looking at
 * everything that happened gives; ArcFlow's equations hold; merged trees, snapshots, comparisons and trees that were written as records
 * too. usage: tree_random [FIRST-SEED [COUNT]]. timeout: 300 */
#include "test/tree/model.h"

enum { FUNCTIONS_MAX = 10, OPEN_MAX = 30, THREADS_MAX = 4 };

static unsigned long seed;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 33) % below);
}

/* ---- a program that runs, and what is recorded of it ---- */

struct program {
    struct test_source source;
    uint32_t functions, traced; /* functions below `traced` have probes */
    bool has_switches;
    uint32_t chance[8]; /* of what happens, in percent */
    char names[FUNCTIONS_MAX][16];
};

struct thread {
    VEC(struct trace_record) records;
    uint32_t stack[OPEN_MAX], n; /* what is really on the stack */
    uint64_t now;
    struct model model;
};

static void program_init(struct program *program)
{
    memset(program, 0, sizeof *program);
    program->functions = 1 + draw(FUNCTIONS_MAX - 1);
    program->traced = draw(5) ? 1 + draw(program->functions) : 0;
    program->has_switches = draw(2);
    for (size_t i = 0; i < sizeof program->chance / sizeof *program->chance; i++)
        program->chance[i] = draw(3) ? draw(30) : 0;
    for (uint32_t i = 0; i < program->functions; i++) {
        snprintf(program->names[i], sizeof program->names[i], "f%u", i);
        add_function(&program->source, program->names[i], TRACE_NONE);
    }
}

static void record(const struct program *program, struct thread *thread, uint8_t major, uint8_t minor, uint32_t number)
{
    struct trace_record record = {.time_ns = thread->now, .major = major, .minor = minor, .number = number};
    if (major == TRACE_CALL && number >= program->traced)
        return;
    if (major == TRACE_SAMPLE) {
        record.metric = (uint16_t)draw(MODEL_METRICS);
        record.value = draw(4) ? draw(1000) : 0;
        if (record.metric)
            record.value -= draw(600); /* given back */
    }
    if (major == TRACE_LOSS)
        record.value = draw(5);
    if (!draw(60) && thread->now > 3)
        record.time_ns -= draw(3);
    model_add(&thread->model, &program->source, &record, program->has_switches);
    VEC_PUSH(&thread->records, record);
}

static void leave(struct program *program, struct thread *thread, bool is_recorded)
{
    uint32_t function = thread->stack[--thread->n];
    if (is_recorded)
        record(program, thread, TRACE_CALL, TRACE_RETURN, function);
}

static void sample(struct program *program, struct thread *thread)
{
    uint32_t frames[OPEN_MAX + 4], count = 0, from = 0;
    uint8_t minor = (uint8_t)(TRACE_TIMER + draw(draw(3) ? 3 : 5));
    if (draw(8) == 0) {
        record(program, thread, TRACE_SAMPLE, minor, TRACE_NONE);
        return;
    }
    if (draw(6) == 0) { /* foreign */
        for (uint32_t i = 1 + draw(6); i > 0; i--)
            frames[count++] = draw(program->functions);
    } else { /* whole, or without its outermost frames */
        if (draw(6) == 0 && thread->n)
            from = draw(thread->n);
        for (uint32_t i = from; i < thread->n; i++)
            frames[count++] = thread->stack[i];
        if (!count || draw(3) == 0)
            frames[count++] = draw(program->functions);
    }
    record(program, thread, TRACE_SAMPLE, minor, add_stack(&program->source, frames, count));
}

/* Lost returns may leave open in the record what is long gone: the thread begins anew before that is too deep. */
static void unwind_everything(struct program *program, struct thread *thread)
{
    thread->n = 0;
    if (thread->model.open.n)
        record(program, thread, TRACE_CALL, TRACE_RETURN, thread->model.open.function[0]);
}

static void step(struct program *program, struct thread *thread)
{
    uint32_t function = draw(program->functions);
    thread->now += draw(3) ? draw(20) : 0;
    if (thread->n >= OPEN_MAX - 1 || thread->model.open.n >= 2 * OPEN_MAX) {
        unwind_everything(program, thread);
    } else if (draw(100) < program->chance[0]) {
        sample(program, thread);
    } else if (draw(100) < program->chance[1] / 2) { /* an exception, or a longjmp: nobody returns */
        for (uint32_t i = draw(thread->n + 1); i > 0; i--)
            leave(program, thread, false);
    } else if (draw(100) < program->chance[2] / 4) { /* a return that was never called */
        record(program, thread, TRACE_CALL, TRACE_RETURN, function);
    } else if (draw(100) < program->chance[3]) {
        record(program, thread, TRACE_THREAD, draw(2) ? TRACE_SWITCH_IN : TRACE_SWITCH_OUT, 0);
    } else if (draw(100) < program->chance[4] / 2 && thread->n && thread->stack[thread->n - 1] < program->traced &&
               function < program->traced) {
        thread->stack[thread->n - 1] = function;
        record(program, thread, TRACE_CALL, TRACE_ENTER_TAIL, function);
    } else if (draw(100) < program->chance[5] / 6) {
        record(program, thread, TRACE_LOSS, TRACE_LOST, draw(TRACE_LOSSES));
    } else if (thread->n && draw(100) < 48) {
        leave(program, thread, draw(100) >= program->chance[6] / 6);
    } else {
        thread->stack[thread->n++] = function;
        if (draw(100) >= program->chance[7] / 6)
            record(program, thread, TRACE_CALL, TRACE_ENTER, function);
    }
}

/* ---- checking ---- */

#define SEED_CHECK(condition, ...)                                                                                                         \
    do {                                                                                                                                   \
        int before = failures;                                                                                                             \
        CHECK(condition, __VA_ARGS__);                                                                                                     \
        if (failures != before && failures <= 20)                                                                                          \
            printf("  seed %lu\n", seed);                                                                                                  \
    } while (0)

struct checked {
    const struct program *program;
    const struct tree_set *set;
    const struct tree *tree;
    const struct model *model;
    const char *what;
    const struct tree_node *node;
    size_t nodes;
};

static uint32_t function_of(const struct checked *c, uint32_t routine)
{
    const char *name = tree_routine(c->set, routine);
    for (uint32_t i = 0; i < c->program->functions; i++)
        if (!strcmp(c->program->names[i], name))
            return i;
    return TRACE_NONE;
}

static struct path path_of(const struct checked *c, uint32_t node)
{
    struct path path = {.n = c->node[node].level};
    for (uint32_t i = path.n; i-- > 0; node = c->node[node].parent) {
        path.function[i] = (uint16_t)function_of(c, c->node[node].routine);
        path.is_sampled[i] = c->node[node].is_sampled;
    }
    return path;
}

static void check_values(const struct checked *c, uint32_t i, const struct path *path)
{
    uint64_t samples = 0;
    struct answer time = ask(&c->model->times, path, 0);
    SEED_CHECK(tree_base(c->tree, i, TREE_EVENTS, 0) == time.value, "%s: base of node %u", c->what, i);
    SEED_CHECK(tree_cum(c->tree, i, TREE_EVENTS, 0) == time.value_below, "%s: cum of node %u", c->what, i);
    SEED_CHECK(c->node[i].is_sampled || tree_elapsed(c->tree, i, 0) == time.wall_below, "%s: elapsed of node %u", c->what, i);
    for (unsigned m = 0; m < MODEL_METRICS; m++) {
        struct answer sampled = ask(&c->model->samples, path, m), counted = ask(&c->model->counted, path, m);
        samples += sampled.count;
        SEED_CHECK(tree_samples(c->tree, i, m) == sampled.count, "%s: samples of node %u", c->what, i);
        SEED_CHECK(tree_passed(c->tree, i, m) == ask(&c->model->passed, path, m).count, "%s: samples that passed node %u", c->what, i);
        SEED_CHECK(tree_base(c->tree, i, TREE_SAMPLES, m) == sampled.value, "%s: sampled base of node %u", c->what, i);
        SEED_CHECK(tree_cum(c->tree, i, TREE_SAMPLES, m) == sampled.value_below, "%s: sampled cum of node %u", c->what, i);
        if (m) {
            SEED_CHECK(tree_base(c->tree, i, TREE_EVENTS, m) == counted.value, "%s: base of metric %u", c->what, m);
            SEED_CHECK(tree_cum(c->tree, i, TREE_EVENTS, m) == counted.value_below, "%s: cum of metric %u", c->what, m);
            int64_t elapsed = c->node[i].is_sampled ? 0 : ask(&c->model->used, path, m).value_below;
            SEED_CHECK(tree_elapsed(c->tree, i, m) == elapsed, "%s: elapsed of metric %u at node %u: %lld, not %lld", c->what, m, i,
                       (long long)tree_elapsed(c->tree, i, m), (long long)elapsed);
        }
    }
    SEED_CHECK(c->node[i].samples == samples, "%s: all samples of node %u", c->what, i);
}

static void check_links(const struct checked *c)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < c->nodes; i++) {
        const struct tree_node *node = &c->node[i];
        uint32_t last = i, next = i + 1;
        sum += tree_base(c->tree, i, TREE_EVENTS, 0);
        for (uint32_t child = node->first_child; child != TRACE_NONE; last = child, child = c->node[child].next_sibling)
            SEED_CHECK(child > last && child < c->nodes && c->node[child].parent == i && c->node[child].level == node->level + 1,
                       "%s: children of node %u", c->what, i);
        while (next < c->nodes && c->node[next].routine != node->routine)
            next++;
        SEED_CHECK(node->next_instance == (next < c->nodes ? next : TRACE_NONE), "%s: instance after node %u", c->what, i);
        if (i) { /* the parent has it */
            uint32_t child = c->node[node->parent].first_child;
            while (child != i && child != TRACE_NONE)
                child = c->node[child].next_sibling;
            SEED_CHECK(child == i, "%s: node %u is not among the children of its parent", c->what, i);
        }
    }
    SEED_CHECK(sum == tree_cum(c->tree, 0, TREE_EVENTS, 0), "%s: sum of base", c->what);
}

/* Whether some happening is the first to be on the first `levels` of its path. */
static bool is_first_there(const happenings *const all[3], int list, size_t index, uint32_t levels)
{
    struct path prefix = all[list]->at[index].path;
    prefix.n = levels;
    for (int l = 0; l <= list; l++)
        for (size_t i = 0; i < (l == list ? index : all[l]->n); i++)
            if (path_begins(&all[l]->at[i].path, &prefix))
                return false;
    return true;
}

static void check_nodes(const struct checked *c, uint64_t threads)
{
    for (uint32_t i = 0; i < c->nodes; i++) {
        struct path path = path_of(c, i);
        uint64_t calls = i ? ask(&c->model->calls, &path, 0).count : threads;
        uint32_t recursion = i ? path_count(&path, path.n, path.function[path.n - 1]) : 1;
        SEED_CHECK(c->node[i].calls == calls, "%s: calls of node %u", c->what, i);
        SEED_CHECK(c->node[i].recursion == recursion, "%s: recursion of node %u: %u, not %u", c->what, i, c->node[i].recursion, recursion);
        check_values(c, i, &path);
    }
    size_t distinct = 1;
    const happenings *const all[3] = {&c->model->calls, &c->model->samples, &c->model->passed};
    for (int list = 0; list < 3; list++)
        for (size_t i = 0; i < all[list]->n; i++)
            for (uint32_t levels = 1; levels <= all[list]->at[i].path.n; levels++)
                distinct += is_first_there(all, list, i, levels);
    SEED_CHECK(distinct == c->nodes, "%s: %zu nodes, not %zu", c->what, c->nodes, distinct);
}

/* A row of numbers, by what happened. */
struct row {
    bool exists, is_recursive;
    uint64_t calls;
    int64_t base, cum, cum2, elapsed;
};

static const happenings *values_of(const struct checked *c, enum tree_what what, unsigned metric)
{
    return what == TREE_SAMPLES ? &c->model->samples : metric ? &c->model->counted : &c->model->times;
}

/* The routine's numbers: cum is of whatever has it on the stack, cum2 as often as it is there. */
static struct row ask_routine(const struct checked *c, enum tree_what what, unsigned metric, uint32_t function)
{
    struct row row = {0};
    const happenings *values = values_of(c, what, metric), *calls = what == TREE_SAMPLES ? values : &c->model->calls;
    for (size_t i = 0; i < values->n; i++) {
        const struct happening *one = &values->at[i];
        uint32_t times = path_count(&one->path, one->path.n, function);
        if (one->metric != metric || !times)
            continue;
        row.cum += one->value;
        row.cum2 += (int64_t)times * one->value;
        row.elapsed += metric ? 0 : one->wall;
        row.base += one->path.function[one->path.n - 1] == function ? one->value : 0;
    }
    for (size_t i = 0; i < c->model->used.n; i++) {
        const struct happening *one = &c->model->used.at[i];
        row.elapsed += one->metric == metric && path_count(&one->path, one->path.n, function) ? one->value : 0;
    }
    for (size_t i = 0; i < calls->n; i++) {
        const struct happening *one = &calls->at[i];
        uint32_t times = path_count(&one->path, one->path.n, function);
        if (what == TREE_SAMPLES && one->metric != metric)
            continue;
        row.exists |= times > 0;
        row.is_recursive |= times > 1;
        row.calls += one->path.n && one->path.function[one->path.n - 1] == function;
    }
    for (size_t i = 0; what == TREE_SAMPLES && i < c->model->passed.n; i++) {
        const struct happening *one = &c->model->passed.at[i];
        uint32_t times = one->metric == metric ? path_count(&one->path, one->path.n, function) : 0;
        row.exists |= times > 0;
        row.is_recursive |= times > 1;
    }
    return row;
}

/* The part of `child` that `parent` (TRACE_NONE: the thread) is the caller of. */
static struct row ask_arc(const struct checked *c, enum tree_what what, unsigned metric, uint32_t parent, uint32_t child, bool is_recursive)
{
    struct row row = {0};
    /* Values, what is counted, and what only is there. */
    const happenings *lists[] = {values_of(c, what, metric), what == TREE_SAMPLES ? &c->model->samples : &c->model->calls,
                                 &c->model->passed};
    for (int list = 0; list < (what == TREE_SAMPLES ? 3 : 2); list++)
        for (size_t i = 0; i < lists[list]->n; i++) {
            const struct happening *one = &lists[list]->at[i];
            if (one->metric != metric && !(list && what == TREE_EVENTS))
                continue;
            for (uint32_t level = 0; level < one->path.n; level++) {
                uint32_t caller = level ? one->path.function[level - 1] : TRACE_NONE;
                if (one->path.function[level] != child || caller != parent || (path_count(&one->path, level, child) > 0) != is_recursive)
                    continue;
                bool is_last = level + 1 == one->path.n;
                row.exists |= list > 0;
                row.calls += list == 1 && is_last;
                row.cum += list ? 0 : one->value;
                row.base += list || !is_last ? 0 : one->value;
            }
        }
    return row;
}

static void check_flat(const struct checked *c, enum tree_what what, unsigned metric)
{
    tree_flats flats;
    tree_flatten(c->set, c->tree, what, metric, &flats);
    size_t rows = 1;
    int64_t base = 0, cum = tree_cum(c->tree, 0, what, metric);
    for (uint32_t f = 0; f < c->program->functions; f++)
        rows += ask_routine(c, what, metric, f).exists;
    SEED_CHECK(rows == flats.n, "%s: %zu flat rows, not %zu", c->what, flats.n, rows);
    for (size_t i = 0; i < flats.n; i++) {
        const struct tree_flat *flat = &flats.at[i];
        SEED_CHECK(flat->is_root == !i, "%s: the root comes first", c->what);
        if (flat->is_root) {
            base += flat->base;
            SEED_CHECK(flat->base == tree_base(c->tree, 0, what, metric) && flat->cum == cum && flat->cum2 == cum && !flat->is_recursive &&
                           flat->calls == c->node[0].calls && flat->routine == c->node[0].routine,
                       "%s: flat root", c->what);
            continue;
        }
        struct row row = ask_routine(c, what, metric, function_of(c, flat->routine));
        base += flat->base;
        SEED_CHECK((what == TREE_EVENTS ? flat->calls : flat->samples) == row.calls && flat->base == row.base, "%s: flat base", c->what);
        SEED_CHECK(flat->cum == row.cum && flat->cum2 == row.cum2, "%s: flat cum", c->what);
        SEED_CHECK(flat->is_recursive == row.is_recursive, "%s: flat recursion", c->what);
        SEED_CHECK(what == TREE_SAMPLES || flat->elapsed == row.elapsed, "%s: flat elapsed", c->what);
        SEED_CHECK(i == 1 || flats.at[i - 1].cum >= flat->cum, "%s: flat order", c->what);
    }
    SEED_CHECK(base == cum, "%s: flat sum", c->what);
    VEC_FREE(&flats);
}

static const struct tree_stanza *find_stanza(const tree_stanzas *stanzas, uint32_t routine)
{
    for (size_t i = 0; i < stanzas->n; i++)
        if (stanzas->at[i].self.routine == routine)
            return &stanzas->at[i];
    return NULL;
}

static bool has_row(const struct tree_arc *arcs, size_t count, const struct tree_arc *row, uint32_t routine)
{
    for (size_t i = 0; i < count; i++)
        if (arcs[i].routine == routine && arcs[i].is_recursive == row->is_recursive)
            return arcs[i].calls == row->calls && arcs[i].base == row->base && arcs[i].cum == row->cum;
    return false;
}

static void check_stanza(const struct checked *c, enum tree_what what, unsigned metric, const tree_stanzas *stanzas,
                         const struct tree_stanza *stanza)
{
    const struct tree_flat *self = &stanza->self;
    uint64_t calls = 0;
    int64_t base = 0, parents = 0, all_parents = 0, children = 0;
    uint32_t function = function_of(c, self->routine), rows = 0;
    for (size_t i = 0; i < stanza->parent.n; i++) {
        const struct tree_arc *arc = &stanza->parent.at[i];
        const struct tree_stanza *other = find_stanza(stanzas, arc->routine);
        struct row row = ask_arc(c, what, metric, function_of(c, arc->routine), function, arc->is_recursive);
        calls += arc->calls;
        base += arc->base;
        all_parents += arc->cum;
        parents += arc->is_recursive ? 0 : arc->cum;
        SEED_CHECK(row.exists && arc->calls == row.calls && arc->base == row.base && arc->cum == row.cum, "%s: parent row", c->what);
        SEED_CHECK(other && has_row(other->child.at, other->child.n, arc, self->routine), "%s: no child row for a parent row", c->what);
    }
    for (size_t i = 0; i < stanza->child.n; i++) {
        const struct tree_arc *arc = &stanza->child.at[i];
        const struct tree_stanza *other = find_stanza(stanzas, arc->routine);
        children += arc->cum;
        SEED_CHECK(other && has_row(other->parent.at, other->parent.n, arc, self->routine), "%s: no parent row for a child row", c->what);
    }
    SEED_CHECK(children == self->cum2 - self->base, "%s: sum of cum over children", c->what);
    SEED_CHECK(self->is_recursive || self->cum == self->cum2, "%s: cum2 without recursion", c->what);
    SEED_CHECK(!self->is_root == (stanza->parent.n > 0), "%s: the root has no parents, all others have", c->what);
    if (self->is_root)
        return;
    for (uint32_t f = 0; f <= c->program->functions; f++)
        for (int r = 0; r < 2; r++)
            rows += ask_arc(c, what, metric, f < c->program->functions ? f : TRACE_NONE, function, r).exists;
    SEED_CHECK(rows == stanza->parent.n, "%s: %zu parent rows, not %u", c->what, stanza->parent.n, rows);
    SEED_CHECK(calls == (what == TREE_EVENTS ? self->calls : self->samples) && base == self->base, "%s: sum of calls and base", c->what);
    SEED_CHECK(parents == self->cum && all_parents == self->cum2, "%s: sum of cum over parents", c->what);
}

static void check_arcflow(const struct checked *c, enum tree_what what, unsigned metric)
{
    tree_stanzas stanzas;
    tree_flats flats;
    tree_arcflow(c->set, c->tree, what, metric, &stanzas);
    tree_flatten(c->set, c->tree, what, metric, &flats);
    SEED_CHECK(flats.n == stanzas.n, "%s: stanzas", c->what);
    for (size_t i = 0; i < stanzas.n; i++) {
        SEED_CHECK(!memcmp(&flats.at[i], &stanzas.at[i].self, sizeof *flats.at), "%s: stanza and flat row", c->what);
        check_stanza(c, what, metric, &stanzas, &stanzas.at[i]);
    }
    VEC_FREE(&flats);
    tree_stanzas_free(&stanzas);
}

static void check_tree(struct program *program, const struct tree_set *set, const struct tree *tree, const struct model *model,
                       const char *what, uint64_t threads)
{
    struct checked c = {program, set, tree, model, what, NULL, 0};
    c.node = tree_nodes(tree, &c.nodes);
    check_nodes(&c, threads);
    check_links(&c);
    for (unsigned m = 0; m < MODEL_METRICS; m++)
        for (enum tree_what w = TREE_EVENTS; w <= TREE_SAMPLES; w++) {
            check_flat(&c, w, m);
            check_arcflow(&c, w, m);
        }
}

static void check_oddities(const struct tree *tree, const struct model *model, const char *what)
{
    const struct tree_oddities *odd = tree_oddities(tree);
    SEED_CHECK(odd->returns_without_call == model->returns_without_call, "%s: returns without call", what);
    SEED_CHECK(odd->calls_without_return == model->calls_without_return, "%s: calls without return", what);
    SEED_CHECK(odd->unmatched_samples == model->unmatched_samples, "%s: unmatched samples", what);
    SEED_CHECK(odd->backward_times == model->backward_times, "%s: backward times", what);
    SEED_CHECK(odd->lost_calls == model->lost_calls && odd->lost_samples == model->lost_samples && odd->lost_stacks == model->lost_stacks,
               "%s: losses", what);
    SEED_CHECK(odd->open_at_end == model->open_at_end && !odd->folded_nodes && !odd->ignored_records, "%s: other oddities", what);
}

/* Both trees' nodes each once, on the same path in both. */
static void check_comparison(struct program *program, const struct tree_set *set, const struct tree *a, const struct tree *b)
{
    struct checked side[2] = {{program, set, a, NULL, "a", NULL, 0}, {program, set, b, NULL, "b", NULL, 0}};
    tree_differences differences;
    size_t seen[2] = {0, 0}, both = 0, wanted = 0;
    tree_compare(set, a, set, b, &differences);
    for (int s = 0; s < 2; s++)
        side[s].node = tree_nodes(side[s].tree, &side[s].nodes);
    for (uint32_t i = 0; i < differences.n; i++) {
        const struct tree_difference *d = &differences.at[i];
        const uint32_t node[2] = {d->node_a, d->node_b};
        struct path path[2];
        for (int s = 0; s < 2; s++) {
            if (node[s] == TRACE_NONE)
                continue;
            seen[s]++;
            path[s] = path_of(&side[s], node[s]);
            const struct tree_difference *parent = d->parent == TRACE_NONE ? NULL : &differences.at[d->parent];
            SEED_CHECK(!parent || (s ? parent->node_b : parent->node_a) == side[s].node[node[s]].parent, "parent of difference %u", i);
        }
        if (d->node_a != TRACE_NONE && d->node_b != TRACE_NONE) {
            both++;
            SEED_CHECK(path[0].n == path[1].n && path_begins(&path[0], &path[1]), "paths of difference %u", i);
        }
    }
    for (uint32_t i = 0; i < side[0].nodes; i++)
        for (uint32_t j = 0; j < side[1].nodes; j++) {
            struct path left = path_of(&side[0], i), right = path_of(&side[1], j);
            wanted += left.n == right.n && path_begins(&left, &right);
        }
    SEED_CHECK(seen[0] == side[0].nodes && seen[1] == side[1].nodes && both == wanted, "%zu nodes in both, not %zu", both, wanted);
    VEC_FREE(&differences);
}

/* ---- one trace ---- */

static void emit_to(void *tree, const struct trace_record *record)
{
    tree_add(tree, record, 1, false);
}

static void check_snapshot(struct program *program, struct tree_set *set, const struct tree *tree, struct thread *thread)
{
    struct model so_far = thread->model;
    struct tree *snapshot = tree_snapshot(tree, thread->now + 5);
    /* The model's lists may grow for the snapshot's last interval only. */
    size_t times = so_far.times.n;
    model_end(&so_far, thread->now + 5);
    check_tree(program, set, snapshot, &so_far, "snapshot", 1);
    so_far.times.n = times;
    thread->model.times = so_far.times;
    tree_destroy_snapshot(snapshot);
}

/* Some steps, whose records the tree gets in pieces of any size. */
static void run_thread(struct program *program, struct tree *tree, struct thread *thread, uint32_t steps)
{
    size_t added = thread->records.n;
    for (uint32_t i = 0; i < steps; i++) {
        step(program, thread);
        if (i + 1 == steps || !draw(5)) {
            tree_add(tree, thread->records.at + added, thread->records.n - added, program->has_switches);
            added = thread->records.n;
        }
    }
}

/* Threads of one process or of two take turns. */
static void run_threads(struct program *program, struct tree_set *set, struct thread *threads, uint32_t count)
{
    uint32_t left[THREADS_MAX], snapshot_at[THREADS_MAX], running = count;
    struct model *of_process[2] = {NULL, NULL};
    for (uint32_t t = 0; t < count; t++) {
        uint32_t process = draw(2);
        left[t] = 1 + draw(draw(8) ? 60 : 200);
        snapshot_at[t] = draw(4 * left[t]);
        threads[t].now = draw(1000);
        tree_join(tree_of_thread(set, t, t ? "1.2" : "1.1"), process);
        struct model *model = &threads[t].model, **first = &of_process[process];
        model->others = *first ? (*first)->others : model;
        if (*first)
            (*first)->others = model;
        *first = model;
    }
    while (running) {
        uint32_t t = draw(count), steps = 1 + draw(12);
        struct tree *tree = tree_of_thread(set, t, "");
        if (!left[t])
            continue;
        steps = steps < left[t] ? steps : left[t];
        run_thread(program, tree, &threads[t], steps);
        left[t] -= steps;
        if (snapshot_at[t] >= left[t] && snapshot_at[t] < left[t] + steps)
            check_snapshot(program, set, tree, &threads[t]);
        if (left[t])
            continue;
        uint64_t end = draw(2) ? threads[t].now + draw(10) : 0;
        tree_end(tree, end);
        model_end(&threads[t].model, end);
        running--;
    }
}

static void run_seed(void)
{
    struct program program;
    struct thread threads[THREADS_MAX];
    struct model all = {0};
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++)
        draw(2);
    program_init(&program);
    struct tree_source source = source_of(&program.source);
    struct tree_set *set = tree_set_create(&source, &(struct tree_options){.by = TREE_BY_FUNCTION});
    uint32_t count = draw(3) ? 1 : 1 + draw(THREADS_MAX);
    memset(threads, 0, sizeof threads);
    run_threads(&program, set, threads, count);
    for (uint32_t t = 0; t < count; t++) {
        struct tree *tree = tree_of_thread(set, t, "");
        check_tree(&program, set, tree, &threads[t].model, "thread", 1);
        check_oddities(tree, &threads[t].model, "thread");
        model_merge(&all, &threads[t].model);
    }
    if (count > 1) {
        check_tree(&program, set, tree_merge(set, "all"), &all, "merged", count);
        check_comparison(&program, set, tree_at(set, 0), tree_at(set, 1));
    }
    struct tree *again = tree_of_thread(set, 99, "1.1");
    tree_serialise(tree_at(set, 0), emit_to, again);
    tree_end(again, 0);
    check_tree(&program, set, again, &threads[0].model, "read back", 1);
    check_oddities(again, &threads[0].model, "read back");
    tree_set_destroy(set);
    source_deinit(&program.source);
    for (uint32_t t = 0; t < count; t++) {
        VEC_FREE(&threads[t].records);
        model_deinit(&threads[t].model);
    }
    model_deinit(&all);
}

int main(int argc, char **argv)
{
    const char *is_long = getenv("PROBITY_LONG");
    unsigned long first = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, count = is_long && *is_long ? 200000 : 10000;
    if (argc > 2)
        count = strtoul(argv[2], NULL, 0);
    for (seed = first; seed < first + count && failures < 20; seed++)
        run_seed();
    printf("%lu traces\n", seed - first);
    return report_checks();
}
