#include "base/arena.h"
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 32 * 1024, ALIGNMENT = 16 };

struct arena_block {
    struct arena_block *next;
    size_t bytes; /* of data */
    _Alignas(ALIGNMENT) char data[];
};

void *arena_alloc(struct arena *arena, size_t bytes)
{
    bytes = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (bytes > arena->left || !arena->blocks) {
        size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        struct arena_block *block = memory_zero(1, sizeof *block + room);
        block->bytes = room;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->left = room;
    }
    void *memory = arena->blocks->data + (arena->blocks->bytes - arena->left);
    arena->left -= bytes;
    return memory;
}

char *arena_text(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

char *arena_format(struct arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(arena, length < 0 ? 1 : (size_t)length + 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_deinit(struct arena *arena)
{
    while (arena->blocks) {
        struct arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
    arena->left = 0;
}
