/* Stacks inside the process: the agent walks them with tables (wire/unwind.h) that are mapped there, one for each file, and a list of what
 * the process has mapped (struct wire_spaces) that is published anew whenever that changes.
 *
 * Tables are files in memory with the name that all memory of a session has, so whoever reverts the process finds and unmaps them. Once
 * mapped they stay until then: a thread may be walking with an older list. */
#ifndef LOAD_STACKS_H
#define LOAD_STACKS_H

#include "load/process.h"

/* Of the memory that is shared with a process. */
uint64_t load_stacks_bytes(void);

/* Code of ours is in the list, too, as an end: where a signal handler has interrupted a clause, what lies behind is not known.
 *
 * Maps what tables are missing and publishes the list. `image` is what the list is published with; when an address means something else
 * than before, *needs_image is set instead and nothing is published, so that the caller calls again with a new one. A file without a table
 * is walked by frame pointers. */
struct err *load_stacks_publish(struct load_process *process, uint32_t image, bool *needs_image);

/* Where the stack ends that the kernel gave the program; 0: not known. */
uint64_t load_stacks_end(struct target *target);

/* Whether the code at an address of the file is what signal handlers return to. */
bool load_stacks_is_signal(struct load_code *code, uint64_t file_va);

#endif
