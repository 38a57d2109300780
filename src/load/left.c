#include "load/left.h"

#include "base/memory.h"

#include <stdlib.h>

enum { PAGE = 4096 };

/* ---- tables ---- */

static bool read_table(load_left_read_fn *read, void *context, uint64_t bytes, uint64_t offset, uint64_t count, uint64_t most, size_t each,
                       void **out)
{
    *out = NULL;
    if (!count)
        return true; /* and it need not be mapped yet */
    if (count > most || offset > bytes || count * each > bytes - offset)
        return false;
    *out = memory_alloc((size_t)count * each);
    return read(context, offset, *out, (size_t)count * each);
}

#define BY_VA(function, type)                                                                                                              \
    static int function(const void *a, const void *b)                                                                                      \
    {                                                                                                                                      \
        const struct type *x = a, *y = b;                                                                                                  \
        return x->va < y->va ? -1 : x->va > y->va;                                                                                         \
    }
BY_VA(by_region_va, wire_region)
BY_VA(by_site_va, wire_site)
BY_VA(by_pc_va, wire_pc)

/* ---- what can be true ---- */

/* The end of what a process can map. */
static uint64_t end_va(int width)
{
    return width == 64 ? 1ull << 47 : 1ull << 32;
}

static bool check_regions(struct load_left *left, int width)
{
    uint32_t count = left->head.region_count;
    if (count)
        qsort(left->region, count, sizeof *left->region, by_region_va);
    for (uint32_t i = 0; i < count; i++) {
        const struct wire_region *region = &left->region[i];
        if (!region->va || !region->bytes || region->va % PAGE || region->bytes % PAGE || region->va >= end_va(width) ||
            region->bytes > end_va(width) - region->va || (i && region[-1].va + region[-1].bytes > region->va))
            return false;
    }
    return true;
}

bool load_left_has(const struct load_left *left, uint64_t va)
{
    uint32_t low = 0;
    for (uint32_t high = left->head.region_count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (left->region[middle].va <= va)
            low = middle + 1;
        else
            high = middle;
    }
    return low && va - left->region[low - 1].va < left->region[low - 1].bytes;
}

static void keep_sites(struct load_left *left)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < left->head.site_count; i++) {
        const struct wire_site *site = &left->site[i];
        if (site->length && site->length <= WIRE_SITE_MAX && site->va < end_va((int)left->head.width) - PAGE &&
            load_left_has(left, site->trampoline_va))
            left->site[kept++] = *site;
    }
    left->head.site_count = kept;
}

static bool is_island(const struct load_left *left, uint64_t va)
{
    uint32_t low = 0;
    for (uint32_t high = left->head.site_count; low < high;) {
        uint32_t middle = (low + high) / 2;
        if (left->site[middle].va < va)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < left->head.site_count && left->site[low].va == va; low++)
        if (!left->site[low].extent)
            return true;
    return false;
}

static void keep_pcs(struct load_left *left)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < left->head.pc_count; i++) {
        const struct wire_pc *pc = &left->pc[i];
        if (pc->kind > WIRE_PC_NONE && pc->kind <= WIRE_PC_CLAUSE && (load_left_has(left, pc->va) || is_island(left, pc->va)))
            left->pc[kept++] = *pc;
    }
    left->head.pc_count = kept;
}

void load_left_keep_regions(struct load_left *left, load_left_keep_fn *keep, const void *context)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < left->head.region_count; i++)
        if (keep(context, &left->region[i]))
            left->region[kept++] = left->region[i];
    left->head.region_count = kept;
    keep_sites(left);
    keep_pcs(left);
}

enum load_left_state load_left_read(load_left_read_fn *read, void *context, uint64_t bytes, int width, struct load_left *out)
{
    *out = (struct load_left){0};
    struct wire_shared *head = &out->head;
    if (bytes < sizeof *head || !read(context, 0, head, sizeof *head))
        return LOAD_LEFT_BROKEN;
    if (head->magic != WIRE_SHARED_MAGIC || head->width != (uint32_t)width)
        return LOAD_LEFT_STRANGE;
    if (!read_table(read, context, bytes, head->regions_offset, head->region_count, LOAD_LEFT_REGIONS_MOST, sizeof *out->region,
                    (void **)&out->region) ||
        !read_table(read, context, bytes, head->sites_offset, head->site_count, LOAD_LEFT_SITES_MOST, sizeof *out->site,
                    (void **)&out->site) ||
        !read_table(read, context, bytes, head->pcs_offset, head->pc_count, LOAD_LEFT_PCS_MOST, sizeof *out->pc, (void **)&out->pc) ||
        !check_regions(out, width)) {
        load_left_deinit(out);
        return LOAD_LEFT_BROKEN;
    }
    keep_sites(out);
    if (out->site)
        qsort(out->site, head->site_count, sizeof *out->site, by_site_va);
    keep_pcs(out);
    if (out->pc)
        qsort(out->pc, head->pc_count, sizeof *out->pc, by_pc_va);
    return LOAD_LEFT_GOOD;
}

void load_left_deinit(struct load_left *left)
{
    free(left->region);
    free(left->site);
    free(left->pc);
    *left = (struct load_left){0};
}
