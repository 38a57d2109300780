/* What a body says it has in hand, before each of its instructions: where it says that it has no node, every dead node may be given to
 * another key, as the collector does when it has seen all threads there. The body then does to its own key what it should, and nothing to
 * the other. (S0.7) */
#include "drain/maps.h"
#include "test/check.h"
#include "test/unit/map_bodies.h"

#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

enum { STEP_FLAG = 0x100, KEY = 77, OTHER = 88, OLD = 5, NEW = 6, OTHERS = 7 };
enum { LIVING, DEAD, ABSENT, BEGINNINGS };

static uint32_t clause, step, wanted_step;
static bool is_given; /* the dead were given away */

static void set(uint64_t key, int64_t value)
{
    CHECK(stream_map_set(session.memory, KEYS, &key, value), "no room");
}

static void delete (uint64_t key)
{
    stream_map_delete(session.memory, KEYS, &key);
}

/* What others do while the thread is here: the key is deleted, its node collected, and taken for another key. */
static void give_away(void)
{
    delete (KEY);
    drain_maps_uncount(&session);
    if (!drain_maps_guard(&session))
        return;
    drain_maps_guarded(&session);
    is_given = drain_maps_retire(&session);
    drain_maps_free(&session);
    set(OTHER, OTHERS);
}

static enum jit_holds holds_at(uintptr_t at)
{
    enum jit_holds holds = JIT_NOTHING;
    for (size_t i = 0; i < body[clause].depth.n && body[clause].depth.at[i].from <= at; i++)
        holds = body[clause].depth.at[i].holds;
    return holds;
}

/* Steps are counted in the body only: the agent's code is the collector's to know. */
static void on_step(int number, siginfo_t *info, void *context)
{
    uintptr_t at = (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] - (uintptr_t)(bodies + clause * CODE_BYTES);
    (void)number, (void)info;
    if (at < body[clause].code.n && step++ == wanted_step && holds_at(at) == JIT_NOTHING)
        give_away();
}

static void run_stepwise(void)
{
    step = 0;
    is_given = false;
    __asm__ volatile("pushfq\n\torl %0,(%%rsp)\n\tpopfq" : : "i"(STEP_FLAG) : "memory", "cc");
    call_body(clause, KEY, NEW);
    __asm__ volatile("pushfq\n\tandl %0,(%%rsp)\n\tpopfq" : : "i"(~STEP_FLAG) : "memory", "cc");
}

/* Some dead nodes, without which nothing is collected, and the key as it is to be. */
static void begin(int beginning)
{
    for (uint64_t i = 0; i < NODES / 2; i++) {
        set(1000 + i, 1);
        delete (1000 + i);
    }
    if (beginning == ABSENT)
        return;
    set(KEY, OLD);
    if (beginning == DEAD)
        delete (KEY);
}

static bool check_step(int beginning)
{
    uint64_t key = KEY, other = OTHER;
    struct err *error = make_session();
    if (error) {
        printf("%s\n", error->message);
        failures++;
        return false;
    }
    begin(beginning);
    run_stepwise();
    bool is_there = stream_map_has(session.memory, KEYS, &key);
    int64_t value = stream_map_get(session.memory, KEYS, &key), others = stream_map_get(session.memory, KEYS, &other);
    CHECK(!is_there || (clause == SET && value == NEW), "clause %u, beginning %d, step %u: %lld is there", clause, beginning, wanted_step,
          (long long)value);
    CHECK(is_there || clause != SET || is_given, "clause %u, beginning %d, step %u: not set", clause, beginning, wanted_step);
    CHECK(others == (is_given ? OTHERS : 0), "clause %u, beginning %d, step %u: the other key has %lld", clause, beginning, wanted_step,
          (long long)others);
    destroy_session();
    return step > wanted_step;
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    uint32_t steps = 0, given = 0;
    sigaction(SIGTRAP, &action, NULL);
    for (clause = 0; clause < CLAUSES; clause++)
        for (int beginning = 0; beginning < BEGINNINGS; beginning++) {
            for (wanted_step = 0; check_step(beginning); wanted_step++)
                given += is_given;
            steps += wanted_step;
        }
    CHECK(given > steps / 8 && given < steps, "nodes were given away at %u of %u steps", given, steps);
    printf("nodes given away at %u of %u steps, %d failures\n", given, steps, failures);
    return failures != 0;
}
