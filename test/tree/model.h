/* A slow, direct model of what trees must say, from the rules of tree.h and from nothing else: it keeps every interval between two records
 * with the stack that was open then, every call and every sample with its whole path, and answers each question by looking at all of them.
 */
#ifndef TEST_TREE_MODEL_H
#define TEST_TREE_MODEL_H

#include "test/tree/source.h"

enum { PATH_MAX_LEVELS = 160, MODEL_METRICS = 3 };

struct path {
    uint32_t n;
    uint16_t function[PATH_MAX_LEVELS]; /* outermost first */
    bool is_sampled[PATH_MAX_LEVELS];
};

/* Something of a value that happened on a path. */
struct happening {
    struct path path;
    int64_t value, wall;
    unsigned metric;
};
typedef VEC(struct happening) happenings;

struct model {
    happenings times;   /* value: while running, wall: in any case */
    happenings calls;   /* entered */
    happenings counted; /* metrics of events but time */
    happenings samples;
    happenings passed; /* what samples saw between two calls: the value is 0 */
    happenings used;   /* metrics of events but time, by any thread of the process, while this was open */
    uint64_t returns_without_call, calls_without_return, unmatched_samples, lost_calls, lost_samples, lost_stacks, backward_times,
        open_at_end;
    /* State. */
    struct path open;
    uint64_t last;
    bool has_started, has_ended, is_running, is_unsure;
    struct model *others; /* of the same process, in a ring; NULL: none */
};

static inline void model_deinit(struct model *model)
{
    VEC_FREE(&model->times);
    VEC_FREE(&model->calls);
    VEC_FREE(&model->counted);
    VEC_FREE(&model->samples);
    VEC_FREE(&model->passed);
    VEC_FREE(&model->used);
}

static inline void model_time(struct model *model, uint64_t time)
{
    if (time < model->last) {
        model->backward_times++;
        return;
    }
    int64_t passed = (int64_t)(time - model->last);
    model->last = time;
    if (passed)
        VEC_PUSH(&model->times, (struct happening){model->open, model->is_running ? passed : 0, passed, 0});
}

static inline void model_enter(struct model *model, uint32_t function)
{
    model->open.function[model->open.n] = (uint16_t)function;
    model->open.is_sampled[model->open.n++] = false;
    VEC_PUSH(&model->calls, (struct happening){model->open, 1, 0, 0});
}

static inline void model_return(struct model *model, uint32_t function)
{
    uint32_t at = model->open.n;
    while (at > 0 && model->open.function[at - 1] != function)
        at--;
    if (!at) {
        model->returns_without_call++;
        return;
    }
    model->calls_without_return += model->open.n - at;
    model->open.n = at - 1;
}

/* Frames below the first `calls` of the open calls. */
static inline void model_hang(struct path *path, const struct path *open, uint32_t calls, const uint32_t *frame, uint32_t count)
{
    *path = *open;
    path->n = calls;
    for (uint32_t f = 0; f < count; f++) {
        path->function[path->n] = (uint16_t)frame[f];
        path->is_sampled[path->n++] = true;
    }
}

/* All that is open in the process sees it. */
static inline void model_use(struct model *model, const struct happening *happening)
{
    struct happening seen = *happening;
    for (struct model *each = model; each; each = each->others == model ? NULL : each->others)
        if (each->has_started && !each->has_ended) {
            seen.path = each->open;
            VEC_PUSH(&each->used, seen);
        }
}

static inline void model_sample(struct model *model, const struct test_source *source, const struct trace_record *record)
{
    struct happening happening = {model->open, (int64_t)record->value, 0, record->metric};
    if (record->number == TRACE_NONE) {
        if (record->minor == TRACE_PLACE && record->metric) {
            VEC_PUSH(&model->counted, happening);
            model_use(model, &happening);
        } else {
            VEC_PUSH(&model->samples, happening);
        }
        return;
    }
    uint32_t frame[PATH_MAX_LEVELS], count = 0, matched_frames = 0, matched_calls = 0;
    for (uint32_t stack = record->number; stack != TRACE_NONE; stack = source->stack.at[stack].parent)
        count++;
    uint32_t at = count;
    for (uint32_t stack = record->number; stack != TRACE_NONE; stack = source->stack.at[stack].parent)
        frame[--at] = source->frame.at[source->stack.at[stack].frame].function;
    bool is_pc = record->minor == TRACE_PC || record->minor == TRACE_OFF_CPU_PC;
    if (is_pc) {
        matched_calls = model->open.n;
        matched_frames = model->open.n && frame[0] == model->open.function[model->open.n - 1];
    }
    for (uint32_t call = 0; call < model->open.n && !is_pc; call++)
        for (uint32_t f = matched_frames; f < count; f++)
            if (frame[f] == model->open.function[call]) {
                struct happening between = {.metric = record->metric};
                model_hang(&between.path, &model->open, matched_calls, frame + matched_frames, f - matched_frames);
                if (f > matched_frames)
                    VEC_PUSH(&model->passed, between);
                matched_frames = f + 1;
                matched_calls = call + 1;
                break;
            }
    if (!matched_calls && model->open.n && !is_pc)
        model->unmatched_samples++;
    model_hang(&happening.path, &model->open, matched_calls, frame + matched_frames, count - matched_frames);
    VEC_PUSH(&model->samples, happening);
}

