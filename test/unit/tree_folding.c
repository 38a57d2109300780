/* Trees in limited memory: sums stay what they are, memory never passes the limit, calls that are open stay, what matters stays exact,
 * slots are used again; also where a stack only grows, and where threads come and go. Random traces, and some made for it. timeout: 300 */
#include "test/tree/source.h"

#include <malloc.h>

enum { FUNCTIONS = 400, METRICS = 2, DEPTH_MAX = 60 };

static unsigned long seed;
static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 33) % below);
}

#define SEED_CHECK(condition, ...)                                                                                                         \
    do {                                                                                                                                   \
        int before = failures;                                                                                                             \
        CHECK(condition, __VA_ARGS__);                                                                                                     \
        if (failures != before && failures <= 20)                                                                                          \
            printf("  seed %lu\n", seed);                                                                                                  \
    } while (0)

static struct test_source source;
static char names[FUNCTIONS][16];

static void make_source(void)
{
    for (uint32_t i = 0; i < FUNCTIONS; i++) {
        snprintf(names[i], sizeof names[i], "f%u", i);
        add_function(&source, names[i], TRACE_NONE);
    }
    for (uint32_t i = 0; i < 3000; i++)
        VEC_PUSH(&source.stack, (struct trace_stack){i % 12 ? i - 1 : TRACE_NONE, draw(FUNCTIONS)});
}

/* ---- what went in, and what is there ---- */

/* The same of both. */
struct sums {
    uint64_t calls, samples;
    int64_t value[2][METRICS];
};

/* Of the two trees of a thread, nodes and what was folded into them. */
static uint64_t sum_passed(const struct tree *tree)
{
    size_t count;
    uint64_t passed = 0;
    tree_nodes(tree, &count);
    for (uint32_t i = 0; i < count; i++)
        for (unsigned m = 0; m < METRICS; m++)
            passed += tree_passed(tree, i, m) + tree_passed_folded(tree, i, m);
    return passed;
}

static struct sums sum_tree(const struct tree *tree)
{
    struct sums sums = {0};
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    for (uint32_t i = 0; i < count; i++) {
        sums.calls += node[i].calls + node[i].folded_calls;
        for (unsigned m = 0; m < METRICS; m++)
            for (int w = 0; w < 2; w++)
                sums.value[w][m] += tree_base(tree, i, w, m) + tree_folded(tree, i, w, m);
    }
    sums.calls--; /* the root's own */
    return sums;
}

static void check_inside(const struct tree *tree, const struct sums *in, const char *what)
{
    struct sums sums = sum_tree(tree);
    SEED_CHECK(sums.calls == in->calls, "%s: %llu calls, not %llu", what, (unsigned long long)sums.calls, (unsigned long long)in->calls);
    for (unsigned m = 0; m < METRICS; m++)
        for (int w = 0; w < 2; w++) {
            SEED_CHECK(sums.value[w][m] == in->value[w][m], "%s: sum of %d %u", what, w, m);
            SEED_CHECK(tree_cum(tree, 0, w, m) == in->value[w][m], "%s: cum of the root, %d %u", what, w, m);
        }
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    for (uint32_t i = 0; i < count; i++) {
        int64_t cum = tree_base(tree, i, TREE_EVENTS, 0) + (int64_t)node[i].folded_base;
        for (uint32_t child = node[i].first_child; child != TRACE_NONE; child = node[child].next_sibling)
            cum += tree_cum(tree, child, TREE_EVENTS, 0);
        SEED_CHECK(cum == tree_cum(tree, i, TREE_EVENTS, 0), "%s: cum of node %u", what, i);
        SEED_CHECK(!i || node[i].parent < i, "%s: parent of node %u", what, i);
        uint32_t recursion = 0;
        for (uint32_t above = i; above != TRACE_NONE; above = node[above].parent)
            recursion += node[above].routine == node[i].routine;
        SEED_CHECK(node[i].recursion == recursion, "%s: recursion of node %u", what, i);
    }
}

/* Every call that is open has its node. */
static void check_open(const struct tree_set *set, const struct tree *tree, const uint32_t *open, uint32_t n, const char *what)
{
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    uint32_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t child = node[at].first_child;
        while (child != TRACE_NONE && (node[child].is_sampled || strcmp(tree_routine(set, node[child].routine), names[open[i]])))
            child = node[child].next_sibling;
        SEED_CHECK(child != TRACE_NONE, "%s: open call %u of %u has no node", what, i, n);
        if (child == TRACE_NONE)
            return;
        at = child;
    }
}

