/* The function that takes most of the time is not the one that is called most:
 *   v_climb_calls callers    slow has nearly all the time; often has two thirds of the calls, from three callers that make 60, 30 and 10 %
 * of them v_climb_calls recursion  slow has nearly all the time; descend calls itself, and two callers make 75 and 25 % of the calls that
 * begin it v_climb_calls phases     slow has nearly all the time; what is called most is first and then, from half of the time on, second
 * for SECONDS (second argument) of processor time. Prints how often each function was called, `function count`, and how often by which
 * caller, `function<caller count`, to stderr. */
#include "victim.h"

#include <stdbool.h>
#include <time.h>

static volatile uint32_t sink;
static uint64_t rounds, phase_rounds[2];

TRACED void slow(void)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < 10000; i++)
        x = mix(x, i);
    sink = x;
}

TRACED void often(void)
{
    sink++;
}
TRACED void by_60(void)
{
    for (int i = 0; i < 6; i++)
        often();
    sink++;
}
TRACED void by_30(void)
{
    for (int i = 0; i < 3; i++)
        often();
    sink++;
}
TRACED void by_10(void)
{
    often();
    sink++;
}
TRACED void callers(void)
{
    by_60();
    by_30();
    by_10();
    slow();
    sink++;
}

TRACED void descend(int depth)
{
    if (depth)
        descend(depth - 1);
    sink++;
}
TRACED void begins_75(void)
{
    for (int i = 0; i < 3; i++)
        descend(4);
    sink++;
}
TRACED void begins_25(void)
{
    descend(4);
    sink++;
}
TRACED void recursion(void)
{
    begins_75();
    begins_25();
    slow();
    sink++;
}

TRACED void first(void)
{
    sink++;
}
TRACED void second(void)
{
    sink++;
}
TRACED void runs_first(void)
{
    for (int i = 0; i < 12; i++)
        first();
    slow();
}
TRACED void runs_second(void)
{
    for (int i = 0; i < 12; i++)
        second();
    slow();
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void print(const char *name, uint64_t count)
{
    fprintf(stderr, "%s %llu\n", name, (unsigned long long)count);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "callers";
    double seconds = argc > 2 ? atof(argv[2]) : 5, start = now_s();
    bool has_callers = !strcmp(what, "callers"), has_recursion = !strcmp(what, "recursion"), has_phases = !strcmp(what, "phases");
    CHECK(has_callers || has_recursion || has_phases);
    for (double now = start; now < start + seconds; now = now_s()) {
        int phase = now < start + seconds / 2 ? 0 : 1;
        /* Asking for the time is a system call: there is much in between. */
        for (int i = 0; i < 100; i++)
            if (has_callers)
                callers();
            else if (has_recursion)
                recursion();
            else
                (phase ? runs_second : runs_first)();
        rounds += 100;
        phase_rounds[phase] += 100;
    }
    print("slow", rounds);
    if (has_callers) {
        static const char *const name[] = {"by_60", "by_30", "by_10", "callers"};
        for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
            print(name[i], rounds);
        print("often", 10 * rounds);
        print("often<by_60", 6 * rounds);
        print("often<by_30", 3 * rounds);
        print("often<by_10", rounds);
    } else if (has_recursion) {
        static const char *const name[] = {"begins_75", "begins_25", "recursion"};
        for (unsigned i = 0; i < sizeof name / sizeof *name; i++)
            print(name[i], rounds);
        print("descend", 20 * rounds);
        print("descend<begins_75", 3 * rounds);
        print("descend<begins_25", rounds);
    } else {
        print("first", 12 * phase_rounds[0]);
        print("second", 12 * phase_rounds[1]);
        print("runs_first", phase_rounds[0]);
        print("runs_second", phase_rounds[1]);
    }
    puts("done");
    return 0;
}
