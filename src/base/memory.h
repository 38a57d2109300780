/* Memory for the host: allocation that can not fail quietly, and growable arrays. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stddef.h>

/* These end the program with a message when memory runs out: a tracer that has patched a process leaves it consistent at every
 * moment, so ending is always safe. Zero bytes give a valid pointer. */
void *memory_alloc(size_t bytes);
void *memory_zero(size_t count, size_t bytes);
void *memory_resize(void *old, size_t count, size_t bytes);
char *memory_text(const char *text);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A growable array: `VEC(struct thing) things = {0};`, elements at things.at[0 .. things.n - 1]. */
#define VEC(type)                                                                                                                          \
    struct {                                                                                                                               \
        type *at;                                                                                                                          \
        size_t n, room;                                                                                                                    \
    }

#define VEC_PUSH(vec, ...)                                                                                                                 \
    do {                                                                                                                                   \
        if ((vec)->n == (vec)->room)                                                                                                       \
            (vec)->at = memory_grow((vec)->at, &(vec)->room, sizeof *(vec)->at);                                                           \
        (vec)->at[(vec)->n++] = (__VA_ARGS__);                                                                                             \
    } while (0)

#define VEC_FREE(vec)                                                                                                                      \
    do {                                                                                                                                   \
        free((vec)->at);                                                                                                                   \
        (vec)->at = NULL;                                                                                                                  \
        (vec)->n = (vec)->room = 0;                                                                                                        \
    } while (0)

/* For VEC_PUSH(): returns the array with more room and updates *room. */
void *memory_grow(void *old, size_t *room, size_t bytes);

#endif
