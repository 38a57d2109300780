#include "stream/lower_internal.h"

#include <string.h>
#include <unistd.h>

/* ---- types ---- */

bool lower_is_scalar(const struct script_type *type)
{
    return type->kind == SCRIPT_T_BOOL || type->kind == SCRIPT_T_INT || type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE;
}

uint64_t lower_value_bytes(const struct script_type *type)
{
    return script_type_value_bytes(type);
}

uint64_t lower_whole_bytes(const struct script_type *type)
{
    return lower_is_scalar(type) ? 8 : (lower_value_bytes(type) + 7) & ~(uint64_t)7;
}

uint8_t lower_size(const struct script_type *type)
{
    if (type->kind == SCRIPT_T_POINTER || type->kind == SCRIPT_T_DOUBLE)
        return 8;
    return (uint8_t)(type->bytes | (type->kind == SCRIPT_T_INT && type->is_signed && type->bytes < 8 ? WIRE_SIGNED : 0));
}

/* ---- conversions ---- */

/* Whether every value of `from` is one of `to` in the same 64 bits. */
static bool fits(const struct script_type *from, const struct script_type *to)
{
    if (to->kind == SCRIPT_T_POINTER || to->bytes >= 8)
        return true;
    if (from->kind == SCRIPT_T_BOOL)
        return true;
    if (from->kind != SCRIPT_T_INT)
        return false;
    return from->is_signed == to->is_signed ? from->bytes <= to->bytes : !from->is_signed && from->bytes < to->bytes;
}

void lower_convert(struct lowering *emit, uint8_t reg, const struct script_type *from, const struct script_type *to)
{
    if (to->kind == SCRIPT_T_BOOL && from->kind == SCRIPT_T_DOUBLE) {
        uint8_t zero = lower_push(emit);
        lower_constant(emit, zero, 0);
        lower_put_dab(emit, WIRE_FEQ, reg, reg, zero);
        lower_put_dab(emit, WIRE_LNOT, reg, reg, 0);
        emit->depth--;
    } else if (to->kind == SCRIPT_T_BOOL) {
        if (from->kind != SCRIPT_T_BOOL)
            lower_put_dai(emit, WIRE_NEI, reg, reg, 0);
    } else if (to->kind == SCRIPT_T_DOUBLE) {
        if (from->kind != SCRIPT_T_DOUBLE)
            lower_put_dab(emit, WIRE_I2F, reg, reg, 0);
    } else if (from->kind == SCRIPT_T_DOUBLE) {
        lower_put_dab(emit, WIRE_F2I, reg, reg, 0);
        lower_extend(emit, reg, to);
    } else if (!fits(from, to)) {
        lower_extend(emit, reg, to);
    }
}

/* Strings: the whole room of the target is defined, and ends in a zero. */
static void convert_string(struct lowering *emit, uint64_t from_bytes, uint32_t from, uint64_t to_bytes, uint32_t to)
{
    uint64_t common = from_bytes < to_bytes ? from_bytes : to_bytes;
    lower_put_copy(emit, to, from, common);
    lower_put_zero(emit, to + (uint32_t)common, to_bytes - common);
    if (from_bytes > to_bytes)
        lower_put_zero(emit, to + (uint32_t)to_bytes - 1, 1);
}

/* A value inside the frame at `from` as another type at `to`, each as it is inside a tuple. */
static void convert_frame(struct lowering *emit, const struct script_type *from_type, uint32_t from, const struct script_type *to_type,
                          uint32_t to)
{
    if (lower_is_scalar(to_type)) {
        uint8_t reg = lower_load_frame(emit, from_type, from);
        lower_convert(emit, reg, from_type, to_type);
        lower_put_frame(emit, WIRE_FST, reg, lower_size(to_type), to);
        emit->depth--;
    } else if (to_type->kind == SCRIPT_T_STRING && from_type->kind == SCRIPT_T_STRING) {
        convert_string(emit, from_type->bytes, from, to_type->bytes, to);
    } else if (to_type->kind == SCRIPT_T_TUPLE && from_type->kind == SCRIPT_T_TUPLE && from_type->count == to_type->count) {
        lower_put_zero(emit, to, lower_value_bytes(to_type));
        for (uint64_t i = 0; i < to_type->count; i++)
            convert_frame(emit, from_type->items[i].type, from + (uint32_t)from_type->items[i].offset, to_type->items[i].type,
                          to + (uint32_t)to_type->items[i].offset);
    } else {
        uint64_t had = lower_value_bytes(from_type), wanted = lower_value_bytes(to_type), common = had < wanted ? had : wanted;
        lower_put_copy(emit, to, from, common);
        lower_put_zero(emit, to + (uint32_t)common, wanted - common);
    }
}

