/* The verifier: bytes → NULL, or why they are no trace stream.
 *
 * Tables first, then each clause in each model in one pass forward over its code. The pass knows which registers and which bytes of the
 * frame have been written for certain, its state.
 *  1. The state where jumps meet is what is common to all that come there.
 *  2. The state at an instruction that a LOOP goes back to is the one at its first entry. The LOOP must bring at least that: then each
 *     state holds for every run, since every way from one instruction to the next has been checked, the ways back too.
 *  3. What nothing leads to has no state. Its operands are checked, not what it reads. A LOOP that runs may not go back to such code.
 *  4. States that wait for their instruction are kept, at most WIRE_OPEN_MAX. A state costs frame_bytes / 8 bytes, each instruction at
 *     most a few walks over one; clauses have no instruction in common. So time and memory are bounded by the stream's length. */
#include "base/memory.h"
#include "stream/op.h"
#include "stream/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FRAME_WORDS = WIRE_FRAME_MAX / 64, CLAUSES_MAX = 65536, RECORDS_MAX = 65535, KEY_MAX = 4096, VALUE_MAX = 65536 };

struct state {
    uint32_t registers;
    uint64_t frame[FRAME_WORDS]; /* a bit for each byte */
};

struct range {
    uint64_t at, bytes;
};

/* A pass over the code of one clause in one model. */
struct pass {
    const struct wire_stream *stream;
    const struct wire_insn *code;
    uint32_t count, frame_bytes, words, clause, at;
    enum wire_model model;
    bool alive; /* something leads to this instruction */
    struct state now;
    VEC(struct state *) kept; /* states that wait, and room for more */
    VEC(uint32_t) idle;       /* those of them that are free */
    uint32_t *target;         /* by instruction: 1 + the kept state of jumps to it */
    uint32_t *head;           /* by instruction: 1 + the kept state at a LOOP's target */
    uint32_t *last_loop;      /* by instruction: the last LOOP to it */
    uint32_t open;
};

static struct err *bad(const char *what)
{
    return err_new(ERR_FILE, "stream: %s", what);
}

static struct err *bad_insn(const struct pass *pass, const char *what)
{
    uint32_t op = pass->code[pass->at].op;
    return err_new(ERR_FILE, "stream: clause %" PRIu32 ": %s code: instruction %" PRIu32 " (%s): %s", pass->clause,
                   pass->model == WIRE_LP64 ? "64-bit" : "32-bit", pass->at, op < WIRE_OP_COUNT ? stream_ops[op].name : "?", what);
}

/* ---- states ---- */

static uint64_t word_mask(const struct range *range, uint32_t word)
{
    uint64_t first = range->at > word * 64ull ? range->at - word * 64ull : 0, end = range->at + range->bytes - word * 64ull;
    uint64_t below_end = end >= 64 ? UINT64_MAX : (1ull << end) - 1;
    return below_end & UINT64_MAX << first;
}

static bool is_written(const struct state *state, const struct range *range)
{
    for (uint64_t word = range->at / 64; word * 64 < range->at + range->bytes; word++) {
        uint64_t mask = word_mask(range, (uint32_t)word);
        if ((state->frame[word] & mask) != mask)
            return false;
    }
    return true;
}

static void set_written(struct state *state, const struct range *range)
{
    for (uint64_t word = range->at / 64; word * 64 < range->at + range->bytes; word++)
        state->frame[word] |= word_mask(range, (uint32_t)word);
}

static void copy_state(const struct pass *pass, struct state *to, const struct state *from)
{
    to->registers = from->registers;
    memcpy(to->frame, from->frame, pass->words * sizeof *to->frame);
}

static void keep_common(const struct pass *pass, struct state *state, const struct state *other)
{
    state->registers &= other->registers;
    for (uint32_t i = 0; i < pass->words; i++)
        state->frame[i] &= other->frame[i];
}

static bool has_all_of(const struct pass *pass, const struct state *state, const struct state *part)
{
    if (part->registers & ~state->registers)
        return false;
    for (uint32_t i = 0; i < pass->words; i++)
        if (part->frame[i] & ~state->frame[i])
            return false;
    return true;
}

/* Keeps a copy of the present state. 0: too many are kept. */
static uint32_t keep(struct pass *pass)
{
    if (pass->open == WIRE_OPEN_MAX)
        return 0;
    pass->open++;
    if (!pass->idle.n) {
        /* Only the part in use is allocated, which is why nothing copies a whole struct state. */
        VEC_PUSH(&pass->kept, memory_alloc(offsetof(struct state, frame) + pass->words * sizeof(uint64_t)));
        VEC_PUSH(&pass->idle, (uint32_t)pass->kept.n - 1);
    }
    uint32_t number = pass->idle.at[--pass->idle.n];
    copy_state(pass, pass->kept.at[number], &pass->now);
    return number + 1;
}

