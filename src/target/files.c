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

/* The names in a folder that are numbers. */
static void read_numbers(const char *path, target_pids *out)
{
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (isdigit((unsigned char)entry->d_name[0]))
            VEC_PUSH(out, atoi(entry->d_name));
    if (dir)
        closedir(dir);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_pid);
}

void target_all_pids(target_pids *out)
{
    read_numbers("/proc", out);
}

void target_all_threads(pid_t pid, target_pids *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    read_numbers(path, out);
}

void target_thread_name(pid_t pid, pid_t tid, char out[TARGET_NAME])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", pid, tid);
    FILE *in = fopen(path, "re");
    memset(out, 0, TARGET_NAME);
    if (!in)
        return;
    size_t length = fread(out, 1, TARGET_NAME, in);
    out[length && out[length - 1] == '\n' ? length - 1 : TARGET_NAME - 1] = 0;
    fclose(in);
}

bool target_read_owner(pid_t pid, struct target_owner *out)
{
    char path[64], *line = NULL;
    size_t room = 0;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *in = fopen(path, "re");
    *out = (struct target_owner){0};
    while (in && getline(&line, &room, in) > 0)
        found += sscanf(line, "PPid: %u", &out->parent) == 1 || sscanf(line, "Uid: %u", &out->uid) == 1 ||
                 sscanf(line, "Gid: %u", &out->gid) == 1;
    free(line);
    if (in)
        fclose(in);
    return found == 3;
}
