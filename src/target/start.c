#include "target/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child waits until it is seized, then executes; errno of a failed exec comes back through the pipe. */
static _Noreturn void run_child(char *const argv[], int go_fd, int error_fd)
{
    char byte;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    if (read(go_fd, &byte, 1) == 1)
        execvp(argv[0], argv);
    int number = errno;
    if (write(error_fd, &number, sizeof number) < 0)
        _exit(126);
    _exit(127);
}

static struct err *exec_error(const char *name, int number)
{
    return err_errno(number == ENOENT   ? ERR_NO_MATCH
                     : number == EACCES ? ERR_PERMISSION
                                        : ERR_FILE,
                     number, "%s: can not be started", name);
}

/* Runs the seized child up to the stop after its exec. */
static struct err *await_exec(pid_t child, const char *name, int error_fd)
{
    for (;;) {
        int status, number;
        if (!target_wait_for(child, &status))
            return err_new(ERR_BUSY, "%s: can not be started: the kernel does not come back from executing it", name);
        if (!WIFSTOPPED(status)) {
            if (read(error_fd, &number, sizeof number) == sizeof number)
                return exec_error(name, number);
            return err_new(ERR_SYSTEM, "%s: ended before it could be traced", name);
        }
        /* The exec event comes in the middle of the system call; only its end is a place to make others. */
        bool executed = status >> 16 == PTRACE_EVENT_EXEC, syscall_stop = WSTOPSIG(status) == (SIGTRAP | 0x80);
        if (syscall_stop && status >> 16 == 0)
            return NULL;
        ptrace(executed ? PTRACE_SYSCALL : PTRACE_CONT, child, 0, status >> 16 ? 0L : (long)WSTOPSIG(status));
    }
}

static struct err *start_child(char *const argv[], int go[2], int report[2], pid_t *out)
{
    pid_t child = fork();
    if (child < 0)
        return err_errno(ERR_SYSTEM, errno, "fork");
    if (child == 0)
        run_child(argv, go[0], report[1]);
    *out = child;
    close(report[1]);
    report[1] = -1;
    struct err *error = NULL;
    if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD))
        error = err_errno(ERR_SYSTEM, errno, "%s: trace", argv[0]);
    else if (write(go[1], "g", 1) != 1)
        error = err_errno(ERR_SYSTEM, errno, "%s: start", argv[0]);
    else
        error = await_exec(child, argv[0], report[0]);
    return error;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

struct err *target_start(char *const argv[], struct target **out)
{
    int go[2], report[2];
    if (pipe2(go, O_CLOEXEC))
        return err_errno(ERR_SYSTEM, errno, "pipe");
    if (pipe2(report, O_CLOEXEC)) {
        close_pair(go);
        return err_errno(ERR_SYSTEM, errno, "pipe");
    }
    pid_t child = 0;
    struct err *error = start_child(argv, go, report, &child);
    close_pair(go);
    close_pair(report);
    struct target *target = NULL;
    if (!error) {
        /* The checks of target_open() are about strangers; here the tracer is ourselves. */
        ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD);
        error = target_open_traced(child, &target);
    }
    if (error) {
        if (child > 0) {
            int status;
            kill(child, SIGKILL);
            target_wait_for(child, &status);
        }
        return error;
    }
    target->is_child = true;
    VEC_PUSH(&target->thread, (struct target_thread){.tid = child, .stopped = true});
    error = target_thread_settle(target, &target->thread.at[0]);
    if (error)
        target_close(target);
    else
        *out = target;
    return error;
}
