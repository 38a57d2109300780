/* From a DWARF location expression to a struct symbol_location. Expressions are run on terms instead of numbers: a term is a register or
 * constant plus an offset, perhaps loaded from memory once or twice (a struct symbol_piece). What does not stay in that form, as a
 * product of two registers, has no location here and says so. */
#include "symbol/dwarf_internal.h"

#include <string.h>

enum { MAX_STACK = 16, MAX_OPS = 1024 };

struct run {
    struct symbol_dwarf *dwarf;
    const struct symbol_dw_place *place;
    Dwarf_Attribute *attribute; /* where the operations are from */
    struct symbol_piece stack[MAX_STACK];
    unsigned depth;
    bool is_in_frame_base; /* DW_OP_fbreg in a frame base would lead around */
    bool has_frame_base;   /* DW_OP_fbreg or the CFA was used ... */
    bool is_below_cfa;     /* ... and led to memory that the function itself sets up */
    const char *reason;
};

static bool run_ops(struct run *run, const Dwarf_Op *ops, size_t count, struct symbol_location *out);

/* ---- terms ---- */

static bool give_up(struct run *run, const char *reason)
{
    run->reason = reason;
    return false;
}

static bool push(struct run *run, struct symbol_piece term)
{
    if (run->depth == MAX_STACK)
        return give_up(run, "its location is too deep an expression");
    term.place = SYMBOL_PLACE_VALUE;
    run->stack[run->depth++] = term;
    return true;
}

static bool push_number(struct run *run, uint64_t value)
{
    return push(run, (struct symbol_piece){.reg = SYMBOL_NO_REG, .offset = (int64_t)value});
}

static bool is_number(const struct symbol_piece *term)
{
    return term->reg == SYMBOL_NO_REG && !term->deref_count && !term->is_file_va;
}

static void add_number(struct symbol_piece *term, uint64_t value)
{
    int64_t *last = term->deref_count ? &term->deref_offset[term->deref_count - 1] : &term->offset;
    *last = (int64_t)((uint64_t)*last + value);
}

static int16_t stack_pointer(const struct symbol_dwarf *dwarf)
{
    return dwarf->width == 64 ? SYMBOL_REG_64_RSP : SYMBOL_REG_32_ESP;
}

static bool push_cfa(struct run *run)
{
    struct symbol_piece cfa;
    if (run->place->va == run->place->entry_va)
        cfa = (struct symbol_piece){.reg = stack_pointer(run->dwarf), .offset = run->dwarf->width / 8};
    else if (!symbol_dw_cfa_at(run->dwarf, run->place->va, &cfa))
        return give_up(run, "the frame is not known at this address");
    run->has_frame_base = true;
    return push(run, cfa);
}

/* The value of the function's DW_AT_frame_base. */
static bool push_frame_base(struct run *run)
{
    Dwarf_Attribute attribute;
    Dwarf_Die func = run->place->func;
    Dwarf_Op *ops;
    size_t count;
    if (run->is_in_frame_base || !symbol_dw_find_attr(&func, DW_AT_frame_base, &attribute) ||
        dwarf_getlocation_addr(&attribute, run->place->va, &ops, &count, 1) != 1)
        return give_up(run, "its frame base is not known at this address");
    struct run inner = {.dwarf = run->dwarf, .place = run->place, .attribute = &attribute, .is_in_frame_base = true};
    struct symbol_location location = {0};
    if (!run_ops(&inner, ops, count, &location) || location.piece_count != 1)
        return give_up(run, inner.reason ? inner.reason : "its frame base is not known at this address");
    struct symbol_piece *piece = &location.pieces[0];
    /* A frame base that is a register means the register's contents (DWARF 5, 3.3.5); one that is an address is that address. */
    if (piece->place != SYMBOL_PLACE_REGISTER && piece->place != SYMBOL_PLACE_MEMORY && piece->place != SYMBOL_PLACE_VALUE)
        return give_up(run, "its frame base is not known at this address");
    if (piece->place == SYMBOL_PLACE_REGISTER)
        piece->offset = 0;
    run->has_frame_base = true;
    /* Relative to a register that the prologue sets, or to the CFA. */
    run->is_below_cfa = !inner.has_frame_base;
    return push(run, *piece);
}

