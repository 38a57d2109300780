/* Shared by the files of sample/ only. */
#ifndef SAMPLE_INTERNAL_H
#define SAMPLE_INTERNAL_H

#include "base/memory.h"
#include "sample/sample.h"

struct perf_event_mmap_page;

/* event.c: the kernel's side. */

enum { SAMPLE_RING_BYTES = 256 << 10 };

/* Opens a timer, not yet running, on the thread `tid` of process `pid` while it runs on processor `cpu`. *user_only: the kernel's share of
 * its time may not be looked at; set when that turns out. -1 in *fd and no error: there is no such processor, or no such thread. */
struct err *sample_event_open(uint64_t period_ns, pid_t pid, pid_t tid, int cpu, bool *user_only, int *fd);
uint64_t sample_event_id(int fd);
/* What found no room in its ring, or that of those inherited from it, so far; 0 where the kernel does not say (before Linux 6.0). */
uint64_t sample_event_lost(int fd);
struct err *sample_event_map(int fd, struct perf_event_mmap_page **out);
void sample_event_unmap(struct perf_event_mmap_page *page);

/* record.c: what a ring holds. */

enum sample_kind { SAMPLE_TAKEN, SAMPLE_FORKED, SAMPLE_RENAMED, SAMPLE_ENDED, SAMPLE_LOST, SAMPLE_THROTTLED, SAMPLE_UNTHROTTLED };

struct sample_record {
    enum sample_kind kind;
    uint64_t event;       /* id of the event that wrote it; of an inherited one, of the one it was inherited from */
    uint64_t lost;        /* SAMPLE_LOST */
    uint32_t parent_tid;  /* SAMPLE_FORKED */
    char name[16];        /* SAMPLE_RENAMED */
    struct sample sample; /* SAMPLE_TAKEN; of the others time_ns, pid and tid of the thread they are about */
};
typedef VEC(struct sample_record) sample_records;

/* Registers that samples carry, as the kernel numbers them. */
extern const uint64_t sample_register_mask;
/* Takes everything that the ring holds before `head`. */
void sample_ring_read(struct perf_event_mmap_page *page, uint64_t head, sample_records *out);
uint64_t sample_ring_head(const struct perf_event_mmap_page *page);

#endif
