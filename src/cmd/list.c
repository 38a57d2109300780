#include "cmd/cmd.h"

#include "base/memory.h"
#include "load/session.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage_text[] =
    "usage: probity list [--json] [--traps] SPEC...\n"
    "\n"
    "Shows the trace points that each SPEC means, and how each would be probed:\n"
    "  jmp      a 5-byte jump over whole instructions\n"
    "  padding  a jump that also uses alignment padding\n"
    "  island   a jump to a second jump, in padding nearby or at an address that the next instruction dictates\n"
    "  trap     a breakpoint instruction: only with --traps, and each hit costs microseconds\n"
    "  refused  not at all; the reason is shown\n"
    "\n"
    "SPEC is MODULE:FUNCTION, MODULE:FUNCTION+OFFSET, MODULE:0xADDRESS, MODULE:FUNCTION:return, or PID:MODULE:FUNCTION...;\n"
    "MODULE is a path, a program in PATH, or a short name such as libc; * ? [] work in MODULE and FUNCTION.\n"
    "\n"
    "  -j, --json   one JSON object a line: module, function, offset, address, point, kind, reason\n"
    "  -s, --summary  only the summary line\n"
    "      --traps  as with that option of count, trace and record; without it, what takes nothing but a trap is refused\n"
    "\n"
    "examples:\n"
    "  probity list libc:malloc\n"
    "  probity list 'libc:pthread_*' 'libc:pthread_*:return'\n"
    "  probity list --json /usr/bin/bash:'*' | jq -r .kind | sort | uniq -c\n";

struct listing {
    bool json, summary_only, traps;
    size_t count[LOAD_REFUSED + 1];
};

static void print_place(struct listing *listing, const struct load_code *code, const struct load_trace_point *point,
                        const struct load_place *place, const struct load_wish *wish)
{
    enum load_kind kind = wish ? wish->kind : LOAD_REFUSED;
    enum insn_reason reason = wish ? wish->reason : point->refusal;
    uint64_t va = place ? place->va : point->va;
    listing->count[kind]++;
    if (listing->summary_only)
        return;
    const char *module = symbol_file_path(code->file), *function = point->func ? point->func->demangled : "";
    const char *name = point->point == SPEC_ENTRY ? "entry" : point->point == SPEC_RETURN ? "return" : "instruction";
    int64_t offset = point->func ? (int64_t)(va - point->func->va) : 0;
    if (listing->json) {
        printf("{\"module\":");
        cmd_json_string(stdout, module);
        printf(",\"function\":");
        cmd_json_string(stdout, function);
        printf(",\"offset\":%lld,\"address\":%llu,\"point\":\"%s\",\"kind\":\"%s\"", (long long)offset, (unsigned long long)va, name,
               load_kind_name(kind));
        if (kind == LOAD_REFUSED)
            printf(",\"reason\":\"%s\",\"explanation\":\"%s\"", insn_reason_name(reason), insn_reason_text(reason));
        else
            printf(",\"reason\":null");
        puts("}");
        return;
    }
    printf("%-8s 0x%-8llx %-6s ", load_kind_name(kind), (unsigned long long)va, name);
    cmd_plain_string(stdout, module);
    putchar(':');
    cmd_plain_string(stdout, function);
    if (offset)
        printf("%s0x%llx", offset < 0 ? "-" : "+", (unsigned long long)llabs(offset));
    if (kind == LOAD_REFUSED)
        printf("  (%s)", insn_reason_text(reason));
    putchar('\n');
}

/* A place of the listing, to be planned together with the others of its function. */
struct planned {
    const struct load_place *place;
    uint32_t point;
    struct load_wish wish;
};

static int by_function(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;
    if (x->place->func_va != y->place->func_va)
        return x->place->func_va < y->place->func_va ? -1 : 1;
    return x->place->va < y->place->va ? -1 : x->place->va > y->place->va;
}

