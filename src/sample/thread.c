/* The threads that are sampled, and what their time went into.
 *
 * A thread's time is cut at what the kernel tells: it runs from SAMPLE_IN to SAMPLE_OUT and waits from there to the next SAMPLE_IN. Each
 * piece goes into run_ns, wait_ns or held_ns, and from there into the weight of a sample; nothing is given out twice, nothing is forgotten:
 * run_ns + wait_ns + held_ns + unclear_ns + all weights is always since_ns minus the thread's beginning. */
#include "sample/internal.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

static size_t index_of(const sample_threads *threads, uint32_t tid)
{
    size_t low = 0;
    for (size_t high = threads->n; low < high;) {
        size_t middle = (low + high) / 2;
        if (threads->at[middle].tid < tid)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct sample_thread *sample_thread_find(sample_threads *threads, uint32_t tid)
{
    size_t at = index_of(threads, tid);
    return at < threads->n && threads->at[at].tid == tid ? &threads->at[at] : NULL;
}

struct sample_thread *sample_thread_add(sample_threads *threads, uint32_t pid, uint32_t tid, uint32_t root)
{
    struct sample_thread *found = sample_thread_find(threads, tid);
    size_t at = index_of(threads, tid);
    if (found)
        return found;
    VEC_PUSH(threads, (struct sample_thread){0});
    memmove(&threads->at[at + 1], &threads->at[at], (threads->n - 1 - at) * sizeof *threads->at);
    threads->at[at] = (struct sample_thread){.pid = pid, .tid = tid, .root = root};
    return &threads->at[at];
}

void sample_thread_remove(sample_threads *threads, struct sample_thread *thread)
{
    size_t at = (size_t)(thread - threads->at);
    memmove(thread, thread + 1, (threads->n - at - 1) * sizeof *thread);
    threads->n--;
}

/* ---- time ---- */

static uint64_t take_from(uint64_t *what, uint64_t most)
{
    uint64_t taken = *what < most ? *what : most;
    *what -= taken;
    return taken;
}

static void add_run(struct sample_thread *thread, uint64_t run_ns)
{
    uint64_t paid = take_from(&thread->owed_ns, run_ns);
    thread->ran_ns += run_ns;
    thread->run_ns += run_ns - paid;
    thread->held_ns += paid; /* which had been given out as running */
}

/* The time up to now goes to what the thread did; SAMPLE_UNSEEN: nobody knows. Clocks of processors differ by little, but they differ. */
static uint64_t advance(struct sample_thread *thread, uint64_t time_ns, enum sample_state did)
{
    uint64_t passed = time_ns > thread->since_ns ? time_ns - thread->since_ns : 0;
    thread->since_ns += passed;
    if (thread->in_doubt || did == SAMPLE_UNSEEN) {
        thread->in_doubt = false;
        thread->unclear_ns += passed;
        return 0;
    }
    if (did == SAMPLE_RUNS) {
        add_run(thread, passed);
        return passed;
    }
    passed -= take_from(&thread->owed_wait_ns, passed);
    thread->wait_ns += passed;
    thread->this_wait_ns += passed;
    return passed;
}

/* The wait that goes on is over: how much of it has not been given out. */
static uint64_t end_wait(struct sample_thread *thread)
{
    uint64_t waited_ns = thread->this_wait_ns < thread->wait_ns ? thread->this_wait_ns : thread->wait_ns;
    thread->this_wait_ns = 0;
    return waited_ns;
}

void sample_thread_clear(struct sample_thread *thread)
{
    struct target_usage usage;
    uint64_t ran_ns = thread->unclear_ns / 2; /* when nobody knows any more */
    if (target_thread_usage((pid_t)thread->pid, (pid_t)thread->tid, &usage)) {
        uint64_t known_ns = thread->ran_before_ns + thread->ran_ns;
        ran_ns = usage.run_ns > known_ns ? usage.run_ns - known_ns : 0;
    }
    ran_ns = ran_ns < thread->unclear_ns ? ran_ns : thread->unclear_ns;
    add_run(thread, ran_ns);
    thread->wait_ns += thread->unclear_ns - ran_ns;
    thread->unclear_ns = 0;
}

static void give_out(struct sample_thread *thread, bool off_cpu, uint64_t weight_ns, uint64_t time_ns, struct sample_records *out)
{
    struct sample_record record = {.kind = SAMPLE_TAKEN};
    if (!weight_ns)
        return;
    record.sample = (struct sample){
        .time_ns = time_ns, .weight_ns = weight_ns, .pid = thread->pid, .tid = thread->tid, .off_cpu = off_cpu, .again = true};
    memcpy(record.name, thread->name, sizeof record.name);
    sample_records_add(out, &record, NULL);
}

/* Of the time that the thread waited unseen, what the wait that is over now stands for. */
static void give_out_wait(struct sample_thread *thread, uint64_t passed_ns, uint64_t time_ns, struct sample_records *out)
{
    uint64_t weight_ns = passed_ns * thread->stands;
    if (weight_ns > thread->wait_ns)
        weight_ns = thread->wait_ns;
    thread->wait_ns -= weight_ns;
    give_out(thread, true, weight_ns, time_ns, out);
}

/* A record that says the opposite of what is known follows one that was lost. */
void sample_thread_goes_out(struct sample_thread *thread, uint64_t time_ns, bool preempted)
{
    advance(thread, time_ns, thread->state == SAMPLE_WAITS ? SAMPLE_UNSEEN : SAMPLE_RUNS);
    thread->state = SAMPLE_WAITS;
    thread->this_wait_ns = 0;
    thread->outs++;
    thread->stands = thread->out_seen ? thread->outs : 0;
    if (thread->out_seen)
        thread->outs = 0;
    thread->out_seen = thread->looked_at = false;
    thread->preempted = preempted;
}

void sample_thread_comes_in(struct sample_thread *thread, uint64_t time_ns, struct sample_records *out)
{
    enum sample_state did = thread->state == SAMPLE_RUNS ? SAMPLE_UNSEEN : SAMPLE_WAITS;
    advance(thread, time_ns, did);
    uint64_t passed_ns = end_wait(thread);
    if (did == SAMPLE_WAITS && thread->stands) {
        give_out_wait(thread, passed_ns, time_ns, out);
    } else if (did == SAMPLE_WAITS && thread->preempted) {
        thread->wait_ns -= passed_ns;
        thread->held_ns += passed_ns;
    }
    thread->state = SAMPLE_RUNS;
    thread->stands = 0;
}

/* A thread has a timer on each processor, so from one sample to the next it is less than a period at times and more at others; and where a
 * sample comes late depends on what the thread does. So a sample stands for a period, and what is over waits for one that comes early. Much
 * that is over is what lost samples would have stood for. */
uint64_t sample_thread_ran(struct sample_thread *thread, uint64_t time_ns, uint64_t period_ns)
{
    enum { OVER_AT_MOST = 8 };
    advance(thread, time_ns, thread->state == SAMPLE_WAITS ? SAMPLE_UNSEEN : SAMPLE_RUNS);
    thread->state = SAMPLE_RUNS;
    uint64_t over_ns = thread->run_ns > OVER_AT_MOST * period_ns ? thread->run_ns - OVER_AT_MOST * period_ns : 0;
    uint64_t ran_ns = over_ns + (thread->run_ns < period_ns ? thread->run_ns : period_ns);
    thread->run_ns -= ran_ns;
    return ran_ns;
}

uint64_t sample_thread_ran_part(struct sample_thread *thread)
{
    uint64_t part_ns = thread->part_ns < thread->run_ns ? thread->part_ns : thread->run_ns;
    thread->run_ns -= part_ns;
    return part_ns;
}

void sample_thread_used(struct sample_thread *thread, uint64_t run_ns, uint64_t delay_ns, uint64_t time_ns)
{
    uint64_t owed_ns = thread->owed_wait_ns;
    thread->in_doubt = false; /* this way it is known */
    thread->owed_wait_ns = 0;
    uint64_t passed_ns = advance(thread, time_ns, SAMPLE_WAITS);
    uint64_t ran_ns = run_ns < passed_ns ? run_ns : passed_ns;
    uint64_t delayed_ns = delay_ns < passed_ns - ran_ns ? delay_ns : passed_ns - ran_ns;
    thread->wait_ns -= ran_ns + delayed_ns;
    add_run(thread, ran_ns);
    thread->held_ns += delayed_ns;
    thread->owed_wait_ns = owed_ns - take_from(&thread->wait_ns, owed_ns);
    thread->this_wait_ns = 0; /* which of its waits that was is not known */
}

/* The time that it did not run it could have run: somebody else had the processor, or the machine. */
void sample_thread_correct(struct sample_thread *thread, uint64_t time_ns, uint64_t ran_ns)
{
    advance(thread, time_ns, thread->state);
    uint64_t missing = ran_ns > thread->ran_ns ? ran_ns - thread->ran_ns : 0;
    uint64_t over = ran_ns < thread->ran_ns ? thread->ran_ns - ran_ns : 0, taken = take_from(&thread->run_ns, over);
    uint64_t room = missing - take_from(&thread->unclear_ns, missing);
    room -= take_from(&thread->held_ns, room);
    room -= take_from(&thread->wait_ns, room);
    thread->owed_wait_ns += room;
    add_run(thread, missing);
    thread->ran_ns -= over;
    thread->held_ns += taken;
    thread->owed_ns += over - taken;
    thread->wait_ns += thread->unclear_ns;
    thread->unclear_ns = 0;
}

void sample_thread_settle(struct sample_thread *thread, uint64_t time_ns, struct sample_records *out)
{
    advance(thread, time_ns, thread->state);
    sample_thread_clear(thread);
    give_out(thread, true, thread->wait_ns + thread->held_ns, time_ns, out);
    give_out(thread, false, thread->run_ns, time_ns, out);
    thread->wait_ns = thread->this_wait_ns = thread->held_ns = thread->run_ns = 0;
}

/* ---- looking at threads that wait ---- */

/* What the arguments of system calls are passed in, and calls of functions do not preserve, except in 32 bit. */
static const uint8_t arguments64[6] = {WIRE_REG64_DI, WIRE_REG64_SI, WIRE_REG64_DX, WIRE_REG64_R10, WIRE_REG64_R8, WIRE_REG64_R9};
static const uint8_t arguments32[6] = {WIRE_REG32_BX, WIRE_REG32_CX, WIRE_REG32_DX, WIRE_REG32_SI, WIRE_REG32_DI, WIRE_REG32_BP};

static void take(struct sample *sample, int reg, uint64_t value)
{
    sample->machine[reg] = value;
    sample->known |= 1u << reg;
}

static void take_rest(const struct target_rest *rest, struct sample *sample)
{
    bool is_wide = sample->model == WIRE_LP64;
    const uint8_t *arguments = is_wide ? arguments64 : arguments32;
    for (int i = 0; i < 6 && rest->number >= 0; i++)
        take(sample, arguments[i], is_wide ? rest->args[i] : (uint32_t)rest->args[i]);
    take(sample, is_wide ? (int)WIRE_REG64_SP : (int)WIRE_REG32_SP, rest->sp);
    take(sample, is_wide ? (int)WIRE_REG64_IP : (int)WIRE_REG32_IP, rest->pc);
    sample->pc = rest->pc;
    sample->sp = rest->sp;
    sample->in_kernel = true;
}

void sample_thread_look(struct sample_thread *thread, const struct sample_options *options, bool all, uint64_t time_ns,
                        struct sample_records *out)
{
    struct target_rest rest, after;
    pid_t pid = (pid_t)thread->pid, tid = (pid_t)thread->tid;
    thread->looked_at = true;
    if (!target_thread_at_rest(pid, tid, &rest)) {
        if (thread->state == SAMPLE_UNSEEN)
            thread->state = SAMPLE_RUNS;
        return;
    }
    int width = target_program_width(pid);
    uint8_t *stack = memory_alloc(options->stack_bytes);
    struct sample_record record = {.kind = SAMPLE_TAKEN};
    record.bytes = width ? target_peek(pid, rest.sp, stack, options->stack_bytes) : 0;
    /* A stack that changed meanwhile is none. */
    if (width && target_thread_at_rest(pid, tid, &after) && after.sp == rest.sp && after.pc == rest.pc) {
        thread->state = SAMPLE_WAITS;
        thread->stands = 1;
        record.sample = (struct sample){
            .time_ns = time_ns, .pid = thread->pid, .tid = thread->tid, .off_cpu = true, .model = width == 64 ? WIRE_LP64 : WIRE_ILP32};
        take_rest(&rest, &record.sample);
        if (all) {
            advance(thread, time_ns, SAMPLE_WAITS);
            record.sample.weight_ns = thread->wait_ns;
            thread->wait_ns = thread->this_wait_ns = 0;
        }
        memcpy(record.name, thread->name, sizeof record.name);
        sample_records_add(out, &record, stack);
    }
    free(stack);
}
