/* Opening files that somebody else has named. */
#ifndef BASE_REGULAR_H
#define BASE_REGULAR_H

#include <stdbool.h>
#include <stddef.h>

/* Opens a file for reading. What is no regular file is not opened: some devices begin to do something when they are, and a FIFO would wait.
 * Then the descriptor is one that fstat(2) tells about, and no more. -1, with errno: there is none, or it may not be read. */
int regular_open(const char *path);

/* Of a path as /proc/PID/maps shows it: how long it is without the " (deleted)" that the kernel appends when the file has no name any more,
 * and whether that is there. */
size_t regular_path_length(const char *shown);
bool regular_is_deleted(const char *shown);

#endif
