/* What a run prints: values, formatted text, maps, histograms and messages, as text or as JSON lines, the way bpftrace prints them.
 *
 * What enters: bytes that traced processes wrote (payloads of records, keys and values of maps), and the script's types that say what
 * they mean. What leaves: text on `out` and `err`.
 *
 * Values in bytes:
 *   alone (an item of a payload, a map's whole key or value): BOOL, INT and POINTER are 8 bytes, extended; DOUBLE is a double; all else
 *   as in a tuple, rounded up to 8 with zeros.
 *   in a TUPLE, at item->offset: INT and BOOL type->bytes, POINTER and DOUBLE 8, STRING type->bytes, BUFFER a u64 length and then
 *   type->bytes, the rest as script/type.h documents.
 *   in a RECORD or ARRAY: as the memory of a process of the type's model has them, with bit-fields.
 *
 * Invariants
 *  1. Nothing in the bytes is believed: every length is cut to the bytes that are there; what is missing reads as zero or ends the value.
 *  2. On a terminal, what a process or a file said is printed with what terminals act on (base/escape.h; but newline and tab) as \xNN. The
 * script's own text, such as a format, is printed as it is. Elsewhere bytes are printed unchanged.
 *  3. JSON is one object on a line, and valid whatever the bytes: those that are not UTF-8 are \u00NN.
 *  4. Nothing here stops the run: output errors stay in `out` for the caller (ferror()). */
#ifndef PRINT_PRINT_H
#define PRINT_PRINT_H

#include "drain/maps.h"
#include "script/script.h"

#include <stdio.h>

/* The two ways of printing that differ in details: that of bpftrace 0.26, and of 0.17, which distributions carry. What differs between
 * them is at each place that asks for the dialect. Unlike either, on purpose:
 *   - bit-fields are shown as their values, not as the word they are in;
 *   - keys of equal rank are in order; unsigned keys and the values of min() and max() are ordered as what they are;
 *   - JSON is valid: non-ASCII text stays as it is, and so do spaces in keys (0.26 drops them); addresses, times and MACs have quotes;
 *   - %% is one percent sign (two in 0.17); precision cuts %s (not in 0.26); widths may have any of C's flags;
 *   - the last step of lhist() is its own when the range is not a whole number of steps (0.17 and 0.26 join it with what is above);
 *   - maps of addresses have a line for each key (0.17 forgets to end it), and units of hist() do not end at 4G (0.17). */
enum print_dialect { PRINT_26, PRINT_17 };

/* What a number stands for: the second word of a value of names. */
enum print_name {
    PRINT_NAME_FUNCTION,
    PRINT_NAME_PROBE,
    PRINT_NAME_PROBE_TYPE,
    PRINT_NAME_USER,    /* a uid; known here */
    PRINT_NAME_ERROR,   /* an errno; known here */
    PRINT_NAME_PROCESS, /* a pid: the name of the process as it is now */
};

/* The clock that a timestamp's nanoseconds count. */
enum print_clock {
    PRINT_CLOCK_SESSION, /* CLOCK_MONOTONIC */
    PRINT_CLOCK_BOOT,
    PRINT_CLOCK_WALL, /* since 1970; what bpftrace takes tai for */
};

/* One function of a stack. */
struct print_frame {
    const char *function; /* NULL: unknown */
    const char *module;   /* path; NULL: unknown */
    uint64_t offset;      /* from the function's start */
    const char *file;     /* source; NULL: unknown */
    unsigned line;
    bool is_inlined; /* into the next one; it has no offset */
};

/* What only the caller knows. Any function may be NULL: nothing is known. */
struct print_names {
    void *cookie;
    /* The name of an address of a process, as usym() shows it, into text (room bytes, with the NUL). False: unknown, shown as 0x... */
    bool (*symbol)(void *cookie, uint64_t address_va, uint32_t pid, char *text, size_t room);
    /* The first three of enum print_name, and PROCESS. NULL: unknown, shown as a number. */
    const char *(*name)(void *cookie, enum print_name what, uint32_t number);
    /* The format of strftime() that a timestamp carries the number of. NULL: unknown. */
    const char *(*time_format)(void *cookie, uint32_t number);
    /* The addresses of a stack, at most `room`, innermost first. Returns how many. */
    size_t (*stack)(void *cookie, uint32_t number, uint64_t *pcs, size_t room);
    /* What is at address `index` of the stack that was asked for last: the function and those inlined into it there, innermost first, at
     * most `room`. Returns how many. What they point to is valid until the next call. */
    size_t (*frames)(void *cookie, size_t index, struct print_frame *out, size_t room);
};

