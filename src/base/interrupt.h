/* What ends a run from outside: Ctrl-C, Ctrl-\, SIGTERM, the terminal's end, a limit that was reached, a timer: every signal that would end
 * this program and that can be held back. They are read, so that processes can be left as they were. */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

#include <stdbool.h>

/* A signalfd of them, and of `extra` unless that is 0; all are blocked from now on. Writing to a pipe that nobody reads, or beyond the
 * largest size of a file, is an error then, not the end. */
int interrupt_fd(int extra);
/* Whether one of them has come and was not read yet; `extra` is none of them. */
bool interrupt_pending(void);

#endif
