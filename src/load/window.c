#include "load/window.h"

#include <stdlib.h>
#include <string.h>

enum { JMP_BYTES = 5, SHORT_JMP_BYTES = 2, TRAP_BYTES = 1, WINDOW_MAX_INSNS = 16 }; /* so that its extent fits 8 bits */
enum { PAGE = 4096 };

const char *load_kind_name(enum load_kind kind)
{
    static const char *const name[] = {"jmp", "padding", "island", "trap", "refused"};
    return name[kind];
}

/* ---- claims ---- */

void load_claims_init(struct load_claims *claims, const struct load_code *code)
{
    claims->count = code->segment_count;
    claims->bits = memory_zero(claims->count, sizeof *claims->bits);
    for (size_t i = 0; i < claims->count; i++)
        claims->bits[i] = memory_zero(code->segment[i].size / 8 + 1, 1);
}

void load_claims_deinit(struct load_claims *claims)
{
    for (size_t i = 0; i < claims->count; i++)
        free(claims->bits[i]);
    free(claims->bits);
    memset(claims, 0, sizeof *claims);
}

static uint8_t *claim_byte(const struct load_claims *claims, const struct load_code *code, uint64_t va, uint8_t *mask)
{
    for (size_t i = 0; i < claims->count; i++) {
        uint64_t offset = va - code->segment[i].va;
        if (offset >= code->segment[i].size)
            continue;
        *mask = (uint8_t)(1u << offset % 8);
        return &claims->bits[i][offset / 8];
    }
    return NULL;
}

void load_claims_set(struct load_claims *claims, const struct load_code *code, uint64_t va, size_t size, bool on)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t mask, *byte = claim_byte(claims, code, va + i, &mask);
        if (byte)
            *byte = on ? *byte | mask : *byte & (uint8_t)~mask;
    }
}

static bool is_claimed(const struct load_claims *claims, const struct load_code *code, uint64_t va, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        uint8_t mask, *byte = claim_byte(claims, code, va + i, &mask);
        if (!byte || *byte & mask)
            return true;
    }
    return false;
}

/* ---- which runs of instructions can be displaced together ---- */

struct planner {
    const struct load_code *code;
    const struct load_flow *flow;
    struct load_claims *claims;
    load_windows *out;
};

static uint64_t end_of(const struct load_flow *flow, size_t index)
{
    return flow->insn[index].va + flow->insn[index].length;
}

static bool is_in_one_page(uint64_t va, uint64_t end_va)
{
    return va / PAGE == (end_va - 1) / PAGE;
}

static bool is_padding(const struct planner *plan, size_t index)
{
    return plan->flow->mark[index] & LOAD_MARK_PADDING;
}

/* Whether instruction `index` may stand behind `index` - 1 in a window. */
static bool may_follow(const struct planner *plan, size_t index)
{
    const struct load_flow *flow = plan->flow;
    const struct insn *insn = &flow->insn[index], *before = &flow->insn[index - 1];
    if (end_of(flow, index - 1) != insn->va || flow->mark[index] & (LOAD_MARK_TARGET | LOAD_MARK_INSIDE))
        return false;
    if (is_padding(plan, index))
        return !is_claimed(plan->claims, plan->code, insn->va, insn->length);
    /* What follows a jump, a return or padding and is no padding can only be reached by a jump that is not known. */
    bool stops = is_padding(plan, index - 1) || before->kind == INSN_JMP || before->kind == INSN_JMP_INDIRECT || before->kind == INSN_RET ||
                 before->kind == INSN_STOP;
    return !stops && insn->refusal == INSN_OK;
}

static bool may_start(const struct planner *plan, size_t index, unsigned bytes)
{
    const struct load_flow *flow = plan->flow;
    return flow->insn[index].refusal == INSN_OK && !is_padding(plan, index) && (bytes == 1 || !(flow->mark[index] & LOAD_MARK_INSIDE));
}

/* Extends [first .. at least] until `bytes` are covered. False when that can not be. */
static bool extend(const struct planner *plan, size_t first, size_t least, unsigned bytes, size_t *last)
{
    const struct load_flow *flow = plan->flow;
    if (!may_start(plan, first, bytes) || !is_in_one_page(flow->insn[first].va, flow->insn[first].va + bytes))
        return false;
    for (size_t i = first;; i++) {
        if (i > first && !may_follow(plan, i))
            return false;
        if (i >= least && end_of(flow, i) - flow->insn[first].va >= bytes) {
            *last = i;
            return i - first < WINDOW_MAX_INSNS;
        }
        if (i + 1 >= flow->count)
            return false;
    }
}

/* The window that was made last: wishes come in order of address, so only this one can be in the way. */
static struct load_window *previous(const struct planner *plan)
{
    return plan->out->n ? &plan->out->at[plan->out->n - 1] : NULL;
}