/* ---- random traces ---- */

struct thread {
    struct tree *limited, *whole;
    uint32_t open[DEPTH_MAX], n;
    uint64_t now;
    struct sums in;
    bool has_room; /* for every call that is open */
};

static void feed(struct thread *thread, const struct trace_record *record)
{
    tree_add(thread->limited, record, 1, false);
    tree_add(thread->whole, record, 1, false);
}

static void step(struct thread *thread, uint32_t depth, uint32_t functions, uint32_t sampling)
{
    uint32_t passed = thread->now ? draw(50) : 0;
    struct trace_record record = {.time_ns = thread->now += passed + !thread->now};
    thread->in.value[TREE_EVENTS][0] += passed;
    if (draw(100) < sampling) {
        record.major = TRACE_SAMPLE;
        record.minor = TRACE_PLACE;
        record.metric = (uint16_t)draw(METRICS);
        record.value = draw(1000);
        if (record.metric)
            record.value -= draw(900); /* given back */
        record.number = draw(4) ? draw((uint32_t)source.stack.n) : TRACE_NONE;
        thread->in.value[record.number == TRACE_NONE && record.metric ? TREE_EVENTS : TREE_SAMPLES][record.metric] += record.value;
    } else if (thread->n && (thread->n >= depth || draw(2))) {
        record.major = TRACE_CALL;
        record.minor = TRACE_RETURN;
        record.number = thread->open[--thread->n];
    } else {
        record.major = TRACE_CALL;
        record.minor = TRACE_ENTER;
        /* Few functions most of the time, all of them now and then. */
        record.number = draw(draw(3) ? 1 + functions / 20 : functions);
        thread->open[thread->n++] = record.number;
        thread->in.calls++;
    }
    feed(thread, &record);
}

/* Nothing is in the limited tree that is not in the whole one, and nothing is more. */
static void check_part(const struct tree_set *limited_set, const struct tree_set *whole_set, const struct thread *thread)
{
    tree_differences differences;
    size_t count;
    const struct tree_node *limited = tree_nodes(thread->limited, &count), *whole = tree_nodes(thread->whole, &count);
    tree_compare(limited_set, thread->limited, whole_set, thread->whole, &differences);
    for (size_t i = 0; i < differences.n; i++) {
        uint32_t a = differences.at[i].node_a, b = differences.at[i].node_b;
        SEED_CHECK(b != TRACE_NONE, "%s is not in the whole tree", differences.at[i].name);
        if (a == TRACE_NONE || b == TRACE_NONE)
            continue;
        SEED_CHECK(limited[a].calls <= whole[b].calls && limited[a].elapsed_ns <= whole[b].elapsed_ns, "calls of %s",
                   differences.at[i].name);
        for (int w = 0; w < 2; w++)
            SEED_CHECK(tree_cum(thread->limited, a, w, 0) <= tree_cum(thread->whole, b, w, 0), "cum of %s", differences.at[i].name);
    }
    VEC_FREE(&differences);
}

/* A tree that has ended can still be folded for others: this is true again and again. */
static void check_thread(const struct tree_set *limited, const struct tree_set *whole, struct thread *thread)
{
    tree_end(thread->limited, 0);
    tree_end(thread->whole, 0);
    check_inside(thread->limited, &thread->in, "limited");
    check_inside(thread->whole, &thread->in, "whole");
    check_part(limited, whole, thread);
    SEED_CHECK(!thread->has_room || sum_passed(thread->limited) == sum_passed(thread->whole), "%llu samples passed, not %llu",
               (unsigned long long)sum_passed(thread->limited), (unsigned long long)sum_passed(thread->whole));
}

