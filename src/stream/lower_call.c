#include "stream/lower_internal.h"

#include <string.h>

/* ---- pieces ---- */

static struct wire_insn *put(struct lowering *emit, enum wire_op op, uint8_t d, uint8_t a)
{
    struct wire_insn *insn = lower_put(emit, op);
    insn->d = d;
    insn->a = a;
    return insn;
}

static void store(struct lowering *emit, uint8_t reg, uint8_t bytes, uint32_t offset)
{
    struct wire_insn *insn = lower_put(emit, WIRE_FST);
    insn->a = reg;
    insn->k = bytes;
    insn->j = offset;
}

static void store_constant(struct lowering *emit, uint64_t value, uint8_t bytes, uint32_t offset)
{
    uint8_t reg = lower_push(emit);
    lower_constant(emit, reg, value);
    store(emit, reg, bytes, offset);
    emit->depth--;
}

static void zero(struct lowering *emit, uint32_t offset, uint32_t bytes)
{
    struct wire_insn *insn = lower_put(emit, WIRE_FZERO);
    insn->j = offset;
    insn->i = (int32_t)bytes;
}

static uint8_t context(struct lowering *emit, uint32_t what)
{
    uint8_t reg = lower_push(emit);
    put(emit, WIRE_CTX, reg, 0)->i = (int32_t)what;
    return reg;
}

/* ---- records ---- */

static uint32_t add_record(struct lowering *emit, const struct script_action *action, int kind, uint64_t payload)
{
    struct stream_builder *builder = emit->builder;
    if (payload > WIRE_FRAME_MAX || builder->record.n >= WIRE_RECORD_TYPES_MAX) {
        lower_fail(emit, payload > WIRE_FRAME_MAX ? "too much is printed at once" : "the script prints in too many places");
        return 0;
    }
    VEC_PUSH(&builder->record, (struct wire_record_type){.payload_bytes = (uint32_t)payload});
    VEC_PUSH(&builder->out->record,
             (struct stream_record){.unit = emit->unit, .model = emit->checked->model, .action = action, .kind = kind});
    return (uint32_t)builder->record.n - 1;
}

static void put_record(struct lowering *emit, uint32_t record, uint32_t payload)
{
    if (emit->error)
        return;
    struct wire_insn *insn = lower_put(emit, WIRE_EMIT);
    insn->h = (uint16_t)record;
    insn->i = (int32_t)payload;
    insn->j = emit->builder->record.at[record].payload_bytes;
}

static void lower_record(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_action *action = &emit->checked->actions[expr->action];
    uint64_t bytes = 0;
    for (size_t i = 0; i < action->n_list; i++)
        bytes += lower_whole_bytes(action->list[i]->type);
    uint32_t payload = lower_room(emit, bytes ? bytes : 8), at = payload, record = add_record(emit, action, STREAM_RECORD_ACTION, bytes);
    for (size_t i = 0; i < action->n_list; i++) {
        lower_whole(emit, action->list[i], at);
        at += (uint32_t)lower_whole_bytes(action->list[i]->type);
    }
    put_record(emit, record, payload);
}

/* The strings that an array of pointers ends with NULL, one after the other, each with its own room. */
static void lower_join(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_action *action = &emit->checked->actions[expr->action];
    uint32_t bytes = STREAM_JOIN_ARGS * STREAM_JOIN_BYTES, payload = lower_room(emit, bytes);
    uint32_t record = add_record(emit, action, STREAM_RECORD_ACTION, bytes), end[STREAM_JOIN_ARGS];
    uint8_t word = emit->model == WIRE_LP64 ? 8 : 4, list = lower_scalar(emit, action->list[0]);
    zero(emit, payload, bytes);
    for (uint32_t i = 0; i < STREAM_JOIN_ARGS; i++) {
        uint8_t text = lower_push(emit);
        struct wire_insn *load = put(emit, WIRE_LDT, text, list);
        load->i = (int32_t)(i * word);
        load->k = word;
        end[i] = lower_jump(emit, WIRE_JZ, text);
        uint8_t count = lower_push(emit);
        lower_constant(emit, count, STREAM_JOIN_BYTES);
        struct wire_insn *read = put(emit, WIRE_STRT, count, text);
        read->b = count;
        read->j = payload + i * STREAM_JOIN_BYTES;
        read->i = STREAM_JOIN_BYTES;
        emit->depth -= 2;
    }
    for (uint32_t i = 0; i < STREAM_JOIN_ARGS; i++)
        lower_land(emit, end[i]);
    put_record(emit, record, payload);
    emit->depth--;
}

/* ---- speculation ---- */

static void set_speculation(struct lowering *emit, uint8_t reg)
{
    uint32_t key = lower_thread_key(emit);
    struct wire_insn *set = put(emit, WIRE_MSET, 0, reg);
    set->h = (uint16_t)emit->builder->speculation_map;
    set->j = key;
    put(emit, WIRE_SPECSET, 0, reg);
}

