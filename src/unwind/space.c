/* Modules of processes and tables of files: see space.h. */
#include "unwind/space.h"

#include "base/clock.h"
#include "symbol/unwind.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 8 };
static const uint64_t REFRESH_NS = 50000000; /* between two looks at the mappings that nobody asked for */

/* A file that some process has mapped to execute. */
struct file {
    /* What makes it this file; all 0 for the vdso. */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
    int vdso_width;              /* 32 or 64; else 0 */
    struct symbol_unwind unwind; /* table NULL: not ELF, damaged */
};

struct unwind_tables {
    VEC(struct file *) files;
};

/* What a module was made from. */
struct mapping {
    uint64_t file_offset, inode;
    char *path;
    const struct file *file; /* NULL: none, or it could not be opened */
};

struct unwind_process {
    struct unwind_tables *tables;
    pid_t pid;
    VEC(struct unwind_module) modules;
    VEC(struct mapping) mappings; /* of each module */
    struct unwind_space space;
    uint64_t refreshed_ns; /* CLOCK_MONOTONIC */
};

/* ---- files ---- */

struct unwind_tables *unwind_tables_create(void)
{
    return memory_zero(1, sizeof(struct unwind_tables));
}

void unwind_tables_destroy(struct unwind_tables *tables)
{
    if (!tables)
        return;
    for (size_t i = 0; i < tables->files.n; i++) {
        symbol_unwind_deinit(&tables->files.at[i]->unwind);
        free(tables->files.at[i]);
    }
    VEC_FREE(&tables->files);
    free(tables);
}

static struct file *add_file(struct unwind_tables *tables)
{
    struct file *file = memory_zero(1, sizeof *file);
    VEC_PUSH(&tables->files, file);
    return file;
}

static const struct file *open_file(struct unwind_tables *tables, pid_t pid, const struct target_map *map)
{
    int fd;
    struct stat status;
    struct err *error = target_peek_file(pid, map, &fd);
    if (error) {
        err_free(error);
        return NULL;
    }
    struct file *file = NULL;
    if (fstat(fd, &status) == 0) {
        for (size_t i = 0; i < tables->files.n && !file; i++) {
            struct file *other = tables->files.at[i];
            if (other->inode == status.st_ino && other->device == status.st_dev && other->size == status.st_size &&
                memcmp(&other->changed, &status.st_mtim, sizeof other->changed) == 0 && !other->vdso_width)
                file = other;
        }
        if (!file) {
            file = add_file(tables);
            file->inode = status.st_ino;
            file->device = status.st_dev;
            file->size = status.st_size;
            file->changed = status.st_mtim;
            err_free(symbol_unwind_open_fd(fd, map->path, &file->unwind));
        }
    }
    close(fd);
    return file;
}

/* The kernel has one vdso for each width, which no file holds. */
static const struct file *open_vdso(struct unwind_process *process, const struct target_map *map)
{
    struct unwind_tables *tables = process->tables;
    enum { MAX_VDSO = 1 << 16 };
    uint8_t bytes[MAX_VDSO];
    for (size_t i = 0; i < tables->files.n; i++)
        if (tables->files.at[i]->vdso_width == (int)process->space.width)
            return tables->files.at[i];
    uint64_t size = map->end_va - map->start_va;
    if (size > sizeof bytes || target_peek(process->pid, map->start_va, bytes, (size_t)size) != size)
        return NULL;
    struct symbol_unwind unwind;
    struct err *error = symbol_unwind_open_memory(bytes, (size_t)size, map->path, &unwind);
    if (error) {
        err_free(error);
        return NULL;
    }
    struct file *file = add_file(tables);
    file->vdso_width = (int)process->space.width;
    file->unwind = unwind;
    return file;
}

/* ---- modules ---- */

static bool is_same(const struct unwind_module *module, const struct mapping *mapping, const struct target_map *map)
{
    return module->start_va == map->start_va && module->end_va == map->end_va && mapping->file_offset == map->file_offset &&
           mapping->inode == map->inode && strcmp(mapping->path, map->path) == 0;
}

