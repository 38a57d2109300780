#include "base/table.h"
#include "base/memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static size_t hash(const char *name) /* FNV-1a */
{
    uint64_t value = 0xcbf29ce484222325;
    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * 0x100000001b3;
    return (size_t)(value ^ value >> 29);
}

static struct table_slot *slot_of(const struct table *table, const char *name)
{
    size_t i = hash(name) & (table->room - 1);
    while (table->slots[i].name && strcmp(table->slots[i].name, name) != 0)
        i = (i + 1) & (table->room - 1);
    return &table->slots[i];
}

void *table_get(const struct table *table, const char *name)
{
    return table->room ? slot_of(table, name)->value : NULL;
}

static void grow(struct table *table)
{
    struct table bigger = {.room = table->room ? table->room * 2 : 64, .n = table->n};
    bigger.slots = memory_zero(bigger.room, sizeof *bigger.slots);
    for (size_t i = 0; i < table->room; i++)
        if (table->slots[i].name)
            *slot_of(&bigger, table->slots[i].name) = table->slots[i];
    free(table->slots);
    *table = bigger;
}

void table_put(struct table *table, const char *name, void *value)
{
    if (table->n * 2 >= table->room)
        grow(table);
    struct table_slot *slot = slot_of(table, name);
    if (!slot->name) {
        slot->name = name;
        table->n++;
    }
    slot->value = value;
}

void table_deinit(struct table *table)
{
    free(table->slots);
    *table = (struct table){0};
}
