/* The tree of stacks: threads and processes that add the same stacks get the same numbers, and what is read is what was added; writers are
 * killed anywhere; a full tree counts its losses; a reader is safe with whatever somebody wrote into it. (S4.1, S2.2) timeout: 120 */
#include "drain/stacks.h"
#include "stream/stack.h"
#include "test/check.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 4, STACKS = 3000, DEEPEST = 60, NODES = 1 << 18, KILLED = 60, ROUNDS = 30 };

static struct {
    struct wire_stream head;
    struct wire_clause clause;
    struct wire_insn code[1];
} stream = {.head = {.magic = WIRE_STREAM_MAGIC, .bytes = sizeof stream, .clause_count = 1, .code_count = {0, 1}},
            .code = {{.op = WIRE_USTACK}}};

static void create(struct drain_session *session, uint32_t nodes)
{
    struct drain_options options = {.ring_bytes = 4096, .stack_nodes = nodes};
    stream.head.clause_offset = offsetof(typeof(stream), clause);
    stream.head.code_offset[0] = stream.head.code_offset[1] = offsetof(typeof(stream), code);
    struct err *error = drain_session_create(&stream.head, &options, session);
    if (error) {
        printf("%s\n", error->message);
        exit(1);
    }
    CHECK(session->layout.stack_nodes == nodes, "%u nodes", session->layout.stack_nodes);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    return *state ^= *state << 17;
}

/* Stack number i of all that there are: with common outer frames, as stacks have them. */
static uint32_t make(uint32_t i, uint64_t *pcs, uint64_t *root)
{
    uint64_t state = 0x9e3779b97f4a7c15ull * (i / 10 + 1);
    uint32_t depth = 1 + (uint32_t)(next_random(&state) % DEEPEST);
    for (uint32_t k = 0; k < depth; k++)
        pcs[k] = 0x7f0000000000 + next_random(&state) % 50;
    pcs[0] += i;
    *root = WIRE_STACK_ROOT(1 + i % 3, 1000 + i % 2);
    return depth;
}

/* ---- threads ---- */

static struct drain_session shared;
static pthread_barrier_t start;
static uint32_t numbers[WRITERS][STACKS];

static void *add_all(void *argument)
{
    uint32_t writer = (uint32_t)(uintptr_t)argument;
    uint64_t pcs[DEEPEST], root;
    pthread_barrier_wait(&start);
    for (uint32_t i = 0; i < STACKS; i++) {
        uint32_t which = i * 7 % STACKS; /* all of them the same at the same time */
        uint32_t depth = make(which, pcs, &root);
        numbers[writer][which] = stream_stack_add(shared.memory, root, pcs, depth);
    }
    return NULL;
}

static void read_back(struct drain_session *session, const uint32_t *number, const char *what)
{
    uint64_t pcs[DEEPEST], root, found[WIRE_STACK_MAX], found_root;
    for (uint32_t i = 0; i < STACKS; i++) {
        uint32_t depth = make(i, pcs, &root), count = drain_stack_read(session, number[i], found, &found_root);
        CHECK(count == depth && root == found_root && !memcmp(pcs, found, depth * sizeof *pcs), "%s: stack %u has %u frames instead of %u",
              what, i, count, depth);
    }
}

static void test_threads(void)
{
    pthread_t thread[WRITERS];
    create(&shared, NODES);
    pthread_barrier_init(&start, NULL, WRITERS);
    for (uintptr_t i = 0; i < WRITERS; i++)
        pthread_create(&thread[i], NULL, add_all, (void *)i);
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < WRITERS; i++)
        CHECK(!memcmp(numbers[0], numbers[i], sizeof numbers[0]), "writers 0 and %d have other numbers", i);
    for (uint32_t i = 0; i < STACKS; i++)
        for (uint32_t k = i + 1; k < STACKS && k < i + 20; k++)
            CHECK(numbers[0][i] != numbers[0][k], "stacks %u and %u are one", i, k);
    read_back(&shared, numbers[0], "threads");
    CHECK(!drain_session_lost(&shared, WIRE_LOSS_STACK), "lost");
    drain_session_destroy(&shared);
}

/* ---- killed processes ---- */

static void add_until_killed(struct drain_session *session, uint32_t from)
{
    uint64_t pcs[DEEPEST], root;
    for (uint32_t i = from;; i = (i + 1) % STACKS) {
        uint32_t depth = make(i, pcs, &root);
        stream_stack_add(session->memory, root, pcs, depth);
    }
}

