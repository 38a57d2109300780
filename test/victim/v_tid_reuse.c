/* One thread after the other, each in its own function, the second with the thread id of the first. Needs the right to say which id comes
 * next. v_tid_reuse [-n CALLS] [-w] Prints the calls of each, and `reused` when the ids were equal. */
#include "victim.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long calls;
static uint32_t seen;

TRACED uint32_t early_work(uint32_t a)
{
    return mix(a, 1);
}

TRACED uint32_t late_work(uint32_t a)
{
    return mix(a, 2);
}

/* Ends at once unless it has the id that is wanted. */
struct task {
    const char *name;
    uint32_t (*work)(uint32_t);
    long wanted, tid;
};

static void *run(void *argument)
{
    struct task *task = argument;
    task->tid = syscall(SYS_gettid);
    if (task->wanted && task->tid != task->wanted)
        return NULL;
    prctl(PR_SET_NAME, task->name);
    for (long i = 0; i < calls; i++)
        seen = task->work(seen);
    return NULL;
}

static void run_task(struct task *task)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, run, task));
    pthread_join(thread, NULL);
    while (!syscall(SYS_tgkill, getpid(), task->tid, 0)) /* joined before the kernel has forgotten it */
        usleep(100);
}

static void next_tid_is(long tid)
{
    char text[24];
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    int length = snprintf(text, sizeof text, "%ld", tid - 1);
    if (fd < 0 || write(fd, text, (size_t)length) != length) {
        puts("no right to choose a thread id");
        exit(0);
    }
    close(fd);
}

int main(int argc, char **argv)
{
    enum { TRIES = 1000 };
    struct task early = {.name = "early", .work = early_work}, late = {.name = "late", .work = late_work};
    calls = victim_option(argc, argv, "-n", 1000);
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    run_task(&early);
    late.wanted = early.tid;
    for (int i = 0; i < TRIES && late.tid != late.wanted; i++) {
        next_tid_is(late.wanted); /* others may be faster */
        run_task(&late);
    }
    CHECK(late.tid == late.wanted);
    printf("early_work %ld\nlate_work %ld\nreused\n", calls, calls);
    return 0;
}
