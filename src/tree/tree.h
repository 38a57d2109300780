/* Call-stack trees: who called whom, how often, at what cost (S4.2 to S4.5).
 *
 * In: the records of a thread, in order of time (trace/trace.h), and what names mean. Out: a tree for each thread, and sums over trees.
 *
 * A node is a routine on a particular stack. Events (enter, return) make event nodes; samples make sampled nodes, or add to event nodes as
 * samples; the two are counted apart and never mixed: the calling sequence of events is never broken up by what samples saw.
 *
 * Numbers of an event node, for each metric
 *   calls     how often it was entered
 *   base      spent in exactly this stack: time only while the thread runs, other metrics where they occurred
 *   cum       base + base of everything below
 *   elapsed   from entry to return, below included: time by the clock on the wall; of other metrics what all threads of the process used
 * A resource other than time may be given back: base, cum and elapsed are signed, and a subtree may have less than one below it.
 * Numbers of a sampled node: samples (how often it was the innermost), base and cum as the samples' values say, passed (rule 3).
 *
 * Rules
 *  1. A return closes the innermost open call of its function; calls above it that never returned (exceptions, longjmp) end with it. A
 *     return without a call is counted and ignored. At the end of the thread what is open is closed at its last record. A function that is
 *     entered by a jump (TRACE_ENTER_TAIL) is called by the caller of the innermost open call, which ends there.
 *  2. Recursion level: how often the routine is on the stack at this node, itself included, event nodes and sampled ones alike.
 *  3. A sample belongs to the calls that are open at its time: frames of it are matched with these from the outermost inwards, in order,
 *     and the frames inside of the last match hang below it as sampled nodes, the innermost of which has the sample and its value. Frames
 *     between two matches hang, as a chain of their own, below the outer one, beside the inner one; frames outside of all matches below the
 *     thread. These were passed: they have no part of the value, so that nothing is counted twice. An inlined function was not called, and
 *     is matched with no call. An open call that is not among the frames is passed over. Without any match all frames hang below the
 *     thread. A sample without a stack (TRACE_NONE) is one of the innermost open call, except that a TRACE_PLACE of another
 *     metric than time adds its value to that call's own base: it was counted there, not sampled. Of these elapsed is made, too: it is
 *     right as far as the records of all threads of a process come in order of time (tree_join). A sample of a pc alone is one of the
 *     innermost open call, or of a node below it when its function is another one.
 *  4. With a limit of memory, subtrees whose cum is the least share of their parent's are folded into their parent's "folded" account until
 *     there is room; the share is the greatest that the subtree has of any metric, where what is given back counts like what is taken: a
 *     subtree that does both is not nothing. Sums over the tree stay what they were: cum = base +
 *     folded + cum of the children. Calls that are open are never folded. What has no room even so (a stack that only grows) goes to the
 *     folded account of the innermost call that has.
 *  5. Time: before its first record a thread does not exist. Without switches it runs always; with them it runs from SWITCH_IN to
 *     SWITCH_OUT, and from its first record unless that is a SWITCH_IN. Where samples were lost, so may switches be: then the next call or
 *     timer sample says that it runs. What a TRACE_RAN says counts whatever switches say: what is missing then is the innermost open
 *     call's, what is too much is taken from the open calls, from what comes next, and at the end from all, in proportion.
 *  6. Where calls were lost the stack may be wrong until outer calls return: rule 1 closes what has to be closed, and what returns
 *     unseen is counted. */
#ifndef TREE_TREE_H
#define TREE_TREE_H

#include "base/err.h"
#include "base/memory.h"
#include "trace/trace.h"

#include <stdbool.h>
#include <stdint.h>

/* What a routine is. A function is its name and the path of its module: a function of calls and one of samples are one routine when these
 * are equal. By line: frames of samples are the lines they are at ("f (file.c:12)"), calls stay functions, and frames are matched with
 * calls by function. By module: neighbours of the same module are one node; its calls are those that came from another module. */
enum tree_by { TREE_BY_FUNCTION, TREE_BY_LINE, TREE_BY_MODULE };

