#include "load/stacks.h"

#include "load/internal.h"
#include "symbol/unwind.h"
#include "unwind/walk.h"
#include "wire/session.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* ---- code of ours ---- */

/* The table of code that every walk ends in. It lies behind the lists. */
struct end_table {
    struct wire_unwind head;
    uint32_t start[1];
    uint16_t rule[2];
    struct wire_unwind_rule rules[2];
};
_Static_assert(offsetof(struct end_table, rules) == sizeof(struct wire_unwind) + 8, "as wire/unwind.h has it");

static uint64_t end_table_offset(const struct load_process *process)
{
    return process->spaces_offset + WIRE_SPACES_BYTES;
}

static void write_end_table(struct load_process *process)
{
    struct end_table *table = (struct end_table *)((char *)process->shared + end_table_offset(process));
    *table = (struct end_table){
        .head = {.magic = WIRE_UNWIND_MAGIC, .bytes = sizeof *table, .width = process->shared->width, .row_count = 1, .rule_count = 2},
        .rule = {1},
        .rules = {{.cfa = WIRE_CFA_NONE}, {.cfa = WIRE_CFA_END}}};
}

uint64_t load_stacks_bytes(void)
{
    return WIRE_SPACES_BYTES + sizeof(struct end_table);
}

static struct wire_spaces *spaces_of(const struct load_process *process)
{
    return (struct wire_spaces *)((char *)process->shared + process->spaces_offset);
}

/* ---- tables ---- */

static struct err *make_file(struct load_code *code)
{
    char name[64];
    snprintf(name, sizeof name, WIRE_SESSION_NAME "-%d-unwind", getpid());
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const char *from = (const char *)code->unwind;
    size_t left = code->unwind->bytes;
    while (fd >= 0 && left) {
        ssize_t done = write(fd, from, left);
        if (done <= 0)
            break;
        from += done;
        left -= (size_t)done;
    }
    /* One process that has it must not be able to hurt another: what is mapped stays there, as it is. */
    if (fd >= 0 && !left && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)) {
        code->unwind_fd = fd;
        return NULL;
    }
    struct err *error = err_errno(ERR_SYSTEM, errno, "%s: memory for its unwind table", symbol_file_path(code->file));
    if (fd >= 0)
        close(fd);
    return error;
}

/* Makes the table of the file, once. */
static void need_table(struct load_code *code)
{
    if (!code->looked_for_unwind)
        code->unwind = symbol_unwind_build(code->file);
    code->looked_for_unwind = true;
}

static struct err *map_table(struct load_process *process, struct load_code *code, uint64_t *va)
{
    int remote_fd;
    if (code->unwind_fd < 0)
        ERR_TRY(make_file(code));
    ERR_TRY(target_send_fds(process->target, &code->unwind_fd, 1, process->places.scratch_va, &remote_fd));
    struct err *error = load_remote_mmap(process->target, 0, code->unwind->bytes, PROT_READ, MAP_SHARED, remote_fd, va);
    struct err *close_error = load_remote_close(process->target, remote_fd);
    if (!error)
        return close_error;
    err_free(close_error);
    return error;
}

uint64_t load_stacks_end(struct target *target)
{
    struct target_maps maps;
    uint64_t end_va = 0;
    struct err *error = target_maps_read(target, &maps);
    if (error)
        return err_free(error), 0;
    for (size_t i = 0; i < maps.map.n; i++)
        if (!strcmp(maps.map.at[i].path, "[stack]"))
            end_va = maps.map.at[i].end_va;
    target_maps_deinit(&maps);
    return end_va;
}

static uint64_t find_table(const struct load_process *process, const struct load_code *code)
{
    for (size_t i = 0; i < process->table.n; i++)
        if (process->table.at[i].code == code)
            return process->table.at[i].va;
    return 0;
}

static bool lacks_table(const struct load_process *process, const struct load_module *module)
{
    return module->code && module->code->unwind && module->code->unwind->row_count && !find_table(process, module->code);
}

/* All that are missing, in one stop. */
static struct err *map_tables(struct load_process *process)
{
    bool was_running = target_is_running(process->target), any = false;
    for (size_t i = 0; i < process->module.n; i++) {
        struct load_module *module = process->module.at[i];
        err_free(load_module_open(process, module)); /* what can not be read has no table */
        if (module->code)
            need_table(module->code);
        any |= lacks_table(process, module);
    }
    if (!any)
        return NULL;
    ERR_TRY(target_stop_one(process->target));
    struct err *error = NULL;
    for (size_t i = 0; i < process->module.n && !error; i++) {
        struct load_code *code = process->module.at[i]->code;
        uint64_t va = 0;
        if (!lacks_table(process, process->module.at[i]))
            continue;
        error = map_table(process, code, &va);
        if (!error)
            VEC_PUSH(&process->table, (struct load_table){code, va});
    }
    struct err *resume = was_running ? target_resume(process->target) : NULL;
    if (!error)
        return resume;
    err_free(resume);
    return error;
}

/* ---- the list ---- */

static int by_start(const void *a, const void *b)
{
    const struct unwind_module *x = a, *y = b;
    return x->start_va < y->start_va ? -1 : x->start_va > y->start_va;
}

