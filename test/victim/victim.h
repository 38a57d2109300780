/* Shared by the victims: programs that tests trace. A victim checks its own results, prints on stdout what is the same on every run with
 * the same arguments, prints counts that vary (calls made by signal handlers) on stderr as `name count`, and exits 0 only if all was right.
 */
#ifndef VICTIM_H
#define VICTIM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A function worth probing: never inlined, cloned or known to its callers. */
#define TRACED __attribute__((noipa))

#define CHECK(condition)                                                                                                                   \
    do {                                                                                                                                   \
        if (!(condition)) {                                                                                                                \
            fprintf(stderr, "%s:%d: check failed: %s\n", __FILE__, __LINE__, #condition);                                                  \
            _Exit(1);                                                                                                                      \
        }                                                                                                                                  \
    } while (0)

static inline uint32_t mix(uint32_t a, uint32_t b)
{
    a ^= b + 0x9e3779b9u + (a << 6) + (a >> 2);
    return a * 2654435761u;
}

/* Prints `ready` and waits for a line (or the end) of stdin. */
static inline void victim_wait(void)
{
    int c;
    puts("ready");
    fflush(stdout);
    while ((c = getchar()) != '\n' && c != EOF)
        ;
}

/* The number after option `name`, or `otherwise`. */
static inline long victim_option(int argc, char **argv, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return atol(argv[i + 1]);
    return otherwise;
}

static inline int victim_flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return 1;
    return 0;
}

#endif
