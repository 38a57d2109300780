#include "stream/eval.h"

#include "stream/map.h"
#include "stream/port.h"
#include "stream/ring.h"
#include "stream/softfloat.h"
#include "stream/stack.h"

/* ---- bytes ---- */

/* Bytes one by one through volatile: a compiler must not make calls or string instructions of these loops. The agent has no functions to
 * call for them, and the direction of string instructions is the traced program's. */
static void copy_bytes(void *to, const void *from, uint32_t bytes)
{
    uint8_t *x = to;
    const uint8_t *y = from;
    for (; bytes >= 8; bytes -= 8, x += 8, y += 8)
        __builtin_memcpy(x, y, 8);
    while (bytes--)
        *(volatile uint8_t *)x++ = *(const volatile uint8_t *)y++;
}

static void zero_bytes(void *to, uint32_t bytes)
{
    uint8_t *x = to;
    for (; bytes >= 8; bytes -= 8, x += 8)
        __builtin_memcpy(x, &(uint64_t){0}, 8);
    while (bytes--)
        *(volatile uint8_t *)x++ = 0;
}

/* k bytes at `at`, extended as the size code says. */
static uint64_t load(const void *at, uint32_t code)
{
    uint64_t value = 0;
    uint32_t value32;
    uint16_t value16;
    switch (code & 15) {
    case 1:
        value = *(const uint8_t *)at;
        return code & WIRE_SIGNED ? (uint64_t)(int64_t)(int8_t)value : value;
    case 2:
        __builtin_memcpy(&value16, at, 2);
        return code & WIRE_SIGNED ? (uint64_t)(int64_t)(int16_t)value16 : value16;
    case 4:
        __builtin_memcpy(&value32, at, 4);
        return code & WIRE_SIGNED ? (uint64_t)(int64_t)(int32_t)value32 : value32;
    default:
        __builtin_memcpy(&value, at, 8);
        return value;
    }
}

static void store(void *at, uint64_t value, uint32_t size)
{
    uint8_t *byte = at;
    switch (size) {
    case 1:
        *byte = (uint8_t)value;
        break;
    case 2:
        __builtin_memcpy(at, &(uint16_t){(uint16_t)value}, 2);
        break;
    case 4:
        __builtin_memcpy(at, &(uint32_t){(uint32_t)value}, 4);
        break;
    default:
        __builtin_memcpy(at, &value, 8);
    }
}

/* ---- numbers ---- */

static uint64_t divide(uint64_t a, uint64_t b, uint64_t *rest)
{
#if __SIZEOF_POINTER__ == 8
    *rest = a % b;
    return a / b;
#else
    /* There is no such instruction here, and the function that a compiler would call is not in the agent. */
    uint64_t quotient = 0, left = 0;
    if (!(a >> 32) && !(b >> 32)) {
        *rest = (uint32_t)a % (uint32_t)b;
        return (uint32_t)a / (uint32_t)b;
    }
    for (int bit = 63; bit >= 0; bit--) { /* what is left is at most a >> bit: no bit gets lost */
        left = left << 1 | (a >> bit & 1);
        quotient <<= 1;
        if (left >= b) {
            left -= b;
            quotient |= 1;
        }
    }
    *rest = left;
    return quotient;
#endif
}

static uint64_t magnitude(uint64_t a)
{
    return a >> 63 ? 0 - a : a;
}

/* What DIVU DIVS MODU MODS give; `b` is not zero. */
static uint64_t divided(uint32_t op, uint64_t a, uint64_t b)
{
    uint64_t quotient, rest;
    if (op == WIRE_DIVU || op == WIRE_MODU) {
        quotient = divide(a, b, &rest);
        return op == WIRE_DIVU ? quotient : rest;
    }
    quotient = divide(magnitude(a), magnitude(b), &rest);
    if (op == WIRE_DIVS)
        return (a ^ b) >> 63 ? 0 - quotient : quotient;
    return a >> 63 ? 0 - rest : rest;
}

static uint64_t shift_right_signed(uint64_t a, uint32_t count)
{
    return (uint64_t)((int64_t)a >> count);
}

static uint64_t bits(uint64_t a, uint32_t first, uint32_t count, bool is_signed)
{
    a <<= 64 - first - count;
    return is_signed ? shift_right_signed(a, 64 - count) : a >> (64 - count);
}

static uint64_t swapped(uint64_t a, uint32_t size)
{
    uint64_t result = 0;
    for (uint32_t i = 0; i < size; i++)
        result = result << 8 | (a >> 8 * i & 0xff);
    return result;
}

/* ---- strings in the frame ---- */

