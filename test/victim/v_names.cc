/* C++ names: overloads, namespaces, templates and methods, each called a known number of times. Prints nothing. */
#include "victim.h"

#include <sys/mman.h>

namespace zoo
{
static volatile uint64_t sink;

TRACED int feed(int amount)
{
    sink = sink + (uint64_t)amount;
    return amount + 1;
}

TRACED int feed(const char *what)
{
    sink = sink + (uint64_t)what[0];
    return 7;
}

template <typename T> TRACED T weigh(T value)
{
    sink = sink + 1;
    return value * 2;
}

class animal
{
    int age;

  public:
    explicit animal(int a) : age(a)
    {
    }
    TRACED int grow(int years)
    {
        return age += years;
    }
};
} // namespace zoo

extern "C" TRACED int plain_name(int value)
{
    return value;
}

int main()
{
    const char *hay = "hay";
    zoo::animal animal(3);
    (void)mlockall(MCL_CURRENT);
    for (int i = 0; i < 3; i++)
        zoo::feed(i);
    zoo::feed(hay);
    zoo::weigh(4);
    zoo::weigh(5L);
    zoo::weigh(6L);
    animal.grow(2);
    animal.grow(1);
    return plain_name(0);
}
