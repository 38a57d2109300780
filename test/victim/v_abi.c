/* What a probe must not disturb: arguments of every class, large results, x87 and vector registers, all general registers, flags and the
 * red zone.
 *   v_abi [-n ROUNDS] [--offsets]      --offsets prints the probe point inside abi_red_zone as `abi_red_zone +0x12` */
#include "victim.h"

#include <immintrin.h>
#include <stdarg.h>

struct large {
    uint64_t word[9];
};
struct small {
    float x, y;
    int32_t n;
};

TRACED double abi_varargs(int count, ...)
{
    va_list list;
    double sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += i & 1 ? va_arg(list, double) : (double)va_arg(list, int);
    va_end(list);
    return sum;
}

TRACED struct large abi_large(struct large a, uint64_t add)
{
    for (int i = 0; i < 9; i++)
        a.word[i] += add * (uint64_t)i;
    return a;
}

TRACED struct small abi_small(struct small a, float f)
{
    struct small r = {a.y * f, a.x + f, a.n + 1};
    return r;
}

TRACED long double abi_x87(long double a, long double b, double c)
{
    return a * b + c;
}

TRACED double abi_many(double a, float b, int c, double d, uint64_t e, float f, double g, double h, int i, int j, int k, int l, int m)
{
    return a + b * 2 + c * 3 + d * 4 + (double)e * 5 + f * 6 + g * 7 + h * 8 + i + j + k + l + m;
}

__attribute__((noipa, target("avx"))) __m256d abi_avx(__m256d a, __m256d b)
{
    return _mm256_add_pd(_mm256_mul_pd(a, b), a);
}

__attribute__((target("avx"))) static uint32_t check_avx(uint32_t seed)
{
    double out[4];
    _mm256_storeu_pd(out, abi_avx(_mm256_set_pd(1, 2, 3, seed & 0xff), _mm256_set_pd(4, 5, 6, 7)));
    CHECK(out[0] == (seed & 0xff) * 8.0 && out[1] == 21 && out[2] == 12 && out[3] == 5);
    return (uint32_t)out[0];
}

/* Functions in assembly whose callers compare all state around them. */
void abi_nothing(void);
uint32_t abi_red_zone(uint32_t value);
extern const uint32_t abi_red_zone_offset;

#ifdef __x86_64__
__asm__(".text\n.p2align 4\n.globl abi_nothing\n.type abi_nothing,@function\n"
        "abi_nothing: nop\n nopl 0(%rax)\n nopl 0(%rax,%rax,1)\n ret\n.size abi_nothing, . - abi_nothing\n"
        ".p2align 4\n.globl abi_red_zone\n.type abi_red_zone,@function\n"
        "abi_red_zone: .set offset, -8\n .rept 16\n mov %rdi, offset(%rsp)\n .set offset, offset - 8\n .endr\n"
        " stc\n 771: nop\n nop\n nop\n nop\n nop\n nop\n setc %al\n movzbl %al, %eax\n"
        ".set offset, -8\n .rept 16\n cmp %rdi, offset(%rsp)\n jne 1f\n .set offset, offset - 8\n .endr\n"
        " ret\n1: xor %eax, %eax\n ret\n.size abi_red_zone, . - abi_red_zone\n"
        ".section .rodata\n.globl abi_red_zone_offset\nabi_red_zone_offset: .long 771b - abi_red_zone\n.text\n");

/* General registers in encoding order of the assembly below, flags last; vector registers. The assembly knows the offsets. */
struct {
    uint64_t in[16], out[16], vector_in[16][2], vector_out[16][2];
} abi_state;

