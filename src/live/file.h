/* Files that scripts name, opened once. */
#ifndef LIVE_FILE_H
#define LIVE_FILE_H

#include "base/memory.h"
#include "symbol/dwarf.h"
#include "symbol/symbol.h"
#include "symbol/usdt.h"

struct live_file {
    char *path;
    struct symbol_file *symbols;
    struct symbol_dwarf *dwarf; /* NULL until asked for, and when there is none */
    struct symbol_usdt *usdt;   /* likewise */
    bool looked_for_dwarf, looked_for_usdt;
};

struct live_files {
    VEC(struct live_file *) file;
};

/* NULL when it can not be opened or is no ELF file. */
struct live_file *live_files_open(struct live_files *files, const char *path);
/* The files that a path, a program's or a library's name means, as the script has it; the list is NULL-terminated, to be freed with
 * live_paths_free(). Empty when there are none. */
char **live_paths(const char *path);
void live_paths_free(char **paths);
/* Whether one of them has that width, by its header alone; true when there are none, since they may yet come. */
bool live_path_has_width(const char *path, int width);
/* The first of them with that width. NULL: none. */
struct live_file *live_files_find(struct live_files *files, const char *path, int width);
struct symbol_dwarf *live_file_dwarf(struct live_file *file);
struct symbol_usdt *live_file_usdt(struct live_file *file);
void live_files_deinit(struct live_files *files);

#endif
