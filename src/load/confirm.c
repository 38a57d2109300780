/* Whether what was planned from is still there. Between a plan and the stop in which it is done the process runs: it may unmap a library
 * and map another one at the same address, with or without its loader. */
#include "load/internal.h"

#include <string.h>

bool load_module_is_mapped(const struct load_module *module, const struct target_maps *maps)
{
    for (size_t i = 0; i < maps->map.n; i++) {
        const struct target_map *map = &maps->map.at[i];
        if (map->start_va == module->start_va)
            return module->is_vdso ? !strcmp(map->path, module->path)
                                   : map->inode == module->inode && map->device == module->device && !map->file_offset;
    }
    return false;
}

/* Where in the file an address of the module comes from. */
static bool file_offset_of(const struct load_module *module, uint64_t va, uint64_t *offset)
{
    size_t count;
    const struct symbol_segment *segment = symbol_file_segments(module->code->file, &count);
    uint64_t file_va = va - module->bias;
    for (size_t i = 0; i < count; i++) {
        enum { PAGE = 4096 };
        uint64_t low = segment[i].va / PAGE * PAGE;
        if (file_va < low || file_va >= segment[i].va + segment[i].size)
            continue;
        *offset = file_va - segment[i].va + segment[i].file_offset;
        return true;
    }
    return false;
}

bool load_page_is_mapped(const struct load_module *module, uint64_t page_va, const struct target_maps *maps)
{
    uint64_t offset;
    if (module->is_vdso || !load_module_is_mapped(module, maps))
        return module->is_vdso && load_module_is_mapped(module, maps);
    for (size_t i = 0; i < maps->map.n; i++) {
        const struct target_map *map = &maps->map.at[i];
        if (page_va >= map->start_va && page_va < map->end_va)
            return map->inode == module->inode && map->device == module->device && file_offset_of(module, page_va, &offset) &&
                   map->file_offset + (page_va - map->start_va) == offset;
    }
    return false;
}

static bool has_bytes(struct load_process *process, uint64_t va, const uint8_t *bytes, size_t size)
{
    uint8_t found[WIRE_SITE_MAX];
    return target_read_some(process->target, va, found, size) == size && !memcmp(found, bytes, size);
}

bool load_site_is_there(struct load_process *process, const struct load_site *site, const struct target_maps *maps)
{
    uint64_t bias = site->module->bias, page_va = (site->window.va + bias) & ~4095ull;
    /* A breakpoint instruction alone may be anybody's. */
    if (site->window.length == 1 && !load_page_is_mapped(site->module, page_va, maps))
        return false;
    return has_bytes(process, site->window.va + bias, site->patch, site->window.length) ||
           (site->window.island_va && has_bytes(process, site->window.island_va + bias, site->island_patch, 5));
}

bool load_module_is_patched(struct load_process *process, const struct load_module *module, const struct target_maps *maps)
{
    for (size_t f = 0; f < module->function.n; f++)
        if (module->function.at[f]->site.n)
            return load_site_is_there(process, module->function.at[f]->site.at[0], maps);
    return true;
}
