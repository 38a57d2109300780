/* Looking at processes without touching them. */
#include "target/target.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void target_executable_files(pid_t pid, target_paths *out)
{
    char name[64], *line = NULL;
    size_t room = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", pid);
    FILE *in = fopen(name, "re");
    while (in && getline(&line, &room, in) > 0) {
        char *path = strchr(line, '/');
        if (!path || !strstr(line, "r-xp"))
            continue;
        path[strcspn(path, "\n")] = 0;
        if (!out->n || strcmp(out->at[out->n - 1], path))
            VEC_PUSH(out, memory_text(path));
    }
    free(line);
    if (in)
        fclose(in);
}

void target_paths_deinit(target_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->at[i]);
    VEC_FREE(paths);
}

static int by_pid(const void *a, const void *b)
{
    pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
    return x < y ? -1 : x > y;
}

void target_all_pids(target_pids *out)
{
    DIR *dir = opendir("/proc");
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (isdigit((unsigned char)entry->d_name[0]))
            VEC_PUSH(out, atoi(entry->d_name));
    if (dir)
        closedir(dir);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_pid);
}
