#include "sample/internal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What older kernels do not have. */
enum extra { EXTRA_NONE, EXTRA_ENDS_ON_EXEC /* Linux 5.13 */, EXTRA_TELLS_LOST /* 6.0 */ };

static int open_event(uint64_t period_ns, pid_t tid, int cpu, bool user_only, enum extra extra)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = period_ns,
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER,
        .sample_regs_user = sample_register_mask,
        .sample_id_all = 1,
        .disabled = 1,
        .inherit = 1,
        .task = 1,
        .comm = 1,
        .exclude_kernel = user_only,
        .exclude_hv = 1,
        .read_format = extra >= EXTRA_TELLS_LOST ? PERF_FORMAT_LOST : 0,
        .remove_on_exec = extra >= EXTRA_ENDS_ON_EXEC,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1, /* the rings are read when there is time; nobody is to be woken */
        .wakeup_watermark = SAMPLE_RING_BYTES,
    };
    return (int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* -1: it can not be read. */
static int paranoid(void)
{
    int level = -1;
    FILE *in = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (in) {
        if (fscanf(in, "%d", &level) != 1)
            level = -1;
        fclose(in);
    }
    return level;
}

static struct err *why_not(pid_t pid, int number)
{
    enum { USER_ONLY_LEVEL = 2 };
    int level = paranoid();
    switch (number) {
    case EACCES:
    case EPERM:
        if (level > USER_ONLY_LEVEL)
            return err_new(ERR_PERMISSION,
                           "profile: process %d: perf_event_open: not permitted: kernel.perf_event_paranoid is %d; set it to 2 or less "
                           "(sysctl kernel.perf_event_paranoid=2), or run with CAP_PERFMON or as root",
                           pid, level);
        return err_new(ERR_PERMISSION,
                       "profile: process %d: perf_event_open: not permitted: the process must be one of your own that may be traced, or "
                       "CAP_PERFMON and CAP_SYS_PTRACE are needed; in a container, its seccomp filter may forbid perf_event_open",
                       pid);
    case ENOSYS:
    case ENOENT:
    case EOPNOTSUPP:
        return err_errno(ERR_SYSTEM, number, "profile: process %d: perf_event_open: this kernel has no perf events to sample with", pid);
    case EMFILE:
    case ENFILE:
        return err_errno(ERR_SYSTEM, number,
                         "profile: process %d: perf_event_open: a descriptor is needed for each thread and processor: raise the limit "
                         "(ulimit -n)",
                         pid);
    default:
        return err_errno(ERR_SYSTEM, number, "profile: process %d: perf_event_open", pid);
    }
}

struct err *sample_event_open(uint64_t period_ns, pid_t pid, pid_t tid, int cpu, bool *user_only, int *fd)
{
    enum extra extra = EXTRA_TELLS_LOST;
    for (;;) {
        *fd = open_event(period_ns, tid, cpu, *user_only, extra);
        if (*fd >= 0 || errno == ESRCH || errno == ENODEV)
            return NULL;
        if ((errno == EACCES || errno == EPERM) && !*user_only)
            *user_only = true;
        else if ((errno == EINVAL || errno == E2BIG) && extra)
            extra--;
        else
            return why_not(pid, errno);
    }
}

uint64_t sample_event_id(int fd)
{
    uint64_t id = 0;
    ioctl(fd, PERF_EVENT_IOC_ID, &id);
    return id;
}

uint64_t sample_event_lost(int fd)
{
    uint64_t value[2];
    return read(fd, value, sizeof value) == sizeof value ? value[1] : 0;
}

struct err *sample_event_map(int fd, struct perf_event_mmap_page **out)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(NULL, page_bytes + SAMPLE_RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED && errno == EPERM)
        return err_new(ERR_PERMISSION,
                       "profile: ring of %d KB for each processor: not permitted: raise kernel.perf_event_mlock_kb or the limit of locked "
                       "memory (ulimit -l), or run with CAP_IPC_LOCK",
                       SAMPLE_RING_BYTES >> 10);
    if (memory == MAP_FAILED)
        return err_errno(ERR_SYSTEM, errno, "profile: ring: map");
    *out = memory;
    return NULL;
}

void sample_event_unmap(struct perf_event_mmap_page *page)
{
    munmap(page, (size_t)sysconf(_SC_PAGESIZE) + SAMPLE_RING_BYTES);
}
