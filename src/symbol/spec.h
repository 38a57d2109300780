/* Trace point specifications, the strings that users write: MODULE:FUNCTION, MODULE:FUNCTION+OFFSET, MODULE:0xADDRESS, any of the
 * function forms with `:return`, globs (*, ?, [...]) in MODULE and FUNCTION, and PID:... where MODULE starts with a process id. */
#ifndef SYMBOL_SPEC_H
#define SYMBOL_SPEC_H

#include "base/err.h"
#include "symbol/symbol.h"

#include <stdbool.h>
#include <stdint.h>

enum spec_point { SPEC_ENTRY, SPEC_RETURN, SPEC_OFFSET, SPEC_ADDRESS };

struct spec {
    char *text;      /* as written */
    int pid;         /* of `PID:...` (then `module` may be "" = every module of the process), else 0 */
    char *module;    /* path, glob, or short name such as libc */
    char *function;  /* name or glob; NULL with SPEC_ADDRESS */
    uint64_t offset; /* SPEC_OFFSET: bytes from the function's entry; SPEC_ADDRESS: the file's own address */
    enum spec_point point;
    char *label;           /* what scripts call it; NULL: made from its parts */
    bool excludes;         /* what it means is left out: set by the caller */
    bool no_deleted;       /* a file that was deleted is meant by its path as the kernel shows it only: what we know is of another one */
    uint64_t semaphore_va; /* a 16-bit counter in the file that is to be raised while the place is probed, else 0 */
};

/* ERR_USAGE with a message that shows what a specification looks like. */
struct err *spec_parse(const char *text, struct spec *out);
void spec_deinit(struct spec *spec);

/* Whether the module part means the file at `path`: equal paths (also after realpath of the module part), a glob that matches the path or
 * its last component, or a short name: `libc` means libc.so.6, `libstdc++` means libstdc++.so.6, `python3` means any path whose last
 * component is python3 or python3 followed by version characters ([0-9.]). A glob or short name never matches a part of a component.
 * `path` is as /proc/PID/maps shows it: without a " (deleted)" at its end it is tried too, unless `no_deleted`. */
bool spec_matches_module(const struct spec *spec, const char *path);
/* The path of the file that the module part means when there is no process: itself if it has a slash, else a program in PATH, else a
 * library in the loader's directories (ld.so.cache through `ldconfig -p` is not used; the standard directories and /etc/ld.so.conf.d
 * are read), 64-bit first. Globs with a slash may give many. The result is a NULL-terminated array, free each and the array.
 * ERR_NO_MATCH when nothing fits. */
struct err *spec_find_files(const struct spec *spec, char ***paths);

/* Whether the function part matches, by name or by demangled name (a demangled name also without its parameter list). Aliases all match.
 * A glob does not match PLT stubs or fragments unless it contains '@' or '.'. */
bool spec_matches_func(const struct spec *spec, const struct symbol_func *func);
/* The first of functions from `from` on that matches; `count`: none does. */
size_t spec_next_match(const struct spec *spec, const struct symbol_func *func, size_t count, size_t from);
/* Up to three function names of the file that are near to the one asked for, nearest first, as "a, b or c" (caller frees), or NULL. */
char *spec_near_names(const struct spec *spec, const struct symbol_file *file);
/* Whether its function is a pattern: it may mean many. */
bool spec_has_pattern(const struct spec *spec);

#endif
