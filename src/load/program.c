#include "load/program.h"

#include "jit/jit.h"
#include "load/internal.h"
#include "load/stacks.h"
#include "stream/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, PROCESS_BYTES = 2 * PAGE };
_Static_assert(sizeof(struct wire_process) <= PROCESS_BYTES, "two pages");

/* ---- memory ---- */

static struct err *map_session(struct load_process *process, const struct load_program *program)
{
    int remote_fd;
    ERR_TRY(target_send_fds(process->target, &program->memory_fd, 1, process->places.scratch_va, &remote_fd));
    struct err *error = load_remote_mmap(process->target, 0, program->memory->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                                         remote_fd, &process->session_va);
    const struct wire_session *memory = program->memory;
    if (!error && program->touches_rings)
        error = load_remote_touch(process->target, process->session_va + memory->rings_offset, memory->ring_count * memory->ring_stride);
    struct err *close_error = load_remote_close(process->target, remote_fd);
    if (!error)
        return close_error;
    err_free(close_error);
    return error;
}

/* It is a region like those of code, for the journal. */
struct err *load_process_map_private(struct load_process *process)
{
    const struct wire_process head = {.quiet = true, .index = load_index_word(process), .site_limit = load_site_limit(process)};
    struct wire_shared *shared = process->shared;
    if (shared->region_count == shared->region_room)
        return err_new(ERR_PLACE, "process %d: too many pieces of memory", target_pid(process->target));
    struct wire_region *region = &load_shared_regions(shared)[shared->region_count];
    ERR_TRY(
        load_remote_mmap(process->target, 0, PROCESS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, &process->process_va));
    *region = (struct wire_region){process->process_va, PROCESS_BYTES};
    shared->region_count++;
    shared->process_va = process->process_va;
    ERR_TRY(load_remote_wipe_on_fork(process->target, process->process_va, PAGE));
    return target_write(process->target, process->process_va, &head, sizeof head);
}

struct err *load_process_look_for_filters(struct load_process *process)
{
    const uint32_t quiet = target_look_for_filters(process->target);
    return target_write(process->target, process->process_va + offsetof(struct wire_process, quiet), &quiet, sizeof quiet);
}

static struct err *describe_process(struct load_process *process, bool takes_stacks)
{
    struct wire_shared *shared = process->shared;
    struct wire_process head = {
        .session_va = process->session_va,
        .place_pcs_va = shared->shared_va + process->place_pcs_offset,
        .places_va = process->places.places_va,
        .biases_va = shared->shared_va + process->place_biases_offset,
        .spaces_va = takes_stacks ? shared->shared_va + process->spaces_offset : 0,
        .place_count = process->counter_room,
        .quiet = true, /* until it was looked for filters */
        .index = load_index_word(process),
        .site_limit = load_site_limit(process),
    };
    if (takes_stacks)
        ERR_TRY(load_extent_need(process, LOAD_EXTENT_SPACES, load_stacks_bytes()));
    if (takes_stacks)
        head.stack_end_va = load_stacks_end(process->target);
    target_thread_name(target_pid(process->target), target_pid(process->target), head.comm);
    if (!target_is_stranger(process->target))
        head.pid = (uint32_t)target_pid(process->target);
    return target_write(process->target, process->process_va, &head, sizeof head);
}

/* ---- bodies ---- */

static struct err *place_body(struct load_process *process, uint32_t clause, enum wire_model model, const struct jit_process *facts,
                              struct load_body *out)
{
    uint64_t va = 0;
    struct jit_body body = {0};
    const struct wire_stream *stream = process->program->stream;
    struct err *error = jit_compile(stream, clause, model, facts, 0x10000, &body);
    if (!error)
        error = load_region_alloc(process, process->fire.agent_va, process->fire.agent_va + PAGE, body.code.n, 0, &va);
    if (!error) {
        jit_body_deinit(&body);
        error = jit_compile(stream, clause, model, facts, va, &body);
    }
    if (!error)
        error = target_write(process->target, va, body.code.at, body.code.n);
    if (!error) {
        *out = (struct load_body){va, body.code.n, body.depth.at, body.depth.n};
        body.depth.at = NULL; /* it has changed hands */
    }
    jit_body_deinit(&body);
    return error;
}

