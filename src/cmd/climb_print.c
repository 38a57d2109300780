#include "cmd/climb_print.h"

#include "cmd/cmd.h"

#include <stdlib.h>
#include <string.h>

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* In 7 columns. */
static void print_time(FILE *out, double ns)
{
    if (ns < 1e3)
        fprintf(out, " %4.0fns", ns);
    else if (ns < 1e6)
        fprintf(out, " %4.*fus", ns < 1e4 ? 2 : ns < 1e5 ? 1 : 0, ns / 1e3);
    else if (ns < 1e9)
        fprintf(out, " %4.*fms", ns < 1e7 ? 2 : ns < 1e8 ? 1 : 0, ns / 1e6);
    else
        fprintf(out, " %5.*fs", ns < 1e10 ? 2 : 1, ns / 1e9);
}

static const char *note_of(const struct climb_function *function, const struct climb_link *link)
{
    if (link->end == CLIMB_RECURSION)
        return "  [recursion: its callers are below already]";
    if (function->state == CLIMB_STILL)
        return "  [not entered while it was watched]";
    if (function->exits_missing)
        return "  [some exits can not be hooked]";
    return "";
}

static double cpu_share(const struct climb_function *function)
{
    return function->wall_ns ? (double)function->cpu_ns / (double)function->wall_ns : 0;
}

/* ---- text ---- */

static void print_link(FILE *out, const struct climb *climb, const struct climb_link *link, bool is_again)
{
    const struct climb_function *function = climb_function(climb, link->function);
    fprintf(out, "%6.1f%% %9llu", 100 * link->share, (unsigned long long)function->calls);
    if (function->ended) {
        print_time(out, (double)function->wall_min_ns);
        print_time(out, (double)function->wall_ns / (double)function->ended);
        print_time(out, (double)climb_wall_quantile(function, 0.5));
        print_time(out, (double)climb_wall_quantile(function, 0.99));
        print_time(out, (double)function->wall_max_ns);
    } else {
        fprintf(out, "%35s", "");
    }
    if (function->ended)
        fprintf(out, " %5.1f%%  ", 100 * cpu_share(function));
    else
        fprintf(out, "%9s", "");
    for (uint32_t i = 0; i < link->level; i++)
        fputs("- ", out);
    cmd_plain_string(out, function->name);
    fputs("  ", out);
    cmd_plain_string(out, base_name(function->module));
    if (is_again)
        fputs("  [callers as before]", out);
    else if (function->state == CLIMB_CANNOT && function->reason)
        fprintf(out, "  [not measured: %s]", function->reason);
    else
        fputs(note_of(function, link), out);
    fputc('\n', out);
}

/* Links come level by level; people read a caller with what is above it, the heaviest first. What is above a function is the same wherever
 * it is on the way up, so it is printed once. */
static void print_above(FILE *out, const struct climb *climb, climb_links *links, uint32_t at, climb_numbers *printed)
{
    bool is_again = false, any = false;
    for (uint32_t i = at + 1; i < links->n; i++)
        any |= links->at[i].parent == at;
    for (size_t i = 0; i < printed->n; i++)
        is_again |= printed->at[i] == links->at[at].function;
    print_link(out, climb, &links->at[at], is_again && any);
    if (is_again)
        return;
    VEC_PUSH(printed, links->at[at].function);
    for (double last = 2; any;) {
        uint32_t next = CLIMB_NONE;
        for (uint32_t i = at + 1; i < links->n; i++)
            if (links->at[i].parent == at && links->at[i].share < last &&
                (next == CLIMB_NONE || links->at[i].share > links->at[next].share))
                next = i;
        if (next == CLIMB_NONE)
            return;
        last = links->at[next].share;
        for (uint32_t i = at + 1; i < links->n; i++)
            if (links->at[i].parent == at && links->at[i].share == last)
                print_above(out, climb, links, i, printed);
    }
}

