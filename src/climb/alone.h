/* A climb that is alone: it owns the session in the process, its rings and its samples. */
#ifndef CLIMB_ALONE_H
#define CLIMB_ALONE_H

#include "climb/climb.h"

struct climb_alone;

/* `clock`: read when the program started. */
struct err *climb_alone_create(const struct climb_options *options, const struct drain_clock *clock, struct climb_alone **out);
/* One process; a command starts with nothing hooked. */
struct err *climb_alone_attach(struct climb_alone *alone, pid_t pid);
struct err *climb_alone_start(struct climb_alone *alone, char *const argv[]);
/* Works for about `ns` nanoseconds, or until `wake_fd` is readable. *over: the process has ended. */
struct err *climb_alone_run(struct climb_alone *alone, uint64_t ns, int wake_fd, bool *over);
/* Removes every hook. The first error; what was learnt stays readable until climb_alone_destroy(). */
struct err *climb_alone_stop(struct climb_alone *alone);
void climb_alone_destroy(struct climb_alone *alone);

struct climb *climb_alone_climb(struct climb_alone *alone);
int climb_alone_status(const struct climb_alone *alone); /* waitpid's of a command that has ended, else -1 */

#endif
