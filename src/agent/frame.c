/* Frames of the session's pool, for clauses that need more room than the stack of the program should give. Called while firing. */
#include "agent/agent.h"
#include "stream/port.h"

static struct wire_frame *frame_at(const struct wire_session *session, uint32_t number)
{
    return (struct wire_frame *)((char *)session + session->frames_offset + number * session->frame_stride);
}

uint64_t agent_claim(struct wire_fire *fire)
{
    struct wire_session *session = (void *)(uintptr_t)fire->session_va;
    if (!fire->tid)
        fire->tid = (uint32_t)port_ctx(fire, WIRE_CTX_TID);
    uint32_t start = fire->tid * 0x9e3779b1u >> 16;
    for (uint32_t i = 0; i < session->frame_count; i++) {
        struct wire_frame *frame = frame_at(session, (start + i) & (session->frame_count - 1));
        uint32_t free = 0;
        if (!__atomic_load_n(&frame->owner, __ATOMIC_RELAXED) &&
            __atomic_compare_exchange_n(&frame->owner, &free, fire->tid, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
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
    __atomic_store_n(&frame->owner, 0, __ATOMIC_RELEASE);
}
