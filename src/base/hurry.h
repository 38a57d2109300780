/* Going first: for the moments in which a process stands still, or pays, until this thread has done what it is about to do. On a busy
 * machine a thread may have to wait some milliseconds for its turn, and the process would with it.
 *
 * Calls nest. What is done in between must be short and must not wait for a thread that does not go first. Where the kernel does not permit
 * it, nothing happens. */
#ifndef BASE_HURRY_H
#define BASE_HURRY_H

void hurry_begin(void);
void hurry_end(void);

#endif