/* ---- maps ---- */

uint32_t lower_key(struct lowering *emit, const struct script_expr *key)
{
    if (!key)
        return 0;
    uint32_t offset = lower_room(emit, lower_whole_bytes(key->type));
    lower_whole(emit, key, offset);
    return offset;
}

uint32_t lower_thread_key(struct lowering *emit)
{
    uint32_t offset = lower_room(emit, 8);
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, WIRE_CTX);
    insn->d = reg;
    insn->i = WIRE_CTX_TID;
    lower_put_frame(emit, WIRE_FST, reg, 8, offset);
    emit->depth--;
    return offset;
}

static uint32_t reduce_of(uint32_t kind)
{
    return kind == WIRE_MAP_AVG     ? WIRE_REDUCE_AVG
           : kind == WIRE_MAP_MIN   ? WIRE_REDUCE_MIN
           : kind == WIRE_MAP_MAX   ? WIRE_REDUCE_MAX
           : kind == WIRE_MAP_SUM   ? WIRE_REDUCE_SUM
           : kind == WIRE_MAP_STATS ? WIRE_REDUCE_AVG
                                    : WIRE_REDUCE_COUNT;
}

uint8_t lower_map_scalar(struct lowering *emit, uint32_t map, uint32_t key, const struct script_type *type)
{
    uint32_t kind = emit->builder->map.at[map].kind;
    if (kind == WIRE_MAP_VALUE) {
        lower_fail(emit, "the map's values are no numbers");
        return lower_push(emit);
    }
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, kind == WIRE_MAP_INT ? WIRE_MGET : WIRE_MRED);
    insn->d = reg;
    insn->h = (uint16_t)map;
    insn->j = key;
    insn->k = kind == WIRE_MAP_INT ? 0 : (uint8_t)reduce_of(kind);
    lower_extend(emit, reg, type);
    return reg;
}

void lower_map_bytes(struct lowering *emit, uint32_t map, uint32_t key, uint32_t offset)
{
    uint8_t reg = lower_push(emit);
    struct wire_insn *insn = lower_put(emit, WIRE_MGETV);
    insn->d = reg;
    insn->h = (uint16_t)map;
    insn->j = key;
    insn->i = (int32_t)offset;
    emit->depth--;
}

/* A map or a variable of the thread: its number and key. */
static uint32_t map_of(struct lowering *emit, const struct script_expr *expr, uint32_t *key)
{
    if (expr->kind == SCRIPT_E_THREAD) {
        *key = lower_thread_key(emit);
        return emit->builder->thread_map + expr->slot;
    }
    *key = lower_key(emit, expr->key);
    return expr->map;
}

/* ---- the machine ---- */

