/* What the files of tree/ share. tree.h has the contract; the lead comment of tree.c says how a tree is kept. */
#ifndef TREE_INTERNAL_H
#define TREE_INTERNAL_H

#include "base/names.h"
#include "tree/tree.h"

/* ---- routines (routine.c) ---- */

enum routine_kind { ROUTINE_ROOT, ROUTINE_FUNCTION, ROUTINE_LINE, ROUTINE_MODULE };

struct routine {
    enum routine_kind kind;
    uint32_t name, module; /* text numbers in tree_set.texts; module: TRACE_NONE: none */
    uint32_t file;         /* likewise */
    uint32_t line;         /* 0: not known */
    uint32_t number;       /* of a function that it is, of a line: of a frame; TRACE_NONE: the root */
};

/* What a function or a frame is in the set's trees. */
struct tree_ids {
    uint32_t ident;   /* the function, as calls and frames are matched; TRACE_NONE: not looked up yet */
    uint32_t routine; /* what its nodes are called */
    bool is_inlined;  /* no call of it was ever made: it is not matched with any */
};

/* ---- nodes (node.c) ---- */

/* Columns: numbers of nodes beside struct tree_node, for each metric. Those of a group come into being together. */
enum column {
    COLUMN_BASE,
    COLUMN_CUM,
    COLUMN_FOLDED,
    COLUMN_SAMPLED_BASE,
    COLUMN_SAMPLED_CUM,
    COLUMN_SAMPLES,
    COLUMN_PASSED,
    COLUMN_SAMPLED_FOLDED,
    COLUMN_FOLDED_SAMPLES,
    COLUMN_FOLDED_PASSED,
    COLUMN_ELAPSED,
    COLUMNS
};

/* Finds a node by (parent, routine, is_sampled). */
struct child_slot {
    uint32_t node; /* TRACE_NONE: free */
    uint32_t tag;  /* part of the hash, so that other nodes need not be looked at */
};

struct metric_columns {
    uint64_t *at[COLUMNS]; /* [room]; NULL: all 0 */
};

/* ---- calls that are open (add.c) ---- */

enum { CALL_FOLDED = 1, CALL_INNER = 2 };

struct open_call {
    uint32_t node;
    uint32_t ident;          /* TRACE_NONE: the root, and what stands for the calls that are too deep */
    uint32_t slot;           /* of `ident` in tree.names */
    uint32_t outer;          /* the next open call of the same function outside of this one, or TRACE_NONE */
    uint32_t recent_routine; /* of the child that was called last; TRACE_NONE: none yet */
    uint32_t recent_child;
    uint32_t flags; /* CALL_FOLDED: it has no node: `node` is the next one outside, whose folded account pays.
                       CALL_INNER: it shares the node of its caller (by module) */
    uint64_t base;  /* not yet added to the node's */
    uint64_t enter_ns;
};

struct open_name {
    uint32_t ident; /* TRACE_NONE: free */
    uint32_t top;   /* innermost open call, or TRACE_NONE */
};

/* A stack that was sampled before while the same call was innermost. */
struct known_sample {
    uint32_t stack;        /* TRACE_NONE: free */
    uint32_t node;         /* of the innermost open call */
    uint32_t leaf;         /* where it belongs; with SAMPLE_UNMATCHED */
    uint32_t first, count; /* of tree.passed: where its chains between calls end */
};
#define SAMPLE_UNMATCHED 0x80000000u

/* An open call that a sample has as a frame. */
struct matched_call {
    uint32_t call, frame;
};

/* Where a function is among the frames of a sample. */
struct frame_places {
    uint64_t stamp;       /* of which sample this is: tree_set.stamp */
    uint32_t first, last; /* the outermost that is not yet passed, or TRACE_NONE; the innermost */
};

/* What the threads of a process have used so far of each metric but time, which is on the wall; as sums of 64 bits go. */
struct process_use {
    uint32_t process; /* TRACE_NONE: of threads of which nothing was said */
    uint32_t trees;   /* that have it */
    unsigned used_n;  /* metrics from there on were never used; 0: none was */
    uint64_t used[TREE_METRICS_MAX];
};

