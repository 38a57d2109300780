/* setjmp and longjmp over several frames, in threads. */
#include "victim.h"

#include <pthread.h>
#include <setjmp.h>

static __thread jmp_buf back;

TRACED uint32_t jump_deep(uint32_t depth, uint32_t value)
{
    if (depth == 0) {
        if (value & 1)
            longjmp(back, (int)(value | 1));
        return value;
    }
    uint32_t result = jump_deep(depth - 1, value);
    return result + depth;
}

TRACED uint32_t jump_catch(uint32_t value)
{
    int code = setjmp(back);
    if (code)
        return (uint32_t)code * 7;
    return jump_deep(value % 6, value);
}

static long calls;

static void *run(void *argument)
{
    uint32_t sum = (uint32_t)(uintptr_t)argument;
    for (long i = 0; i < calls; i++)
        sum = mix(sum, jump_catch((uint32_t)i));
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv)
{
    pthread_t thread[4];
    uint32_t sum = 0;
    calls = victim_option(argc, argv, "-n", 50000);
    for (long i = 0; i < 4; i++)
        CHECK(!pthread_create(&thread[i], NULL, run, (void *)(uintptr_t)(i + 1)));
    for (long i = 0; i < 4; i++) {
        void *part;
        CHECK(!pthread_join(thread[i], &part));
        sum = mix(sum, (uint32_t)(uintptr_t)part);
    }
    printf("jump_catch %ld\nsum %08x\n", 4 * calls, sum);
    return 0;
}