static inline void model_loss(struct model *model, const struct trace_record *record, bool has_switches)
{
    if (record->number == TRACE_LOSS_CALLS)
        model->lost_calls += record->value;
    if (record->number == TRACE_LOSS_STACKS)
        model->lost_stacks += record->value;
    if (record->number == TRACE_LOSS_SAMPLES) {
        model->lost_samples += record->value;
        model->is_unsure = has_switches;
    }
}

static inline void model_add(struct model *model, const struct test_source *source, const struct trace_record *record, bool has_switches)
{
    bool is_switch = record->major == TRACE_THREAD;
    if (!model->has_started) {
        model->has_started = true;
        model->last = record->time_ns;
        model->is_running = !has_switches || !is_switch || record->minor != TRACE_SWITCH_IN;
    }
    model_time(model, record->time_ns);
    if (model->is_unsure &&
        (record->major == TRACE_CALL || (record->major == TRACE_SAMPLE && (record->minor == TRACE_TIMER || record->minor == TRACE_PC)))) {
        model->is_unsure = false;
        model->is_running = true;
    }
    if (record->major == TRACE_CALL) {
        if (record->minor == TRACE_ENTER_TAIL && model->open.n)
            model->open.n--;
        if (record->minor == TRACE_RETURN)
            model_return(model, record->number);
        else
            model_enter(model, record->number);
    } else if (record->major == TRACE_SAMPLE) {
        model_sample(model, source, record);
    } else if (is_switch && has_switches) {
        model->is_running = record->minor == TRACE_SWITCH_IN;
        model->is_unsure = false;
    } else if (record->major == TRACE_LOSS) {
        model_loss(model, record, has_switches);
    }
}

static inline void model_end(struct model *model, uint64_t end)
{
    if (model->has_started && end > model->last)
        model_time(model, end);
    model->open_at_end = model->open.n;
    model->has_ended = true;
}

/* Adds what happened in `other`, as tree_merge() does. */
static inline void model_merge(struct model *model, const struct model *other)
{
    happenings *to[] = {&model->times, &model->calls, &model->counted, &model->samples, &model->passed, &model->used};
    const happenings *from[] = {&other->times, &other->calls, &other->counted, &other->samples, &other->passed, &other->used};
    for (int i = 0; i < 6; i++)
        for (size_t j = 0; j < from[i]->n; j++)
            VEC_PUSH(to[i], from[i]->at[j]);
}

/* ---- questions ---- */

static inline bool path_begins(const struct path *path, const struct path *with)
{
    return path->n >= with->n && !memcmp(path->function, with->function, with->n * sizeof *with->function) &&
           !memcmp(path->is_sampled, with->is_sampled, with->n * sizeof *with->is_sampled);
}

static inline uint32_t path_count(const struct path *path, uint32_t levels, uint32_t function)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < levels; i++)
        count += path->function[i] == function;
    return count;
}

/* Over happenings of a metric that are exactly on the path, or below it too. */
struct answer {
    uint64_t count, count_below;
    int64_t value, wall, value_below, wall_below;
};

static inline struct answer ask(const happenings *all, const struct path *path, unsigned metric)
{
    struct answer answer = {0};
    for (size_t i = 0; i < all->n; i++) {
        const struct happening *one = &all->at[i];
        if (one->metric != metric || !path_begins(&one->path, path))
            continue;
        answer.count_below++;
        answer.value_below += one->value;
        answer.wall_below += one->wall;
        if (one->path.n == path->n) {
            answer.count++;
            answer.value += one->value;
            answer.wall += one->wall;
        }
    }
    return answer;
}

#endif