/* Those of all clauses, on the program's stack or, if there are any, on stacks of ours. */
static struct err *place_bodies(struct load_process *process, struct jit_stacks stacks, load_bodies *out)
{
    const struct wire_stream *stream = process->program->stream;
    enum wire_model model = target_width(process->target) == 64 ? WIRE_LP64 : WIRE_ILP32;
    struct jit_process facts = {
        .session_va = process->session_va,
        .session = process->program->memory,
        .process_va = process->process_va,
        .op_va = process->fire.agent_va + WIRE_AGENT_OP,
        .error_va = process->fire.agent_va + WIRE_AGENT_ERROR,
        .claim_va = process->fire.agent_va + WIRE_AGENT_CLAIM,
        .release_va = process->fire.agent_va + WIRE_AGENT_RELEASE,
        .stacks = stacks,
    };
    uint8_t *added_to = jit_find_added_to(stream);
    struct err *error = NULL;
    facts.added_to = added_to;
    for (uint32_t i = 0; i < stream->clause_count && !error; i++) {
        struct load_body body = {0};
        if (stream_clauses(stream)[i].has_model >> model & 1)
            error = place_body(process, i, model, &facts, &body);
        VEC_PUSH(out, body);
    }
    free(added_to);
    return error;
}

static void free_bodies(load_bodies *bodies)
{
    for (size_t i = 0; i < bodies->n; i++)
        free(bodies->at[i].depth);
    VEC_FREE(bodies);
}

/* Memory is given to those that are used. */
static struct err *map_stacks(struct load_process *process)
{
    enum { COUNT = 256 };
    struct wire_shared *shared = process->shared;
    const uint64_t bytes = (uint64_t)COUNT << JIT_OWN_SHIFT;
    struct jit_stacks stacks = {.count = COUNT};
    if (shared->region_count == shared->region_room)
        return err_new(ERR_PLACE, "process %d: too many pieces of memory", target_pid(process->target));
    for (long processors = sysconf(_SC_NPROCESSORS_CONF); (long)stacks.first_mask + 1 < processors && stacks.first_mask < COUNT / 2 - 1;)
        stacks.first_mask = stacks.first_mask * 2 + 1;
    ERR_TRY(
        load_remote_mmap(process->target, 0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, &stacks.va));
    load_shared_regions(shared)[shared->region_count] = (struct wire_region){stacks.va, bytes};
    shared->region_count++;
    shared->own_stack_count = COUNT;
    shared->own_stacks_va = stacks.va;
    process->stacks = stacks;
    return NULL;
}

/* The bodies for stacks of ours, once. */
static struct err *need_own_bodies(struct load_process *process)
{
    if (process->own_body.n == process->body.n)
        return NULL;
    free_bodies(&process->own_body); /* those of a failed attempt */
    bool was_running = target_is_running(process->target);
    ERR_TRY(target_stop_one(process->target));
    struct err *error = process->stacks.va ? NULL : map_stacks(process);
    if (!error)
        error = place_bodies(process, process->stacks, &process->own_body);
    struct err *resume = was_running ? target_resume(process->target) : NULL;
    if (!error)
        return resume;
    err_free(resume);
    return error;
}

struct err *load_process_body(struct load_process *process, uint32_t clause, const struct load_code *code, uint64_t *va)
{
    *va = clause < process->body.n ? process->body.at[clause].va : 0;
    if (!*va || !code->has_small_stacks)
        return NULL;
    ERR_TRY(need_own_bodies(process));
    *va = process->own_body.at[clause].va;
    return NULL;
}

static const struct load_body *body_at(const struct load_body *body, size_t count, uint64_t pc)
{
    for (size_t i = 0; i < count; i++)
        if (pc - body[i].va < body[i].bytes)
            return &body[i];
    return NULL;
}