static void print_totals(FILE *out, const struct climb *climb)
{
    struct climb_totals totals;
    climb_totals(climb, &totals);
    fprintf(out,
            "%llu samples in %.1f s; functions hooked: %u times, at most %u at a time; hooks were executed %llu times; the process stood "
            "still for %.1f ms in all\n",
            (unsigned long long)totals.samples, (double)totals.elapsed_ns / 1e9, totals.hooked, totals.hooks_most,
            (unsigned long long)totals.hits, (double)totals.stopped_ns / 1e6);
    if (climb_counts_executions(climb))
        fprintf(
            out,
            "calls were counted of %u functions, %u can not be counted: %u rounds, %.1f ms in all, with at most %u counting probes at a "
            "time, which were executed %llu times\n",
            totals.counted, totals.uncounted, totals.rounds, (double)totals.counting_ns / 1e6, totals.counting_most,
            (unsigned long long)totals.executions);
    if (totals.samples_lost)
        fprintf(out, "%llu samples were lost\n", (unsigned long long)totals.samples_lost);
}

void cmd_climb_text(FILE *out, const struct climb *climb, double least)
{
    climb_numbers hot = {0};
    struct climb_totals totals;
    climb_totals(climb, &totals);
    bool is_valued = climb_metric(climb) == CLIMB_VALUE;
    climb_hot_spots(climb, &hot);
    for (size_t i = 0; i < hot.n; i++) {
        const struct climb_function *function = climb_function(climb, hot.at[i]);
        climb_links links = {0};
        climb_chains(climb, hot.at[i], least, &links);
        fprintf(out, "hot spot %zu: ", i + 1);
        cmd_plain_string(out, function->name);
        fputs("  ", out);
        cmd_plain_string(out, base_name(function->module));
        if (is_valued)
            fprintf(out, "  %llu in %llu calls that were seen\n", (unsigned long long)totals.value, (unsigned long long)function->calls);
        else
            fprintf(out, "  %.1f%% of the %s\n", 100 * climb_hot_share(climb, function),
                    climb_counts_executions(climb) ? "calls" : "samples");
        fprintf(out, "%7s %9s %6s %6s %6s %6s %6s %6s  %s\n", "share", "calls", "min", "avg", "p50", "p99", "max", "cpu", "function");
        climb_numbers printed = {0};
        print_above(out, climb, &links, 0, &printed);
        VEC_FREE(&printed);
        fputc('\n', out);
        VEC_FREE(&links);
    }
    VEC_FREE(&hot);
    print_totals(out, climb);
}

void cmd_climb_status(FILE *out, const struct climb *climb)
{
    struct climb_totals totals;
    climb_numbers hot = {0};
    climb_totals(climb, &totals);
    climb_hot_now(climb, &hot);
    fprintf(out, "%6.1f s  %llu samples  %u hooked now  %llu hits  ", (double)totals.elapsed_ns / 1e9, (unsigned long long)totals.samples,
            totals.hooks_now, (unsigned long long)totals.hits);
    if (climb_counts_executions(climb))
        fprintf(out, "%u counted now  %llu counted  ", totals.counting_now, (unsigned long long)totals.executions);
    fputs("hot:", out);
    for (size_t i = 0; i < hot.n && i < 4; i++) {
        fputc(' ', out);
        cmd_plain_string(out, climb_function(climb, hot.at[i])->name);
    }
    fputc('\n', out);
    VEC_FREE(&hot);
}

/* ---- the view for terminals ---- */

/* A line that is cut at the screen's edge. */
static void screen_line(FILE *out, unsigned columns, char *text)
{
    if (strlen(text) > columns)
        text[columns] = 0;
    cmd_plain_string(out, text);
    fputs("\033[K\n", out);
    free(text);
}

