/* Trees through trace directories: records that were written give the tree of the same records, and a tree that was built live and written
 * with tree_write() is read back as it was, limits and all. */
#include "test/tree/source.h"
#include "test/unit/trace_files.h"

enum { FUNCTIONS = 30, RECORDS = 20000, THREADS = 2 };

static uint64_t state = 88172645463325252u;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 33) % below);
}

/* A writer that defines what the source has, by the same numbers. */
static struct trace_writer *open_writer(const char *path, const struct test_source *source)
{
    struct trace_writer *writer;
    require_no(trace_writer_create(path, &(struct trace_about){.has_switches = true}, &writer));
    uint32_t process =
        trace_define_process(writer, 1, &(struct trace_process){.pid = 77, .name = "p", .parent = TRACE_NONE, .start_ns = 1});
    trace_define_module(writer, &source->module.at[0]);
    for (uint32_t i = 0; i < source->function.n; i++)
        require(trace_define_function(writer, &source->function.at[i]) == i, "functions have their numbers");
    for (uint32_t i = 0; i < source->frame.n; i++)
        require(trace_define_frame(writer, &source->frame.at[i]) == i, "frames have their numbers");
    for (uint32_t i = 0; i < source->stack.n; i++)
        require(trace_define_stack(writer, &source->stack.at[i]) == i, "stacks have their numbers");
    require(trace_define_metric(writer, &(struct trace_metric){"bytes", "bytes"}) == 1, "a second metric");
    for (uint32_t t = 0; t < THREADS; t++)
        trace_define_thread(writer, 1, &(struct trace_thread){.process = process, .tid = 77 + t, .name = "t", .start_ns = 1});
    return writer;
}

static void make_source(struct test_source *source)
{
    static char names[FUNCTIONS][16];
    VEC_PUSH(&source->module, (struct trace_module){.path = "/bin/p"});
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        add_function(source, names[i], i % 3 ? 0 : TRACE_NONE);
    }
    while (source->stack.n < 200)
        add_stack_level(source, source->stack.n && draw(4) ? draw((uint32_t)source->stack.n) : TRACE_NONE, draw(FUNCTIONS));
}

static struct trace_record draw_record(uint64_t now, uint32_t *depth)
{
    uint32_t what = draw(20);
    struct trace_record record = {.time_ns = now, .major = TRACE_CALL, .minor = TRACE_ENTER, .number = draw(FUNCTIONS)};
    if (what < 4) {
        record = record_of(now, TRACE_SAMPLE, what < 2 ? TRACE_TIMER : TRACE_PLACE, draw(200));
        record.metric = what % 2;
        record.value = draw(50);
    } else if (what < 6) {
        record = record_of(now, TRACE_THREAD, what == 4 ? TRACE_SWITCH_IN : TRACE_SWITCH_OUT, 0);
    } else if (what < 13 || *depth > 40) {
        record.minor = TRACE_RETURN;
        *depth -= *depth > 0;
    } else {
        ++*depth;
    }
    return record;
}