struct tree {
    struct tree_set *set;
    uint32_t thread;
    struct process_use *use; /* the set's; NULL: of a tree that gets no calls */
    bool is_root_entered;    /* the root's elapsed of metrics has begun */
    bool is_on_top;          /* not part of the set's limit: snapshots, sums, trees being read */
    bool is_ended;           /* no more records */
    bool has_started;        /* there was a record */
    bool is_running;
    bool is_unsure;  /* switches may have been lost */
    bool has_loaded; /* a whole tree was read from records */
    uint64_t start_ns, last_ns;
    uint64_t ran_ns;  /* that it ran up to last_ns, and so the sum of the events' base but for ... */
    uint64_t owed_ns; /* ... this, which is in it and was not */

    struct tree_node *node;
    uint32_t *last_child; /* [room] */
    uint32_t n, room;
    struct child_slot *slot; /* [slots] */
    uint32_t slots;
    struct metric_columns *metric[TREE_METRICS_MAX];

    struct open_call *open; /* [0] is the root; the last one that fits is kept free for calls that are too deep */
    uint32_t open_n, open_room;
    uint64_t too_deep; /* calls that the last of `open` stands for */
    struct open_name *names;
    uint32_t names_n, names_room;

    struct known_sample *known;
    uint32_t known_n, known_room;
    uint32_t *passed; /* nodes, for `known` */
    uint32_t passed_n, passed_room;
    uint32_t pin; /* a node that folding must leave alone, kept up when numbers change; TRACE_NONE: none */

    struct tree *loading; /* the tree being read */
    VEC(uint32_t) loaded; /* of a tree that is being read: nodes by their number in the records, or TRACE_NONE */
    bool is_inner;        /* likewise: the newest node is the same as its parent */
    struct tree_oddities oddities;
};

struct tree_set {
    struct tree_source source;
    struct tree_options options;
    VEC(struct tree *) trees; /* by thread number */
    VEC(struct tree *) sums;  /* merged trees */
    size_t bytes, peak_bytes; /* what the limit is about */
    size_t open_room;         /* sum over the trees */
    uint64_t folds;           /* so far */
    uint64_t refusals;        /* still to come before folding is tried again */

    struct names texts;
    VEC(struct routine) routines;
    uint32_t *routine_slot; /* open addressing, number + 1 */
    size_t routine_slots;   /* a power of two */
    VEC(struct tree_ids) function_ids, frame_ids;

    /* For matching one sample (sample.c). */
    VEC(struct tree_ids) frames;      /* innermost first */
    VEC(uint32_t) same;               /* the next frame inside of it with the same ident, or TRACE_NONE */
    VEC(struct frame_places) places;  /* by ident */
    VEC(struct matched_call) matched; /* from the outermost inwards */
    uint64_t stamp;

    VEC(struct process_use *) uses; /* by process */
};

/* ---- routine.c ---- */

uint32_t tree_root_routine(struct tree_set *set, const char *name);
/* `ident` is TRACE_NONE when there is no such function or frame. */
struct tree_ids tree_resolve_function(struct tree_set *set, uint32_t number);
struct tree_ids tree_resolve_frame(struct tree_set *set, uint32_t number);
void tree_routines_deinit(struct tree_set *set);

static inline struct tree_ids tree_function_ids(struct tree_set *set, uint32_t number)
{
    if (number < set->function_ids.n && set->function_ids.at[number].ident != TRACE_NONE)
        return set->function_ids.at[number];
    return tree_resolve_function(set, number);
}

static inline struct tree_ids tree_frame_ids(struct tree_set *set, uint32_t number)
{
    if (number < set->frame_ids.n && set->frame_ids.at[number].ident != TRACE_NONE)
        return set->frame_ids.at[number];
    return tree_resolve_frame(set, number);
}

/* ---- node.c ---- */

