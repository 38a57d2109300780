/* What processes write into the session's memory: a script's maps, rings, stacks and frames, filled by its own clauses, in which random
 * words are changed between one call of the controller and the next: reading records and doing what they say, printing, collecting,
 * abandoning, running clauses.
 *
 *   drain_session --runs N [--seed S]
 *
 * Build with -fsanitize=address,undefined. Besides what the sanitizers see, a run fails when one call takes more than a minute of the
 * processor, or memory without end. */
#include "base/clock.h"
#include "drain/maps.h"
#include "drain/stacks.h"
#include "live/run.h"
#include "stream/stack.h"
#include "stream/stream.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { RING_BYTES = 1 << 16, ROUNDS = 40, LIMIT_S = 60, KILOBYTES = 2 << 20 };

static const char text[] =
    "config = { max_map_keys = 60 }\n"
    "BEGIN { @i = 1; @k[1] = 2; @k[2] = 3; @s[\"a\"] = \"text\"; @c = count(); @h[1] = hist(5); @l = lhist(7, 0, 100, 10); @st[3] = "
    "stats(4);"
    " @av[5] = avg(6); @mi[7] = min(8); @ma = max(9); @su[1, \"x\"] = sum(5); @ts[1] = tseries(4, 1s, 5); @t = (1, \"two\", 3);"
    " printf(\"%d %s %p %x %c %5s|%-5s|\\n\", 1, \"two\", 3, 4, 65, \"five\", \"six\"); }\n"
    "interval:s:1 { @i++; @k[@i % 70] = @i; delete(@k[(@i + 3) % 70]); @c = count(); @h[@i % 5] = hist(@i * 1000); @l = lhist(@i % 130, 0, "
    "100, 10);"
    " @st[@i % 7] = stats(@i); @av[@i % 9] = avg(@i); @mi[@i % 3] = min(@i); @ma = max(@i); @su[@i % 4, \"y\"] = sum(@i);"
    " @ts[@i % 3] = tseries(@i, 1s, 5); @d[@i * 12345] = 1; delete(@d[@i * 12345]); @s[\"b\"] = \"longer text\"; @o[ustack] = count();"
    " for ($kv : @k) { @sum[$kv.0 % 20] = $kv.1; } printf(\"%d %d %s\\n\", len(@k), has_key(@s, \"a\"), @s[\"b\"]); }\n"
    "interval:s:2 { print(@k); print(@h, 2); print(@l); print(@st, 3, 2); print(@av); print(@ts); print(@t); print(@mi); print(@s); "
    "print(@o);"
    " clear(@mi); zero(@h); print((@i, @s[\"a\"], @c)); time(\"%H:%M:%S\\n\"); exit(3); }\n"
    "interval:s:3 { speculate(); printf(\"perhaps %d %s\\n\", @i, @t.1); $e = @i / (@i - 5); @q[$e] = 1; commit(); "
    "discard();"
    " printf(\"%s %s %s %s\\n\", probe, comm, ustack, strftime(\"%S\", nsecs)); errorf(\"e %d\", 1); warnf(\"w\"); assert(@i < 1000, "
    "\"many\"); }\n"
    "END { print(@k); print(len(@k)); for ($kv : @s) { printf(\"%s %s\\n\", $kv.0, $kv.1); } printf(\"end %s %d\\n\", @t.1, @su[1, "
    "\"x\"]); }\n";

static uint64_t state = 1;