enum { TREE_METRICS_MAX = 16 }; /* values of metrics from there on are counted as oddities */

/* Plain values, links by number: 0 is the root of the tree, TRACE_NONE is none. */
struct tree_node {
    uint32_t routine; /* number of its name: tree_routine() */
    uint32_t parent, first_child, next_sibling;
    uint32_t next_instance; /* next node of the same routine in this tree */
    uint32_t level;         /* of the root: 0 */
    uint32_t recursion;     /* recursion level; of the root: 1 */
    bool is_sampled;        /* only samples saw it */
    uint64_t calls;         /* of event nodes */
    uint64_t samples;       /* that had it innermost */
    uint64_t elapsed_ns;    /* of event nodes */
    uint64_t folded_calls;  /* nodes that were folded into this one: their calls ... */
    uint64_t folded_base;   /* ... and base of metric 0, which is part of cum here; other metrics: tree_folded() */
};

struct tree;

/* ---- building ---- */

struct tree_options {
    enum tree_by by;
    size_t memory_bytes; /* for the nodes, tables and open calls of all trees; 0: no limit. Names, snapshots and merged trees come on top */
};

/* A set of trees: one for each thread, names and routines shared. Numbers of functions, frames and stacks are those of one trace: `source`
 * tells what they mean and stays the caller's. A recorder that builds trees live is a source too. */
struct tree_source {
    void *context;
    /* NULL when there is no such number. What they return is valid until the next call. */
    const struct trace_function *(*function)(void *context, uint32_t number);
    const struct trace_frame *(*frame)(void *context, uint32_t number);
    const struct trace_stack *(*stack)(void *context, uint32_t number);
    const struct trace_module *(*module)(void *context, uint32_t number);
};

/* `trace` as a source. */
struct tree_source tree_source_of_trace(struct trace *trace);

struct tree_set;
struct tree_set *tree_set_create(const struct tree_source *source, const struct tree_options *options);
void tree_set_destroy(struct tree_set *set);
/* Of what options.memory_bytes limits: what is in use, and the most there ever was, also in the midst of growing. */
size_t tree_set_memory(const struct tree_set *set, size_t *peak_bytes);

/* The tree of a thread, made when it is first asked for; `name` is that of its root ("pid.tid"). */
struct tree *tree_of_thread(struct tree_set *set, uint32_t thread, const char *name);
/* The thread's next records, in order of time. `has_switches` as in struct trace_about: without it the thread counts as running. */
void tree_add(struct tree *tree, const struct trace_record *records, size_t count, bool has_switches);
/* Before the first record: the thread is of the process that the caller calls by this number. Threads of a process use together, what
 * elapsed of metrics other than time is about; those of which nothing is said are of one. */
void tree_join(struct tree *tree, uint32_t process);
/* Records of a thread that has no tree, but is of a process of which others have: what it used is part of their elapsed. */
void tree_use(struct tree_set *set, uint32_t process, const struct trace_record *records, size_t count);
/* No more records: open calls are closed at `end_ns` (0: at the thread's last record). Numbers below are right only then; for a look in
 * between see tree_snapshot(). */
void tree_end(struct tree *tree, uint64_t end_ns);
/* A copy in which open calls are closed at `now_ns`, as of now. It belongs to the caller; the set must outlive it. */
struct tree *tree_snapshot(const struct tree *tree, uint64_t now_ns);
void tree_destroy_snapshot(struct tree *tree);
/* The thread is gone and its tree was written: its memory is given back. A recorder that outlives many threads needs this, because the root
 * of a tree is never folded. */
void tree_forget(struct tree_set *set, struct tree *tree);

/* Numbers of stacks mean other stacks from now on. */
void tree_forget_stacks(struct tree_set *set);
/* A tree that gets no records, but what trees have that ended: one for many threads. It is one of the set's like others, with the number of
 * no thread, and tree_end() is for it, too. Adding may fold, so that there is always room. */
struct tree *tree_sum_begin(struct tree_set *set, uint32_t number, const char *name);
void tree_sum_add(struct tree *sum, const struct tree *ended);