static uint32_t string_length(const uint8_t *text, uint32_t room)
{
    uint32_t length = 0;
    while (length < room && text[length])
        length++;
    return length;
}

static bool strings_differ(const uint8_t *a, const uint8_t *b, uint32_t room)
{
    for (uint32_t i = 0; i < room; i++) {
        if (a[i] != b[i])
            return true;
        if (!a[i])
            return false;
    }
    return false;
}

static uint64_t string_find(const uint8_t *in, uint32_t in_room, const uint8_t *what, uint32_t what_room)
{
    uint32_t in_length = string_length(in, in_room), length = string_length(what, what_room);
    for (uint32_t at = 0; at + length <= in_length; at++) {
        uint32_t same = 0;
        while (same < length && in[at + same] == what[same])
            same++;
        if (same == length)
            return at;
    }
    return UINT64_MAX;
}

/* How many bytes of the pattern, which does not begin with *, match the character; 0: it does not. */
static uint32_t glob_one(const uint8_t *pattern, uint32_t length, uint8_t character)
{
    bool is_not = length > 1 && pattern[1] == '!', in = false;
    uint32_t at = 1 + is_not;
    if (pattern[0] != '[')
        return pattern[0] == '?' || pattern[0] == character;
    for (uint32_t first = at; at < length && (pattern[at] != ']' || at == first); at++) {
        bool is_range = at + 2 < length && pattern[at + 1] == '-' && pattern[at + 2] != ']';
        uint8_t low = pattern[at], high = pattern[is_range ? at + 2 : at];
        in |= low <= character && character <= high;
        at += is_range ? 2 : 0;
    }
    if (at == length) /* it has no end, and stands for itself */
        return character == '[';
    return in != is_not ? at + 1 : 0;
}

static bool glob_matches(const uint8_t *text, uint32_t text_room, const uint8_t *pattern, uint32_t pattern_room)
{
    uint32_t length = string_length(text, text_room), pattern_length = string_length(pattern, pattern_room);
    uint32_t at = 0, p = 0, after_star = UINT32_MAX, tried = 0, taken;
    while (at < length) {
        if (p < pattern_length && pattern[p] == '*') {
            after_star = ++p;
            tried = at;
        } else if (p < pattern_length && (taken = glob_one(pattern + p, pattern_length - p, text[at]))) {
            p += taken;
            at++;
        } else if (after_star != UINT32_MAX) { /* the last star takes one more */
            p = after_star;
            at = ++tried;
        } else {
            return false;
        }
    }
    while (p < pattern_length && pattern[p] == '*')
        p++;
    return p == pattern_length;
}

static uint64_t bytes_difference(const uint8_t *a, const uint8_t *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (a[i] != b[i])
            return (uint64_t)((int64_t)a[i] - b[i]);
    return 0;
}

/* ---- where it fired ---- */

static uint32_t word_bytes(const struct wire_fire *fire)
{
    return fire->model == WIRE_LP64 ? 8 : 4;
}

/* A word of the model at an offset from the stack pointer; 0 when it can not be read. */
static uint64_t stack_word(struct wire_fire *fire, uint32_t offset)
{
    uint64_t word = 0;
    return port_read(fire, fire->sp + offset, &word, word_bytes(fire)) ? load(&word, word_bytes(fire)) : 0;
}

static uint64_t machine_register(const struct wire_fire *fire, uint32_t number)
{
    return fire->machine_va ? ((const uint64_t *)(uintptr_t)fire->machine_va)[number] : 0;
}

static uint64_t argument(struct wire_fire *fire, uint32_t number)
{
    static const uint8_t in_register[] = {WIRE_REG64_DI, WIRE_REG64_SI, WIRE_REG64_DX, WIRE_REG64_CX, WIRE_REG64_R8, WIRE_REG64_R9};
    if (fire->model == WIRE_ILP32)
        return stack_word(fire, 4 + 4 * number);
    return number < sizeof in_register ? machine_register(fire, in_register[number]) : stack_word(fire, 8 + 8 * (number - 6));
}

static uint64_t context(struct wire_fire *fire, uint32_t what)
{
    const struct wire_session *session = (const void *)(uintptr_t)fire->session_va;
    switch (what) {
    case WIRE_CTX_ELAPSED:
        return port_ctx(fire, WIRE_CTX_NSECS) - session->start_ns;
    case WIRE_CTX_PLACE:
        return fire->place;
    case WIRE_CTX_SP:
        return fire->sp;
    case WIRE_CTX_RETURN:
        return stack_word(fire, 0);
    case WIRE_CTX_MODEL:
        return fire->model == WIRE_LP64 ? 64 : 32;
    default:
        return port_ctx(fire, what);
    }
}