TRACED void check_registers(uint64_t seed)
{
    uint64_t *in = abi_state.in, *out = abi_state.out;
    uint64_t(*vector_in)[2] = abi_state.vector_in, (*vector_out)[2] = abi_state.vector_out;
    for (unsigned i = 0; i < 16; i++) {
        in[i] = seed * (i + 3) + i;
        vector_in[i][0] = seed * (i + 31);
        vector_in[i][1] = seed ^ i;
    }
    in[15] = 0x8d7 & (seed | 2);
    in[15] &= ~0x500ull;
    __asm__ volatile("push %%rbp\n sub $512, %%rsp\n"
                     "lea 256+abi_state(%%rip), %%rbx\n"
                     "movups (%%rbx), %%xmm0\n movups 16(%%rbx), %%xmm1\n movups 32(%%rbx), %%xmm2\n movups 48(%%rbx), %%xmm3\n"
                     "movups 64(%%rbx), %%xmm4\n movups 80(%%rbx), %%xmm5\n movups 96(%%rbx), %%xmm6\n movups 112(%%rbx), %%xmm7\n"
                     "movups 128(%%rbx), %%xmm8\n movups 144(%%rbx), %%xmm9\n movups 160(%%rbx), %%xmm10\n movups 176(%%rbx), %%xmm11\n"
                     "movups 192(%%rbx), %%xmm12\n movups 208(%%rbx), %%xmm13\n movups 224(%%rbx), %%xmm14\n movups 240(%%rbx), %%xmm15\n"
                     "lea abi_state(%%rip), %%rax\n pushq 120(%%rax)\n popf\n"
                     "mov 8(%%rax), %%rbx\n mov 16(%%rax), %%rcx\n mov 24(%%rax), %%rdx\n mov 32(%%rax), %%rsi\n mov 40(%%rax), %%rdi\n"
                     "mov 48(%%rax), %%rbp\n mov 56(%%rax), %%r8\n mov 64(%%rax), %%r9\n mov 72(%%rax), %%r10\n mov 80(%%rax), %%r11\n"
                     "mov 88(%%rax), %%r12\n mov 96(%%rax), %%r13\n mov 104(%%rax), %%r14\n mov 112(%%rax), %%r15\n mov (%%rax), %%rax\n"
                     "call abi_nothing\n"
                     "mov %%rax, 32(%%rsp)\n pushf\n popq 40(%%rsp)\n lea 128+abi_state(%%rip), %%rax\n"
                     "mov %%rbx, 8(%%rax)\n mov %%rcx, 16(%%rax)\n mov %%rdx, 24(%%rax)\n mov %%rsi, 32(%%rax)\n mov %%rdi, 40(%%rax)\n"
                     "mov %%rbp, 48(%%rax)\n mov %%r8, 56(%%rax)\n mov %%r9, 64(%%rax)\n mov %%r10, 72(%%rax)\n mov %%r11, 80(%%rax)\n"
                     "mov %%r12, 88(%%rax)\n mov %%r13, 96(%%rax)\n mov %%r14, 104(%%rax)\n mov %%r15, 112(%%rax)\n"
                     "mov 32(%%rsp), %%rbx\n mov %%rbx, (%%rax)\n mov 40(%%rsp), %%rbx\n mov %%rbx, 120(%%rax)\n"
                     "lea 512+abi_state(%%rip), %%rbx\n"
                     "movups %%xmm0, (%%rbx)\n movups %%xmm1, 16(%%rbx)\n movups %%xmm2, 32(%%rbx)\n movups %%xmm3, 48(%%rbx)\n"
                     "movups %%xmm4, 64(%%rbx)\n movups %%xmm5, 80(%%rbx)\n movups %%xmm6, 96(%%rbx)\n movups %%xmm7, 112(%%rbx)\n"
                     "movups %%xmm8, 128(%%rbx)\n movups %%xmm9, 144(%%rbx)\n movups %%xmm10, 160(%%rbx)\n movups %%xmm11, 176(%%rbx)\n"
                     "movups %%xmm12, 192(%%rbx)\n movups %%xmm13, 208(%%rbx)\n movups %%xmm14, 224(%%rbx)\n movups %%xmm15, 240(%%rbx)\n"
                     "cld\n add $512, %%rsp\n pop %%rbp\n"
                     :
                     :
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
                       "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
                       "xmm14", "xmm15");
    out[15] &= 0x8d5 | 2;
    in[15] &= 0x8d5 | 2;
    CHECK(!memcmp(in, out, sizeof abi_state.in));
    CHECK(!memcmp(vector_in, vector_out, sizeof abi_state.vector_in));
}
#else
__asm__(
    ".text\n.p2align 4\n.globl abi_nothing\n.type abi_nothing,@function\n"
    "abi_nothing: nop\n nopl 0(%eax)\n nopl 0(%eax,%eax,1)\n ret\n.size abi_nothing, . - abi_nothing\n"
    ".p2align 4\n.globl abi_red_zone\n.type abi_red_zone,@function\n"
    "abi_red_zone: mov 4(%esp), %ecx\n push %ecx\n push %ecx\n stc\n 771: nop\n nop\n nop\n nop\n nop\n nop\n setc %al\n movzbl %al, %eax\n"
    " cmp %ecx, (%esp)\n jne 1f\n cmp %ecx, 4(%esp)\n jne 1f\n add $8, %esp\n ret\n"
    "1: xor %eax, %eax\n add $8, %esp\n ret\n.size abi_red_zone, . - abi_red_zone\n"
    ".section .rodata\n.globl abi_red_zone_offset\nabi_red_zone_offset: .long 771b - abi_red_zone\n.text\n");

