/* Tasks made by a bare clone(CLONE_VM) without CLONE_SETTLS: they run on their own stacks and share the thread pointer of their parent,
 * which calls the same function at the same time. */
#include "victim.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TASKS = 4, STACK_BYTES = 65536 };

static volatile uint32_t result[TASKS];
static long calls;

TRACED uint32_t raw_work(uint32_t a)
{
    for (uint32_t i = 0; i < 3; i++)
        a = mix(a, i);
    return a;
}

/* Uses nothing of libc: errno and stdio belong to the parent. */
static int task(void *argument)
{
    uint32_t sum = 1;
    for (long i = 0; i < calls; i++)
        sum = raw_work(sum);
    result[(uintptr_t)argument] = sum;
    return 0;
}

int main(int argc, char **argv)
{
    pid_t child[TASKS];
    uint32_t sum = 1;
    calls = victim_option(argc, argv, "-n", 100000);
    for (uintptr_t i = 0; i < TASKS; i++) {
        char *stack = malloc(STACK_BYTES);
        CHECK(stack);
        child[i] = clone(task, stack + STACK_BYTES, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, (void *)i);
        CHECK(child[i] > 0);
    }
    for (long i = 0; i < calls; i++)
        sum = raw_work(sum);
    for (int i = 0; i < TASKS; i++) {
        int status;
        CHECK(waitpid(child[i], &status, 0) == child[i] && status == 0);
        CHECK(result[i] == sum);
    }
    printf("raw_work %ld\nsum %08x\n", (TASKS + 1) * calls, sum);
    return 0;
}
