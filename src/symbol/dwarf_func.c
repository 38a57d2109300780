/* Functions: parameters, results, and the variables in scope at an address. */
#include "symbol/dwarf_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- parameters ---- */

struct params {
    Dwarf_Die dies[SYMBOL_DW_MAX_PARAMS];     /* what names and types them: the abstract ones where there are some */
    Dwarf_Die concrete[SYMBOL_DW_MAX_PARAMS]; /* what locates them; address NULL when the instance has none */
    size_t count;
    bool is_variadic;
};

static void add_params(struct symbol_dwarf *dwarf, Dwarf_Die *parent, struct params *out)
{
    Dwarf_Die child;
    if (!symbol_dw_first(dwarf, parent, &child))
        return;
    do {
        int tag = dwarf_tag(&child);
        if (tag == DW_TAG_unspecified_parameters)
            out->is_variadic = true;
        if (tag == DW_TAG_formal_parameter && out->count < SYMBOL_DW_MAX_PARAMS)
            out->dies[out->count++] = child;
    } while (symbol_dw_next(dwarf, &child));
}

/* The parameters of the abstract instance in order, each with its counterpart in the concrete one; an optimised instance may lack some. */
static void collect_params(struct symbol_dwarf *dwarf, Dwarf_Die *func, struct params *out)
{
    Dwarf_Die origin = symbol_dw_origin_of(func), child, target;
    out->count = 0;
    out->is_variadic = false;
    add_params(dwarf, &origin, out);
    if (origin.addr == func->addr || !out->count) {
        if (origin.addr != func->addr)
            add_params(dwarf, func, out);
        memcpy(out->concrete, out->dies, out->count * sizeof *out->dies);
        return;
    }
    memset(out->concrete, 0, out->count * sizeof *out->concrete);
    if (!symbol_dw_first(dwarf, func, &child))
        return;
    do {
        if (dwarf_tag(&child) != DW_TAG_formal_parameter || !symbol_dw_own_ref(&child, DW_AT_abstract_origin, &target))
            continue;
        for (size_t i = 0; i < out->count; i++)
            if (out->dies[i].addr == target.addr && !out->concrete[i].addr)
                out->concrete[i] = child;
    } while (symbol_dw_next(dwarf, &child));
}

/* Whether both mean the same registers, or both the stack. On x86-64 a different place on the stack is only a type that is packed, which
 * DWARF does not say; on i386, where all is on the stack, it is a different convention. */
static bool same_place(int width, const struct symbol_location *a, const struct symbol_location *b)
{
    const struct symbol_piece *x = &a->pieces[0], *y = &b->pieces[0];
    if (a->piece_count != b->piece_count || x->place != y->place || x->reg != y->reg)
        return false;
    return x->place != SYMBOL_PLACE_MEMORY || width == 64 || (x->offset == y->offset && x->deref_count == y->deref_count);
}

/* At the entry: where DWARF does not say, the calling convention does, unless what DWARF says of other parameters contradicts it. A
 * constant is no contradiction. Static i386 functions get their arguments in registers when they are optimised; without a location
 * that shows which, nothing is said. Returns whether the function follows the convention. */
static bool apply_convention(struct symbol_dwarf *dwarf, Dwarf_Die *func, const struct symbol_passed *result,
                             struct symbol_variable *params, const bool *is_slot, size_t count)
{
    struct symbol_passed *passed = memory_zero(count, sizeof *passed);
    struct symbol_location *places = memory_zero(count, sizeof *places);
    uint64_t convention = 0;
    Dwarf_Attribute attribute;
    for (size_t i = 0; i < count; i++)
        symbol_dw_passed(dwarf, params[i].type, &passed[i]);
    symbol_callconv_arguments(dwarf->width, result, passed, count, places);

    bool is_followed = true, is_confirmed = symbol_dw_find_flag(func, DW_AT_external) || dwarf->width == 64;
    if (symbol_dw_find_attr(func, DW_AT_calling_convention, &attribute) && symbol_dw_own_uint(func, DW_AT_calling_convention, &convention))
        is_followed = convention == DW_CC_normal || convention == DW_CC_program;
    for (size_t i = 0; i < count && is_followed; i++) {
        const struct symbol_location *said = &params[i].location;
        if (is_slot[i]) {
            is_confirmed = true; /* not optimised */
        } else if (said->piece_count && places[i].piece_count &&
                   (said->pieces[0].place == SYMBOL_PLACE_REGISTER || said->pieces[0].place == SYMBOL_PLACE_MEMORY)) {
            is_followed = same_place(dwarf->width, said, &places[i]);
            is_confirmed = true;
        }
    }
    if (is_followed && is_confirmed)
        for (size_t i = 0; i < count; i++)
            if (is_slot[i] || !params[i].location.piece_count)
                params[i].location = places[i];
    for (size_t i = 0; i < count; i++)
        if (is_slot[i] && !params[i].location.is_convention)
            params[i].location = (struct symbol_location){.reason = "not yet in its place at the function's entry"};
    free(passed);
    free(places);
    return is_followed;
}

