#include "cmd/cmd.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "load/session.h"

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity count [-p PID]... [-d SECONDS] [-i SECONDS] [--json] SPEC... [-- CMD ARG...]\n"
    "\n"
    "Counts how often each trace point is hit, exactly, in running processes (-p, or PID:... in a SPEC) or in a command. 32- and 64-bit\n"
    "processes may be mixed. Ends when the processes end, after -d seconds, or at Ctrl-C, and always leaves the processes as they were;\n"
    "a command that still runs then is ended too.\n"
    "\n"
    "SPEC is MODULE:FUNCTION, MODULE:FUNCTION+OFFSET, MODULE:0xADDRESS, MODULE:FUNCTION:return; see `probity list --help`.\n"
    "\n"
    "  -p, --pid PID           a running process; may be given several times\n"
    "  -d, --duration SECONDS  stop after so long\n"
    "  -i, --interval SECONDS  print the hits of each interval as well\n"
    "  -z, --zero              also print trace points that were not hit\n"
    "  -j, --json              one JSON object a line: module, function, point, count (and interval with -i)\n"
    "      --traps             probe places that take nothing but a trap, too; see probity(1) for what that means to the processes\n"
    "  -v, --verbose           say how long the processes were stopped, and which places needed a trap or were refused\n"
    "\n"
    "The exit code is that of CMD (128 + signal if it was killed), or one of those in probity(1).\n"
    "\n"
    "examples:\n"
    "  probity count libc:malloc libc:free -- ls -l\n"
    "  probity count -p 1234 -d 10 -i 1 'libc:pthread_mutex_*'\n"
    "  probity count -p 1234 -p 5678 /usr/bin/python3.11:_PyEval_EvalFrameDefault:return\n";

struct counting {
    VEC(pid_t) pid;
    VEC(struct spec) spec;
    char *const *command;
    double duration_s, interval_s;
    bool json, zero, verbose, traps;
    struct load_session *session;
    int stop_signal;      /* what ended the run, 0: something else */
    VEC(uint64_t) before; /* hits at the end of the last interval, by row */
};

/* ---- output ---- */

static const uint64_t *sort_hits; /* qsort has no context */

