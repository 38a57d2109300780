/* Programs that somebody is about to execute, caught before their first instruction (fanotify(7)).
 *
 * Whoever executes one waits until the kernel is answered. A process of its own does that, so that nobody waits for long: not when we are
 * busy, and not when we are stopped or killed. */
#ifndef TARGET_GATE_H
#define TARGET_GATE_H

#include "target/target.h"

struct target_gate;

/* For the programs at these paths. NULL: it is not permitted (CAP_SYS_ADMIN), or the kernel can not do it. */
struct target_gate *target_gate_create(char *const *paths, size_t count);
void target_gate_destroy(struct target_gate *gate);
/* Becomes readable when target_gate_next() may have something; -1: it never will. */
int target_gate_fd(const struct target_gate *gate);
/* Takes the next that waits; false: there is none just now. It stands before its first instruction then, as target_start() leaves one.
 * NULL: it can not be caught, or waited for too long and went on: then `late` is its number, else 0. */
bool target_gate_next(struct target_gate *gate, struct target **target, pid_t *late);

#endif
