/* Code in which little is called: nested inlining, templates, lambdas, constructors, algorithms of the library, parts that are cold.
 *   v_inline -m MILLISECONDS    works so long in processor time, in each of `many`, `sorted` and `shaped` about a third of it
 * It prints nothing but what is the same on every run. */
extern "C" {
#include "victim.h"
}

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <time.h>
#include <vector>

#define INLINED __attribute__((always_inline)) inline

static volatile uint32_t sink;

namespace
{

/* ---- nested, with loops at every level ---- */

INLINED uint32_t innermost(uint32_t x, unsigned rounds)
{
    for (unsigned i = 0; i < rounds; i++)
        x = mix(x, i);
    return x;
}

INLINED uint32_t middle(uint32_t x, unsigned rounds)
{
    x = innermost(x, rounds);
    x ^= sink;
    return innermost(x ^ 1, rounds * 2);
}

INLINED uint32_t outer(uint32_t x, unsigned rounds)
{
    for (int i = 0; i < 3; i++)
        x += middle(x, rounds);
    return x;
}

/* ---- templates and lambdas ---- */

template <class Function> INLINED uint32_t apply(unsigned count, Function function)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < count; i++)
        sum += function(i);
    return sum;
}

template <unsigned Depth> struct ladder {
    static INLINED uint32_t climb(uint32_t x)
    {
        return ladder<Depth - 1>::climb(mix(x, Depth)) ^ sink;
    }
};
template <> struct ladder<0> {
    static INLINED uint32_t climb(uint32_t x)
    {
        return innermost(x, 4);
    }
};

/* ---- classes ---- */

class shape
{
  public:
    INLINED explicit shape(uint32_t seed) : sides_(3 + mix(seed, 1) % 5)
    {
        for (unsigned i = 0; i < sides_; i++)
            lengths_[i] = mix(seed, i) & 0xff;
    }
    INLINED ~shape()
    {
        sink = sink + sides_;
    }
    virtual uint32_t around() const
    {
        return apply(sides_, [this](unsigned i) { return lengths_[i]; });
    }
    INLINED uint32_t operator+(const shape &other) const
    {
        return around() + other.around();
    }

  protected:
    unsigned sides_;
    uint32_t lengths_[8];
};

class doubled : public shape
{
  public:
    using shape::shape;
    uint32_t around() const override
    {
        uint32_t length = 0;
        for (unsigned i = 0; i < sides_; i++)
            length += innermost(lengths_[i], 20);
        return 2 * length;
    }
};

} // namespace

/* ---- what is called ---- */

TRACED uint32_t many(uint32_t x)
{
    x = outer(x, 40);
    auto twice = [x](unsigned i) {
        auto once = [i](uint32_t y) { return innermost(y, i & 15); };
        return once(x) ^ once(x + i);
    };
    x += apply(20, twice);
    return x + ladder<12>::climb(x);
}

TRACED uint32_t sorted(uint32_t x)
{
    std::vector<uint32_t> numbers(60);
    std::generate(numbers.begin(), numbers.end(), [&x] { return x = mix(x, 7); });
    std::sort(numbers.begin(), numbers.end(), [](uint32_t a, uint32_t b) { return (a ^ 0x5555) < (b ^ 0x5555); });
    std::map<std::string, uint32_t> names;
    for (uint32_t number : numbers)
        names["n" + std::to_string(number & 7)] += number;
    for (const auto &name : names)
        x = mix(x, name.second);
    return x;
}

TRACED uint32_t shaped(uint32_t x, int budget)
{
    struct checker {
        int left;
        INLINED bool pass(uint32_t value)
        {
            left -= value != 0;
            if (left < 0)
                throw std::runtime_error("too many shapes: " + std::to_string(value));
            return value & 1;
        }
    } checker{budget};
    try {
        for (int i = 0; i < 30; i++) {
            shape plain(x + (uint32_t)i);
            doubled twice(x);
            const shape &other = checker.pass(i + 1) ? plain : static_cast<const shape &>(twice);
            x += plain + other;
        }
    } catch (const std::runtime_error &error) {
        x += (uint32_t)std::string(error.what()).size();
    }
    return x;
}

static double spent_ms()
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

template <class Function> static INLINED void third(double limit_ms, Function function)
{
    double start_ms = spent_ms();
    while (spent_ms() - start_ms < limit_ms)
        for (int i = 0; i < 20; i++)
            sink = function(sink);
}

int main(int argc, char **argv)
{
    double limit_ms = (double)victim_option(argc, argv, "-m", 0) / 3;
    uint32_t x = 1;
    for (int i = 0; i < 100; i++)
        x ^= many(x) + sorted(x) + shaped(x, i % 40);
    third(limit_ms, many);
    third(limit_ms, sorted);
    third(limit_ms, [](uint32_t y) { return shaped(y, 100); });
    puts("done");
    return 0;
}