/* Sets what the module's file says. */
static void find_table(struct unwind_process *process, const struct target_map *map, struct unwind_module *module, struct mapping *mapping)
{
    if (strcmp(map->path, "[vdso]") == 0)
        mapping->file = open_vdso(process, map);
    else if (map->inode)
        mapping->file = open_file(process->tables, process->pid, map);
    const struct symbol_unwind *unwind = mapping->file ? &mapping->file->unwind : NULL;
    if (!unwind || !unwind->table)
        return;
    uint64_t size = map->end_va - map->start_va;
    for (size_t i = 0; i < unwind->code_count; i++) {
        const struct symbol_unwind_code *code = &unwind->code[i];
        uint64_t first = code->file_offset & ~(uint64_t)(PAGE - 1);
        if (map->file_offset + size <= first || map->file_offset >= code->file_offset + code->size)
            continue;
        module->bias = map->start_va - map->file_offset + code->file_offset - code->va;
        module->table_va = (uintptr_t)unwind->table;
        module->table_bytes = unwind->table->bytes;
        return;
    }
}

static void publish(struct unwind_process *process)
{
    process->space.module = process->modules.at;
    process->space.module_count = (uint32_t)process->modules.n;
}

static void make_module(struct unwind_process *process, const struct target_map *map, struct unwind_module *module, struct mapping *mapping)
{
    *module = (struct unwind_module){.start_va = map->start_va, .end_va = map->end_va};
    *mapping = (struct mapping){.file_offset = map->file_offset, .inode = map->inode, .path = memory_text(map->path)};
    find_table(process, map, module, mapping);
}

static void forget_modules(struct unwind_process *process)
{
    for (size_t i = 0; i < process->mappings.n; i++)
        free(process->mappings.at[i].path);
    VEC_FREE(&process->modules);
    VEC_FREE(&process->mappings);
    publish(process);
}

struct err *unwind_process_refresh(struct unwind_process *process)
{
    struct target_maps maps;
    process->refreshed_ns = clock_now_ns();
    ERR_TRY(target_peek_maps(process->pid, &maps));
    struct unwind_process old = *process;
    memset(&process->modules, 0, sizeof process->modules);
    memset(&process->mappings, 0, sizeof process->mappings);
    size_t next = 0; /* both lists ascend */
    for (size_t i = 0; i < maps.map.n; i++) {
        const struct target_map *map = &maps.map.at[i];
        struct unwind_module module;
        struct mapping mapping;
        if (!map->executable)
            continue;
        while (next < old.modules.n && old.modules.at[next].start_va < map->start_va)
            next++;
        if (next < old.modules.n && is_same(&old.modules.at[next], &old.mappings.at[next], map)) {
            module = old.modules.at[next];
            mapping = old.mappings.at[next];
            old.mappings.at[next].path = NULL;
            next++;
        } else {
            make_module(process, map, &module, &mapping);
        }
        VEC_PUSH(&process->modules, module);
        VEC_PUSH(&process->mappings, mapping);
    }
    forget_modules(&old);
    publish(process);
    target_maps_deinit(&maps);
    return NULL;
}

/* Takes [start_va, end_va) out of the modules; returns where a module in it belongs. */
static size_t clear_range(struct unwind_process *process, uint64_t start_va, uint64_t end_va)
{
    VEC(struct unwind_module) modules = {0};
    VEC(struct mapping) mappings = {0};
    size_t place = 0;
    for (size_t i = 0; i < process->modules.n; i++) {
        struct unwind_module module = process->modules.at[i];
        struct mapping *mapping = &process->mappings.at[i];
        bool has_left = module.start_va<start_va, has_right = module.end_va> end_va;
        uint64_t from = module.start_va;
        if (has_left) {
            struct unwind_module left = module;
            left.end_va = left.end_va < start_va ? left.end_va : start_va;
            VEC_PUSH(&modules, left);
            VEC_PUSH(&mappings, *mapping);
            mappings.at[mappings.n - 1].path = memory_text(mapping->path);
            place = modules.n;
        }
        if (has_right) {
            module.start_va = module.start_va > end_va ? module.start_va : end_va;
            VEC_PUSH(&modules, module);
            VEC_PUSH(&mappings, *mapping);
            mappings.at[mappings.n - 1].path = memory_text(mapping->path);
            mappings.at[mappings.n - 1].file_offset += module.start_va - from;
        }
    }
    forget_modules(process);
    process->modules.at = modules.at;
    process->modules.n = modules.n;
    process->modules.room = modules.room;
    process->mappings.at = mappings.at;
    process->mappings.n = mappings.n;
    process->mappings.room = mappings.room;
    return place;
}

