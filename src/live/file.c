#include "live/file.h"
#include "symbol/spec.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct live_file *live_files_open(struct live_files *files, const char *path)
{
    for (size_t i = 0; i < files->file.n; i++)
        if (!strcmp(files->file.at[i]->path, path))
            return files->file.at[i]->symbols ? files->file.at[i] : NULL;
    struct live_file *file = memory_zero(1, sizeof *file);
    file->path = memory_text(path);
    err_free(symbol_file_open(path, &file->symbols));
    VEC_PUSH(&files->file, file);
    return file->symbols ? file : NULL;
}

char **live_paths(const char *path)
{
    char **paths = NULL;
    struct spec spec = {.text = (char *)path, .module = (char *)path};
    err_free(spec_find_files(&spec, &paths));
    return paths ? paths : memory_zero(1, sizeof *paths);
}

void live_paths_free(char **paths)
{
    for (size_t i = 0; paths[i]; i++)
        free(paths[i]);
    free(paths);
}

bool live_path_has_width(const char *path, int width)
{
    char **paths = live_paths(path);
    bool found = !paths[0];
    for (size_t i = 0; paths[i] && !found; i++) {
        unsigned char ident[EI_NIDENT] = {0};
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, ident, sizeof ident) == sizeof ident)
            found = ident[EI_CLASS] == (width == 64 ? ELFCLASS64 : ELFCLASS32);
        if (fd >= 0)
            close(fd);
    }
    live_paths_free(paths);
    return found;
}

struct live_file *live_files_find(struct live_files *files, const char *path, int width)
{
    char **paths = live_paths(path);
    struct live_file *found = NULL;
    for (size_t i = 0; paths[i] && !found; i++) {
        struct live_file *file = live_files_open(files, paths[i]);
        found = file && symbol_file_width(file->symbols) == width ? file : NULL;
    }
    live_paths_free(paths);
    return found;
}

struct symbol_dwarf *live_file_dwarf(struct live_file *file)
{
    if (!file->looked_for_dwarf)
        err_free(symbol_dwarf_open(file->path, &file->dwarf));
    file->looked_for_dwarf = true;
    return file->dwarf;
}

struct symbol_usdt *live_file_usdt(struct live_file *file)
{
    if (!file->looked_for_usdt)
        err_free(symbol_usdt_open(file->path, &file->usdt));
    file->looked_for_usdt = true;
    return file->usdt;
}

void live_files_deinit(struct live_files *files)
{
    for (size_t i = 0; i < files->file.n; i++) {
        struct live_file *file = files->file.at[i];
        symbol_dwarf_close(file->dwarf);
        symbol_usdt_close(file->usdt);
        symbol_file_close(file->symbols);
        free(file->path);
        free(file);
    }
    VEC_FREE(&files->file);
}