static void run_seed(uint64_t *folded)
{
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++)
        draw(2);
    size_t limit = (24 + draw(200)) * 1024, peak;
    uint32_t count = 1 + draw(4), depth = 2 + draw(DEPTH_MAX - 2), functions = 2 + draw(FUNCTIONS - 2), sampling = draw(2) ? draw(30) : 0;
    struct tree_source from = source_of(&source);
    struct tree_set *limited = tree_set_create(&from, &(struct tree_options){.memory_bytes = limit});
    struct tree_set *whole = tree_set_create(&from, &(struct tree_options){0});
    struct thread threads[4] = {0};
    for (uint32_t t = 0; t < count; t++) {
        threads[t].limited = tree_of_thread(limited, t, "1.1");
        threads[t].whole = tree_of_thread(whole, t, "1.1");
        threads[t].has_room = depth < 16 && limit >= 64 * 1024;
    }
    uint32_t steps = 2000 + draw(6000);
    for (uint32_t i = 0; i < steps; i++) {
        struct thread *thread = &threads[draw(count)];
        step(thread, depth, functions, sampling);
        if (!draw(1500)) {
            struct tree *snapshot = tree_snapshot(thread->limited, 0);
            check_inside(snapshot, &thread->in, "snapshot");
            if (thread->has_room)
                check_open(limited, snapshot, thread->open, thread->n, "snapshot");
            tree_destroy_snapshot(snapshot);
        }
    }
    size_t used = tree_set_memory(limited, &peak);
    SEED_CHECK(peak <= limit && used <= peak, "%zu bytes at most, %zu allowed", peak, limit);
    check_thread(limited, whole, &threads[0]);
    for (uint32_t i = 0; i < steps && count > 1; i++)
        step(&threads[1 + draw(count - 1)], depth, functions, sampling);
    for (uint32_t t = 0; t < count; t++) {
        check_thread(limited, whole, &threads[t]);
        *folded += tree_oddities(threads[t].limited)->folded_nodes;
    }
    tree_set_memory(limited, &peak);
    SEED_CHECK(peak <= limit, "%zu bytes in the end, %zu allowed", peak, limit);
    tree_set_destroy(limited);
    SEED_CHECK(tree_set_memory(whole, NULL) > 0, "memory without a limit is counted too");
    tree_set_destroy(whole);
}

/* ---- made for it ---- */

static void call(struct tree *tree, uint64_t *now, uint64_t takes, uint8_t minor, uint32_t function)
{
    struct trace_record record = record_of(*now += takes, TRACE_CALL, minor, function);
    tree_add(tree, &record, 1, false);
}

/* What is hot is exact, whatever noise there is beside it, for as long as it takes. */
static void test_hot_is_exact(void)
{
    struct tree_source from = source_of(&source);
    size_t limit = 256 * 1024, peak;
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = limit});
    struct tree *tree = tree_of_thread(set, 0, "1.1");
    uint64_t now = 1;
    int64_t rounds = 100000;
    size_t before = mallinfo2().uordblks + mallinfo2().hblkhd, most = 0;
    for (int64_t i = 0; i < rounds; i++) {
        call(tree, &now, 0, TRACE_ENTER, 0);
        call(tree, &now, 5, TRACE_ENTER, 1);
        call(tree, &now, 100, TRACE_ENTER, 2);
        call(tree, &now, 200, TRACE_RETURN, 2);
        call(tree, &now, 0, TRACE_RETURN, 1);
        uint32_t noise[3] = {3 + draw(300), 3 + draw(300), 3 + draw(300)};
        for (int n = 0; n < 3; n++)
            call(tree, &now, 0, TRACE_ENTER, noise[n]);
        for (int n = 3; n-- > 0;)
            call(tree, &now, 1, TRACE_RETURN, noise[n]);
        call(tree, &now, 0, TRACE_RETURN, 0);
        if (i % 1000 == 0) {
            size_t real = mallinfo2().uordblks + mallinfo2().hblkhd;
            most = real > most ? real : most;
        }
    }
    tree_end(tree, 0);
    tree_set_memory(set, &peak);
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    CHECK(count > 100 && peak <= limit, "%zu nodes, %zu bytes", count, peak);
    /* malloc's own count: the limit, and what names and the allocator take. */
    CHECK(most < before + limit + 128 * 1024, "malloc says %zu, %zu before", most, before);
    uint64_t calls = (uint64_t)rounds;
    CHECK(node[1].calls == calls && node[2].calls == calls && node[3].calls == calls, "hot calls");
    CHECK(tree_base(tree, 2, TREE_EVENTS, 0) == 100 * rounds && tree_base(tree, 3, TREE_EVENTS, 0) == 200 * rounds, "hot base");
    CHECK(tree_cum(tree, 1, TREE_EVENTS, 0) == 308 * rounds && tree_elapsed(tree, 1, 0) == 308 * rounds, "hot cum");
    CHECK(tree_oddities(tree)->folded_nodes > 100000, "%llu folded", (unsigned long long)tree_oddities(tree)->folded_nodes);
    tree_set_destroy(set);
}