static bool push_entry_value(struct run *run, const Dwarf_Op *op)
{
    Dwarf_Attribute inner;
    Dwarf_Op *ops;
    size_t count;
    if (dwarf_getlocation_attr(run->attribute, op, &inner) != 0 || dwarf_getlocation(&inner, &ops, &count) != 0 || count != 1)
        return give_up(run, "its location is an expression that is not supported");
    struct symbol_piece term = {.is_entry = true};
    if (ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg31)
        term.reg = (int16_t)(ops[0].atom - DW_OP_reg0);
    else if (ops[0].atom == DW_OP_regx && ops[0].number < 128)
        term.reg = (int16_t)ops[0].number;
    else
        return give_up(run, "its location is an expression that is not supported");
    return push(run, term);
}

static bool binary(struct run *run, uint8_t atom)
{
    if (run->depth < 2)
        return give_up(run, "its location is damaged");
    struct symbol_piece right = run->stack[--run->depth], *left = &run->stack[run->depth - 1];
    uint64_t b = (uint64_t)right.offset, a = (uint64_t)left->offset;
    if (atom == DW_OP_plus && is_number(left) && !is_number(&right)) {
        *left = right;
        add_number(left, a);
        return true;
    }
    if (!is_number(&right))
        return give_up(run, "its location is computed from several registers");
    if (atom == DW_OP_plus || atom == DW_OP_minus) {
        add_number(left, atom == DW_OP_plus ? b : 0 - b);
        return true;
    }
    if (!is_number(left))
        return give_up(run, "its location is an expression that is not supported");
    switch (atom) {
    case DW_OP_mul:
        a *= b;
        break;
    case DW_OP_and:
        a &= b;
        break;
    case DW_OP_or:
        a |= b;
        break;
    case DW_OP_xor:
        a ^= b;
        break;
    case DW_OP_shl:
        a = b < 64 ? a << b : 0;
        break;
    default:
        a = b < 64 ? a >> b : 0;
    }
    left->offset = (int64_t)a;
    return true;
}

/* ---- operations ---- */

/* Operations that compute; false when one fails or is not among them (then run->reason is NULL). */
static bool compute(struct run *run, const Dwarf_Op *op)
{
    uint8_t atom = op->atom;
    if (atom >= DW_OP_breg0 && atom <= DW_OP_breg31)
        return push(run, (struct symbol_piece){.reg = (int16_t)(atom - DW_OP_breg0), .offset = (int64_t)op->number});
    if (atom >= DW_OP_lit0 && atom <= DW_OP_lit31)
        return push_number(run, atom - DW_OP_lit0);
    switch (atom) {
    case DW_OP_bregx:
        if (op->number >= 128)
            return give_up(run, "its location is in a register that does not exist");
        return push(run, (struct symbol_piece){.reg = (int16_t)op->number, .offset = (int64_t)op->number2});
    case DW_OP_fbreg:
        if (!push_frame_base(run))
            return false;
        add_number(&run->stack[run->depth - 1], op->number);
        run->is_below_cfa |= (int64_t)op->number < 0;
        return true;
    case DW_OP_call_frame_cfa:
        return push_cfa(run);
    case DW_OP_addr:
        return push(run, (struct symbol_piece){.reg = SYMBOL_NO_REG, .is_file_va = true, .offset = (int64_t)op->number});
    case DW_OP_addrx:
    case DW_OP_GNU_addr_index: {
        Dwarf_Attribute inner;
        Dwarf_Addr address;
        if (dwarf_getlocation_attr(run->attribute, op, &inner) != 0 || dwarf_formaddr(&inner, &address) != 0)
            return give_up(run, "its location is damaged");
        return push(run, (struct symbol_piece){.reg = SYMBOL_NO_REG, .is_file_va = true, .offset = (int64_t)address});
    }
    case DW_OP_const1u:
    case DW_OP_const2u:
    case DW_OP_const4u:
    case DW_OP_const8u:
    case DW_OP_constu:
    case DW_OP_const1s:
    case DW_OP_const2s:
    case DW_OP_const4s:
    case DW_OP_const8s:
    case DW_OP_consts:
        return push_number(run, op->number); /* libdw has extended the sign */
    case DW_OP_entry_value:
    case DW_OP_GNU_entry_value:
        return push_entry_value(run, op);
    case DW_OP_plus_uconst:
        if (!run->depth)
            return give_up(run, "its location is damaged");
        add_number(&run->stack[run->depth - 1], op->number);
        return true;
    case DW_OP_deref: {
        struct symbol_piece *top = run->depth ? &run->stack[run->depth - 1] : NULL;
        if (!top || top->deref_count == SYMBOL_MAX_DEREFS)
            return give_up(run, "its location is too deep an expression");
        top->deref_offset[top->deref_count++] = 0;
        return true;
    }
    case DW_OP_dup:
        return run->depth ? push(run, run->stack[run->depth - 1]) : give_up(run, "its location is damaged");
    case DW_OP_neg:
    case DW_OP_not: {
        struct symbol_piece *top = run->depth ? &run->stack[run->depth - 1] : NULL;
        if (!top || !is_number(top))
            return give_up(run, "its location is an expression that is not supported");
        top->offset = (int64_t)(atom == DW_OP_neg ? 0 - (uint64_t)top->offset : ~(uint64_t)top->offset);
        return true;
    }
    case DW_OP_plus:
    case DW_OP_minus:
    case DW_OP_mul:
    case DW_OP_and:
    case DW_OP_or:
    case DW_OP_xor:
    case DW_OP_shl:
    case DW_OP_shr:
        return binary(run, atom);
    case DW_OP_nop:
        return true;
    case DW_OP_form_tls_address:
    case DW_OP_GNU_push_tls_address:
        return give_up(run, "thread-local");
    case DW_OP_implicit_pointer:
    case DW_OP_GNU_implicit_pointer:
        return give_up(run, "a pointer to what was optimised out");
    }
    return false;
}

