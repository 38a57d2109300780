/* The worked example of S4, number by number: tree, flat, ArcFlow, the same run sampled, samples merged into calls; and small cases by hand
 * of what random traces (tree_random.c) also have: switches, exceptions, jumps, lines, modules, merging, comparing. */
#include "test/tree/source.h"

#include <stdarg.h>

enum { A, B, C, X };
static const char *const names[] = {"A", "B", "C", "X"};

typedef VEC(char) text_buffer;

static void add_text(text_buffer *buffer, const char *text)
{
    for (; *text; text++)
        VEC_PUSH(buffer, *text);
}

static void add_line(text_buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_line(text_buffer *buffer, const char *format, ...)
{
    char line[256];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    add_text(buffer, line);
}

static void check_text(const char *what, text_buffer *buffer, const char *expected)
{
    VEC_PUSH(buffer, 0);
    CHECK(!strcmp(buffer->at, expected), "%s: is\n%swants\n%s", what, buffer->at, expected);
    VEC_FREE(buffer);
}

/* Lv RL Calls Base Cum Name, or of samples: Lv RL Samples Base Cum Name with + before sampled nodes. */
static void print_node(const struct tree_set *set, const struct tree *tree, enum tree_what what, uint32_t number, text_buffer *out)
{
    size_t count;
    const struct tree_node *node = &tree_nodes(tree, &count)[number];
    add_line(out, "%u %u %d %d %d ", node->level, node->recursion, (int)(what == TREE_EVENTS ? node->calls : node->samples),
             (int)tree_base(tree, number, what, 0), (int)tree_cum(tree, number, what, 0));
    for (uint32_t i = 0; i < node->level; i++)
        add_text(out, "-");
    add_line(out, "%s%s\n", node->is_sampled ? "+" : "", tree_routine(set, node->routine));
    for (uint32_t child = node->first_child; child != TRACE_NONE; child = tree_nodes(tree, &count)[child].next_sibling)
        print_node(set, tree, what, child, out);
}

static void check_tree(const char *name, const struct tree_set *set, const struct tree *tree, enum tree_what what, const char *expected)
{
    text_buffer out = {0};
    print_node(set, tree, what, 0, &out);
    check_text(name, &out, expected);
}

struct world {
    struct test_source source;
    struct tree_set *set;
    struct tree *tree;
};

static void world_init_by(struct world *world, enum tree_by by)
{
    memset(world, 0, sizeof *world);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        add_function(&world->source, names[i], TRACE_NONE);
    struct tree_source source = source_of(&world->source);
    world->set = tree_set_create(&source, &(struct tree_options){.by = by});
    world->tree = tree_of_thread(world->set, 0, "pid.tid");
}

static void world_init(struct world *world)
{
    world_init_by(world, TREE_BY_FUNCTION);
}

static void world_deinit(struct world *world)
{
    tree_set_destroy(world->set);
    source_deinit(&world->source);
}

/* "C" enters, "c" returns, ">C" is entered by a jump, "(CAB)" samples, "[" switches in, "]" out, "." is nothing; each takes one unit. */
static uint64_t play_from(struct world *world, struct tree *tree, const char *script, uint64_t time, bool has_switches)
{
    for (; *script; script++, time++) {
        const char *letters = "ABCX", *small = "abcx", *at;
        struct trace_record record = {.time_ns = time, .value = 2};
        if (*script == '.')
            continue;
        if (*script == '(') {
            uint32_t frames[32], count = 0;
            for (script++; *script != ')'; script++)
                frames[count++] = (uint32_t)(strchr(letters, *script) - letters);
            record.major = TRACE_SAMPLE;
            record.minor = TRACE_TIMER;
            record.number = add_stack(&world->source, frames, count);
        } else if (*script == '[' || *script == ']') {
            record.major = TRACE_THREAD;
            record.minor = *script == '[' ? TRACE_SWITCH_IN : TRACE_SWITCH_OUT;
        } else {
            bool is_jump = *script == '>';
            script += is_jump;
            record.major = TRACE_CALL;
            at = strchr(letters, *script);
            record.minor = is_jump ? TRACE_ENTER_TAIL : at ? TRACE_ENTER : TRACE_RETURN;
            record.number = (uint32_t)(at ? at - letters : strchr(small, *script) - small);
        }
        tree_add(tree, &record, 1, has_switches);
    }
    return time;
}

static void play(struct world *world, const char *script)
{
    play_from(world, world->tree, script, 0, false);
    tree_end(world->tree, 0);
}

#define EXAMPLE "CABbBBbbaBABAabXxabc"

/* ---- the worked example ---- */

static void check_flat(const struct tree_set *set, const struct tree *tree, const char *expected)
{
    tree_flats flats;
    text_buffer out = {0};
    tree_flatten(set, tree, TREE_EVENTS, 0, &flats);
    for (size_t i = 0; i < flats.n; i++) {
        const struct tree_flat *flat = &flats.at[i];
        add_line(&out, "%s: %d %d %d ", tree_routine(set, flat->routine), (int)flat->calls, (int)flat->base, (int)flat->cum);
        if (flat->is_recursive)
            add_line(&out, "%d\n", (int)flat->cum2);
        else
            add_text(&out, "-\n");
    }
    check_text("flat", &out, expected);
    VEC_FREE(&flats);
}

static void print_rows(const struct tree_set *set, const struct tree_arc *arcs, size_t count, const char *kind, text_buffer *out)
{
    for (size_t i = 0; i < count; i++)
        add_line(out, "%s%s %d %d %d %s\n", arcs[i].is_recursive ? "r" : "", kind, (int)arcs[i].calls, (int)arcs[i].base, (int)arcs[i].cum,
                 tree_routine(set, arcs[i].routine));
}

static void check_stanza(const struct tree_set *set, const struct tree *tree, const char *name, const char *expected)
{
    tree_stanzas stanzas;
    text_buffer out = {0};
    tree_arcflow(set, tree, TREE_EVENTS, 0, &stanzas);
    for (size_t i = 0; i < stanzas.n; i++) {
        const struct tree_stanza *stanza = &stanzas.at[i];
        if (strcmp(tree_routine(set, stanza->self.routine), name))
            continue;
        print_rows(set, stanza->parent.at, stanza->parent.n, "Parent", &out);
        add_line(&out, "Self %d %d %d %d %s\n", (int)stanza->self.calls, (int)stanza->self.base, (int)stanza->self.cum,
                 (int)stanza->self.cum2, name);
        print_rows(set, stanza->child.at, stanza->child.n, "Child", &out);
    }
    check_text(name, &out, expected);
    tree_stanzas_free(&stanzas);
}

static void test_example(void)
{
    struct world world;
    world_init(&world);
    play(&world, EXAMPLE);
    check_tree("tree", world.set, world.tree, TREE_EVENTS,
               "0 1 1 0 19 pid.tid\n"
               "1 1 1 3 19 -C\n"
               "2 1 1 3 7 --A\n"
               "3 1 2 3 4 ---B\n"
               "4 2 1 1 1 ----B\n"
               "2 1 1 2 9 --B\n"
               "3 1 1 3 7 ---A\n"
               "4 2 1 2 3 ----B\n"
               "5 2 1 1 1 -----A\n"
               "4 1 1 1 1 ----X\n");
    check_flat(world.set, world.tree, "pid.tid: 1 0 19 -\nC: 1 3 19 -\nA: 3 7 14 15\nB: 5 8 13 17\nX: 1 1 1 -\n");
    check_stanza(world.set, world.tree, "A",
                 "Parent 1 3 7 C\nParent 1 3 7 B\nrParent 1 1 1 B\nSelf 3 7 14 15 A\nChild 2 3 4 B\nrChild 1 2 3 B\nChild 1 1 1 X\n");
    check_stanza(world.set, world.tree, "pid.tid", "Self 1 0 19 19 pid.tid\nChild 1 3 19 C\n");
    check_stanza(world.set, world.tree, "C", "Parent 1 3 19 pid.tid\nSelf 1 3 19 19 C\nChild 1 3 7 A\nChild 1 2 9 B\n");
    check_stanza(world.set, world.tree, "B",
                 "Parent 2 3 4 A\nrParent 1 2 3 A\nrParent 1 1 1 B\nParent 1 2 9 C\nSelf 5 8 13 17 B\nrChild 1 1 1 B\nChild 1 3 7 A\n"
                 "rChild 1 1 1 A\n");
    size_t count;
    const struct tree_node *node = tree_nodes(world.tree, &count);
    CHECK(node[1].elapsed_ns == 19 && node[0].elapsed_ns == 19, "elapsed of C and the thread");
    unsigned instances = 0;
    for (uint32_t i = 3; i != TRACE_NONE; i = node[i].next_instance)
        instances += !strcmp(tree_routine(world.set, node[i].routine), "B");
    CHECK(instances == 4, "%u instances of B from the first on", instances);
    world_deinit(&world);
}

static void test_sampled_example(void)
{
    struct world world;
    world_init(&world);
    play(&world, "(C)(CAB)(CAB)(CAB)(C)(CBA)(CBABA)(CBA)(CBA)(C)");
    check_tree("sampled run", world.set, world.tree, TREE_SAMPLES,
               "0 1 0 0 20 pid.tid\n"
               "1 1 3 6 20 -+C\n"
               "2 1 0 0 6 --+A\n"
               "3 1 3 6 6 ---+B\n"
               "2 1 0 0 8 --+B\n"
               "3 1 3 6 8 ---+A\n"
               "4 2 0 0 2 ----+B\n"
               "5 2 1 2 2 -----+A\n");
    world_deinit(&world);
}

/* Calls of C and B only; samples see everything. */
static void test_merged_view(void)
{
    struct world world;
    world_init(&world);
    play(&world, "C(C)B(CAB)b(CAX)B(CB)B(CBAB)(CBABA)bb(C)c(X)");
    check_tree("merged, calls", world.set, world.tree, TREE_EVENTS,
               "0 1 1 1 15 pid.tid\n"
               "1 1 1 6 14 -C\n"
               "2 1 2 5 8 --B\n"
               "3 2 1 3 3 ---B\n"
               "4 1 0 0 0 ----+A\n"
               "3 1 0 0 0 ---+A\n"
               "2 1 0 0 0 --+A\n"
               "3 1 0 0 0 ---+X\n"
               "1 1 0 0 0 -+X\n");
    check_tree("merged, samples", world.set, world.tree, TREE_SAMPLES,
               "0 1 0 0 16 pid.tid\n"
               "1 1 2 4 14 -C\n"
               "2 1 2 4 8 --B\n"
               "3 2 1 2 4 ---B\n"
               "4 1 1 2 2 ----+A\n"
               "3 1 0 0 0 ---+A\n"
               "2 1 0 0 2 --+A\n"
               "3 1 1 2 2 ---+X\n"
               "1 1 1 2 2 -+X\n");
    CHECK(tree_oddities(world.tree)->unmatched_samples == 0, "all matched");
    world_deinit(&world);
}

/* S4.5's own example: calls Event1 (C) and Event2 (B) are open, the sample is Event1 -> A -> X -> Event2 -> X -> A. */
static void test_chain_between_calls(void)
{
    struct world world;
    world_init(&world);
    play(&world, "CB(CAXBXA)(CAXBXA)bc");
    const char *expected = "0 1 0 0 4 pid.tid\n"
                           "1 1 0 0 4 -C\n"
                           "2 1 0 0 4 --B\n"
                           "3 1 0 0 4 ---+X\n"
                           "4 1 2 4 4 ----+A\n"
                           "2 1 0 0 0 --+A\n"
                           "3 1 0 0 0 ---+X\n";
    check_tree("between two calls", world.set, world.tree, TREE_SAMPLES, expected);
    CHECK(tree_passed(world.tree, 4, 0) == 2 && tree_passed(world.tree, 3, 0) == 0, "two samples passed A -> X");
    world_deinit(&world);
}

/* ---- rules, one by one ---- */

static void test_exceptions_and_jumps(void)
{
    struct world world;
    world_init(&world);
    play(&world, "CABAc"  /* three calls end with C */
                 "CA>Bbc" /* B is called by C */
                 "xx" /* never called */ "A");
    check_tree("exceptions", world.set, world.tree, TREE_EVENTS,
               "0 1 1 4 12 pid.tid\n"
               "1 1 2 3 8 -C\n"
               "2 1 2 2 4 --A\n"
               "3 1 1 1 2 ---B\n"
               "4 2 1 1 1 ----A\n"
               "2 1 1 1 1 --B\n"
               "1 1 1 0 0 -A\n");
    const struct tree_oddities *odd = tree_oddities(world.tree);
    CHECK(odd->calls_without_return == 3 && odd->returns_without_call == 2 && odd->open_at_end == 1, "oddities %d %d %d",
          (int)odd->calls_without_return, (int)odd->returns_without_call, (int)odd->open_at_end);
    world_deinit(&world);
}

static void test_switches(void)
{
    struct world world;
    world_init(&world);
    play_from(&world, world.tree, "CA]....[.a]..[c", 100, true);
    tree_end(world.tree, 0);
    check_tree("switches", world.set, world.tree, TREE_EVENTS, "0 1 1 0 6 pid.tid\n1 1 1 3 6 -C\n2 1 1 3 3 --A\n");
    size_t count;
    const struct tree_node *node = tree_nodes(world.tree, &count);
    CHECK(node[0].elapsed_ns == 14 && node[1].elapsed_ns == 14 && node[2].elapsed_ns == 8, "elapsed %d %d %d", (int)node[0].elapsed_ns,
          (int)node[1].elapsed_ns, (int)node[2].elapsed_ns);
    world_deinit(&world);
    /* It begins asleep; and the end is later than the last record. */
    world_init(&world);
    play_from(&world, world.tree, "[C]..[", 50, true);
    tree_end(world.tree, 60);
    check_tree("asleep", world.set, world.tree, TREE_EVENTS, "0 1 1 1 7 pid.tid\n1 1 1 6 6 -C\n");
    world_deinit(&world);
}

static void test_backward_time(void)
{
    struct world world;
    world_init(&world);
    struct trace_record records[] = {record_of(10, TRACE_CALL, TRACE_ENTER, C), record_of(20, TRACE_CALL, TRACE_ENTER, A),
                                     record_of(15, TRACE_CALL, TRACE_RETURN, A), record_of(30, TRACE_CALL, TRACE_RETURN, C)};
    tree_add(world.tree, records, 4, false);
    tree_end(world.tree, 0);
    check_tree("time goes back", world.set, world.tree, TREE_EVENTS, "0 1 1 0 20 pid.tid\n1 1 1 20 20 -C\n2 1 1 0 0 --A\n");
    CHECK(tree_oddities(world.tree)->backward_times == 1, "one");
    world_deinit(&world);
}

static void test_metrics(void)
{
    struct world world;
    world_init(&world);
    play_from(&world, world.tree, "CA", 0, false);
    struct trace_record counted = {
        .time_ns = 1, .major = TRACE_SAMPLE, .minor = TRACE_PLACE, .metric = 3, .number = TRACE_NONE, .value = 64};
    struct trace_record stacked = {.time_ns = 1, .major = TRACE_SAMPLE, .minor = TRACE_PLACE, .metric = 3, .value = 100};
    stacked.number = add_stack(&world.source, (const uint32_t[]){C, A, X}, 3);
    struct trace_record beyond = counted;
    beyond.metric = TREE_METRICS_MAX;
    tree_add(world.tree, (const struct trace_record[]){counted, stacked, counted, beyond}, 4, false);
    play_from(&world, world.tree, "a", 4, false);
    tree_end(world.tree, 0);
    CHECK(tree_base(world.tree, 2, TREE_EVENTS, 3) == 128 && tree_cum(world.tree, 0, TREE_EVENTS, 3) == 128, "bytes counted in A");
    CHECK(tree_base(world.tree, 3, TREE_SAMPLES, 3) == 100 && tree_cum(world.tree, 2, TREE_SAMPLES, 3) == 100, "bytes seen in X");
    CHECK(tree_samples(world.tree, 3, 3) == 1 && tree_samples(world.tree, 3, 0) == 0, "samples of that metric");
    CHECK(tree_has(world.tree, TREE_SAMPLES, 3) && !tree_has(world.tree, TREE_SAMPLES, 0) && !tree_has(world.tree, TREE_EVENTS, 2), "has");
    CHECK(tree_oddities(world.tree)->ignored_records == 1, "a metric too many");
    CHECK(tree_cum(world.tree, 0, TREE_EVENTS, 0) == 4, "time is apart");
    world_deinit(&world);
}

static void count_value(struct tree *tree, uint64_t time, int64_t value)
{
    struct trace_record record = {
        .time_ns = time, .major = TRACE_SAMPLE, .minor = TRACE_PLACE, .metric = 1, .number = TRACE_NONE, .value = (uint64_t)value};
    tree_add(tree, &record, 1, false);
}

/* Two threads of one process and one of another: base is what the stack used, elapsed what the process did meanwhile; and giving back. */
static void test_elapsed_of_metrics(void)
{
    struct world world;
    world_init(&world);
    struct tree *second = tree_of_thread(world.set, 1, "pid.2"), *other = tree_of_thread(world.set, 2, "other");
    tree_join(world.tree, 7);
    tree_join(second, 7);
    tree_join(other, 8);
    play_from(&world, world.tree, "CA", 0, false);
    count_value(world.tree, 2, 100);
    play_from(&world, second, "B", 3, false);
    count_value(second, 4, 30);
    play_from(&world, other, "X", 4, false);
    count_value(other, 5, 1000);
    play_from(&world, world.tree, "a", 6, false);
    count_value(second, 7, -50);
    play_from(&world, world.tree, "c", 8, false);
    count_value(second, 9, 5);
    tree_end(world.tree, 0);
    play_from(&world, second, "b", 10, false);
    tree_use(world.set, 7,
             &(struct trace_record){.major = TRACE_SAMPLE, .minor = TRACE_PLACE, .metric = 1, .number = TRACE_NONE, .value = 7}, 1);
    count_value(second, 11, 1);
    tree_end(second, 0);
    tree_end(other, 0);
    const struct {
        const struct tree *tree;
        uint32_t node;
        int64_t base, cum, elapsed;
        const char *what;
    } expected[] = {{world.tree, 0, 0, 100, 85, "the first thread, until its last record"},
                    {world.tree, 1, 0, 100, 80, "C"},
                    {world.tree, 2, 100, 100, 130, "A"},
                    {second, 0, 1, -14, -7, "the second thread"},
                    {second, 1, -15, -15, -15, "B"},
                    {other, 1, 1000, 1000, 1000, "X"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int64_t base = tree_base(expected[i].tree, expected[i].node, TREE_EVENTS, 1);
        int64_t cum = tree_cum(expected[i].tree, expected[i].node, TREE_EVENTS, 1);
        int64_t elapsed = tree_elapsed(expected[i].tree, expected[i].node, 1);
        CHECK(base == expected[i].base && cum == expected[i].cum && elapsed == expected[i].elapsed, "%s: %lld %lld %lld", expected[i].what,
              (long long)base, (long long)cum, (long long)elapsed);
    }
    world_deinit(&world);
}

/* Of a pc alone it is known which call is the innermost. */
static void test_pc(void)
{
    struct world world;
    world_init(&world);
    play_from(&world, world.tree, "CA", 0, false);
    struct trace_record pc[] = {record_of(2, TRACE_SAMPLE, TRACE_PC, add_stack(&world.source, (uint32_t[]){A}, 1)),
                                record_of(3, TRACE_SAMPLE, TRACE_PC, add_stack(&world.source, (uint32_t[]){X}, 1)),
                                record_of(4, TRACE_SAMPLE, TRACE_OFF_CPU_PC, add_stack(&world.source, (uint32_t[]){C}, 1))};
    pc[0].value = pc[1].value = pc[2].value = 2;
    tree_add(world.tree, pc, 3, false);
    tree_end(world.tree, 0);
    check_tree("pc", world.set, world.tree, TREE_SAMPLES,
               "0 1 0 0 6 pid.tid\n1 1 0 0 6 -C\n2 1 1 2 6 --A\n3 1 1 2 2 ---+X\n3 2 1 2 2 ---+C\n");
    CHECK(tree_oddities(world.tree)->unmatched_samples == 0, "none is unmatched");
    world_deinit(&world);
}

static void test_snapshot(void)
{
    struct world world;
    world_init(&world);
    uint64_t time = play_from(&world, world.tree, "CA", 0, false);
    struct tree *snapshot = tree_snapshot(world.tree, 5);
    check_tree("snapshot", world.set, snapshot, TREE_EVENTS, "0 1 1 0 5 pid.tid\n1 1 1 1 5 -C\n2 1 1 4 4 --A\n");
    tree_destroy_snapshot(snapshot);
    play_from(&world, world.tree, "ac", time, false);
    tree_end(world.tree, 0);
    check_tree("after it", world.set, world.tree, TREE_EVENTS, "0 1 1 0 3 pid.tid\n1 1 1 2 3 -C\n2 1 1 1 1 --A\n");
    world_deinit(&world);
}

static void test_lines(void)
{
    struct world world;
    world_init_by(&world, TREE_BY_LINE);
    VEC_PUSH(&world.source.frame, (struct trace_frame){.function = C, .file = "/src/c.c", .line = 7});
    VEC_PUSH(&world.source.frame, (struct trace_frame){.function = A, .file = "/src/a.c", .line = 9});
    VEC_PUSH(&world.source.frame, (struct trace_frame){.function = A, .file = "/src/a.c", .line = 10});
    uint32_t nine = add_stack(&world.source, (const uint32_t[]){4, 5}, 2), ten = add_stack(&world.source, (const uint32_t[]){4, 6}, 2);
    play_from(&world, world.tree, "C", 0, false);
    struct trace_record samples[] = {record_of(1, TRACE_SAMPLE, TRACE_TIMER, nine), record_of(2, TRACE_SAMPLE, TRACE_TIMER, ten),
                                     record_of(3, TRACE_SAMPLE, TRACE_TIMER, ten)};
    tree_add(world.tree, samples, 3, false);
    tree_end(world.tree, 0);
    check_tree("lines", world.set, world.tree, TREE_SAMPLES,
               "0 1 0 0 0 pid.tid\n1 1 0 0 0 -C\n2 1 1 0 0 --+A (a.c:9)\n2 1 2 0 0 --+A (a.c:10)\n");
    size_t count;
    uint32_t line;
    const struct tree_node *node = tree_nodes(world.tree, &count);
    CHECK(!strcmp(tree_routine_file(world.set, node[3].routine, &line), "/src/a.c") && line == 10, "file and line");
    world_deinit(&world);
}

/* B is called in A, and inlined in it too: only the one that was called is the call's. */
static void test_inlined(void)
{
    struct world world;
    world_init(&world);
    uint32_t inlined = (uint32_t)world.source.frame.n;
    VEC_PUSH(&world.source.frame, (struct trace_frame){.function = B, .is_inlined = true});
    uint32_t stack = add_stack(&world.source, (uint32_t[]){A, inlined, C, B, X}, 5);
    struct trace_record record[] = {record_of(0, TRACE_CALL, TRACE_ENTER, A), record_of(1, TRACE_CALL, TRACE_ENTER, B),
                                    record_of(2, TRACE_SAMPLE, TRACE_TIMER, stack), record_of(3, TRACE_CALL, TRACE_RETURN, B),
                                    record_of(4, TRACE_SAMPLE, TRACE_TIMER, add_stack(&world.source, (uint32_t[]){A, inlined, X}, 3))};
    record[2].value = record[4].value = 2;
    tree_add(world.tree, record, sizeof record / sizeof *record, false);
    tree_end(world.tree, 5);
    check_tree("inlined", world.set, world.tree, TREE_SAMPLES,
               "0 1 0 0 4 pid.tid\n1 1 0 0 4 -A\n2 1 0 0 2 --B\n3 1 1 2 2 ---+X\n2 1 0 0 2 --+B\n3 1 0 0 0 ---+C\n3 1 1 2 2 ---+X\n");
    world_deinit(&world);
}

static void test_modules(void)
{
    struct world world;
    world_init_by(&world, TREE_BY_MODULE);
    VEC_PUSH(&world.source.module, (struct trace_module){.path = "/bin/m"});
    VEC_PUSH(&world.source.module, (struct trace_module){.path = "/lib/n"});
    world.source.function.at[C].module = world.source.function.at[A].module = 0;
    world.source.function.at[B].module = world.source.function.at[X].module = 1;
    play(&world, "CAB(CABX)bacCc");
    check_tree("modules", world.set, world.tree, TREE_EVENTS, "0 1 1 1 8 pid.tid\n1 1 2 5 7 -/bin/m\n2 1 1 2 2 --/lib/n\n");
    check_tree("modules, samples", world.set, world.tree, TREE_SAMPLES, "0 1 0 0 2 pid.tid\n1 1 0 0 2 -/bin/m\n2 1 1 2 2 --/lib/n\n");
    size_t count;
    CHECK(tree_nodes(world.tree, &count)[1].elapsed_ns == 7, "elapsed");
    world_deinit(&world);
}

/* ---- several trees ---- */

static void test_merge(void)
{
    struct world world;
    world_init(&world);
    play(&world, "CAaBbc");
    struct tree *other = tree_of_thread(world.set, 7, "pid.8");
    play_from(&world, other, "CBAa(CBX)bcX", 0, false);
    tree_end(other, 0);
    struct tree *sum = tree_merge(world.set, "all");
    check_tree("merged", world.set, sum, TREE_EVENTS,
               "0 1 2 1 12 all\n1 1 2 5 11 -C\n2 1 1 1 1 --A\n2 1 2 4 5 --B\n3 1 1 1 1 ---A\n3 1 0 0 0 ---+X\n1 1 1 0 0 -X\n");
    CHECK(tree_count(world.set) == 2 && tree_at(world.set, 1) == other && tree_thread(other) == 7, "trees of the set");
    world_deinit(&world);
}

static void test_compare(void)
{
    struct world one, two;
    world_init(&one);
    play(&one, "CAaBbcX");
    memset(&two, 0, sizeof two);
    /* Other numbers, other order. */
    add_function(&two.source, "X", TRACE_NONE);
    add_function(&two.source, "C", TRACE_NONE);
    add_function(&two.source, "new", TRACE_NONE);
    add_function(&two.source, "B", TRACE_NONE);
    struct tree_source source = source_of(&two.source);
    two.set = tree_set_create(&source, &(struct tree_options){.by = TREE_BY_FUNCTION});
    two.tree = tree_of_thread(two.set, 0, "other");
    const uint32_t calls[][2] = {{TRACE_ENTER, 1}, {TRACE_ENTER, 2}, {TRACE_RETURN, 2}, {TRACE_ENTER, 3}, {TRACE_RETURN, 1}};
    for (uint32_t i = 0; i < 5; i++)
        tree_add(two.tree, &(struct trace_record){.time_ns = i, .major = TRACE_CALL, .minor = (uint8_t)calls[i][0], .number = calls[i][1]},
                 1, false);
    tree_end(two.tree, 0);
    tree_differences differences;
    text_buffer out = {0};
    tree_compare(one.set, one.tree, two.set, two.tree, &differences);
    for (size_t i = 0; i < differences.n; i++) {
        const struct tree_difference *d = &differences.at[i];
        add_line(&out, "%d %u %s %d %d %d %d\n", (int)d->parent, d->level, d->name, (int)d->node_a, (int)d->node_b, (int)d->first_child,
                 (int)d->next_sibling);
    }
    check_text("comparison", &out,
               "-1 0 pid.tid 0 0 1 -1\n"
               "0 1 C 1 1 3 2\n"
               "0 1 X 4 -1 -1 -1\n"
               "1 2 A 2 -1 -1 4\n"
               "1 2 B 3 3 -1 5\n"
               "1 2 new -1 2 -1 -1\n");
    VEC_FREE(&differences);
    world_deinit(&one);
    world_deinit(&two);
}

/* ---- trees as records ---- */

typedef VEC(struct trace_record) record_list;

static void keep_record(void *context, const struct trace_record *record)
{
    VEC_PUSH((record_list *)context, *record);
}

static void test_records(void)
{
    struct world world;
    record_list records = {0};
    world_init(&world);
    play(&world, "C(C)B(CAB)b(CAX)B(CB)B(CBAB)(CBABA)bb(C)c(X)xx");
    tree_serialise(world.tree, keep_record, &records);
    /* The last whole tree counts: first another, then this one, then half of it. */
    struct tree *read = tree_of_thread(world.set, 1, "pid.tid");
    struct trace_record small[] = {{.major = TRACE_TREE, .minor = TRACE_NODE, .metric = TREE_ITEM_BEGIN},
                                   {.major = TRACE_TREE, .minor = TRACE_NODE, .metric = TREE_ITEM_EVENT, .number = X},
                                   {.major = TRACE_TREE, .minor = TRACE_NODE, .metric = TREE_ITEM_DONE}};
    tree_add(read, small, 3, false);
    tree_add(read, records.at, records.n, false);
    tree_add(read, records.at, records.n / 2, false);
    tree_end(read, 0);
    for (enum tree_what what = TREE_EVENTS; what <= TREE_SAMPLES; what++) {
        text_buffer expected = {0};
        print_node(world.set, world.tree, what, 0, &expected);
        VEC_PUSH(&expected, 0);
        check_tree("read back", world.set, read, what, expected.at);
        VEC_FREE(&expected);
    }
    CHECK(tree_oddities(read)->returns_without_call == 2, "oddities are read back");
    /* Half of a tree is better than none. */
    struct tree *half = tree_of_thread(world.set, 2, "pid.tid");
    tree_add(half, records.at, records.n / 2, false);
    tree_end(half, 0);
    size_t count;
    tree_nodes(half, &count);
    CHECK(count > 2, "%zu nodes of a cut tree", count);
    VEC_FREE(&records);
    world_deinit(&world);
}

int main(void)
{
    test_example();
    test_sampled_example();
    test_merged_view();
    test_chain_between_calls();
    test_exceptions_and_jumps();
    test_switches();
    test_backward_time();
    test_metrics();
    test_elapsed_of_metrics();
    test_pc();
    test_snapshot();
    test_lines();
    test_inlined();
    test_modules();
    test_merge();
    test_compare();
    test_records();
    return report_checks();
}
