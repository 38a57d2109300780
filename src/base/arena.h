/* An arena: memory that is given back all at once. For trees, whose nodes live and die together. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

/* All zero is a valid empty arena. */
struct arena {
    struct arena_block *blocks; /* newest first; each owns its memory */
    size_t left;                /* bytes free at the end of the newest block */
};

/* Zeroed, aligned to 16. Never fails (see base/memory.h). */
void *arena_alloc(struct arena *arena, size_t bytes);
/* A NUL-terminated copy of `length` bytes. */
char *arena_text(struct arena *arena, const char *text, size_t length);
char *arena_format(struct arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Frees everything; the arena is empty and can be used again. */
void arena_deinit(struct arena *arena);

#endif