static void drop(struct pass *pass, uint32_t number)
{
    VEC_PUSH(&pass->idle, number - 1);
    pass->open--;
}

/* ---- operands ---- */

static bool is_size(uint32_t size)
{
    return size == 1 || size == 2 || size == 4 || size == 8;
}

/* The fields that no letter names are 0, those that one names are in its range. */
static struct err *check_fields(const struct pass *pass, const struct wire_insn *insn)
{
    struct wire_insn unused = *insn;
    unused.op = 0;
    for (const char *field = stream_ops[insn->op].fields; *field; field++) {
        switch (*field) {
        case 'D':
            if (insn->d >= WIRE_REGS)
                return bad_insn(pass, "no such register");
            unused.d = 0;
            break;
        case 'A':
            if (insn->a >= WIRE_REGS)
                return bad_insn(pass, "no such register");
            unused.a = 0;
            break;
        case 'B':
            if (insn->b >= WIRE_REGS)
                return bad_insn(pass, "no such register");
            unused.b = 0;
            break;
        case 'K':
            if (!is_size(insn->k & ~WIRE_SIGNED))
                return bad_insn(pass, "no such size");
            unused.k = 0;
            break;
        case 'J':
            if (insn->j <= pass->at || insn->j >= pass->count)
                return bad_insn(pass, "a jump that does not go forward within the clause");
            unused.j = 0;
            break;
        case 'L':
            if (insn->j >= pass->at)
                return bad_insn(pass, "a loop that does not go back");
            unused.j = 0;
            break;
        case 'M':
            if (insn->h >= pass->stream->map_count)
                return bad_insn(pass, "no such map");
            unused.h = 0;
            if (stream_maps(pass->stream)[insn->h].key_bytes)
                unused.j = 0;
            break;
        case 'I':
        case 'G':
        case 'V':
        case 'i':
            unused.i = 0;
            break;
        case 'F':
        case 'j':
            unused.j = 0;
            break;
        case 'b':
            unused.b = 0;
            break;
        case 'h':
            unused.h = 0;
            break;
        case 'k':
            unused.k = 0;
            break;
        }
    }
    if (unused.d || unused.a || unused.b || unused.k || unused.h || unused.i || unused.j)
        return bad_insn(pass, "a field that it does not have is not 0");
    return NULL;
}

static bool is_one_of_kinds(const struct wire_map_type *map, uint32_t op)
{
    switch (op) {
    case WIRE_MGET:
    case WIRE_MSET:
    case WIRE_MADD:
        return map->kind == WIRE_MAP_INT;
    case WIRE_MGETV:
    case WIRE_MSETV:
        return map->kind == WIRE_MAP_VALUE;
    case WIRE_MAGG:
    case WIRE_MRED:
        return map->kind >= WIRE_MAP_COUNT;
    case WIRE_MAGGN:
        return map->kind == WIRE_MAP_HIST || map->kind == WIRE_MAP_LHIST;
    case WIRE_MNEXT:
        return map->key_bytes != 0;
    }
    return true;
}

/* What an operation does to the frame. */
struct effects {
    struct range read[2], write[2];
};

