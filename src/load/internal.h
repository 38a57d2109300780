/* Shared by the files of load/ only. */
#ifndef LOAD_INTERNAL_H
#define LOAD_INTERNAL_H

#include "jit/jit.h"
#include "load/left.h"
#include "load/live.h"
#include "load/process.h"

/* A window that is in place. */
struct load_site {
    struct load_window window;
    struct load_module *module; /* valid as long as a function has the site */
    uint64_t trampoline_va;
    uint64_t far_island_va; /* 0: none */
    uint64_t island_va;     /* of either kind, 0: none */
    uint32_t trampoline_bytes;
    uint32_t journal, island_journal; /* slots; island_journal only of LOAD_ISLAND */
    uint32_t pc_first, pc_count;      /* slots */
    uint8_t original[WIRE_SITE_MAX], patch[WIRE_SITE_MAX], island_original[WIRE_SITE_MAX], island_patch[WIRE_SITE_MAX];
    bool dropped;      /* given up in the same change that made it */
    uint64_t after_va; /* where its trampoline falls through to in the process */
    bool is_occupied;  /* found by the change under way: a thread stays in its trampoline, or will return there */
    VEC(struct load_probe) probe;
};

/* A function with probes. */
struct load_function {
    uint64_t va, size;
    struct load_module *module;
    const struct load_flow *flow; /* the code's */
    enum insn_reason refusal;     /* of the whole function */
    bool changed;                 /* its probes changed in the change under way */
    VEC(struct load_probe) probe;
    VEC(struct load_site *) site;
};

struct load_region {
    uint64_t va, bytes, used;
};

/* The code of a clause, and how deep it is in the stack where. */
struct load_body {
    uint64_t va, bytes;
    struct jit_depth *depth;
    size_t depth_count;
};
typedef VEC(struct load_body) load_bodies;

struct load_chunk {
    uint64_t va;
    uint32_t bytes;
};

struct load_pc_block {
    uint32_t first, count;
};

/* An unwind table in the process, and where a file is or was mapped. */
struct load_table {
    const struct load_code *code;
    uint64_t va;
};
struct load_table_place {
    const struct load_code *code;
    uint64_t start_va, end_va, bias;
};

/* A trap that is in place. */
struct load_trap {
    uint64_t va, trampoline_va;
};

/* What addresses in our code stand for. */
struct load_pc_map {
    struct wire_pc *pc; /* sorted by va */
    size_t count;
};

/* A table that grows, in one of the memories that the process shares with us: as much of it as the process maps. */
enum load_extent_kind {
    LOAD_EXTENT_SITES,
    LOAD_EXTENT_PCS,
    LOAD_EXTENT_INDEX,
    LOAD_EXTENT_PLACE_PCS,
    LOAD_EXTENT_BIASES,
    LOAD_EXTENT_SPACES,
    LOAD_EXTENT_COUNTERS, /* from here on, of the live memory */
    LOAD_EXTENT_PLACES,
    LOAD_EXTENTS
};
struct load_extent {
    uint64_t offset;      /* in the memory */
    uint64_t va;          /* in the process */
    uint64_t bytes, most; /* that are mapped, and that there are in the memory: both whole pages */
};

