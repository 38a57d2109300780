/* Known calls with known data, always the same: what the scripts of test/corpus look at. Prints nothing. Everything that scripts read is in
 * memory before the first call.
 *   v_corpus [-s]
 * -s sleeps at the end: bpftrace can name addresses only while the process is there. */
#include "victim.h"

#include <sys/mman.h>
#include <unistd.h>

enum color { RED, GREEN = 5, BLUE };

struct point {
    int x, y;
};

union both {
    uint32_t word;
    uint8_t byte[4];
};

struct shape {
    int id;
    enum color color;
    char name[16];
    struct point corner[2];
    union both both;
    unsigned flag : 3;
    signed level : 5;
    unsigned wide : 20;
    short inner;
    long deep;
    struct shape *next;
    const char *label;
    long long big;
    uint8_t small;
};

/* Members without names, which not every tracer can read from debug information: by itself. */
struct nest {
    int first;
    struct {
        short inner;
        long deep;
    };
    union {
        uint32_t word;
        uint8_t byte[4];
    };
};

static struct nest nest = {11, {-7, 1000000}, {0x04030201}};
static struct shape shapes[3] = {
    {1, RED, "circle", {{1, 2}, {3, 4}}, {0x04030201}, 5, -3, 70000, -7, (long)(1LL << 40), &shapes[1], "first", -5000000000, 200},
    {2, GREEN, "square", {{10, 20}, {30, -40}}, {0xfffefdfc}, 2, 15, 1, 8, -9, &shapes[2], "second", 5000000000, 1},
    {3, BLUE, "line", {{-1, -2}, {0, 0}}, {0}, 7, -16, 1048575, 0, 0, NULL, "third", 0, 255},
};
static int numbers[8] = {3, -1, 4, 1, -5, 9, 2, 6};
static char *words[] = {"ls", "-l", "/tmp", NULL};
static const uint8_t address[] = {192, 168, 0, 1, 0x20, 0x01, 0x0d, 0xb8, 0,    0,    0,    0,    0,
                                  0,   0,   0, 0, 0,    0,    1,    0xde, 0xad, 0xbe, 0xef, 0x00, 0x42};
static const char *names[] = {"alpha", "beta", "gamma", "delta"};
static char bytes[] = "\x01\x02zebra\0\xff\n";
static volatile uint64_t sink;

TRACED int add(int a, int b)
{
    sink += (uint64_t)a;
    return a + b;
}

TRACED long add_long(long a, long b)
{
    sink++;
    return a + b;
}

TRACED const char *name_of(int index)
{
    sink++;
    return names[index & 3];
}

TRACED void take_text(const char *text, int times)
{
    sink += (uint64_t)text[0] + (uint64_t)times;
}

TRACED void take_shape(struct shape *shape)
{
    sink += shape->small;
}

TRACED struct shape *next_shape(struct shape *shape)
{
    sink++;
    return shape->next;
}

TRACED void take_nest(struct nest *at)
{
    sink += (uint64_t)at->first;
}

TRACED int factorial(int n)
{
    sink++;
    return n < 2 ? 1 : n * factorial(n - 1);
}

TRACED long take_six(long a, long b, long c, long d, long e, long f)
{
    sink++;
    return a + b + c + d + e + f;
}

TRACED long take_eight(long a, long b, long c, long d, long e, long f, long g, long h)
{
    sink++;
    return a + b + c + d + e + f + g + h;
}

TRACED void take_numbers(int *list, size_t count)
{
    sink += (uint64_t)list[0] + count;
}

TRACED void take_bytes(const void *at, size_t count)
{
    sink += *(const uint8_t *)at + count;
}

TRACED void take_words(char **list)
{
    sink += (uint64_t)list[0][0];
}

TRACED void size_is(uint64_t size)
{
    sink += size;
}

TRACED void level_is(long level)
{
    sink += (uint64_t)level;
}

TRACED int8_t narrow(int value)
{
    sink++;
    return (int8_t)value;
}

TRACED void op_read(int fd, size_t count)
{
    sink += (uint64_t)fd + count;
}

TRACED void op_write(int fd, size_t count)
{
    sink += (uint64_t)fd * count;
}

TRACED void op_close(int fd)
{
    sink += (uint64_t)fd;
}

static void use_memory(void)
{
    /* Reads every page that scripts will read; a lock keeps them there where it is allowed. */
    (void)mlockall(MCL_CURRENT);
    for (int i = 0; i < 3; i++)
        sink += strlen(shapes[i].label) + strlen(shapes[i].name) + strlen(names[i]) + strlen(words[i]);
    sink += address[0] + bytes[0];
}

int main(int argc, char **argv)
{
    use_memory();
    for (int i = 0; i < 10; i++)
        sink += (uint64_t)add(i, i * i);
    add(-5, 3);
    add_long((long)(1LL << 40), -1);
    add_long(-2, 1);
    for (int i = 0; i < 4; i++)
        take_text(name_of(i), i * 100);
    take_text("alphabet", 7);
    take_text("", 8);
    take_text("a text that is somewhat longer than the others, with 64 or more of bytes in it", 9);
    for (struct shape *shape = shapes; shape; shape = next_shape(shape))
        take_shape(shape);
    take_nest(&nest);
    factorial(5);
    take_six(1, -2, 3, -4, 5, -6);
    take_eight(1, 2, 3, 4, 5, 6, 7, 8);
    take_numbers(numbers, 8);
    take_bytes(address, sizeof address);
    take_bytes(bytes, sizeof bytes - 1);
    take_words(words);
    for (uint64_t size = 1; size <= 1 << 20; size *= 3)
        size_is(size);
    for (uint64_t size = 0; size < 100; size += 7)
        size_is(size);
    for (long level = -30; level <= 130; level += 10)
        level_is(level);
    for (int value = -200; value <= 200; value += 100)
        narrow(value);
    for (int i = 0; i < 12; i++) {
        op_read(i % 3, (size_t)i * 10);
        if (i % 2)
            op_write(i % 3, (size_t)i);
    }
    op_close(3);
    if (victim_flag(argc, argv, "-s"))
        usleep(300000);
    return 0;
}