static int by_hits(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (sort_hits[x] != sort_hits[y])
        return sort_hits[x] > sort_hits[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void print_row(const struct counting *counting, const struct load_row *row, uint64_t hits, double interval_at_s)
{
    if (counting->json) {
        printf("{\"module\":");
        cmd_json_string(stdout, row->module);
        printf(",\"function\":");
        cmd_json_string(stdout, row->function);
        printf(",\"point\":\"%s\",\"count\":%llu", row->point, (unsigned long long)hits);
        if (interval_at_s >= 0)
            printf(",\"interval\":%.3f", interval_at_s);
        puts("}");
        return;
    }
    printf("%14llu  ", (unsigned long long)hits);
    cmd_plain_string(stdout, row->function);
    printf("%s%s  ", row->point[0] == '+' ? "" : ":", row->point);
    cmd_plain_string(stdout, row->module);
    putchar('\n');
}

/* Prints the hits, the most frequent first. With `interval_at_s` >= 0 only those since the last interval. */
static void print_hits(struct counting *counting, double interval_at_s)
{
    size_t rows = load_session_row_count(counting->session);
    uint64_t *hits = memory_zero(rows, sizeof *hits);
    uint32_t *order = memory_alloc(rows * sizeof *order);
    load_session_hits(counting->session, hits);
    while (counting->before.n < rows)
        VEC_PUSH(&counting->before, 0);
    for (uint32_t i = 0; i < rows; i++) {
        order[i] = i;
        if (interval_at_s >= 0) {
            uint64_t total = hits[i];
            hits[i] -= counting->before.at[i];
            counting->before.at[i] = total;
        }
    }
    sort_hits = hits;
    qsort(order, rows, sizeof *order, by_hits);
    if (!counting->json)
        interval_at_s >= 0 ? printf("after %.3f s\n", interval_at_s) : printf("%14s  trace point\n", "hits");
    for (size_t i = 0; i < rows; i++)
        if (hits[order[i]] || counting->zero)
            print_row(counting, load_session_row(counting->session, order[i]), hits[order[i]], interval_at_s);
    fflush(stdout);
    free(order);
    free(hits);
}

static void print_details(const struct counting *counting)
{
    uint64_t places = 0, traps = 0, refused = 0, trap_only = 0;
    for (size_t i = 0; i < load_session_row_count(counting->session); i++) {
        const struct load_row *row = load_session_row(counting->session, i);
        places += row->places;
        traps += row->traps;
        trap_only += row->trap_only != 0;
        refused += row->reason != INSN_OK && row->reason != INSN_NO_RETURN; /* nothing is missed where nothing returns */
        if (counting->verbose && row->traps) {
            fputs("probity: ", stderr);
            cmd_plain_string(stderr, row->function);
            fprintf(stderr, ":%s: %llu place%s by a trap\n", row->point, (unsigned long long)row->traps, row->traps == 1 ? "" : "s");
        }
        if (counting->verbose && row->reason != INSN_OK) {
            fputs("probity: ", stderr);
            cmd_plain_string(stderr, row->function);
            fprintf(stderr, ":%s: %s: %s\n", row->point, row->places ? "partly refused" : "refused", insn_reason_text(row->reason));
        }
    }
    if (load_session_unreadable(counting->session)) {
        fputs("probity: ", stderr);
        cmd_plain_string(stderr, load_session_unreadable(counting->session));
        fputc('\n', stderr);
    }
    if (counting->verbose)
        fprintf(stderr, "probity: %llu places probed, %llu of them by a trap; longest pause %.3f ms\n", (unsigned long long)places,
                (unsigned long long)traps, (double)load_session_pause_ns(counting->session) / 1e6);
    if (refused)
        fprintf(stderr, "probity: %llu trace point%s can not be counted fully; -v or `probity list` says why\n",
                (unsigned long long)refused, refused == 1 ? "" : "s");
    if (trap_only)
        fprintf(stderr, "probity: %llu of them take nothing but a trap, which --traps allows\n", (unsigned long long)trap_only);
}

static void show_progress(void *context, const char *module, size_t places, size_t total)
{
    (void)context;
    if (total >= 2000) {
        fputs("probity: ", stderr);
        cmd_plain_string(stderr, module);
        fprintf(stderr, ": placing %zu probes\n", places);
    }
}

/* ---- the run ---- */

static double now_s(void)
{
    return (double)clock_now_ns() / 1e9;
}

static struct err *run(struct counting *counting, int signal_fd)
{
    struct load_session *session = counting->session;
    double start_s = now_s(), end_s = counting->duration_s > 0 ? start_s + counting->duration_s : 0;
    double next_s = counting->interval_s > 0 ? start_s + counting->interval_s : 0;
    for (bool stop = false; !stop && load_session_live(session);) {
        size_t live = load_session_live(session);
        struct pollfd fds[live + 2];
        fds[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = load_session_event_fd(session), .events = POLLIN};
        for (size_t i = 0; i < live; i++)
            fds[i + 2] = (struct pollfd){.fd = load_session_process_fd(session, i), .events = POLLIN};
        double wake_s = !end_s ? next_s : !next_s || end_s < next_s ? end_s : next_s;
        double wait_s = wake_s ? wake_s - now_s() : -1;
        int timeout_ms = !wake_s ? -1 : wait_s <= 0 ? 0 : wait_s > 1e6 ? 1000000000 : (int)(wait_s * 1000) + 1;
        int ready = poll(fds, live + 2, timeout_ms);
        if (ready < 0 && errno != EINTR)
            return err_errno(ERR_SYSTEM, errno, "poll");
        if (ready > 0)
            ERR_TRY(load_session_handle(session));
        if (next_s && now_s() >= next_s) {
            print_hits(counting, next_s - start_s);
            next_s += counting->interval_s;
        }
        struct signalfd_siginfo info;
        if (ready > 0 && fds[0].revents && read(signal_fd, &info, sizeof info) == sizeof info)
            counting->stop_signal = (int)info.ssi_signo;
        stop = counting->stop_signal || (end_s && now_s() >= end_s);
    }
    return NULL;
}

/* A specification that can be seen to match nothing is an error before anything is started. */
static struct err *check_spec(const struct spec *spec)
{
    char **paths;
    struct err *error = spec->pid ? NULL : spec_find_files(spec, &paths);
    if (spec->pid || error) {
        err_free(error); /* a library that only the command knows may still be loaded */
        return NULL;
    }
    bool matched = false, readable = false;
    struct err *answer = NULL;
    for (size_t i = 0; paths[i]; i++) {
        struct symbol_file *file = NULL;
        error = matched ? NULL : symbol_file_open(paths[i], &file);
        size_t count = 0;
        const struct symbol_func *func = file ? symbol_file_funcs(file, &count) : NULL;
        readable |= file != NULL;
        for (size_t k = 0; k < count && !matched; k++)
            matched = spec->point == SPEC_ADDRESS || spec_matches_func(spec, &func[k]);
        if (file && !matched && !paths[1]) {
            char *near = spec_near_names(spec, file);
            answer =
                err_new(ERR_NO_MATCH, "%s: no such function in %s%s%s", spec->text, paths[i], near ? "; near: " : "", near ? near : "");
            free(near);
        } else if (error && !paths[1]) {
            answer = error;
            error = NULL;
        }
        err_free(error);
        symbol_file_close(file);
        free(paths[i]);
    }
    free(paths);
    if (!answer && !matched && readable)
        answer = err_new(ERR_NO_MATCH, "%s: no such function", spec->text);
    return answer;
}

static struct err *check_matches(const struct counting *counting)
{
    for (size_t i = 0; i < counting->spec.n; i++)
        if (!load_session_matches(counting->session, i)) {
            const char *unreadable = load_session_unreadable(counting->session);
            struct err *error = unreadable ? err_new(ERR_PERMISSION, "%s: not found; %s", counting->spec.at[i].text, unreadable)
                                           : check_spec(&counting->spec.at[i]);
            return error ? error : err_new(ERR_NO_MATCH, "%s: no process that is traced has it", counting->spec.at[i].text);
        }
    return NULL;
}

/* What was asked for by name and can not be probed at all is an error. */
static struct err *check_places(const struct counting *counting)
{
    for (size_t i = 0; i < load_session_row_count(counting->session); i++) {
        const struct load_row *row = load_session_row(counting->session, i);
        if (row->by_name && row->reason != INSN_OK && !row->places)
            return err_new(ERR_PLACE, "%s:%s%s%s: can not be probed: %s", row->module, row->function, row->point[0] == '+' ? "" : ":",
                           row->point, insn_reason_text(row->reason));
    }
    return NULL;
}

static struct err *count(struct counting *counting, int signal_fd)
{
    if (counting->command)
        for (size_t i = 0; i < counting->spec.n; i++)
            ERR_TRY(check_spec(&counting->spec.at[i]));
    for (size_t i = 0; i < counting->pid.n; i++)
        ERR_TRY(load_session_attach(counting->session, counting->pid.at[i]));
    if (counting->pid.n && !counting->command) {
        ERR_TRY(load_session_handle(counting->session));
        if (!load_session_live(counting->session) && !load_session_row_count(counting->session))
            return err_new(ERR_NO_PROCESS, "process %d: has ended", counting->pid.at[0]);
        ERR_TRY(check_matches(counting));
    }
    ERR_TRY(check_places(counting));
    if (counting->command)
        ERR_TRY(load_session_start(counting->session, counting->command));
    return run(counting, signal_fd);
}

/* ---- options ---- */

static void add_pid(struct counting *counting, pid_t pid)
{
    for (size_t i = 0; i < counting->pid.n; i++)
        if (counting->pid.at[i] == pid)
            return;
    VEC_PUSH(&counting->pid, pid);
}

static struct err *parse_pid(struct counting *counting, const char *text)
{
    pid_t pid;
    ERR_TRY(cmd_parse_pid(text, &pid));
    add_pid(counting, pid);
    return NULL;
}

static struct err *parse_specs(struct counting *counting, int argc, char **argv)
{
    for (int i = optind; i < argc; i++) {
        struct spec spec;
        ERR_TRY(spec_parse(argv[i], &spec));
        VEC_PUSH(&counting->spec, spec);
        if (spec.pid)
            add_pid(counting, spec.pid);
    }
    if (!counting->spec.n)
        return err_new(ERR_USAGE, "count: which trace points? `probity count --help` has examples");
    if (!counting->command && !counting->pid.n)
        return err_new(ERR_USAGE, "count: which process? Give -p PID or -- CMD");
    return NULL;
}

/* Returns with *help set when only the usage was asked for. */
static struct err *parse(struct counting *counting, int argc, char **argv, bool *help)
{
    static const struct option options[] = {
        {"pid", required_argument, NULL, 'p'}, {"duration", required_argument, NULL, 'd'}, {"interval", required_argument, NULL, 'i'},
        {"json", no_argument, NULL, 'j'},      {"zero", no_argument, NULL, 'z'},           {"verbose", no_argument, NULL, 'v'},
        {"traps", no_argument, NULL, 'T'},     {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    struct err *error = cmd_split_command(&argc, argv, &counting->command);
    opterr = 0;
    for (int option; !error && (option = getopt_long(argc, argv, "p:d:i:jzvh", options, NULL)) != -1;) {
        switch (option) {
        case 'p':
            error = parse_pid(counting, optarg);
            break;
        case 'd':
            error = cmd_parse_seconds(optarg, "--duration", &counting->duration_s);
            break;
        case 'i':
            error = cmd_parse_seconds(optarg, "--interval", &counting->interval_s);
            break;
        case 'j':
            counting->json = true;
            break;
        case 'z':
            counting->zero = true;
            break;
        case 'v':
            counting->verbose = true;
            break;
        case 'T':
            counting->traps = true;
            break;
        case 'h':
            *help = true;
            return NULL;
        default:
            error = err_new(ERR_USAGE, "count: %s: no such option, or its value is missing; `probity count --help` has them all",
                            argv[optind - 1]);
        }
    }
    return error ? error : parse_specs(counting, argc, argv);
}

static int exit_code(const struct counting *counting)
{
    int status = load_session_status(counting->session);
    if (!counting->command || status < 0)
        return 0;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void deinit(struct counting *counting)
{
    for (size_t i = 0; i < counting->spec.n; i++)
        spec_deinit(&counting->spec.at[i]);
    VEC_FREE(&counting->spec);
    VEC_FREE(&counting->pid);
    VEC_FREE(&counting->before);
}

int cmd_count(int argc, char **argv)
{
    struct counting counting = {0};
    bool help = false;
    struct err *error = parse(&counting, argc, argv, &help);
    if (help)
        fputs(usage_text, stdout);
    if (error || help) {
        deinit(&counting);
        return error ? cmd_fail(error) : 0;
    }
    int signal_fd = interrupt_fd(0);
    counting.session = load_session_create(counting.spec.at, counting.spec.n, NULL, show_progress, NULL);
    if (counting.traps)
        load_session_allow_traps(counting.session);
    error = count(&counting, signal_fd);
    struct err *detach_error = load_session_detach(counting.session);
    /* A command that still runs ends with us, as it would under a shell's Ctrl-C. */
    if (counting.command && load_session_command(counting.session) && load_session_status(counting.session) < 0)
        kill(load_session_command(counting.session), counting.stop_signal ? counting.stop_signal : SIGTERM);
    int code = exit_code(&counting);
    if (!error) {
        if (!counting.pid.n || counting.command)
            error = check_matches(&counting);
        if (!error)
            error = check_places(&counting);
        if (!error)
            print_details(&counting);
        print_hits(&counting, -1);
    }
    if (error)
        code = cmd_fail(error);
    if (detach_error)
        code = cmd_fail(detach_error);
    err_free(load_session_destroy(counting.session));
    close(signal_fd);
    deinit(&counting);
    return code;
}