static void screen_hot_spot(FILE *out, const struct climb *climb, uint32_t hot, double share, unsigned columns)
{
    climb_links links = {0};
    climb_chains(climb, hot, 0.02, &links);
    uint32_t top = 0, highest = 0;
    for (uint32_t i = 0; i < links.n; i++) {
        highest = links.at[i].level > highest ? links.at[i].level : highest;
        if (links.at[i].parent == top)
            top = i; /* the heaviest comes first often enough */
    }
    bool at_root = links.n && links.at[top].end == CLIMB_ROOT;
    screen_line(out, columns,
                memory_format("%5.1f%%  %-32s  %3u up  %s %s", 100 * share, climb_function(climb, hot)->name, highest,
                              at_root ? "at the root:" : "now at", climb_function(climb, links.at[top].function)->name));
    VEC_FREE(&links);
}

void cmd_climb_screen(FILE *out, const struct climb *climb, unsigned lines, unsigned columns)
{
    struct climb_totals totals;
    climb_numbers hot = {0};
    double heat = 0;
    climb_totals(climb, &totals);
    climb_hot_now(climb, &hot);
    for (uint32_t i = 0; i < climb_function_count(climb); i++)
        heat += climb_function(climb, i)->heat;
    fputs("\033[H", out);
    screen_line(out, columns,
                memory_format("probity climb  process %d  %.1f s  %llu samples  %llu hits  %.2f%% of the cpu in hooks", climb_pid(climb),
                              (double)totals.elapsed_ns / 1e9, (unsigned long long)totals.samples, (unsigned long long)totals.hits,
                              totals.sampled_ns ? 100 * (double)totals.hook_ns / (double)(totals.hook_ns + totals.sampled_ns) : 0));
    screen_line(out, columns, memory_text("hot now"));
    unsigned used = 2;
    for (size_t i = 0; i < hot.n && used + 4 < lines; i++, used++)
        screen_hot_spot(out, climb, hot.at[i], heat > 0 ? climb_function(climb, hot.at[i])->heat / heat : 0, columns);
    screen_line(out, columns,
                memory_format(climb_counts_executions(climb) ? "hooked now: %u functions; counted now: %u" : "hooked now: %u functions",
                              totals.hooks_now, totals.counting_now));
    used++;
    for (uint32_t i = 0; i < climb_function_count(climb) && used + 1 < lines; i++)
        if (climb_function(climb, i)->state == CLIMB_HOOKED) {
            screen_line(
                out, columns,
                memory_format("    %-40s %llu calls", climb_function(climb, i)->name, (unsigned long long)climb_function(climb, i)->calls));
            used++;
        }
    fputs("\033[J", out);
    fflush(out);
    VEC_FREE(&hot);
}

/* ---- JSON ---- */

static void json_function(FILE *out, const struct climb *climb, uint32_t number)
{
    static const char *const state[] = {"unseen", "hooked", "resting", "known", "still", "cannot"};
    const struct climb_function *function = climb_function(climb, number);
    fputs("{\"function\":", out);
    cmd_json_string(out, function->name);
    fputs(",\"module\":", out);
    cmd_json_string(out, function->module);
    fprintf(out, ",\"address\":\"0x%llx\",\"state\":\"%s\",\"samples\":%llu,\"calls\":%llu", (unsigned long long)function->va,
            state[function->state], (unsigned long long)function->samples, (unsigned long long)function->calls);
    if (climb_counts_executions(climb))
        fprintf(out, ",\"executions\":%llu", (unsigned long long)climb_executions(climb, function));
    if (function->reason) {
        fputs(",\"reason\":", out);
        cmd_json_string(out, function->reason);
    }
    if (function->ended)
        fprintf(out, ",\"wall_ns\":{\"calls\":%llu,\"min\":%llu,\"avg\":%.1f,\"p50\":%llu,\"p99\":%llu,\"max\":%llu},\"cpu\":%.4f",
                (unsigned long long)function->ended, (unsigned long long)function->wall_min_ns,
                (double)function->wall_ns / (double)function->ended, (unsigned long long)climb_wall_quantile(function, 0.5),
                (unsigned long long)climb_wall_quantile(function, 0.99), (unsigned long long)function->wall_max_ns, cpu_share(function));
    fputs(",\"callers\":[", out);
    for (size_t i = 0; i < function->caller.n; i++) {
        const struct climb_caller *caller = &function->caller.at[i];
        fprintf(out, "%s{\"function\":", i ? "," : "");
        if (caller->function == CLIMB_NONE)
            fputs("null", out);
        else
            cmd_json_string(out, climb_function(climb, caller->function)->name);
        fprintf(out, ",\"calls\":%llu,\"wall_ns\":%llu,\"cpu_ns\":%llu,\"stacks\":%llu}", (unsigned long long)caller->calls,
                (unsigned long long)caller->wall_ns, (unsigned long long)caller->cpu_ns, (unsigned long long)caller->stacks);
    }
    fputs("]}", out);
}

