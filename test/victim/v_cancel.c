/* pthread_cancel of threads inside traced functions: deferred in a blocking read, asynchronous in a busy loop. */
#include "victim.h"

#include <pthread.h>
#include <unistd.h>

static int pipe_fd[2];
static volatile int cleaned;

TRACED uint32_t cancel_work(uint32_t a)
{
    for (uint32_t i = 0; i < 16; i++)
        a = mix(a, i);
    return a;
}

TRACED long cancel_read(void *buffer)
{
    return read(pipe_fd[0], buffer, 1);
}

static void clean(void *argument)
{
    __atomic_add_fetch(&cleaned, *(int *)argument, __ATOMIC_SEQ_CST);
}

static void *run_deferred(void *ready)
{
    int one = 1;
    char byte;
    pthread_cleanup_push(clean, &one);
    __atomic_store_n((int *)ready, 1, __ATOMIC_SEQ_CST);
    for (;;)
        cancel_read(&byte);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *run_asynchronous(void *ready)
{
    int thousand = 1000;
    uint32_t sum = 1;
    pthread_cleanup_push(clean, &thousand);
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    __atomic_store_n((int *)ready, 1, __ATOMIC_SEQ_CST);
    for (;;)
        sum = cancel_work(sum);
    pthread_cleanup_pop(0);
    return NULL;
}

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-n", 100);
    CHECK(!pipe(pipe_fd));
    for (long i = 0; i < rounds; i++) {
        pthread_t deferred, asynchronous;
        int ready[2] = {0, 0};
        void *result;
        CHECK(!pthread_create(&deferred, NULL, run_deferred, &ready[0]));
        CHECK(!pthread_create(&asynchronous, NULL, run_asynchronous, &ready[1]));
        while (!__atomic_load_n(&ready[0], __ATOMIC_SEQ_CST) || !__atomic_load_n(&ready[1], __ATOMIC_SEQ_CST))
            cancel_work(1);
        CHECK(!pthread_cancel(deferred) && !pthread_cancel(asynchronous));
        CHECK(!pthread_join(deferred, &result) && result == PTHREAD_CANCELED);
        CHECK(!pthread_join(asynchronous, &result) && result == PTHREAD_CANCELED);
    }
    CHECK(cleaned == rounds * 1001);
    printf("cancelled %ld\ncleaned %d\nsum %08x\n", 2 * rounds, cleaned, cancel_work(1));
    return 0;
}
