#include "report/browse.h"

#include <stdlib.h>
#include <string.h>

static size_t position_of(const order_nodes *nodes, uint32_t node)
{
    for (size_t i = 0; i < nodes->n; i++)
        if (nodes->at[i] == node)
            return i;
    return 0;
}

void browse_search(struct browse *browse, bool is_backward)
{
    if (!browse->sought) {
        browse_say(browse, "nothing was searched for yet: press /");
        return;
    }
    size_t count;
    const struct tree_node *all = tree_nodes(browse_tree(browse), &count);
    order_nodes nodes = {0};
    order_walk(&browse->order, &nodes);
    size_t start = position_of(&nodes, browse_selected_node(browse));
    for (size_t step = 1; step <= nodes.n; step++) {
        size_t at = (is_backward ? start + nodes.n - step : start + step) % nodes.n;
        if (!strcasestr(tree_routine(browse->profile->set, all[nodes.at[at]].routine), browse->sought))
            continue;
        bool is_wrapped = is_backward ? at >= start : at <= start;
        browse_reveal(browse, nodes.at[at]);
        if (is_wrapped)
            browse_say(browse, "went on from the %s", is_backward ? "end" : "start");
        VEC_FREE(&nodes);
        return;
    }
    browse_say(browse, "no name has %s in it", browse->sought);
    VEC_FREE(&nodes);
}

void browse_find_routine(struct browse *browse, uint32_t routine)
{
    size_t count;
    const struct tree_node *all = tree_nodes(browse_tree(browse), &count);
    order_nodes nodes = {0};
    order_walk(&browse->order, &nodes);
    for (size_t i = 0; i < nodes.n; i++)
        if (all[nodes.at[i]].routine == routine) {
            browse_reveal(browse, nodes.at[i]);
            break;
        }
    VEC_FREE(&nodes);
}
