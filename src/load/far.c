/* Far islands. The jump that leads to one shares its last bytes with the instruction behind it, so the island must lie at one of `span`
 * addresses: 1, 256, 65536 or 16777216 of them. Pages for islands are mapped there one at a time and shared by all islands that fit. */
#include "load/internal.h"

#include <stdlib.h>

enum { PAGE = 4096 };

static bool is_free(const struct load_process *process, uint64_t va)
{
    for (size_t i = 0; i < process->far_island.n; i++)
        if (va + LOAD_FAR_ISLAND_BYTES > process->far_island.at[i] && va < process->far_island.at[i] + LOAD_FAR_ISLAND_BYTES)
            return false;
    return true;
}

/* A free spot in a page that is already mapped. */
static uint64_t find_spot(const struct load_process *process, uint64_t va, uint32_t span)
{
    for (size_t i = 0; i < process->far_page.n; i++) {
        const struct load_region *page = &process->far_page.at[i];
        uint64_t low = va > page->va ? va : page->va;
        for (uint64_t at = low; at < va + span && at + LOAD_FAR_ISLAND_BYTES <= page->va + page->bytes; at++)
            if (is_free(process, at))
                return at;
    }
    return 0;
}

static uint64_t address_limit(const struct load_process *process)
{
    return process->fire.mode == INSN_MODE_64 ? 0x7ffffffde000 : 0xff000000;
}

static bool is_unmapped(const struct target_maps *maps, uint64_t low, uint64_t high)
{
    /* A stack grows down and a heap up: keep away from both. */
    enum { ROOM = 64 << 20 };
    for (size_t i = 0; i < maps->map.n; i++) {
        const struct target_map *map = &maps->map.at[i];
        uint64_t start_va = map->start_va, end_va = map->end_va;
        if (map->path[0] == '[' && map->path[1] == 's')
            start_va -= ROOM;
        if (map->path[0] == '[' && map->path[1] == 'h')
            end_va += ROOM;
        if (low < end_va && high > start_va)
            return false;
    }
    return true;
}

/* Pages that could be mapped so that an island fits: their address, and in *island_va the island's. */
static uint64_t find_pages(const struct load_process *process, const struct target_maps *maps, uint64_t va, uint32_t span,
                           uint64_t *island_va, uint64_t *bytes)
{
    enum { TRIES = 64 };
    uint64_t step = span / TRIES > PAGE ? span / TRIES / PAGE * PAGE : PAGE;
    for (uint64_t at = va; at < va + span; at = (at + step) / PAGE * PAGE) {
        uint64_t low = at / PAGE * PAGE, high = (at + LOAD_FAR_ISLAND_BYTES + PAGE - 1) / PAGE * PAGE;
        if (low < 0x10000 || high > address_limit(process) || high < low || !is_unmapped(maps, low, high))
            continue;
        *island_va = at;
        *bytes = high - low;
        return low;
    }
    return 0;
}

static uint64_t runtime_va(const struct load_process *process, uint64_t va)
{
    return process->fire.mode == INSN_MODE_64 ? va : (uint32_t)va;
}

bool load_far_is_possible(struct load_process *process, const struct target_maps *maps, uint64_t va, uint32_t span)
{
    /* Pages strewn about are dear in a small address space: a 32-bit process gets few that serve a single place. */
    enum { NARROW_PAGES = 64, SHARED_SPAN = 65536 };
    uint64_t island_va, bytes;
    va = runtime_va(process, va);
    if (process->fire.mode == INSN_MODE_32 && span < SHARED_SPAN && process->far_page.n + process->far_promised >= NARROW_PAGES)
        return false;
    process->far_promised += process->fire.mode == INSN_MODE_32 && span < SHARED_SPAN;
    return find_spot(process, va, span) || find_pages(process, maps, va, span, &island_va, &bytes);
}

/* Whether a page that is about to be mapped is in the way. */
static bool is_wanted(const struct load_mappings *wanted, uint64_t va, uint64_t bytes)
{
    for (size_t i = 0; i < wanted->n; i++)
        if (va < wanted->at[i].va + wanted->at[i].bytes && va + bytes > wanted->at[i].va)
            return true;
    return false;
}

/* They are taken for mapped, and for used, while the rest is looked for. */
struct err *load_far_prepare(struct load_process *process, const struct load_far_wish *wish, size_t count)
{
    struct target_maps maps;
    struct load_mappings wanted = {0};
    size_t pages = process->far_page.n, islands = process->far_island.n;
    if (!count)
        return NULL;
    ERR_TRY(target_maps_read(process->target, &maps));
    for (size_t i = 0; i < count; i++) {
        uint64_t va = runtime_va(process, wish[i].va), bytes = 0;
        uint64_t island_va = find_spot(process, va, wish[i].span);
        uint64_t page_va = island_va ? 0 : find_pages(process, &maps, va, wish[i].span, &island_va, &bytes);
        if (page_va && is_wanted(&wanted, page_va, bytes))
            continue; /* it overlaps another by a part: it has its turn alone */
        if (page_va) {
            VEC_PUSH(&wanted, (struct wire_region){page_va, bytes});
            VEC_PUSH(&process->far_page, (struct load_region){page_va, bytes, 0});
        }
        if (island_va)
            VEC_PUSH(&process->far_island, island_va);
    }
    target_maps_deinit(&maps);
    process->far_page.n = pages;
    process->far_island.n = islands;
    struct err *error = load_region_map_all(process, &wanted);
    for (size_t i = 0; i < wanted.n && !error; i++)
        VEC_PUSH(&process->far_page, (struct load_region){wanted.at[i].va, wanted.at[i].bytes, 0});
    VEC_FREE(&wanted);
    return error;
}

static struct err *map_page(struct load_process *process, uint64_t va, uint32_t span, uint64_t *island_va)
{
    for (int attempt = 0;; attempt++) {
        struct target_maps maps;
        uint64_t bytes;
        ERR_TRY(target_maps_read(process->target, &maps));
        uint64_t page_va = find_pages(process, &maps, va, span, island_va, &bytes);
        target_maps_deinit(&maps);
        if (!page_va)
            return err_new(ERR_PLACE, "process %d: no free page for an island", target_pid(process->target));
        struct err *error = load_region_map_at(process, page_va, bytes);
        if (!error)
            VEC_PUSH(&process->far_page, (struct load_region){page_va, bytes, 0});
        if (!error || error->code != ERR_PLACE || attempt == LOAD_MAP_ATTEMPTS)
            return error;
        err_free(error);
    }
}

struct err *load_far_alloc(struct load_process *process, uint64_t va, uint32_t span, uint64_t *island_va)
{
    va = runtime_va(process, va);
    *island_va = find_spot(process, va, span);
    if (!*island_va)
        ERR_TRY(map_page(process, va, span, island_va));
    VEC_PUSH(&process->far_island, *island_va);
    return NULL;
}

void load_far_free(struct load_process *process, uint64_t island_va)
{
    for (size_t i = 0; i < process->far_island.n; i++)
        if (process->far_island.at[i] == island_va) {
            process->far_island.at[i] = process->far_island.at[--process->far_island.n];
            return;
        }
}
