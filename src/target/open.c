#include "target/internal.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct err *target_gone(const struct target *target)
{
    return err_new(ERR_NO_PROCESS, "process %d: has ended", target->pid);
}

/* ---- what /proc says ---- */

static ssize_t read_file(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t total = 0, got;
    while ((size_t)total < room - 1 && (got = read(fd, text + total, room - 1 - (size_t)total)) > 0)
        total += got;
    close(fd);
    text[total] = 0;
    return total;
}

bool target_status_field(pid_t pid, pid_t tid, const char *name, char *value, size_t room)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/task/%d/status", pid, tid);
    if (read_file(path, text, sizeof text) <= 0)
        return false;
    size_t length = strlen(name);
    for (char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) || line[length] != ':')
            continue;
        line += length + 1;
        line += strspn(line, " \t");
        snprintf(value, room, "%.*s", (int)strcspn(line, "\n"), line);
        return true;
    }
    return false;
}

/* A number from /proc/PID/stat, counted from 1 as in proc(5). The name in parentheses may hold anything, so the last ')' is looked for. */
static uint64_t stat_field(pid_t pid, int number)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    if (read_file(path, text, sizeof text) <= 0)
        return 0;
    char *field = strrchr(text, ')');
    for (int skip = 2; field && skip < number; skip++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field, NULL, 10) : 0;
}

uint64_t target_start_time(pid_t pid)
{
    return stat_field(pid, 22);
}

static bool is_kernel_thread(pid_t pid)
{
    enum { PF_KTHREAD = 0x00200000 };
    return stat_field(pid, 9) & PF_KTHREAD;
}

pid_t target_live_task(pid_t pid)
{
    char path[64], value[64];
    if (target_status_field(pid, pid, "State", value, sizeof value) && value[0] != 'Z' && value[0] != 'X')
        return pid;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    pid_t found = 0;
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        if (tid > 0 && target_status_field(pid, tid, "State", value, sizeof value) && value[0] != 'Z' && value[0] != 'X')
            found = tid;
    }
    if (tasks)
        closedir(tasks);
    return found ? found : pid;
}

/* Gone, or about to be: nothing can be done with it any more. */
static bool is_ending(pid_t pid)
{
    char value[64];
    pid_t live = target_live_task(pid);
    return !target_status_field(pid, live, "State", value, sizeof value) || value[0] == 'Z' || value[0] == 'X' ||
           (!target_status_field(pid, target_live_task(pid), "VmSize", value, sizeof value) && !is_kernel_thread(pid));
}

