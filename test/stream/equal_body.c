#include "test/stream/equal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void equal_compile(const struct wire_stream *stream, const struct jit_process *process, uint8_t *code, struct jit_body *body)
{
    struct err *error = stream_verify(stream, stream->bytes);
    if (!error)
        error = jit_compile(stream, 1, MODEL, process, (uintptr_t)code, body);
    if (error) {
        printf("FAIL %s\n", error->message);
        exit(1);
    }
    memcpy(code, body->code.at, body->code.n);
}

void equal_catch_steps(void (*on_step)(int number, siginfo_t *info, void *context))
{
    static char handler_stack[64 << 10];
    sigaltstack(&(stack_t){.ss_sp = handler_stack, .ss_size = sizeof handler_stack}, NULL);
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGTRAP, &action, NULL);
}