static void count_value(struct tree *tree, uint64_t now, int64_t value)
{
    struct trace_record record = {
        .time_ns = now, .major = TRACE_SAMPLE, .minor = TRACE_PLACE, .metric = 1, .number = TRACE_NONE, .value = (uint64_t)value};
    tree_add(tree, &record, 1, false);
}

/* What takes much and gives all of it back is no noise, though nothing is left of it. Its elapsed is exact, too, whatever is folded. */
static void test_what_is_given_back_stays(void)
{
    struct tree_source from = source_of(&source);
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = 256 * 1024});
    struct tree *tree = tree_of_thread(set, 0, "1.1");
    uint64_t now = 1, rounds = 20000;
    for (uint64_t i = 0; i < rounds; i++) {
        call(tree, &now, 0, TRACE_ENTER, 0);
        call(tree, &now, 0, TRACE_ENTER, 1);
        count_value(tree, now, 1000000);
        call(tree, &now, 0, TRACE_RETURN, 1);
        call(tree, &now, 0, TRACE_ENTER, 2);
        count_value(tree, now, -999999);
        call(tree, &now, 0, TRACE_RETURN, 2);
        count_value(tree, now, -1);
        call(tree, &now, 0, TRACE_RETURN, 0);
        uint32_t noise[3] = {3 + draw(300), 3 + draw(300), 3 + draw(300)};
        for (int n = 0; n < 3; n++)
            call(tree, &now, 0, TRACE_ENTER, noise[n]);
        for (int n = 3; n-- > 0;)
            call(tree, &now, 1, TRACE_RETURN, noise[n]);
    }
    tree_end(tree, 0);
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    CHECK(tree_oddities(tree)->folded_nodes > 10000, "%llu folded", (unsigned long long)tree_oddities(tree)->folded_nodes);
    CHECK(count > 3 && node[1].calls == rounds && node[2].calls == rounds && node[3].calls == rounds, "all of its calls");
    int64_t all = (int64_t)rounds;
    CHECK(!tree_cum(tree, 1, TREE_EVENTS, 1) && tree_base(tree, 1, TREE_EVENTS, 1) == -all &&
              tree_base(tree, 2, TREE_EVENTS, 1) == 1000000 * all && tree_base(tree, 3, TREE_EVENTS, 1) == -999999 * all,
          "its values");
    CHECK(!tree_elapsed(tree, 1, 1) && tree_elapsed(tree, 2, 1) == 1000000 * all && tree_elapsed(tree, 3, 1) == -999999 * all,
          "its elapsed");
    tree_set_destroy(set);
}

/* Calls that never return: the stack has its share of the memory and no more; nothing is lost in sums. */
static void test_stack_only_grows(void)
{
    struct tree_source from = source_of(&source);
    size_t limit = 1 << 20, peak;
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = limit});
    struct tree *tree = tree_of_thread(set, 0, "1.1");
    uint64_t now = 1, calls = 200000;
    for (uint64_t i = 0; i < calls; i++)
        call(tree, &now, i > 0, TRACE_ENTER, (uint32_t)(i % FUNCTIONS));
    /* As many returns bring it back to where it was. */
    for (uint64_t i = calls; i-- > 0;)
        call(tree, &now, 1, TRACE_RETURN, (uint32_t)(i % FUNCTIONS));
    call(tree, &now, 1, TRACE_ENTER, 5);
    call(tree, &now, 10, TRACE_RETURN, 5);
    tree_end(tree, 0);
    tree_set_memory(set, &peak);
    CHECK(peak <= limit, "%zu bytes", peak);
    struct sums sums = sum_tree(tree);
    CHECK(sums.calls == calls + 1 && sums.value[TREE_EVENTS][0] == (int64_t)now - 1, "sums");
    CHECK(tree_oddities(tree)->returns_without_call == 0 && tree_oddities(tree)->open_at_end == 0, "all returned");
    CHECK(tree_base(tree, 0, TREE_EVENTS, 0) == 1, "the thread's own");
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    uint32_t last = node[0].first_child;
    while (node[last].next_sibling != TRACE_NONE)
        last = node[last].next_sibling;
    CHECK(count > 500 && tree_base(tree, last, TREE_EVENTS, 0) == 10, "%zu nodes; the call after it is exact", count);
    tree_set_destroy(set);
}