static bool is_register(const Dwarf_Op *op, int16_t *reg)
{
    if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
        *reg = (int16_t)(op->atom - DW_OP_reg0);
    else if (op->atom == DW_OP_regx && op->number < 128)
        *reg = (int16_t)op->number;
    else
        return false;
    return true;
}

/* Runs the operations up to a DW_OP_piece or the end, and makes a piece of what they leave. */
static bool run_piece(struct run *run, const Dwarf_Op *ops, size_t count, size_t *at, struct symbol_piece *out)
{
    *out = (struct symbol_piece){.place = SYMBOL_PLACE_NONE, .reg = SYMBOL_NO_REG};
    run->depth = 0;
    enum symbol_place place = SYMBOL_PLACE_MEMORY;
    for (; *at < count && ops[*at].atom != DW_OP_piece; ++*at) {
        const Dwarf_Op *op = &ops[*at];
        int16_t reg;
        if (is_register(op, &reg)) {
            *out = (struct symbol_piece){.place = SYMBOL_PLACE_REGISTER, .reg = reg};
        } else if (op->atom == DW_OP_stack_value) {
            place = SYMBOL_PLACE_VALUE;
        } else if (op->atom == DW_OP_implicit_value) {
            Dwarf_Block block;
            if (dwarf_getlocation_implicit_value(run->attribute, op, &block) != 0 || block.length > UINT32_MAX)
                return give_up(run, "its location is damaged");
            *out = (struct symbol_piece){
                .place = SYMBOL_PLACE_CONSTANT, .reg = SYMBOL_NO_REG, .size_bytes = (uint32_t)block.length, .bytes = block.data};
        } else if (!compute(run, op)) {
            return run->reason ? false : give_up(run, "its location is an expression that is not supported");
        }
    }
    if (out->place == SYMBOL_PLACE_NONE && run->depth) {
        *out = run->stack[run->depth - 1];
        out->place = place;
    }
    return true;
}