static void lower_speculate(struct lowering *emit)
{
    uint8_t reg = lower_push(emit);
    put(emit, WIRE_SPECNEW, reg, 0);
    set_speculation(emit, reg);
    emit->depth--;
}

/* commit() and discard(): the record itself belongs to no speculation. */
static void end_speculation(struct lowering *emit, int kind)
{
    uint32_t payload = lower_room(emit, 8), key = lower_thread_key(emit);
    uint8_t reg = lower_push(emit);
    struct wire_insn *get = put(emit, WIRE_MGET, reg, 0);
    get->h = (uint16_t)emit->builder->speculation_map;
    get->j = key;
    store(emit, reg, 8, payload);
    lower_constant(emit, reg, 0);
    put(emit, WIRE_SPECSET, 0, reg);
    put_record(emit, add_record(emit, NULL, kind, 8), payload);
    struct wire_insn *gone = put(emit, WIRE_MDEL, reg, 0);
    gone->h = (uint16_t)emit->builder->speculation_map;
    gone->j = key;
    emit->depth--;
}

/* ---- calls without a value ---- */

void lower_call_action(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg;
    uint32_t over;
    switch (expr->call) {
    case SCRIPT_C_JOIN:
        lower_join(emit, expr);
        return;
    case SCRIPT_C_EXIT:
        lower_record(emit, expr);
        lower_put(emit, WIRE_END);
        return;
    case SCRIPT_C_ASSERT:
        reg = lower_scalar(emit, expr->list[0]);
        over = lower_jump(emit, WIRE_JNZ, reg);
        emit->depth--;
        lower_record(emit, expr);
        lower_put(emit, WIRE_END);
        lower_land(emit, over);
        return;
    case SCRIPT_C_SPECULATE:
        lower_speculate(emit);
        return;
    case SCRIPT_C_COMMIT:
        end_speculation(emit, STREAM_RECORD_COMMIT);
        return;
    case SCRIPT_C_DISCARD:
        end_speculation(emit, STREAM_RECORD_DISCARD);
        return;
    case SCRIPT_C_SIGNAL:
    case SCRIPT_C_SIGNAL_THREAD:
        reg = lower_scalar(emit, expr->list[0]);
        put(emit, WIRE_SIGNAL, 0, reg);
        emit->depth--;
        return;
    case SCRIPT_C_DELETE:
        lower_call_scalar(emit, expr);
        emit->depth--;
        return;
    default:
        lower_record(emit, expr);
    }
}

/* ---- calls with a number ---- */

static uint8_t map_call(struct lowering *emit, const struct script_expr *expr, enum wire_op op)
{
    uint32_t key = lower_key(emit, expr->key);
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = put(emit, op, reg, 0);
    insn->h = (uint16_t)expr->map;
    insn->j = key;
    return reg;
}

static uint8_t compare_strings(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t a = lower_located(emit, expr->list[0]), b = lower_located(emit, expr->list[1]);
    uint64_t most = expr->list[2]->value, room = lower_value_bytes(expr->list[0]->type), other = lower_value_bytes(expr->list[1]->type);
    most = most < room ? most : room;
    most = most < other ? most : other;
    uint8_t reg = lower_push(emit);
    if (!most) {
        lower_constant(emit, reg, 0);
        return reg;
    }
    struct wire_insn *insn = put(emit, WIRE_SCMP, reg, 0);
    insn->j = a;
    insn->i = (int32_t)b;
    insn->h = (uint16_t)most;
    return reg;
}

/* The bytes of a string, an array, a struct or a buffer, which has its length before them. */
static uint32_t located_bytes(struct lowering *emit, const struct script_expr *expr)
{
    return lower_located(emit, expr) + (expr->type->kind == SCRIPT_T_BUFFER ? 8 : 0);
}

static uint8_t compare_bytes(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t a = located_bytes(emit, expr->list[0]), b = located_bytes(emit, expr->list[1]);
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = put(emit, WIRE_BCMP, reg, 0);
    insn->j = a;
    insn->i = (int32_t)b;
    insn->h = (uint16_t)expr->list[2]->value;
    return reg;
}

/* STRSTR, STRCONTAINS, GLOBMATCH */
static uint8_t find_string(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t a = lower_located(emit, expr->list[0]), b = lower_located(emit, expr->list[1]);
    uint64_t room = lower_value_bytes(expr->list[1]->type);
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = put(emit, expr->call == SCRIPT_C_GLOBMATCH ? WIRE_SGLOB : WIRE_SFIND, reg, 0);
    insn->j = a;
    insn->i = (int32_t)b;
    insn->h = (uint16_t)lower_value_bytes(expr->list[0]->type);
    insn->b = (uint8_t)room;
    insn->k = (uint8_t)(room >> 8);
    if (expr->call == SCRIPT_C_STRCONTAINS)
        put(emit, WIRE_NEI, reg, reg)->i = -1;
    return reg;
}

