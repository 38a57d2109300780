/* The code of live processes, and the stacks of their threads.
 *
 * In: processes (by pid; they need not be opened or stopped), news of their mappings, registers, copies of stacks. Out: frames.
 *
 * Tables (symbol/unwind.h) are built once for each file, and shared by all processes that map it.
 *
 * Rules
 *  1. A process's list of modules is what it was told last: by unwind_process_refresh(), unwind_process_map(), or a walk that came to a pc
 * that no module has, which looks at the mappings again, but not more than some times a second.
 *  2. It outlives the process: samples that are looked at later can still be walked, as far as their copy of the stack reaches.
 *  3. Every executable mapping is a module; those without a table (generated code) have table_va 0. */
#ifndef UNWIND_SPACE_H
#define UNWIND_SPACE_H

#include "base/err.h"
#include "target/target.h"
#include "unwind/walk.h"

struct unwind_tables;
struct unwind_tables *unwind_tables_create(void);
/* After its processes. Accepts NULL. */
void unwind_tables_destroy(struct unwind_tables *tables);

struct unwind_process;
/* ERR_NO_PROCESS: it has ended; ERR_PERMISSION. `width` 0: that of its program. */
struct err *unwind_process_open(struct unwind_tables *tables, pid_t pid, int width, struct unwind_process **out);
void unwind_process_close(struct unwind_process *process);

/* Reads its mappings again. Files that are still mapped are not opened again. */
struct err *unwind_process_refresh(struct unwind_process *process);
/* It has mapped something executable, which replaces what was there. */
void unwind_process_map(struct unwind_process *process, const struct target_map *map);

/* For unwind_walk(). Valid until the modules change. */
const struct unwind_space *unwind_process_space(const struct unwind_process *process);

/* What is mapped at an address. */
struct unwind_found {
    const char *path; /* "" for generated code; lives as long as the process object's modules */
    uint64_t start_va, end_va, file_offset;
    uint64_t bias;           /* has_table: to be taken from an address to get that in the file */
    const uint8_t *build_id; /* build_id_size bytes */
    size_t build_id_size;
    bool has_table;
};
bool unwind_process_find(const struct unwind_process *process, uint64_t va, struct unwind_found *out);

/* Words of a stack. */
enum { UNWIND_SEEN_MAX = 256 };
struct unwind_seen {
    uint32_t count;
    uint64_t va[UNWIND_SEEN_MAX], word[UNWIND_SEEN_MAX];
};

/* A copy of a part of the stack. */
struct unwind_stack {
    uint64_t va;
    const uint8_t *bytes;
    size_t size;
    bool copy_only;                   /* what lies outside is not read from the process, which may have moved on since */
    struct unwind_seen *now;          /* gets the return addresses. NULL: nobody wants them */
    const struct unwind_seen *before; /* what to compare with; NULL: nothing */
    uint64_t far_va;                  /* ... those from here on */
};
/* Walks a thread that is stopped (`stack` NULL), or a sample of one that is not. */
void unwind_process_walk(struct unwind_process *process, const struct unwind_regs *regs, const struct unwind_stack *stack, uint64_t *pcs,
                         uint32_t room, struct unwind_result *out);

/* Registers as ptrace gives them, of code of either width. */
void unwind_regs_from_user(const struct user_regs_struct *user, int width, struct unwind_regs *out);

#endif
