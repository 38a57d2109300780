/* Whole stacks, for functions that can not be hooked or are never entered: main, a thread's loop. Each such function on a stack tells who
 * called it.
 *
 * Threads that run bring them with samples. A process that does not run, or of which nobody samples stacks, is stopped for a moment, and
 * all its threads are looked at; it is also stopped now and then while some function is on no stack of a sample: a thread that waits may
 * have it. */
#include "climb/internal.h"

#include "base/hurry.h"
#include "unwind/space.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 512, ENOUGH = 20 };
/* Of a thread, from one stack to the next; from one stop to the next while samples bring stacks; how long one is waited for; and how long
 * samples go on bringing them, since it takes system calls for each thread to have it otherwise. */
enum { STACKS_NS = 50000000, SELDOM_NS = 500000000, HUNGRY_NS = 500000000, KEPT_NS = 500000000 };

bool climb_needs_stacks(const struct climb_function *function)
{
    uint64_t stacks = 0;
    for (size_t i = 0; i < function->caller.n; i++)
        stacks += function->caller.at[i].stacks;
    return (function->state == CLIMB_STILL || function->state == CLIMB_CANNOT) && stacks < ENOUGH;
}

static struct climb_function *function_of_frame(struct climb *climb, const uint64_t *pcs, uint32_t frame, uint32_t *number)
{
    *number = climb_find(climb, frame ? pcs[frame] - 1 : pcs[frame]);
    return *number != CLIMB_NONE ? climb->function.at[*number] : NULL;
}

static bool is_innermost(struct climb *climb, const uint64_t *pcs, uint32_t frame, uint32_t number)
{
    uint32_t inner;
    for (uint32_t i = 0; i < frame; i++)
        if (function_of_frame(climb, pcs, i, &inner) && inner == number)
            return false;
    return true;
}

static void take_frames(struct climb *climb, const uint64_t *pcs, const struct unwind_result *result)
{
    /* What is above a function that is not entered is not entered either. */
    bool is_still = false;
    uint32_t number, above = CLIMB_NONE;
    for (uint32_t i = 0; i < result->count; i++) {
        struct climb_function *function = function_of_frame(climb, pcs, i, &number);
        if (function && is_still && function->state == CLIMB_UNSEEN)
            function->state = CLIMB_STILL;
        is_still |= function && function->state == CLIMB_STILL;
    }
    bool is_known = result->end == UNWIND_COMPLETE; /* what is above: at first, nothing */
    for (uint32_t i = result->count; i-- > 0;) {
        struct climb_function *function = function_of_frame(climb, pcs, i, &number);
        if (function && is_known) {
            uint32_t index = climb_caller_index(function, above);
            struct climb_caller *caller = &function->caller.at[index];
            *(is_innermost(climb, pcs, i, number) ? &caller->stacks : &caller->outer_stacks) += 1;
        }
        above = number;
        is_known = function;
    }
}

static void take_walk(struct climb *climb, const uint64_t *pcs, const struct unwind_result *result)
{
    uint32_t innermost = climb_find(climb, pcs[0]);
    if (innermost == CLIMB_NONE)
        return; /* in a hook, or in generated code */
    /* What frame pointers say may leave a caller out: it is believed where nothing else will ever tell, if it leads to the thread's start.
     */
    bool is_all_there_is = climb->function.at[innermost]->state == CLIMB_CANNOT && result->end == UNWIND_COMPLETE;
    if (!result->guessed || is_all_there_is)
        take_frames(climb, pcs, result);
}

static void count_stacks(struct climb *climb, uint64_t time_ns)
{
    if (time_ns < climb->next_stacks_ns)
        return;
    climb->next_stacks_ns = time_ns + STACKS_NS;
    climb->stacks_taken++;
}

static struct err *open_unwind(struct climb *climb)
{
    return climb->unwind ? NULL : unwind_process_open(climb->tables, climb->pid, 0, &climb->unwind);
}

/* ---- with samples ---- */

bool climb_wants_stacks(const struct climb *climb)
{
    return climb->wants_stacks;
}

void climb_want_stacks(struct climb *climb, bool wanted, uint64_t now_ns)
{
    if (wanted && !climb->wants_stacks)
        climb->fed_ns = now_ns;
    if (wanted)
        climb->wanted_ns = now_ns;
    climb->wants_stacks = wanted || (climb->wants_stacks && now_ns < climb->wanted_ns + KEPT_NS);
}

