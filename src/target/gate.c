#include "target/gate.h"

#include "base/clock.h"
#include "target/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/fanotify.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    AT_ONCE = 256,           /* that wait; more are let through */
    PATIENCE_NS = 500000000, /* so long one waits for us at most */
    NOT_ANSWERED = -1,
};

/* From the keeper: this thread wants to execute a program, and is let through at `until_ns`. Back: it may go on. */
struct message {
    pid_t tid;
    int event_fd; /* the keeper's */
    uint64_t until_ns;
};

struct target_gate {
    pid_t keeper;
    int fd; /* to the keeper */
};

/* ---- the keeper, a process of its own ---- */

struct keeper {
    int kernel_fd, fd;
    struct message waiting[AT_ONCE];
    size_t n;
};

static void let_through(struct keeper *keeper, int event_fd)
{
    struct fanotify_response response = {.fd = event_fd, .response = FAN_ALLOW};
    if (write(keeper->kernel_fd, &response, sizeof response) != sizeof response && errno != ENOENT)
        _exit(1); /* that lets everybody through */
    close(event_fd);
}

static void ask(struct keeper *keeper, const struct fanotify_event_metadata *event)
{
    struct message message = {.tid = event->pid, .event_fd = event->fd, .until_ns = clock_now_ns() + PATIENCE_NS};
    bool can_ask = event->pid > 0 && keeper->n < AT_ONCE;
    if (can_ask && send(keeper->fd, &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message)
        keeper->waiting[keeper->n++] = message;
    else
        let_through(keeper, event->fd);
}

static void take_events(struct keeper *keeper)
{
    char bytes[AT_ONCE * sizeof(struct fanotify_event_metadata)] __attribute__((aligned(8)));
    ssize_t left = read(keeper->kernel_fd, bytes, sizeof bytes);
    if (left < 0 && errno != EAGAIN && errno != EINTR)
        _exit(1);
    for (const struct fanotify_event_metadata *event = (const void *)bytes; FAN_EVENT_OK(event, left);
         event = FAN_EVENT_NEXT(event, left)) {
        if (event->vers != FANOTIFY_METADATA_VERSION)
            _exit(1);
        if (event->fd >= 0)
            ask(keeper, event);
    }
}

/* Lets those through that this is for; NOT_ANSWERED: those that have waited for too long. */
static void answer(struct keeper *keeper, int event_fd)
{
    uint64_t now_ns = clock_now_ns();
    for (size_t i = keeper->n; i-- > 0;) {
        struct message *message = &keeper->waiting[i];
        if (event_fd == NOT_ANSWERED ? now_ns < message->until_ns : message->event_fd != event_fd)
            continue;
        let_through(keeper, message->event_fd);
        *message = keeper->waiting[--keeper->n];
    }
}

static _Noreturn void keep(int kernel_fd, int fd)
{
    enum { TICK_MS = 10 };
    struct keeper keeper = {.kernel_fd = kernel_fd, .fd = fd};
    for (;;) {
        struct message message;
        struct pollfd fds[2] = {{.fd = kernel_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        poll(fds, 2, keeper.n ? TICK_MS : -1);
        if (fds[0].revents)
            take_events(&keeper);
        ssize_t got = recv(fd, &message, sizeof message, MSG_DONTWAIT);
        if (got == sizeof message)
            answer(&keeper, message.event_fd);
        else if (got >= 0 || (errno != EAGAIN && errno != EINTR))
            _exit(0); /* nobody asks any more */
        answer(&keeper, NOT_ANSWERED);
    }
}

/* Of what it inherits it needs two descriptors, and no signal that is meant for us. */
static _Noreturn void become_keeper(int kernel_fd, int fd)
{
    enum { KERNEL_FD = 3, OUR_FD, FIRST_SPARE = 16 };
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    prctl(PR_SET_NAME, "probity-gate");
    int from[2] = {fcntl(kernel_fd, F_DUPFD, FIRST_SPARE), fcntl(fd, F_DUPFD, FIRST_SPARE)};
    if (from[0] < 0 || from[1] < 0 || dup2(from[0], KERNEL_FD) < 0 || dup2(from[1], OUR_FD) < 0)
        _exit(1);
    close_range(0, KERNEL_FD - 1, 0);
    close_range(OUR_FD + 1, ~0u, 0);
    keep(KERNEL_FD, OUR_FD);
}

/* ---- our side ---- */

static int watch(char *const *paths, size_t count)
{
    int fd = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC | FAN_NONBLOCK | FAN_REPORT_TID, O_RDONLY | O_CLOEXEC | O_LARGEFILE);
    size_t marked = 0;
    for (size_t i = 0; i < count && fd >= 0; i++)
        marked += !fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN_EXEC_PERM, AT_FDCWD, paths[i]);
    if (fd >= 0 && !marked) {
        close(fd);
        return -1;
    }
    return fd;
}

struct target_gate *target_gate_create(char *const *paths, size_t count)
{
    int ends[2], kernel_fd = watch(paths, count);
    if (kernel_fd < 0)
        return NULL;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) {
        close(kernel_fd);
        return NULL;
    }
    pid_t keeper = fork();
    if (!keeper)
        become_keeper(kernel_fd, ends[1]);
    close(kernel_fd); /* the keeper's alone: with it everything ends */
    close(ends[1]);
    if (keeper < 0) {
        close(ends[0]);
        return NULL;
    }
    struct target_gate *gate = memory_zero(1, sizeof *gate);
    gate->keeper = keeper;
    gate->fd = ends[0];
    return gate;
}