static void check_equal(const struct tree_set *set_a, const struct tree *a, const struct tree_set *set_b, const struct tree *b,
                        const char *what)
{
    size_t count_a, count_b;
    const struct tree_node *node_a = tree_nodes(a, &count_a), *node_b = tree_nodes(b, &count_b);
    CHECK(count_a == count_b && count_a > 50, "%s: %zu nodes, %zu", what, count_a, count_b);
    CHECK(!memcmp(tree_oddities(a), tree_oddities(b), sizeof(struct tree_oddities)), "%s: oddities", what);
    for (uint32_t i = 0; i < count_a && i < count_b; i++) {
        struct tree_node x = node_a[i], y = node_b[i];
        CHECK(!strcmp(tree_routine(set_a, x.routine), tree_routine(set_b, y.routine)), "%s: name of node %u", what, i);
        CHECK(x.parent == y.parent && x.is_sampled == y.is_sampled && x.recursion == y.recursion && x.level == y.level, "%s: node %u", what,
              i);
        CHECK(x.calls == y.calls && x.samples == y.samples && x.elapsed_ns == y.elapsed_ns, "%s: numbers of node %u", what, i);
        CHECK(x.folded_calls == y.folded_calls && x.folded_base == y.folded_base, "%s: folded of node %u", what, i);
        for (int w = 0; w < 2; w++)
            for (unsigned m = 0; m < 3; m++)
                CHECK(tree_base(a, i, w, m) == tree_base(b, i, w, m) && tree_cum(a, i, w, m) == tree_cum(b, i, w, m) &&
                          tree_folded(a, i, w, m) == tree_folded(b, i, w, m) && tree_samples(a, i, m) == tree_samples(b, i, m) &&
                          tree_elapsed(a, i, m) == tree_elapsed(b, i, m),
                      "%s: values of node %u", what, i);
    }
}

static void note_progress(void *context, double share)
{
    double *last = context;
    CHECK(share >= *last && share <= 1, "progress from %g to %g", *last, share);
    *last = share;
}

static void check_read(const char *path, const struct tree_set *set, const char *what)
{
    struct trace *trace;
    double progress = 0;
    require_no(trace_open(path, &trace));
    struct tree_source from = tree_source_of_trace(trace);
    struct tree_set *read = tree_set_create(&from, &(struct tree_options){0});
    require_no(tree_set_read(read, trace, note_progress, &progress));
    CHECK(progress == 1 && !trace_info(trace)->is_cut, "%s: %g read", what, progress);
    CHECK(tree_count(read) == THREADS, "%s: %zu trees", what, tree_count(read));
    for (uint32_t t = 0; t < THREADS && t < tree_count(read); t++)
        check_equal(set, tree_at(set, t), read, tree_at(read, t), what);
    tree_set_destroy(read);
    trace_close(trace);
}

static void test_limit(const struct test_source *source, size_t memory_bytes)
{
    struct tree_source from = source_of((struct test_source *)(uintptr_t)source);
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = memory_bytes});
    char *records_path = temporary_directory(), *trees_path = temporary_directory();
    struct trace_writer *records = open_writer(records_path, source), *trees = open_writer(trees_path, source);
    uint64_t now[THREADS] = {1000, 1000};
    uint32_t depth[THREADS] = {0};
    struct tree *tree[THREADS] = {tree_of_thread(set, 0, "77.77"), tree_of_thread(set, 1, "77.78")};
    /* Calls and samples are in two channels: at the same time, calls are first. So times differ. */
    for (uint32_t i = 0; i < RECORDS * THREADS; i++) {
        uint32_t t = i % THREADS;
        struct trace_record record = draw_record(now[t] += 1 + draw(9), &depth[t]);
        tree_add(tree[t], &record, 1, true);
        trace_write(records, t, &record);
        /* A tree in between does not count in the end. */
        if (i == RECORDS) {
            struct tree *snapshot = tree_snapshot(tree[t], now[t]);
            tree_write(snapshot, trees, t);
            tree_destroy_snapshot(snapshot);
        }
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        tree_end(tree[t], 0);
        tree_write(tree[t], trees, t);
        CHECK((tree_oddities(tree[t])->folded_nodes > 0) == (memory_bytes > 0), "folded as wanted");
    }
    require_no(trace_writer_close(records));
    require_no(trace_writer_close(trees));
    if (!memory_bytes)
        check_read(records_path, set, "records");
    check_read(trees_path, set, "trees");
    tree_set_destroy(set);
    remove_directory(records_path);
    remove_directory(trees_path);
    free(records_path);
    free(trees_path);
}

int main(void)
{
    struct test_source source = {0};
    make_source(&source);
    test_limit(&source, 0);
    test_limit(&source, 200 * 1024);
    source_deinit(&source);
    return report_checks();
}