static void read_variable(struct symbol_dwarf *dwarf, Dwarf_Die *die, struct symbol_variable *out)
{
    const char *name = symbol_dw_text(dwarf, die, DW_AT_name);
    out->name = name ? name : "";
    out->type = symbol_dw_type_attr(dwarf, die);
    out->is_parameter = dwarf_tag(die) == DW_TAG_formal_parameter;
    out->is_artificial = symbol_dw_find_flag(die, DW_AT_artificial);
}

static void read_params(struct symbol_dwarf *dwarf, const struct symbol_dw_range *range, uint64_t va, struct symbol_dwarf_func *out)
{
    struct params *params = memory_zero(1, sizeof *params);
    struct symbol_dw_place place = {range->die, va, range->entry_va};
    Dwarf_Die func = range->die;
    struct symbol_passed result;
    bool is_slot[SYMBOL_DW_MAX_PARAMS];
    collect_params(dwarf, &func, params);
    struct symbol_variable *variables = symbol_dw_keep(dwarf, params->count, sizeof *variables);
    for (size_t i = 0; i < params->count; i++) {
        read_variable(dwarf, &params->dies[i], &variables[i]);
        is_slot[i] = false;
        if (params->concrete[i].addr)
            symbol_dw_locate(dwarf, &params->concrete[i], &place, &variables[i].location, &is_slot[i]);
        else
            variables[i].location.reason = "optimised out";
    }
    symbol_dw_passed(dwarf, out->result, &result);
    bool is_clone = symbol_dw_is_clone(dwarf, range->entry_va), is_followed = !is_clone;
    if (va == range->entry_va && is_followed)
        is_followed = apply_convention(dwarf, &func, &result, variables, is_slot, params->count);
    out->is_changed = !is_followed;
    /* gcc's i386 functions with register arguments return integers as all others do. */
    bool is_integer = result.leaf_count == 1 && result.leaves[0].leaf_class == SYMBOL_LEAF_INT && !result.is_aggregate;
    if (is_followed || (dwarf->width == 32 && is_integer && !is_clone))
        symbol_callconv_result(dwarf->width, &result, &out->result_location);
    else
        out->result_location.reason = "the compiler changed how the function is called";
    out->params = variables;
    out->param_count = params->count;
    out->is_variadic = params->is_variadic;
    free(params);
}

struct err *symbol_dwarf_func_at(struct symbol_dwarf *dwarf, uint64_t va, const struct symbol_dwarf_func **out)
{
    *out = NULL;
    symbol_dw_begin_call(dwarf);
    const struct symbol_dw_range *range = symbol_dw_func_range_at(dwarf, va);
    if (!range && !dwarf->budget)
        return symbol_dw_spent(dwarf);
    if (!range)
        return err_new(ERR_NO_MATCH, "symbol: %s: its debug info describes no function at 0x%llx", dwarf->path, (unsigned long long)va);
    struct symbol_dwarf_func *func = symbol_dw_keep(dwarf, 1, sizeof *func);
    struct symbol_dw_range found = *range; /* the index may grow below */
    Dwarf_Die die = found.die;
    const char *name = symbol_dw_text(dwarf, &die, DW_AT_name);
    func->name = name ? name : "";
    func->linkage_name = symbol_dw_text(dwarf, &die, DW_AT_linkage_name);
    func->entry_va = found.entry_va;
    func->result = symbol_dw_type_attr(dwarf, &die);
    read_params(dwarf, &found, va, func);
    *out = func;
    return NULL;
}

struct err *symbol_dwarf_entries(struct symbol_dwarf *dwarf, const char *name, const uint64_t **out, size_t *count)
{
    VEC(uint64_t) entries = {0};
    *out = NULL;
    *count = 0;
    symbol_dw_begin_call(dwarf);
    for (const struct symbol_dw_name *at = symbol_dw_find_name(dwarf, SYMBOL_DW_NAME_FUNC, name); at; at = symbol_dw_next_name(dwarf, at)) {
        bool is_new = true;
        for (size_t i = 0; i < entries.n && is_new; i++)
            is_new = entries.at[i] != at->entry_va;
        if (!symbol_dw_spend(dwarf, entries.n + 1))
            break;
        if (is_new)
            VEC_PUSH(&entries, at->entry_va);
    }
    if (!entries.n)
        return dwarf->budget ? err_new(ERR_NO_MATCH, "symbol: %s: its debug info has no function '%s'", dwarf->path, name)
                             : symbol_dw_spent(dwarf);
    uint64_t *kept = symbol_dw_keep(dwarf, entries.n, sizeof *kept);
    memcpy(kept, entries.at, entries.n * sizeof *kept);
    *out = kept;
    *count = entries.n;
    VEC_FREE(&entries);
    return NULL;
}

/* ---- locals ---- */