void unwind_process_map(struct unwind_process *process, const struct target_map *map)
{
    struct unwind_module module;
    struct mapping mapping;
    if (map->start_va >= map->end_va)
        return;
    for (size_t i = 0; i < process->modules.n; i++)
        if (is_same(&process->modules.at[i], &process->mappings.at[i], map))
            return;
    size_t place = clear_range(process, map->start_va, map->end_va);
    make_module(process, map, &module, &mapping);
    VEC_PUSH(&process->modules, module);
    VEC_PUSH(&process->mappings, mapping);
    memmove(process->modules.at + place + 1, process->modules.at + place, (process->modules.n - 1 - place) * sizeof module);
    memmove(process->mappings.at + place + 1, process->mappings.at + place, (process->mappings.n - 1 - place) * sizeof mapping);
    process->modules.at[place] = module;
    process->mappings.at[place] = mapping;
    publish(process);
}

/* ---- processes ---- */

struct err *unwind_process_open(struct unwind_tables *tables, pid_t pid, int width, struct unwind_process **out)
{
    *out = NULL;
    if (!width)
        ERR_TRY(target_peek_width(pid, &width));
    struct unwind_process *process = memory_zero(1, sizeof *process);
    process->tables = tables;
    process->pid = pid;
    process->space.width = (uint32_t)width;
    struct err *error = unwind_process_refresh(process);
    if (error) {
        unwind_process_close(process);
        return error;
    }
    *out = process;
    return NULL;
}

void unwind_process_close(struct unwind_process *process)
{
    if (!process)
        return;
    forget_modules(process);
    free(process);
}

const struct unwind_space *unwind_process_space(const struct unwind_process *process)
{
    return &process->space;
}

