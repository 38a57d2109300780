/* Stacks of every kind, for as long as it runs: inlined and virtual calls, recursion, exceptions, frames that align their stack or grow it,
 * callbacks from the C library, and signal handlers on the stack and on an alternate one. Runs until it is killed, or for as many rounds as
 * its argument says. */
#include "victim.h"

#include <algorithm>
#include <alloca.h>
#include <map>
#include <memory>
#include <pthread.h>
#include <signal.h>
#include <stdexcept>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <sys/time.h>
#include <unistd.h>
#include <vector>

namespace
{
volatile uint64_t sink;

struct shape {
    virtual ~shape() = default;
    virtual uint64_t area(uint64_t n) const = 0;
};
struct square : shape {
    uint64_t area(uint64_t n) const override
    {
        return n * n + sink % 3;
    }
};
struct nested : shape {
    std::unique_ptr<shape> inner;
    explicit nested(unsigned depth)
    {
        if (depth)
            inner = std::make_unique<nested>(depth - 1);
        else
            inner = std::make_unique<square>();
    }
    uint64_t area(uint64_t n) const override
    {
        return inner->area(n + 1) + 1;
    }
};

/* The stack pointer is aligned further than the caller's: the frame is found through a saved argument pointer. */
__attribute__((noinline)) uint64_t aligned(uint64_t n, const char *text, ...)
{
    alignas(128) uint64_t buffer[16];
    for (unsigned i = 0; i < 16; i++)
        buffer[i] = n * i + strlen(text);
    char *more = (char *)alloca(16 + n % 512);
    memset(more, (int)n, 16 + n % 512);
    std::sort(buffer, buffer + 16, [](uint64_t a, uint64_t b) { return (a ^ 5) < (b ^ 5); });
    return buffer[3] + (unsigned char)more[n % 16];
}

inline uint64_t mix(uint64_t n)
{
    n ^= n >> 7;
    return n * 0x9e3779b9;
}
inline uint64_t mix_twice(uint64_t n)
{
    return mix(mix(n) + 1);
}

int compare(const void *a, const void *b)
{
    uint64_t x = mix_twice(*(const uint32_t *)a), y = mix_twice(*(const uint32_t *)b);
    return x < y ? -1 : x > y;
}

__attribute__((noinline)) uint64_t descend(unsigned depth, uint64_t n)
{
    if (depth == 0) {
        if (n % 3 == 0)
            throw std::runtime_error("bottom " + std::to_string(n));
        return mix_twice(n);
    }
    std::string text(depth, 'x');
    return descend(depth - 1, n + text.size()) + 1;
}

__attribute__((noinline)) uint64_t catching(uint64_t n)
{
    try {
        return descend(n % 12, n);
    } catch (const std::exception &error) {
        return strlen(error.what());
    }
}

__attribute__((noinline)) uint64_t round_of_work(uint64_t n)
{
    uint32_t values[64];
    std::map<std::string, uint64_t> names;
    nested deep(n % 20);
    uint64_t sum = 0;
    for (unsigned i = 0; i < 64; i++)
        values[i] = (uint32_t)mix(n + i);
    qsort(values, 64, sizeof *values, compare);
    for (unsigned i = 0; i < 24; i++)
        names["key " + std::to_string(values[i] % 100)] += i;
    for (auto &name : names)
        sum += name.second + name.first.size();
    for (unsigned i = 0; i < 8; i++)
        sum += deep.area(i) + catching(n + i) + aligned(n + i, "text", n, sum);
    return sum;
}

void on_signal(int signal, siginfo_t *, void *)
{
    sink += aligned((uint64_t)signal, "signal") + mix_twice(sink);
}

void *thread(void *)
{
    for (uint64_t n = 1;; n++)
        sink += round_of_work(n);
    return nullptr;
}
} // namespace

int main(int argc, char **argv)
{
    static char alternate[65536];
    stack_t stack = {};
    stack.ss_sp = alternate;
    stack.ss_size = sizeof alternate;
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    struct itimerval timer = {{0, 20000}, {0, 20000}};
    uint64_t rounds = argc > 1 ? strtoull(argv[1], nullptr, 0) : 0;
    pthread_t worker;
    sigaltstack(&stack, nullptr);
    sigaction(SIGVTALRM, &action, nullptr);
    action.sa_flags |= SA_ONSTACK;
    sigaction(SIGALRM, &action, nullptr);
    if (!rounds) {
        setitimer(ITIMER_REAL, &timer, nullptr);
        setitimer(ITIMER_VIRTUAL, &timer, nullptr);
        pthread_create(&worker, nullptr, thread, nullptr);
    }
    puts("ready");
    fflush(stdout);
    for (uint64_t n = 0; !rounds || n < rounds; n++) {
        if (rounds) {
            raise(SIGALRM);
            raise(SIGVTALRM);
        }
        sink += round_of_work(n);
    }
    return 0;
}
