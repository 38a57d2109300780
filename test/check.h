/* Checks of a unit test, which goes on after one that fails: included once by each program. */
#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include <stdio.h>

static unsigned long checks;
static int failures;

/* CHECK(CONDITION, FORMAT, ...): says where and what when it does not hold; of many failures the first ones only. Threads may. */
#define CHECK(condition, ...)                                                                                                              \
    do {                                                                                                                                   \
        __atomic_add_fetch(&checks, 1, __ATOMIC_RELAXED);                                                                                  \
        if (!(condition) && __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 20) {                                                    \
            printf("%s:%d: %s: ", __FILE__, __LINE__, #condition);                                                                         \
            printf(__VA_ARGS__);                                                                                                           \
            puts("");                                                                                                                      \
        }                                                                                                                                  \
    } while (0)

#endif