/* Any thread counts: any of them may be borrowed for a remote call. */
static bool has_mode(pid_t pid, const char *modes)
{
    char path[64], value[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    bool found = false;
    for (struct dirent *entry; tasks && !found && (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        found = tid > 0 && target_status_field(pid, tid, "Seccomp", value, sizeof value) && strchr(modes, value[0]);
    }
    if (tasks)
        closedir(tasks);
    return found;
}

static bool has_seccomp(pid_t pid)
{
    return has_mode(pid, "12");
}

struct err *target_check_pid(pid_t pid)
{
    char value[256];
    if (!target_status_field(pid, pid, "State", value, sizeof value))
        return err_new(ERR_NO_PROCESS, "process %d: no such process", pid);
    pid_t live = target_live_task(pid);
    if (live == pid && (value[0] == 'Z' || value[0] == 'X'))
        return err_new(ERR_NO_PROCESS, "process %d: is a zombie, nothing is left to trace", pid);
    if (!target_status_field(pid, live, "VmSize", value, sizeof value))
        return is_kernel_thread(pid) ? err_new(ERR_REFUSED, "process %d: is a kernel thread and has no user code", pid)
                                     : err_new(ERR_NO_PROCESS, "process %d: has ended", pid);
    if (target_status_field(pid, pid, "Tgid", value, sizeof value) && atoi(value) != pid)
        return err_new(ERR_NO_PROCESS, "process %d: is a thread; its process is %s", pid, value);
    return NULL;
}

static struct err *check_process(pid_t pid)
{
    char value[256];
    ERR_TRY(target_check_pid(pid));
    if (target_status_field(pid, pid, "TracerPid", value, sizeof value) && atoi(value) != 0)
        return err_new(ERR_REFUSED, "process %d: is already traced by process %s (a debugger?); end that first", pid, value);
    if (target_is_dumping(pid))
        return err_new(ERR_NO_PROCESS, "process %d: has ended and is writing its memory to a core file", pid);
    pid_t parent;
    if (target_is_vforked(pid, &parent))
        return err_new(ERR_REFUSED, "process %d: was vforked and still runs in the memory of its parent; trace that: process %d", pid,
                       parent);
    return NULL;
}

static struct err *permission_error(pid_t pid)
{
    char scope[16] = "";
    if (is_ending(pid))
        return err_new(ERR_NO_PROCESS, "process %d: has ended", pid);
    int value = read_file("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof scope) > 0 ? atoi(scope) : 0;
    if (value > 0)
        return err_new(
            ERR_PERMISSION,
            "process %d: not permitted: be its user, have CAP_SYS_PTRACE, and note that kernel.yama.ptrace_scope is %d (0 allows "
            "attaching to one's own processes; or start the program with -- CMD)",
            pid, value);
    return err_new(ERR_PERMISSION, "process %d: not permitted: be the same user (and the program not set-uid), or have CAP_SYS_PTRACE",
                   pid);
}

struct err *target_peek_width(pid_t pid, int *width)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/exe", pid, target_live_task(pid));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == ESRCH ? err_new(ERR_NO_PROCESS, "process %d: has ended", pid) : permission_error(pid);
    Elf64_Ehdr header;
    ssize_t got = read(fd, &header, sizeof header);
    close(fd);
    if (got < 20 || memcmp(header.e_ident, ELFMAG, SELFMAG))
        return err_new(ERR_FILE, "process %d: its program is not an ELF file", pid);
    if (header.e_machine == EM_X86_64 && header.e_ident[EI_CLASS] == ELFCLASS64)
        *width = 64;
    else if (header.e_machine == EM_386 && header.e_ident[EI_CLASS] == ELFCLASS32)
        *width = 32;
    else
        return err_new(ERR_FILE, "process %d: its program is for another architecture (ELF machine %u), not x86", pid, header.e_machine);
    return NULL;
}

int target_program_width(pid_t pid)
{
    int width = 0;
    err_free(target_peek_width(pid, &width));
    return width;
}

/* ---- life ---- */

static struct err *open_process(pid_t pid, bool has_to_call, struct target **out)
{
    int width = 0;
    ERR_TRY(target_peek_width(pid, &width));
    bool seccomp = has_seccomp(pid), may_suspend = target_may_suspend_filters(); /* asked now: later it would prolong a stop */
    if (seccomp && has_to_call && !may_suspend)
        return err_new(ERR_REFUSED,
                       "process %d: has a seccomp filter that might kill it when it maps our code; run as a user with CAP_SYS_ADMIN, which "
                       "may suspend the filter meanwhile",
                       pid);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/mem", pid, target_live_task(pid));
    int mem_fd = open(path, O_RDWR | O_CLOEXEC);
    if (mem_fd < 0)
        return errno == ENOENT || errno == ESRCH ? err_new(ERR_NO_PROCESS, "process %d: has ended", pid) : permission_error(pid);
    int pidfd = pidfd_open(pid, 0);
    if (pidfd < 0) {
        close(mem_fd);
        return err_errno(ERR_NO_PROCESS, errno, "process %d", pid);
    }
    struct target *target = memory_zero(1, sizeof *target);
    target->pid = pid;
    target->width = width;
    target->mem_fd = mem_fd;
    target->pidfd = pidfd;
    target->seccomp = seccomp;
    *out = target;
    return NULL;
}

struct err *target_open(pid_t pid, struct target **out)
{
    ERR_TRY(check_process(pid));
    return target_open_traced(pid, out);
}

struct err *target_open_to_look(pid_t pid, struct target **out)
{
    struct target_owner owner;
    ERR_TRY(check_process(pid));
    ERR_TRY(open_process(pid, false, out));
    (*out)->end_is_awaited = target_read_owner(pid, &owner) && owner.parent == (uint32_t)getpid();
    return NULL;
}

struct err *target_open_traced(pid_t pid, struct target **out)
{
    return open_process(pid, true, out);
}

/* The end of a process is not told before the ends of its traced threads have been taken. */
static void reap_threads(struct target *target)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", target->pid);
    DIR *tasks = opendir(path);
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        pid_t tid = atoi(entry->d_name);
        if (tid > 0 && tid != target->pid)
            waitpid(tid, NULL, __WALL | WNOHANG);
    }
    if (tasks)
        closedir(tasks);
}