static size_t module_at(const struct unwind_process *process, uint64_t va)
{
    size_t low = 0, high = process->modules.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (process->modules.at[middle].start_va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va < process->modules.at[low - 1].end_va ? low - 1 : SIZE_MAX;
}

bool unwind_process_find(const struct unwind_process *process, uint64_t va, struct unwind_found *out)
{
    size_t index = module_at(process, va);
    if (index == SIZE_MAX)
        return false;
    const struct unwind_module *module = &process->modules.at[index];
    const struct mapping *mapping = &process->mappings.at[index];
    *out = (struct unwind_found){.path = mapping->path,
                                 .start_va = module->start_va,
                                 .end_va = module->end_va,
                                 .file_offset = mapping->file_offset,
                                 .bias = module->bias,
                                 .has_table = module->table_va};
    if (mapping->file) {
        out->build_id = mapping->file->unwind.build_id;
        out->build_id_size = mapping->file->unwind.build_id_size;
    }
    return true;
}

/* ---- walks ---- */

/* Memory during one walk: the copy, else pages of the process. */
struct memory {
    pid_t pid;
    unsigned word; /* bytes */
    const struct unwind_stack *stack;
    struct unwind_seen read; /* of a copy, and outside of it */
    uint64_t page_va[PAGES]; /* 1: none */
    size_t page_size[PAGES]; /* bytes that could be read */
    unsigned next;
    uint8_t page[PAGES][PAGE];
};

static const uint8_t *find_page(struct memory *memory, uint64_t va, size_t *size)
{
    uint64_t page_va = va & ~(uint64_t)(PAGE - 1);
    unsigned slot = 0;
    while (slot < PAGES && memory->page_va[slot] != page_va)
        slot++;
    if (slot == PAGES) {
        slot = memory->next++ % PAGES;
        memory->page_va[slot] = page_va;
        memory->page_size[slot] = target_peek(memory->pid, page_va, memory->page[slot], PAGE);
    }
    *size = memory->page_size[slot];
    return memory->page[slot];
}

static uint32_t place_of(const struct unwind_seen *seen, uint64_t va)
{
    uint32_t i = 0;
    while (i < seen->count && seen->va[i] != va)
        i++;
    return i;
}

static void see(struct unwind_seen *seen, uint64_t va, uint64_t word)
{
    uint32_t at = place_of(seen, va);
    if (at == UNWIND_SEEN_MAX)
        return;
    seen->count += at == seen->count;
    seen->va[at] = va;
    seen->word[at] = word;
}

/* Of what was read, the return addresses: registers that functions have saved change all the time, and mean nothing. */
static bool compare_callers(const struct memory *memory, const uint64_t *pcs, uint32_t count)
{
    const struct unwind_stack *stack = memory->stack;
    const struct unwind_seen *read = &memory->read;
    bool is_new = false;
    for (uint32_t i = 0, frame = 1; stack && stack->now && i < read->count; i++) {
        uint32_t at = frame;
        while (at < count && pcs[at] != read->word[i])
            at++;
        if (at == count)
            continue;
        frame = at + 1;
        uint32_t seen = stack->before ? place_of(stack->before, read->va[i]) : 0;
        is_new |=
            read->va[i] >= stack->far_va && stack->before && (seen == stack->before->count || stack->before->word[seen] != read->word[i]);
        see(stack->now, read->va[i], read->word[i]);
    }
    return is_new;
}

static bool find_word(struct memory *memory, uint64_t va, uint64_t *word)
{
    const struct unwind_stack *stack = memory->stack;
    *word = 0;
    if (stack && va >= stack->va && va - stack->va < stack->size && stack->size - (va - stack->va) >= memory->word) {
        memcpy(word, stack->bytes + (va - stack->va), memory->word);
        return true;
    }
    if (stack && stack->copy_only)
        return false;
    uint8_t bytes[8];
    for (unsigned i = 0; i < memory->word; i++) {
        size_t size, at = (size_t)((va + i) % PAGE);
        const uint8_t *page = find_page(memory, va + i, &size);
        if (at >= size)
            return false;
        bytes[i] = page[at];
    }
    memcpy(word, bytes, memory->word);
    return true;
}

static bool read_word(void *context, uint64_t va, uint64_t *word)
{
    struct memory *memory = context;
    if (!find_word(memory, va, word))
        return false;
    if (memory->stack && memory->stack->now)
        see(&memory->read, va, *word);
    return true;
}

static void walk_over(struct unwind_process *process, const struct unwind_regs *regs, const struct unwind_stack *stack, uint64_t *pcs,
                      uint32_t room, struct unwind_result *out)
{
    struct memory memory;
    memory.pid = process->pid;
    memory.word = process->space.width / 8;
    memory.stack = stack;
    memory.read.count = 0;
    memory.next = 0;
    for (unsigned i = 0; i < PAGES; i++)
        memory.page_va[i] = 1;
    struct unwind_work work = {.regs = *regs};
    struct unwind_walk walk = {.work = &work, .space = &process->space, .read = read_word, .context = &memory};
    unwind_walk(&walk, pcs, room);
    *out = walk.result;
    out->is_new = compare_callers(&memory, pcs, out->count);
}

void unwind_process_walk(struct unwind_process *process, const struct unwind_regs *regs, const struct unwind_stack *stack, uint64_t *pcs,
                         uint32_t room, struct unwind_result *out)
{
    walk_over(process, regs, stack, pcs, room, out);
    if (out->end == UNWIND_ROOM || (out->end == UNWIND_COMPLETE && !out->guessed) || !out->count ||
        module_at(process, pcs[out->count - 1]) != SIZE_MAX || clock_now_ns() - process->refreshed_ns < REFRESH_NS)
        return;
    struct err *error = unwind_process_refresh(process);
    if (!error)
        walk_over(process, regs, stack, pcs, room, out);
    err_free(error);
}

void unwind_regs_from_user(const struct user_regs_struct *user, int width, struct unwind_regs *out)
{
    memset(out, 0, sizeof *out);
    out->pc = user->rip;
    if (width == 64) {
        const uint64_t regs[] = {user->rax, user->rdx, user->rcx, user->rbx, user->rsi, user->rdi, user->rbp, user->rsp,
                                 user->r8,  user->r9,  user->r10, user->r11, user->r12, user->r13, user->r14, user->r15};
        memcpy(out->reg, regs, sizeof regs);
        out->known = 0xffff;
        return;
    }
    const uint64_t regs[] = {user->rax, user->rcx, user->rdx, user->rbx, user->rsp, user->rbp, user->rsi, user->rdi};
    for (size_t i = 0; i < sizeof regs / sizeof *regs; i++)
        out->reg[i] = (uint32_t)regs[i];
    out->pc = (uint32_t)user->rip;
    out->known = 0xff;
}