static void test_killed(void)
{
    struct drain_session session;
    uint64_t pcs[DEEPEST], root, state = 1;
    static uint32_t number[STACKS];
    create(&session, NODES);
    for (int i = 0; i < KILLED; i++) {
        pid_t child = fork();
        if (!child)
            add_until_killed(&session, (uint32_t)i * 50);
        usleep((useconds_t)(next_random(&state) % 2000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    for (uint32_t i = 0; i < STACKS; i++) {
        uint32_t depth = make(i, pcs, &root);
        number[i] = stream_stack_add(session.memory, root, pcs, depth);
        CHECK(number[i] == stream_stack_add(session.memory, root, pcs, depth), "stack %u has two numbers", i);
    }
    read_back(&session, number, "killed");
    drain_session_destroy(&session);
}

/* ---- no room ---- */

static void test_full(void)
{
    enum { FEW = 100 };
    struct drain_session session;
    uint64_t pcs[DEEPEST], root, lost = 0;
    uint32_t number[STACKS];
    create(&session, FEW);
    for (uint32_t i = 0; i < STACKS; i++) {
        uint32_t depth = make(i, pcs, &root);
        number[i] = stream_stack_add(session.memory, root, pcs, depth);
        lost += !number[i];
    }
    CHECK(lost > STACKS / 2 && number[0], "%llu lost", (unsigned long long)lost);
    CHECK(drain_session_lost(&session, WIRE_LOSS_STACK) == lost, "%llu counted",
          (unsigned long long)drain_session_lost(&session, WIRE_LOSS_STACK));
    for (uint32_t i = 0; i < STACKS; i++) {
        uint64_t found[WIRE_STACK_MAX], found_root;
        uint32_t depth = make(i, pcs, &root);
        CHECK(!number[i] || drain_stack_read(&session, number[i], found, &found_root) == depth, "stack %u", i);
    }
    drain_session_destroy(&session);
}

/* ---- nonsense ---- */

/* A tree in memory of its own, with nothing readable behind it. */
static void test_nonsense(void)
{
    enum { COUNT = 256, CHANGES = 20000 };
    struct drain_session session;
    create(&session, COUNT);
    struct wire_stack_node *node = (void *)((char *)session.memory + session.layout.stacks_offset);
    uint32_t *bucket = (void *)((char *)session.memory + session.layout.stack_buckets_offset);
    uint64_t found[WIRE_STACK_MAX], root, state = 7;
    for (int i = 0; i < CHANGES; i++) {
        for (uint32_t k = 0; k < 16; k++) {
            struct wire_stack_node *one = &node[next_random(&state) % COUNT];
            uint64_t kind = next_random(&state) % 4;
            one->parent = (uint32_t)(kind ? next_random(&state) % (COUNT + 2) : next_random(&state));
            one->next = (uint32_t)(kind ? next_random(&state) % (COUNT + 2) : next_random(&state));
            one->pc = next_random(&state);
            bucket[next_random(&state) % (session.layout.stack_bucket_mask + 1)] = (uint32_t)(next_random(&state) % (COUNT + 3));
        }
        wire_state(session.memory)->stacks_used = (uint32_t)next_random(&state);
        uint32_t count =
            drain_stack_read(&session, (uint32_t)(i % 3 ? next_random(&state) % (COUNT + 2) : next_random(&state)), found, &root);
        CHECK(count <= WIRE_STACK_MAX, "%u frames", count);
        stream_stack_add(session.memory, root, found, count < 40 ? count : 40);
    }
    for (uint32_t k = 0; k < COUNT; k++)
        node[k] = (struct wire_stack_node){.parent = (k + 1) % COUNT + 1, .pc = k};
    CHECK(drain_stack_read(&session, 1, found, &root) == 0, "a circle has an end");
    drain_session_destroy(&session);
}

/* The longest stack that there may be, and one more. */
static void test_longest(void)
{
    struct drain_session session;
    static uint64_t pcs[WIRE_STACK_MAX + 1], found[WIRE_STACK_MAX];
    uint64_t root;
    create(&session, 4096);
    for (uint32_t i = 0; i <= WIRE_STACK_MAX; i++)
        pcs[i] = i;
    uint32_t number = stream_stack_add(session.memory, 5, pcs, WIRE_STACK_MAX);
    CHECK(drain_stack_read(&session, number, found, &root) == WIRE_STACK_MAX && root == 5 &&
              found[WIRE_STACK_MAX - 1] == WIRE_STACK_MAX - 1,
          "the longest");
    number = stream_stack_add(session.memory, 5, pcs, WIRE_STACK_MAX + 1);
    CHECK(drain_stack_read(&session, number, found, &root) == 0, "longer");
    CHECK(drain_stack_read(&session, 0, found, &root) == 0 && root == 0, "none");
    drain_session_destroy(&session);
}

int main(void)
{
    for (int i = 0; i < ROUNDS; i++)
        test_threads();
    test_killed();
    test_full();
    test_nonsense();
    test_longest();
    printf(failures ? "FAIL %d\n" : "the tree of stacks holds\n", failures);
    return failures != 0;
}
