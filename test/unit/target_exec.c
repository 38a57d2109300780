/* A process is stopped and made to make calls while one of its threads executes a program, over and over: the kernel ends all its other
 * threads then, stopped or not, waits for their tracer to take their ends, and gives the id of the first to that thread. Nobody waits for
 * anybody without end, nothing is done to the new program in the name of the old one, and it is let go. In 64- and 32-bit processes. */
#include "base/clock.h"
#include "target/target.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int width;

static void fail(const char *what, const char *why)
{
    printf("FAIL %d-bit: %s: %s\n", width, what, why);
    exit(1);
}

/* ---- the victim ---- */

struct victim {
    pid_t pid, parent; /* the parent ends with the signal that has ended the victim */
    int out;
    long executed;
};

static void start(struct victim *victim)
{
    int out[2], id[2];
    char path[64];
    snprintf(path, sizeof path, "build/victim/%d/v_thread_exec", width);
    if (pipe(out) || pipe(id))
        fail("pipe", "");
    fflush(stdout);
    victim->parent = fork();
    if (victim->parent == 0) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) {
            dup2(out[1], 1);
            execl(path, path, "3000", (char *)NULL);
            _exit(127);
        }
        close(out[0]), close(out[1]);
        if (write(id[1], &pid, sizeof pid) != sizeof pid || waitpid(pid, &status, 0) != pid)
            _exit(1);
        _exit(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
    if (read(id[0], &victim->pid, sizeof victim->pid) != sizeof victim->pid)
        fail("start", "no id");
    close(out[1]), close(id[0]), close(id[1]);
    victim->out = out[0];
    victim->executed = 0;
}

static void end(struct victim *victim)
{
    int status;
    kill(victim->pid, SIGKILL);
    if (waitpid(victim->parent, &status, 0) != victim->parent || !WIFEXITED(status) || WEXITSTATUS(status) != SIGKILL)
        fail("the victim has ended by itself", "");
    close(victim->out);
}

/* Until it has executed itself once more. */
static void await_next(struct victim *victim)
{
    enum { MOST_MS = 20000 };
    char bytes[4096];
    struct pollfd out = {.fd = victim->out, .events = POLLIN};
    ssize_t got = poll(&out, 1, MOST_MS) == 1 ? read(victim->out, bytes, sizeof bytes) : 0;
    if (got <= 0)
        fail("the victim does not go on", "");
    victim->executed += got;
}

/* ---- the tracer ---- */

static struct err *call_in(pid_t pid, struct target **target)
{
    enum { CALLS = 20 };
    ERR_TRY(target_open(pid, target));
    ERR_TRY(target_stop_one(*target));
    ERR_TRY(target_stop(*target));
    for (int i = 0; i < CALLS; i++) {
        int64_t result;
        ERR_TRY(target_syscall(*target, width == 64 ? 39 : 20, (uint64_t[6]){0}, &result));
        if (result != pid)
            fail("getpid in the process", "another result");
    }
    return NULL;
}

static void test(long executions)
{
    const uint64_t most_ns = 15000000000;
    struct victim victim;
    long whole = 0, cut = 0;
    start(&victim);
    await_next(&victim);
    while (victim.executed < executions) {
        struct target *target = NULL;
        uint64_t start_ns = clock_now_ns();
        struct err *error = call_in(victim.pid, &target), *resume = target ? target_resume(target) : NULL;
        /* Until a thread that could not be let go has stopped, we are its tracer. */
        if (error && error->code != ERR_NO_PROCESS && error->code != ERR_BUSY && error->code != ERR_REFUSED)
            fail("stop", error->message);
        if (resume && resume->code != ERR_NO_PROCESS)
            fail("resume", resume->message);
        cut += error != NULL;
        whole += error == NULL;
        err_free(error);
        err_free(resume);
        target_close(target);
        if (clock_now_ns() - start_ns > most_ns)
            fail("stop", "it takes too long");
        target_wait_for_leaving(1000000000);
        await_next(&victim);
    }
    end(&victim);
    printf("%d-bit: %ld executions, %ld stops, %ld cut short\n", width, victim.executed, whole, cut);
    if (!whole || !cut)
        fail("stops", "none of one kind");
}

int main(void)
{
    const char *is_long = getenv("PROBITY_LONG");
    for (width = 64; width >= 32; width -= 32)
        test(is_long && *is_long ? 30000 : 700);
    return 0;
}
