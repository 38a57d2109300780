/* Records that are left when a run is over. A process that still has the memory can go on writing them, and can write such as make work: as
 * much is read as there was in the beginning, for so much processor time. */
#include "live/run.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static uint64_t processor_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool is_interrupted(int signal_fd)
{
    struct signalfd_siginfo info;
    return read(signal_fd, &info, sizeof info) == sizeof info && info.ssi_signo != SIGUSR1;
}

void live_drain_rest(struct live_run *run, int signal_fd)
{
    /* Full rings take a few seconds of it, with a line printed for each record. */
    static const uint64_t most_ns = 20000000000;
    struct drain_session *memory = &run->memory;
    live_take_held(run);
    uint64_t end_ns = processor_ns() + most_ns, end_bytes = memory->read_bytes + drain_backlog(memory);
    for (uint64_t before = UINT64_MAX;
         memory->read_bytes != before && memory->read_bytes < end_bytes && processor_ns() < end_ns && !is_interrupted(signal_fd);) {
        before = memory->read_bytes;
        drain_records(memory, run->script->built.stream, true, live_take_record, run);
    }
    uint64_t left = drain_backlog(memory);
    if (left)
        fprintf(run->print.err, "probity: %llu bytes of records were left unread\n", (unsigned long long)left);
}