static int by_order(const void *a, const void *b)
{
    const struct planned *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

struct function_plan {
    struct load_flow flow;
    load_windows windows;
    VEC(struct load_wish) wish;
    size_t first;
};

static void plan_function(const struct load_code *code, struct load_claims *claims, struct planned *item, size_t count, size_t first,
                          bool no_trap, struct function_plan *plan)
{
    plan->first = first;
    load_flow_init(&plan->flow, code, item->place->func_va, item->place->func_size);
    for (size_t i = 0; i < count; i++)
        VEC_PUSH(&plan->wish, (struct load_wish){.va = item[i].place->va, .taken = item[i].place->taken, .no_trap = no_trap});
    load_windows_plan(code, &plan->flow, claims, plan->wish.at, plan->wish.n, &plan->windows);
    bool traps = false;
    for (size_t i = 0; i < plan->windows.n; i++)
        traps |= plan->windows.at[i].kind == LOAD_TRAP;
    if (!traps)
        load_flow_deinit(&plan->flow); /* no second look */
}

/* Plans all places of one file as if they were probed together, then prints them in order. */
static void list_file(struct listing *listing, const struct load_code *code, const struct load_resolved *resolved)
{
    struct load_claims claims;
    load_claims_init(&claims, code);
    VEC(struct planned) item = {0};
    for (uint32_t p = 0; p < resolved->point.n; p++)
        for (uint32_t i = 0; i < resolved->point.at[p].place_count; i++)
            VEC_PUSH(&item, (struct planned){.place = &resolved->place.at[resolved->point.at[p].first_place + i], .point = p});
    if (item.n)
        qsort(item.at, item.n, sizeof *item.at, by_function);
    VEC(struct function_plan) plans = {0};
    for (size_t i = 0, end; i < item.n; i = end) {
        for (end = i; end < item.n && item.at[end].place->func_va == item.at[i].place->func_va;)
            end++;
        VEC_PUSH(&plans, (struct function_plan){0});
        plan_function(code, &claims, &item.at[i], end - i, i, !listing->traps, &plans.at[plans.n - 1]);
    }
    for (size_t i = 0; i < plans.n; i++) {
        struct function_plan *plan = &plans.at[i];
        if (plan->flow.insn)
            load_windows_add_islands(code, &plan->flow, &claims, plan->wish.at, plan->wish.n, &plan->windows, load_far_without_process,
                                     (void *)code);
        for (size_t k = 0; k < plan->wish.n; k++)
            item.at[plan->first + k].wish = plan->wish.at[k];
        load_flow_deinit(&plan->flow);
        VEC_FREE(&plan->windows);
        VEC_FREE(&plan->wish);
    }
    VEC_FREE(&plans);
    if (item.n)
        qsort(item.at, item.n, sizeof *item.at, by_order);
    for (size_t p = 0, i = 0; p < resolved->point.n; p++) {
        if (!resolved->point.at[p].place_count)
            print_place(listing, code, &resolved->point.at[p], NULL, NULL);
        for (; i < item.n && item.at[i].point == p; i++)
            print_place(listing, code, &resolved->point.at[p], item.at[i].place, &item.at[i].wish);
    }
    VEC_FREE(&item);
    load_claims_deinit(&claims);
}

static struct err *no_match(const struct spec *spec, const struct symbol_file *file)
{
    char *near = file ? spec_near_names(spec, file) : NULL;
    struct err *error =
        near ? err_new(ERR_NO_MATCH, "%s: no such function in %s; near: %s", spec->text, symbol_file_path(file), near)
             : err_new(ERR_NO_MATCH, "%s: no such function%s%s", spec->text, file ? " in " : "", file ? symbol_file_path(file) : "");
    free(near);
    return error;
}

static bool is_glob(const struct spec *spec)
{
    return spec->module && strpbrk(spec->module, "*?[");
}

/* A file to list: what a process maps at `map`, or what is at the path. */
struct listed {
    char *path;
    struct target_map map; /* `inode` is 0 without a process */
};

static struct err *open_file(const struct spec *spec, const struct listed *listed, struct symbol_file **file)
{
    int fd;
    if (!listed->map.inode)
        return symbol_file_open(listed->path, file);
    ERR_TRY(target_peek_file(spec->pid, &listed->map, &fd));
    struct err *error = symbol_file_open_fd(fd, listed->path, file);
    close(fd);
    return error;
}

static struct err *list_one(struct listing *listing, const struct spec *spec, const struct listed *listed, bool *matched)
{
    struct symbol_file *file;
    struct err *error = open_file(spec, listed, &file);
    if (error && is_glob(spec) && error->code == ERR_FILE) {
        err_free(error);
        return NULL;
    }
    if (error)
        return error;
    struct load_code *code = load_code_create(file);
    struct load_resolved resolved = {0};
    load_resolve(code, spec, &resolved);
    *matched |= resolved.point.n > 0;
    if (!resolved.point.n && !is_glob(spec))
        error = no_match(spec, file);
    else
        list_file(listing, code, &resolved);
    load_resolved_deinit(&resolved);
    load_code_destroy(code);
    return error;
}

typedef VEC(struct listed) listed_files;

static struct err *add_mapped(const struct spec *spec, listed_files *out)
{
    struct target *target;
    ERR_TRY(target_open(spec->pid, &target));
    struct target_maps maps;
    struct err *error = target_maps_read(target, &maps);
    target_close(target);
    if (error)
        return error;
    for (size_t i = 0; i < maps.map.n; i++) {
        struct target_map map = maps.map.at[i];
        bool known = !map.executable || map.path[0] != '/' || !map.inode;
        for (size_t k = 0; k < out->n && !known; k++)
            known = out->at[k].map.inode == map.inode && out->at[k].map.device == map.device && !strcmp(out->at[k].path, map.path);
        if (known || (spec->module[0] && !spec_matches_module(spec, map.path)))
            continue;
        char *path = memory_text(map.path);
        map.path = path;
        VEC_PUSH(out, (struct listed){path, map});
    }
    target_maps_deinit(&maps);
    return out->n ? NULL : err_new(ERR_NO_MATCH, "%s: process %d maps no such file", spec->text, spec->pid);
}

/* The files that the specification means: in a process, those it maps. */
static struct err *find_files(const struct spec *spec, listed_files *out)
{
    char **paths = NULL;
    if (spec->pid)
        return add_mapped(spec, out);
    ERR_TRY(spec_find_files(spec, &paths));
    for (size_t i = 0; paths[i]; i++)
        VEC_PUSH(out, (struct listed){.path = paths[i]});
    free(paths);
    return NULL;
}

static struct err *list_spec(struct listing *listing, const char *text)
{
    struct spec spec;
    ERR_TRY(spec_parse(text, &spec));
    listed_files files = {0};
    bool matched = false;
    struct err *error = find_files(&spec, &files);
    for (size_t i = 0; i < files.n; i++) {
        struct err *one = error ? NULL : list_one(listing, &spec, &files.at[i], &matched);
        if (one && files.n > 1 && one->code == ERR_NO_MATCH)
            err_free(one);
        else if (one)
            error = one;
        free(files.at[i].path);
    }
    VEC_FREE(&files);
    if (!error && !matched)
        error = no_match(&spec, NULL);
    spec_deinit(&spec);
    return error;
}

static void print_summary(const struct listing *listing)
{
    size_t total = 0;
    for (int kind = 0; kind <= LOAD_REFUSED; kind++)
        total += listing->count[kind];
    fprintf(listing->json ? stderr : stdout, "%zu place%s", total, total == 1 ? "" : "s");
    for (int kind = 0; kind <= LOAD_REFUSED && total; kind++)
        fprintf(listing->json ? stderr : stdout, "%s %s %zu (%.2f%%)", kind ? "," : ":", load_kind_name(kind), listing->count[kind],
                100.0 * (double)listing->count[kind] / (double)total);
    fputc('\n', listing->json ? stderr : stdout);
}

int cmd_list(int argc, char **argv)
{
    static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                            {"summary", no_argument, NULL, 's'},
                                            {"traps", no_argument, NULL, 'T'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct listing listing = {0};
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "jsh", options, NULL)) != -1;) {
        if (option == 'h') {
            fputs(usage_text, stdout);
            return 0;
        }
        if (option == '?')
            return cmd_fail(err_new(ERR_USAGE, "list: %s: no such option; `probity list --help` has them all", argv[optind - 1]));
        listing.json |= option == 'j';
        listing.traps |= option == 'T';
        listing.summary_only |= option == 's';
    }
    if (optind == argc)
        return cmd_fail(err_new(ERR_USAGE, "list: which trace points? `probity list --help` has examples"));
    int code = 0;
    for (int i = optind; i < argc; i++) {
        struct err *error = list_spec(&listing, argv[i]);
        if (error)
            code = cmd_fail(error);
    }
    if (!code)
        print_summary(&listing);
    return code;
}