static bool run_ops(struct run *run, const Dwarf_Op *ops, size_t count, struct symbol_location *out)
{
    if (count > MAX_OPS || !symbol_dw_spend(run->dwarf, count))
        return give_up(run, "its location is too long an expression");
    if (!count)
        return give_up(run, "optimised out");
    for (size_t at = 0; at < count;) {
        struct symbol_piece piece;
        if (out->piece_count == SYMBOL_MAX_PIECES)
            return give_up(run, "it is in too many pieces");
        if (!run_piece(run, ops, count, &at, &piece))
            return false;
        if (at < count) {
            if (!ops[at].number || ops[at].number > UINT32_MAX)
                return give_up(run, "its location is damaged");
            if (piece.place == SYMBOL_PLACE_CONSTANT && piece.size_bytes < ops[at].number)
                return give_up(run, "its location is damaged");
            piece.size_bytes = (uint32_t)ops[at].number;
            at++;
        }
        if (piece.place == SYMBOL_PLACE_NONE)
            out->reason = "optimised out in part";
        out->pieces[out->piece_count++] = piece;
    }
    if (out->piece_count == 1 && out->pieces[0].place == SYMBOL_PLACE_NONE)
        return give_up(run, "optimised out");
    return true;
}

/* ---- variables ---- */

static bool is_frame_memory(const struct symbol_dwarf *dwarf, const struct symbol_piece *piece)
{
    int16_t frame_pointer = dwarf->width == 64 ? SYMBOL_REG_64_RBP : SYMBOL_REG_32_EBP;
    return piece->place == SYMBOL_PLACE_MEMORY && (piece->reg == stack_pointer(dwarf) || piece->reg == frame_pointer);
}

static bool constant(Dwarf_Die *die, struct symbol_location *out)
{
    Dwarf_Attribute attribute;
    Dwarf_Block block;
    Dwarf_Sword value;
    struct symbol_piece piece = {.place = SYMBOL_PLACE_VALUE, .reg = SYMBOL_NO_REG};
    if (!symbol_dw_find_attr(die, DW_AT_const_value, &attribute))
        return false;
    const char *text;
    unsigned form = dwarf_whatform(&attribute);
    if (dwarf_formblock(&attribute, &block) == 0 && block.length && block.length <= UINT32_MAX) {
        piece.place = SYMBOL_PLACE_CONSTANT;
        piece.size_bytes = (uint32_t)block.length;
        piece.bytes = block.data;
    } else if ((form == DW_FORM_string || form == DW_FORM_strp || form == DW_FORM_line_strp) && (text = dwarf_formstring(&attribute))) {
        piece.place = SYMBOL_PLACE_CONSTANT;
        piece.bytes = (const uint8_t *)text;
        piece.size_bytes = (uint32_t)strnlen(text, SYMBOL_DW_MAX_NAME);
    } else if (dwarf_formsdata(&attribute, &value) == 0) {
        /* The low bytes count: how far the sign was extended does not matter. */
        piece.offset = value;
    } else {
        return false;
    }
    *out = (struct symbol_location){.piece_count = 1, .pieces = {piece}};
    return true;
}

void symbol_dw_locate(struct symbol_dwarf *dwarf, Dwarf_Die *die, const struct symbol_dw_place *place, struct symbol_location *out,
                      bool *is_slot)
{
    Dwarf_Attribute attribute;
    Dwarf_Op *ops;
    size_t count;
    *out = (struct symbol_location){.reason = "optimised out"};
    *is_slot = false;
    if (constant(die, out))
        return;
    if (!symbol_dw_find_attr(die, DW_AT_location, &attribute))
        return;
    unsigned form = dwarf_whatform(&attribute);
    bool is_list = form == DW_FORM_sec_offset || form == DW_FORM_loclistx || form == DW_FORM_data4 || form == DW_FORM_data8;
    int found = dwarf_getlocation_addr(&attribute, place->va, &ops, &count, 1);
    if (found < 0)
        out->reason = "its location is damaged";
    else if (!found)
        out->reason = "optimised out at this address";
    if (found != 1)
        return;
    struct run run = {.dwarf = dwarf, .place = place, .attribute = &attribute};
    struct symbol_location location = {0};
    if (run_ops(&run, ops, count, &location))
        *out = location;
    else
        *out = (struct symbol_location){.reason = run.reason};
    bool is_frame = run.has_frame_base ? run.is_below_cfa : out->piece_count && is_frame_memory(dwarf, &out->pieces[0]);
    *is_slot = !is_list && is_frame;
}