void climb_take_stack(struct climb *climb, const struct sample *sample, const uint64_t *pcs, const struct unwind_result *result)
{
    if (!climb->wants_stacks || sample->pid != (uint32_t)climb->pid || !climb_is_ours(climb, sample))
        return;
    struct climb_thread *thread = climb_thread(climb, sample->tid);
    if (sample->time_ns < thread->next_stack_ns)
        return;
    thread->next_stack_ns = sample->time_ns + STACKS_NS;
    climb->fed_ns = sample->time_ns;
    count_stacks(climb, sample->time_ns);
    take_walk(climb, pcs, result);
}

/* What is further out than the copy is read from the process: it changes seldom. */
void climb_walk(struct climb *climb, const struct sample *sample)
{
    uint64_t pcs[FRAMES];
    struct unwind_result result;
    struct unwind_regs regs = {.pc = sample->pc, .known = sample->known};
    struct unwind_stack stack = {.va = sample->sp, .bytes = sample->stack, .size = sample->stack_bytes};
    err_free(open_unwind(climb));
    if (!climb->unwind)
        return; /* the process has ended, as will be found */
    memcpy(regs.reg, sample->machine, sizeof regs.reg);
    unwind_process_walk(climb->unwind, &regs, &stack, pcs, FRAMES, &result);
    climb_take_stack(climb, sample, pcs, &result);
}

/* ---- by stops ---- */

bool climb_has_to_stop(const struct climb *climb, const struct climb_plan *plan, uint64_t now_ns)
{
    bool is_hungry = plan->wants_stacks && now_ns > climb->fed_ns + HUNGRY_NS;
    return (is_hungry || plan->needs_stacks) && now_ns >= climb->stop_ns + (is_hungry ? STACKS_NS : SELDOM_NS);
}

/* What a thread had when it was stopped. */
struct copy {
    struct unwind_regs regs;
    uint64_t sp;
    size_t at, bytes; /* of its stack, in what was copied of all */
};
typedef VEC(struct copy) copies;

static void copy_threads(struct target *target, uint8_t *stacks, size_t each, copies *out)
{
    size_t at = 0;
    for (size_t i = 0; i < target_thread_count(target); i++) {
        const struct target_thread *thread = target_thread(target, i);
        struct copy copy = {.sp = thread->regs.rsp, .at = at};
        if (!thread->stopped)
            continue;
        unwind_regs_from_user(&thread->regs, target_width(target), &copy.regs);
        copy.bytes = target_read_some(target, copy.sp, stacks + at, each);
        at += copy.bytes;
        VEC_PUSH(out, copy);
    }
}

static void take_copy(struct climb *climb, const struct copy *copy, const uint8_t *stacks)
{
    uint64_t pcs[FRAMES];
    struct unwind_result result;
    struct unwind_stack stack = {.va = copy->sp, .bytes = stacks + copy->at, .size = copy->bytes, .copy_only = true};
    unwind_process_walk(climb->unwind, &copy->regs, &stack, pcs, FRAMES, &result);
    take_walk(climb, pcs, &result);
}

/* The process goes on as soon as its stacks are copied: what they mean is found out then. */
struct err *climb_stop_for_stacks(struct climb *climb, uint64_t now_ns)
{
    enum { EACH = 1 << 18, ALL = 1 << 22 };
    struct target *target = load_process_target(climb->process);
    copies list = {0};
    ERR_TRY(open_unwind(climb));
    climb->stop_ns = now_ns;
    count_stacks(climb, now_ns);
    uint8_t *stacks = memory_alloc(ALL);
    climb_begin_stop(climb);
    hurry_begin();
    struct err *gone = target_stop(target);
    bool is_busy = gone && gone->code == ERR_BUSY; /* a thread can not stop yet: another time */
    if (!gone)
        gone = load_process_check(climb->process);
    if (!gone) {
        size_t count = target_thread_count(target), each = count * EACH > ALL ? ALL / count : EACH;
        copy_threads(target, stacks, each & ~(size_t)7, &list);
    }
    struct err *error = target_resume(target);
    hurry_end();
    climb_note_stopped(climb);
    for (size_t i = 0; i < list.n; i++)
        take_copy(climb, &list.at[i], stacks);
    free(stacks);
    VEC_FREE(&list);
    if (!gone || is_busy) {
        err_free(gone);
        return error;
    }
    err_free(error);
    return gone;
}
