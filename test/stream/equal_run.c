#include "test/stream/equal.h"

struct machine equal_in, equal_out;
uint64_t equal_place;
uintptr_t equal_body, equal_own_sp;

/* All of the state comes from and goes to fixed places, so that no register is needed to find them. */
#define LINE(text) text "\n"
#ifdef __x86_64__
#define EACH(move)                                                                                                                         \
    move(0, rax) move(1, rcx) move(2, rdx) move(3, rbx) move(5, rbp) move(6, rsi) move(7, rdi) move(8, r8) move(9, r9) move(10, r10)       \
        move(11, r11) move(12, r12) move(13, r13) move(14, r14) move(15, r15)
#define LOAD(number, name) LINE("mov equal_in+8*" #number "(%rip),%" #name)
#define STORE(number, name) LINE("mov %" #name ",equal_out+8*" #number "(%rip)")
__asm__(".text\n .globl equal_enter, equal_return\n equal_enter:\n" LINE("push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15")
            LINE("mov %rsp,equal_own_sp(%rip)") LINE("fxrstor64 equal_in+144(%rip)") LINE("push equal_in+128(%rip); popf") EACH(LOAD)
                LINE("mov equal_in+32(%rip),%rsp")
                    LINE("lea -128(%rsp),%rsp; push equal_place(%rip); call *equal_body(%rip); equal_return:")
                        LINE("lea 136(%rsp),%rsp; mov %rsp,equal_out+32(%rip)") EACH(STORE) LINE("mov equal_own_sp(%rip),%rsp")
                            LINE("pushf; pop equal_out+128(%rip); cld; fxsave64 equal_out+144(%rip); fninit")
                                LINE("movl $0x1f80,-4(%rsp); ldmxcsr -4(%rsp)")
                                    LINE("pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret"));
#else
#define EACH(move) move(0, eax) move(1, ecx) move(2, edx) move(3, ebx) move(5, ebp) move(6, esi) move(7, edi)
#define LOAD(number, name) LINE("mov equal_in+8*" #number ",%" #name)
#define STORE(number, name) LINE("mov %" #name ",equal_out+8*" #number)
__asm__(".text\n .globl equal_enter, equal_return\n equal_enter:\n" LINE("push %ebx; push %ebp; push %esi; push %edi")
            LINE("mov %esp,equal_own_sp") LINE("fxrstor equal_in+144") LINE("push equal_in+128; popf") EACH(LOAD)
                LINE("mov equal_in+32,%esp") LINE("push equal_place; call *equal_body; equal_return:")
                    LINE("lea 4(%esp),%esp; mov %esp,equal_out+32") EACH(STORE) LINE("mov equal_own_sp,%esp")
                        LINE("pushf; pop equal_out+128; cld; fxsave equal_out+144; fninit") LINE("movl $0x1f80,-4(%esp); ldmxcsr -4(%esp)")
                            LINE("pop %edi; pop %esi; pop %ebp; pop %ebx; ret"));
#endif
_Static_assert(offsetof(struct machine, flags) == 128 && offsetof(struct machine, fx) == 144, "as above");

void equal_enter(void);

void equal_call(uintptr_t body)
{
    equal_body = body;
    equal_enter();
}