const struct load_body *load_process_body_at(const struct load_process *process, uint64_t pc)
{
    const struct load_body *body = body_at(process->body.at, process->body.n, pc);
    return body ? body : body_at(process->own_body.at, process->own_body.n, pc);
}

void load_bodies_deinit(struct load_process *process)
{
    free_bodies(&process->body);
    free_bodies(&process->own_body);
}

struct err *load_process_prepare(struct load_process *process, const struct load_program *program)
{
    /* Whoever made the stream: what is loaded is what was found good here. */
    ERR_TRY(stream_verify(program->stream, program->stream->bytes));
    if (target_has_strict_thread(process->target))
        return err_new(ERR_REFUSED,
                       "process %d: is in seccomp's strict mode, in which it can not read the processor's clock, as what is to be recorded "
                       "needs; `probity count` can count there",
                       target_pid(process->target));
    bool was_running = target_is_running(process->target);
    process->program = program;
    struct err *error = target_stop_one(process->target);
    if (!error)
        error = map_session(process, program);
    if (!error)
        error = describe_process(process, program->memory->stack_nodes);
    if (!error)
        error = place_bodies(process, (struct jit_stacks){0}, &process->body);
    struct err *resume = was_running ? target_resume(process->target) : NULL;
    if (!error)
        error = resume;
    else
        err_free(resume);
    return error;
}

/* ---- places ---- */

struct err *load_process_new_place(struct load_process *process, uint64_t pc_va, uint64_t bias, const struct wire_place *meaning,
                                   uint32_t *number)
{
    ERR_TRY(load_process_new_number(process, number));
    ERR_TRY(load_extent_need(process, LOAD_EXTENT_PLACE_PCS, (*number + 1) * sizeof(uint64_t)));
    ERR_TRY(load_extent_need(process, LOAD_EXTENT_BIASES, (*number + 1) * sizeof(uint64_t)));
    ERR_TRY(load_extent_need(process, LOAD_EXTENT_PLACES, (*number + 1) * sizeof(struct wire_place)));
    char *shared = (char *)process->shared;
    ((uint64_t *)(shared + process->place_pcs_offset))[*number] = pc_va;
    ((uint64_t *)(shared + process->place_biases_offset))[*number] = bias;
    load_live_set_place(process->live, *number, meaning);
    return NULL;
}

int32_t load_process_quota(const struct load_process *process, uint32_t place)
{
    return load_live_quota(process->live, place);
}

int32_t load_process_set_quota(struct load_process *process, uint32_t place, int32_t quota)
{
    return load_live_set_quota(process->live, place, quota);
}

/* ---- thread ids ---- */

/* Where C libraries keep it: glibc, musl. */
static const int32_t tid_offset64[] = {0x2d0, 0x30}, tid_offset32[] = {0x68, 0x18};

struct err *load_process_find_tid(struct load_process *process)
{
    struct target *target = process->target;
    int32_t offset = 0;
    if (process->tid_known || !process->session_va)
        return NULL;
    bool was_running = target_is_running(target);
    ERR_TRY(target_stop_one(target));
    for (size_t i = 0; i < target_thread_count(target); i++) {
        const struct target_thread *thread = target_thread(target, i);
        uint64_t pointer = thread->stopped ? target_thread_pointer(target, thread) : 0;
        for (int k = 0; pointer && !offset && k < 2; k++) {
            int32_t candidate = (target_width(target) == 64 ? tid_offset64 : tid_offset32)[k], tid = 0;
            if (target_read_some(target, pointer + (uint64_t)candidate, &tid, sizeof tid) == sizeof tid && tid == thread->tid)
                offset = candidate;
        }
    }
    struct err *error = NULL;
    if (offset) {
        process->tid_known = true;
        error = target_write(target, process->process_va + offsetof(struct wire_process, tid_offset), &offset, sizeof offset);
    }
    struct err *resume = was_running ? target_resume(target) : NULL;
    if (!error)
        error = resume;
    else
        err_free(resume);
    return error;
}
