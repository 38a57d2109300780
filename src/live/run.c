#include "live/run.h"

#include "base/clock.h"
#include "base/interrupt.h"
#include "live/match.h"
#include "live/points.h"

#include "stream/map.h"
#include "stream/stream.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- names ---- */

const char *live_process_name(struct live_run *run, pid_t pid)
{
    struct live_process_name now = {.pid = pid}, *known = NULL;
    target_thread_name(pid, pid, now.text);
    for (size_t i = run->process_name.n; i-- > 0 && !known;)
        known = run->process_name.at[i].pid == pid ? &run->process_name.at[i] : NULL;
    if (!*now.text)
        return known ? known->text : NULL;
    if (known)
        *known = now;
    else
        VEC_PUSH(&run->process_name, now);
    return known ? known->text : run->process_name.at[run->process_name.n - 1].text;
}

static const char *find_name(void *cookie, enum print_name what, uint32_t number)
{
    struct live_run *run = cookie;
    if (what == PRINT_NAME_PROCESS)
        return live_process_name(run, (pid_t)number);
    const char *name =
        number >= LIVE_OWN_NAMES ? names_text(&run->names, number - LIVE_OWN_NAMES) : names_text(load_session_names(run->session), number);
    if (what != PRINT_NAME_PROBE_TYPE || !name)
        return name;
    if (!strcasecmp(name, "begin") || !strcasecmp(name, "end"))
        return "special";
    snprintf(run->kind, sizeof run->kind, "%.*s", (int)strcspn(name, ":"), name);
    return run->kind;
}

static const char *find_time_format(void *cookie, uint32_t number)
{
    struct live_run *run = cookie;
    return number < run->script->built.time_format.n ? run->script->built.time_format.at[number] : NULL;
}

static bool find_symbol(void *cookie, uint64_t va, uint32_t pid, char *text, size_t room)
{
    struct live_run *run = cookie;
    return load_session_symbol(run->session, (pid_t)pid, va, text, room);
}

/* cpid, before the command's first probe can fire: when its modules are looked at, which it is held for. */
static void set_child(void *context, const char *module, size_t done, size_t places)
{
    struct live_run *run = context;
    (void)module, (void)done, (void)places;
    if (run->script->built.child_map != UINT32_MAX)
        stream_map_set(run->memory.memory, run->script->built.child_map, NULL, load_session_command(run->session));
}

/* Names that the script compares with get their numbers before anything fires. */
static void number_names(struct live_run *run)
{
    for (size_t i = 0; i < run->script->built.name.n; i++) {
        const struct stream_name *name = &run->script->built.name.at[i];
        int64_t number = load_session_name(run->session, name->text);
        for (size_t k = 0; k < run->script->point.n && name->what == SCRIPT_NAME_PROBE; k++)
            if (live_runs_here(run->script->point.at[k].point->kind) && !strcmp(run->script->point.at[k].point->text, name->text))
                number = LIVE_OWN_NAMES + names_number(&run->names, name->text);
        if (name->what == SCRIPT_NAME_USER) {
            const struct passwd *user = getpwnam(name->text);
            number = user ? (int64_t)user->pw_uid : -1;
        }
        stream_map_set(run->memory.memory, name->map, NULL, number);
    }
}

/* ---- timers ---- */

static void start_timers(struct live_run *run)
{
    uint64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < run->script->point.n; i++) {
        const struct live_point *point = &run->script->point.at[i];
        if (point->point->kind == SCRIPT_P_INTERVAL && point->point->period_ns)
            VEC_PUSH(&run->timer, (struct live_timer){point, point->point->period_ns, now_ns + point->point->period_ns});
    }
}

static uint64_t run_timers(struct live_run *run)
{
    uint64_t next_ns = UINT64_MAX;
    for (size_t i = 0; i < run->timer.n; i++) {
        struct live_timer *timer = &run->timer.at[i];
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= timer->next_ns) {
            live_run_clause(run, timer->point);
            timer->next_ns += timer->period_ns * (1 + (now_ns - timer->next_ns) / timer->period_ns);
        }
        next_ns = timer->next_ns < next_ns ? timer->next_ns : next_ns;
    }
    return next_ns;
}

/* ---- the run ---- */

static bool has_signal_clauses(const struct live_run *run)
{
    bool found = false;
    for (size_t i = 0; i < run->script->point.n; i++)
        found |= run->script->point.at[i].point->kind == SCRIPT_P_SIGNAL;
    return found;
}

static int timeout_ms(uint64_t next_ns, size_t taken)
{
    enum { BUSY_MS = 1, IDLE_MS = 10 };
    uint64_t now_ns = clock_now_ns(), left_ns = next_ns > now_ns ? next_ns - now_ns : 0;
    int most = taken ? BUSY_MS : IDLE_MS;
    return left_ns / 1000000 < (uint64_t)most ? (int)(left_ns / 1000000) + (left_ns % 1000000 != 0) : most;
}

