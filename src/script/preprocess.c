/* The C preprocessor, run as a program: once per data model, because system headers differ. */
#include "script/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIME_LIMIT_MS = 10000, MOST_OUTPUT = 64 << 20 };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* A file descriptor from which the text can be read, or -1. */
static int text_file(const char *line, const char *text)
{
    int file = memfd_create("script", MFD_CLOEXEC);
    if (file < 0)
        return -1;
    size_t n = strlen(text);
    if (write(file, line, strlen(line)) != (ssize_t)strlen(line) || write(file, text, n) != (ssize_t)n || lseek(file, 0, SEEK_SET) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static pid_t start(char *const *command, int in, int out, int errors)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    dup2(in, 0);
    dup2(out, 1);
    dup2(errors, 2);
    static const char *const programs[] = {"cc", "gcc", "clang"};
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        execvp(programs[i], command);
    dprintf(2, "error: no C preprocessor: cc, gcc and clang were not found: %s\n", strerror(errno));
    _exit(127);
}

struct output {
    VEC(char) text;
};

static void append(struct output *output, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        VEC_PUSH(&output->text, bytes[i]);
}

/* Reads both pipes until they close. False: too slow or too much. */
static bool read_all(int out, int errors, struct output *text, struct output *complaints)
{
    int64_t limit = now_ms() + TIME_LIMIT_MS;
    struct pollfd polled[2] = {{.fd = out, .events = POLLIN}, {.fd = errors, .events = POLLIN}};
    while (polled[0].fd >= 0 || polled[1].fd >= 0) {
        int64_t left = limit - now_ms();
        if (left <= 0 || text->text.n > MOST_OUTPUT)
            return false;
        if (poll(polled, 2, (int)left) < 0 && errno != EINTR)
            return false;
        for (int i = 0; i < 2; i++) {
            char bytes[65536];
            if (polled[i].fd < 0 || !polled[i].revents)
                continue;
            ssize_t n = read(polled[i].fd, bytes, sizeof bytes);
            if (n > 0)
                append(i ? complaints : text, bytes, (size_t)n);
            else if (n == 0 || errno != EINTR)
                polled[i].fd = -1;
        }
    }
    return true;
}

/* The preprocessor's messages, `NAME:LINE:COLUMN: error: text`, as ours. */
static void report_complaints(struct script_program *program, uint32_t file, char *complaints)
{
    const struct source *source = &program->sources.at[file];
    char *rest = NULL;
    for (char *line = strtok_r(complaints, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *message = strstr(line, "error: ");
        if (!message)
            continue;
        message += strlen("error: ");
        struct script_span span = {.file = file, .begin = 0, .end = 1};
        size_t n = strlen(source->name);
        unsigned number = 0;
        if (strncmp(line, source->name, n) == 0 && sscanf(line + n, ":%u:", &number) == 1) {
            const char *at = source->text;
            for (unsigned i = 1; i < number && at; i++) {
                at = strchr(at, '\n');
                at = at ? at + 1 : NULL;
            }
            if (at) {
                span.begin = (uint32_t)(at - source->text);
                span.end = span.begin + (uint32_t)strcspn(at, "\n");
            }
            ERROR(program, span, "%s", message);
        } else {
            ERROR(program, span, "preprocessor: %s", line);
        }
    }
}

char *preprocess(struct script_program *program, enum script_model model, uint32_t file, const char *text)
{
    const struct script_options *options = &program->options;
    const char *name = program->sources.at[file].name;
    struct script_span span = {.file = file, .begin = 0, .end = 1};
    const char *slash = strrchr(name, '/');
    VEC(char *) command = {0};
    const char *fixed[] = {"cc", "-E", "-dD", "-x", "c", "-w", model == SCRIPT_ILP32 ? "-m32" : "-m64"};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        VEC_PUSH(&command, (char *)fixed[i]);
    if (model == SCRIPT_ILP32) {
        /* 32-bit headers lead to <asm/...>, which only the native folder has. */
        VEC_PUSH(&command, (char *)"-idirafter");
        VEC_PUSH(&command, (char *)"/usr/include/x86_64-linux-gnu");
    }
    if (slash) {
        VEC_PUSH(&command, (char *)"-iquote");
        VEC_PUSH(&command, arena_text(&program->arena, name, (size_t)(slash - name)));
    }
    for (size_t i = 0; i < options->n_include_dirs; i++)
        VEC_PUSH(&command, arena_format(&program->arena, "-I%s", options->include_dirs[i]));
    for (size_t i = 0; i < options->n_include_files; i++) {
        VEC_PUSH(&command, (char *)"-include");
        VEC_PUSH(&command, (char *)options->include_files[i]);
    }
    VEC_PUSH(&command, (char *)"-");
    VEC_PUSH(&command, NULL);

    int out[2] = {-1, -1}, errors[2] = {-1, -1};
    int in = text_file(arena_format(&program->arena, "# 1 \"%s\"\n", name), text);
    char *result = NULL;
    struct output found = {0}, complaints = {0};
    if (in < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0) {
        ERROR(program, span, "preprocessor: can not be started: %s", strerror(errno));
    } else {
        pid_t child = start(command.at, in, out[1], errors[1]);
        close(out[1]);
        close(errors[1]);
        out[1] = errors[1] = -1;
        bool ok = child > 0 && read_all(out[0], errors[0], &found, &complaints);
        if (child > 0 && !ok)
            kill(child, SIGKILL);
        int status = -1;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        append(&complaints, "", 1);
        append(&found, "", 1);
        if (!ok)
            ERROR(program, span, "preprocessor: %s", child > 0 ? "took too long or printed too much" : "can not be started");
        else if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && strlen(found.text.at) < UINT32_MAX)
            result = memory_text(found.text.at);
        else
            report_complaints(program, file, complaints.text.at);
        if (ok && !result && program->n_errors + program->deferred.n == 0)
            ERROR(program, span, "preprocessor: failed without a message");
    }
    int files[] = {in, out[0], out[1], errors[0], errors[1]};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i] >= 0)
            close(files[i]);
    VEC_FREE(&found.text);
    VEC_FREE(&complaints.text);
    VEC_FREE(&command);
    return result;
}