void target_gate_destroy(struct target_gate *gate)
{
    if (!gate)
        return;
    if (gate->fd >= 0)
        close(gate->fd);
    waitpid(gate->keeper, NULL, 0);
    free(gate);
}

int target_gate_fd(const struct target_gate *gate)
{
    return gate->fd;
}

/* Waits until the thread has executed the program, and is thereby the process, or until it stops without having done so. */
static bool await_exec(pid_t tid, pid_t pid)
{
    enum { STEP_NS = 20000 };
    for (;;) {
        int status;
        pid_t found = waitpid(pid, &status, __WALL | WNOHANG);
        if (found <= 0 && tid != pid)
            found = waitpid(tid, &status, __WALL | WNOHANG);
        if (found > 0 && !WIFSTOPPED(status))
            return false;
        if (found > 0 && status >> 16 == PTRACE_EVENT_EXEC)
            return true;
        if (found > 0) { /* the program can not be executed */
            int signal = status >> 16 ? 0 : WSTOPSIG(status);
            ptrace(PTRACE_DETACH, found, 0, signal);
            return false;
        }
        if (kill(pid, 0) && errno == ESRCH)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = STEP_NS}, NULL);
    }
}

/* The interruption takes effect when the system call is over, unless it has become another program, which stops before that. */
static struct target *catch (const struct target_gate *gate, const struct message *message)
{
    char group[16];
    bool is_known = target_status_field(message->tid, message->tid, "Tgid", group, sizeof group);
    bool is_seized = is_known && !ptrace(PTRACE_SEIZE, message->tid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC);
    if (is_seized)
        ptrace(PTRACE_INTERRUPT, message->tid, 0, 0);
    send(gate->fd, message, sizeof *message, MSG_NOSIGNAL); /* without a keeper nobody waits */
    if (!is_seized || !await_exec(message->tid, atoi(group)))
        return NULL;
    return target_finish_exec(atoi(group)) ? target_open_executed(atoi(group)) : NULL;
}

bool target_gate_next(struct target_gate *gate, struct target **target, pid_t *late)
{
    enum { MARGIN_NS = PATIENCE_NS / 8 };
    struct message message;
    ssize_t got = recv(gate->fd, &message, sizeof message, MSG_DONTWAIT);
    *target = NULL;
    *late = 0;
    if (!got) { /* the keeper is gone, and nobody waits any more */
        close(gate->fd);
        gate->fd = -1;
    }
    if (got != sizeof message)
        return false;
    if (clock_now_ns() < message.until_ns - MARGIN_NS)
        *target = catch (gate, &message);
    else
        *late = message.tid;
    return true;
}
