/* Threads that do not stop although they were told to, because the kernel has them wait and nothing interrupts that: for a disk or a
 * server, in a frozen group, or for a child that was vforked.
 *
 * Told to stop, such a thread stops before it executes another instruction of its program, whenever that is: for writing code it is as good
 * as stopped, and its pc is known, but it can not be moved, nor make system calls. A thread that waits for its vforked child is only
 * half of a thread: the child goes on in its memory. */
#include "target/internal.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PF_EXITING = 0x4 };

/* Where the kernel says the thread waits: "NUMBER ARGUMENTS... SP PC", or "-1 SP PC" outside of system calls. */
static bool read_rest(pid_t pid, pid_t tid, struct target_thread *thread)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    FILE *in = fopen(path, "re");
    bool known = in && fgets(text, sizeof text, in);
    if (in)
        fclose(in);
    unsigned long long word[9];
    char *at = text;
    int words = 0;
    if (!known || strncmp(text, "running", 7) == 0)
        return false;
    thread->call = (int)strtol(text, &at, 10);
    for (char *end; words < 9; words++, at = end) {
        word[words] = strtoull(at, &end, 16);
        if (end == at)
            break;
    }
    if (words < 2)
        return false;
    memset(&thread->regs, 0, sizeof thread->regs);
    thread->regs.rsp = word[words - 2];
    thread->regs.rip = word[words - 1];
    return true;
}

bool target_thread_park(const struct target *target, struct target_thread *thread)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", target->pid, thread->tid);
    FILE *in = fopen(path, "re");
    size_t got = in ? fread(text, 1, sizeof text - 1, in) : 0;
    if (in)
        fclose(in);
    text[got] = 0;
    char *name_end = strrchr(text, ')'), state;
    unsigned flags;
    if (!name_end || sscanf(name_end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2 || (state != 'D' && state != 'I'))
        return false;
    if (flags & PF_EXITING) {
        memset(&thread->regs, 0, sizeof thread->regs); /* it never returns to its program */
        thread->call = -1;
    } else if (!read_rest(target->pid, thread->tid, thread)) {
        return false;
    }
    thread->parked = true;
    thread->regs_changed = thread->restart_pending = thread->interrupted = thread->confined = false;
    return true;
}

bool target_thread_starts_process(const struct target *target, const struct target_thread *thread)
{
    enum { CLONE64 = 56, FORK64 = 57, VFORK64 = 58, FORK32 = 2, CLONE32 = 120, VFORK32 = 190, CLONE3 = 435 };
    int call = thread->call;
    return target->width == 64 ? call == CLONE64 || call == FORK64 || call == VFORK64 || call == CLONE3
                               : call == FORK32 || call == CLONE32 || call == VFORK32 || call == CLONE3;
}

bool target_is_dumping(pid_t pid)
{
    char value[16];
    return target_status_field(pid, target_live_task(pid), "CoreDumping", value, sizeof value) && value[0] == '1';
}

/* ---- processes in one memory ---- */

static pid_t parent_of(pid_t pid)
{
    char value[16];
    return target_status_field(pid, pid, "PPid", value, sizeof value) ? atoi(value) : 0;
}

static bool has_same_maps(pid_t a, pid_t b)
{
    struct target_maps of[2];
    bool same = true;
    struct err *error = target_peek_maps(a, &of[0]);
    if (error)
        return err_free(error), false;
    error = target_peek_maps(b, &of[1]);
    same = !error && of[0].map.n == of[1].map.n;
    for (size_t i = 0; same && i < of[0].map.n; i++)
        same = of[0].map.at[i].start_va == of[1].map.at[i].start_va && of[0].map.at[i].end_va == of[1].map.at[i].end_va &&
               of[0].map.at[i].inode == of[1].map.at[i].inode;
    if (!error)
        target_maps_deinit(&of[1]);
    err_free(error);
    target_maps_deinit(&of[0]);
    return same;
}

static bool shares_memory(pid_t a, pid_t b)
{
    long order = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
    return order == 0 || (order < 0 && errno == ENOSYS && has_same_maps(a, b));
}

bool target_is_vforked(pid_t pid, pid_t *parent)
{
    *parent = parent_of(pid);
    return *parent > 0 && shares_memory(pid, *parent);
}

