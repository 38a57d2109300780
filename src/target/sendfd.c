/* Giving a stopped target descriptors of ours: it makes a pair of sockets, we take one end out of it, and it receives through the other.
 * Nothing of this has a name, so neither users nor namespaces matter. */
#include "target/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PIDFD_THREAD
#define PIDFD_THREAD O_EXCL
#endif

enum remote_call { CALL_SOCKETPAIR, CALL_RECVMSG, CALL_CLOSE };
static const int number64[] = {53, 47, 3}, number32[] = {360, 372, 6};

static struct err *call(struct target *target, enum remote_call name, const uint64_t args[6], int64_t *result)
{
    return target_syscall(target, (target->width == 64 ? number64 : number32)[name], args, result);
}

static struct err *send_them(int socket, const int *fd, size_t count)
{
    union {
        char bytes[CMSG_SPACE(TARGET_SEND_MOST * sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(head), fd, count * sizeof(int));
    /* Whatever the target has put there instead of its socket, we do not wait for it. */
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? NULL
                                                                       : err_errno(ERR_SYSTEM, errno, "descriptor: send to the process");
}

/* The message header as the target's kernel interface has it, with what it points to, at `va`. Returns where the descriptors' numbers will
 * be; -1 is there until then. */
static size_t make_message(const struct target *target, uint64_t va, size_t count, uint8_t out[TARGET_SCRATCH])
{
    enum { PART = 64, CONTROL = 96, BYTE = 152 };
    memset(out, 0, TARGET_SCRATCH);
    size_t head = target->width == 64 ? 16 : 12, control = head + count * sizeof(int);
    memset(out + CONTROL + head, 0xff, count * sizeof(int));
    if (target->width == 64) {
        memcpy(out, (uint64_t[7]){0, 0, va + PART, 1, va + CONTROL, (control + 7) / 8 * 8, 0}, 56);
        memcpy(out + PART, (uint64_t[2]){va + BYTE, 1}, 16);
    } else {
        uint32_t base = (uint32_t)va;
        memcpy(out, (uint32_t[7]){0, 0, base + PART, 1, base + CONTROL, (uint32_t)control, 0}, 28);
        memcpy(out + PART, (uint32_t[2]){base + BYTE, 1}, 8);
    }
    return CONTROL + head;
}

static struct err *receive(struct target *target, int socket, uint64_t scratch_va, size_t count, int *remote_fd)
{
    uint8_t bytes[TARGET_SCRATCH];
    size_t at = make_message(target, scratch_va, count, bytes);
    int64_t result;
    ERR_TRY(target_write(target, scratch_va, bytes, sizeof bytes));
    ERR_TRY(call(target, CALL_RECVMSG, (uint64_t[6]){(uint64_t)socket, scratch_va, MSG_CMSG_CLOEXEC | MSG_DONTWAIT}, &result));
    if (result != 1)
        return err_errno(ERR_SYSTEM, result < 0 ? (int)-result : EIO, "process %d: recvmsg in the process", target->pid);
    ERR_TRY(target_read(target, scratch_va + at, remote_fd, count * sizeof *remote_fd));
    for (size_t i = 0; i < count; i++)
        if (remote_fd[i] < 0)
            return err_new(ERR_SYSTEM, "process %d: it did not get the descriptor", target->pid);
    return NULL;
}

/* A descriptor of the process as one of ours. One whose first thread has ended has its descriptors in the others (Linux 6.9). */
static struct err *take(const struct target *target, int remote_fd, int *ours)
{
    *ours = (int)syscall(SYS_pidfd_getfd, target_pidfd(target), remote_fd, 0);
    if (*ours < 0 && errno == ESRCH) {
        int thread_fd = (int)syscall(SYS_pidfd_open, target_live_task(target->pid), PIDFD_THREAD);
        if (thread_fd < 0)
            return err_errno(ERR_SYSTEM, errno, "process %d: its first thread has ended: open another (Linux 6.9)", target->pid);
        *ours = (int)syscall(SYS_pidfd_getfd, thread_fd, remote_fd, 0);
        int error = errno;
        close(thread_fd);
        errno = error;
    }
    return *ours < 0 ? err_errno(ERR_SYSTEM, errno, "process %d: take a descriptor from it", target->pid) : NULL;
}

struct err *target_send_fds(struct target *target, const int *fd, size_t count, uint64_t scratch_va, int *remote_fd)
{
    int64_t result, ignored;
    int32_t pair[2];
    ERR_TRY(call(target, CALL_SOCKETPAIR, (uint64_t[6]){AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch_va}, &result));
    if (result < 0)
        return err_errno(ERR_SYSTEM, (int)-result, "process %d: socketpair in the process", target->pid);
    ERR_TRY(target_read(target, scratch_va, pair, sizeof pair));
    int ours = -1;
    struct err *error = take(target, pair[0], &ours);
    if (!error)
        error = send_them(ours, fd, count);
    if (!error)
        error = receive(target, pair[1], scratch_va, count, remote_fd);
    if (ours >= 0)
        close(ours);
    for (int i = 0; i < 2; i++) {
        struct err *close_error = call(target, CALL_CLOSE, (uint64_t[6]){(uint64_t)pair[i]}, &ignored);
        if (!error)
            error = close_error;
        else
            err_free(close_error);
    }
    return error;
}

uint64_t target_thread_pointer(const struct target *target, const struct target_thread *thread)
{
    struct {
        uint32_t entry, base, limit, flags;
    } area = {0};
    if (target->width == 64)
        return thread->regs.fs_base;
    long entry = (long)(thread->regs.gs >> 3);
    return entry && !target_ptrace(PTRACE_GET_THREAD_AREA, thread->tid, entry, &area) ? area.base : 0;
}