static uint64_t take_stack(struct wire_fire *fire, const struct wire_insn *insn, uint64_t *room)
{
    uint64_t root = 0, *pcs = room + WIRE_WALK_BYTES / 8;
    uint32_t skipped = insn->h, got = port_stack(fire, room, pcs, (uint32_t)insn->i + skipped, &root), number = 0;
    got = got > skipped ? got - skipped : 0;
    if (got)
        number = stream_stack_add((struct wire_session *)(uintptr_t)fire->session_va, root, pcs + skipped, got);
    return number ? number | (uint64_t)got << WIRE_STACK_FRAMES_SHIFT | (uint64_t)insn->k << WIRE_STACK_MODE_SHIFT : 0;
}

/* ---- the target's memory ---- */

/* Reads a string in pieces that no boundary of 64 divides, so that a page behind its end is not touched. False: *failed_va can not be
 * read. */
static bool read_string(struct wire_fire *fire, uint64_t va, uint64_t limit, uint8_t *to, uint32_t room, uint64_t *length,
                        uint64_t *failed_va)
{
    uint32_t done = 0, most = limit < room ? (uint32_t)limit : room;
    most -= most != 0;
    while (done < most) {
        uint32_t piece = 64 - ((uint32_t)(va + done) & 63), got;
        if (piece > most - done)
            piece = most - done;
        if (!port_read(fire, va + done, to + done, piece)) {
            *failed_va = va + done;
            return false;
        }
        got = string_length(to + done, piece);
        done += got;
        if (got < piece)
            break;
    }
    zero_bytes(to + done, room - done);
    *length = done;
    return true;
}

/* ---- operations ---- */

static uint32_t failed(struct wire_fire *fire, uint32_t error, uint64_t value)
{
    fire->error = error;
    fire->error_value = value;
    return error;
}

