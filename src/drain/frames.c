/* Frames of the pool that nobody will give back: their threads were killed, or have jumped out of a clause. */
#include "drain/session.h"

static struct wire_frame *frame_at(const struct drain_session *session, uint32_t number)
{
    return (struct wire_frame *)((char *)session->memory + session->layout.frames_offset + number * session->layout.frame_stride);
}

/* Owner and claim, which change together. */
static uint64_t *word_of(struct wire_frame *frame)
{
    return (uint64_t *)&frame->owner;
}

bool drain_begin_frames(struct drain_session *session)
{
    uint64_t lost = drain_session_lost(session, WIRE_LOSS_FRAME);
    if (lost == session->frames_lost)
        return false;
    session->frames_lost = lost;
    for (uint32_t i = 0; i < session->layout.frame_count; i++)
        session->frame[i] = __atomic_load_n(word_of(frame_at(session, i)), __ATOMIC_ACQUIRE);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

size_t drain_end_frames(struct drain_session *session)
{
    size_t freed = 0;
    for (uint32_t i = 0; i < session->layout.frame_count; i++) {
        struct wire_frame *frame = frame_at(session, i);
        uint64_t seen = session->frame[i];
        if (!(uint32_t)seen || __atomic_load_n(word_of(frame), __ATOMIC_ACQUIRE) != seen)
            continue;
        __atomic_store_n(&frame->fire_va, 0, __ATOMIC_RELEASE);
        freed +=
            __atomic_compare_exchange_n(word_of(frame), &seen, seen & ~(uint64_t)UINT32_MAX, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    }
    return freed;
}
