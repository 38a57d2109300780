#include "load/mapped.h"

#include "load/stacks.h"
#include "wire/session.h"

#include <stdlib.h>

void load_mapped_deinit(struct load_mapped_list *list)
{
    for (size_t i = 0; i < list->mapped.n; i++)
        free(list->mapped.at[i].path);
    VEC_FREE(&list->mapped);
    VEC_FREE(&list->first_image);
}

uint32_t load_mapped_new_image(struct load_mapped_list *list, uint32_t first_image)
{
    uint32_t image = (uint32_t)list->first_image.n + 1;
    VEC_PUSH(&list->first_image, first_image ? first_image : image);
    return image;
}

void load_mapped_add(struct load_mapped_list *list, pid_t pid, uint32_t image, const struct load_module *module)
{
    VEC_PUSH(&list->mapped, (struct load_mapped){.pid = pid,
                                                 .first_image = image ? list->first_image.at[image - 1] : 0,
                                                 .image = image,
                                                 .start_va = module->start_va,
                                                 .end_va = module->end_va,
                                                 .bias = module->bias,
                                                 .path = memory_text(module->path),
                                                 .code = module->code});
}

const struct load_mapped *load_mapped_find(const struct load_mapped_list *list, pid_t pid, uint64_t va)
{
    const struct load_mapped *other = NULL;
    for (size_t i = list->mapped.n; i-- > 0;) {
        const struct load_mapped *mapped = &list->mapped.at[i];
        if (va < mapped->start_va || va >= mapped->end_va)
            continue;
        if (mapped->pid == pid)
            return mapped;
        if (!other)
            other = mapped;
    }
    return other;
}

const struct load_mapped *load_mapped_find_in(const struct load_mapped_list *list, uint64_t root, uint64_t va)
{
    uint32_t image = (uint32_t)(root >> 32);
    if (!image || image > list->first_image.n)
        return load_mapped_find(list, (pid_t)(uint32_t)root, va);
    for (size_t i = list->mapped.n; i-- > 0;) {
        const struct load_mapped *mapped = &list->mapped.at[i];
        if (mapped->first_image == list->first_image.at[image - 1] && mapped->image <= image && va >= mapped->start_va &&
            va < mapped->end_va)
            return mapped;
    }
    return NULL;
}

static size_t underscores(const char *name)
{
    size_t n = 0;
    while (name[n] == '_')
        n++;
    return n;
}

/* Of several names of a function the one that is most likely meant for people. */
static const char *best_name(const struct symbol_file *file, const struct symbol_func *func)
{
    size_t count;
    const struct symbol_func *all = symbol_file_funcs(file, &count);
    const char *best = func->demangled;
    for (const struct symbol_func *other = func + 1; other < all + count && other->va == func->va; other++)
        if (underscores(other->demangled) < underscores(best))
            best = other->demangled;
    return best;
}

void load_mapped_frame(const struct load_mapped *mapped, uint64_t va, bool is_return, struct load_frame *out)
{
    uint64_t file_va = va - mapped->bias, found_va = file_va - is_return;
    const struct symbol_func *func = mapped->code ? symbol_file_func_at(mapped->code->file, found_va) : NULL;
    *out = (struct load_frame){.function = func ? best_name(mapped->code->file, func) : NULL,
                               .path = mapped->path,
                               .code = mapped->code,
                               .file_va = found_va,
                               .offset = func ? file_va - func->va : file_va,
                               .is_signal = mapped->code && load_stacks_is_signal(mapped->code, file_va)};
}
