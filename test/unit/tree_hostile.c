/* Records and definitions that make no sense: any codes, numbers without a definition, stacks that lead forwards, trees whose nodes have
 * parents that do not exist, times and values at the ends of their range. Nothing may crash, loop or pass the limit; what is left is a
 * tree. */
#include "test/tree/source.h"

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 33) % below);
}

static uint64_t draw_value(void)
{
    static const uint64_t odd[] = {0, 1, UINT64_MAX, UINT64_MAX - 1, UINT32_MAX, (uint64_t)UINT32_MAX + 1, 1ull << 63};
    return draw(3) ? draw(40) : odd[draw(sizeof odd / sizeof *odd)];
}

static uint32_t draw_number(void)
{
    return draw(5) ? draw(14) : (uint32_t)draw_value();
}

static void make_source(struct test_source *source)
{
    static const char *const names[] = {"", "f", "g", "f", "\n", "a;b", "f"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add_function(source, draw(9) ? names[i] : NULL, draw_number());
    VEC_PUSH(&source->module, (struct trace_module){.path = "m"});
    VEC_PUSH(&source->module, (struct trace_module){0});
    for (int i = 0; i < 8; i++)
        VEC_PUSH(&source->frame, (struct trace_frame){.function = draw_number(), .file = draw(2) ? "x/y.c" : NULL, .line = draw(3)});
    for (int i = 0; i < 12; i++)
        VEC_PUSH(&source->stack, (struct trace_stack){draw_number(), draw_number()});
}

static struct trace_record draw_record(uint64_t now)
{
    struct trace_record record = {.time_ns = draw(20) ? now : draw_value(),
                                  .major = (uint8_t)draw(7),
                                  .minor = (uint8_t)draw(5),
                                  .metric = (uint16_t)(draw(9) ? draw(TREE_ITEMS + 1) : draw_value()),
                                  .number = draw_number(),
                                  .value = draw_value()};
    /* Mostly what gets somewhere. */
    if (draw(3) == 0)
        record.major = TRACE_TREE;
    if (record.major == TRACE_TREE && draw(9))
        record.minor = TRACE_NODE;
    if (record.major == TRACE_TREE && draw(2))
        record.metric = (uint16_t)(TREE_ITEM_EVENT + draw(3));
    return record;
}

/* Links lead through every node once. */
static void check_shape(const struct tree_set *set, const struct tree *tree)
{
    size_t count, seen = 1;
    const struct tree_node *node = tree_nodes(tree, &count);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(tree_routine(set, node[i].routine) && node[i].recursion >= 1 && (!i || node[i].parent < i), "node %u of %zu", i, count);
        for (uint32_t child = node[i].first_child; child != TRACE_NONE; child = node[child].next_sibling) {
            CHECK(child > i && child < count && node[child].parent == i, "child %u of %u", child, i);
            seen++;
        }
        CHECK(!i || node[i].is_sampled || !node[node[i].parent].is_sampled, "a call below a sample");
    }
    CHECK(seen == count, "%zu nodes, %zu reached", count, seen);
}

static void run_seed(unsigned long seed)
{
    struct test_source source = {0};
    size_t limit, peak;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 4; i++)
        draw(2);
    make_source(&source);
    struct tree_source from = source_of(&source);
    limit = draw(2) ? 64 * 1024 : 0;
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){.by = (enum tree_by)draw(3), .memory_bytes = limit});
    struct tree *tree = tree_of_thread(set, draw_number(), "1.1");
    uint64_t now = 0;
    for (uint32_t i = 1 + draw(600); i > 0; i--) {
        struct trace_record record = draw_record(now += draw(5));
        tree_add(tree, &record, 1, draw(2));
        if (!draw(300)) {
            struct tree *snapshot = tree_snapshot(tree, draw_value());
            check_shape(set, snapshot);
            tree_destroy_snapshot(snapshot);
        }
    }
    tree_end(tree, draw_value());
    check_shape(set, tree);
    tree_set_memory(set, &peak);
    CHECK(!limit || peak <= limit, "%zu bytes", peak);
    check_shape(set, tree_merge(set, "all"));
    for (enum tree_what what = TREE_EVENTS; what <= TREE_SAMPLES; what++) {
        tree_stanzas stanzas;
        tree_arcflow(set, tree, what, draw(2) ? 0 : draw_number(), &stanzas);
        tree_stanzas_free(&stanzas);
    }
    tree_differences differences;
    tree_compare(set, tree, set, tree, &differences);
    size_t count;
    tree_nodes(tree, &count);
    CHECK(differences.n == count, "a tree and itself: %zu differences, %zu nodes", differences.n, count);
    VEC_FREE(&differences);
    tree_set_destroy(set);
    source_deinit(&source);
}

/* Work is bounded by what comes in: many returns that match nothing below a deep stack. */
static void test_deep_and_unmatched(void)
{
    struct test_source source = {0};
    enum { DEEP = 300000 };
    for (int i = 0; i < 3; i++)
        add_function(&source, i == 2 ? "never" : "f", TRACE_NONE);
    struct tree_source from = source_of(&source);
    struct tree_set *set = tree_set_create(&from, &(struct tree_options){0});
    struct tree *tree = tree_of_thread(set, 0, "1.1");
    struct trace_record enter = record_of(1, TRACE_CALL, TRACE_ENTER, 0), leave = record_of(1, TRACE_CALL, TRACE_RETURN, 2);
    for (int i = 0; i < DEEP; i++)
        tree_add(tree, &enter, 1, false);
    for (int i = 0; i < DEEP; i++)
        tree_add(tree, &leave, 1, false);
    tree_end(tree, 0);
    size_t count;
    CHECK(tree_nodes(tree, &count)[DEEP].recursion == DEEP && count == DEEP + 1, "%zu nodes", count);
    CHECK(tree_oddities(tree)->returns_without_call == DEEP && tree_oddities(tree)->open_at_end == DEEP, "oddities");
    tree_set_destroy(set);
    source_deinit(&source);
}

int main(int argc, char **argv)
{
    const char *is_long = getenv("PROBITY_LONG");
    unsigned long first = argc > 1 ? strtoul(argv[1], NULL, 0) : 1, count = is_long && *is_long ? 300000 : 5000;
    if (argc > 2)
        count = strtoul(argv[2], NULL, 0);
    for (unsigned long seed = first; seed < first + count && failures < 20; seed++)
        run_seed(seed);
    test_deep_and_unmatched();
    return report_checks();
}
