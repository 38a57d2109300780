/* Shared by the files of symbol/ that implement dwarf.h.
 *
 *     dwarf_open.c      files, units, memory, walking DIEs within the budget
 *     dwarf_index.c     names -> DIEs, addresses -> units and functions
 *     dwarf_type.c      DIE -> type; dwarf_member.c its members
 *     dwarf_cfa.c       call frame information -> CFA at an address
 *     dwarf_location.c  location expressions -> struct symbol_location
 *     dwarf_func.c      parameters, locals; dwarf_passed.c types as callconv.h wants them
 *     dwarf_line.c      line tables
 *     dwarf_inline.c    what is inlined at an address
 *
 * libdw decodes the sections. It is given the file's bytes in our memory (struct symbol_image), never a descriptor, so that it opens and
 * maps nothing by itself. Of libdw only what reads one thing is used: functions that recurse over DIEs or types, or that follow chains
 * without a bound (dwarf_getscopes, dwarf_getfuncs, dwarf_aggregate_size, dwarf_attr_integrate, dwarf_peel_type) are not.
 */
#ifndef SYMBOL_DWARF_INTERNAL_H
#define SYMBOL_DWARF_INTERNAL_H

#include "symbol/callconv.h"
#include "symbol/dwarf.h"
#include "symbol/internal.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

enum {
    SYMBOL_DW_MAX_UNITS = 1 << 18, /* libdw spends about a kilobyte on each */
    SYMBOL_DW_MAX_CHAIN = 64,      /* of references from DIE to DIE, and of nested types and scopes */
    SYMBOL_DW_MAX_NAME = 4096,     /* bytes */
    SYMBOL_DW_MAX_MEMBERS = 1 << 16,
    SYMBOL_DW_MAX_PARAMS = 256,
    SYMBOL_DW_MAX_LOCALS = 4096,
};

/* A range of code that a function DIE describes. */
struct symbol_dw_range {
    uint64_t va, end;
    uint64_t reach; /* the greatest end up to here, by va: what holds an address is not before one that reaches it */
    Dwarf_Die die;
    uint64_t entry_va;
    struct symbol_dw_inlines *inlines; /* dwarf_inline.c's; NULL until asked for */
};

/* An out-of-line copy of a function that is also inlined. */
struct symbol_dw_copy {
    const void *origin; /* address of its abstract DIE */
    uint64_t entry_va;
};

struct symbol_dw_unit {
    Dwarf_Die die;
    bool is_indexed;
    bool is_code;                      /* may hold functions: a compile unit */
    VEC(struct symbol_dw_range) funcs; /* by va */
    VEC(struct symbol_dw_copy) copies; /* by origin */
};

struct symbol_dw_unit_range {
    uint64_t va, end, reach; /* as of struct symbol_dw_range */
    size_t unit;
};

/* What a name in the index means; also the order of preference for a bare name. */
enum symbol_dw_name_kind { SYMBOL_DW_NAME_PLAIN, SYMBOL_DW_NAME_STRUCT, SYMBOL_DW_NAME_UNION, SYMBOL_DW_NAME_ENUM, SYMBOL_DW_NAME_FUNC };

struct symbol_dw_name {
    const char *name;
    uint32_t hash;
    uint8_t kind;        /* enum symbol_dw_name_kind */
    bool is_declaration; /* replaced when a definition turns up */
    bool is_bare;        /* a qualified name without its qualification: replaced when a real one turns up */
    Dwarf_Die die;
    uint64_t entry_va; /* FUNC */
    uint32_t next;     /* index + 1 of the next in the same bucket */
};

struct symbol_dw_frames; /* dwarf_cfa.c */

