/* The rows of a session by name: see load/session.h. */
#ifndef LOAD_ROWS_H
#define LOAD_ROWS_H

#include "load/session.h"

/* All zero is an empty list. */
struct load_rows {
    struct load_row *at;
    size_t n, room;
    VEC(uint32_t) bucket; /* hash table of row number + 1 */
};

/* The number of the row, which is new if there is none yet. `va` 0: functions of equal names share a row. */
uint32_t load_rows_number(struct load_rows *rows, const char *module, const char *function, const char *point, uint64_t va);
void load_rows_deinit(struct load_rows *rows);

#endif
