/* A change of what is probed, from its plan (change.c) to the stop in which it is made (apply.c). */
#ifndef LOAD_CHANGE_H
#define LOAD_CHANGE_H

#include "load/internal.h"

/* New contents of a part of one page. */
struct patch_page {
    uint64_t va;        /* page address */
    uint32_t low, high; /* the part that changes */
    uint8_t *bytes;     /* the whole page, and behind it the page as it was found */
    struct load_module *module;
};

/* A piece of the process's code as it was found, so that functions that lie together are read at once. */
struct change_text {
    uint64_t va;
    size_t bytes; /* that could be read */
    uint8_t *at;
};

/* Trampolines that touch each other, to be written at once. */
struct change_code {
    uint64_t va;
    VEC(uint8_t) bytes;
};

struct change {
    struct load_process *process;
    size_t requests; /* how many there are */
    struct change_text text;
    struct change_code code;
    VEC(struct load_function *) function;
    VEC(struct load_site *) added; /* in order of address once sorted */
    VEC(struct load_site *) removed;
    VEC(struct patch_page) page;
    struct load_trampoline trampoline;
    enum { CHANGE_LOOK, CHANGE_INTO_COPIES, CHANGE_OUT_OF_COPIES } phase;
    size_t affected, not_now; /* threads and frames that must move, and that can not yet */
    bool stays_in_hurry;      /* see load_process_change_in_hurry() */
};

/* apply.c: puts it in place in one stop of the process. */
struct err *load_change_apply(struct change *change);

#endif
