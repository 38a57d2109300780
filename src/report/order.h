/* Which nodes of a tree are looked at, and in which order. */
#ifndef REPORT_ORDER_H
#define REPORT_ORDER_H

#include "report/report.h"

enum order_which {
    ORDER_EVENTS,  /* what was called */
    ORDER_SAMPLES, /* what samples saw, event nodes among it */
    ORDER_ALL,
};

struct order {
    const struct tree_set *set;
    const struct tree *tree;
    enum order_which which;
    enum report_sort sort; /* of siblings; DEFAULT is that of appearance */
    unsigned metric;
    double
        min_share; /* of the root's turnover (cum, with what is given back counted as what is taken), in the account that the node is in */
    /* By number of the node: samples of the metric in it and below; whether any was taken there, or passed. Made by order_init(). */
    uint64_t *samples;
    bool *is_seen;
    uint64_t *turnover[2]; /* by enum tree_what; NULL: no share is asked for */
    double least[2];       /* turnover below which a node is left out, likewise */
};

typedef VEC(uint32_t) order_nodes;

void order_init(struct order *order); /* with the members above `samples` set */
void order_deinit(struct order *order);

/* The account that a node's numbers are in. */
enum tree_what order_what(const struct order *order, uint32_t node);
/* Whether it is looked at, its share apart. */
bool order_has(const struct order *order, uint32_t node);
/* Whether its share is too small. */
bool order_is_small(const struct order *order, uint32_t node);
/* Children that are looked at and not too small, sorted, are appended. Returns how many. */
size_t order_children(const struct order *order, uint32_t node, order_nodes *out);
/* The whole tree, each node before its children. Returns how many nodes were too small, those below included. */
uint64_t order_walk(const struct order *order, order_nodes *out);

#endif
