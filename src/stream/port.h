/* What eval, maps and rings need of the world they run in. Freestanding; implemented by agent/port.c in a traced process and by
 * drain/port.c in the controller. Called while firing. */
#ifndef STREAM_PORT_H
#define STREAM_PORT_H

#include "wire/session.h"

#include <stdbool.h>

/* Reads the target's memory: all of it or nothing. */
bool port_read(struct wire_fire *fire, uint64_t va, void *to, uint32_t bytes);
/* CTX of PID TID UID GID CPU NSECS RAND PC ROW FUNC PROBE PPID BIAS. */
uint64_t port_ctx(struct wire_fire *fire, uint32_t what);
/* `of_process`: of its main thread. */
void port_comm(struct wire_fire *fire, bool of_process, char to[16]);
void port_signal(struct wire_fire *fire, int number);
/* Said now and then by whoever walks along a long chain or waits for a writer: so many steps more. False: it was enough, give up. */
bool port_goes_on(uint32_t steps);
/* The time for records: see struct wire_record. */
uint64_t port_time(const struct wire_fire *fire);
/* There is no room in a ring: waits for so long while the state's `reader` is `seen`, or until it is woken, or makes room. False: neither
 * is possible or wanted. */
bool port_wait(const struct wire_fire *fire, uint32_t seen, uint32_t most_ns);
/* XMM and ST0 of the program, as the bits of a double. JIT code reads xmm registers itself; the host has none. */
uint64_t port_xmm(struct wire_fire *fire, uint32_t number, uint32_t bytes);
uint64_t port_st0(struct wire_fire *fire);
/* The program's stack, innermost first: the pc, then return addresses, at most `room`. Returns how many. *root: WIRE_STACK_ROOT(). `walk`:
 * WIRE_WALK_BYTES to use up. */
uint32_t port_stack(struct wire_fire *fire, uint64_t *walk, uint64_t *pcs, uint32_t room, uint64_t *root);

#endif
