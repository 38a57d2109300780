/* Work that never ends to be new: threads and processes that come and go, and stacks of which each is another.
 *   v_churn
 * Reads lines: `tasks N` starts N times some threads and a child, one round after the other; `stacks N` makes N calls that call each other
 * in a random order. Each line is answered with `done` when all of that is over. */
#include "victim.h"

#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, DEPTH = 200, LEAF = 20000 };

static uint32_t seed = 1, seen;

TRACED uint32_t leaf(uint32_t value)
{
    for (int i = 0; i < LEAF; i++)
        value = mix(value, (uint32_t)i);
    return value;
}

/* ---- tasks ---- */

static void *work(void *argument)
{
    __atomic_xor_fetch(&seen, leaf((uint32_t)(uintptr_t)argument), __ATOMIC_RELAXED);
    return NULL;
}

static void churn(void)
{
    pthread_t thread[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(!pthread_create(&thread[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    pid_t child = fork();
    if (!child) {
        work(NULL);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
}

/* ---- stacks ---- */

static uint32_t descend(uint32_t value, int depth);
TRACED uint32_t north(uint32_t value, int depth)
{
    return descend(value, depth) + 1;
}
TRACED uint32_t east(uint32_t value, int depth)
{
    return descend(value, depth) + 2;
}
TRACED uint32_t south(uint32_t value, int depth)
{
    return descend(value, depth) + 3;
}
TRACED uint32_t west(uint32_t value, int depth)
{
    return descend(value, depth) + 4;
}

static __attribute__((noinline)) uint32_t descend(uint32_t value, int depth)
{
    static uint32_t (*const ways[])(uint32_t, int) = {north, east, south, west};
    if (!depth)
        return leaf(value);
    seed = seed * 1664525 + 1013904223;
    return ways[seed >> 30](value, depth - 1) ^ 1;
}

int main(void)
{
    char what[16];
    unsigned count;
    while (scanf("%15s %u", what, &count) == 2) {
        for (unsigned i = 0; i < count; i++) {
            if (!strcmp(what, "tasks"))
                churn();
            else
                seen ^= descend(i, DEPTH);
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