/* All of a trace. `progress` may be NULL; it is called with the share that is done, 0 to 1. */
typedef void tree_progress_fn(void *context, double share);
struct err *tree_set_read(struct tree_set *set, struct trace *trace, tree_progress_fn *progress, void *context);

/* A tree as records (TRACE_TREE, TRACE_NODE), which tree_add() understands: `metric` is an item, `number` and `value` depend on it. A node
 * has the number of its place in the order of the nodes, the root is 0. Several trees may follow each other: the last whole one counts, or
 * what there is of the last when none is whole. A tree by module can not be read back by function. */
enum tree_item {
    TREE_ITEM_BEGIN,          /* number: how many nodes; value: 0 */
    TREE_ITEM_EVENT,          /* the next node: number: function; value: number of the parent, less than its own */
    TREE_ITEM_SAMPLED,        /* likewise, of samples only */
    TREE_ITEM_SAMPLED_FRAME,  /* likewise; number: frame (trees by line) */
    TREE_ITEM_CALLS,          /* of the newest node, as all below: value */
    TREE_ITEM_ELAPSED,        /* number: metric; value: elapsed, of metric 0 in ns */
    TREE_ITEM_FOLDED_CALLS,   /* value */
    TREE_ITEM_BASE,           /* number: metric; value: events' base */
    TREE_ITEM_SAMPLED_BASE,   /* number: metric; value: samples' base */
    TREE_ITEM_SAMPLES,        /* number: metric; value: how many */
    TREE_ITEM_FOLDED,         /* number: metric; value: events' folded base */
    TREE_ITEM_FOLDED_SAMPLED, /* number: metric; value: samples' folded base */
    TREE_ITEM_FOLDED_SAMPLES, /* number: metric; value: how many */
    TREE_ITEM_ODDITY,         /* number: which of struct tree_oddities, in its order; value */
    TREE_ITEM_DONE,           /* the tree is whole */
    TREE_ITEM_PASSED,         /* of the newest node: number: metric; value: how many samples passed it */
    TREE_ITEM_FOLDED_PASSED,  /* likewise, of what was folded */
    TREE_ITEMS
};
typedef void tree_emit_fn(void *context, const struct trace_record *record);
/* The tree has ended or is a snapshot. */
void tree_serialise(const struct tree *tree, tree_emit_fn *emit, void *context);
void tree_write(const struct tree *tree, struct trace_writer *writer, uint32_t thread);

/* ---- looking at a tree ---- */

size_t tree_count(const struct tree_set *set);
struct tree *tree_at(const struct tree_set *set, size_t index); /* in order of the threads' numbers */
uint32_t tree_thread(const struct tree *tree);
/* Nodes in the order in which they appeared, parents before children. Folded ones are gone, and the numbers of the others have closed up:
 * numbers are good for a tree that has ended, or a snapshot. With a limit of memory an ended tree is still folded when others grow. */
const struct tree_node *tree_nodes(const struct tree *tree, size_t *count);
/* For people, and whose module it is (NULL: none). Equal routines of all trees of a set have equal numbers. */
const char *tree_routine(const struct tree_set *set, uint32_t routine);
const char *tree_routine_module(const struct tree_set *set, uint32_t routine);
const char *tree_routine_file(const struct tree_set *set, uint32_t routine, uint32_t *line); /* NULL: not known */
size_t tree_routine_count(const struct tree_set *set);

/* Events and samples apart. */
enum tree_what { TREE_EVENTS, TREE_SAMPLES };
int64_t tree_base(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric);
int64_t tree_cum(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric);
/* Of event nodes; of metric 0 in ns. */
int64_t tree_elapsed(const struct tree *tree, uint32_t node, unsigned metric);
/* The part of cum that was folded into this node. */
int64_t tree_folded(const struct tree *tree, uint32_t node, enum tree_what what, unsigned metric);
/* Samples of one metric that had the node innermost; struct tree_node has those of all. */
uint64_t tree_samples(const struct tree *tree, uint32_t node, unsigned metric);
/* Samples of one metric that passed the node (rule 3): it was the innermost of their frames between two calls. */
uint64_t tree_passed(const struct tree *tree, uint32_t node, unsigned metric);
/* The same of what was folded into the node. */
uint64_t tree_passed_folded(const struct tree *tree, uint32_t node, unsigned metric);
/* Whether any record of the tree had such a number; time of events is always there. */
bool tree_has(const struct tree *tree, enum tree_what what, unsigned metric);

