/* Samples to nodes (rule 3). */
#include "tree/internal.h"

#include <stdlib.h>
#include <string.h>

/* Stacks and matching are bounded, whatever a trace says: the frames nearest to the sample are taken, and the outermost calls. */
enum { FRAMES_MAX = 1 << 14, MATCHED_MAX = 1 << 16, KNOWN_ROOM_MIN = 64 };

/* ---- samples that were seen before ---- */

static uint32_t find_known(const struct tree *tree, uint32_t stack, uint32_t node)
{
    uint64_t key = ((uint64_t)node << 32 | stack) * 0x9e3779b97f4a7c15u;
    uint32_t mask = tree->known_room - 1, at = (uint32_t)((key ^ key >> 29) >> 16) & mask;
    while (tree->known[at].stack != TRACE_NONE && (tree->known[at].stack != stack || tree->known[at].node != node))
        at = (at + 1) & mask;
    return at;
}

void tree_forget_samples(struct tree *tree)
{
    tree->known = tree_memory(tree, tree->known, tree->known_room * sizeof *tree->known, 0);
    tree->known_n = tree->known_room = 0;
    tree->passed = tree_memory(tree, tree->passed, tree->passed_room * sizeof *tree->passed, 0);
    tree->passed_n = tree->passed_room = 0;
}

/* A sixteenth of the memory, at most, is for being quick. */
static bool is_affordable(const struct tree *tree, size_t bytes)
{
    size_t limit = tree->set->options.memory_bytes;
    return !limit || (bytes <= limit / 16 && tree_fits(tree, bytes));
}

static void forget_known(struct tree *tree)
{
    if (tree->known_room)
        memset(tree->known, 0xff, tree->known_room * sizeof *tree->known);
    tree->known_n = tree->passed_n = 0;
}

/* Room for one more, by forgetting where nothing else helps. Does not fold: the caller holds node numbers. */
static bool make_room_for_known(struct tree *tree)
{
    if (2 * (tree->known_n + 1) <= tree->known_room)
        return true;
    struct known_sample *old = tree->known;
    uint32_t old_room = tree->known_room, room = old_room ? 2 * old_room : KNOWN_ROOM_MIN;
    size_t bytes = room * sizeof *old;
    if (!is_affordable(tree, bytes)) {
        forget_known(tree);
        return old_room;
    }
    tree->known = tree_memory(tree, NULL, 0, bytes);
    memset(tree->known, 0xff, bytes);
    tree->known_room = room;
    for (uint32_t i = 0; i < old_room; i++)
        if (old[i].stack != TRACE_NONE)
            tree->known[find_known(tree, old[i].stack, old[i].node)] = old[i];
    tree_memory(tree, old, old_room * sizeof *old, 0);
    return true;
}

/* Room for `count` more nodes in tree.passed, by forgetting where nothing else helps. Does not fold. */
static bool make_room_for_passed(struct tree *tree, size_t count)
{
    size_t room = tree->passed_room ? tree->passed_room : KNOWN_ROOM_MIN;
    while (room < tree->passed_n + count)
        room *= 2;
    if (room == tree->passed_room)
        return true;
    if (room > UINT32_MAX || !is_affordable(tree, room * sizeof *tree->passed)) {
        forget_known(tree);
        return count <= tree->passed_room;
    }
    tree->passed = tree_memory(tree, tree->passed, tree->passed_room * sizeof *tree->passed, room * sizeof *tree->passed);
    tree->passed_room = (uint32_t)room;
    return true;
}

/* tree.passed from `first` on is the sample's. */
static void remember(struct tree *tree, uint32_t stack, uint32_t node, uint32_t leaf, uint32_t first)
{
    uint32_t count = tree->passed_n - first;
    bool has_room = make_room_for_known(tree);
    /* Making room may have forgotten what was passed. */
    if (!has_room || tree->passed_n != first + count) {
        tree->passed_n = tree->passed_n < first ? tree->passed_n : first;
        return;
    }
    tree->known[find_known(tree, stack, node)] = (struct known_sample){stack, node, leaf, first, count};
    tree->known_n++;
}

/* ---- matching ---- */

/* The sample's frames, innermost first. False when there is no such stack. */
static bool collect_frames(struct tree_set *set, uint32_t stack)
{
    const struct tree_source *source = &set->source;
    set->frames.n = 0;
    while (set->frames.n < FRAMES_MAX) {
        const struct trace_stack *level = source->stack(source->context, stack);
        if (!level)
            break;
        uint32_t frame = level->frame, parent = level->parent;
        struct tree_ids ids = tree_frame_ids(set, frame);
        if (ids.ident != TRACE_NONE)
            VEC_PUSH(&set->frames, ids);
        if (parent >= stack)
            break;
        stack = parent;
    }
    return set->frames.n > 0;
}