static void find_sharers(const struct target *target, target_pids *out)
{
    target_pids all = {0};
    target_all_pids(&all);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i] != target->pid && parent_of(all.at[i]) == target->pid && shares_memory(all.at[i], target->pid))
            VEC_PUSH(out, all.at[i]);
    VEC_FREE(&all);
}

static struct target *find_known(struct target *target, pid_t pid)
{
    for (size_t i = 0; i < target->sharer.n; i++)
        if (target->sharer.at[i].target->pid == pid)
            return target->sharer.at[i].target;
    return NULL;
}

/* One that is kept, because it was started while its parent was, else a target of our own. */
static struct err *get_sharer(struct target *target, pid_t pid, struct target **out)
{
    *out = find_known(target, pid);
    for (size_t i = 0; i < target->kin.n && !*out; i++)
        if (target->kin.at[i]->pid == pid) {
            *out = target->kin.at[i];
            VEC_PUSH(&target->sharer, (struct target_sharer){*out, false});
        }
    for (size_t i = 0; i < target->forked.n && !*out; i++)
        if (target->forked.at[i] == pid) {
            target->forked.at[i] = target->forked.at[--target->forked.n];
            *out = target_open_forked(target, pid);
            if (!*out)
                break;
            VEC_PUSH(&target->to_give, *out);
            VEC_PUSH(&target->sharer, (struct target_sharer){*out, false});
        }
    if (*out)
        return NULL;
    ERR_TRY(target_open_traced(pid, out));
    VEC_PUSH(&target->sharer, (struct target_sharer){*out, true});
    return NULL;
}

struct err *target_stop_sharers(struct target *target, bool *all)
{
    size_t waiting = 0, found = 0;
    bool may_have = false;
    for (size_t i = 0; i < target->thread.n; i++) {
        const struct target_thread *thread = &target->thread.at[i];
        bool starts = thread->parked && target_thread_starts_process(target, thread);
        waiting += starts;
        may_have |= starts || thread->in_event;
    }
    *all = true;
    if (!may_have)
        return NULL;
    target_pids pids = {0};
    struct err *error = NULL;
    find_sharers(target, &pids);
    for (size_t i = 0; i < pids.n && !error; i++) {
        struct target *sharer;
        error = get_sharer(target, pids.at[i], &sharer);
        if (!error)
            error = target_stop(sharer);
        if (error && error->code == ERR_NO_PROCESS) {
            err_free(error);
            error = NULL;
            continue;
        }
        found += !error;
    }
    VEC_FREE(&pids);
    *all = found >= waiting;
    return error;
}

struct err *target_release_sharers(struct target *target)
{
    struct err *first = NULL;
    for (size_t i = 0; i < target->sharer.n; i++) {
        struct target_sharer *sharer = &target->sharer.at[i];
        struct err *error = target_resume(sharer->target);
        if (sharer->is_ours)
            target_close(sharer->target);
        if (!first)
            first = error;
        else
            err_free(error);
    }
    target->sharer.n = 0;
    return first;
}

void target_forget_kin(struct target *target)
{
    for (size_t i = 0; i < target->kin.n; i++)
        target->kin.at[i]->parent = NULL;
    struct target *parent = target->parent;
    for (size_t i = 0; parent && i < parent->kin.n; i++)
        if (parent->kin.at[i] == target)
            parent->kin.at[i] = parent->kin.at[--parent->kin.n];
    for (size_t i = 0; parent && i < parent->sharer.n; i++)
        if (parent->sharer.at[i].target == target)
            parent->sharer.at[i] = parent->sharer.at[--parent->sharer.n];
    VEC_FREE(&target->kin);
    VEC_FREE(&target->sharer);
}

size_t target_sharer_count(const struct target *target)
{
    return target->sharer.n;
}

struct target *target_sharer(const struct target *target, size_t index)
{
    return target->sharer.at[index].target;
}

struct target *target_memory_caller(struct target *target)
{
    if (target_can_call(target))
        return target;
    for (size_t i = 0; i < target->sharer.n; i++) {
        struct target *caller = target_memory_caller(target->sharer.at[i].target);
        if (caller)
            return caller;
    }
    return NULL;
}
