#include "cmd/tracing.h"

#include "cmd/cmd.h"

#include "base/escape.h"
#include "script/script.h"
#include "stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what the options say ---- */

struct err *tracing_read_script(struct tracing *tracing, const char *path)
{
    enum { LARGEST = 16 << 20 };
    int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0)
        return err_errno(errno == EACCES ? ERR_PERMISSION : ERR_FILE, errno, "%s", path);
    struct stat status;
    if (!fstat(fd, &status) && S_ISDIR(status.st_mode)) {
        close(fd);
        return err_new(ERR_USAGE, "%s: is a directory: give a file with a script, or -e PROGRAM", path);
    }
    size_t length = 0, room = 4096;
    tracing->text = memory_alloc(room);
    ssize_t got;
    while ((got = read(fd, tracing->text + length, room - length)) > 0) {
        length += (size_t)got;
        if (length == room && room < LARGEST) {
            char *larger = memory_alloc(room * 2);
            memcpy(larger, tracing->text, length);
            free(tracing->text);
            tracing->text = larger;
            room *= 2;
        }
    }
    int failed = errno;
    if (fd != STDIN_FILENO)
        close(fd);
    if (got < 0)
        return err_errno(ERR_FILE, failed, "%s: read", path);
    if (length == room)
        return err_new(ERR_FILE, "%s: larger than %d bytes", path, LARGEST);
    tracing->live.name = strcmp(path, "-") ? path : "stdin";
    tracing->live.text = tracing->text;
    tracing->live.length = length;
    return NULL;
}

static struct err *add_pid(struct tracing *tracing, const char *text)
{
    pid_t pid;
    ERR_TRY(cmd_parse_pid(text, &pid));
    VEC_PUSH(&tracing->pid, pid);
    return NULL;
}

/* Words with quotes and backslashes as a shell has them, without anything else of it. */
static struct err *split_command(struct tracing *tracing, const char *text)
{
    char *copy = memory_alloc(strlen(text) + 1), *out = copy;
    VEC(char *) word = {0};
    char quote = 0;
    bool inside = false;
    for (const char *at = text; *at || inside; at++) {
        if (!*at || (!quote && (*at == ' ' || *at == '\t' || *at == '\n'))) {
            if (inside)
                *out++ = 0;
            inside = false;
            if (!*at)
                break;
            continue;
        }
        if (!inside)
            VEC_PUSH(&word, out);
        inside = true;
        if (*at == '\\' && quote != '\'' && at[1])
            *out++ = *++at;
        else if (quote ? *at == quote : *at == '\'' || *at == '"')
            quote = quote ? 0 : *at;
        else
            *out++ = *at;
    }
    if (quote || !word.n) {
        VEC_FREE(&word);
        free(copy);
        return err_new(ERR_USAGE, "-c: %s", quote ? "a quote is not closed" : "no command");
    }
    VEC_PUSH(&word, NULL);
    VEC_PUSH(&word, copy);
    tracing->words = word.at;
    tracing->live.command = word.at;
    return NULL;
}

static struct err *set_format(struct tracing *tracing, const char *text)
{
    if (strcmp(text, "json") && strcmp(text, "text"))
        return err_new(ERR_USAGE, "-f: %s: it is text or json", text);
    tracing->live.json = !strcmp(text, "json");
    return NULL;
}

static struct err *set_dialect(struct tracing *tracing, const char *text)
{
    if (strcmp(text, "0.17") && strcmp(text, "0.26"))
        return err_new(ERR_USAGE, "--dialect: %s: it is 0.17 or 0.26", text);
    tracing->live.dialect = strcmp(text, "0.17") ? PRINT_26 : PRINT_17;
    return NULL;
}

struct err *tracing_option(struct tracing *tracing, int option, const char *message)
{
    switch (option) {
    case 'e':
        tracing->live.name = "stdin";
        tracing->live.text = optarg;
        tracing->live.length = strlen(optarg);
        return NULL;
    case 'p':
        return add_pid(tracing, optarg);
    case 'c':
        return split_command(tracing, optarg);
    case 'f':
        return set_format(tracing, optarg);
    case TRACING_DIALECT:
        return set_dialect(tracing, optarg);
    case 'o':
        tracing->out_path = optarg;
        return NULL;
    case 'I':
        VEC_PUSH(&tracing->include_dir, optarg);
        return NULL;
    case TRACING_INCLUDE:
        VEC_PUSH(&tracing->include_file, optarg);
        return NULL;
    case 'l':
        tracing->lists = true;
        return NULL;
    case 'q':
        tracing->live.quiet = true;
        return NULL;
    case 'v':
        tracing->live.verbose = true;
        return NULL;
    case TRACING_RAW:
        tracing->live.raw = true;
        return NULL;
    case TRACING_UNSAFE:
        tracing->live.unsafe = true;
        return NULL;
    default:
        return err_new(ERR_USAGE, "%s", message);
    }
}

void tracing_set_pattern(struct tracing *tracing, const char *pattern)
{
    const char *colon = strchr(pattern, ':');
    bool only_path = colon && !strchr(colon + 1, ':');
    tracing->text = memory_format("%s%s {}", pattern, only_path ? ":*" : "");
    tracing->live.name = "stdin";
    tracing->live.text = tracing->text;
    tracing->live.length = strlen(tracing->text);
}

