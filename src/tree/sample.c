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
}

/* Room for one more, by forgetting where nothing else helps. Does not fold: the caller holds node numbers. */
static bool make_room_for_known(struct tree *tree)
{
    if (2 * (tree->known_n + 1) <= tree->known_room)
        return true;
    struct known_sample *old = tree->known;
    uint32_t old_room = tree->known_room, room = old_room ? 2 * old_room : KNOWN_ROOM_MIN;
    size_t limit = tree->set->options.memory_bytes, bytes = room * sizeof *old;
    /* A sixteenth of the memory, at most, is for being quick. */
    if (limit && (bytes > limit / 16 || !tree_fits(tree, bytes))) {
        if (old_room)
            memset(old, 0xff, old_room * sizeof *old);
        tree->known_n = 0;
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

static void remember(struct tree *tree, uint32_t stack, uint32_t node, uint32_t leaf)
{
    if (!make_room_for_known(tree))
        return;
    tree->known[find_known(tree, stack, node)] = (struct known_sample){stack, node, leaf};
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

/* The innermost open call that has a frame; *inside is how many frames are inside of it. 0, the root, when there is none. */
static uint32_t match_frames(struct tree *tree, size_t *inside)
{
    struct tree_set *set = tree->set;
    chain_frames(set);
    uint32_t matched = 0;
    *inside = set->frames.n;
    for (uint32_t i = 1; i < tree->open_n && i < MATCHED_MAX && *inside; i++) {
        if (tree->open[i].ident == TRACE_NONE)
            continue;
        struct frame_places *place = &set->places.at[tree->open[i].ident];
        if (place->stamp != set->stamp)
            continue;
        /* Frames that were passed stay passed. */
        while (place->first != TRACE_NONE && place->first >= *inside)
            place->first = set->same.at[place->first];
        if (place->first == TRACE_NONE)
            continue;
        matched = i;
        *inside = place->first;
    }
    return matched;
}

/* ---- nodes ---- */

struct destination {
    uint32_t node;
    bool is_folded;
};

/* The sampled node of the innermost `inside` frames below an open call. */
static struct destination hang(struct tree *tree, uint32_t call, size_t inside)
{
    struct tree_set *set = tree->set;
    /* Frames inside might be calls that are too deep to be known: then it belongs somewhere below. */
    bool is_folded = tree->open[call].flags & CALL_FOLDED || tree->too_deep;
    tree->pin = tree->open[call].node;
    while (inside-- > 0 && !is_folded) {
        uint32_t routine = set->frames.at[inside].routine;
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

static struct destination find_destination(struct tree *tree, uint32_t stack)
{
    const struct open_call *top = &tree->open[tree->open_n - 1];
    /* A node stands for its whole path only where every open call has its own. */
    bool is_path = !(top->flags & CALL_FOLDED) && tree->set->options.by != TREE_BY_MODULE;
    if (is_path && tree->known_room) {
        const struct known_sample *known = &tree->known[find_known(tree, stack, top->node)];
        if (known->stack == stack) {
            tree->oddities.unmatched_samples += (known->leaf & SAMPLE_UNMATCHED) != 0;
            return (struct destination){known->leaf & ~SAMPLE_UNMATCHED, false};
        }
    }
    if (!collect_frames(tree->set, stack)) {
        tree->oddities.ignored_records++;
        return (struct destination){top->node, top->flags & CALL_FOLDED};
    }
    size_t inside;
    uint32_t matched = match_frames(tree, &inside);
    bool is_unmatched = !matched && tree->open_n > 1;
    tree->oddities.unmatched_samples += is_unmatched;
    struct destination destination = hang(tree, matched, inside);
    if (is_path && !destination.is_folded)
        remember(tree, stack, tree->open[tree->open_n - 1].node, destination.node | (is_unmatched ? SAMPLE_UNMATCHED : 0));
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
        charge(tree, record, find_destination(tree, record->number));
        return;
    }
    if (record->minor == TRACE_PLACE && metric) {
        tree_column(tree, metric, COLUMN_BASE);
        const struct open_call *top = &tree->open[tree->open_n - 1];
        tree_column(tree, metric, top->flags & CALL_FOLDED ? COLUMN_FOLDED : COLUMN_BASE);
        tree->metric[metric]->at[top->flags & CALL_FOLDED ? COLUMN_FOLDED : COLUMN_BASE][top->node] += record->value;
        return;
    }
    const struct open_call *top = &tree->open[tree->open_n - 1];
    charge(tree, record, (struct destination){top->node, top->flags & CALL_FOLDED});
}
