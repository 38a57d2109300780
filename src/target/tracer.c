/* Who traces.
 *
 * The tracer of a thread is a thread of ours, and all requests about it are that one's to make. It is the main thread, but for processes
 * under a seccomp filter: of those each stop has a thread of its own. When that ends, the kernel lets go of what it traces as it is. In no
 * other way can a thread be let go of that does not stand: one that sleeps in restart_syscall, which its filter did not see (confined.c),
 * sleeps on. */
#include "target/internal.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ptrace.h>

struct target_tracer {
    const struct target *target;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    target_pids tid; /* what it traces */
    enum { IDLE, ASKED, DONE, OVER } state;
    enum __ptrace_request request;
    pid_t asked_tid;
    uintptr_t address, data;
    long result;
    int error;
};

/* Those that there are now. */
static VEC(struct target_tracer *) active;

static void *serve(void *context)
{
    struct target_tracer *tracer = context;
    pthread_mutex_lock(&tracer->lock);
    for (;;) {
        while (tracer->state != ASKED && tracer->state != OVER)
            pthread_cond_wait(&tracer->changed, &tracer->lock);
        if (tracer->state == OVER)
            break;
        if (tracer->request == PTRACE_SEIZE)
            tracer->result = target_seize(tracer->target, tracer->asked_tid, tracer->data);
        else
            tracer->result = ptrace(tracer->request, tracer->asked_tid, (void *)tracer->address, (void *)tracer->data);
        tracer->error = errno;
        tracer->state = DONE;
        pthread_cond_broadcast(&tracer->changed);
    }
    pthread_mutex_unlock(&tracer->lock);
    return NULL;
}

static long ask(struct target_tracer *tracer, enum __ptrace_request request, pid_t tid, uintptr_t address, uintptr_t data)
{
    pthread_mutex_lock(&tracer->lock);
    tracer->request = request;
    tracer->asked_tid = tid;
    tracer->address = address;
    tracer->data = data;
    tracer->state = ASKED;
    pthread_cond_broadcast(&tracer->changed);
    while (tracer->state != DONE)
        pthread_cond_wait(&tracer->changed, &tracer->lock);
    tracer->state = IDLE;
    pthread_mutex_unlock(&tracer->lock);
    errno = tracer->error;
    return tracer->result;
}

static struct target_tracer *find(pid_t tid)
{
    for (size_t i = 0; i < active.n; i++)
        for (size_t k = 0; k < active.at[i]->tid.n; k++)
            if (active.at[i]->tid.at[k] == tid)
                return active.at[i];
    return NULL;
}

long target_ptrace_words(enum __ptrace_request request, pid_t tid, uintptr_t address, uintptr_t data)
{
    struct target_tracer *tracer = active.n ? find(tid) : NULL;
    if (tracer)
        return ask(tracer, request, tid, address, data);
    long result = ptrace(request, tid, (void *)address, (void *)data);
    /* What a traced thread starts is its tracer's. */
    for (size_t i = 0; i < active.n && result == -1 && errno == ESRCH; i++) {
        result = ask(active.at[i], request, tid, address, data);
        if (result != -1 || errno != ESRCH)
            VEC_PUSH(&active.at[i]->tid, tid);
    }
    return result;
}

/* Signals are for the main thread. */
static struct err *start(struct target_tracer *tracer)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int number = pthread_create(&tracer->thread, NULL, serve, tracer);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return number ? err_errno(ERR_SYSTEM, number, "a thread that traces") : NULL;
}

struct err *target_tracer_begin(struct target *target)
{
    if (target->tracer)
        return NULL;
    struct target_tracer *tracer = memory_zero(1, sizeof *tracer);
    tracer->target = target;
    pthread_mutex_init(&tracer->lock, NULL);
    pthread_cond_init(&tracer->changed, NULL);
    struct err *error = start(tracer);
    if (error) {
        free(tracer);
        return error;
    }
    VEC_PUSH(&active, tracer);
    target->tracer = tracer;
    return NULL;
}

long target_tracer_seize(struct target *target, pid_t tid, unsigned long options)
{
    if (!target->tracer)
        return target_seize(target, tid, options);
    long result = ask(target->tracer, PTRACE_SEIZE, tid, 0, options);
    if (!result)
        VEC_PUSH(&target->tracer->tid, tid);
    return result;
}

bool target_tracer_has(const struct target *target, pid_t tid)
{
    return target->tracer && find(tid) == target->tracer;
}

void target_tracer_end(struct target *target)
{
    struct target_tracer *tracer = target->tracer;
    if (!tracer)
        return;
    pthread_mutex_lock(&tracer->lock);
    tracer->state = OVER;
    pthread_cond_broadcast(&tracer->changed);
    pthread_mutex_unlock(&tracer->lock);
    pthread_join(tracer->thread, NULL);
    for (size_t i = active.n; i-- > 0;)
        if (active.at[i] == tracer)
            active.at[i] = active.at[--active.n];
    VEC_FREE(&tracer->tid);
    pthread_cond_destroy(&tracer->changed);
    pthread_mutex_destroy(&tracer->lock);
    free(tracer);
    target->tracer = NULL;
}