static uint8_t builtin_scalar(struct lowering *emit, const struct script_expr *expr)
{
    static const struct {
        enum script_builtin builtin;
        uint32_t ctx;
    } direct[] = {{SCRIPT_B_PID, WIRE_CTX_PID}, {SCRIPT_B_TID, WIRE_CTX_TID},     {SCRIPT_B_UID, WIRE_CTX_UID},
                  {SCRIPT_B_GID, WIRE_CTX_GID}, {SCRIPT_B_NSECS, WIRE_CTX_NSECS}, {SCRIPT_B_ELAPSED, WIRE_CTX_ELAPSED},
                  {SCRIPT_B_CPU, WIRE_CTX_CPU}, {SCRIPT_B_RAND, WIRE_CTX_RAND},   {SCRIPT_B_PPID, WIRE_CTX_PPID}};
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (direct[i].builtin == expr->builtin)
            return lower_put_ctx(emit, direct[i].ctx);
    bool wide = emit->model == WIRE_LP64;
    uint8_t reg;
    switch (expr->builtin) {
    case SCRIPT_B_ARG:
        if (emit->from->args[emit->model])
            return lower_usdt_argument(emit, expr->value);
        reg = lower_push(emit);
        if (expr->value > 63)
            lower_fail(emit, "there are 64 arguments at most");
        struct wire_insn *insn = lower_put(emit, WIRE_ARG);
        insn->d = reg;
        insn->i = (int32_t)(expr->value & 63);
        return reg;
    case SCRIPT_B_SARG:
        reg = lower_put_ctx(emit, WIRE_CTX_SP);
        lower_put_load(emit, reg, reg, (int64_t)(wide ? 8 + 8 * (expr->value & 63) : 4 + 4 * (expr->value & 63)), wide ? 8 : 4);
        return reg;
    case SCRIPT_B_MODEL:
        reg = lower_push(emit);
        lower_constant(emit, reg, wide ? 64 : 32);
        return reg;
    case SCRIPT_B_NCPUS:
        reg = lower_push(emit);
        lower_constant(emit, reg, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
        return reg;
    case SCRIPT_B_CPID:
        reg = lower_push(emit);
        insn = lower_put(emit, WIRE_MGET);
        insn->d = reg;
        insn->h = (uint16_t)emit->builder->out->child_map;
        return reg;
    case SCRIPT_B_HAS_CPID:
        reg = lower_push(emit);
        lower_constant(emit, reg, emit->builder->options->has_child);
        return reg;
    case SCRIPT_B_NUMAID:
    case SCRIPT_B_USERMODE:
        reg = lower_push(emit);
        lower_constant(emit, reg, expr->builtin == SCRIPT_B_USERMODE);
        return reg;
    default:
        lower_fail(emit, "%s can not be used here", script_builtin_name(expr->builtin));
        return lower_push(emit);
    }
}

/* Names are numbers until they are printed. */
static const struct name_builtin {
    enum script_builtin builtin;
    uint32_t ctx;
    enum script_name name;
} name_builtins[] = {{SCRIPT_B_FUNC, WIRE_CTX_FUNC, SCRIPT_NAME_FUNCTION},
                     {SCRIPT_B_PROBE, WIRE_CTX_PROBE, SCRIPT_NAME_PROBE},
                     {SCRIPT_B_PROBETYPE, WIRE_CTX_PROBE, SCRIPT_NAME_PROBETYPE},
                     {SCRIPT_B_USERNAME, WIRE_CTX_UID, SCRIPT_NAME_USER}};

static void builtin_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    for (size_t i = 0; i < sizeof name_builtins / sizeof *name_builtins; i++) {
        if (name_builtins[i].builtin != expr->builtin)
            continue;
        /* One store: what is read as a whole should be written as a whole. */
        uint8_t reg = lower_put_ctx(emit, name_builtins[i].ctx), what = lower_push(emit);
        lower_constant(emit, what, (uint64_t)name_builtins[i].name << 32);
        lower_put_dab(emit, WIRE_OR, reg, reg, what);
        lower_put_frame(emit, WIRE_FST, reg, 8, offset);
        emit->depth -= 2;
        return;
    }
    if (expr->builtin == SCRIPT_B_COMM || expr->builtin == SCRIPT_B_PCOMM) {
        struct wire_insn *insn = lower_put(emit, WIRE_COMM);
        insn->j = offset;
        insn->i = expr->builtin == SCRIPT_B_PCOMM;
        lower_put_zero(emit, offset + 16, expr->type->bytes > 16 ? expr->type->bytes - 16 : 0);
        return;
    }
    lower_fail(emit, "%s can not be used here", script_builtin_name(expr->builtin));
}