uint32_t eval_op(struct wire_fire *fire, const struct wire_insn *insn)
{
    struct wire_session *session = (void *)(uintptr_t)fire->session_va;
    uint8_t *frame = (uint8_t *)(uintptr_t)fire->frame_va;
    const char *data = (const char *)session + session->data_offset;
    uint64_t *d = &fire->reg[insn->d], a = fire->reg[insn->a & 15], b = fire->reg[insn->b & 15], word = 0, i = (uint64_t)(int64_t)insn->i;
    const uint64_t *key = (const void *)(frame + insn->j);
    switch (insn->op) {
    case WIRE_MOVI:
        *d = i;
        break;
    case WIRE_MOVL:
        *d = load(data + insn->j, 8);
        break;
    case WIRE_MOV:
        *d = a;
        break;
    case WIRE_ADD:
        *d = a + b;
        break;
    case WIRE_SUB:
        *d = a - b;
        break;
    case WIRE_MUL:
        *d = a * b;
        break;
    case WIRE_AND:
        *d = a & b;
        break;
    case WIRE_OR:
        *d = a | b;
        break;
    case WIRE_XOR:
        *d = a ^ b;
        break;
    case WIRE_SHL:
        *d = a << (b & 63);
        break;
    case WIRE_SHR:
        *d = a >> (b & 63);
        break;
    case WIRE_SAR:
        *d = shift_right_signed(a, (uint32_t)b & 63);
        break;
    case WIRE_DIVU:
    case WIRE_DIVS:
    case WIRE_MODU:
    case WIRE_MODS:
        if (!b)
            return failed(fire, WIRE_ERROR_DIVIDE, 0);
        *d = divided(insn->op, a, b);
        break;
    case WIRE_EQ:
        *d = a == b;
        break;
    case WIRE_NE:
        *d = a != b;
        break;
    case WIRE_LTU:
        *d = a < b;
        break;
    case WIRE_LTS:
        *d = (int64_t)a < (int64_t)b;
        break;
    case WIRE_LEU:
        *d = a <= b;
        break;
    case WIRE_LES:
        *d = (int64_t)a <= (int64_t)b;
        break;
    case WIRE_ADDI:
        *d = a + i;
        break;
    case WIRE_MULI:
        *d = a * i;
        break;
    case WIRE_ANDI:
        *d = a & i;
        break;
    case WIRE_ORI:
        *d = a | i;
        break;
    case WIRE_XORI:
        *d = a ^ i;
        break;
    case WIRE_SHLI:
        *d = a << i;
        break;
    case WIRE_SHRI:
        *d = a >> i;
        break;
    case WIRE_SARI:
        *d = shift_right_signed(a, (uint32_t)i);
        break;
    case WIRE_EQI:
        *d = a == i;
        break;
    case WIRE_NEI:
        *d = a != i;
        break;
    case WIRE_LTUI:
        *d = a < i;
        break;
    case WIRE_LTSI:
        *d = (int64_t)a < (int64_t)i;
        break;
    case WIRE_GTUI:
        *d = a > i;
        break;
    case WIRE_GTSI:
        *d = (int64_t)a > (int64_t)i;
        break;
    case WIRE_NEG:
        *d = 0 - a;
        break;
    case WIRE_NOT:
        *d = ~a;
        break;
    case WIRE_LNOT:
        *d = a == 0;
        break;
    case WIRE_EXT:
        *d = load(&a, insn->k);
        break;
    case WIRE_BITS:
        *d = bits(a, insn->k, insn->h, insn->i);
        break;
    case WIRE_BSWAP:
        *d = swapped(a, insn->k);
        break;
    case WIRE_FADD:
        *d = softfloat_add(a, b);
        break;
    case WIRE_FSUB:
        *d = softfloat_sub(a, b);
        break;
    case WIRE_FMUL:
        *d = softfloat_mul(a, b);
        break;
    case WIRE_FDIV:
        *d = softfloat_div(a, b);
        break;
    case WIRE_FEQ:
        *d = softfloat_eq(a, b);
        break;
    case WIRE_FLT:
        *d = softfloat_lt(a, b);
        break;
    case WIRE_FLE:
        *d = softfloat_le(a, b);
        break;
    case WIRE_I2F:
        *d = softfloat_from_int((int64_t)a);
        break;
    case WIRE_F2I:
        *d = (uint64_t)softfloat_to_int(a);
        break;
    case WIRE_F2D:
        *d = softfloat_from_float((uint32_t)a);
        break;
    case WIRE_CTX:
        *d = context(fire, (uint32_t)insn->i);
        break;
    case WIRE_ARG:
        *d = argument(fire, (uint32_t)insn->i);
        break;
    case WIRE_REG:
        *d = machine_register(fire, (uint32_t)insn->i);
        break;
    case WIRE_XMM:
        *d = port_xmm(fire, (uint32_t)insn->i, insn->k);
        break;
    case WIRE_ST0:
        *d = port_st0(fire);
        break;
    case WIRE_USTACK:
        *d = take_stack(fire, insn, (uint64_t *)(void *)(frame + insn->j));
        break;
    case WIRE_COMM:
        port_comm(fire, insn->i, (char *)frame + insn->j);
        break;
    case WIRE_LDT:
        if (!port_read(fire, a + i, &word, insn->k & 15))
            return failed(fire, WIRE_ERROR_READ, a + i);
        *d = load(&word, insn->k);
        break;
    case WIRE_STRT:
        if (!read_string(fire, a, b, frame + insn->j, (uint32_t)insn->i, &word, &a))
            return failed(fire, WIRE_ERROR_READ, a);
        *d = word;
        break;
    case WIRE_BUFT:
        if (b > i)
            b = i;
        if (b && !port_read(fire, a, frame + insn->j, (uint32_t)b))
            return failed(fire, WIRE_ERROR_READ, a);
        zero_bytes(frame + insn->j + b, (uint32_t)(i - b));
        *d = b;
        break;
    case WIRE_FLD:
        *d = load(frame + insn->j, insn->k);
        break;
    case WIRE_FST:
        store(frame + insn->j, a, insn->k);
        break;
    case WIRE_FLDX:
        if (a >= (uint32_t)i / (insn->k & 15u))
            return failed(fire, WIRE_ERROR_BOUNDS, a);
        *d = load(frame + insn->j + a * (insn->k & 15), insn->k);
        break;
    case WIRE_BOUND:
        if (a >= (uint32_t)i)
            return failed(fire, WIRE_ERROR_BOUNDS, a);
        *d = a;
        break;
    case WIRE_FCPY:
        copy_bytes(frame + insn->j, frame + insn->i, insn->h);
        break;
    case WIRE_FZERO:
        zero_bytes(frame + insn->j, (uint32_t)insn->i);
        break;
    case WIRE_FDATA:
        copy_bytes(frame + insn->j, data + insn->i, insn->h);
        break;
    case WIRE_SLEN:
        *d = string_length(frame + insn->j, (uint32_t)insn->i);
        break;
    case WIRE_SCMP:
        *d = strings_differ(frame + insn->j, frame + insn->i, insn->h);
        break;
    case WIRE_SFIND:
        *d = string_find(frame + insn->j, insn->h, frame + insn->i, insn->b + 256u * insn->k);
        break;
    case WIRE_SGLOB:
        *d = glob_matches(frame + insn->j, insn->h, frame + insn->i, insn->b + 256u * insn->k);
        break;
    case WIRE_BCMP:
        *d = bytes_difference(frame + insn->j, frame + insn->i, insn->h);
        break;
    case WIRE_MGET:
        *d = (uint64_t)stream_map_get(session, insn->h, key);
        break;
    case WIRE_MSET:
        if (!stream_map_set(session, insn->h, key, (int64_t)a))
            return failed(fire, WIRE_ERROR_MAP_FULL, insn->h);
        break;
    case WIRE_MADD:
        if (!stream_map_add(session, insn->h, key, (int64_t)a, (int64_t *)&word))
            return failed(fire, WIRE_ERROR_MAP_FULL, insn->h);
        *d = word;
        break;
    case WIRE_MGETV:
        *d = stream_map_get_value(session, insn->h, key, frame + insn->i);
        break;
    case WIRE_MSETV:
        if (!stream_map_set_value(session, insn->h, key, frame + insn->i))
            return failed(fire, WIRE_ERROR_MAP_FULL, insn->h);
        break;
    case WIRE_MDEL:
        *d = stream_map_delete(session, insn->h, key);
        break;
    case WIRE_MHAS:
        *d = stream_map_has(session, insn->h, key);
        break;
    case WIRE_MLEN:
        *d = stream_map_length(session, insn->h);
        break;
    case WIRE_MAGG:
        if (stream_map(session, insn->h)->type.kind == WIRE_MAP_TSERIES
                ? !stream_map_add_point(session, insn->h, key, (int64_t)a, port_ctx(fire, WIRE_CTX_NSECS))
                : !stream_map_aggregate(session, insn->h, key, (int64_t)a, 1, (uint32_t)port_ctx(fire, WIRE_CTX_CPU)))
            return failed(fire, WIRE_ERROR_MAP_FULL, insn->h);
        break;
    case WIRE_MAGGN:
        if (!stream_map_aggregate(session, insn->h, key, (int64_t)a, b, (uint32_t)port_ctx(fire, WIRE_CTX_CPU)))
            return failed(fire, WIRE_ERROR_MAP_FULL, insn->h);
        break;
    case WIRE_MRED:
        *d = (uint64_t)stream_map_reduce(session, insn->h, key, insn->k);
        break;
    case WIRE_MNEXT:
        *d = stream_map_next(session, insn->h, (uint64_t *)(void *)(frame + insn->i), frame + insn->j);
        if (!*d)
            zero_bytes(frame + insn->j, stream_map(session, insn->h)->type.key_bytes);
        break;
    case WIRE_EMIT:
        stream_ring_write(fire, insn->h, frame + insn->i, insn->j);
        break;
    case WIRE_SPECNEW:
        *d = __atomic_add_fetch(&wire_state(session)->speculations, 1, __ATOMIC_RELAXED);
        *d += !*d;
        break;
    case WIRE_SPECSET:
        fire->speculation = (uint32_t)a;
        break;
    case WIRE_SIGNAL:
        port_signal(fire, (int)a);
        break;
    }
    return WIRE_ERROR_NONE;
}

