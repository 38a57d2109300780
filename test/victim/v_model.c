/* What looks different in 32 and 64 bit: sigaction(), and a struct with longs, pointers, bit-fields and long longs in it.
 *   v_model [-w]
 * -w waits before the calls. Prints what a tracer should see, one line a call. */
#include "victim.h"

#include <signal.h>

enum colour { RED = 3, GREEN = 700 };

struct inner {
    char tag;
    long first;
    long long second;
    unsigned low : 3;
    signed middle : 12;
    unsigned long high : 20;
    const char *name;
};

struct outer {
    struct inner in;
    short pad;
    union {
        void *pointer;
        long number;
    };
    struct inner *link;
    long table[3];
    enum colour colour;
    double ratio;
};

TRACED long look(struct outer *o, long a, long long b, double c, struct inner by_value)
{
    return o->in.first + a + (long)b + (long)c + by_value.first;
}

static void handler(int number)
{
    (void)number;
}

int main(int argc, char **argv)
{
    struct inner inner = {'x', -7, 1LL << 40, 5, -1000, 0x54321, "inner"};
    struct outer outer = {.in = {'y', 77, -5000000000LL, 2, 999, 0x12345, "outer"},
                          .pad = -3,
                          .number = 0x1234,
                          .link = &inner,
                          .table = {1, -2, 3},
                          .colour = GREEN,
                          .ratio = 0.25};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_NODEFER};
    if (victim_flag(argc, argv, "-w"))
        victim_wait();
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaddset(&action.sa_mask, SIGHUP);
    CHECK(!sigaction(SIGUSR1, &action, NULL));
    printf("action %d %p %lx %x %zu %zu\n", (int)sizeof(void *) * 8, (void *)(uintptr_t)handler, *(unsigned long *)&action.sa_mask,
           (unsigned)action.sa_flags, sizeof action, sizeof(unsigned long));
    CHECK(look(&outer, -9, 1LL << 33, 2.5, inner));
    printf("look %d %ld %lld %d %d %lx %s %d %lx %ld %lld %d %lx %s %ld %d %g %zu %zu %ld %lld %g %ld %s\n", outer.in.tag, outer.in.first,
           outer.in.second, outer.in.low, outer.in.middle, (unsigned long)outer.in.high, outer.in.name, outer.pad, outer.number,
           outer.link->first, outer.link->second, outer.link->middle, (unsigned long)outer.link->high, outer.link->name, outer.table[1],
           outer.colour, outer.ratio, sizeof(struct outer), sizeof(struct inner), -9l, 1LL << 33, 2.5, inner.first, inner.name);
    return 0;
}
