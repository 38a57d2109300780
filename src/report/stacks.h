/* Stacks of samples as paths of names, outermost first: stacks that differ in what is not asked for (lines, say) are one path. */
#ifndef REPORT_STACKS_H
#define REPORT_STACKS_H

#include "base/names.h"
#include "report/profile.h"

struct stacks_path {
    uint32_t parent; /* path, or TRACE_NONE */
    uint32_t name;
};

struct stacks {
    struct names names;
    VEC(struct stacks_path) path;
    VEC(uint32_t) of_stack; /* path of each stack of the trace */
    VEC(uint32_t) bucket;   /* path number + 1, a power of two of them */
};

void stacks_init(struct stacks *stacks, const struct trace *trace, enum tree_by by);
void stacks_deinit(struct stacks *stacks);
/* "C;A;B". The caller frees it. */
char *stacks_text(const struct stacks *stacks, uint32_t path);

#endif
