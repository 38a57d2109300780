/* A session and its processes, as the files of session.h share them: what is placed (place.c), who comes and goes (session.c). */
#ifndef LOAD_MEMBER_H
#define LOAD_MEMBER_H

#include "load/once.h"
#include "load/resolve.h"
#include "load/rows.h"
#include "load/session.h"

#include <pthread.h>

/* What a trace point is called, by numbers of the session. */
struct load_point_names {
    uint32_t row, function, probe;
    bool is_known;
};

/* What a specification means in a file, looked for once and good for all processes that map the file under this path. */
struct load_meaning {
    struct load_resolved resolved;
    VEC(struct load_point_names) names; /* by trace point */
};
struct load_meanings {
    const struct load_code *code;
    char *path;
    struct load_meaning **of; /* by specification; NULL: not looked for */
};

/* A row's counter in one process. */
struct load_row_counter {
    uint32_t row, counter;
};

/* A counter of the program's, and the mapping whose data it belongs to. */
struct load_semaphore {
    uint64_t va, start_va, inode, device;
};

struct load_member {
    struct load_session *session;
    VEC(struct load_semaphore) semaphore; /* that were raised */
    struct load_process *process;
    VEC(struct load_row_counter) counter;
    VEC(uint32_t) row_module;  /* by row: the module (its number in order of resolution, from 1) that last got a counter for it */
    VEC(uint32_t) row_counter; /* by row: its counter, once row_module says that there is one */
    uint32_t modules_resolved;
    struct load_once once;       /* of the module that is being resolved */
    uint32_t image, first_image; /* of stacks; 0: none are taken */
    pthread_t watcher;
    bool watched, stop_watching, is_command;
    bool is_told; /* the loader tells of what it loads, or can not */
    bool is_over; /* its process has become another member's */
    struct load_pending pending[LOAD_QUIETS];
    bool is_quiet[LOAD_QUIETS]; /* nothing is pending */
};

struct load_session {
    const struct spec *spec;
    size_t spec_count;
    const struct load_program *program; /* NULL: trace points are counted */
    struct names names;
    size_t *matches; /* by specification */
    load_progress_fn *progress;
    void *progress_context;
    load_joined_fn *joined; /* may be NULL */
    void *joined_context;
    load_wait_fn *wait; /* may be NULL */
    void *wait_context;
    struct load_cache *cache;
    struct load_rows row;
    struct load_mapped_list mapped;
    VEC(struct load_meanings) meaning;
    VEC(struct load_member *) member;
    int event_fd; /* written by watchers */
    int child_fd; /* readable when SIGCHLD is pending: a traced thread stopped */
    int poll_fd;  /* both of them */
    int status;
    pid_t command_pid;
    uint64_t pause_ns;
    bool follow, allows_traps, has_strangers;
    struct err *unreadable; /* the first file that a pattern may mean and that we may not read; NULL: none */
};

/* ---- place.c ---- */

/* Probes what is new in the process. With `first`, also hooks the loader. */
struct err *load_member_sync(struct load_session *session, struct load_member *member, bool first);
/* Frees what was known of files. */
void load_session_forget_meanings(struct load_session *session);
/* Lowers the semaphores that were raised. */
void load_member_lower(struct load_member *member);

#endif
