#include "drain/stacks.h"

uint32_t drain_stack_read(const struct drain_session *session, uint32_t number, uint64_t *pcs, uint64_t *root)
{
    const struct wire_stack_node *nodes = (const void *)((const char *)session->memory + session->layout.stacks_offset);
    uint32_t count = 0;
    *root = 0;
    while (number && number <= session->layout.stack_nodes && count <= WIRE_STACK_MAX) {
        /* Each once: the process may change it in between. */
        uint32_t parent = __atomic_load_n(&nodes[number - 1].parent, __ATOMIC_RELAXED);
        uint64_t pc = __atomic_load_n(&nodes[number - 1].pc, __ATOMIC_RELAXED);
        if (!parent) {
            *root = pc;
            return count;
        }
        if (count < WIRE_STACK_MAX)
            pcs[count] = pc;
        count++;
        number = parent;
    }
    return 0;
}