static bool find_run(const struct planner *plan, size_t point, size_t *first, size_t *last)
{
    const struct load_flow *flow = plan->flow;
    const struct load_window *before = previous(plan);
    for (size_t start = point;; start--) {
        if (before && flow->insn[start].va < before->end_va) {
            /* Into the window before: only both together, and only where its bytes are a plain jmp's. */
            *first = before->first;
            return before->kind == LOAD_JMP && extend(plan, before->first, point, JMP_BYTES, last);
        }
        *first = start;
        if (extend(plan, start, point, JMP_BYTES, last))
            return true;
        if (start == 0 || flow->mark[start] & LOAD_MARK_TARGET || point - start >= WINDOW_MAX_INSNS)
            return false;
    }
}

static struct load_window make_window(const struct planner *plan, size_t first, size_t last, enum load_kind kind, unsigned length)
{
    const struct load_flow *flow = plan->flow;
    size_t count = last - first + 1;
    while (count > 1 && is_padding(plan, first + count - 1)) {
        kind = kind == LOAD_JMP ? LOAD_PADDING : kind;
        count--;
    }
    struct load_window window = {.va = flow->insn[first].va,
                                 .end_va = end_of(flow, first + count - 1),
                                 .first = (uint32_t)first,
                                 .count = (uint32_t)count,
                                 .kind = (uint8_t)kind,
                                 .length = (uint8_t)length};
    if (window.va + length > window.end_va)
        load_claims_set(plan->claims, plan->code, window.end_va, window.va + length - window.end_va, true);
    return window;
}

static void add_window(struct planner *plan, struct load_window window)
{
    struct load_window *before = previous(plan);
    if (before && before->va >= window.va)
        *before = window; /* grew out of it */
    else
        VEC_PUSH(plan->out, window);
}

/* ---- islands ---- */

/* Five bytes of unclaimed padding behind a function, in the same page, that a short jump at `va` reaches, 0 when there are none. The
 * padding of this function and of its neighbours is looked at. */
static uint64_t find_island(const struct planner *plan, uint64_t va)
{
    const struct load_code *code = plan->code;
    const struct load_flow *flow = plan->flow;
    uint64_t low = va + SHORT_JMP_BYTES - 128, high = va + SHORT_JMP_BYTES + 127, page_va = va / PAGE * PAGE;
    low = low < page_va ? page_va : low;
    high = high > page_va + PAGE - JMP_BYTES ? page_va + PAGE - JMP_BYTES : high;
    for (size_t i = 0; i < flow->count; i++) {
        if (!is_padding(plan, i) || (i && is_padding(plan, i - 1)))
            continue;
        size_t last = i;
        while (last + 1 < flow->count && is_padding(plan, last + 1) && flow->insn[last + 1].va == end_of(flow, last))
            last++;
        for (uint64_t at = end_of(flow, last) - JMP_BYTES; at >= flow->insn[i].va && at + JMP_BYTES <= end_of(flow, last); at--)
            if (at >= low && at <= high && !is_claimed(plan->claims, code, at, JMP_BYTES))
                return at;
    }
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(code->file, &count);
    size_t lower = 0;
    for (size_t upper = count; lower < upper;) {
        size_t middle = (lower + upper) / 2;
        if (func[middle].va + func[middle].size < low)
            lower = middle + 1;
        else
            upper = middle;
    }
    for (size_t i = lower; i < count && func[i].va <= high; i++) {
        uint64_t end_va = func[i].va + func[i].size;
        if (func[i].va == flow->va)
            continue;
        struct insn insn;
        size_t available;
        uint64_t padding_end = load_code_padding_end(code, end_va);
        if (padding_end < end_va + JMP_BYTES)
            continue;
        /* Control must not run into the padding: the function's last instruction is known to end it only when the byte before is a ret. */
        const uint8_t *bytes = symbol_file_text(code->file, end_va - 1, &available);
        if (!bytes || insn_decode(code->mode, bytes, 1, end_va - 1, &insn) != INSN_OK || insn.kind != INSN_RET)
            continue;
        for (uint64_t at = padding_end - JMP_BYTES; at >= end_va; at--)
            if (at >= low && at <= high && !is_claimed(plan->claims, code, at, JMP_BYTES))
                return at;
    }
    return 0;
}

/* ---- planning ---- */

static void refuse(struct load_wish *wish, enum insn_reason reason)
{
    wish->kind = LOAD_REFUSED;
    wish->reason = (uint8_t)reason;
}

static bool is_covered(const struct planner *plan, uint64_t va)
{
    const struct load_window *before = previous(plan);
    return before && va >= before->va && va < before->end_va;
}