static struct err *serve(struct live_run *run, int signal_fd, int wait_ms)
{
    struct load_session *session = run->session;
    size_t live = load_session_live(session);
    struct pollfd fds[live + 3];
    fds[0] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = load_session_event_fd(session), .events = POLLIN};
    for (size_t i = 0; i < live; i++)
        fds[i + 2] = (struct pollfd){.fd = load_session_process_fd(session, i), .events = POLLIN};
    fds[live + 2] = (struct pollfd){.fd = run->gate ? target_gate_fd(run->gate) : -1, .events = POLLIN};
    int ready = poll(fds, live + 3, wait_ms);
    if (ready < 0 && errno != EINTR)
        return err_errno(ERR_SYSTEM, errno, "poll");
    struct signalfd_siginfo info;
    if (ready > 0 && fds[0].revents && read(signal_fd, &info, sizeof info) == sizeof info) {
        run->is_over = info.ssi_signo != SIGUSR1 || !has_signal_clauses(run);
        run->stop_signal = run->is_over ? (int)info.ssi_signo : 0;
        if (!run->is_over)
            live_run_clauses(run, SCRIPT_P_SIGNAL);
    }
    if (ready > 0 && fds[live + 2].revents)
        ERR_TRY(live_serve_gate(run));
    return ready > 0 ? load_session_handle(session) : NULL;
}

static struct err *loop(struct live_run *run, int signal_fd)
{
    bool ends_with_processes = run->options->n_pids || run->options->command;
    for (;;) {
        run->memory.has_strangers = load_session_has_strangers(run->session);
        size_t taken = live_run_samples(run);
        taken += live_take_held(run);
        taken += drain_records(&run->memory, run->script->built.stream, false, live_take_record, run);
        live_report_losses(run);
        live_report_places(run);
        if (taken)
            fflush(run->print.out);
        if (run->is_over || ferror(run->print.out) || (ends_with_processes && !load_session_live(run->session)))
            return NULL;
        taken += live_abandon(run);
        taken += live_collect(run);
        uint64_t next_ns = run_timers(run);
        ERR_TRY(serve(run, signal_fd, timeout_ms(next_ns, taken)));
        ERR_TRY(live_look_for_processes(run));
    }
}

static uint64_t count_probes(const struct live_run *run)
{
    uint64_t probes = 0, session = 0;
    for (size_t i = 0; i < run->script->point.n; i++) {
        enum script_point_kind kind = run->script->point.at[i].point->kind;
        probes += kind == SCRIPT_P_BEGIN || kind == SCRIPT_P_END || kind == SCRIPT_P_INTERVAL || kind == SCRIPT_P_PROFILE ||
                  kind == SCRIPT_P_SIGNAL;
    }
    for (size_t i = 0; i < run->script->spec.n; i++)
        session += load_session_matches(run->session, i);
    return probes + (session > run->places ? session : run->places);
}

static struct err *attach(struct live_run *run)
{
    for (size_t i = 0; i < run->options->n_pids; i++)
        ERR_TRY(load_session_attach(run->session, run->options->pid[i]));
    if (run->options->command)
        ERR_TRY(load_session_start(run->session, run->options->command));
    set_child(run, NULL, 0, 0);
    live_open_gate(run);
    ERR_TRY(live_look_for_processes(run));
    live_report_places(run);
    if (!run->options->quiet)
        print_attached(&run->print, count_probes(run));
    fflush(run->print.out);
    return NULL;
}

static bool prints_maps(const struct live_run *run)
{
    const char *text = live_setting(run->script, run->options->print_maps_on_exit, "print_maps_on_exit", "true");
    return strcmp(text, "false") && strcmp(text, "0");
}

static void print_maps(struct live_run *run)
{
    size_t n = script_n_maps(run->script->program);
    const struct script_map **maps = memory_zero(n + 1, sizeof *maps);
    const struct drain_contents **list = memory_zero(n + 1, sizeof *list);
    struct drain_contents *contents = memory_zero(n + 1, sizeof *contents);
    for (size_t i = 0; i < n; i++) {
        maps[i] = script_map_at(run->script->program, i);
        drain_map_read(&run->memory, (uint32_t)i, &contents[i]);
        /* 0.17 has a line for an empty map, too. */
        if (contents[i].type->kind != WIRE_MAP_TSERIES)
            list[i] = contents[i].entry.n || run->options->dialect == PRINT_17 ? &contents[i] : NULL;
    }
    print_end(&run->print, maps, list, prints_maps(run) ? n : 0);
    for (size_t i = 0; i < n && prints_maps(run); i++)
        if (contents[i].type->kind == WIRE_MAP_TSERIES)
            live_print_series(run, (uint32_t)i, &contents[i]);
    for (size_t i = 0; i < n; i++)
        drain_contents_deinit(&contents[i]);
    free(contents);
    free(list);
    free(maps);
}

