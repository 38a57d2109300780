#include "report/export.h"
#include "report/order.h"

#include "base/escape.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A name without what means something in this format: a semicolon and a newline. The caller frees it. */
static char *fit_name(const char *name)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return memory_text("");
    escape_plain(out, name);
    fclose(out);
    for (char *at = text; (at = strchr(at, ';'));)
        *at = ':';
    return text;
}

struct folding {
    const struct tree_set *set;
    VEC(char *) name; /* by routine; NULL until it is needed */
    VEC(char) path;   /* of the node that is looked at */
    VEC(size_t) end;  /* by level: where the path of that node ends */
};

static const char *name_of(struct folding *folding, uint32_t routine)
{
    while (folding->name.n <= routine)
        VEC_PUSH(&folding->name, NULL);
    if (!folding->name.at[routine])
        folding->name.at[routine] = fit_name(tree_routine(folding->set, routine));
    return folding->name.at[routine];
}

/* The path up to this node is that of its parent, which came before it, and its name. */
static void set_path(struct folding *folding, const struct tree_node *node, bool is_root_named)
{
    size_t parent_end = node->level ? folding->end.at[node->level - 1] : 0;
    folding->path.n = parent_end;
    folding->end.n = node->level;
    if (node->level || is_root_named) {
        if (parent_end)
            VEC_PUSH(&folding->path, ';');
        for (const char *at = name_of(folding, node->routine); *at; at++)
            VEC_PUSH(&folding->path, *at);
    }
    VEC_PUSH(&folding->end, folding->path.n);
}

static void fold_tree(struct folding *folding, struct profile *profile, const struct tree *tree, bool is_root_named, FILE *out)
{
    struct order order = {
        .set = profile->set, .tree = tree, .which = profile->what == TREE_EVENTS ? ORDER_EVENTS : ORDER_SAMPLES, .metric = profile->metric};
    order_init(&order);
    order_nodes nodes = {0};
    order_walk(&order, &nodes);
    size_t count;
    const struct tree_node *node = tree_nodes(tree, &count);
    struct export_depth depth = {0};
    for (size_t i = 0; i < nodes.n; i++)
        export_depth_count(&depth, node[nodes.at[i]].level);
    size_t most = export_depth_most(&depth, profile);
    for (size_t i = 0; i < nodes.n; i++) {
        uint32_t at = nodes.at[i];
        set_path(folding, &node[at], is_root_named);
        int64_t value = export_value(profile, tree, at);
        profile->left_out += value < 0;
        if (value <= 0)
            continue;
        size_t from = node[at].level > most ? folding->end.at[node[at].level - most] : 0;
        if (from)
            fputs(EXPORT_CUT, out);
        if (folding->path.n)
            fwrite(folding->path.at + from, 1, folding->path.n - from, out);
        else
            fputs(EXPORT_OUTSIDE, out);
        fprintf(out, " %" PRId64 "\n", value);
    }
    VEC_FREE(&nodes);
    order_deinit(&order);
}

struct err *export_folded(struct profile *profile, const struct report_options *options, FILE *out)
{
    struct folding folding = {.set = profile->set};
    bool is_each = options->threads == REPORT_THREADS_EACH;
    for (size_t i = 0; is_each && i < profile->thread.n; i++)
        fold_tree(&folding, profile, profile->thread.at[i].tree, true, out);
    if (!is_each && profile->thread.n)
        fold_tree(&folding, profile, profile_sum(profile), false, out);
    for (size_t i = 0; i < folding.name.n; i++)
        free(folding.name.at[i]);
    VEC_FREE(&folding.name);
    VEC_FREE(&folding.path);
    VEC_FREE(&folding.end);
    return NULL;
}