static void plan_one(struct planner *plan, struct load_wish *wish)
{
    const struct load_flow *flow = plan->flow;
    long point = load_flow_find(flow, wish->va);
    if (point < 0) {
        refuse(wish, flow->has_gaps ? INSN_DATA_IN_CODE : INSN_NOT_A_BOUNDARY);
        return;
    }
    enum insn_reason refusal = flow->insn[point].refusal;
    if (refusal != INSN_OK || is_padding(plan, (size_t)point)) {
        refuse(wish, refusal != INSN_OK ? refusal : INSN_NOT_A_BOUNDARY);
        return;
    }
    size_t first, last;
    if (is_covered(plan, wish->va))
        ;
    else if (find_run(plan, (size_t)point, &first, &last))
        add_window(plan, make_window(plan, first, last, LOAD_JMP, JMP_BYTES));
    else
        add_window(plan, make_window(plan, (size_t)point, (size_t)point, LOAD_TRAP, TRAP_BYTES));
    wish->kind = LOAD_JMP;
    wish->reason = INSN_OK;
}

/* Tells each wish its window and kind. */
static void assign(struct load_wish *wish, size_t wish_count, const load_windows *windows)
{
    size_t window = 0;
    for (size_t i = 0; i < wish_count; i++) {
        if (wish[i].kind == LOAD_REFUSED)
            continue;
        while (wish[i].va >= windows->at[window].end_va)
            window++;
        wish[i].window = (uint32_t)window;
        wish[i].kind = windows->at[window].kind;
    }
}

void load_windows_plan(const struct load_code *code, const struct load_flow *flow, struct load_claims *claims, struct load_wish *wish,
                       size_t wish_count, load_windows *out)
{
    struct planner plan = {code, flow, claims, out};
    out->n = 0;
    for (size_t i = 0; i < wish_count; i++)
        plan_one(&plan, &wish[i]);
    assign(wish, wish_count, out);
}

/* Puts one window in the place of those from `from` to `to`. */
static void replace_windows(load_windows *windows, size_t from, size_t to, struct load_window window)
{
    windows->at[from] = window;
    memmove(&windows->at[from + 1], &windows->at[to + 1], (windows->n - to - 1) * sizeof window);
    windows->n -= to - from;
}

/* The traps from `from` to `to`, which touch each other, as one jump to an island in padding. */
static bool make_near_island(struct planner *plan, size_t from, size_t to)
{
    const struct load_flow *flow = plan->flow;
    load_windows *windows = plan->out;
    uint64_t low = from ? windows->at[from - 1].end_va : 0, high = to + 1 < windows->n ? windows->at[to + 1].va : UINT64_MAX;
    size_t first = windows->at[from].first, least = windows->at[to].first + windows->at[to].count - 1, last;
    for (; flow->insn[first].va >= low; first--) {
        uint64_t island_va;
        if (extend(plan, first, least, SHORT_JMP_BYTES, &last) && end_of(flow, last) <= high &&
            (island_va = find_island(plan, flow->insn[first].va))) {
            load_claims_set(plan->claims, plan->code, island_va, JMP_BYTES, true);
            struct load_window window = make_window(plan, first, last, LOAD_ISLAND, SHORT_JMP_BYTES);
            window.island_va = island_va;
            replace_windows(windows, from, to, window);
            return true;
        }
        if (first == 0 || flow->mark[first] & LOAD_MARK_TARGET)
            break;
    }
    return false;
}

/* ---- far islands ---- */

/* What the byte at `va`, which is not the window's own, will be: the file's, or the first byte of the window there. False when it can not
 * be told or may change behind our back. */
static bool final_byte(const struct planner *plan, size_t window_index, uint64_t va, uint8_t *byte)
{
    size_t available;
    const uint8_t *text = symbol_file_text(plan->code->file, va, &available);
    if (!text || va >= plan->flow->end_va || is_claimed(plan->claims, plan->code, va, 1))
        return false;
    *byte = text[0];
    for (size_t i = window_index + 1; i < plan->out->n && plan->out->at[i].va <= va; i++) {
        const struct load_window *other = &plan->out->at[i];
        if (va >= other->va + other->length)
            continue;
        if (va != other->va)
            return false;
        *byte = other->kind == LOAD_TRAP ? 0xcc : other->island_va ? 0xeb : 0xe9;
    }
    return true;
}

