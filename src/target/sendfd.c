/* Giving a stopped target a descriptor of ours: it makes a pair of sockets, we take one end out of it, and it receives through the other.
 * Nothing of this has a name, so neither users nor namespaces matter. */
#include "target/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum remote_call { CALL_SOCKETPAIR, CALL_RECVMSG, CALL_CLOSE };
static const int number64[] = {53, 47, 3}, number32[] = {360, 372, 6};

static struct err *call(struct target *target, enum remote_call name, const uint64_t args[6], int64_t *result)
{
    return target_syscall(target, (target->width == 64 ? number64 : number32)[name], args, result);
}

static struct err *send_it(int socket, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? NULL : err_errno(ERR_SYSTEM, errno, "descriptor: send to the process");
}

/* The message header as the target's kernel interface has it, with what it points to, at `va`. Where the descriptor's number will be. */
static size_t make_message(const struct target *target, uint64_t va, uint8_t out[TARGET_SCRATCH], size_t *bytes)
{
    enum { PART = 64, CONTROL = 96, BYTE = 160 };
    memset(out, 0, TARGET_SCRATCH);
    *bytes = TARGET_SCRATCH;
    if (target->width == 64) {
        memcpy(out, (uint64_t[7]){0, 0, va + PART, 1, va + CONTROL, 24, 0}, 56);
        memcpy(out + PART, (uint64_t[2]){va + BYTE, 1}, 16);
        return CONTROL + 16;
    }
    uint32_t base = (uint32_t)va;
    memcpy(out, (uint32_t[7]){0, 0, base + PART, 1, base + CONTROL, 16, 0}, 28);
    memcpy(out + PART, (uint32_t[2]){base + BYTE, 1}, 8);
    return CONTROL + 12;
}

static struct err *receive(struct target *target, int socket, uint64_t scratch_va, int *remote_fd)
{
    uint8_t bytes[TARGET_SCRATCH];
    size_t size, at = make_message(target, scratch_va, bytes, &size);
    int64_t result;
    ERR_TRY(target_write(target, scratch_va, bytes, size));
    ERR_TRY(call(target, CALL_RECVMSG, (uint64_t[6]){(uint64_t)socket, scratch_va, MSG_CMSG_CLOEXEC | MSG_DONTWAIT}, &result));
    if (result != 1)
        return err_errno(ERR_SYSTEM, (int)-result, "process %d: recvmsg in the process", target->pid);
    int32_t number;
    ERR_TRY(target_read(target, scratch_va + at, &number, sizeof number));
    if (number <= 0)
        return err_new(ERR_SYSTEM, "process %d: it did not get the descriptor", target->pid);
    *remote_fd = number;
    return NULL;
}

struct err *target_send_fd(struct target *target, int fd, uint64_t scratch_va, int *remote_fd)
{
    int64_t result, ignored;
    int32_t pair[2];
    ERR_TRY(call(target, CALL_SOCKETPAIR, (uint64_t[6]){AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, scratch_va}, &result));
    if (result < 0)
        return err_errno(ERR_SYSTEM, (int)-result, "process %d: socketpair in the process", target->pid);
    ERR_TRY(target_read(target, scratch_va, pair, sizeof pair));
    int ours = (int)syscall(SYS_pidfd_getfd, target_pidfd(target), pair[0], 0);
    struct err *error = ours < 0 ? err_errno(ERR_SYSTEM, errno, "process %d: take a descriptor from it", target->pid) : send_it(ours, fd);
    if (!error)
        error = receive(target, pair[1], scratch_va, remote_fd);
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
    return entry && !ptrace(PTRACE_GET_THREAD_AREA, thread->tid, entry, &area) ? area.base : 0;
}
