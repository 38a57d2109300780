/* What processes had mapped, kept when they end: addresses → functions.
 *
 * An image is a process with what it has mapped, a number that is new whenever something else comes to lie where another file was, so that
 * an address means one thing in an image (struct wire_space). */
#ifndef LOAD_MAPPED_H
#define LOAD_MAPPED_H

#include "load/process.h"

struct load_mapped {
    pid_t pid;
    uint32_t first_image, image; /* of the process; and the first that has this. 0: images are not told apart */
    uint64_t start_va, end_va, bias;
    char *path;
    struct load_code *code; /* the cache's, NULL when it was never read */
};

struct load_mapped_list {
    VEC(struct load_mapped) mapped;
    VEC(uint32_t) first_image; /* by image - 1: the first of the same process */
};

void load_mapped_deinit(struct load_mapped_list *list);
/* A new image of the process whose first one that is, 0: this is its first. From 1 on. */
uint32_t load_mapped_new_image(struct load_mapped_list *list, uint32_t first_image);
void load_mapped_add(struct load_mapped_list *list, pid_t pid, uint32_t image, const struct load_module *module);

/* The newest first: a library may have come where another was. A child that was forked is not known by its own pid, but what it maps is
 * what its parent mapped. */
const struct load_mapped *load_mapped_find(const struct load_mapped_list *list, pid_t pid, uint64_t va);
/* In an image: WIRE_STACK_ROOT(). */
const struct load_mapped *load_mapped_find_in(const struct load_mapped_list *list, uint64_t root, uint64_t va);

/* An address of a stack. */
struct load_frame {
    const char *function;   /* readable; NULL: none is known there */
    const char *path;       /* of the file */
    struct load_code *code; /* NULL: the file could not be read */
    uint64_t file_va;       /* what was looked up */
    uint64_t offset;        /* of the address, from the function's start, or without one from that of the file */
    bool is_signal;         /* the code that a signal handler returns to: the address of the frame behind is no return address */
};
/* `is_return`: a return address, which belongs to the call before it. */
void load_mapped_frame(const struct load_mapped *mapped, uint64_t va, bool is_return, struct load_frame *out);

#endif
