/* profile: clauses that fire for samples of the traced processes. The controller runs them, each in the model of what was sampled. */
#include "live/run.h"

#include "stream/stream.h"
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

/* When the process has ended meanwhile: as the last time, or -1. */
static uint32_t owner(uint32_t pid, enum wire_ctx what)
{
    static struct target_owner found = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    static uint32_t found_pid;
    struct target_owner now;
    if (target_read_owner((pid_t)pid, &now))
        found = now;
    else if (found_pid != pid)
        found = (struct target_owner){UINT32_MAX, UINT32_MAX, UINT32_MAX};
    found_pid = pid;
    return what == WIRE_CTX_UID ? found.uid : what == WIRE_CTX_GID ? found.gid : found.parent;
}

static const char *process_name(const struct drain_subject *subject, uint32_t pid)
{
    const struct live_sampled *sampled = subject->context;
    return live_process_name(sampled->run, (pid_t)pid);
}

struct firing {
    struct live_run *run;
    const struct live_point *point;
};

static void fire_for(void *context, const struct sample *sample)
{
    const struct firing *firing = context;
    struct live_run *run = firing->run;
    const struct wire_stream *stream = run->script->built.stream;
    uint32_t count;
    const struct wire_insn *code = stream_code(stream, firing->point->unit, sample->model, &count);
    struct live_sampled sampled = {run, sample};
    struct drain_subject subject = {.ns = sample->time_ns,
                                    .cpu = sample->cpu,
                                    .comm = sample->comm,
                                    .owner = owner,
                                    .stack = live_sampled_stack,
                                    .process_name = process_name,
                                    .context = &sampled};
    struct wire_fire fire = {.session_va = (uintptr_t)run->memory.memory,
                             .frame_va = (uintptr_t)run->frame,
                             .process_va = (uintptr_t)&subject,
                             .machine_va = (uintptr_t)sample->machine,
                             .pc = sample->pc,
                             .sp = sample->sp,
                             .clause = firing->point->unit,
                             .model = sample->model,
                             .place = LIVE_OWN_NAMES + names_number(&run->names, firing->point->point->text),
                             .pid = sample->pid,
                             .tid = sample->tid};
    drain_run_clause(&fire, code, count);
}

static struct err *joined(void *context, pid_t pid)
{
    struct live_run *run = context;
    live_process_name(run, pid);
    for (size_t i = 0; i < run->sampler.n; i++) {
        struct err *error = sample_set_add(run->sampler.at[i].set, pid);
        run->sampling_failed |= error != NULL;
        if (error)
            return error;
    }
    return NULL;
}

/* What is copied with a sample; frames further out, which change seldom, are read from the process. */
enum { STACK_BYTES = 16 << 10 };

static bool takes_stack(const struct live_run *run, const struct live_point *point)
{
    for (int model = 0; model < WIRE_MODELS; model++) {
        uint32_t count;
        const struct wire_insn *code = stream_code(run->script->built.stream, point->unit, model, &count);
        for (uint32_t i = 0; i < count; i++)
            if (code[i].op == WIRE_USTACK)
                return true;
    }
    return false;
}

struct err *live_samplers_create(struct live_run *run)
{
    bool has_processes = run->options->n_pids || run->options->command || run->script->spec.n;
    for (size_t i = 0; i < run->script->point.n; i++) {
        const struct live_point *point = &run->script->point.at[i];
        if (point->point->kind != SCRIPT_P_PROFILE)
            continue;
        if (!has_processes)
            return err_new(ERR_USAGE,
                           "%s: no process to sample: give -p PID or a command, or probes in programs, whose processes are then sampled",
                           point->point->text);
        struct sample_options options = {.period_ns = point->point->period_ns, .stack_bytes = takes_stack(run, point) ? STACK_BYTES : 0};
        VEC_PUSH(&run->sampler, (struct live_sampler){point, sample_set_create(&options)});
    }
    load_session_on_join(run->session, joined, run);
    return NULL;
}

size_t live_run_samples(struct live_run *run)
{
    size_t taken = 0;
    for (size_t i = 0; i < run->sampler.n; i++) {
        struct firing firing = {run, run->sampler.at[i].point};
        taken += sample_set_drain(run->sampler.at[i].set, fire_for, NULL, &firing);
    }
    return taken;
}

void live_end_samples(struct live_run *run)
{
    for (size_t i = 0; i < run->sampler.n; i++)
        sample_set_stop(run->sampler.at[i].set);
    if (!run->is_over || run->stop_signal)
        live_run_samples(run);
    live_report_losses(run);
}

uint64_t live_samples_lost(const struct live_run *run)
{
    uint64_t lost = 0;
    for (size_t i = 0; i < run->sampler.n; i++)
        lost += sample_set_lost(run->sampler.at[i].set);
    return lost;
}

void live_samplers_destroy(struct live_run *run)
{
    for (size_t i = 0; i < run->sampler.n; i++)
        sample_set_destroy(run->sampler.at[i].set);
    VEC_FREE(&run->sampler);
}