/* A week of threads that come and go. */
static void test_threads_come_and_go(void)
{
    struct tree_source from = source_of(&source);
    size_t limit = 256 * 1024, peak;
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = limit});
    struct tree *lasting = tree_of_thread(set, 0, "1.1");
    uint64_t lasting_now = 1;
    for (uint32_t i = 1; i <= 20000; i++) {
        struct tree *tree = tree_of_thread(set, i, "1.2");
        uint64_t now = 1;
        for (int n = 0; n < 20; n++) {
            call(tree, &now, 1, TRACE_ENTER, draw(FUNCTIONS));
            call(lasting, &lasting_now, 1, TRACE_ENTER, draw(FUNCTIONS));
        }
        call(lasting, &lasting_now, 1, TRACE_RETURN, 0);
        if (i > 8)
            tree_forget(set, tree_at(set, 1));
    }
    tree_set_memory(set, &peak);
    CHECK(peak <= limit && tree_count(set) == 9, "%zu bytes", peak);
    tree_end(lasting, 0);
    struct sums sums = sum_tree(lasting);
    CHECK(sums.calls == 400000 && sums.value[TREE_EVENTS][0] == (int64_t)lasting_now - 2, "sums: %llu calls",
          (unsigned long long)sums.calls);
    for (size_t i = tree_count(set); i-- > 0;)
        tree_forget(set, tree_at(set, i));
    CHECK(tree_set_memory(set, NULL) == 0, "%zu bytes without a tree", tree_set_memory(set, NULL));
    tree_set_destroy(set);
}

/* ... whose trees become one. Nothing is lost in sums, neither where there is room nor where there is none. */
static void test_one_tree_for_many(size_t limit, uint32_t depth)
{
    struct tree_source from = source_of(&source);
    size_t peak;
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.memory_bytes = limit});
    struct tree *sum = tree_sum_begin(set, UINT32_MAX, "many");
    struct sums in = {0};
    enum { THREADS = 3000 };
    size_t count, most = 0; /* most: nodes of it at a time, towards the end; folding comes at any time */
    for (uint32_t i = 0; i < THREADS; i++) {
        struct tree *tree = tree_of_thread(set, i, "1.2");
        uint64_t now = 1;
        for (uint32_t n = 0; n < depth; n++) {
            struct trace_record sample = record_of(now, TRACE_SAMPLE, TRACE_TIMER, draw((uint32_t)source.stack.n));
            sample.value = draw(100);
            call(tree, &now, n > 0, TRACE_ENTER, draw(FUNCTIONS));
            tree_add(tree, &sample, 1, false);
            in.calls++;
            in.value[TREE_EVENTS][0] += n > 0;
            in.value[TREE_SAMPLES][0] += sample.value;
        }
        tree_end(tree, 0);
        tree_sum_add(sum, tree);
        tree_forget(set, tree);
        tree_nodes(sum, &count);
        most = i > THREADS - 100 && count > most ? count : most;
    }
    tree_set_memory(set, &peak);
    CHECK(tree_count(set) == 1 && (!limit || peak <= limit), "%zu bytes", peak);
    struct tree *snapshot = tree_snapshot(sum, 0);
    tree_end(sum, 0);
    in.calls += THREADS - 1; /* roots */
    check_inside(snapshot, &in, "one for many, copied");
    check_inside(sum, &in, "one for many");
    CHECK(most > 50, "%zu nodes", most);
    tree_destroy_snapshot(snapshot);
    tree_set_destroy(set);
}

int main(int argc, char **argv)
{
    const char *is_long = getenv("PROBITY_LONG");
    unsigned long first = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, count = is_long && *is_long ? 20000 : 500;
    uint64_t folded = 0;
    if (argc > 2)
        count = strtoul(argv[2], NULL, 0);
    state = 4711;
    make_source();
    for (seed = first; seed < first + count && failures < 20; seed++)
        run_seed(&folded);
    CHECK(folded > 100 * count, "only %llu nodes were folded", (unsigned long long)folded);
    test_hot_is_exact();
    test_what_is_given_back_stays();
    test_stack_only_grows();
    test_threads_come_and_go();
    test_one_tree_for_many(0, 8);
    test_one_tree_for_many(256 * 1024, 20);
    test_one_tree_for_many(32 * 1024, 60);
    source_deinit(&source);
    printf("%lu traces, %llu nodes folded\n", seed - first, (unsigned long long)folded);
    return report_checks();
}