void target_close(struct target *target)
{
    if (!target)
        return;
    target->at_trap = NULL;
    target->hold = false;
    err_free(target_resume(target));
    if (target_ended(target))
        reap_threads(target);
    target_forget_kin(target);
    for (size_t i = 0; i < target->to_give.n; i++)
        target_close(target->to_give.at[i]);
    VEC_FREE(&target->to_give);
    for (size_t i = 0; i < target->forked.n; i++) /* the kernel has attached us, and nobody wants them */
        target_let_go_later(target->forked.at[i]);
    target_serve_leaving();
    close(target->mem_fd);
    close(target->pidfd);
    VEC_FREE(&target->thread);
    VEC_FREE(&target->forked);
    VEC_FREE(&target->deadline);
    VEC_FREE(&target->restart);
    free(target);
}

pid_t target_pid(const struct target *target)
{
    return target->pid;
}

int target_width(const struct target *target)
{
    return target->width;
}

int target_pidfd(const struct target *target)
{
    return target->pidfd;
}

bool target_has_seccomp(const struct target *target)
{
    return target->seccomp;
}

bool target_has_strict_thread(const struct target *target)
{
    return target->seccomp && has_mode(target->pid, "1");
}

bool target_look_for_filters(struct target *target)
{
    target->seccomp |= has_seccomp(target->pid);
    return target->seccomp;
}

bool target_is_stranger(const struct target *target)
{
    char value[256];
    return target_status_field(target->pid, target_live_task(target->pid), "NSpid", value, sizeof value) && strpbrk(value, " \t");
}

void target_hold(struct target *target, bool on)
{
    target->hold = on;
}

/* A process whose first thread has ended lives on while others do; the descriptor tells when the last has gone. */
bool target_ended(const struct target *target)
{
    struct pollfd ready = {.fd = target->pidfd, .events = POLLIN};
    return target->reaped || poll(&ready, 1, 0) > 0;
}

int target_exit_status(struct target *target)
{
    while (!target->reaped) {
        reap_threads(target);
        pid_t got = waitpid(target->pid, &target->exit_status, __WALL | WNOHANG);
        if ((got < 0 && errno != EINTR) || (got > 0 && !WIFSTOPPED(target->exit_status)))
            target->reaped = true;
        else if (got == 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return target->exit_status;
}

size_t target_thread_count(const struct target *target)
{
    return target->thread.n;
}

struct target_thread *target_thread(struct target *target, size_t index)
{
    return &target->thread.at[index];
}

/* ---- other processes ---- */

void target_find_by_map(const char *path, pid_t except, target_pids *out)
{
    DIR *proc = opendir("/proc");
    if (!proc)
        return;
    for (struct dirent *entry; (entry = readdir(proc));) {
        pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || pid == except || pid == getpid())
            continue;
        char name[64];
        snprintf(name, sizeof name, "/proc/%d/maps", pid);
        FILE *maps = fopen(name, "re");
        if (!maps)
            continue;
        char *line = NULL;
        size_t room = 0;
        bool found = false;
        while (!found && getline(&line, &room, maps) > 0)
            found = strstr(line, path) != NULL;
        free(line);
        fclose(maps);
        if (found)
            VEC_PUSH(out, pid);
    }
    closedir(proc);
}