static uint8_t register_scalar(struct lowering *emit, const struct script_expr *expr)
{
    static const char *const names64[] = {"ax", "dx",  "cx",  "bx",  "si",  "di",  "bp",  "sp", "r8",
                                          "r9", "r10", "r11", "r12", "r13", "r14", "r15", "ip", "flags"};
    static const char *const names32[] = {"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "ip", "flags"};
    bool wide = emit->model == WIRE_LP64;
    const char *const *names = wide ? names64 : names32;
    for (uint32_t i = 0; i < (wide ? WIRE_REG64_COUNT : WIRE_REG32_COUNT); i++) {
        if (strcmp(names[i], expr->text))
            continue;
        if (!strcmp(expr->text, "sp"))
            return lower_put_ctx(emit, WIRE_CTX_SP);
        return !strcmp(expr->text, "ip") ? lower_put_ctx(emit, WIRE_CTX_PC) : lower_put_reg(emit, i);
    }
    lower_fail(emit, "there is no register %s", expr->text);
    return lower_push(emit);
}

/* ---- operations ---- */

static uint8_t unary_scalar(struct lowering *emit, const struct script_expr *expr)
{
    if (expr->op == SCRIPT_O_NEG && expr->type->kind == SCRIPT_T_DOUBLE) {
        uint8_t zero = lower_push(emit);
        lower_constant(emit, zero, 1ull << 63);
        uint8_t value = lower_scalar(emit, expr->left);
        lower_put_dab(emit, WIRE_XOR, zero, zero, value);
        emit->depth--;
        return zero;
    }
    uint8_t reg = lower_scalar(emit, expr->left);
    lower_put_dab(emit, expr->op == SCRIPT_O_NEG ? WIRE_NEG : expr->op == SCRIPT_O_INV ? WIRE_NOT : WIRE_LNOT, reg, reg, 0);
    lower_extend(emit, reg, expr->type);
    return reg;
}

/* The operation with a constant at its right, if there is one. */
static enum wire_op with_constant(const struct script_expr *expr, bool is_signed)
{
    if (!expr->right || expr->right->kind != SCRIPT_E_INT || (int64_t)expr->right->value != (int32_t)expr->right->value)
        return WIRE_OP_COUNT;
    bool shift = expr->right->value < 64;
    switch (expr->op) {
    case SCRIPT_O_ADD:
        return WIRE_ADDI;
    case SCRIPT_O_MUL:
        return WIRE_MULI;
    case SCRIPT_O_AND:
        return WIRE_ANDI;
    case SCRIPT_O_OR:
        return WIRE_ORI;
    case SCRIPT_O_XOR:
        return WIRE_XORI;
    case SCRIPT_O_SHL:
        return shift ? WIRE_SHLI : WIRE_OP_COUNT;
    case SCRIPT_O_SHR:
        return !shift ? WIRE_OP_COUNT : is_signed ? WIRE_SARI : WIRE_SHRI;
    case SCRIPT_O_EQ:
        return WIRE_EQI;
    case SCRIPT_O_NE:
        return WIRE_NEI;
    case SCRIPT_O_LT:
        return is_signed ? WIRE_LTSI : WIRE_LTUI;
    case SCRIPT_O_GT:
        return is_signed ? WIRE_GTSI : WIRE_GTUI;
    default:
        return WIRE_OP_COUNT;
    }
}

static enum wire_op plain_op(enum script_op op, bool is_signed, bool is_double)
{
    switch (op) {
    case SCRIPT_O_ADD:
        return is_double ? WIRE_FADD : WIRE_ADD;
    case SCRIPT_O_SUB:
        return is_double ? WIRE_FSUB : WIRE_SUB;
    case SCRIPT_O_MUL:
        return is_double ? WIRE_FMUL : WIRE_MUL;
    case SCRIPT_O_DIV:
        return is_double ? WIRE_FDIV : is_signed ? WIRE_DIVS : WIRE_DIVU;
    case SCRIPT_O_MOD:
        return is_signed ? WIRE_MODS : WIRE_MODU;
    case SCRIPT_O_AND:
        return WIRE_AND;
    case SCRIPT_O_OR:
        return WIRE_OR;
    case SCRIPT_O_XOR:
        return WIRE_XOR;
    case SCRIPT_O_SHL:
        return WIRE_SHL;
    case SCRIPT_O_SHR:
        return is_signed ? WIRE_SAR : WIRE_SHR;
    case SCRIPT_O_LT:
    case SCRIPT_O_GT: /* operands changed over */
        return is_double ? WIRE_FLT : is_signed ? WIRE_LTS : WIRE_LTU;
    case SCRIPT_O_LE:
    case SCRIPT_O_GE:
        return is_double ? WIRE_FLE : is_signed ? WIRE_LES : WIRE_LEU;
    case SCRIPT_O_EQ:
    case SCRIPT_O_NE: /* of doubles: turned round afterwards */
        return is_double ? WIRE_FEQ : op == SCRIPT_O_EQ ? WIRE_EQ : WIRE_NE;
    default:
        return WIRE_OP_COUNT;
    }
}

static uint8_t binary_scalar(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_type *type = expr->left->type;
    bool is_signed = type->kind == SCRIPT_T_INT && type->is_signed, is_double = type->kind == SCRIPT_T_DOUBLE;
    uint8_t left = lower_scalar(emit, expr->left);
    enum wire_op op = is_double ? WIRE_OP_COUNT : with_constant(expr, is_signed);
    if (op != WIRE_OP_COUNT) {
        lower_put_dai(emit, op, left, left, (int32_t)expr->right->value);
    } else {
        uint8_t right = lower_scalar(emit, expr->right);
        bool swap = expr->op == SCRIPT_O_GT || expr->op == SCRIPT_O_GE;
        lower_put_dab(emit, plain_op(expr->op, is_signed, is_double), left, swap ? right : left, swap ? left : right);
        if (is_double && expr->op == SCRIPT_O_NE)
            lower_put_dab(emit, WIRE_LNOT, left, left, 0);
        emit->depth--;
    }
    if (expr->kind == SCRIPT_E_BINARY)
        lower_extend(emit, left, expr->type);
    return left;
}

static uint8_t compare_name(struct lowering *emit, const struct script_expr *expr)
{
    const struct name_builtin *name = &name_builtins[0];
    for (size_t i = 0; i < sizeof name_builtins / sizeof *name_builtins; i++)
        if (name_builtins[i].builtin == expr->left->builtin)
            name = &name_builtins[i];
    uint8_t reg = lower_put_ctx(emit, name->ctx), wanted = lower_push(emit);
    uint32_t map = stream_builder_name(emit->builder, name->name, expr->right->text);
    struct wire_insn *insn = lower_put(emit, WIRE_MGET);
    insn->d = wanted;
    insn->h = (uint16_t)map;
    lower_put_dab(emit, expr->op == SCRIPT_O_EQ ? WIRE_EQ : WIRE_NE, reg, reg, wanted);
    emit->depth--;
    return reg;
}

static uint8_t compare_bytes(struct lowering *emit, const struct script_expr *expr)
{
    uint32_t a = lower_located(emit, expr->left), b = lower_located(emit, expr->right);
    uint64_t bytes = lower_value_bytes(expr->left->type), other = lower_value_bytes(expr->right->type);
    bytes = bytes < other ? bytes : other;
    uint8_t reg = lower_push(emit);
    if (expr->left->type->kind == SCRIPT_T_STRING) {
        struct wire_insn *insn = lower_put(emit, WIRE_SCMP);
        insn->d = reg;
        insn->j = a;
        insn->i = (int32_t)b;
        insn->h = (uint16_t)bytes;
    } else {
        uint8_t x = lower_push(emit), y = lower_push(emit);
        lower_constant(emit, reg, 0);
        for (uint64_t at = 0; at < bytes;) {
            uint8_t size = bytes - at >= 8 ? 8 : bytes - at >= 4 ? 4 : bytes - at >= 2 ? 2 : 1;
            lower_put_frame(emit, WIRE_FLD, x, size, a + (uint32_t)at);
            lower_put_frame(emit, WIRE_FLD, y, size, b + (uint32_t)at);
            lower_put_dab(emit, WIRE_XOR, x, x, y);
            lower_put_dab(emit, WIRE_OR, reg, reg, x);
            at += size;
        }
        emit->depth -= 2;
    }
    lower_put_dai(emit, expr->op == SCRIPT_O_EQ ? WIRE_EQI : WIRE_NEI, reg, reg, 0);
    return reg;
}

/* && and ||: the right side only if the left one does not decide. */
static uint8_t logic_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg = lower_scalar(emit, expr->left);
    uint32_t jump = lower_jump(emit, expr->kind == SCRIPT_E_AND ? WIRE_JZ : WIRE_JNZ, reg);
    emit->depth--;
    lower_scalar(emit, expr->right); /* the same register */
    lower_land(emit, jump);
    return reg;
}

