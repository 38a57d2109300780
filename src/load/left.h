/* The journal of a process (struct wire_shared and its tables), copied into memory of ours and checked.
 *
 * A living controller copies its own memory, which the process can not write. What a dead one left is in memory that anybody may have made:
 * a process may map any number of memfds of any name and content. So it is read by copy, through a function of the reader's, and every
 * count is limited by numbers of ours. Whatever the bytes were, a copy that was made says:
 *
 *  1. regions are whole pages of the process's half of memory, do not overlap, and are in order of address;
 *  2. sites have 1 to WIRE_SITE_MAX bytes, lead into a region, and are in order of address;
 *  3. entries of the pc map have a kind, lie in a region or are an island (a site without extent), and are in order of address.
 *
 * Entries that are otherwise are left out. What a copy says is true of the process only where the process confirms it (revert.c). */
#ifndef LOAD_LEFT_H
#define LOAD_LEFT_H

#include "wire/shared.h"

#include <stdbool.h>
#include <stddef.h>

/* Stacks of ours are not checked: what the head says of them is only used to read memory of the process. */
enum { LOAD_LEFT_REGIONS_MOST = 4096, LOAD_LEFT_SITES_MOST = 1 << 21, LOAD_LEFT_PCS_MOST = 12 << 20 };

struct load_left {
    struct wire_shared head; /* the counts are those of the tables here; offsets and rooms are not to be used */
    struct wire_region *region;
    struct wire_site *site;
    struct wire_pc *pc;
};

/* Copies `bytes` bytes at `offset` of the memory; false: they can not be read. */
typedef bool load_left_read_fn(void *context, uint64_t offset, void *to, size_t bytes);

/* STRANGE: another version's, or nobody's. BROKEN: it can not be read, or not be true. In these cases there is nothing to deinit. */
enum load_left_state { LOAD_LEFT_GOOD, LOAD_LEFT_STRANGE, LOAD_LEFT_BROKEN };
/* `bytes`: how much memory there is. */
enum load_left_state load_left_read(load_left_read_fn *read, void *context, uint64_t bytes, int width, struct load_left *out);
void load_left_deinit(struct load_left *left);
/* Leaves out the regions that `keep` says no to, and what lies in them or leads there. */
typedef bool load_left_keep_fn(const void *context, const struct wire_region *region);
void load_left_keep_regions(struct load_left *left, load_left_keep_fn *keep, const void *context);
/* Whether the address is in one of the regions. */
bool load_left_has(const struct load_left *left, uint64_t va);

#endif
