/* Frames of the session's pool, for clauses that need more room than the stack of the program should give. Called while firing.
 *
 * A thread that jumps out of a clause leaves its frame taken. It finds it again, being the first that it looks for, and knows it by the
 * place of the run that had it; the controller takes others back once every thread was seen outside (drain/frames.c). */
#include "agent/agent.h"
#include "stream/port.h"

static struct wire_frame *frame_at(const struct wire_session *session, uint32_t number)
{
    return (struct wire_frame *)((char *)session + session->frames_offset + number * session->frame_stride);
}

/* From the owner to the thread, with the next number of a claim. Either may be 0, or both the same. */
static bool pass_on(struct wire_frame *frame, uint32_t owner, uint32_t tid)
{
    uint32_t claim = __atomic_load_n(&frame->claim, __ATOMIC_RELAXED);
    return __sync_bool_compare_and_swap((uint64_t *)&frame->owner, (uint64_t)claim << 32 | owner, (uint64_t)(claim + 1) << 32 | tid);
}

/* Takes a frame that the thread has left. A handler that interrupts this may run a clause, too: only one of the two gets it, by emptying
 * fire_va. The controller may have taken it back before. */
static bool take_again(const struct wire_fire *fire, struct wire_frame *frame)
{
    uint64_t fire_va = frame->fire_va;
    return __atomic_load_n(&frame->owner, __ATOMIC_RELAXED) == fire->tid && frame->pid == fire->pid && wire_was_left(fire, fire_va) &&
           __sync_bool_compare_and_swap(&frame->fire_va, fire_va, 0) && pass_on(frame, fire->tid, fire->tid);
}

uint64_t agent_claim(struct wire_fire *fire)
{
    struct wire_session *session = (void *)(uintptr_t)fire->session_va;
    if (!fire->tid)
        fire->tid = (uint32_t)port_ctx(fire, WIRE_CTX_TID);
    if (!fire->pid)
        fire->pid = (uint32_t)port_ctx(fire, WIRE_CTX_PID);
    uint32_t start = fire->tid * 0x9e3779b1u >> 16;
    for (uint32_t i = 0; i < session->frame_count; i++) {
        struct wire_frame *frame = frame_at(session, (start + i) & (session->frame_count - 1));
        bool is_free = !__atomic_load_n(&frame->owner, __ATOMIC_RELAXED);
        if (!(is_free ? pass_on(frame, 0, fire->tid) : take_again(fire, frame)))
            continue;
        frame->pid = fire->pid;
        frame->fire_va = (uintptr_t)fire;
        return (uintptr_t)(frame + 1);
    }
    uint32_t *lost = (uint32_t *)&wire_state(session)->lost[WIRE_LOSS_FRAME];
    __asm__ volatile("lock addl $1,%0\n lock adcl $0,%1" : "+m"(lost[0]), "+m"(lost[1]) : : "cc");
    return 0;
}

void agent_release(struct wire_fire *fire, uint64_t frame_va)
{
    (void)fire;
    struct wire_frame *frame = (struct wire_frame *)(uintptr_t)frame_va - 1;
    frame->fire_va = 0;
    __atomic_store_n(&frame->owner, 0, __ATOMIC_RELEASE);
}