static uint64_t any(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint64_t below(uint64_t limit)
{
    return limit ? any() % limit : 0;
}

static uint64_t odd_number(void)
{
    switch (below(6)) {
    case 0:
        return any();
    case 1:
        return UINT64_MAX - below(16);
    case 2:
        return 1ull << below(64);
    case 3:
        return below(4096) * 8;
    default:
        return below(100);
    }
}

/* ---- the run ---- */

static struct live_script *script;
static struct live_options options = {.name = "fuzz", .text = text, .length = sizeof text - 1, .quiet = true};
static struct live_run run;

static _Noreturn void die(const char *what)
{
    fprintf(stderr, "drain_session: %s\n", what);
    abort();
}

static const char *find_name(void *cookie, enum print_name what, uint32_t number)
{
    (void)cookie;
    return what == PRINT_NAME_PROCESS ? live_process_name(&run, (pid_t)number) : names_text(&run.names, number % 64);
}

static const char *find_time_format(void *cookie, uint32_t number)
{
    (void)cookie;
    return number < script->built.time_format.n ? script->built.time_format.at[number] : NULL;
}

static bool find_symbol(void *cookie, uint64_t va, uint32_t pid, char *out, size_t room)
{
    (void)cookie;
    return load_session_symbol(run.session, (pid_t)pid, va, out, room);
}

static void begin(void)
{
    struct drain_options drain = {.clock = options.clock, .ring_bytes = RING_BYTES, .stack_nodes = 64};
    run = (struct live_run){.script = script, .options = &options};
    if (drain_session_create(script->built.stream, &drain, &run.memory))
        die("no session");
    run.frame = memory_zero(WIRE_FRAME_MAX / 8 + 1, 8);
    run.program = (struct load_program){
        .stream = script->built.stream, .memory = run.memory.memory, .memory_fd = run.memory.fd, .clause = script->spec_clause.at};
    run.session = load_session_create(script->spec.at, script->spec.n, &run.program, NULL, NULL);
    print_init(&run.print, options.out, options.out);
    run.print.json = below(2);
    run.print.max_strlen = script_max_strlen(script->program);
    run.print.names = (struct print_names){.cookie = &run,
                                           .symbol = find_symbol,
                                           .name = find_name,
                                           .time_format = find_time_format,
                                           .stack = live_stack_addresses,
                                           .frames = live_stack_frames};
    live_run_clauses(&run, SCRIPT_P_BEGIN);
}

static void end(void)
{
    err_free(load_session_destroy(run.session));
    drain_session_destroy(&run.memory);
    print_deinit(&run.print);
    names_deinit(&run.names);
    for (size_t i = 0; i < run.waiting.n; i++)
        free((void *)run.waiting.at[i].record.payload);
    VEC_FREE(&run.waiting);
    VEC_FREE(&run.error);
    VEC_FREE(&run.process_name);
    free(run.frame);
}

/* ---- what processes do ---- */

static char *shared(uint64_t offset)
{
    return (char *)run.memory.memory + offset;
}

static struct wire_ring *any_ring(void)
{
    return (struct wire_ring *)shared(run.memory.layout.rings_offset + below(run.memory.layout.ring_count) * run.memory.layout.ring_stride);
}

static void change_anything(void)
{
    uint64_t first = run.memory.layout.state_offset, bytes = run.memory.layout.bytes - first;
    for (uint64_t i = below(200); i; i--)
        *(uint64_t *)shared(first + (below(below(2) ? bytes : 16384) & ~7ull)) = odd_number();
}

/* Records that are whole, of types that there are, and say anything. */
static void forge_records(void)
{
    const struct wire_stream *stream = script->built.stream;
    struct wire_ring *ring = any_ring();
    for (uint64_t i = below(30); i; i--) {
        uint32_t type = (uint32_t)below(stream->record_count), head = ring->head, at = head & (RING_BYTES - 1);
        uint32_t bytes = (uint32_t)sizeof(struct wire_record) + stream_records(stream)[type].payload_bytes;
        if (head % 8 || at + bytes > RING_BYTES)
            break;
        struct wire_record *record = (struct wire_record *)((char *)(ring + 1) + at);
        *record = (struct wire_record){.state = bytes << 2 | WIRE_RECORD_COMMITTED,
                                       .type = (uint16_t)type,
                                       .clause = (uint16_t)below(stream->clause_count),
                                       .time = below(2) ? __builtin_ia32_rdtsc() : any(),
                                       .pid = (uint32_t)(below(2) ? (uint64_t)getpid() : odd_number()),
                                       .tid = (uint32_t)odd_number(),
                                       .place = (uint32_t)odd_number(),
                                       .speculation = below(8) ? 0 : (uint32_t)below(4)};
        for (uint32_t k = 0; k < stream_records(stream)[type].payload_bytes / 8; k++)
            ((uint64_t *)(record + 1))[k] = odd_number();
        ring->head = head + bytes;
    }
}

static void move_ring(void)
{
    struct wire_ring *ring = any_ring();
    *(below(3) ? &ring->head : &ring->tail) += (uint32_t)(below(2) ? below(64) * 8 : odd_number());
}

static void change_map(void)
{
    if (!run.memory.layout.map_count)
        return;
    const struct wire_map *map = &run.memory.map[below(run.memory.layout.map_count)];
    struct wire_map_state *all = (struct wire_map_state *)shared(map->state_offset);
    for (uint64_t i = below(100); i; i--) {
        uint64_t number = below(below(2) ? 70 : map->nodes) % map->nodes;
        struct wire_node *node = (struct wire_node *)shared(map->nodes_offset + number * map->node_bytes);
        switch (below(5)) {
        case 0:
            if (map->type.key_bytes)
                ((uint32_t *)shared(map->buckets_offset))[below(map->bucket_mask + 1ull)] = (uint32_t)below(map->nodes + 2ull);
            break;
        case 1:
            *all = (struct wire_map_state){
                .used = (uint32_t)(below(2) ? 70 : odd_number()), .free = odd_number(), .deleted = 1, .refused = below(3)};
            break;
        default:
            node->state = (uint32_t)(below(50) ? below(4) : odd_number());
            node->next = (uint32_t)below(below(2) ? 70 : map->nodes + 2ull);
            ((uint64_t *)(node + 1))[below((map->node_bytes - sizeof *node) / 8)] = odd_number();
        }
    }
}

/* ---- what the controller does ---- */

static void take_batch(void *context, const struct drain_record *record, size_t count)
{
    for (size_t i = 0; i < count; i++)
        live_take_record(context, &record[i]);
}

static void read_rings(void)
{
    bool all = !below(4), is_empty;
    run.memory.has_strangers = true;
    if (below(3))
        drain_records(&run.memory, script->built.stream, all, live_take_record, &run);
    else
        drain_ring(&run.memory, script->built.stream, (uint32_t)below(run.memory.layout.ring_count), all, 1 + below(5000), take_batch, &run,
                   &is_empty);
    if (drain_backlog(&run.memory) > (uint64_t)run.memory.layout.ring_count * RING_BYTES)
        die("there is more to read than rings can hold");
    run.is_over = run.has_exit_code = false;
}

static void read_maps(void)
{
    struct drain_contents contents;
    for (uint32_t i = 0; i < run.memory.layout.map_count; i++) {
        drain_map_read(&run.memory, i, &contents);
        if (contents.entry.n > run.memory.map[i].nodes)
            die("a map has more entries than nodes");
        if (i < script_n_maps(script->program) && contents.type->kind == WIRE_MAP_TSERIES)
            live_print_series(&run, i, &contents);
        else if (i < script_n_maps(script->program))
            print_map(&run.print, script_map_at(script->program, i), &contents, below(3), below(3));
        drain_contents_deinit(&contents);
        if (!below(8))
            drain_map_clear(&run.memory, i);
        if (!below(8))
            drain_map_zero(&run.memory, i);
    }
}

static void collect(void)
{
    drain_maps_guard(&run.memory);
    drain_maps_guarded(&run.memory);
    drain_maps_retire(&run.memory);
    if (drain_maps_left(&run.memory) || !below(4))
        drain_maps_free(&run.memory);
    if (!below(10))
        drain_maps_uncount(&run.memory);
}

static void abandon(void)
{
    uint64_t now_ns = clock_now_ns();
    if (drain_begin_abandon(&run.memory, now_ns, now_ns))
        drain_end_abandon(&run.memory);
    if (drain_begin_frames(&run.memory))
        drain_end_frames(&run.memory);
}

static void stacks(void)
{
    uint64_t pcs[WIRE_STACK_MAX], root;
    for (int i = 0; i < 20 && run.memory.layout.stack_nodes; i++) {
        for (int k = 0; k < 10; k++)
            pcs[k] = below(4);
        uint32_t number = stream_stack_add(run.memory.memory, WIRE_STACK_ROOT(1, getpid()), pcs, 10);
        if (drain_stack_read(&run.memory, below(2) ? number : (uint32_t)odd_number(), pcs, &root) > WIRE_STACK_MAX)
            die("a stack is deeper than any");
    }
}

static void clauses(void)
{
    live_run_clauses(&run, below(4) ? SCRIPT_P_INTERVAL : SCRIPT_P_END);
}

static void report(void)
{
    live_report_losses(&run);
    live_report_errors(&run);
}

static void on_time(int number)
{
    (void)number;
    die("a call takes too long");
}

static void one(void)
{
    static void (*const change[])(void) = {change_anything, forge_records, forge_records, move_ring, change_map, change_map};
    static void (*const call[])(void) = {read_rings, read_rings, read_rings, read_maps, collect, abandon, stacks, clauses, report};
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t i = below(4); i; i--)
            change[below(sizeof change / sizeof *change)]();
        setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_sec = LIMIT_S}, NULL);
        call[below(sizeof call / sizeof *call)]();
    }
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    end();
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    if (usage.ru_maxrss > KILOBYTES)
        die("memory without end");
}

int main(int argc, char **argv)
{
    uint64_t runs = 0, seed = 1;
    char *diagnostics;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--runs"))
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
    }
    options.out = fopen("/dev/null", "w");
    struct err *error = live_script_create(&options, &script, &diagnostics);
    if (error || !script) {
        fprintf(stderr, "%s\n", error ? error->message : diagnostics);
        return 1;
    }
    free(diagnostics);
    drain_clock_read(&options.clock);
    signal(SIGPROF, on_time);
    for (uint64_t i = 0; i < runs; i++) {
        state = (seed + i) * 0x9e3779b97f4a7c15ull | 1;
        any();
        one();
    }
    live_script_destroy(script);
    printf("drain_session: %llu runs\n", (unsigned long long)runs);
    return 0;
}