static uint8_t stack_length(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t at = lower_located(emit, expr->list[0]);
    uint8_t reg = lower_push(emit);
    struct wire_insn *load = put(emit, WIRE_FLD, reg, 0);
    load->k = 8;
    load->j = at;
    struct wire_insn *bits = put(emit, WIRE_BITS, reg, reg);
    bits->k = WIRE_STACK_FRAMES_SHIFT;
    bits->h = WIRE_STACK_MODE_SHIFT - WIRE_STACK_FRAMES_SHIFT;
    return reg;
}

uint8_t lower_call_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg;
    uint32_t at;
    switch (expr->call) {
    case SCRIPT_C_DELETE:
        return map_call(emit, expr, WIRE_MDEL);
    case SCRIPT_C_HAS_KEY:
        return map_call(emit, expr, WIRE_MHAS);
    case SCRIPT_C_LEN:
        if (expr->n_list)
            return stack_length(emit, expr);
        reg = lower_push(emit);
        put(emit, WIRE_MLEN, reg, 0)->h = (uint16_t)expr->map;
        return reg;
    case SCRIPT_C_STRLEN:
        at = lower_located(emit, expr->list[0]);
        reg = lower_push(emit);
        struct wire_insn *length = put(emit, WIRE_SLEN, reg, 0);
        length->j = at;
        length->i = (int32_t)lower_value_bytes(expr->list[0]->type);
        if (expr->n_list > 1 && expr->list[1]->value < (uint64_t)length->i)
            length->i = (int32_t)expr->list[1]->value;
        if (!length->i) {
            length->op = WIRE_MOVI;
            length->j = 0;
        }
        return reg;
    case SCRIPT_C_STRNCMP:
        return compare_strings(emit, expr);
    case SCRIPT_C_MEMCMP:
        return compare_bytes(emit, expr);
    case SCRIPT_C_STRCONTAINS:
    case SCRIPT_C_STRSTR:
    case SCRIPT_C_GLOBMATCH:
        return find_string(emit, expr);
    case SCRIPT_C_BSWAP:
        reg = lower_scalar(emit, expr->list[0]);
        if (expr->type->bytes > 1)
            put(emit, WIRE_BSWAP, reg, reg)->k = (uint8_t)expr->type->bytes;
        return reg;
    case SCRIPT_C_UADDR:
        return lower_symbol_address(emit, expr);
    case SCRIPT_C_NSECS:
        return context(emit, WIRE_CTX_NSECS);
    case SCRIPT_C_PIDNS:
        return context(emit, WIRE_CTX_PID);
    case SCRIPT_C_TIDNS:
        return context(emit, WIRE_CTX_TID);
    default:
        lower_fail(emit, "%s() is not done yet", script_call_name(expr->call));
        return lower_push(emit);
    }
}

/* ---- calls with a larger value ---- */

/* How many bytes are wanted: the constant `usual`, or the second argument. */
static uint8_t wanted(struct lowering *emit, const struct script_expr *expr, uint64_t usual)
{
    if (expr->n_list < 2) {
        uint8_t reg = lower_push(emit);
        lower_constant(emit, reg, usual);
        return reg;
    }
    return lower_scalar(emit, expr->list[1]);
}

static void read_string(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint8_t address = lower_scalar(emit, expr->list[0]), count = wanted(emit, expr, expr->type->bytes);
    struct wire_insn *insn = put(emit, WIRE_STRT, count, address);
    insn->b = count;
    insn->j = offset;
    insn->i = (int32_t)expr->type->bytes;
    emit->depth -= 2;
}

static void read_buffer(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint64_t bytes = expr->type->bytes;
    if (!lower_is_scalar(expr->list[0]->type)) {
        uint32_t from = lower_located(emit, expr->list[0]);
        uint64_t had = lower_value_bytes(expr->list[0]->type), common = had < bytes ? had : bytes;
        struct wire_insn *copy = lower_put(emit, WIRE_FCPY);
        copy->j = offset + 8;
        copy->i = (int32_t)from;
        copy->h = (uint16_t)common;
        if (bytes > common)
            zero(emit, offset + 8 + (uint32_t)common, (uint32_t)(bytes - common));
        store_constant(emit, common, 8, offset);
        return;
    }
    uint8_t address = lower_scalar(emit, expr->list[0]), count = wanted(emit, expr, bytes);
    struct wire_insn *insn = put(emit, WIRE_BUFT, count, address);
    insn->b = count;
    insn->j = offset + 8;
    insn->i = (int32_t)bytes;
    store(emit, count, 8, offset);
    emit->depth -= 2;
}

