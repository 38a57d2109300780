/* Static probe points of <sys/sdt.h> with arguments of all kinds, one with a semaphore.
 *   v_usdt [-n CALLS] [-w] [-q]
 * -w waits before the calls, -q leaves out the output. Prints how often each was passed and the sums of what they were given; on stderr,
 * how often the semaphore of v_usdt:guarded was set. */
#define _SDT_HAS_SEMAPHORES 1
#include "victim.h"

#include <sys/sdt.h>

unsigned short v_usdt_guarded_semaphore __attribute__((unused, section(".probes")));
unsigned short v_usdt_plain_semaphore __attribute__((unused, section(".probes")));
unsigned short v_usdt_mixed_semaphore __attribute__((unused, section(".probes")));
unsigned short v_usdt_none_semaphore __attribute__((unused, section(".probes")));

struct item {
    int id;
    const char *name;
    int64_t weight;
};

static struct item items[4] = {{1, "one", -1}, {2, "two", 1LL << 40}, {3, "three", 3}, {4, "four", 4}};
static int64_t total_weight;
int v_usdt_global = 17;

TRACED void plain(int index, const char *name)
{
    DTRACE_PROBE2(v_usdt, plain, index, name);
}

TRACED void mixed(struct item *item, unsigned char small, double ratio)
{
    total_weight += item->weight;
    DTRACE_PROBE7(v_usdt, mixed, item->id, item->weight, small, (short)-5, ratio, total_weight, 12345);
}

TRACED void guarded(int index)
{
    static uint64_t seen;
    if (__builtin_expect(*(volatile unsigned short *)&v_usdt_guarded_semaphore, 0)) {
        seen++;
        DTRACE_PROBE3(v_usdt, guarded, index, &items[index & 3], v_usdt_global);
    }
    if (index < 0)
        fprintf(stderr, "guarded %llu\n", (unsigned long long)seen);
}

int main(int argc, char **argv)
{
    long calls = victim_option(argc, argv, "-n", 1000);
    uint64_t sum = 0;
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    for (long i = 0; i < calls; i++) {
        struct item *item = &items[i & 3];
        plain((int)i, item->name);
        mixed(item, (unsigned char)(i & 255), (double)i / 4);
        guarded((int)i & 0xffff);
        sum += (uint64_t)i + (uint64_t)item->weight;
    }
    DTRACE_PROBE(v_usdt, none);
    guarded(-1);
    if (!victim_flag(argc, argv, "-q"))
        printf("plain %ld\nmixed %ld\nguarded %ld\nnone 1\nsum %llu\n", calls, calls, calls, (unsigned long long)sum);
    return 0;
}
