/* From the module part of a specification to files, when there is no process to ask. */
#include "base/memory.h"
#include "base/regular.h"
#include "symbol/glob.h"
#include "symbol/spec.h"
#include "symbol/spec_internal.h"

#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef VEC(char *) path_vec;

static void free_paths(path_vec *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->at[i]);
    VEC_FREE(paths);
}

static struct err *give(path_vec *found, char ***paths)
{
    VEC_PUSH(found, NULL);
    *paths = found->at;
    return NULL;
}

static void push_new(path_vec *paths, char *path)
{
    for (size_t i = 0; i < paths->n; i++)
        if (strcmp(paths->at[i], path) == 0) {
            free(path);
            return;
        }
    VEC_PUSH(paths, path);
}

/* 64 or 32 when the file is ELF for x86, else 0: the folders also hold scripts, linker scripts and other architectures' files. */
static int elf_width(const char *path)
{
    Elf32_Ehdr header;
    int fd = regular_open(path);
    ssize_t got = fd < 0 ? -1 : read(fd, &header, sizeof header);
    if (fd >= 0)
        close(fd);
    if (got != (ssize_t)sizeof header || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    if (header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_machine == EM_X86_64)
        return 64;
    return header.e_ident[EI_CLASS] == ELFCLASS32 && header.e_machine == EM_386 ? 32 : 0;
}

/* ---- folders ---- */

static void add_folder(path_vec *folders, const char *path)
{
    char *real = realpath(path, NULL);
    if (real)
        push_new(folders, real);
}

static void read_conf(path_vec *folders, const char *path)
{
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) >= 0) {
        line[strcspn(line, "#\n \t")] = 0;
        if (line[0] == '/')
            add_folder(folders, line);
    }
    free(line);
    if (file)
        fclose(file);
}

static void library_folders(path_vec *folders)
{
    static const char *const standard[] = {"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
                                           "/lib/i386-linux-gnu",   "/usr/lib/i386-linux-gnu",   "/lib32", "/usr/lib32"};
    for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
        add_folder(folders, standard[i]);
    read_conf(folders, "/etc/ld.so.conf");
    glob_t matches;
    if (glob("/etc/ld.so.conf.d/*.conf", 0, NULL, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc; i++)
            read_conf(folders, matches.gl_pathv[i]);
        globfree(&matches);
    }
}

static void program_folders(path_vec *folders)
{
    const char *path = getenv("PATH");
    char *copy = memory_text(path ? path : "/usr/local/bin:/usr/bin:/bin"), *state = NULL;
    for (char *folder = strtok_r(copy, ":", &state); folder; folder = strtok_r(NULL, ":", &state))
        if (folder[0] == '/')
            VEC_PUSH(folders, memory_text(folder));
    free(copy);
}

/* ---- search ---- */

typedef bool fits_fn(const char *name, const char *component);

static bool glob_fits(const char *pattern, const char *component)
{
    return symbol_glob_match(pattern, component, true);
}

static int by_version(const void *left, const void *right)
{
    return strverscmp(*(char *const *)right, *(char *const *)left);
}

/* The ELF files of a folder that fit, real paths, the highest version first. */
static void search_folder(const char *folder, const char *name, fits_fn *fits, path_vec *out)
{
    DIR *dir = opendir(folder);
    path_vec names = {0};
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' && fits(name, entry->d_name))
            VEC_PUSH(&names, memory_text(entry->d_name));
    if (dir)
        closedir(dir);
    if (names.n)
        qsort(names.at, names.n, sizeof *names.at, by_version);
    for (size_t i = 0; i < names.n; i++) {
        char *path = memory_format("%s/%s", folder, names.at[i]);
        char *real = realpath(path, NULL);
        struct stat stat_;
        if (real && stat(real, &stat_) == 0 && S_ISREG(stat_.st_mode) && elf_width(real))
            push_new(out, real);
        else
            free(real);
        free(path);
    }
    free_paths(&names);
}

static void search(void (*list)(path_vec *), const char *name, fits_fn *fits, path_vec *out)
{
    path_vec folders = {0};
    list(&folders);
    for (size_t i = 0; i < folders.n; i++)
        search_folder(folders.at[i], name, fits, out);
    free_paths(&folders);
}

static bool is_equal(const char *name, const char *component)
{
    return strcmp(name, component) == 0;
}

/* Keeps one: the first 64-bit file, else the first. */
static void keep_one(path_vec *paths)
{
    size_t best = 0;
    while (best < paths->n && elf_width(paths->at[best]) != 64)
        best++;
    if (best == paths->n)
        best = 0;
    char *kept = paths->at[best];
    paths->at[best] = paths->at[0];
    paths->at[0] = kept;
    while (paths->n > 1)
        free(paths->at[--paths->n]);
}

static struct err *find_glob(const struct spec *spec, path_vec *found)
{
    if (!strchr(spec->module, '/')) {
        search(program_folders, spec->module, glob_fits, found);
        if (!found->n)
            search(library_folders, spec->module, glob_fits, found);
        return NULL;
    }
    glob_t matches;
    int status = glob(spec->module, 0, NULL, &matches);
    if (status == GLOB_NOSPACE)
        return err_new(ERR_SYSTEM, "trace point: '%s': out of memory", spec->text);
    for (size_t i = 0; status == 0 && i < matches.gl_pathc; i++)
        if (elf_width(matches.gl_pathv[i]))
            VEC_PUSH(found, memory_text(matches.gl_pathv[i]));
    if (status == 0)
        globfree(&matches);
    return NULL;
}

struct err *spec_find_files(const struct spec *spec, char ***paths)
{
    path_vec found = {0};
    *paths = NULL;
    if (!*spec->module)
        return err_new(ERR_NO_MATCH, "trace point: '%s': no module and no process to look in", spec->text);
    if (symbol_glob_is(spec->module)) {
        ERR_TRY(find_glob(spec, &found));
    } else if (strchr(spec->module, '/')) {
        if (access(spec->module, F_OK) == 0)
            VEC_PUSH(&found, memory_text(spec->module));
    } else {
        search(program_folders, spec->module, is_equal, &found);
        if (!found.n)
            search(library_folders, spec->module, spec_short_name_fits, &found);
        if (!found.n)
            search(program_folders, spec->module, spec_short_name_fits, &found);
        if (found.n)
            keep_one(&found);
    }
    if (!found.n)
        return err_new(ERR_NO_MATCH, "trace point: '%s': no file '%s'%s", spec->text, spec->module,
                       strchr(spec->module, '/') ? "" : ": neither a program in PATH nor a library; give its path");
    return give(&found, paths);
}