/* With a root only. */
struct tree *tree_new(struct tree_set *set, uint32_t thread, uint32_t root_routine, bool is_on_top);
void tree_free(struct tree *tree);
/* Memory that counts; a size of 0 frees. */
void *tree_memory(struct tree *tree, void *old, size_t old_bytes, size_t bytes);
/* Whether `bytes` more may be taken as things are. */
bool tree_fits(const struct tree *tree, size_t bytes);
/* Whether `bytes` more may be taken, after folding where that helps. Folding changes the numbers of nodes. */
bool tree_make_room(struct tree *tree, size_t bytes);
/* Bytes that a node takes in all arrays. */
size_t tree_node_bytes(const struct tree *tree);
/* All arrays and the table for `room` nodes, at least as many as there are. */
void tree_resize(struct tree *tree, uint32_t room);
/* The child, made where it is missing; TRACE_NONE when there is no room. May fold: numbers of nodes change, except that `tree->pin` and
 * open calls are kept up; so the parent must be one of these. */
uint32_t tree_add_child(struct tree *tree, uint32_t parent, uint32_t routine, bool is_sampled);
/* The column, made where it is missing (with its group). May fold, as above. */
uint64_t *tree_column(struct tree *tree, unsigned metric, enum column column);

static inline uint64_t tree_hash(uint32_t parent, uint32_t routine, bool is_sampled)
{
    uint64_t key = ((uint64_t)parent << 32 | (routine << 1 | is_sampled)) * 0x9e3779b97f4a7c15u;
    return (key ^ key >> 32) * 0xd6e8feb86659fd93u;
}

/* The child's slot, or the free one where it belongs. */
static inline struct child_slot *tree_find_slot(const struct tree *tree, uint32_t parent, uint32_t routine, bool is_sampled)
{
    uint64_t hash = tree_hash(parent, routine, is_sampled);
    for (uint32_t at = (uint32_t)((hash >> 32) * tree->slots >> 32);; at = at + 1 == tree->slots ? 0 : at + 1) {
        struct child_slot *slot = &tree->slot[at];
        if (slot->node == TRACE_NONE)
            return slot;
        if (slot->tag != (uint32_t)hash)
            continue;
        const struct tree_node *node = &tree->node[slot->node];
        if (node->routine == routine && node->parent == parent && node->is_sampled == is_sampled)
            return slot;
    }
}

static inline uint64_t tree_value(const struct tree *tree, uint32_t node, unsigned metric, enum column column)
{
    if (metric >= TREE_METRICS_MAX || !tree->metric[metric] || !tree->metric[metric]->at[column])
        return 0;
    return tree->metric[metric]->at[column][node];
}

/* ---- add.c ---- */

/* Forgets every call but the root. */
void tree_reset_open(struct tree *tree);

/* ---- use.c ---- */

/* The tree is about to go. */
void tree_leave_use(struct tree *tree);
/* A value of a metric other than time that was counted. */
void tree_count_use(struct process_use *use, const struct trace_record *record);
/* An open call begins or ends: elapsed of metrics other than time. May fold. Nothing was used yet where use.used_n is 0. */
void tree_begin_elapsed(struct tree *tree, uint32_t index);
void tree_end_elapsed(struct tree *tree, uint32_t index);

/* ---- sample.c ---- */

void tree_add_sample(struct tree *tree, const struct trace_record *record);
void tree_forget_samples(struct tree *tree);

/* ---- fold.c ---- */

void tree_fold_set(struct tree_set *set);
/* A node's numbers go to the folded account of node `to`; there is a limit of memory. */
void tree_give(struct tree *tree, uint32_t to, const struct tree *from_tree, uint32_t from);
/* Base of open calls is brought to their nodes. */
void tree_settle(struct tree *tree);

/* ---- end.c ---- */

void tree_compute_cum(struct tree *tree);
/* In place of cum: how much was taken and given back. */
void tree_compute_turnover(struct tree *tree);
/* Everything that follows from the rest: cum, recursion, instances, folded_base. */
void tree_derive(struct tree *tree);

/* ---- item.c ---- */

void tree_load_item(struct tree *tree, const struct trace_record *record);
/* No more items: what there is counts, unless a whole tree was read before. */
void tree_load_end(struct tree *tree);

#endif
