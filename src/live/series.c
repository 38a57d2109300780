/* Time series: slots → points, the last interval and those before it. */
#include "live/run.h"

#include "stream/map.h"

#include <stdlib.h>

static uint64_t last_interval(const struct wire_map_type *type, const struct wire_slot *slot)
{
    uint64_t last = 0;
    for (int64_t i = 0; i < type->param[1]; i++)
        if (slot[i].interval < WIRE_SLOT_BUSY && slot[i].interval > last)
            last = slot[i].interval;
    return last;
}

static struct print_point *make_points(const struct live_run *run, const struct wire_map_type *type, const struct wire_slot *slot)
{
    uint64_t n = (uint64_t)type->param[1], last = last_interval(type, slot);
    struct print_point *points = memory_zero(n, sizeof *points);
    for (uint64_t i = 0; i < n && last + i >= n; i++) {
        uint64_t interval = last + i - n; /* from 0 on */
        const struct wire_slot *one = &slot[interval % n];
        points[i].wall_ns = interval * (uint64_t)type->param[0] + (uint64_t)run->print.session_to_wall_ns;
        points[i].is_known = one->interval == interval + 1 && one->count;
        points[i].value = points[i].is_known ? stream_slot_value(type, one) : 0;
    }
    return points;
}

void live_print_series(struct live_run *run, uint32_t map, const struct drain_contents *contents)
{
    struct print_series *series = memory_zero(contents->entry.n + 1, sizeof *series);
    struct print_point **points = memory_zero(contents->entry.n + 1, sizeof *points);
    for (size_t i = 0; i < contents->entry.n; i++) {
        points[i] = make_points(run, contents->type, (const struct wire_slot *)contents->entry.at[i].word);
        series[i] = (struct print_series){.key = contents->type->key_bytes ? contents->entry.at[i].key : NULL,
                                          .key_bytes = contents->type->key_bytes,
                                          .points = points[i],
                                          .n = (size_t)contents->type->param[1]};
    }
    print_tseries(&run->print, script_map_at(run->script->program, map), series, contents->entry.n);
    for (size_t i = 0; i < contents->entry.n; i++)
        free(points[i]);
    free(points);
    free(series);
}