struct load_process {
    struct target *target;
    VEC(struct target *) child; /* forked while traps are in place: they have the traps too */
    VEC(struct load_trap) trap; /* in order of address */
    struct load_cache *cache;
    struct wire_shared *shared; /* the journal's memory: the process can not write it */
    char memfd_name[32];        /* of that */
    uint64_t memfd_inode;
    uint64_t program_mark; /* target_program_mark() */
    struct load_live *live;
    struct load_live_places places; /* of the live memory in the process */
    uint32_t counter_room;
    struct load_extent extent[LOAD_EXTENTS];
    struct load_fire_context fire;
    VEC(struct load_module *) module;
    VEC(struct load_module *) ghost; /* that are not mapped as they were, but parts of whose patched code are still there */
    VEC(struct load_region) region;
    VEC(struct load_region) far_page;  /* mapped for far islands */
    size_t far_promised;               /* pages that the plan under way may need in a 32-bit process */
    VEC(uint64_t) far_island;          /* addresses in use */
    VEC(struct wire_region) go_on;     /* trampolines that call WIRE_AGENT_GO_ON */
    VEC(struct load_site *) limbo;     /* that are gone but for their trampolines, which threads have yet to leave */
    VEC(struct load_chunk) free_chunk; /* trampolines that may be used again */
    VEC(struct load_pc_block) free_pcs;
    VEC(uint32_t) free_sites;                      /* journal slots */
    uint64_t index_offset;                         /* in the journal's memory: the table of sites that is used */
    uint32_t index_cells, index_used;              /* of it; index_cells is a power of two */
    VEC(uint64_t) followed;                        /* handlers and restorers that were given a probe, or could not be */
    uint64_t agent_clause_va, agent_clause_end_va; /* code of the agent that clauses call */
    uint64_t agent_ring_end_va;                    /* its first part, up to here, writes records */
    uint64_t agent_wait_va;                        /* code of the agent that may wait for us, up to the next */
    uint64_t agent_show_va, agent_show_end_va;     /* code of the agent that must not find windows gone between two instructions */
    uint32_t next_counter;
    uint64_t pause_ns;
    uint64_t session_va, process_va;                /* struct wire_session (0 without a program) and struct wire_process in the process */
    uint64_t place_pcs_offset, place_biases_offset; /* in the journal's memory: uint64_t by place */
    const struct load_program *program;             /* NULL: none */
    load_bodies body;                               /* by clause; va 0: none */
    load_bodies own_body;                           /* ... for stacks of ours; empty until a file needs them */
    struct jit_stacks stacks;                       /* ... */
    struct load_pc_map stand;                       /* of stand.c */
    bool stand_is_old;                              /* the journal has changed since */
    uint32_t spaces_used;                           /* of WIRE_SPACES_BYTES */
    uint64_t spaces_offset;                         /* in the journal's memory: struct wire_spaces */
    VEC(struct load_table) table;                   /* of stacks.c, as the next */
    VEC(struct load_table_place) table_place;
    bool tid_known;
    bool was_held;                 /* it stood before its first instruction when it was prepared */
    bool follow;                   /* stay attached, to see what it and its children execute */
    int wake_fd;                   /* see load_process_follow() */
    VEC(struct target *) executed; /* that have executed another program, stopped */
    bool detached;
    struct err *shortage; /* see load_process_shortage() */
    load_wait_fn *wait;   /* see load_process_on_wait() */
    void *wait_context;
};

/* confirm.c: whether the process still has what a plan was made from. */
bool load_module_is_mapped(const struct load_module *module, const struct target_maps *maps);
/* Whether the page is still that part of the module's file. */
bool load_page_is_mapped(const struct load_module *module, uint64_t page_va, const struct target_maps *maps);
/* Whether the process has the patch of a site that is in place; and of one site at least, if the module has any. */
bool load_site_is_there(struct load_process *process, const struct load_site *site, const struct target_maps *maps);
bool load_module_is_patched(struct load_process *process, const struct load_module *module, const struct target_maps *maps);

/* shared.c */
struct err *load_shared_create(struct load_process *process, uint32_t counter_room);
struct wire_region *load_shared_regions(struct wire_shared *shared);
struct wire_site *load_shared_sites(struct wire_shared *shared);
struct wire_pc *load_shared_pcs(struct wire_shared *shared);
struct err *load_remote_mmap(struct target *target, uint64_t va, uint64_t bytes, int protection, int flags, int fd, uint64_t *out);
void load_remote_mmap_call(const struct target *target, uint64_t va, uint64_t bytes, int protection, int flags, int fd, uint64_t offset,
                           struct target_call *out);
struct err *load_remote_close(struct target *target, int fd);
struct err *load_remote_wipe_on_fork(struct target *target, uint64_t va, uint64_t bytes);
/* Gives the process the memory of a writable mapping now, where the kernel can. */
struct err *load_remote_touch(struct target *target, uint64_t va, uint64_t bytes);
struct err *load_remote_munmap(struct target *target, uint64_t va, uint64_t bytes);

/* region.c: memory for trampolines within reach of [start_va, end_va), in multiples of so many bytes. */
enum { LOAD_CHUNK_STEP = 16 };
struct err *load_region_alloc(struct load_process *process, uint64_t start_va, uint64_t end_va, size_t bytes, size_t more_to_come,
                              uint64_t *va);
