/* C++ exceptions through several frames: caught, rethrown, nested, in threads, with destructors on the way, and thread cancellation that
 * unwinds through C++ frames. */
#include "victim.h"

#include <pthread.h>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace
{
thread_local uint64_t destroyed;

struct guard {
    uint32_t value;
    ~guard()
    {
        destroyed += value;
    }
};
} // namespace

extern "C" {
TRACED uint32_t throw_deep(uint32_t depth, uint32_t kind)
{
    guard g{depth};
    if (depth == 0) {
        if (kind % 3 == 0)
            throw std::runtime_error("deep " + std::to_string(kind));
        if (kind % 3 == 1)
            throw kind;
        return kind;
    }
    return throw_deep(depth - 1, kind) + g.value;
}

TRACED uint32_t catch_some(uint32_t kind)
{
    try {
        return throw_deep(5, kind);
    } catch (uint32_t value) {
        return value * 3;
    }
}

TRACED uint32_t rethrow(uint32_t kind)
{
    try {
        return catch_some(kind);
    } catch (const std::exception &e) {
        guard g{1000};
        try {
            throw_deep(2, 1);
        } catch (uint32_t inner) {
            g.value += inner;
        }
        throw;
    }
}

TRACED uint32_t catch_all(uint32_t kind)
{
    try {
        return rethrow(kind);
    } catch (const std::runtime_error &e) {
        return (uint32_t)strlen(e.what());
    }
}

TRACED void wait_forever(void)
{
    guard g{7};
    pause();
}
}

static long calls;

static void *run(void *argument)
{
    uint32_t sum = (uint32_t)(uintptr_t)argument;
    for (long i = 0; i < calls; i++)
        sum = mix(sum, catch_all((uint32_t)i));
    return (void *)(uintptr_t)(sum ^ (uint32_t)destroyed);
}

static void *run_cancelled(void *argument)
{
    struct report {
        uint64_t *where;
        ~report()
        {
            *where = destroyed;
        }
    } r{(uint64_t *)argument};
    wait_forever();
    return nullptr;
}

int main(int argc, char **argv)
{
    pthread_t thread[4];
    uint32_t sum = 0;
    calls = victim_option(argc, argv, "-n", 2000);
    for (long i = 0; i < 4; i++)
        CHECK(!pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)(i + 1)));
    for (long i = 0; i < 4; i++) {
        void *part;
        CHECK(!pthread_join(thread[i], &part));
        sum = mix(sum, (uint32_t)(uintptr_t)part);
    }
    for (int i = 0; i < 20; i++) {
        uint64_t seen = 0;
        void *result;
        CHECK(!pthread_create(&thread[0], NULL, run_cancelled, &seen));
        CHECK(!pthread_cancel(thread[0]));
        CHECK(!pthread_join(thread[0], &result));
        CHECK(result == PTHREAD_CANCELED && (seen == 7 || seen == 0));
    }
    printf("catch_all %ld\nsum %08x\n", 4 * calls, sum);
    return 0;
}
