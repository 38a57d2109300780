/* Looking at processes without touching them. */
#include "target/target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* The names in a folder that are numbers. False, with errno: it can not be read. */
static bool read_numbers(const char *path, target_pids *out)
{
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (isdigit((unsigned char)entry->d_name[0]))
            VEC_PUSH(out, atoi(entry->d_name));
    closedir(dir);
    if (out->n)
        qsort(out->at, out->n, sizeof *out->at, by_pid);
    return true;
}

void target_all_pids(target_pids *out)
{
    read_numbers("/proc", out);
}

struct err *target_all_threads(pid_t pid, target_pids *out)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    if (!read_numbers(path, out) && errno != ENOENT && errno != ESRCH)
        return err_errno(ERR_SYSTEM, errno, "process %d: threads", pid);
    return out->n ? NULL : err_new(ERR_NO_PROCESS, "process %d: has ended", pid);
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

/* The file's text, cut to fit; "" when it can not be read. */
static void read_text(const char *path, char *text, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? 0 : read(fd, text, room - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
}

bool target_thread_usage(pid_t pid, pid_t tid, struct target_usage *out)
{
    char path[64], text[128];
    unsigned long long run_ns, delay_ns, times;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", pid, tid);
    read_text(path, text, sizeof text);
    if (sscanf(text, "%llu %llu %llu", &run_ns, &delay_ns, &times) != 3)
        return false;
    *out = (struct target_usage){run_ns, delay_ns, times};
    return true;
}

bool target_process_usage(pid_t pid, uint64_t *run_ns)
{
    clockid_t clock;
    struct timespec ran;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &ran))
        return false;
    *run_ns = (uint64_t)ran.tv_sec * 1000000000u + (uint64_t)ran.tv_nsec;
    return true;
}

void target_children(pid_t pid, pid_t tid, target_pids *out)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", pid, tid);
    FILE *in = fopen(path, "re");
    while (in && fscanf(in, "%d", &child) == 1)
        VEC_PUSH(out, child);
    if (in)
        fclose(in);
}

uint64_t target_program_mark(pid_t pid)
{
    char path[64], text[1024];
    unsigned long long code, stack;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    read_text(path, text, sizeof text);
    const char *fields = strrchr(text, ')'); /* a name may hold anything */
    /* Where its code and its stack begin: fields 26 and 28. */
    if (!fields ||
        sscanf(fields, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %*s %llu", &code,
               &stack) != 2)
        return 0;
    return code * 31 + stack;
}

bool target_thread_at_rest(pid_t pid, pid_t tid, struct target_rest *out)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/task/%d/syscall", pid, tid);
    read_text(path, text, sizeof text);
    unsigned long long value[8];
    *out = (struct target_rest){0};
    if (sscanf(text, "%ld %llx %llx %llx %llx %llx %llx %llx %llx", &out->number, &value[0], &value[1], &value[2], &value[3], &value[4],
               &value[5], &value[6], &value[7]) == 9) {
        for (int i = 0; i < 6; i++)
            out->args[i] = value[i];
        out->sp = value[6];
        out->pc = value[7];
        return true;
    }
    out->number = -1;
    if (sscanf(text, "-1 %llx %llx", &value[0], &value[1]) != 2)
        return false;
    out->sp = value[0];
    out->pc = value[1];
    return true;
}