/* What went wrong in a thread's records. All uint64_t. */
struct tree_oddities {
    uint64_t returns_without_call;
    uint64_t calls_without_return; /* ended by the return of a call outside of them */
    uint64_t unmatched_samples;    /* calls were open, but none of them was among the sample's frames */
    uint64_t lost_calls, lost_samples;
    uint64_t backward_times;
    uint64_t folded_nodes;
    uint64_t lost_stacks;
    uint64_t open_at_end;     /* calls that the end of the thread or of the trace closed */
    uint64_t ignored_records; /* unknown codes, numbers without a definition, nodes that make no sense */
    uint64_t estimated_ns;    /* of the thread's time: when it was, and so in which calls, was estimated */
};
const struct tree_oddities *tree_oddities(const struct tree *tree);

/* ---- sums ---- */

/* All trees of a set as one, whose root is `name`; by routines from the roots down. It belongs to the set. */
struct tree *tree_merge(struct tree_set *set, const char *name);
/* The same of some trees: of a process, say. */
struct tree *tree_merge_some(struct tree_set *set, struct tree *const *trees, size_t count, const char *name);
/* Two trees side by side: nodes of both by path of names, events and samples apart; the numbers of each stay apart. Trees of two sets, or
 * of one. [0] is the roots, which are equal whatever their names. Among siblings of the same name those of the same module are paired
 * first. */
struct tree_difference {
    uint32_t parent, first_child, next_sibling;
    uint32_t level;
    const char *name;
    uint32_t node_a, node_b; /* TRACE_NONE: only in the other */
};
typedef VEC(struct tree_difference) tree_differences;
void tree_compare(const struct tree_set *set_a, const struct tree *a, const struct tree_set *set_b, const struct tree *b,
                  tree_differences *out);

/* A routine over all of a tree: Cum counts it once per stack (its outermost instance), Cum2 once per instance. */
struct tree_flat {
    uint32_t routine;
    bool is_root;      /* the whole tree; no routine */
    bool is_recursive; /* Cum2 differs in meaning: some instance is below another */
    uint64_t calls, samples;
    int64_t base, cum, cum2;
    int64_t elapsed; /* of the metric, once per stack */
    int64_t folded;  /* part of cum2 that was folded into the routine's instances */
};
typedef VEC(struct tree_flat) tree_flats;
/* The root, then routines in order of cum, then base, then name. Sum of base and folded over all rows = the root's cum. */
void tree_flatten(const struct tree_set *set, const struct tree *tree, enum tree_what what, unsigned metric, tree_flats *out);

/* ArcFlow: one stanza per row of tree_flatten(), in its order. The root's has no parents. Of all others, sums over rows: calls and base of
 * parents and rParents = self's; cum of parents = self's cum, of parents and rParents = cum2; cum of children and rChildren = cum2 - base -
 * folded. A child row is the parent row of that routine for this one. */
struct tree_arc {
    uint32_t routine;  /* the other one */
    bool is_recursive; /* rParent, rChild */
    uint64_t calls;    /* of TREE_SAMPLES: samples */
    int64_t base, cum;
};
struct tree_stanza {
    struct tree_flat self;
    VEC(struct tree_arc) parent, child; /* in the order of their first appearance, parents with rParents last for the same routine */
};
typedef VEC(struct tree_stanza) tree_stanzas;
void tree_arcflow(const struct tree_set *set, const struct tree *tree, enum tree_what what, unsigned metric, tree_stanzas *out);
void tree_stanzas_free(tree_stanzas *stanzas);

#endif