/* The same as one jump whose last bytes are those of what follows. The displaced instructions begin with `first`. */
static bool make_far_island(struct planner *plan, size_t from, size_t to, size_t first, load_far_fn *far, void *context)
{
    const struct load_flow *flow = plan->flow;
    uint64_t high = to + 1 < plan->out->n ? plan->out->at[to + 1].va : UINT64_MAX;
    size_t last = plan->out->at[to].first + plan->out->at[to].count - 1;
    while (last + 1 < flow->count && end_of(flow, last + 1) <= high && end_of(flow, last + 1) - flow->insn[first].va < JMP_BYTES &&
           !is_padding(plan, last + 1) && may_follow(plan, last + 1))
        last++;
    for (size_t i = first; i <= last; i++)
        if (i == first ? !may_start(plan, i, 2) : !may_follow(plan, i))
            return false;
    uint64_t va = flow->insn[first].va;
    size_t own = end_of(flow, last) - va;
    if (own >= JMP_BYTES || !is_in_one_page(va, va + JMP_BYTES))
        return false;
    uint32_t displacement = 0;
    for (size_t i = own; i < JMP_BYTES; i++) {
        uint8_t byte;
        if (!final_byte(plan, to, va + i, &byte))
            return false;
        displacement |= (uint32_t)byte << 8 * (i - 1);
    }
    uint64_t far_va = va + JMP_BYTES + (uint64_t)(int64_t)(int32_t)displacement;
    uint32_t span = 1u << 8 * (own - 1);
    if (!far(context, far_va, span))
        return false;
    struct load_window window = make_window(plan, first, last, LOAD_ISLAND, (unsigned)own);
    window.far_va = far_va;
    window.far_span = span;
    replace_windows(plan->out, from, to, window);
    return true;
}

static bool try_far_islands(struct planner *plan, size_t from, size_t to, load_far_fn *far, void *context)
{
    const struct load_flow *flow = plan->flow;
    uint64_t low = from ? plan->out->at[from - 1].end_va : 0;
    for (size_t first = plan->out->at[from].first; flow->insn[first].va >= low; first--) {
        if (make_far_island(plan, from, to, first, far, context))
            return true;
        if (first == 0 || flow->mark[first] & LOAD_MARK_TARGET)
            break;
    }
    return false;
}

/* A far island's jump ends in bytes of what follows it: a trap is refused before any window in front of it is given one. */
static void refuse_trap(load_windows *windows, size_t index, struct load_wish *wish, size_t wish_count)
{
    struct load_window window = windows->at[index];
    bool refused = true;
    for (size_t i = 0; i < wish_count && refused; i++)
        refused = wish[i].kind == LOAD_REFUSED || wish[i].no_trap || wish[i].va < window.va || wish[i].va >= window.end_va;
    if (!refused)
        return;
    for (size_t i = 0; i < wish_count; i++)
        if (wish[i].kind != LOAD_REFUSED && wish[i].va >= window.va && wish[i].va < window.end_va)
            refuse(&wish[i], INSN_TRAP_ONLY);
    memmove(&windows->at[index], &windows->at[index + 1], (windows->n - index - 1) * sizeof window);
    windows->n--;
}

bool load_far_without_process(void *context, uint64_t va, uint32_t span)
{
    const struct load_code *code = context;
    size_t count;
    const struct symbol_segment *segment = symbol_file_segments(code->file, &count);
    for (size_t i = 0; i < count; i++)
        if (va >= segment[i].va && va + span <= segment[i].va + segment[i].size)
            return false;
    /* A file that is loaded anywhere has room on both sides; one that is linked for low addresses has none below. */
    return code->mode == INSN_MODE_32 || symbol_file_is_dynamic(code->file) || (int64_t)va > 0x10000;
}

void load_windows_add_islands(const struct load_code *code, const struct load_flow *flow, struct load_claims *claims,
                              struct load_wish *wish, size_t wish_count, load_windows *windows, load_far_fn *far, void *context)
{
    struct planner plan = {code, flow, claims, windows};
    /* From the end: a far island's address depends on what is put behind the window. */
    for (size_t i = windows->n; i-- > 0;) {
        if (windows->at[i].kind != LOAD_TRAP)
            continue;
        /* Traps that touch are best replaced together. */
        size_t from = i;
        while (from && windows->at[from - 1].kind == LOAD_TRAP && windows->at[from - 1].end_va == windows->at[from].va &&
               may_follow(&plan, windows->at[from].first))
            from--;
        bool is_island = false;
        for (size_t start = from; start <= i && !is_island; start++) {
            is_island = make_near_island(&plan, start, i) || try_far_islands(&plan, start, i, far, context);
            if (is_island)
                i = start; /* what took their place stands there now */
        }
        if (!is_island)
            refuse_trap(windows, i, wish, wish_count);
    }
    assign(wish, wish_count, windows);
}

void load_windows_release(const struct load_code *code, struct load_claims *claims, const struct load_window *window, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (window[i].va + window[i].length > window[i].end_va)
            load_claims_set(claims, code, window[i].end_va, window[i].va + window[i].length - window[i].end_va, false);
        if (window[i].island_va)
            load_claims_set(claims, code, window[i].island_va, JMP_BYTES, false);
    }
}
