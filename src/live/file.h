/* Files that scripts name, opened once. */
#ifndef LIVE_FILE_H
#define LIVE_FILE_H

#include "base/memory.h"
#include "base/names.h"
#include "symbol/dwarf.h"
#include "symbol/symbol.h"
#include "symbol/usdt.h"
#include "target/target.h"

struct live_file {
    char *path;
    int fd; /* of a file that was deleted, which its path does not lead to; else -1 */
    struct symbol_file *symbols;
    struct symbol_dwarf *dwarf; /* NULL until asked for, and when there is none */
    struct symbol_usdt *usdt;   /* likewise */
    bool looked_for_dwarf, looked_for_usdt;
};

struct live_files {
    VEC(struct live_file *) file;
    const pid_t *pid; /* the processes that are traced, whose files may have been deleted; set by the caller, whose they stay */
    size_t n_pids;
    struct names name;   /* that were asked about */
    VEC(char **) named;  /* by number of the name: the files that it means */
    target_paths mapped; /* what those processes have mapped, once it was looked for */
    bool looked_for_mapped;
};

/* NULL when it can not be opened or is no ELF file. A path of a file that was deleted is as the kernel shows it. */
struct live_file *live_files_open(struct live_files *files, const char *path);
/* The files that a path, a program's or a library's name means, as the script has it: first those that the processes map and that were
 * deleted, then those that exist, but for the ones that have taken the name of a deleted one. The list is NULL-terminated, empty when there
 * are none, and as it was when it was asked for first; it lives as long as `files`. */
char *const *live_paths(struct live_files *files, const char *path);
/* Whether one of those files that exist, or the deleted one that has this very path, has that width, by its header alone; true when there
 * are none, since they may yet come. */
bool live_path_has_width(struct live_files *files, const char *path, int width);
/* The first of the same files with that width. NULL: none. */
struct live_file *live_files_find(struct live_files *files, const char *path, int width);
struct symbol_dwarf *live_file_dwarf(struct live_file *file);
struct symbol_usdt *live_file_usdt(struct live_file *file);
void live_files_deinit(struct live_files *files);

#endif