/* Chains equal frames, from the outermost inwards. */
static void chain_frames(struct tree_set *set)
{
    while (set->places.n < set->routines.n)
        VEC_PUSH(&set->places, (struct frame_places){0, 0, 0});
    while (set->same.n < set->frames.n)
        VEC_PUSH(&set->same, 0);
    set->stamp++;
    for (size_t i = set->frames.n; i-- > 0;) {
        struct frame_places *place = &set->places.at[set->frames.at[i].ident];
        set->same.at[i] = TRACE_NONE;
        if (set->frames.at[i].is_inlined)
            continue;
        if (place->stamp == set->stamp)
            set->same.at[place->last] = (uint32_t)i;
        else
            place->first = (uint32_t)i;
        place->stamp = set->stamp;
        place->last = (uint32_t)i;
    }
}

/* The open calls that have a frame, and which: tree_set.matched, after the root, whose frame is outside of all. */
static void match_frames(struct tree *tree)
{
    struct tree_set *set = tree->set;
    chain_frames(set);
    uint32_t inside = (uint32_t)set->frames.n;
    set->matched.n = 0;
    VEC_PUSH(&set->matched, (struct matched_call){0, inside});
    for (uint32_t i = 1; i < tree->open_n && i < MATCHED_MAX && inside; i++) {
        if (tree->open[i].ident == TRACE_NONE)
            continue;
        struct frame_places *place = &set->places.at[tree->open[i].ident];
        if (place->stamp != set->stamp)
            continue;
        /* Frames that were passed stay passed. */
        while (place->first != TRACE_NONE && place->first >= inside)
            place->first = set->same.at[place->first];
        if (place->first == TRACE_NONE)
            continue;
        inside = place->first;
        VEC_PUSH(&set->matched, (struct matched_call){i, inside});
    }
}

/* ---- nodes ---- */

struct destination {
    uint32_t node;
    bool is_folded;
};

/* The sampled node of the frames `outermost` - 1 to `innermost` below an open call; it is tree.pin, too. */
static struct destination hang(struct tree *tree, uint32_t call, size_t outermost, size_t innermost)
{
    struct tree_set *set = tree->set;
    /* Frames inside might be calls that are too deep to be known: then it belongs somewhere below. */
    bool is_folded = tree->open[call].flags & CALL_FOLDED || (tree->too_deep && !innermost);
    tree->pin = tree->open[call].node;
    while (outermost-- > innermost && !is_folded) {
        uint32_t routine = set->frames.at[outermost].routine;
        if (set->options.by == TREE_BY_MODULE && tree->pin && tree->node[tree->pin].routine == routine)
            continue;
        uint32_t child = tree_add_child(tree, tree->pin, routine, true);
        if (child == TRACE_NONE)
            is_folded = true;
        else
            tree->pin = child;
    }
    return (struct destination){tree->pin, is_folded};
}

/* The frames between two matched calls hang below the outer one, beside the inner one, and have no part of the sample's value. Their
 * innermost nodes are appended to tree.passed where it `has_room`. False: they are not all there. */
static bool hang_passed(struct tree *tree, unsigned metric, bool has_room)
{
    const struct tree_set *set = tree->set;
    uint64_t folds = set->folds;
    bool is_whole = has_room;
    for (size_t i = 0; i + 1 < set->matched.n; i++) {
        size_t outermost = set->matched.at[i].frame, innermost = set->matched.at[i + 1].frame + 1;
        if (outermost == innermost)
            continue;
        struct destination end = hang(tree, set->matched.at[i].call, outermost, innermost);
        /* By module, what is between may be no more than the call itself. */
        if (!end.is_folded && !tree->node[end.node].is_sampled)
            continue;
        uint64_t *passed = tree_column(tree, metric, end.is_folded ? COLUMN_FOLDED_PASSED : COLUMN_PASSED);
        passed[tree->pin]++;
        /* Folding has forgotten what was passed. */
        is_whole &= !end.is_folded && set->folds == folds;
        if (is_whole)
            tree->passed[tree->passed_n++] = tree->pin;
    }
    tree->pin = TRACE_NONE;
    return is_whole;
}

/* Of a pc alone it is known what is the innermost call, not what leads from there to the pc. */
static struct destination find_pc(struct tree *tree, const struct trace_record *record)
{
    struct tree_set *set = tree->set;
    uint32_t top = tree->open_n - 1;
    if (!collect_frames(set, record->number)) {
        tree->oddities.ignored_records++;
        return (struct destination){tree->open[top].node, tree->open[top].flags & CALL_FOLDED};
    }
    size_t outermost = set->frames.n;
    const struct tree_ids *function = &set->frames.at[outermost - 1];
    outermost -= !function->is_inlined && function->ident == tree->open[top].ident;
    return hang(tree, top, outermost, 0);
}