/* Where the next piece will be, if it is no large one; 0: that can not be told. */
uint64_t load_region_next(const struct load_process *process, uint64_t start_va, uint64_t end_va);
/* Maps exactly there, with its journal entry. ERR_PLACE: something is there by now. */
enum { LOAD_MAP_ATTEMPTS = 20 };
struct err *load_region_map_at(struct load_process *process, uint64_t va, uint64_t bytes);
/* Maps all of them in one go, each exactly there. Those that could not be mapped leave the list. */
struct load_mappings {
    struct wire_region *at;
    size_t n, room;
};
struct err *load_region_map_all(struct load_process *process, struct load_mappings *list);
void load_region_free(struct load_process *process, uint64_t va, size_t bytes);

/* far.c: islands at addresses of which only a part can be chosen. */
bool load_far_is_possible(struct load_process *process, const struct target_maps *maps, uint64_t va, uint32_t span);
/* Maps the pages that islands will need, all in one go, as far as that can be told; load_far_alloc() finds them. */
struct load_far_wish {
    uint64_t va;
    uint32_t span;
};
struct err *load_far_prepare(struct load_process *process, const struct load_far_wish *wish, size_t count);
/* ERR_PLACE when there is no room after all. */
struct err *load_far_alloc(struct load_process *process, uint64_t va, uint32_t span, uint64_t *island_va);
void load_far_free(struct load_process *process, uint64_t island_va);

/* traps.c */
/* Makes the table from all sites, and those in `also` (which are about to go) as well. */
void load_traps_collect(struct load_process *process, struct load_site *const *also, size_t also_count);
/* Holds on to the process while there are traps, lets go of it at the next resume when there are none. */
struct err *load_traps_keep(struct load_process *process);
/* Takes over the children that the kernel attached us to. */
void load_traps_adopt(struct load_process *process);

/* calls.c: the system calls that the agent has to know of, in modules that were not looked at. */
struct err *load_calls_find(struct load_process *process, load_requests *out);

/* signals.c: the module that the address is in, or NULL. */
struct load_module *load_module_at(struct load_process *process, uint64_t va);
/* Forgets handlers in code that is no longer mapped. */
void load_signals_forget(struct load_process *process, uint64_t start_va, uint64_t end_va);
/* Restorers among the requests whose probes are about to be there, in the same stop as those of the handlers that return to them. */
void load_signals_activate(struct load_process *process, const struct load_request *request, size_t count);
/* The kernel's code in the process as a module, NULL when it has none. */
struct load_module *load_vdso(struct load_process *process);

/* process.c: of a counter or a place. */
struct err *load_process_new_number(struct load_process *process, uint32_t *number);

/* program.c: private memory for struct wire_process, whose first page a fork wipes. */
struct err *load_process_map_private(struct load_process *process);
/* ... the clause's body that the pc is in, or NULL. */
const struct load_body *load_process_body_at(const struct load_process *process, uint64_t pc);
void load_bodies_deinit(struct load_process *process);

/* extent.c: so many bytes of the table are mapped. ERR_PLACE: there is no room for them. */
struct err *load_extent_need(struct load_process *process, enum load_extent_kind kind, uint64_t bytes);
/* Maps as much of all tables as they have `bytes`, and the heads of both memories. */
struct err *load_extent_map_all(struct load_process *process, const int remote_fd[2]);

/* journal.c */
struct err *load_journal_add(struct load_process *process, struct load_site *site, uint64_t bias, const struct load_trampoline *trampoline);
/* Its bytes; what addresses in its trampoline stand for. */
void load_journal_remove_sites(struct load_process *process, struct load_site *site);
void load_journal_remove_pcs(struct load_process *process, struct load_site *site);

/* index.c: a journal slot's site becomes known to the agent by its address. */
struct err *load_index_add(struct load_process *process, uint32_t slot);
/* As struct wire_process has it. */
uint64_t load_index_word(const struct load_process *process);
uint32_t load_site_limit(const struct load_process *process);
void load_index_remove(struct load_process *process, uint32_t slot);

