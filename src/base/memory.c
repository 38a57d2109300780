#include "base/memory.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void out_of_memory(void)
{
    fputs("probity: out of memory\n", stderr);
    exit(1);
}

void *memory_alloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        out_of_memory();
    return memory;
}

void *memory_zero(size_t count, size_t bytes)
{
    void *memory = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!memory)
        out_of_memory();
    return memory;
}

void *memory_resize(void *old, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        out_of_memory();
    void *memory = realloc(old, total ? total : 1);
    if (!memory)
        out_of_memory();
    return memory;
}

char *memory_text(const char *text)
{
    size_t bytes = strlen(text) + 1;
    return memcpy(memory_alloc(bytes), text, bytes);
}

char *memory_format(const char *format, ...)
{
    char *text;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    if (length < 0)
        out_of_memory();
    return text;
}

void *memory_grow(void *old, size_t *room, size_t bytes)
{
    size_t more = *room ? *room * 2 : 16;
    void *memory = memory_resize(old, more, bytes);
    *room = more;
    return memory;
}
