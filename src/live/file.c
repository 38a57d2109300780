#include "live/file.h"
#include "base/regular.h"
#include "symbol/spec.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- files that were deleted ---- */

static const target_paths *mapped_paths(struct live_files *files)
{
    for (size_t i = 0; i < files->n_pids && !files->looked_for_mapped; i++)
        target_executable_files(files->pid[i], &files->mapped);
    files->looked_for_mapped = true;
    return &files->mapped;
}

static bool holds(const target_paths *paths, const char *path)
{
    for (size_t i = 0; i < paths->n; i++)
        if (!strcmp(paths->at[i], path))
            return true;
    return false;
}

static int open_mapped(const struct live_files *files, const char *path)
{
    int fd = -1;
    for (size_t p = 0; p < files->n_pids && fd < 0; p++) {
        struct target_maps maps = {0};
        err_free(target_peek_maps(files->pid[p], &maps));
        for (size_t i = 0; i < maps.map.n && fd < 0; i++)
            if (maps.map.at[i].inode && !strcmp(maps.map.at[i].path, path))
                err_free(target_peek_file(files->pid[p], &maps.map.at[i], &fd));
        target_maps_deinit(&maps);
    }
    return fd;
}

/* ---- files ---- */

struct live_file *live_files_open(struct live_files *files, const char *path)
{
    for (size_t i = 0; i < files->file.n; i++)
        if (!strcmp(files->file.at[i]->path, path))
            return files->file.at[i]->symbols ? files->file.at[i] : NULL;
    struct live_file *file = memory_zero(1, sizeof *file);
    file->path = memory_text(path);
    file->fd = regular_is_deleted(path) ? open_mapped(files, path) : -1;
    err_free(file->fd >= 0 ? symbol_file_open_fd(file->fd, path, &file->symbols) : symbol_file_open(path, &file->symbols));
    VEC_PUSH(&files->file, file);
    return file->symbols ? file : NULL;
}

static char **find_paths(struct live_files *files, const char *path)
{
    const target_paths *mapped = mapped_paths(files);
    char **there = NULL;
    VEC(char *) paths = {0};
    struct spec spec = {.text = (char *)path, .module = (char *)path};
    for (size_t i = 0; i < mapped->n; i++)
        if (regular_is_deleted(mapped->at[i]) && spec_matches_module(&spec, mapped->at[i]))
            VEC_PUSH(&paths, memory_text(mapped->at[i]));
    err_free(spec_find_files(&spec, &there));
    for (size_t i = 0; there && there[i]; i++) {
        char *deleted = memory_format("%s (deleted)", there[i]);
        if (holds(mapped, deleted) && !holds(mapped, there[i]))
            free(there[i]);
        else
            VEC_PUSH(&paths, there[i]);
        free(deleted);
    }
    free(there);
    VEC_PUSH(&paths, NULL);
    return paths.at;
}

char *const *live_paths(struct live_files *files, const char *path)
{
    uint32_t number = names_number(&files->name, path);
    if (number == files->named.n)
        VEC_PUSH(&files->named, find_paths(files, path));
    return files->named.at[number];
}

/* A file that was deleted is another one than what its path leads to. */
static bool is_the_one(const char *path, const char *found)
{
    return !regular_is_deleted(found) || !strcmp(found, path);
}

bool live_path_has_width(struct live_files *files, const char *path, int width)
{
    char *const *paths = live_paths(files, path);
    bool found = !paths[0];
    for (size_t i = 0; paths[i] && !found; i++) {
        unsigned char ident[EI_NIDENT] = {0};
        if (regular_is_deleted(paths[i])) {
            struct live_file *file = is_the_one(path, paths[i]) ? live_files_open(files, paths[i]) : NULL;
            found = file && symbol_file_width(file->symbols) == width;
            continue;
        }
        int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, ident, sizeof ident) == sizeof ident)
            found = ident[EI_CLASS] == (width == 64 ? ELFCLASS64 : ELFCLASS32);
        if (fd >= 0)
            close(fd);
    }
    return found;
}

struct live_file *live_files_find(struct live_files *files, const char *path, int width)
{
    char *const *paths = live_paths(files, path);
    struct live_file *found = NULL;
    for (size_t i = 0; paths[i] && !found; i++) {
        struct live_file *file = is_the_one(path, paths[i]) ? live_files_open(files, paths[i]) : NULL;
        found = file && symbol_file_width(file->symbols) == width ? file : NULL;
    }
    return found;
}

struct symbol_dwarf *live_file_dwarf(struct live_file *file)
{
    if (!file->looked_for_dwarf)
        err_free(file->fd >= 0 ? symbol_dwarf_open_fd(file->fd, file->path, &file->dwarf) : symbol_dwarf_open(file->path, &file->dwarf));
    file->looked_for_dwarf = true;
    return file->dwarf;
}

struct symbol_usdt *live_file_usdt(struct live_file *file)
{
    if (!file->looked_for_usdt)
        err_free(file->fd >= 0 ? symbol_usdt_open_fd(file->fd, file->path, &file->usdt) : symbol_usdt_open(file->path, &file->usdt));
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
        if (file->fd >= 0)
            close(file->fd);
        free(file->path);
        free(file);
    }
    VEC_FREE(&files->file);
    for (size_t i = 0; i < files->named.n; i++) {
        for (size_t k = 0; files->named.at[i][k]; k++)
            free(files->named.at[i][k]);
        free(files->named.at[i]);
    }
    VEC_FREE(&files->named);
    names_deinit(&files->name);
    target_paths_deinit(&files->mapped);
}
