/* Records that are taken out of the rings before their turn, because somebody waits for room who can not wait until everything before has
 * been printed: a thread that is to leave a clause so that its process can be changed or left, or a clause that the controller itself runs.
 */
#include "live/run.h"

#include <stdlib.h>

enum { HELD_MOST_BYTES = 256 << 20 };

static void hold(void *context, const struct drain_record *record)
{
    struct live_run *run = context;
    struct drain_record copy = *record;
    const uint64_t *word = record->payload;
    copy.payload = (const void *)run->held_word.n; /* the words may still move */
    for (uint32_t i = 0; i < record->payload_bytes / 8; i++)
        VEC_PUSH(&run->held_word, word[i]);
    VEC_PUSH(&run->held, copy);
}

bool live_empty_rings(void *context)
{
    struct live_run *run = context;
    size_t bytes = run->held.n * sizeof *run->held.at + run->held_word.n * sizeof *run->held_word.at;
    return bytes < HELD_MOST_BYTES && drain_records(&run->memory, run->script->built.stream, false, hold, run);
}

size_t live_take_held(struct live_run *run)
{
    typeof(run->held) record = run->held;
    typeof(run->held_word) word = run->held_word;
    size_t count = record.n;
    run->held = (typeof(run->held)){0};
    run->held_word = (typeof(run->held_word)){0};
    for (size_t i = 0; i < count; i++) {
        record.at[i].payload = word.at + (size_t)record.at[i].payload;
        live_take_record(run, &record.at[i]);
    }
    VEC_FREE(&record);
    VEC_FREE(&word);
    return count;
}