/* A number of the environment, under one of two names. */
static struct err *read_number(const char *name, const char *older, uint64_t most, uint64_t *out)
{
    const char *text = getenv(name);
    if (!text && older)
        text = getenv(name = older);
    if (!text)
        return NULL;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 0);
    if (errno || *end || end == text || !value || value > most)
        return err_new(ERR_USAGE, "%s: %s: not a number from 1 to %llu", name, text, (unsigned long long)most);
    *out = value;
    return NULL;
}

struct err *tracing_read_environment(struct tracing *tracing)
{
    enum { STRLEN_MOST = 1 << 16, KEYS_MOST = 1 << 24, CAT_MOST = 1 << 30 };
    uint64_t strlen_most = 0, keys = 0, cat_bytes = 0;
    ERR_TRY(read_number("BPFTRACE_MAX_STRLEN", "BPFTRACE_STRLEN", STRLEN_MOST, &strlen_most));
    ERR_TRY(read_number("BPFTRACE_MAX_MAP_KEYS", "BPFTRACE_MAP_KEYS_MAX", KEYS_MOST, &keys));
    ERR_TRY(read_number("BPFTRACE_MAX_CAT_BYTES", "BPFTRACE_CAT_BYTES_MAX", CAT_MOST, &cat_bytes));
    tracing->live.max_strlen = (unsigned)strlen_most;
    tracing->live.max_map_keys = (uint32_t)keys;
    tracing->live.max_cat_bytes = cat_bytes;
    tracing->live.missing_probes = getenv("BPFTRACE_MISSING_PROBES");
    tracing->live.str_trunc_trailer = getenv("BPFTRACE_STR_TRUNC_TRAILER");
    tracing->live.print_maps_on_exit = getenv("BPFTRACE_PRINT_MAPS_ON_EXIT");
    return NULL;
}

static void hand_over_lists(struct tracing *tracing)
{
    tracing->live.pid = tracing->pid.at;
    tracing->live.n_pids = tracing->pid.n;
    tracing->live.arguments = tracing->argument.at;
    tracing->live.n_arguments = tracing->argument.n;
    tracing->live.include_dirs = tracing->include_dir.at;
    tracing->live.n_include_dirs = tracing->include_dir.n;
    tracing->live.include_files = tracing->include_file.at;
    tracing->live.n_include_files = tracing->include_file.n;
}

/* ---- running ---- */

static void dump_trees(const struct live_script *script, FILE *out)
{
    for (size_t i = 0; i < script->context.n; i++) {
        const struct script_context *context = &script->context.at[i];
        char *text = context->checked ? script_dump(script->program, context->checked) : NULL;
        if (text) {
            fprintf(out, "clause %zu, %s\n", context->clause, context->model == SCRIPT_LP64 ? "LP64" : "ILP32");
            escape_lines(out, text);
            fputc('\n', out);
        }
        free(text);
    }
}

static struct err *run_script(struct tracing *tracing, int *code)
{
    struct live_script *script;
    char *diagnostics = NULL;
    struct err *error = live_script_create(&tracing->live, &script, &diagnostics);
    if (diagnostics && !(script && tracing->live.no_warnings))
        escape_lines(stderr, diagnostics);
    free(diagnostics);
    if (!script) {
        *code = tracing->wrong_script;
        tracing->is_wrong = true;
        return error;
    }
    if (tracing->output)
        error = output_publish(tracing->output);
    if (tracing->dumps_tree)
        dump_trees(script, tracing->live.out);
    if (tracing->dumps_stream)
        stream_dump(script->built.stream, tracing->live.out);
    if (!error && !tracing->dumps_tree && !tracing->dumps_stream)
        error = live_run(script, &tracing->live, code);
    live_script_destroy(script);
    return error;
}

static struct err *list(struct tracing *tracing, int *code)
{
    char *diagnostics = NULL;
    struct err *error = live_list(&tracing->live, tracing->live.verbose, &diagnostics);
    if (diagnostics && *diagnostics) {
        escape_lines(stderr, diagnostics);
        *code = tracing->wrong_script;
        tracing->is_wrong = true;
    }
    free(diagnostics);
    return error;
}

struct err *tracing_run(struct tracing *tracing, int *code)
{
    *code = 0;
    hand_over_lists(tracing);
    tracing->live.out = stdout;
    if (tracing->out_path) {
        ERR_TRY(output_open(tracing->out_path, &tracing->output));
        tracing->live.out = output_file(tracing->output);
    }
    struct err *error = tracing->lists ? list(tracing, code) : run_script(tracing, code);
    if (!tracing->output)
        return error;
    if (!error && !tracing->is_wrong)
        return output_close(tracing->output);
    output_discard(tracing->output);
    return error;
}

void tracing_deinit(struct tracing *tracing)
{
    VEC_FREE(&tracing->pid);
    VEC_FREE(&tracing->argument);
    VEC_FREE(&tracing->include_dir);
    VEC_FREE(&tracing->include_file);
    if (tracing->words) {
        size_t count = 0;
        while (tracing->words[count])
            count++;
        free(tracing->words[count + 1]);
    }
    free(tracing->words);
    free(tracing->text);
}
