/* Arguments that several commands have. */
#include "cmd/cmd.h"

#include "base/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct err *cmd_split_command(int *argc, char **argv, char *const **command)
{
    int own = 1;
    *command = NULL;
    while (own < *argc && strcmp(argv[own], "--"))
        own++;
    if (own + 1 == *argc)
        return err_new(ERR_USAGE, "%s: no command after --", argv[0]);
    if (own < *argc) {
        argv[own] = NULL;
        *command = argv + own + 1;
        *argc = own;
    }
    return NULL;
}

struct err *cmd_parse_pid(const char *text, pid_t *out)
{
    char *end;
    long pid = strtol(text, &end, 10);
    if (*end || end == text || pid <= 0 || pid > 0x7fffffff)
        return err_new(ERR_USAGE, "--pid: %s: not a process id", text);
    if (pid == getpid())
        return err_new(ERR_USAGE, "--pid: %s: that is probity itself", text);
    *out = (pid_t)pid;
    return NULL;
}

struct err *cmd_parse_seconds(const char *text, const char *option, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return *end || end == text || !(*out > 0) || *out > 1e9 ? err_new(ERR_USAGE, "%s: %s: not a number of seconds", option, text) : NULL;
}

struct err *cmd_parse_number(const char *text, const char *option, double least, double most, double *out)
{
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (errno || end == text || *end || !(*out >= least && *out <= most))
        return err_new(ERR_USAGE, "%s: %s: must be a number from %g to %g", option, text, least, most);
    return NULL;
}

struct err *cmd_parse_hot(const char *text, enum climb_hot *out)
{
    if (strcmp(text, "samples") && strcmp(text, "calls"))
        return err_new(ERR_USAGE, "--hot: %s: it is samples or calls", text);
    *out = strcmp(text, "calls") ? CLIMB_HOT_SAMPLES : CLIMB_HOT_CALLS;
    return NULL;
}

struct err *cmd_parse_percent(const char *text, const char *option, double *out)
{
    char *copy = memory_text(text);
    size_t length = strlen(copy);
    if (length && copy[length - 1] == '%')
        copy[length - 1] = 0;
    struct err *error = cmd_parse_number(copy, option, 0.01, 100, out);
    free(copy);
    *out /= 100;
    return error;
}