/* Whether something else was mapped where a module is now. Notes what is there. */
static bool note_places(struct load_process *process)
{
    bool changed = false;
    for (size_t i = 0; i < process->module.n; i++) {
        const struct load_module *module = process->module.at[i];
        struct load_table_place place = {module->code, module->start_va, module->end_va, module->bias};
        bool known = false;
        for (size_t k = process->table_place.n; k-- > 0 && !known;) {
            const struct load_table_place *old = &process->table_place.at[k];
            if (old->start_va >= place.end_va || old->end_va <= place.start_va)
                continue;
            known = old->code == place.code && old->bias == place.bias;
            if (known)
                break;
            changed = true;
            process->table_place.at[k] = process->table_place.at[--process->table_place.n];
        }
        if (!known)
            VEC_PUSH(&process->table_place, place);
    }
    return changed;
}

static struct unwind_module describe(const struct load_process *process, const struct load_module *module)
{
    uint64_t table_va = module->code ? find_table(process, module->code) : 0;
    return (struct unwind_module){.start_va = module->start_va,
                                  .end_va = module->end_va,
                                  .bias = module->bias,
                                  .table_va = table_va,
                                  .table_bytes = table_va ? module->code->unwind->bytes : 0};
}

/* Every list but the current one may be forgotten: no thread has been walking all the time since it was replaced. */
static bool is_quiet(struct load_process *process)
{
    enum { ATTEMPTS = 50, WAIT_NS = 1000000 };
    struct load_pending pending = {0};
    bool quiet = false;
    for (int i = 0; i < ATTEMPTS && !quiet; i++) {
        quiet = load_process_quiesce(process, &pending);
        if (!quiet)
            nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
    load_pending_deinit(&pending);
    return quiet;
}

/* Where a list of so many bytes may be written; 0: nowhere. */
static uint32_t find_room(struct load_process *process, uint32_t bytes)
{
    struct wire_spaces *spaces = spaces_of(process);
    uint32_t at = process->spaces_used ? process->spaces_used : sizeof *spaces;
    if (bytes > WIRE_SPACES_BYTES - at) {
        at = sizeof *spaces;
        if (at + (uint64_t)bytes > spaces->current || !is_quiet(process))
            return 0;
    }
    process->spaces_used = at + bytes;
    return at;
}

static bool is_current(const struct load_process *process, const struct unwind_module *module, uint32_t count, uint32_t image)
{
    const struct wire_spaces *spaces = spaces_of(process);
    const struct wire_space *space = (const void *)((const char *)spaces + spaces->current);
    return spaces->current && space->count == count && space->image == image && !memcmp(space + 1, module, count * sizeof *module);
}

static void write_list(struct load_process *process, uint32_t image)
{
    struct wire_spaces *spaces = spaces_of(process);
    uint32_t count = 0;
    struct unwind_module *module = memory_zero(process->module.n + process->region.n, sizeof *module);
    for (size_t i = 0; i < process->module.n; i++)
        module[count++] = describe(process, process->module.at[i]);
    for (size_t i = 0; i < process->region.n; i++)
        module[count++] = (struct unwind_module){.start_va = process->region.at[i].va,
                                                 .end_va = process->region.at[i].va + process->region.at[i].bytes,
                                                 .bias = process->region.at[i].va,
                                                 .table_va = process->shared->shared_va + end_table_offset(process),
                                                 .table_bytes = sizeof(struct end_table)};
    qsort(module, count, sizeof *module, by_start);
    uint32_t bytes = (uint32_t)(sizeof(struct wire_space) + count * sizeof *module);
    uint32_t at = is_current(process, module, count, image) ? 0 : find_room(process, bytes);
    if (at) {
        struct wire_space *space = (struct wire_space *)((char *)spaces + at);
        *space = (struct wire_space){.count = count, .image = image};
        memcpy(space + 1, module, count * sizeof *module);
        __atomic_store_n(&spaces->current, at, __ATOMIC_SEQ_CST);
    }
    free(module);
}

struct err *load_stacks_publish(struct load_process *process, uint32_t image, bool *needs_image)
{
    load_vdso(process);
    ERR_TRY(map_tables(process));
    *needs_image = note_places(process) || !image;
    if (*needs_image)
        return NULL;
    write_end_table(process);
    write_list(process, image);
    return NULL;
}

/* ---- asking ---- */

bool load_stacks_is_signal(struct load_code *code, uint64_t file_va)
{
    const struct wire_unwind *table = code->unwind;
    if (!table || !table->row_count || file_va < table->text_va || file_va - table->text_va > UINT32_MAX)
        return false;
    const uint32_t *start = (const uint32_t *)(table + 1), wanted = (uint32_t)(file_va - table->text_va);
    const uint16_t *rule = (const uint16_t *)(start + table->row_count);
    const struct wire_unwind_rule *rules = (const void *)(start + table->row_count + (table->row_count + 1) / 2);
    uint32_t low = 0, high = table->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (start[middle] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low && rule[low - 1] < table->rule_count && rules[rule[low - 1]].cfa == WIRE_CFA_SIGNAL;
}
