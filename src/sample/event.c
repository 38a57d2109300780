#include "sample/internal.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What older kernels do not have. */
enum extra { EXTRA_NONE, EXTRA_BUILD_ID /* Linux 5.12 */, EXTRA_ENDS_ON_EXEC /* 5.13 */, EXTRA_TELLS_LOST /* 6.0 */ };

enum { SMALL_RING_BYTES = 256 << 10, LARGE_RING_BYTES = 2 << 20 };
/* What a window costs does not depend on the number of samples in it. */
enum { BRIEF_PART = 4 };
/* Of a thread, where all of its waits are to be seen when it does nothing special. */
enum { SWITCHES_HZ = 499 };

/* Stacks come at some 16 MB a second and processor. */
static size_t wanted_ring_bytes(const struct sample_options *options)
{
    return options->stack_bytes ? LARGE_RING_BYTES : SMALL_RING_BYTES;
}

bool sample_has_switches(const struct sample_options *options)
{
    return options->clock == SAMPLE_WALL || options->want_switches;
}

static void ask_for_news(struct perf_event_attr *attr, const struct sample_options *options, enum extra extra)
{
    attr->task = attr->comm = attr->comm_exec = 1;
    attr->context_switch = sample_has_switches(options);
    attr->mmap = attr->mmap2 = options->want_maps;
    attr->build_id = options->want_maps && extra >= EXTRA_BUILD_ID;
}

static const uint64_t counted[] = {[SAMPLE_TIMER] = PERF_COUNT_SW_CPU_CLOCK,
                                   [SAMPLE_SHORT_TIMER] = PERF_COUNT_SW_CPU_CLOCK,
                                   [SAMPLE_STACK_TIMER] = PERF_COUNT_SW_CPU_CLOCK,
                                   [SAMPLE_BRIEF_TIMER] = PERF_COUNT_SW_CPU_CLOCK,
                                   [SAMPLE_AT_SWITCH] = PERF_COUNT_SW_CONTEXT_SWITCHES,
                                   [SAMPLE_LEADER] = PERF_COUNT_SW_DUMMY};

static uint32_t stack_bytes_of(const struct sample_options *options, enum sample_event_kind kind)
{
    if (options->stack_period_ns && kind != SAMPLE_STACK_TIMER)
        return 0;
    return kind == SAMPLE_SHORT_TIMER ? options->less_stack_bytes : options->stack_bytes;
}

/* Events are not to use up the descriptors that looking at the threads takes. */
static int keep_spare(int fd)
{
    struct rlimit limit;
    if (fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)fd + SAMPLE_SPARE_DESCRIPTORS < limit.rlim_cur)
        return fd;
    close(fd);
    errno = EMFILE;
    return -1;
}

static int open_event(const struct sample_options *options, enum sample_event_kind kind, pid_t tid, int cpu, bool user_only,
                      enum extra extra)
{
    bool is_timer = kind == SAMPLE_TIMER || kind == SAMPLE_SHORT_TIMER;
    bool is_lasting = is_timer || kind == SAMPLE_STACK_TIMER || kind == SAMPLE_AT_SWITCH;
    uint32_t stack_bytes = stack_bytes_of(options, kind);
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = counted[kind],
        .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_REGS_USER,
        .sample_regs_user = sample_register_mask,
        .sample_id_all = 1,
        .disabled = 1,
        .inherit = is_lasting,
        .exclude_kernel = user_only || kind == SAMPLE_LEADER,
        .exclude_hv = 1,
        .read_format = extra >= EXTRA_TELLS_LOST ? PERF_FORMAT_LOST : 0,
        .remove_on_exec = extra >= EXTRA_ENDS_ON_EXEC && !options->follow_exec && is_lasting,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
        .watermark = 1, /* the rings are read when there is time; somebody is woken when one is half full, which costs the thread */
    };
    if (is_timer)
        attr.sample_period = options->period_ns;
    if (kind == SAMPLE_BRIEF_TIMER)
        attr.sample_period = options->period_ns / BRIEF_PART;
    if (kind == SAMPLE_STACK_TIMER)
        attr.sample_period = options->stack_period_ns;
    if (is_timer)
        ask_for_news(&attr, options, extra);
    if (kind == SAMPLE_AT_SWITCH) { /* the kernel finds a period for each thread that leads to about this many a second */
        attr.freq = 1;
        attr.sample_freq = SWITCHES_HZ;
    }
    if (stack_bytes) {
        attr.sample_type |= PERF_SAMPLE_STACK_USER;
        attr.sample_stack_user = stack_bytes;
    }
    return keep_spare((int)syscall(SYS_perf_event_open, &attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC));
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

struct err *sample_event_open(const struct sample_options *options, enum sample_event_kind kind, pid_t pid, pid_t tid, int cpu,
                              bool *user_only, int *fd)
{
    enum extra extra = EXTRA_TELLS_LOST;
    *fd = -1;
    for (;;) {
        if (kind == SAMPLE_AT_SWITCH && *user_only)
            return NULL; /* switches happen in the kernel */
        *fd = open_event(options, kind, tid, cpu, *user_only, extra);
        if (*fd >= 0 || errno == ESRCH || errno == ENODEV)
            return NULL;
        if ((errno == EACCES || errno == EPERM) && !*user_only && kind != SAMPLE_LEADER)
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

struct err *sample_event_map(int fd, const struct sample_options *options, struct perf_event_mmap_page **out)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t bytes = wanted_ring_bytes(options);; bytes /= 2) {
        void *memory = mmap(NULL, page_bytes + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory != MAP_FAILED) {
            *out = memory;
            return NULL;
        }
        if (errno != EPERM && errno != ENOMEM)
            return err_errno(ERR_SYSTEM, errno, "profile: ring: map");
        if (bytes <= SMALL_RING_BYTES)
            return err_new(ERR_PERMISSION,
                           "profile: ring of %d KB for each processor: not permitted: raise kernel.perf_event_mlock_kb or the limit of "
                           "locked memory (ulimit -l), or run with CAP_IPC_LOCK",
                           SMALL_RING_BYTES >> 10);
    }
}

void sample_event_unmap(struct perf_event_mmap_page *page)
{
    munmap(page, (size_t)sysconf(_SC_PAGESIZE) + page->data_size);
}