static bool find_again(struct tree *tree, const struct trace_record *record, const struct open_call *top, struct destination *destination)
{
    if (!tree->known_room)
        return false;
    const struct known_sample *known = &tree->known[find_known(tree, record->number, top->node)];
    if (known->stack != record->number)
        return false;
    *destination = (struct destination){known->leaf & ~SAMPLE_UNMATCHED, false};
    tree->oddities.unmatched_samples += (known->leaf & SAMPLE_UNMATCHED) != 0;
    for (uint32_t i = known->first; i < known->first + known->count; i++)
        tree->metric[record->metric]->at[COLUMN_PASSED][tree->passed[i]]++;
    return true;
}

/* The column of the metric is there. */
static struct destination find_destination(struct tree *tree, const struct trace_record *record)
{
    struct tree_set *set = tree->set;
    const struct open_call *top = &tree->open[tree->open_n - 1];
    struct destination destination;
    /* A node stands for its whole path only where every open call has its own. */
    bool is_path = !(top->flags & CALL_FOLDED) && set->options.by != TREE_BY_MODULE;
    if (is_path && find_again(tree, record, top, &destination))
        return destination;
    if (!collect_frames(set, record->number)) {
        tree->oddities.ignored_records++;
        return (struct destination){top->node, top->flags & CALL_FOLDED};
    }
    match_frames(tree);
    const struct matched_call *last = &set->matched.at[set->matched.n - 1];
    bool is_unmatched = !last->call && tree->open_n > 1, has_room = set->matched.n == 1 || make_room_for_passed(tree, set->matched.n);
    tree->oddities.unmatched_samples += is_unmatched;
    uint64_t folds = set->folds;
    uint32_t first = tree->passed_n;
    bool is_whole = hang_passed(tree, record->metric, has_room);
    destination = hang(tree, last->call, last->frame, 0);
    if (folds != set->folds)
        return destination;
    if (is_path && is_whole && !destination.is_folded)
        remember(tree, record->number, tree->open[tree->open_n - 1].node, destination.node | (is_unmatched ? SAMPLE_UNMATCHED : 0), first);
    else
        tree->passed_n = first;
    return destination;
}

static void charge(struct tree *tree, const struct trace_record *record, struct destination destination)
{
    unsigned metric = record->metric;
    /* Making a column may fold. */
    tree->pin = destination.node;
    tree_column(tree, metric, COLUMN_SAMPLED_BASE);
    if (destination.is_folded) {
        tree_column(tree, metric, COLUMN_SAMPLED_FOLDED);
        tree->metric[metric]->at[COLUMN_SAMPLED_FOLDED][tree->pin] += record->value;
        tree->metric[metric]->at[COLUMN_FOLDED_SAMPLES][tree->pin]++;
    } else {
        tree->metric[metric]->at[COLUMN_SAMPLED_BASE][tree->pin] += record->value;
        tree->metric[metric]->at[COLUMN_SAMPLES][tree->pin]++;
        tree->node[tree->pin].samples++;
    }
    tree->pin = TRACE_NONE;
}

void tree_add_sample(struct tree *tree, const struct trace_record *record)
{
    unsigned metric = record->metric;
    if (metric >= TREE_METRICS_MAX) {
        tree->oddities.ignored_records++;
        return;
    }
    if (record->number != TRACE_NONE) {
        tree_column(tree, metric, COLUMN_SAMPLED_BASE);
        bool is_pc = record->minor == TRACE_PC || record->minor == TRACE_OFF_CPU_PC;
        charge(tree, record, is_pc ? find_pc(tree, record) : find_destination(tree, record));
        return;
    }
    if (record->minor == TRACE_PLACE && metric) {
        tree_column(tree, metric, COLUMN_BASE);
        const struct open_call *top = &tree->open[tree->open_n - 1];
        tree_column(tree, metric, top->flags & CALL_FOLDED ? COLUMN_FOLDED : COLUMN_BASE);
        tree->metric[metric]->at[top->flags & CALL_FOLDED ? COLUMN_FOLDED : COLUMN_BASE][top->node] += record->value;
        tree_count_use(tree->use, record);
        return;
    }
    const struct open_call *top = &tree->open[tree->open_n - 1];
    charge(tree, record, (struct destination){top->node, top->flags & CALL_FOLDED});
}