struct symbol_dwarf {
    char *path;
    char *debug_path; /* of `debug`, or NULL */
    int width;
    struct symbol_elf main;   /* the program's own file: CFI and segments; debug info when `debug` is NULL */
    struct symbol_elf *debug; /* the separate debug file, or NULL */
    struct symbol_elf *alt;   /* what dwz moved away, or NULL */
    Elf *libelf, *alt_libelf;
    Dwarf *libdw, *alt_libdw;
    uint64_t debug_size; /* bytes of all debug sections: the measure of budgets */
    uint64_t budget;     /* work left in this call; symbol_dw_spend() */

    VEC(struct symbol_dw_unit) units;
    bool has_units;
    VEC(struct symbol_dw_unit_range) unit_ranges; /* by va */

    VEC(struct symbol_dw_name) names;
    uint32_t *buckets; /* index + 1 into names */
    size_t bucket_count;
    size_t indexed_units; /* units before this one are indexed, in order */

    struct symbol_type **types; /* open addressing by DIE address */
    size_t type_count, type_room;

    struct symbol_dw_origin *origins; /* dwarf_inline.c's: open addressing by DIE address */
    size_t origin_count, origin_room;
    uint64_t inline_bytes; /* that inlines and their names may still take */

    bool has_clones;
    VEC(uint64_t) clones; /* entries of functions whose parameters the compiler changed, by address */

    struct symbol_dw_frames *frames; /* made when a CFA is first asked for */

    VEC(char *) chunks;
    size_t chunk_room;
};

/* ---- dwarf_open.c ---- */

/* Starts a call: refills the budget. */
void symbol_dw_begin_call(struct symbol_dwarf *dwarf);
/* Pays for work; false when the budget is spent. */
bool symbol_dw_spend(struct symbol_dwarf *dwarf, uint64_t work);
struct err *symbol_dw_spent(const struct symbol_dwarf *dwarf);
/* Zeroed memory that lives as long as the reader. */
void *symbol_dw_keep(struct symbol_dwarf *dwarf, size_t count, size_t bytes);
/* Reads the list of units. */
struct err *symbol_dw_load_units(struct symbol_dwarf *dwarf);

/* The first child, the next sibling; false at the end. */
bool symbol_dw_first(struct symbol_dwarf *dwarf, Dwarf_Die *parent, Dwarf_Die *out);
bool symbol_dw_next(struct symbol_dwarf *dwarf, Dwarf_Die *die);
/* An attribute of the DIE, or of what its DW_AT_abstract_origin or DW_AT_specification lead to. */
bool symbol_dw_find_attr(Dwarf_Die *die, unsigned name, Dwarf_Attribute *out);
bool symbol_dw_find_flag(Dwarf_Die *die, unsigned name);
bool symbol_dw_own_flag(Dwarf_Die *die, unsigned name);
bool symbol_dw_own_uint(Dwarf_Die *die, unsigned name, uint64_t *out);
bool symbol_dw_own_ref(Dwarf_Die *die, unsigned name, Dwarf_Die *out);
/* The function's abstract instance (of an inline or cloned function), or itself. */
Dwarf_Die symbol_dw_origin_of(Dwarf_Die *func);
/* A string attribute, found as symbol_dw_find_attr() does; NULL when it has none, or one that is empty, too long or has control characters.
 */
const char *symbol_dw_text(struct symbol_dwarf *dwarf, Dwarf_Die *die, unsigned name);
/* Whether `va` is in executable contents of the program's file. */
bool symbol_dw_is_code(const struct symbol_dwarf *dwarf, uint64_t va);

/* ---- dwarf_index.c ---- */

/* The unit whose code holds `va`, indexed; NULL when there is none. Of several the first that has a function there. */
struct symbol_dw_unit *symbol_dw_unit_at(struct symbol_dwarf *dwarf, uint64_t va);
/* Calls dwarf_index_unit() on more units until the name is there; NULL when it is nowhere. `need_definition`: goes on when only a
 * declaration is there, but returns it when there is nothing else. */