static void make_symbol(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint8_t address = lower_scalar(emit, expr->list[0]);
    store(emit, address, 8, offset);
    uint8_t pid = context(emit, WIRE_CTX_PID);
    store(emit, pid, 8, offset + 8);
    emit->depth -= 2;
}

static void make_timestamp(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint8_t time = lower_scalar(emit, expr->list[expr->n_list - 1]);
    store(emit, time, 8, offset);
    emit->depth--;
    store_constant(emit, 0, 4, offset + 8);
    VEC_PUSH(&emit->builder->out->time_format, emit->checked->actions[expr->action].text);
    store_constant(emit, emit->builder->out->time_format.n - 1, 4, offset + 12);
}

static void make_address(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    enum { INET_FAMILY = 2, INET6_FAMILY = 10 };
    const struct script_expr *address = expr->list[expr->n_list - 1];
    zero(emit, offset, 24);
    if (expr->n_list == 2) {
        uint8_t family = lower_scalar(emit, expr->list[0]);
        store(emit, family, 4, offset);
        emit->depth--;
    }
    if (lower_is_scalar(address->type)) {
        uint8_t value = lower_scalar(emit, address);
        store(emit, value, 4, offset + 8);
        emit->depth--;
        if (expr->n_list == 1)
            store_constant(emit, INET_FAMILY, 4, offset);
        return;
    }
    uint32_t from = lower_located(emit, address);
    uint64_t bytes = lower_value_bytes(address->type) > 16 ? 16 : lower_value_bytes(address->type);
    struct wire_insn *copy = lower_put(emit, WIRE_FCPY);
    copy->j = offset + 8;
    copy->i = (int32_t)from;
    copy->h = (uint16_t)bytes;
    if (expr->n_list == 1)
        store_constant(emit, bytes == 16 ? INET6_FAMILY : INET_FAMILY, 4, offset);
}

static void make_mac(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    zero(emit, offset, 8);
    uint32_t from = lower_located(emit, expr->list[0]);
    struct wire_insn *copy = lower_put(emit, WIRE_FCPY);
    copy->j = offset;
    copy->i = (int32_t)from;
    copy->h = lower_value_bytes(expr->list[0]->type) < 6 ? (uint16_t)lower_value_bytes(expr->list[0]->type) : 6;
}

static void make_name(struct lowering *emit, const struct script_expr *expr, enum script_name what, uint32_t offset)
{
    uint8_t number = lower_scalar(emit, expr->list[0]);
    store(emit, number, 4, offset);
    emit->depth--;
    store_constant(emit, what, 4, offset + 4);
}

/* Where a function returns, it is no longer on the stack. */
static void make_stack(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    static const char returns[] = "uretprobe:";
    bool has_returned = emit->from->n_points && !strncmp(emit->from->points[0], returns, sizeof returns - 1);
    uint32_t used = emit->frame_used, scratch = lower_room(emit, WIRE_WALK_BYTES + 8 * (expr->value + has_returned));
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = put(emit, WIRE_USTACK, reg, 0);
    insn->i = (int32_t)expr->value;
    insn->h = has_returned;
    insn->k = (uint8_t)expr->slot;
    insn->j = scratch;
    emit->frame_used = used;
    store(emit, reg, 8, offset);
    emit->depth--;
}

static void make_constant(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    struct wire_insn *insn;
    uint32_t at = stream_builder_data(emit->builder, expr->text, expr->length);
    insn = lower_put(emit, WIRE_FDATA);
    insn->j = offset;
    insn->i = (int32_t)at;
    insn->h = (uint16_t)expr->length;
}

void lower_call_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    switch (expr->call) {
    case SCRIPT_C_STR:
        read_string(emit, expr, offset);
        break;
    case SCRIPT_C_BUF:
        read_buffer(emit, expr, offset);
        break;
    case SCRIPT_C_USYM:
        make_symbol(emit, expr, offset);
        break;
    case SCRIPT_C_STRFTIME:
        make_timestamp(emit, expr, offset);
        break;
    case SCRIPT_C_NTOP:
        make_address(emit, expr, offset);
        break;
    case SCRIPT_C_MACADDR:
        make_mac(emit, expr, offset);
        break;
    case SCRIPT_C_STRERROR:
        make_name(emit, expr, SCRIPT_NAME_ERROR, offset);
        break;
    case SCRIPT_C_COMM:
        make_name(emit, expr, SCRIPT_NAME_PROCESS, offset);
        break;
    case SCRIPT_C_PTON:
        make_constant(emit, expr, offset);
        break;
    case SCRIPT_C_USTACK:
        make_stack(emit, expr, offset);
        break;
    default:
        lower_fail(emit, "%s() is not done yet", script_call_name(expr->call));
    }
}