/* move.c: where a thread in our code stands in the program's. */
/* Whether `va` is exactly a boundary in the map. */
bool load_pc_map_has(const struct load_pc_map *map, uint64_t va);
void load_pc_map_sort(struct wire_pc *pc, size_t count);
enum load_moved { LOAD_MOVED_NOT, LOAD_MOVED, LOAD_MOVE_LATER };
/* Registers as far as moving needs them. */
struct load_move_regs {
    uint64_t pc;
    struct fire_regs fire;
    uint64_t bp, di; /* only read */
    bool must_stay;  /* set for a thread that can not be moved now */
    bool is_hidden;  /* set for a frame that shows another pc, with a record of this one: its handler may still run */
    /* Of a signal frame: what the handler returns to, if it has SA_SIGINFO and if it has not (32 bit only); 0: not known. */
    uint64_t restorer_va, old_restorer_va;
    bool shows_pc; /* set by a visitor that has changed the pc only: the frame goes on showing the one before, with a record of the new */
    bool is_over;  /* set by a visitor that has changed what a frame shows: a record in it holds no more */
    /* Set by load_move_out(): */
    const struct wire_pc *from; /* the entry that the thread was moved by */
    bool counted;               /* it was in firing code that had done its work */
};
/* If the pc is in the map, changes the registers to those of the program's own code. LOAD_MOVE_LATER: not at a place that can be left now.
 */
enum load_moved load_move_out(struct target *target, const struct load_pc_map *map, struct load_move_regs *regs);
/* The entry that the address belongs to, if it is in what the map is of; else any, or NULL. */
const struct wire_pc *load_pc_map_find(const struct load_pc_map *map, uint64_t va);
/* Whether it would not say LOAD_MOVE_LATER or LOAD_MOVED_NOT, as far as one can tell from the pc. */
bool load_move_is_possible(const struct load_pc_map *map, uint64_t pc);
/* `journal`: of the process; it says where stacks of ours are. `maps`: those of the stop; NULL: they are read. Calls `visit` with the
 * registers of every thread, and with those of every signal frame on its stacks whose pc `is_ours` says yes to. A visitor that changes the
 * registers returns true. Changed frames are written at once, changed threads with target_thread_write_regs(). */
typedef bool load_is_ours_fn(void *context, uint64_t pc);
typedef bool load_visit_fn(void *context, struct target_thread *thread, struct load_move_regs *regs);
struct err *load_visit_threads(struct target *target, const struct wire_shared *journal, const struct target_maps *maps,
                               load_is_ours_fn *is_ours, load_visit_fn *visit, void *context);
/* Where the stack of ours that the stack pointer is on has its owner; 0: it is on none that the journal knows. */
uint64_t load_own_stack_owner(const struct wire_shared *journal, uint64_t sp);

/* change.c */
void load_function_destroy(struct load_function *function);
/* Gives back the memory and the journal entries of a site that is no longer in the process. */
void load_site_release(struct load_process *process, struct load_site *site);
/* ... only its trampoline and what the pc map has of it. */
void load_trampoline_release(struct load_process *process, struct load_site *site);
void load_site_destroy(struct load_site *site);

/* limbo.c */
/* Whether the address is in the site's trampoline or its island. */
bool load_site_has(const struct load_site *site, uint64_t va);
bool load_limbo_has(const struct load_process *process, uint64_t va);
/* Takes over a site that is no longer in the process and whose trampoline is occupied. */
void load_limbo_enter(struct load_process *process, struct load_site *site);
/* Releases those that are not occupied, as a stop of the process has shown. */
void load_limbo_sweep(struct load_process *process);
void load_limbo_deinit(struct load_process *process);

/* quiesce.c: whether the thread is in a clause's body, or in code of the agent that bodies call. */
bool load_in_clause(const struct load_process *process, uint64_t pc);

/* stand.c: where in a trampoline the body that a thread is in returns to; 0: not known. */
uint64_t load_body_caller(struct load_process *process, uint64_t pc, uint64_t sp);

/* signals.c: where in the process that is, and in which file it maps. NULL: in none. */
struct load_module *load_module_said(struct load_process *process, struct load_said said, uint64_t *va);

/* revert.c: gives a process (of which it may be a child) back what our journal says was taken. */
struct err *load_revert(struct load_process *process, struct target *target);
/* Removes what controllers that are dead left in the process. ERR_REFUSED when one is alive. */
struct err *load_recover(struct target *target);

#endif