const struct symbol_dw_name *symbol_dw_find_name(struct symbol_dwarf *dwarf, enum symbol_dw_name_kind kind, const char *name);
const struct symbol_dw_name *symbol_dw_next_name(struct symbol_dwarf *dwarf, const struct symbol_dw_name *name);
/* The name of a DIE with its namespaces and classes, in `out`; false when it has none or it is in a function. */
bool symbol_dw_qualified_name(struct symbol_dwarf *dwarf, Dwarf_Die *die, char out[SYMBOL_DW_MAX_NAME]);
/* Whether the symbol at a function's entry names a clone with other parameters than the source's (gcc's .isra, .constprop, .part). */
bool symbol_dw_is_clone(struct symbol_dwarf *dwarf, uint64_t entry_va);
/* The innermost function range at `va`, or NULL. */
struct symbol_dw_range *symbol_dw_func_range_at(struct symbol_dwarf *dwarf, uint64_t va);
/* Likewise of an indexed unit. */
struct symbol_dw_range *symbol_dw_func_range_in(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, uint64_t va);
/* The entry of an out-of-line copy of the abstract function DIE in the unit; 0: none. */
uint64_t symbol_dw_copy_of(const struct symbol_dw_unit *unit, const Dwarf_Die *origin);

/* ---- dwarf_type.c ---- */

const struct symbol_type *symbol_dw_type_of(struct symbol_dwarf *dwarf, Dwarf_Die *die); /* of a type DIE */
/* The type that the DIE's DW_AT_type names; void when it has none. */
const struct symbol_type *symbol_dw_type_attr(struct symbol_dwarf *dwarf, Dwarf_Die *die);

/* The DIE that a type was made from; false for types without one. */
bool symbol_dw_die_of(struct symbol_dwarf *dwarf, const struct symbol_type *type, Dwarf_Die *out);
/* As the public functions, within the budget of a call that goes on. */
const struct symbol_type *symbol_dw_resolve(struct symbol_dwarf *dwarf, const struct symbol_type *type);
struct err *symbol_dw_members(struct symbol_dwarf *dwarf, const struct symbol_type *type, const struct symbol_member **out, size_t *count);

/* ---- dwarf_cfa.c ---- */

/* The canonical frame address at `va`: a piece with place VALUE. False when CFI does not say. */
bool symbol_dw_cfa_at(struct symbol_dwarf *dwarf, uint64_t va, struct symbol_piece *out);
void symbol_dw_cfa_free(struct symbol_dwarf *dwarf);

/* ---- dwarf_location.c ---- */

/* What locations are relative to. */
struct symbol_dw_place {
    Dwarf_Die func; /* whose DW_AT_frame_base counts */
    uint64_t va;
    uint64_t entry_va;
};
/* The location of a variable or parameter DIE at place->va. *is_slot: it is relative to the frame base, below the CFA, and not from a
 * list, so that at the function's entry nothing is there yet. */
void symbol_dw_locate(struct symbol_dwarf *dwarf, Dwarf_Die *die, const struct symbol_dw_place *place, struct symbol_location *out,
                      bool *is_slot);

/* ---- dwarf_func.c ---- */

/* What stands for the innermost block or inlined function at `va`; NULL when no function is there. */
const void *symbol_dw_scope_at(struct symbol_dwarf *dwarf, uint64_t va);

/* ---- dwarf_line.c ---- */

/* The row that covers `va`; false when there is none. */
bool symbol_dw_row_at(struct symbol_dwarf *dwarf, struct symbol_dw_unit *unit, uint64_t va, struct symbol_line *out);
/* The path of a unit's file by its number; NULL when there is none or it has control characters. */
const char *symbol_dw_file_path(struct symbol_dwarf *dwarf, Dwarf_Die *unit, uint64_t number);

/* ---- dwarf_inline.c ---- */

void symbol_dw_inlines_free(struct symbol_dwarf *dwarf);

/* ---- dwarf_passed.c ---- */

void symbol_dw_passed(struct symbol_dwarf *dwarf, const struct symbol_type *type, struct symbol_passed *out);

#endif
