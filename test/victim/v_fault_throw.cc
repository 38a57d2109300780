/* C++ exceptions thrown by a signal handler out of the instruction that faulted, and caught in its function (-fnon-call-exceptions). The
 * handler also walks the stack: the function that faulted and its callers must be on it.
 *   v_fault_throw [-n FAULTS] */
#include "victim.h"

#include <signal.h>
#include <unwind.h>

#define ALIGNED __attribute__((noipa, aligned(64)))

struct fault {
    void *address;
};

static volatile long depth, seen_load;

extern "C" {
ALIGNED int load(const int *p)
{
    try {
        return *p;
    } catch (const fault &caught) {
        CHECK(caught.address == nullptr);
        return -1;
    }
}

/* The fault is in the second or third instruction, and is caught by the caller. */
ALIGNED int load_next(const int *const *p)
{
    return **p;
}

ALIGNED int outer(const int *const *p)
{
    try {
        return load_next(p) + 1;
    } catch (const fault &) {
        return -2;
    }
}
}

static _Unwind_Reason_Code note_frame(struct _Unwind_Context *context, void *)
{
    uintptr_t pc = _Unwind_GetIP(context);
    depth = depth + 1;
    if ((pc >= (uintptr_t)load && pc < (uintptr_t)load + 64) || (pc >= (uintptr_t)load_next && pc < (uintptr_t)load_next + 64))
        seen_load = seen_load + 1;
    return _URC_NO_REASON;
}

extern "C" ALIGNED void on_fault(int, siginfo_t *info, void *)
{
    depth = seen_load = 0;
    _Unwind_Backtrace(note_frame, nullptr);
    CHECK(depth >= 4 && seen_load == 1); /* the handler, the kernel's frame, the function, main */
    throw fault{info->si_addr};
}

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-n", 1000);
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    CHECK(!sigaction(SIGSEGV, &action, nullptr));
    int value = 5;
    const int *good = &value, *bad = nullptr;
    for (long i = 0; i < rounds; i++) {
        CHECK(load(good) == 5 && load(bad) == -1);
        CHECK(outer(&good) == 6 && outer(&bad) == -2 && outer(nullptr) == -2);
    }
    printf("load %ld\nload_next %ld\nouter %ld\non_fault %ld\n", 2 * rounds, 3 * rounds, 3 * rounds, 3 * rounds);
    return 0;
}