static bool overlap(const struct range *a, const struct range *b)
{
    return a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static struct err *check_map_op(const struct pass *pass, const struct wire_insn *insn, struct effects *effects)
{
    const struct wire_map_type *map = stream_maps(pass->stream) + insn->h;
    struct range key = {insn->j, map->key_bytes}, value = {(uint32_t)insn->i, map->value_bytes};
    if (!is_one_of_kinds(map, insn->op))
        return bad_insn(pass, "not for a map of this kind");
    if (key.at % 8)
        return bad_insn(pass, "a key that is not at a multiple of 8");
    if (insn->op == WIRE_MRED && insn->k >= WIRE_REDUCES)
        return bad_insn(pass, "no such reduction");
    if (insn->op == WIRE_MNEXT) {
        effects->write[0] = key;
        effects->read[0] = effects->write[1] = (struct range){(uint32_t)insn->i, 8};
    } else {
        effects->read[0] = key;
    }
    if (insn->op == WIRE_MGETV)
        effects->write[1] = value;
    if (insn->op == WIRE_MSETV)
        effects->read[1] = value;
    if ((insn->op == WIRE_MGETV || insn->op == WIRE_MSETV || insn->op == WIRE_MNEXT) && insn->i % 8)
        return bad_insn(pass, "a value or iterator that is not at a multiple of 8");
    if (insn->op == WIRE_MGETV && key.bytes && overlap(&key, &value))
        return bad_insn(pass, "key and value overlap");
    if (insn->op == WIRE_MNEXT && overlap(&effects->write[0], &effects->write[1]))
        return bad_insn(pass, "key and iterator overlap");
    return NULL;
}

/* The rules of each operation, and what of the frame it reads and writes. */
static struct err *check_op(const struct pass *pass, const struct wire_insn *insn, struct effects *effects)
{
    const struct wire_stream *stream = pass->stream;
    uint64_t i = (uint32_t)insn->i, room;
    if (stream_op_has(insn->op, 'M'))
        return check_map_op(pass, insn, effects);
    switch (insn->op) {
    case WIRE_MOVL:
        if (insn->j % 8 || insn->j + 8ull > stream->data_bytes)
            return bad_insn(pass, "not in the data");
        break;
    case WIRE_SHLI:
    case WIRE_SHRI:
    case WIRE_SARI:
        if (i > 63)
            return bad_insn(pass, "a shift by more than 63");
        break;
    case WIRE_BITS:
        if (insn->k > 63 || insn->h < 1 || insn->h > 64 - insn->k || i > 1)
            return bad_insn(pass, "no such bits");
        break;
    case WIRE_BSWAP:
        if (insn->k != 2 && insn->k != 4 && insn->k != 8)
            return bad_insn(pass, "no such size");
        break;
    case WIRE_CTX:
        if (i >= WIRE_CTX_COUNT)
            return bad_insn(pass, "no such context");
        break;
    case WIRE_ARG:
        if (i > 63)
            return bad_insn(pass, "no such argument");
        break;
    case WIRE_REG:
        if (i >= (pass->model == WIRE_LP64 ? WIRE_REG64_COUNT : WIRE_REG32_COUNT))
            return bad_insn(pass, "no such machine register");
        break;
    case WIRE_XMM:
        if (insn->k != 4 && insn->k != 8)
            return bad_insn(pass, "no such size");
        if (i >= (pass->model == WIRE_LP64 ? 16 : 8))
            return bad_insn(pass, "no such machine register");
        break;
    case WIRE_USTACK:
        if (!i || i > WIRE_STACK_MAX || insn->h > 1)
            return bad_insn(pass, "no such stack");
        /* What is left there is not for reading. */
        if (insn->j % 8 || insn->j + WIRE_WALK_BYTES + 8ull * (i + insn->h) > pass->frame_bytes)
            return bad_insn(pass, "not in the frame");
        break;
    case WIRE_COMM:
        if (i > 1)
            return bad_insn(pass, "no such name");
        effects->write[0] = (struct range){insn->j, 16};
        break;
    case WIRE_STRT:
    case WIRE_BUFT:
    case WIRE_FZERO:
        if (!i)
            return bad_insn(pass, "no room");
        effects->write[0] = (struct range){insn->j, i};
        break;
    case WIRE_FLD:
        effects->read[0] = (struct range){insn->j, insn->k & ~WIRE_SIGNED};
        break;
    case WIRE_FST:
        if (insn->k & WIRE_SIGNED)
            return bad_insn(pass, "a store is not signed");
        effects->write[0] = (struct range){insn->j, insn->k};
        break;
    case WIRE_FLDX:
        if (i < (insn->k & ~(uint32_t)WIRE_SIGNED))
            return bad_insn(pass, "no room");
        effects->read[0] = (struct range){insn->j, i};
        break;
    case WIRE_BOUND:
        if (insn->i <= 0)
            return bad_insn(pass, "no such number of elements");
        break;
    case WIRE_FCPY:
        if (!insn->h)
            return bad_insn(pass, "no room");
        effects->read[0] = (struct range){i, insn->h};
        effects->write[0] = (struct range){insn->j, insn->h};
        if (overlap(&effects->read[0], &effects->write[0]))
            return bad_insn(pass, "source and destination overlap");
        break;
    case WIRE_FDATA:
        if (!insn->h)
            return bad_insn(pass, "no room");
        if (i + insn->h > stream->data_bytes)
            return bad_insn(pass, "not in the data");
        effects->write[0] = (struct range){insn->j, insn->h};
        break;
    case WIRE_SLEN:
        if (!i)
            return bad_insn(pass, "no room");
        effects->read[0] = (struct range){insn->j, i};
        break;
    case WIRE_SCMP:
    case WIRE_BCMP:
    case WIRE_SFIND:
    case WIRE_SGLOB:
        room = stream_op_has(insn->op, 'b') ? insn->b + 256u * insn->k : insn->h;
        if (!insn->h || !room)
            return bad_insn(pass, "no room");
        if (stream_op_has(insn->op, 'b') && room * insn->h > WIRE_FIND_MAX)
            return bad_insn(pass, "too long a search");
        effects->read[0] = (struct range){insn->j, insn->h};
        effects->read[1] = (struct range){i, room};
        break;
    case WIRE_MLEN:
        if (insn->h >= stream->map_count)
            return bad_insn(pass, "no such map");
        break;
    case WIRE_EMIT:
        if (insn->h >= stream->record_count)
            return bad_insn(pass, "no such record");
        if (insn->j != stream_records(stream)[insn->h].payload_bytes)
            return bad_insn(pass, "not the record's payload");
        if (i % 8)
            return bad_insn(pass, "a payload that is not at a multiple of 8");
        effects->read[0] = (struct range){i, insn->j};
        break;
    case WIRE_SIGNAL:
        if (!(stream->flags & WIRE_STREAM_UNSAFE))
            return bad_insn(pass, "the stream does not say that it is unsafe");
        break;
    }
    return NULL;
}

/* ---- the pass ---- */

static struct err *check_reads(struct pass *pass, const struct wire_insn *insn, const struct effects *effects)
{
    uint32_t reads = (stream_op_has(insn->op, 'A') ? 1u << insn->a : 0) | (stream_op_has(insn->op, 'B') ? 1u << insn->b : 0);
    if (reads & ~pass->now.registers)
        return bad_insn(pass, "a register is read before it is written");
    for (int i = 0; i < 2; i++)
        if (!is_written(&pass->now, &effects->read[i]))
            return bad_insn(pass, "the frame is read before it is written");
    return NULL;
}

/* The present state goes to instruction `to`. */
static struct err *lead_to(struct pass *pass, uint32_t to)
{
    if (pass->target[to]) {
        keep_common(pass, pass->kept.at[pass->target[to] - 1], &pass->now);
        return NULL;
    }
    pass->target[to] = keep(pass);
    return pass->target[to] ? NULL : bad_insn(pass, "too many jumps are open");
}

/* Where jumps arrive and loops begin. */
static struct err *arrive(struct pass *pass)
{
    uint32_t target = pass->target[pass->at];
    if (target) {
        if (pass->alive)
            keep_common(pass, &pass->now, pass->kept.at[target - 1]);
        else
            copy_state(pass, &pass->now, pass->kept.at[target - 1]);
        pass->alive = true;
        drop(pass, target);
    }
    if (pass->alive && pass->last_loop[pass->at]) {
        pass->head[pass->at] = keep(pass);
        if (!pass->head[pass->at])
            return bad_insn(pass, "too many jumps are open");
    }
    return NULL;
}

static struct err *leave(struct pass *pass, const struct wire_insn *insn)
{
    uint32_t head;
    switch (insn->op) {
    case WIRE_JMP:
    case WIRE_JZ:
    case WIRE_JNZ:
        if (pass->alive)
            ERR_TRY(lead_to(pass, insn->j));
        if (insn->op == WIRE_JMP)
            pass->alive = false;
        break;
    case WIRE_LOOP:
        head = pass->head[insn->j];
        if (pass->alive && (!head || !has_all_of(pass, &pass->now, pass->kept.at[head - 1])))
            return bad_insn(pass, "the loop does not bring back all that was written where it began");
        if (head && pass->last_loop[insn->j] == pass->at)
            drop(pass, head);
        pass->alive = false;
        break;
    case WIRE_END:
        pass->alive = false;
        break;
    }
    return NULL;
}

static struct err *check_insn(struct pass *pass)
{
    const struct wire_insn *insn = &pass->code[pass->at];
    struct effects effects = {0};
    if (insn->op >= WIRE_OP_COUNT)
        return bad_insn(pass, "no such operation");
    ERR_TRY(check_fields(pass, insn));
    ERR_TRY(check_op(pass, insn, &effects));
    const struct range *range[] = {&effects.read[0], &effects.read[1], &effects.write[0], &effects.write[1]};
    for (int i = 0; i < 4; i++)
        if (range[i]->at + range[i]->bytes > pass->frame_bytes)
            return bad_insn(pass, "not in the frame");
    ERR_TRY(arrive(pass));
    if (pass->alive) {
        ERR_TRY(check_reads(pass, insn, &effects));
        set_written(&pass->now, &effects.write[0]);
        set_written(&pass->now, &effects.write[1]);
        if (stream_op_has(insn->op, 'D'))
            pass->now.registers |= 1u << insn->d;
    }
    return leave(pass, insn);
}

static struct err *check_code(struct pass *pass)
{
    pass->words = (pass->frame_bytes + 63) / 64;
    pass->now.registers = 0;
    memset(pass->now.frame, 0, pass->words * sizeof *pass->now.frame);
    memset(pass->target, 0, pass->count * sizeof *pass->target);
    memset(pass->head, 0, pass->count * sizeof *pass->head);
    memset(pass->last_loop, 0, pass->count * sizeof *pass->last_loop);
    pass->alive = true;
    for (uint32_t i = 0; i < pass->count; i++)
        if (pass->code[i].op == WIRE_LOOP && pass->code[i].j < i)
            pass->last_loop[pass->code[i].j] = i;
    for (pass->at = 0; pass->at < pass->count; pass->at++)
        ERR_TRY(check_insn(pass));
    return NULL;
}

static void free_kept(struct pass *pass)
{
    for (size_t i = 0; i < pass->kept.n; i++)
        free(pass->kept.at[i]);
    VEC_FREE(&pass->kept);
    VEC_FREE(&pass->idle);
    pass->open = 0;
}

static struct err *check_clause_code(struct pass *pass, const struct wire_clause *clause, uint32_t *end)
{
    const struct wire_code *predicate = &clause->predicate[pass->model], *action = &clause->action[pass->model];
    uint64_t count = (uint64_t)predicate->count + action->count;
    pass->frame_bytes = clause->frame_bytes[pass->model];
    if (!(clause->has_model >> pass->model & 1)) {
        if (predicate->first || action->first || count || pass->frame_bytes)
            return err_new(ERR_FILE, "stream: clause %" PRIu32 ": code for a model that it does not have", pass->clause);
        return NULL;
    }
    if (action->first != (uint64_t)predicate->first + predicate->count)
        return err_new(ERR_FILE, "stream: clause %" PRIu32 ": the action does not follow the predicate", pass->clause);
    if (predicate->first < *end)
        return err_new(ERR_FILE, "stream: clause %" PRIu32 ": its code is not behind that of the clause before", pass->clause);
    if (predicate->first + count > pass->stream->code_count[pass->model])
        return err_new(ERR_FILE, "stream: clause %" PRIu32 ": its code is not in the region", pass->clause);
    if (count > WIRE_CODE_MAX)
        return err_new(ERR_FILE, "stream: clause %" PRIu32 ": more than %d instructions", pass->clause, WIRE_CODE_MAX);
    if (pass->frame_bytes > WIRE_FRAME_MAX || pass->frame_bytes % 8)
        return err_new(ERR_FILE, "stream: clause %" PRIu32 ": no such frame", pass->clause);
    *end = predicate->first + (uint32_t)count;
    pass->code = stream_code(pass->stream, pass->clause, pass->model, &pass->count);
    struct err *error = check_code(pass);
    free_kept(pass);
    return error;
}

/* ---- tables ---- */

static bool is_table(const struct wire_stream *stream, uint32_t offset, uint64_t count, uint32_t bytes)
{
    return offset % 8 == 0 && offset >= sizeof *stream && offset <= stream->bytes && count * bytes <= stream->bytes - offset;
}

static bool is_data(const struct wire_stream *stream, uint32_t offset, uint32_t bytes)
{
    return (uint64_t)offset + bytes <= stream->data_bytes;
}

static struct err *check_header(const struct wire_stream *stream, size_t bytes)
{
    if (bytes < sizeof *stream)
        return bad("truncated");
    if (stream->magic != WIRE_STREAM_MAGIC)
        return bad("not a trace stream");
    if (stream->bytes != bytes)
        return bad("not as long as it says");
    if (stream->flags & ~(uint32_t)WIRE_STREAM_UNSAFE || stream->unused)
        return bad("an unknown flag");
    if (!is_table(stream, stream->clause_offset, stream->clause_count, sizeof(struct wire_clause)) || stream->clause_count > CLAUSES_MAX)
        return bad("the clause table is not in it");
    if (!is_table(stream, stream->point_offset, stream->point_count, sizeof(struct wire_point)))
        return bad("the table of trace points is not in it");
    if (!is_table(stream, stream->map_offset, stream->map_count, sizeof(struct wire_map_type)))
        return bad("the map table is not in it");
    if (!is_table(stream, stream->record_offset, stream->record_count, sizeof(struct wire_record_type)) ||
        stream->record_count > RECORDS_MAX)
        return bad("the record table is not in it");
    uint64_t sources = 0;
    for (int model = 0; model < WIRE_MODELS; model++) {
        if (!is_table(stream, stream->code_offset[model], stream->code_count[model], sizeof(struct wire_insn)))
            return bad("a code region is not in it");
        sources += stream->code_count[model];
    }
    if (!is_table(stream, stream->source_offset, sources, sizeof(struct wire_source)))
        return bad("the table of source positions is not in it");
    if (!is_table(stream, stream->data_offset, stream->data_bytes, 1))
        return bad("the data are not in it");
    return NULL;
}

static struct err *check_map(const struct wire_stream *stream, const struct wire_map_type *map, uint32_t number)
{
    const char *what = NULL;
    if (map->kind >= WIRE_MAP_KINDS)
        what = "no such kind";
    else if (map->key_bytes % 8 || map->key_bytes > KEY_MAX)
        what = "no such key";
    else if (map->kind != WIRE_MAP_VALUE && map->value_bytes != wire_map_value_bytes(map->kind, map->param))
        what = "a value that does not fit its kind";
    else if (!map->value_bytes || map->value_bytes % 8 || map->value_bytes > VALUE_MAX)
        what = "no such value";
    else if (!map->capacity)
        what = "no room";
    else if (map->is_signed > 1 || map->unused)
        what = "an unknown flag";
    else if (!is_data(stream, map->name_offset, map->name_bytes))
        what = "its name is not in the data";
    return what ? err_new(ERR_FILE, "stream: map %" PRIu32 ": %s", number, what) : NULL;
}

static struct err *check_tables(const struct wire_stream *stream)
{
    for (uint32_t i = 0; i < stream->point_count; i++)
        if (!is_data(stream, stream_points(stream)[i].name_offset, stream_points(stream)[i].name_bytes))
            return err_new(ERR_FILE, "stream: trace point %" PRIu32 ": its name is not in the data", i);
    for (uint32_t i = 0; i < stream->map_count; i++)
        ERR_TRY(check_map(stream, stream_maps(stream) + i, i));
    for (uint32_t i = 0; i < stream->record_count; i++) {
        const struct wire_record_type *record = stream_records(stream) + i;
        if (record->payload_bytes % 8 || record->payload_bytes > WIRE_FRAME_MAX || record->unused)
            return err_new(ERR_FILE, "stream: record %" PRIu32 ": no such payload", i);
    }
    for (uint32_t i = 0; i < stream->clause_count; i++) {
        const struct wire_clause *clause = stream_clauses(stream) + i;
        if ((uint64_t)clause->point_first + clause->point_count > stream->point_count)
            return err_new(ERR_FILE, "stream: clause %" PRIu32 ": no such trace point", i);
        if (clause->has_model >> WIRE_MODELS || clause->unused)
            return err_new(ERR_FILE, "stream: clause %" PRIu32 ": an unknown flag", i);
    }
    return NULL;
}

struct err *stream_verify(const void *stream, size_t bytes)
{
    const struct wire_stream *header = stream;
    ERR_TRY(check_header(header, bytes));
    ERR_TRY(check_tables(header));
    struct pass *pass = memory_zero(1, sizeof *pass);
    pass->stream = header;
    uint32_t most = header->code_count[0] > header->code_count[1] ? header->code_count[0] : header->code_count[1];
    most = most < WIRE_CODE_MAX ? most : WIRE_CODE_MAX;
    pass->target = memory_zero(most, sizeof *pass->target);
    pass->head = memory_zero(most, sizeof *pass->head);
    pass->last_loop = memory_zero(most, sizeof *pass->last_loop);
    struct err *error = NULL;
    for (int model = 0; model < WIRE_MODELS && !error; model++) {
        uint32_t end = 0;
        pass->model = (enum wire_model)model;
        for (pass->clause = 0; pass->clause < header->clause_count && !error; pass->clause++)
            error = check_clause_code(pass, stream_clauses(header) + pass->clause, &end);
    }
    free(pass->target);
    free(pass->head);
    free(pass->last_loop);
    free(pass);
    return error;
}