/* Growing text; all zero is empty. */
struct print_text {
    char *at; /* not NUL-terminated */
    size_t n, room;
};

struct print {
    FILE *out;            /* what the script prints */
    FILE *err;            /* messages about the run; may be the same */
    bool out_is_terminal; /* see invariant 2 */
    bool err_is_terminal;
    bool json;
    bool has_lines; /* stacks are shown with source lines and inlined functions, where these are known */
    enum print_dialect dialect;
    struct print_names names;
    size_t max_strlen;          /* strings that fill as much were cut; 0: not known */
    const char *trailer;        /* what 0.26 shows behind these; NULL: ".." */
    int64_t session_to_wall_ns; /* what to add to PRINT_CLOCK_SESSION */
    int64_t boot_to_wall_ns;
    struct print_text text; /* what is being put together */
    struct print_text part; /* one value on its way into text */
};

/* Text for 0.26, terminals as isatty() says, and clocks as they stand now. names are the caller's to set. */
void print_init(struct print *print, FILE *out, FILE *err);
void print_deinit(struct print *print);

/* ---- what clauses do ---- */

/* A record of an action that arrived. */
struct print_event {
    const struct script_action *action;
    const void *payload; /* the values of action->list, each at a multiple of 8 */
    size_t bytes;
    uint64_t ns;       /* when it happened: PRINT_CLOCK_SESSION */
    size_t join_bytes; /* of join(): the payload is strings of this room each, up to an empty one. 0: it is the values of action->list */
    const char *name;  /* of the script, and where in it the call is: for errorf and warnf */
    unsigned line, column, end_column; /* end_column 0: unknown */
};

/* printf, errorf, warnf, debugf, print of a value, time, join: prints. Returns false, and does nothing, for other actions: those need the
 * caller. */
bool print_event(struct print *print, const struct print_event *event);
/* The text that printf() and its like make: the command of system(), the path of cat(). NUL-terminated, to be freed by the caller; the
 * bytes are as they are, so a command is as dangerous as what the script puts into it. */
char *print_event_text(struct print *print, const struct print_event *event);
/* All that a command of system() printed, or that a file of cat() holds: as JSON it is one object. */
enum print_output { PRINT_OUTPUT_SYSTEM, PRINT_OUTPUT_CAT };
void print_output(struct print *print, enum print_output what, const char *text, size_t n);
/* One value, on a line, as print() shows it. Encoded as if alone. */
void print_value(struct print *print, const struct script_type *type, const void *bytes, size_t n);

/* ---- maps ---- */

/* A map as print(@map, top, divide) shows it; 0: not given. Sorted as bpftrace does, and by key where it leaves the order open. */
void print_map(struct print *print, const struct script_map *map, const struct drain_contents *contents, uint64_t top, uint64_t divide);

/* The end of a run: blank lines, then every map, by name. Those whose contents are NULL are left out. */
void print_end(struct print *print, const struct script_map *const *maps, const struct drain_contents *const *contents, size_t n);

/* A time series: a value for each interval, the earliest first. */
struct print_point {
    uint64_t wall_ns; /* start of the interval */
    int64_t value;    /* a uint64_t if the map's type is unsigned */
    bool is_known;    /* false: nothing was recorded in it */
};
struct print_series {
    const void *key; /* encoded as if alone; NULL for a map without a key */
    size_t key_bytes;
    const struct print_point *points;
    size_t n;
};
void print_tseries(struct print *print, const struct script_map *map, const struct print_series *series, size_t n);

/* ---- messages about the run ---- */

void print_attached(struct print *print, uint64_t probes);
void print_lost(struct print *print, uint64_t events);
/* A clause ended early, a map has no room: `message` is shown with the place in the script. */
void print_run_error(struct print *print, const struct print_event *where, const char *message);

#endif
