/* Every byte of a window lies in one page, of every kind of window that the entries and returns of real files and of v_pages get. */
#include "load/resolve.h"
#include "symbol/symbol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, JMP_BYTES = 5 };

static int by_va(const void *a, const void *b)
{
    const struct load_wish *x = a, *y = b;
    return x->va < y->va ? -1 : x->va > y->va;
}

static bool is_split(uint64_t va, uint64_t other_va, unsigned bytes)
{
    return va / PAGE != (other_va + bytes - 1) / PAGE || va / PAGE != other_va / PAGE;
}

static unsigned check_function(const struct load_code *code, struct load_claims *claims, const struct symbol_func *func, unsigned *split)
{
    uint64_t va, size;
    struct load_resolved resolved = {0};
    struct load_flow flow;
    VEC(struct load_wish) wish = {0};
    load_windows windows = {0};
    load_code_unit(code, func, &va, &size);
    load_resolve_func(code, func, SPEC_ENTRY, &resolved);
    load_resolve_func(code, func, SPEC_RETURN, &resolved);
    load_flow_init(&flow, code, va, size);
    for (size_t i = 0; i < resolved.place.n; i++)
        if (resolved.place.at[i].func_va == va)
            VEC_PUSH(&wish, (struct load_wish){.va = resolved.place.at[i].va, .no_trap = true});
    if (wish.n) {
        qsort(wish.at, wish.n, sizeof *wish.at, by_va);
        load_windows_plan(code, &flow, claims, wish.at, wish.n, &windows);
        load_windows_add_islands(code, &flow, claims, wish.at, wish.n, &windows, load_far_without_process, (void *)code);
    }
    for (size_t i = 0; i < windows.n; i++) {
        const struct load_window *window = &windows.at[i];
        unsigned bytes = window->far_span ? JMP_BYTES : window->length;
        *split += is_split(window->va, window->va, bytes) || (window->island_va && is_split(window->va, window->island_va, JMP_BYTES));
    }
    unsigned count = (unsigned)windows.n;
    load_flow_deinit(&flow);
    load_resolved_deinit(&resolved);
    VEC_FREE(&wish);
    VEC_FREE(&windows);
    return count;
}

static bool check_file(const char *path, unsigned least)
{
    struct symbol_file *file;
    struct err *error = symbol_file_open(path, &file);
    if (error) {
        printf("%s: %s\n", path, error->message);
        err_free(error);
        return !strncmp(path, "/usr", 4); /* not on this machine */
    }
    struct load_code *code = load_code_create(file);
    struct load_claims claims;
    load_claims_init(&claims, code);
    size_t count;
    const struct symbol_func *func = symbol_file_funcs(file, &count);
    unsigned windows = 0, split = 0;
    for (size_t i = 0; i < count; i++)
        if (!i || func[i].va != func[i - 1].va)
            windows += check_function(code, &claims, &func[i], &split);
    printf("%s: %u windows, %u in more than one page\n", path, windows, split);
    load_claims_deinit(&claims);
    load_code_destroy(code);
    return windows >= least && !split;
}

int main(void)
{
    static const char *const path[] = {"build/victim/64/v_pages", "build/victim/32/v_pages", "/usr/lib/x86_64-linux-gnu/libc.so.6",
                                       "/usr/lib32/libc.so.6"};
    bool good = true;
    for (size_t i = 0; i < sizeof path / sizeof *path; i++)
        good &= check_file(path[i], 11);
    return good ? 0 : 1;
}
