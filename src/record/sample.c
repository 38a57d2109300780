/* Samples → stacks of frames. */
#include "base/clock.h"
#include "record/run.h"

#include <stdlib.h>
#include <string.h>

/* Of each sample the kernel copies so much of the stack. Frames further out are read from the process when the sample is looked at: they
 * change seldom. */
enum { STACK_BYTES = 16384, FRAMES_MAX = 512 };

/* Copying costs a thread a good part of what the interrupts do. Where the outer frames stay what they are, which is known after some
 * hundred walks, less is copied; as soon as they do not any more, all again. */
enum { LESS_STACK_BYTES = 4096, WALKS = 256, NEW_FEW = WALKS / 100, NEW_MANY = WALKS / 50 };

/* ---- stacks ---- */

static uint32_t push_frames(struct record_run *run, struct record_process *process, uint32_t stack, uint64_t pc, bool is_after)
{
    const struct record_mapping *mapping = record_mapping_at(process, is_after ? pc - 1 : pc);
    if (!mapping || !mapping->has_bias) {
        uint32_t frame = mapping ? record_frames_at(run, mapping->module, 0, false, &(size_t){0})[0] : run->unknown_frame;
        return record_define_stack(run, stack, frame);
    }
    size_t count;
    const uint32_t *frame = record_frames_at(run, mapping->module, pc - mapping->bias, is_after, &count);
    while (count-- > 0)
        stack = record_define_stack(run, stack, frame[count]);
    return stack;
}

uint32_t record_stack_of(struct record_run *run, struct record_process *process, const uint64_t *pcs, uint32_t count)
{
    uint32_t stack = TRACE_NONE;
    for (uint32_t i = count; i-- > 0;)
        stack = push_frames(run, process, stack, pcs[i], i > 0);
    return stack;
}

/* A forked child that ended before it could be looked at had its parent's code. */
static struct record_process *process_to_walk(struct record_process *process)
{
    while (!process->unwind && process->parent)
        process = process->parent;
    return process;
}

/* The program's registers, also when the thread is in code of ours. The pc is 0 when they are not known. */
static void find_registers(struct record_run *run, const struct record_process *process, const struct sample *sample,
                           struct load_standing *standing)
{
    *standing = (struct load_standing){.pc = sample->pc, .known = sample->known};
    memcpy(standing->reg, sample->machine, sizeof standing->reg);
    for (; process && run->session; process = process->parent)
        if (load_session_stand(run->session, (pid_t)process->pid, standing, sample->stack, sample->stack_bytes))
            break;
}

/* Compares what is further out than the smaller copy with what was there before the sample was taken. */
static void compare_outside(struct record_thread *thread, const struct sample *sample, struct unwind_stack *stack)
{
    struct record_outside *outside = thread->outside;
    if (!outside)
        thread->outside = outside = memory_zero(1, sizeof *outside);
    if (outside->read_ns[outside->last] < sample->time_ns) {
        outside->last = !outside->last;
        outside->read_ns[outside->last] = clock_now_ns();
        outside->seen[outside->last].count = 0;
    }
    uint64_t before_ns = outside->read_ns[!outside->last];
    stack->far_va = sample->sp + LESS_STACK_BYTES;
    stack->before = before_ns && before_ns < sample->time_ns ? &outside->seen[!outside->last] : NULL;
    stack->now = &outside->seen[outside->last];
}

static void decide_copies(struct record_run *run)
{
    if (run->new_walks > NEW_MANY)
        record_queue_copy_less(run->samples, false);
    else if (run->walks >= WALKS && run->new_walks <= NEW_FEW)
        record_queue_copy_less(run->samples, true);
    if (run->walks >= WALKS)
        run->walks = run->new_walks = 0;
}

