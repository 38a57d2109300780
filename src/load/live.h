/* The live memory of a process (wire/shared.h): what it tells us, what it counts, and places with their quotas.
 *
 * The process can write all of it at any moment, whatever it may have promised. So nobody but live.c sees its struct: where things lie
 * is computed from numbers of ours and never read back, indices are checked there, values are copied before they are looked at, and no loop
 * goes on for as long as the process likes. What comes out may be any number; an address is a struct load_said until load_module_said() has
 * found it in a file that the process maps. */
#ifndef LOAD_LIVE_H
#define LOAD_LIVE_H

#include "base/err.h"
#include "wire/session.h"
#include "wire/shared.h"

#include <stdbool.h>

struct load_live;

/* Where the process has it; what firing code needs. */
struct load_live_places {
    uint64_t va, bytes;
    uint64_t counters_va, places_va, scratch_va;
    uint64_t block_bytes;
    uint32_t shard_mask;
};

struct err *load_live_create(const char *name, uint32_t counter_room, int width, struct load_live **out);
/* Accepts NULL. */
void load_live_destroy(struct load_live *live);
int load_live_fd(const struct load_live *live);
uint64_t load_live_bytes(const struct load_live *live);
/* As it is mapped at `va` in the process. */
struct load_live_places load_live_at(const struct load_live *live, uint64_t va);

/* Where the places are in the memory, and how much of it so many counters take. */
uint64_t load_live_places_offset(const struct load_live *live);
uint64_t load_live_counters_bytes(const struct load_live *live, uint32_t counters);

/* ---- counters and places: numbers under counter_room ---- */

uint64_t load_live_counter(const struct load_live *live, uint32_t counter);
/* Takes a hit back that will be counted again. */
void load_live_take_back(struct load_live *live, uint32_t counter);
void load_live_set_place(struct load_live *live, uint32_t place, const struct wire_place *meaning);
int32_t load_live_quota(const struct load_live *live, uint32_t place);
/* Returns what it was. */
int32_t load_live_set_quota(struct load_live *live, uint32_t place, int32_t quota);

/* ---- events ---- */

/* Whether something has happened that was not answered; *event is what to answer. */
bool load_live_event(const struct load_live *live, uint32_t *event);
void load_live_answer(struct load_live *live, uint32_t event);
/* Waits for so long (under a second) for another event than that one; the second ends such waits. */
void load_live_wait(const struct load_live *live, uint32_t event, uint64_t ns);
void load_live_wake(const struct load_live *live);
void load_live_beat(struct load_live *live);
/* From now on the agent waits for nothing. */
void load_live_release(struct load_live *live);

/* ---- signal handlers ---- */

struct load_said {
    uint64_t va;
};

/* A copy of an entry: those that are free or being written are not given out. */
struct load_handler {
    struct load_said handler, restorer; /* restorer 0: the kernel's own */
    bool is_info;
    enum wire_handler_state state; /* WIRE_HANDLER_WANTED or later */
};
bool load_live_handler(const struct load_live *live, int index, struct load_handler *out);
void load_live_want_handler(struct load_live *live, uint64_t va, uint64_t restorer_va, bool is_info);
/* FREE, TAKEN or KNOWN. */
void load_live_set_handler(struct load_live *live, int index, enum wire_handler_state state);

#endif
