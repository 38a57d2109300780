/* Conditions and directories, for the tests and fuzzers of trace/: included once by each. */
#ifndef TEST_UNIT_TRACE_FILES_H
#define TEST_UNIT_TRACE_FILES_H

#include "base/err.h"
#include "base/memory.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void require(bool condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "FAIL: %s\n", what);
    exit(1);
}

static void require_no(struct err *error)
{
    if (!error)
        return;
    fprintf(stderr, "FAIL: %s\n", error->message);
    exit(1);
}

static char *temporary_directory(void)
{
    /* In memory where possible: files are written thousands of times. */
    const char *base = getenv("TMPDIR");
    char *path = memory_format("%s/probity-trace-XXXXXX", base ? base : !access("/dev/shm", W_OK) ? "/dev/shm" : "/tmp");
    require(mkdtemp(path), "a temporary directory");
    return path;
}

static void remove_directory(const char *path)
{
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        char *name = memory_format("%s/%s", path, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(name);
        free(name);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
}

#endif