static uint8_t choose_scalar(struct lowering *emit, const struct script_expr *expr)
{
    uint8_t reg = lower_scalar(emit, expr->condition);
    uint32_t other = lower_jump(emit, WIRE_JZ, reg);
    emit->depth--;
    lower_scalar(emit, expr->left);
    uint32_t end = lower_jump(emit, WIRE_JMP, 0);
    lower_land(emit, other);
    emit->depth--;
    lower_scalar(emit, expr->right);
    lower_land(emit, end);
    return reg;
}

static uint8_t step_scalar(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_expr *target = expr->target;
    uint8_t reg;
    if (target->kind == SCRIPT_E_SCRATCH) {
        uint32_t offset = emit->slot_offset[target->slot];
        reg = lower_load_frame(emit, target->type, offset);
        uint8_t sum = lower_push(emit), add = lower_push(emit);
        lower_constant(emit, add, expr->value);
        lower_put_dab(emit, WIRE_ADD, sum, reg, add);
        lower_extend(emit, sum, target->type);
        lower_put_frame(emit, WIRE_FST, sum, lower_size(target->type), offset);
        if (!expr->is_post)
            lower_put_dab(emit, WIRE_MOV, reg, sum, 0);
        emit->depth -= 2;
        return reg;
    }
    uint32_t key, map = map_of(emit, target, &key);
    reg = lower_push(emit);
    lower_constant(emit, reg, expr->value);
    uint8_t sum = lower_push(emit);
    struct wire_insn *insn = lower_put_dab(emit, WIRE_MADD, sum, reg, 0);
    insn->h = (uint16_t)map;
    insn->j = key;
    if (expr->is_post)
        lower_put_dab(emit, WIRE_SUB, reg, sum, reg);
    else
        lower_put_dab(emit, WIRE_MOV, reg, sum, 0);
    emit->depth--;
    return reg;
}

