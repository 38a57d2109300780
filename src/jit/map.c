/* Operations on maps, whatever the architecture: which of them are done in place, and what a body holds around them. */
#include "jit/internal.h"

static bool is_in_place(const struct jit *jit, const struct wire_insn *insn)
{
    switch (insn->op) {
    case WIRE_MGET:
    case WIRE_MHAS:
    case WIRE_MSET:
    case WIRE_MADD:
    case WIRE_MDEL:
    case WIRE_MAGG:
        break;
    default:
        return false;
    }
    const struct wire_map_type *type = &jit_map(jit, insn->h)->type;
    if (type->kind == WIRE_MAP_TSERIES || (type->key_bytes && type->key_bytes != 8))
        return false;
    if (insn->op == WIRE_MAGG)
        return type->kind != WIRE_MAP_MIN && type->kind != WIRE_MAP_MAX && (type->kind != WIRE_MAP_HIST || !type->param[0]) &&
               (type->kind != WIRE_MAP_LHIST || jit->arch->map->has_lhist);
    return insn->op != WIRE_MDEL || type->key_bytes; /* deleting where there is no key is rare */
}

bool jit_finds_node(const struct jit *jit, const struct wire_insn *insn)
{
    return is_in_place(jit, insn) && jit_map(jit, insn->h)->type.key_bytes;
}

static jit_map_code *code_of(const struct jit_map_arch *arch, uint32_t op)
{
    switch (op) {
    case WIRE_MAGG:
        return arch->aggregate;
    case WIRE_MSET:
        return arch->set;
    case WIRE_MADD:
        return arch->add;
    case WIRE_MDEL:
        return arch->delete_key;
    default:
        return arch->get;
    }
}

bool jit_map_op(struct jit *jit, const struct wire_insn *insn)
{
    if (!is_in_place(jit, insn))
        return false;
    jit_note_holds(jit, JIT_NODE);
    code_of(jit->arch->map, insn->op)(jit, insn, jit_map(jit, insn->h));
    if (jit->node[jit->at].last > jit->kept_until)
        jit->kept_until = jit->node[jit->at].last;
    jit_note_holds(jit, jit->kept_until > jit->at ? JIT_NODE : JIT_NOTHING);
    return true;
}