/* ---- a run ---- */

uint32_t eval_run(struct wire_fire *fire, const struct wire_insn *code, uint32_t count)
{
    uint32_t at = 0, error = WIRE_ERROR_NONE;
    fire->fuel = WIRE_FUEL;
    fire->speculation = 0;
    fire->error = WIRE_ERROR_NONE;
    fire->error_value = 0;
    fire->error_insn = 0;
    while (at < count && !error) {
        const struct wire_insn *insn = &code[at++];
        switch (insn->op) {
        case WIRE_JMP:
            at = insn->j;
            break;
        case WIRE_JZ:
            at = fire->reg[insn->a] ? at : insn->j;
            break;
        case WIRE_JNZ:
            at = fire->reg[insn->a] ? insn->j : at;
            break;
        case WIRE_LOOP:
            if (!fire->fuel) {
                error = failed(fire, WIRE_ERROR_FUEL, 0);
                break;
            }
            fire->fuel--;
            at = insn->j;
            break;
        case WIRE_END:
            return WIRE_ERROR_NONE;
        case WIRE_ENDZ:
            if (!fire->reg[insn->a])
                return WIRE_ERROR_NONE;
            break;
        default:
            error = eval_op(fire, insn);
        }
        if (error)
            fire->error_insn = (uint32_t)(insn - code);
    }
    return error;
}
