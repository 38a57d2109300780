/* Forked children and their parent call the same function; grandchildren too. Self-counted in shared memory.
 *   v_fork [-n CALLS] [-w] */
#include "victim.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static _Atomic uint64_t *shared_calls;

TRACED uint32_t fork_work(uint32_t a)
{
    for (uint32_t i = 0; i < 5; i++)
        a = mix(a, i);
    return a;
}

static uint32_t work(long calls)
{
    uint32_t sum = 1;
    for (long i = 0; i < calls; i++)
        sum = fork_work(sum);
    atomic_fetch_add(shared_calls, (uint64_t)calls);
    return sum;
}

static void end_of(pid_t child, uint32_t sum)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == (int)(sum & 0x7f));
}

int main(int argc, char **argv)
{
    long calls = victim_option(argc, argv, "-n", 10000);
    int waits = victim_flag(argc, argv, "-w");
    pid_t child[4];
    shared_calls = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared_calls != MAP_FAILED);
    if (waits)
        victim_wait();
    uint32_t sum = work(calls);
    for (int i = 0; i < 4; i++) {
        child[i] = fork();
        CHECK(child[i] >= 0);
        if (child[i] == 0) {
            pid_t grandchild = fork();
            CHECK(grandchild >= 0);
            uint32_t part = work(calls);
            if (grandchild == 0)
                _exit((int)(part & 0x7f));
            end_of(grandchild, part);
            _exit((int)(part & 0x7f));
        }
    }
    CHECK(work(calls) == sum);
    for (int i = 0; i < 4; i++)
        end_of(child[i], sum);
    printf("fork_work %llu\nsum %08x\n", (unsigned long long)*shared_calls, sum);
    fflush(stdout);
    if (waits)
        victim_wait();
    return 0;
}
