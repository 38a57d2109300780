/* A compiled script in the processes of a session: for each process the session's memory is mapped and every clause is compiled to a body,
 * which the firing code of its places calls. */
#ifndef LOAD_PROGRAM_H
#define LOAD_PROGRAM_H

#include "load/process.h"
#include "wire/session.h"

/* All of it stays the caller's. */
struct load_program {
    const struct wire_stream *stream; /* verified */
    const struct wire_session *memory;
    int memory_fd;
    const uint32_t *clause; /* by specification of the session: the clause that it fires */
    bool has_once;          /* a place that several specifications of clause `once` mean fires it once; of these, some may exclude */
    uint32_t once;          /* of these, returns and what a pattern means are not worth a trap */
    bool touches_rings;     /* the process has the memory of its rings from the start, so that no clause takes long for it */
};

/* Prepares a process for the program: once, before its first probe of it. */
struct err *load_process_prepare(struct load_process *process, const struct load_program *program);
/* The body of a clause for places in the file. 0 when the clause is not compiled for the process's model. */
struct err *load_process_body(struct load_process *process, uint32_t clause, const struct load_code *code, uint64_t *va);
/* A new place at the instruction at `pc_va` of the process, in a file that is loaded with `bias`. */
struct err *load_process_new_place(struct load_process *process, uint64_t pc_va, uint64_t bias, const struct wire_place *meaning,
                                   uint32_t *number);
/* What clauses know as the place's quota; the process may have it in hands at the same time. The second gives back what it was. */
int32_t load_process_quota(const struct load_process *process, uint32_t place);
int32_t load_process_set_quota(struct load_process *process, uint32_t place, int32_t quota);
/* Looks, if that is not known yet, where the C library keeps a thread's id, so that firing code need not ask the kernel. */
struct err *load_process_find_tid(struct load_process *process);

#endif