/* ---- any expression ---- */

static uint8_t convert_scalar(struct lowering *emit, const struct script_expr *expr)
{
    const struct script_type *from = expr->left->type;
    if (lower_is_scalar(from)) {
        uint8_t reg = lower_scalar(emit, expr->left);
        lower_convert(emit, reg, from, expr->type);
        return reg;
    }
    uint32_t offset = lower_located(emit, expr->left);
    uint64_t bytes = lower_value_bytes(from);
    uint8_t reg = lower_push(emit);
    uint8_t size = bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1;
    lower_put_frame(emit, WIRE_FLD, reg, size, offset);
    lower_extend(emit, reg, expr->type);
    return reg;
}

uint8_t lower_scalar(struct lowering *emit, const struct script_expr *expr)
{
    struct script_span outer = emit->span;
    emit->span = expr->span;
    uint8_t reg = 0;
    uint32_t key, map;
    uint64_t bits;
    switch (expr->kind) {
    case SCRIPT_E_INT:
        reg = lower_push(emit);
        lower_constant(emit, reg, expr->value);
        break;
    case SCRIPT_E_DOUBLE:
        memcpy(&bits, &expr->number, sizeof bits);
        reg = lower_push(emit);
        lower_constant(emit, reg, bits);
        break;
    case SCRIPT_E_SCRATCH:
        reg = lower_load_frame(emit, expr->type, emit->slot_offset[expr->slot]);
        break;
    case SCRIPT_E_MAP:
    case SCRIPT_E_THREAD:
        map = map_of(emit, expr, &key);
        reg = lower_map_scalar(emit, map, key, expr->type);
        break;
    case SCRIPT_E_BUILTIN:
        reg = builtin_scalar(emit, expr);
        break;
    case SCRIPT_E_ARGUMENT:
        reg = lower_argument_scalar(emit, expr);
        break;
    case SCRIPT_E_RETVAL:
        reg = lower_retval(emit, expr);
        break;
    case SCRIPT_E_REGISTER:
        reg = register_scalar(emit, expr);
        break;
    case SCRIPT_E_UNARY:
        reg = unary_scalar(emit, expr);
        break;
    case SCRIPT_E_BINARY:
    case SCRIPT_E_COMPARE:
        reg = binary_scalar(emit, expr);
        break;
    case SCRIPT_E_COMPARE_BYTES:
        reg = expr->left->type->kind == SCRIPT_T_NAME ? compare_name(emit, expr) : compare_bytes(emit, expr);
        break;
    case SCRIPT_E_AND:
    case SCRIPT_E_OR:
        reg = logic_scalar(emit, expr);
        break;
    case SCRIPT_E_CHOOSE:
        reg = choose_scalar(emit, expr);
        break;
    case SCRIPT_E_CONVERT:
        reg = convert_scalar(emit, expr);
        break;
    case SCRIPT_E_STEP:
        reg = step_scalar(emit, expr);
        break;
    case SCRIPT_E_BLOCK:
        lower_statements(emit, expr->body);
        reg = lower_scalar(emit, expr->left);
        break;
    case SCRIPT_E_LOAD:
        reg = lower_load_scalar(emit, expr);
        break;
    case SCRIPT_E_EXTRACT:
        reg = lower_extract_scalar(emit, expr);
        break;
    case SCRIPT_E_ELEMENT:
        reg = lower_element_scalar(emit, expr);
        break;
    case SCRIPT_E_ADDRESS:
        reg = lower_address_scalar(emit, expr);
        break;
    case SCRIPT_E_CALL:
        reg = lower_call_scalar(emit, expr);
        break;
    default:
        lower_fail(emit, "this can not be used as a number");
        reg = lower_push(emit);
    }
    emit->span = outer;
    return reg;
}

