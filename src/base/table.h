/* A hash table from names to pointers. Names are not copied and must outlive the table. */
#ifndef BASE_TABLE_H
#define BASE_TABLE_H

#include <stddef.h>

struct table_slot {
    const char *name; /* NULL: free */
    void *value;
};

/* All zero is a valid empty table. slots[0 .. room - 1] may be read to visit every entry, in no order. */
struct table {
    struct table_slot *slots;
    size_t n, room;
};

/* NULL when there is none. */
void *table_get(const struct table *table, const char *name);
/* Replaces what was there. */
void table_put(struct table *table, const char *name, void *value);
void table_deinit(struct table *table);

#endif