static uint32_t walk(struct record_run *run, struct record_thread *thread, const struct sample *sample,
                     const struct load_standing *standing)
{
    uint64_t pcs[FRAMES_MAX];
    struct unwind_result result = {.count = 1};
    if (!standing->pc) {
        run->summary.cut_stacks++;
        return record_define_stack(run, TRACE_NONE, run->unknown_frame);
    }
    struct record_process *process = process_to_walk(thread->process);
    pcs[0] = standing->pc;
    if (process->unwind) {
        struct unwind_regs regs = {.pc = standing->pc, .known = standing->known};
        struct unwind_stack stack = {.va = sample->sp, .bytes = sample->stack, .size = sample->stack_bytes};
        memcpy(regs.reg, standing->reg, sizeof regs.reg);
        stack.copy_only = standing->was_on_ours; /* it may have gone on since */
        compare_outside(thread, sample, &stack);
        unwind_process_walk(process->unwind, &regs, &stack, pcs, FRAMES_MAX, &result);
        run->walks++;
        run->new_walks += result.is_new || result.end != UNWIND_COMPLETE;
        if (run->climb)
            climb_take_stack(run->climb, sample, pcs, &result);
    }
    run->summary.cut_stacks += !process->unwind || result.end != UNWIND_COMPLETE;
    return record_stack_of(run, process, pcs, result.count);
}

/* The pc's function, with those that it is inlined in. */
static uint32_t place_of(struct record_run *run, const struct record_thread *thread, const struct load_standing *standing)
{
    if (!standing->pc)
        return record_define_stack(run, TRACE_NONE, run->unknown_frame);
    return push_frames(run, process_to_walk(thread->process), TRACE_NONE, standing->pc, false);
}

/* ---- samples ---- */

static void take(void *context, const struct sample *sample)
{
    struct record_run *run = context;
    struct record_thread *thread = record_thread_of(run, sample->pid, sample->tid, sample->time_ns);
    struct load_standing standing = {0};
    if (!sample->again)
        find_registers(run, thread->process, sample, &standing);
    if (run->climb) {
        struct sample there = *sample; /* where many calls are recorded most of the time is spent in code of ours */
        there.pc = standing.pc;
        climb_take_sample(run->climb, &there);
    }
    if (!run->options->hz)
        return; /* what is left of a thread's time, which nobody asked for */
    record_trim_stacks(run);
    uint32_t *last = &thread->stack[sample->off_cpu];
    bool is_pc = run->options->is_pc_only;
    if (!sample->again)
        *last = is_pc ? place_of(run, thread, &standing) : walk(run, thread, sample, &standing);
    uint32_t stack = *last;
    if (stack == TRACE_NONE)
        stack = record_define_stack(run, TRACE_NONE, run->unknown_frame);
    struct trace_record record = {.time_ns = sample->time_ns,
                                  .major = TRACE_SAMPLE,
                                  .minor = sample->off_cpu ? (is_pc ? TRACE_OFF_CPU_PC : TRACE_OFF_CPU)
                                           : is_pc         ? TRACE_PC
                                                           : TRACE_TIMER,
                                  .number = stack,
                                  .value = sample->weight_ns};
    record_write(run, thread, &record);
    thread->last_ns = sample->time_ns;
    run->last_sampled = thread;
    run->summary.samples++;
}

static void tell(void *context, const struct sample_news *news)
{
    struct record_run *run = context;
    if (run->climb)
        climb_take_news(run->climb, news);
    record_take_news(run, news);
}

struct err *record_samples_create(struct record_run *run)
{
    bool has_stacks = run->options->hz && !run->options->is_pc_only;
    struct sample_options options = {.period_ns = run->options->hz ? 1000000000u / run->options->hz : 0,
                                     .clock = run->options->is_wall ? SAMPLE_WALL : SAMPLE_CPU,
                                     .stack_bytes = has_stacks ? STACK_BYTES : 0,
                                     .less_stack_bytes = has_stacks ? LESS_STACK_BYTES : 0,
                                     .want_switches = record_has_switches(run) || run->options->climb,
                                     .want_accounts = record_wants_accounts(run->options),
                                     .want_tasks = true,
                                     .want_maps = true,
                                     .follow_exec = true,
                                     .may_stop = true};
    run->samples = record_queue_create(sample_set_create(&options), run->has_switches);
    return NULL;
}

size_t record_drain_samples(struct record_run *run)
{
    if (!run->samples)
        return 0;
    size_t count = record_queue_drain(run->samples, take, tell, run, &run->samples_until_ns);
    decide_copies(run);
    return count;
}

void record_samples_destroy(struct record_run *run)
{
    record_queue_destroy(run->samples);
}
