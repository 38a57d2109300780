/* Programs with a known structure, to be climbed:
 *   v_climb callers    leaf has three callers that spend 60, 30 and 10 % of its time, below a chain of depth 8
 *   v_climb mutual     even and odd call each other; leaf is at the bottom
 *   v_climb virtual    leaf is called from two overriders, 75 and 25 %
 *   v_climb tail       by_tail jumps to leaf; called from near (80 %) and far (20 %)
 *   v_climb threads    four threads, a hot function each: 40, 30, 20, 10 % of the time is theirs
 *   v_climb memory     three callers ask malloc for 60, 30 and 10 % of all bytes, the one with the most for the fewest times
 *   v_climb exec       as callers, and then the same program again, as tail
 *   v_climb phases     the hot spot moves from first to second to third every SECONDS / 3
 * each for SECONDS (second argument) of processor time, so that others on the machine change nothing; `threads`, which rest, for SECONDS by the
 * clock. `threads` and `phases` print the processor time of each function to stderr: `function seconds`. */
extern "C" {
#include "victim.h"
}

#include <pthread.h>
#include <time.h>
#include <unistd.h>

static volatile uint32_t sink;
static double end_s;
static clockid_t clock_of_run = CLOCK_PROCESS_CPUTIME_ID;

static double time_s(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double now_s()
{
    return time_s(clock_of_run);
}

extern "C" {

/* About a microsecond for each unit. */
TRACED void leaf(unsigned units)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < units * 300; i++)
        x = mix(x, i);
    sink = x;
}

TRACED void caller_60(void)
{
    leaf(6);
    sink++;
}
TRACED void caller_30(void)
{
    leaf(3);
    sink++;
}
TRACED void caller_10(void)
{
    leaf(1);
    sink++;
}
TRACED void level_5(void)
{
    caller_60();
    caller_30();
    caller_10();
    sink++;
}
TRACED void level_4(void)
{
    level_5();
    sink++;
}
TRACED void level_3(void)
{
    for (int i = 0; i < 4; i++)
        level_4();
    sink++;
}
TRACED void level_2(void)
{
    level_3();
    sink++;
}
TRACED void level_1(void)
{
    for (int i = 0; i < 10; i++)
        level_2();
    sink++;
}

/* Bytes in all: 60, 30 and 10 %. Calls: 5, 30 and 65 %. */
static void *volatile memory;
TRACED void give_back(void)
{
    free(memory);
    sink++;
}
TRACED void take_60(void)
{
    memory = malloc(12000);
    give_back();
}
TRACED void take_30(void)
{
    memory = malloc(1000);
    give_back();
}
TRACED void take_10(void)
{
    memory = malloc(154);
    give_back();
}
TRACED void take_all(void)
{
    take_60();
    for (int i = 0; i < 6; i++)
        take_30();
    for (int i = 0; i < 13; i++)
        take_10();
    leaf(2);
}

TRACED void odd(int depth);
TRACED void even(int depth)
{
    if (depth)
        odd(depth - 1);
    else
        leaf(5);
    sink++;
}
TRACED void odd(int depth)
{
    if (depth)
        even(depth - 1);
    else
        leaf(5);
    sink++;
}
TRACED void start_even(void)
{
    even(6);
    sink++;
}

TRACED void by_tail(unsigned units)
{
    sink++;
    leaf(units);
}
TRACED void near(void)
{
    by_tail(8);
    sink++;
}
TRACED void far(void)
{
    by_tail(2);
    sink++;
}

TRACED void hot_a(void)
{
    leaf(2);
    uint32_t x = sink;
    for (unsigned i = 0; i < 20000; i++)
        x = mix(x, i);
    sink = x;
}
TRACED void first(void)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < 3000; i++)
        x = mix(x, i);
    sink = x;
}
TRACED void second(void)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < 3000; i++)
        x = mix(x, i ^ 1);
    sink = x;
}
TRACED void third(void)
{
    uint32_t x = sink;
    for (unsigned i = 0; i < 3000; i++)
        x = mix(x, i ^ 2);
    sink = x;
}
TRACED void runs_first(void)
{
    first();
    sink++;
}
TRACED void runs_second(void)
{
    second();
    sink++;
}
TRACED void runs_third(void)
{
    third();
    sink++;
}
}

struct shape {
    virtual void draw() = 0;
    virtual ~shape()
    {
    }
};
struct circle : shape {
    TRACED void draw() override
    {
        leaf(6);
        sink++;
    }
};
struct square : shape {
    TRACED void draw() override
    {
        leaf(2);
        sink++;
    }
};
extern "C" TRACED void draw_all(shape **list, int count)
{
    for (int i = 0; i < count; i++)
        list[i]->draw();
    sink++;
}

static const struct {
    const char *name;
    void (*work)(void);
} job[] = {{"runs_first", runs_first}, {"runs_second", runs_second}, {"runs_third", runs_third}, {"hot_a", hot_a}};

static double cpu_s()
{
    return time_s(CLOCK_THREAD_CPUTIME_ID);
}

/* A thread works for its share of each 10 ms. */
extern "C" TRACED void *thread_main(void *argument)
{
    long number = (long)argument;
    for (double start; (start = now_s()) < end_s;) {
        while (now_s() < start + 0.001 * (double)(4 - number))
            job[number].work();
        struct timespec rest = {0, (6 + number) * 1000000};
        nanosleep(&rest, NULL);
    }
    fprintf(stderr, "%s %.3f\n", number == 3 ? "hot_a" : job[number].name + 5, cpu_s());
    return NULL;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "callers";
    if (!strcmp(what, "threads"))
        clock_of_run = CLOCK_MONOTONIC;
    double seconds = argc > 2 ? atof(argv[2]) : 5, start = now_s(), spent[3] = {0, 0, 0};
    end_s = start + seconds;
    circle a;
    square b;
    shape *list[] = {&a, &b};
    if (!strcmp(what, "threads")) {
        pthread_t thread[4];
        for (long i = 0; i < 4; i++)
            CHECK(!pthread_create(&thread[i], NULL, thread_main, (void *)i));
        for (int i = 0; i < 4; i++)
            CHECK(!pthread_join(thread[i], NULL));
    }
    while (now_s() < end_s) {
        /* Asking for the time is a system call: the short ones are called often in between. */
        if (!strcmp(what, "callers") || !strcmp(what, "exec"))
            level_1();
        else if (!strcmp(what, "mutual"))
            for (int i = 0; i < 100; i++)
                start_even();
        else if (!strcmp(what, "virtual"))
            for (int i = 0; i < 100; i++)
                draw_all(list, 2);
        else if (!strcmp(what, "tail"))
            for (int i = 0; i < 100; i++)
                near(), far();
        else if (!strcmp(what, "memory"))
            for (int i = 0; i < 100; i++)
                take_all();
        else if (!strcmp(what, "phases")) {
            int phase = (int)((now_s() - start) / seconds * 3) % 3;
            double before = cpu_s();
            for (int i = 0; i < 100; i++)
                job[phase].work();
            spent[phase] += cpu_s() - before;
        } else
            CHECK(!"a known structure");
    }
    for (int i = 0; i < 3 && !strcmp(what, "phases"); i++)
        fprintf(stderr, "%s %.3f\n", job[i].name + 5, spent[i]);
    if (!strcmp(what, "exec")) {
        char *next[] = {argv[0], (char *)"tail", argc > 2 ? argv[2] : (char *)"5", NULL};
        execv("/proc/self/exe", next);
        CHECK(!"executed");
    }
    puts("done");
    return 0;
}
