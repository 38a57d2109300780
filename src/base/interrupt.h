/* What ends a run from outside: Ctrl-C, SIGTERM, the terminal's end. They are read, so that processes can be left as they were. */
#ifndef BASE_INTERRUPT_H
#define BASE_INTERRUPT_H

/* A signalfd of them, and of `extra` unless that is 0; all are blocked from now on. Writing to a pipe that nobody reads is an error then,
 * not the end. */
int interrupt_fd(int extra);

#endif