static void json_chains(FILE *out, const struct climb *climb, uint32_t hot, double least)
{
    static const char *const end[] = {"open", "root", "recursion", ""};
    climb_links links = {0};
    climb_chains(climb, hot, least, &links);
    fputs("{\"function\":", out);
    cmd_json_string(out, climb_function(climb, hot)->name);
    fprintf(out, ",\"share\":%.4f,\"links\":[", climb_hot_share(climb, climb_function(climb, hot)));
    for (size_t i = 0; i < links.n; i++) {
        const struct climb_link *link = &links.at[i];
        fprintf(out, "%s{\"function\":", i ? "," : "");
        cmd_json_string(out, climb_function(climb, link->function)->name);
        fprintf(out, ",\"below\":%d,\"level\":%u,\"share\":%.4f", link->parent == CLIMB_NONE ? -1 : (int)link->parent, link->level,
                link->share);
        if (end[link->end][0])
            fprintf(out, ",\"end\":\"%s\"", end[link->end]);
        fputc('}', out);
    }
    fputs("]}", out);
    VEC_FREE(&links);
}

static void json_counting(FILE *out, const struct climb_totals *totals)
{
    fprintf(out, "\"counting\":{\"functions\":%u,\"refused\":%u,\"rounds\":%u,\"ns\":%llu,\"most\":%u,\"now\":%u,\"executions\":%llu},",
            totals->counted, totals->uncounted, totals->rounds, (unsigned long long)totals->counting_ns, totals->counting_most,
            totals->counting_now, (unsigned long long)totals->executions);
}

void cmd_climb_json(FILE *out, const struct climb *climb, double least)
{
    struct climb_totals totals;
    climb_numbers hot = {0};
    climb_totals(climb, &totals);
    climb_hot_spots(climb, &hot);
    fprintf(out,
            "{\"pid\":%d,\"elapsed_ns\":%llu,\"samples\":%llu,\"samples_lost\":%llu,\"hits\":%llu,\"hits_lost\":%llu,\"hooked\":%u,"
            "\"hooks_most\":%u,\"hooks_now\":%u,\"stopped_ns\":%llu,\"hook_ns\":%llu,",
            climb_pid(climb), (unsigned long long)totals.elapsed_ns, (unsigned long long)totals.samples,
            (unsigned long long)totals.samples_lost, (unsigned long long)totals.hits, (unsigned long long)totals.hits_lost, totals.hooked,
            totals.hooks_most, totals.hooks_now, (unsigned long long)totals.stopped_ns, (unsigned long long)totals.hook_ns);
    if (climb_counts_executions(climb))
        json_counting(out, &totals);
    fputs("\"hot_spots\":[", out);
    for (size_t i = 0; i < hot.n; i++) {
        fputs(i ? "," : "", out);
        json_chains(out, climb, hot.at[i], least);
    }
    fputs("],\"functions\":[", out);
    bool any = false;
    for (uint32_t i = 0; i < climb_function_count(climb); i++)
        if (climb_function(climb, i)->caller.n || climb_function(climb, i)->samples || climb_function(climb, i)->rate > 0) {
            fputs(any ? "," : "", out);
            json_function(out, climb, i);
            any = true;
        }
    fputs("]}\n", out);
    VEC_FREE(&hot);
}