/* ---- bytes ---- */

static void string_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint64_t room = expr->type->bytes, length = expr->length < room ? expr->length : room - 1;
    uint32_t at = stream_builder_data(emit->builder, expr->text, length);
    if (length) {
        struct wire_insn *insn = lower_put(emit, WIRE_FDATA);
        insn->j = offset;
        insn->i = (int32_t)at;
        insn->h = (uint16_t)length;
    }
    lower_put_zero(emit, offset + (uint32_t)length, room - length);
}

static void tuple_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    const struct script_type *type = expr->type;
    uint64_t used = 0;
    for (uint64_t i = 0; i < type->count; i++)
        used += lower_value_bytes(type->items[i].type);
    if (used != lower_value_bytes(type))
        lower_put_zero(emit, offset, lower_value_bytes(type));
    for (size_t i = 0; i < expr->n_list; i++) {
        uint32_t at = offset + (uint32_t)type->items[i].offset;
        if (lower_is_scalar(expr->list[i]->type)) {
            uint8_t reg = lower_scalar(emit, expr->list[i]);
            lower_put_frame(emit, WIRE_FST, reg, lower_size(type->items[i].type), at);
            emit->depth--;
        } else {
            lower_bytes(emit, expr->list[i], at);
        }
    }
}

/* The members as they lie in memory. */
static void record_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    const struct script_record *record = expr->type->record;
    lower_put_zero(emit, offset, lower_value_bytes(expr->type));
    for (size_t i = 0; i < expr->n_list && i < record->n_members; i++) {
        const struct script_member *member = &record->members[i];
        uint32_t at = offset + (uint32_t)member->offset;
        if (lower_is_scalar(member->type)) {
            uint8_t reg = lower_scalar(emit, expr->list[i]);
            lower_put_frame(emit, WIRE_FST, reg, (uint8_t)member->type->bytes, at);
            emit->depth--;
        } else {
            lower_bytes(emit, expr->list[i], at);
        }
    }
}