static bool holds(struct symbol_dwarf *dwarf, Dwarf_Die *die, uint64_t va)
{
    Dwarf_Addr base, start, end;
    ptrdiff_t offset = 0;
    while ((offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0 && symbol_dw_spend(dwarf, 4))
        if (va >= start && va < end)
            return true;
    return false;
}

struct scopes {
    VEC(struct symbol_variable) variables; /* of one scope, in its order */
    Dwarf_Die chain[SYMBOL_DW_MAX_CHAIN];  /* from the function inwards */
    size_t depth;
};

/* The chain of blocks and inlined functions that hold `va`. */
static void find_scopes(struct symbol_dwarf *dwarf, Dwarf_Die *func, uint64_t va, struct scopes *scopes)
{
    Dwarf_Die at = *func, child;
    scopes->chain[scopes->depth++] = at;
    while (scopes->depth < SYMBOL_DW_MAX_CHAIN && symbol_dw_first(dwarf, &at, &child)) {
        bool is_found = false;
        do {
            int tag = dwarf_tag(&child);
            if (tag != DW_TAG_lexical_block && tag != DW_TAG_inlined_subroutine)
                continue;
            /* A block without addresses may hold blocks that have some only in the abstract instance. */
            if (holds(dwarf, &child, va)) {
                is_found = true;
                break;
            }
        } while (symbol_dw_next(dwarf, &child));
        if (!is_found)
            return;
        at = child;
        scopes->chain[scopes->depth++] = at;
    }
}

const void *symbol_dw_scope_at(struct symbol_dwarf *dwarf, uint64_t va)
{
    const struct symbol_dw_range *range = symbol_dw_func_range_at(dwarf, va);
    struct scopes scopes = {0};
    if (!range)
        return NULL;
    Dwarf_Die func = range->die;
    find_scopes(dwarf, &func, va, &scopes);
    return scopes.chain[scopes.depth - 1].addr;
}

static bool is_hidden(const struct symbol_variable *variables, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(variables[i].name, name) == 0)
            return true;
    return false;
}

struct err *symbol_dwarf_locals(struct symbol_dwarf *dwarf, uint64_t va, const struct symbol_variable **out, size_t *count)
{
    *out = NULL;
    *count = 0;
    symbol_dw_begin_call(dwarf);
    const struct symbol_dw_range *range = symbol_dw_func_range_at(dwarf, va);
    if (!range)
        return err_new(ERR_NO_MATCH, "symbol: %s: its debug info describes no function at 0x%llx", dwarf->path, (unsigned long long)va);
    struct symbol_dw_range found = *range;
    struct symbol_dw_place place = {found.die, va, found.entry_va};
    struct scopes scopes = {0};
    struct symbol_dwarf_func func = {.result = symbol_dw_type_attr(dwarf, &found.die)};
    find_scopes(dwarf, &found.die, va, &scopes);
    for (size_t depth = scopes.depth, inlined = 0; depth > 0; depth--) {
        size_t outer = scopes.variables.n;
        Dwarf_Die *scope = &scopes.chain[depth - 1], child;
        /* The function's own parameters come with what the calling convention knows. */
        if (depth == 1) {
            read_params(dwarf, &found, va, &func);
            for (size_t i = 0; i < func.param_count; i++)
                if (func.params[i].name[0] && !is_hidden(scopes.variables.at, outer, func.params[i].name)) {
                    VEC_PUSH(&scopes.variables, func.params[i]);
                    scopes.variables.at[scopes.variables.n - 1].inline_depth = (unsigned)inlined;
                }
        }
        bool is_inlined = dwarf_tag(scope) == DW_TAG_inlined_subroutine;
        for (bool more = symbol_dw_first(dwarf, scope, &child); more && scopes.variables.n < SYMBOL_DW_MAX_LOCALS;
             more = symbol_dw_next(dwarf, &child)) {
            int tag = dwarf_tag(&child);
            struct symbol_variable variable = {0};
            bool is_slot;
            if (tag != DW_TAG_variable && (tag != DW_TAG_formal_parameter || depth == 1))
                continue;
            read_variable(dwarf, &child, &variable);
            variable.inline_depth = (unsigned)inlined;
            if (!variable.name[0] || is_hidden(scopes.variables.at, outer, variable.name) ||
                !symbol_dw_spend(dwarf, scopes.variables.n + 1))
                continue;
            symbol_dw_locate(dwarf, &child, &place, &variable.location, &is_slot);
            if (is_slot && va == found.entry_va)
                variable.location = (struct symbol_location){.reason = "not yet in its place at the function's entry"};
            VEC_PUSH(&scopes.variables, variable);
        }
        inlined += is_inlined;
    }
    struct symbol_variable *kept = symbol_dw_keep(dwarf, scopes.variables.n, sizeof *kept);
    if (scopes.variables.n)
        memcpy(kept, scopes.variables.at, scopes.variables.n * sizeof *kept);
    *out = kept;
    *count = scopes.variables.n;
    VEC_FREE(&scopes.variables);
    return NULL;
}