static void finish(struct live_run *run, int signal_fd)
{
    live_drain_rest(run, signal_fd);
    run->is_over = false;
    live_run_clauses(run, SCRIPT_P_END);
    live_drain_rest(run, signal_fd);
    live_report_losses(run);
    live_report_errors(run);
    print_maps(run);
    fflush(run->print.out);
}

static int exit_code(const struct live_run *run)
{
    int status = load_session_status(run->session);
    if (run->has_exit_code || run->options->ignores_status || !run->options->command || status < 0)
        return run->exit_code;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static struct err *run_session(struct live_run *run)
{
    int signal_fd = interrupt_fd(has_signal_clauses(run) ? SIGUSR1 : 0);
    live_run_clauses(run, SCRIPT_P_BEGIN);
    struct err *error = attach(run);
    bool attached = !error;
    if (!error) {
        start_timers(run);
        error = loop(run, signal_fd);
    }
    target_gate_destroy(run->gate);
    run->gate = NULL;
    live_end_samples(run);
    __atomic_store_n(&wire_state(run->memory.memory)->off, 1, __ATOMIC_SEQ_CST);
    live_empty_rings(run);
    struct err *detach = load_session_detach(run->session);
    __atomic_store_n(&wire_state(run->memory.memory)->off, 0, __ATOMIC_SEQ_CST);
    if (run->options->command && load_session_command(run->session) && load_session_status(run->session) < 0)
        kill(load_session_command(run->session), run->stop_signal ? run->stop_signal : SIGTERM);
    if (attached)
        finish(run, signal_fd);
    close(signal_fd);
    if (!error)
        return detach;
    err_free(detach);
    return error;
}

static void make_room(void *context)
{
    live_empty_rings(context);
}

static bool shows_lines(const struct live_script *script, const struct live_options *options)
{
    const char *setting = live_setting(script, NULL, "show_debug_info", "1");
    return options->dialect != PRINT_17 && strcmp(setting, "0") && strcmp(setting, "false");
}

static uint32_t stack_nodes(const struct live_script *script)
{
    unsigned long nodes = strtoul(live_setting(script, NULL, "max_stack_nodes", "0"), NULL, 0);
    return nodes < UINT32_MAX ? (uint32_t)nodes : UINT32_MAX;
}

static void deinit(struct live_run *run)
{
    drain_on_full(NULL, NULL);
    live_samplers_destroy(run);
    live_walked_deinit(run);
    if (run->session)
        err_free(load_session_destroy(run->session));
    drain_session_destroy(&run->memory);
    print_deinit(&run->print);
    names_deinit(&run->names);
    for (size_t i = 0; i < run->waiting.n; i++)
        free((void *)run->waiting.at[i].record.payload);
    VEC_FREE(&run->waiting);
    VEC_FREE(&run->held);
    VEC_FREE(&run->held_word);
    VEC_FREE(&run->timer);
    VEC_FREE(&run->error);
    VEC_FREE(&run->seen);
    VEC_FREE(&run->process_name);
    free(run->frame);
}

struct err *live_run(struct live_script *script, const struct live_options *options, int *code)
{
    struct live_run run = {.script = script, .options = options};
    struct drain_options drain = {.clock = options->clock, .lossless = options->lossless, .stack_nodes = stack_nodes(script)};
    ERR_TRY(live_match(script, options, &run.places));
    if (options->dry_run)
        return NULL;
    struct err *error = drain_session_create(script->built.stream, &drain, &run.memory);
    if (!error) {
        run.frame = memory_zero(WIRE_FRAME_MAX / 8 + 1, 8);
        run.program = (struct load_program){
            .stream = script->built.stream, .memory = run.memory.memory, .memory_fd = run.memory.fd, .clause = script->spec_clause.at};
        run.session = load_session_create(script->spec.at, script->spec.n, &run.program, set_child, &run);
        load_session_on_wait(run.session, make_room, &run);
        drain_on_full(live_empty_rings, &run);
        if (options->follow)
            load_session_follow(run.session);
        if (options->traps)
            load_session_allow_traps(run.session);
        print_init(&run.print, options->out, stderr);
        run.print.json = options->json;
        if (options->raw)
            run.print.out_is_terminal = run.print.err_is_terminal = false;
        run.print.dialect = options->dialect;
        run.print.max_strlen = script_max_strlen(script->program);
        run.print.trailer = live_setting(script, options->str_trunc_trailer, "str_trunc_trailer", NULL);
        run.print.names = (struct print_names){.cookie = &run,
                                               .symbol = find_symbol,
                                               .name = find_name,
                                               .time_format = find_time_format,
                                               .stack = live_stack_addresses,
                                               .frames = live_stack_frames};
        run.print.has_lines = shows_lines(script, options);
        error = live_samplers_create(&run);
        number_names(&run);
        if (!error)
            error = run_session(&run);
        *code = exit_code(&run);
    }
    deinit(&run);
    return error;
}