static void choose_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    uint8_t reg = lower_scalar(emit, expr->condition);
    uint32_t other = lower_jump(emit, WIRE_JZ, reg);
    emit->depth--;
    lower_bytes(emit, expr->left, offset);
    uint32_t end = lower_jump(emit, WIRE_JMP, 0);
    lower_land(emit, other);
    lower_bytes(emit, expr->right, offset);
    lower_land(emit, end);
}

static void convert_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    if (lower_is_scalar(expr->left->type)) {
        uint64_t bytes = lower_value_bytes(expr->type);
        uint8_t reg = lower_scalar(emit, expr->left), size = bytes >= 8 ? 8 : bytes >= 4 ? 4 : bytes >= 2 ? 2 : 1;
        lower_put_frame(emit, WIRE_FST, reg, size, offset);
        lower_put_zero(emit, offset + size, bytes - size);
        emit->depth--;
        return;
    }
    uint32_t from = lower_located(emit, expr->left);
    convert_frame(emit, expr->left->type, from, expr->type, offset);
}

void lower_bytes(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    struct script_span outer = emit->span;
    emit->span = expr->span;
    uint32_t key, map, from;
    switch (expr->kind) {
    case SCRIPT_E_STRING:
        string_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_SCRATCH:
        lower_put_copy(emit, offset, emit->slot_offset[expr->slot], lower_value_bytes(expr->type));
        break;
    case SCRIPT_E_MAP:
    case SCRIPT_E_THREAD:
        map = map_of(emit, expr, &key);
        /* A value in the map takes whole words; there may be no room for them here. */
        from = lower_room(emit, emit->builder->map.at[map].value_bytes);
        lower_map_bytes(emit, map, key, from);
        lower_put_copy(emit, offset, from, lower_value_bytes(expr->type));
        break;
    case SCRIPT_E_BUILTIN:
        builtin_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_ARGUMENT:
        lower_argument_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_TUPLE:
        if (expr->type->kind == SCRIPT_T_RECORD)
            record_bytes(emit, expr, offset);
        else
            tuple_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_CHOOSE:
        choose_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_CONVERT:
        convert_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_BLOCK:
        lower_statements(emit, expr->body);
        lower_bytes(emit, expr->left, offset);
        break;
    case SCRIPT_E_LOAD:
        lower_load_bytes(emit, expr, offset);
        break;
    case SCRIPT_E_EXTRACT:
        from = lower_located(emit, expr->left);
        if (expr->type->kind == SCRIPT_T_STRING && expr->bytes < expr->type->bytes)
            convert_string(emit, expr->bytes, from + (uint32_t)expr->offset, expr->type->bytes, offset);
        else
            lower_put_copy(emit, offset, from + (uint32_t)expr->offset, lower_value_bytes(expr->type));
        break;
    case SCRIPT_E_CALL:
        lower_call_bytes(emit, expr, offset);
        break;
    default:
        lower_fail(emit, "this value can not be used here");
    }
    emit->span = outer;
}

uint32_t lower_located(struct lowering *emit, const struct script_expr *expr)
{
    if (expr->kind == SCRIPT_E_SCRATCH)
        return emit->slot_offset[expr->slot];
    if (expr->kind == SCRIPT_E_EXTRACT && !lower_is_scalar(expr->type) && expr->bytes >= lower_value_bytes(expr->type))
        return lower_located(emit, expr->left) + (uint32_t)expr->offset;
    uint32_t offset = lower_room(emit, lower_whole_bytes(expr->type));
    lower_whole(emit, expr, offset);
    return offset;
}

void lower_whole(struct lowering *emit, const struct script_expr *expr, uint32_t offset)
{
    if (lower_is_scalar(expr->type)) {
        uint8_t reg = lower_scalar(emit, expr);
        lower_put_frame(emit, WIRE_FST, reg, 8, offset);
        emit->depth--;
        return;
    }
    uint64_t bytes = lower_value_bytes(expr->type);
    lower_bytes(emit, expr, offset);
    lower_put_zero(emit, offset + (uint32_t)bytes, lower_whole_bytes(expr->type) - bytes);
}