TRACED void check_registers(uint64_t seed)
{
    static uint32_t in[8], out[8];
    for (unsigned i = 0; i < 8; i++)
        in[i] = (uint32_t)seed * (i + 3) + i;
    in[7] = (0x8d7 & ((uint32_t)seed | 2)) & ~0x500u;
    uint32_t *volatile in_at = in, *volatile out_at = out;
    __asm__ volatile("push %%ebp\n push %%ebx\n sub $64, %%esp\n mov %[out], 16(%%esp)\n"
                     "mov %[in], %%eax\n pushl 28(%%eax)\n popf\n"
                     "mov 4(%%eax), %%ebx\n mov 8(%%eax), %%ecx\n mov 12(%%eax), %%edx\n mov 16(%%eax), %%esi\n mov 20(%%eax), %%edi\n"
                     "mov 24(%%eax), %%ebp\n mov (%%eax), %%eax\n"
                     "call abi_nothing\n"
                     "mov %%eax, 32(%%esp)\n pushf\n popl 40(%%esp)\n mov 16(%%esp), %%eax\n"
                     "mov %%ebx, 4(%%eax)\n mov %%ecx, 8(%%eax)\n mov %%edx, 12(%%eax)\n mov %%esi, 16(%%eax)\n mov %%edi, 20(%%eax)\n"
                     "mov %%ebp, 24(%%eax)\n mov 32(%%esp), %%ebx\n mov %%ebx, (%%eax)\n mov 40(%%esp), %%ebx\n mov %%ebx, 28(%%eax)\n"
                     "cld\n add $64, %%esp\n pop %%ebx\n pop %%ebp\n"
                     :
                     : [in] "S"(in_at), [out] "D"(out_at)
                     : "eax", "ecx", "edx", "memory", "cc");
    out[7] &= 0x8d5 | 2;
    in[7] &= 0x8d5 | 2;
    CHECK(!memcmp(in, out, sizeof in));
}
#endif

int main(int argc, char **argv)
{
    long rounds = victim_option(argc, argv, "-n", 20000);
    uint32_t sum = 1;
    if (victim_flag(argc, argv, "--offsets")) {
        printf("abi_red_zone +0x%x\n", abi_red_zone_offset);
        return 0;
    }
    for (long i = 0; i < rounds; i++) {
        struct large large = {{1, 2, 3, 4, 5, 6, 7, 8, (uint64_t)i}};
        struct small small = {1.5f, 2.5f, (int32_t)i};
        CHECK(abi_varargs(6, 1, 2.5, 3, 4.5, (int)i, 6.5) == 17.5 + (double)i);
        large = abi_large(large, (uint64_t)i);
        CHECK(large.word[8] == 9 * (uint64_t)i && large.word[3] == 4 + 3 * (uint64_t)i);
        small = abi_small(small, 2);
        CHECK(small.x == 5 && small.y == 3.5f && small.n == (int32_t)i + 1);
        CHECK(abi_x87(1.25L, (long double)i, 0.5) == 1.25L * (long double)i + 0.5L);
        CHECK(abi_many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, (int)i) == 1 + 4 + 9 + 16 + 25 + 36 + 49 + 64 + 9 + 10 + 11 + 12 + (double)i);
        if (__builtin_cpu_supports("avx"))
            sum = mix(sum, check_avx((uint32_t)i));
        check_registers(0x9e3779b97f4a7c15ull * (uint64_t)(i + 1));
        CHECK(abi_red_zone((uint32_t)i) == 1);
        sum = mix(sum, (uint32_t)large.word[7]);
    }
    printf("rounds %ld\nabi_nothing %ld\nsum %08x\n", rounds, rounds, sum);
    return 0;
}
