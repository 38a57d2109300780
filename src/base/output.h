/* Files that a command writes because it was told their name (-o FILE).
 *
 * In: a name that may lie where others can write (/tmp), while we may be root. Out: a stream, and a file that nobody else chose.
 *
 * Rules
 *  1. A regular file is never written over: what is written is a file of its own, for its owner alone (0600, or the mode of the own file
 *     that it replaces), and takes the name at output_publish(). What had the name, a file with other hard links among it, stays as it is
 *     under its other names. Only where the directory can not be written is the own file itself written, if it has one name only.
 *  2. A symbolic link is followed if it belongs to us or to root, one at a time and as it was when its owner was looked at.
 *  3. What is no regular file (a terminal, /dev/null, a pipe) is opened as what was looked at, not by its name. A pipe of another user's
 *     is not opened.
 *  4. Until output_publish() nothing has changed under the name; an end by a signal leaves nothing behind. */
#ifndef BASE_OUTPUT_H
#define BASE_OUTPUT_H

#include "base/err.h"

#include <stdbool.h>
#include <stdio.h>

struct output;

struct err *output_open(const char *path, struct output **out);
/* The stream; it belongs to the output. */
FILE *output_file(struct output *output);
/* From now on the name means what is written. Does nothing the second time. */
struct err *output_publish(struct output *output);
/* Writes and publishes what is left to, and ends. That nobody reads a pipe any more is no error. */
struct err *output_close(struct output *output);
/* Ends without publishing. Accepts NULL. */
void output_discard(struct output *output);

/* Whether nobody reads any more what is written there; `number` is the error of writing. */
bool output_is_deserted(int fd, int number);
/* What is said of a file that could not be written whole; 0: the error is not known any more. */
struct err *output_unwritten(const char *name, int number);

#endif
