/* Prints a C program with functions of random signatures that shows where gcc puts arguments and results.
 *
 *   calls COUNT SEED WIDTH >calls.c
 *   gcc -mWIDTH -pg -mfentry -g -c calls.c; gcc -mWIDTH calls.o -o calls; ./calls >dump
 *
 * Each function fI(...) is called once with the values eI_J; gcc's call of __fentry__ at the first instruction leads to a stub that keeps
 * the registers and the stack as they are at the function's entry. Each function rI() returns eI, called by a stub that keeps the
 * registers after it. The dump has for each function, in hexadecimal:
 *
 *   call I / ret I
 *   state: 16 words of general registers by DWARF number, 512 bytes of FXSAVE, 512 bytes of stack from the stack pointer upwards
 *   value J: the bytes of eI_J (or eI), in the order of the parameters
 *   buffer: (ret) the address of the memory for results, then its bytes
 *
 * test/unit/symbol_callconv.c reads it. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;
static int width;

static unsigned below(unsigned limit) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)(state * 0x2545f4914f6cdd1d >> 33) % limit;
}

/* ---- types ---- */

enum { MAX_TYPES = 4000, MAX_MEMBERS = 6 };

struct member {
    int type;
    unsigned bits, count; /* bit-field; array */
};

struct type {
    char name[64];
    int kind; /* a letter: i integer, f float, b bool, e enum, p pointer, c complex, s struct, u union, v vector */
    struct member members[MAX_MEMBERS];
    unsigned member_count;
};

static struct type types[MAX_TYPES];
static int type_count, scalar_count;

static void add_scalar(const char *name, int kind)
{
    snprintf(types[type_count].name, sizeof types[type_count].name, "%s", name);
    types[type_count++].kind = kind;
}

static void add_scalars(void)
{
    static const char *const integers[] = {"char",         "signed char", "unsigned char", "short",     "unsigned short",     "int",
                                           "unsigned int", "long",        "unsigned long", "long long", "unsigned long long", "int",
                                           "long"};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        add_scalar(integers[i], 'i');
    add_scalar("_Bool", 'b');
    add_scalar("enum color", 'e');
    add_scalar("char *", 'p');
    add_scalar("struct opaque *", 'p');
    add_scalar("callback", 'p');
    add_scalar("float", 'f');
    add_scalar("double", 'f');
    add_scalar("float", 'f');
    add_scalar("double", 'f');
    add_scalar("long double", 'f');
    add_scalar("_Complex float", 'c');
    add_scalar("_Complex double", 'c');
    add_scalar("_Complex long double", 'c');
    add_scalar("_Float128", 'f');
    if (width == 64) {
        add_scalar("__int128", 'i');
        add_scalar("unsigned __int128", 'i');
        add_scalar("v4si", 'v');
        add_scalar("v2sf", 'v');
    }
    scalar_count = type_count;
}

static void declare_member(const struct member *member, unsigned index)
{
    printf("    %s m%u", types[member->type].name, index);
    if (member->bits)
        printf(" : %u", member->bits);
    if (member->count)
        printf("[%u]", member->count);
    printf(";\n");
}

static bool is_wide(const char *name)
{
    return strstr(name, "128") || strstr(name, "long double") || strstr(name, "v4si");
}

/* A new struct or union, declared on the output. */
static int add_struct(void)
{
    struct type *type = &types[type_count];
    bool is_packed = below(12) == 0;
    type->kind = below(6) == 0 ? 'u' : 's';
    type->member_count = 1 + below(below(3) ? 3 : MAX_MEMBERS);
    snprintf(type->name, sizeof type->name, "%s t%d", type->kind == 'u' ? "union" : "struct", type_count);
    for (unsigned i = 0; i < type->member_count; i++) {
        struct member *member = &type->members[i];
        *member = (struct member){.type = (int)below((unsigned)scalar_count)};
        /* That a type with 16-byte alignment is packed can not be told from DWARF when its size is a multiple of 16. */
        while (is_packed && is_wide(types[member->type].name))
            member->type = (int)below((unsigned)scalar_count);
        if (!is_packed && below(6) == 0 && type_count > scalar_count)
            member->type = scalar_count + (int)below((unsigned)(type_count - scalar_count));
        else if (below(6) == 0 && types[member->type].kind == 'i' && !strstr(types[member->type].name, "128"))
            member->bits = 1 + below(8);
        if (!member->bits && below(8) == 0)
            member->count = 1 + below(3);
    }
    printf("%s {\n", type->name);
    for (unsigned i = 0; i < type->member_count; i++)
        declare_member(&type->members[i], i);
    printf("}%s;\n", is_packed ? " __attribute__((packed))" : "");
    return type_count++;
}

/* ---- values ---- */

static void value(int index)
{
    const struct type *type = &types[index];
    switch (type->kind) {
    case 'i':
        printf("%d", (int)below(120) + 1);
        break;
    case 'b':
        printf("1");
        break;
    case 'e':
        printf("GREEN");
        break;
    case 'p':
        printf("(void *)0x%x", below(1 << 30));
        break;
    case 'f':
        printf("%u.5", below(1000));
        break;
    case 'c':
        printf("%u.25 + %u.75i", below(1000), below(1000));
        break;
    case 'v':
        printf("{%u, %u}", below(1000), below(1000));
        break;
    default:
        printf("{");
        for (unsigned i = 0; i < (type->kind == 'u' ? 1 : type->member_count); i++) {
            const struct member *member = &type->members[i];
            printf(i ? ", " : "");
            if (member->bits) {
                printf("%u", below(1u << (member->bits - (member->bits > 1))));
                continue;
            }
            if (member->count)
                printf("{");
            for (unsigned k = 0; k < (member->count ? member->count : 1); k++) {
                printf(k ? ", " : "");
                value(member->type);
            }
            if (member->count)
                printf("}");
        }
        printf("}");
    }
}

static int any_type(void)
{
    if (below(3) == 0 && type_count < MAX_TYPES - 1)
        return add_struct();
    if (below(4) == 0 && type_count > scalar_count)
        return scalar_count + (int)below((unsigned)(type_count - scalar_count));
    return (int)below((unsigned)scalar_count);
}

/* ---- the program ---- */

static const char head[] =
    "#include <stdio.h>\n"
    "#include <string.h>\n"
    "enum color { RED, GREEN = 7, BLUE };\n"
    "typedef int (*callback)(int);\n"
    "typedef int v4si __attribute__((vector_size(16)));\n"
    "typedef float v2sf __attribute__((vector_size(8)));\n"
    "struct state { unsigned long long regs[16]; unsigned char fx[512]; unsigned char stack[512]; };\n"
    "struct state state __attribute__((aligned(64)));\n"
    "unsigned char armed;\n"
    "static unsigned char buffer[4096] __attribute__((aligned(64)));\n"
    "#define QUIET __attribute__((no_instrument_function))\n"
    "void capture(void (*function)(void), void *result);\n"
    "static volatile int sink;\n"
    "QUIET static void hex(const char *what, const void *from, unsigned size)\n"
    "{ printf(\"%s \", what); for (unsigned i = 0; i < size; i++) printf(\"%02x\", ((const unsigned char *)from)[i]); printf(\"\\n\"); }\n";

static const char stubs_64[] =
    "__asm__(\".globl __fentry__\\n__fentry__: cmpb $0, armed(%rip)\\n jne 1f\\n ret\\n1: movb $0, armed(%rip)\\n\"\n"
    "    \" movq %rax, state(%rip)\\n movq %rdx, state+8(%rip)\\n movq %rcx, state+16(%rip)\\n movq %rbx, state+24(%rip)\\n\"\n"
    "    \" movq %rsi, state+32(%rip)\\n movq %rdi, state+40(%rip)\\n movq %rbp, state+48(%rip)\\n leaq 8(%rsp), %rsi\\n movq %rsi, "
    "state+56(%rip)\\n\"\n"
    "    \" movq %r8, state+64(%rip)\\n movq %r9, state+72(%rip)\\n fxsave64 state+128(%rip)\\n leaq state+640(%rip), %rdi\\n movl $64, "
    "%ecx\\n\"\n"
    "    \" rep movsq\\n movq state+16(%rip), %rcx\\n movq state+32(%rip), %rsi\\n movq state+40(%rip), %rdi\\n ret\\n\"\n"
    "    \".globl capture\\ncapture: pushq %rbp\\n movq %rsp, %rbp\\n movq %rdi, %rax\\n movq %rsi, %rdi\\n call *%rax\\n movq %rax, "
    "state(%rip)\\n\"\n"
    "    \" movq %rdx, state+8(%rip)\\n fxsave64 state+128(%rip)\\n fninit\\n leave\\n ret\\n\");\n";

static const char stubs_32[] =
    "__asm__(\".globl __fentry__\\n__fentry__: cmpb $0, armed\\n jne 1f\\n ret\\n1: movb $0, armed\\n\"\n"
    "    \" movl %eax, state\\n movl %ecx, state+8\\n movl %edx, state+16\\n movl %ebx, state+24\\n movl %ebp, state+40\\n movl %esi, "
    "state+48\\n\"\n"
    "    \" movl %edi, state+56\\n leal 4(%esp), %esi\\n movl %esi, state+32\\n fxsave state+128\\n movl $state+640, %edi\\n movl $128, "
    "%ecx\\n\"\n"
    "    \" rep movsl\\n movl state+8, %ecx\\n movl state+48, %esi\\n movl state+56, %edi\\n ret\\n\"\n"
    "    \".globl capture\\ncapture: pushl %ebp\\n movl %esp, %ebp\\n andl $-16, %esp\\n subl $16, %esp\\n movl 12(%ebp), %eax\\n\"\n"
    "    \" movl %eax, (%esp)\\n movl 8(%ebp), %eax\\n call *%eax\\n movl %eax, state\\n movl %edx, state+16\\n fxsave state+128\\n "
    "fninit\\n\"\n"
    "    \" leave\\n ret\\n\");\n";

static void function(unsigned index)
{
    int parameters[16], result = any_type();
    unsigned count = below(below(4) ? 8 : 15);
    for (unsigned i = 0; i < count; i++) {
        parameters[i] = any_type();
        printf("static const %s e%u_%u = ", types[parameters[i]].name, index, i);
        value(parameters[i]);
        printf(";\n");
    }
    printf("static const %s e%u = ", types[result].name, index);
    value(result);
    printf(";\n__attribute__((noipa)) %s f%u(", types[result].name, index);
    for (unsigned i = 0; i < count; i++)
        printf("%s%s p%u", i ? ", " : "", types[parameters[i]].name, i);
    printf("%s)\n{\n    unsigned char sum = 0;\n", count ? "" : "void");
    for (unsigned i = 0; i < count; i++)
        printf("    for (unsigned i = 0; i < sizeof p%u; i++) sum ^= ((unsigned char *)&p%u)[i];\n", i, i);
    printf("    sink += sum;\n    return e%u;\n}\n", index);
    printf("__attribute__((noipa)) %s r%u(void) { return e%u; }\n", types[result].name, index, index);
    printf("QUIET static void c%u(void)\n{\n    memset(&state, 0, sizeof state);\n    armed = 1;\n    f%u(", index, index);
    for (unsigned i = 0; i < count; i++)
        printf("%se%u_%u", i ? ", " : "", index, i);
    printf(");\n    printf(\"call %u\\n\");\n    hex(\"state\", &state, sizeof state);\n", index);
    for (unsigned i = 0; i < count; i++)
        printf("    hex(\"value %u\", &e%u_%u, sizeof e%u_%u);\n", i, index, i, index, i);
    printf("    memset(&state, 0, sizeof state);\n    memset(buffer, 0, sizeof buffer);\n    capture((void (*)(void))r%u, buffer);\n",
           index);
    printf("    printf(\"ret %u\\n\");\n    hex(\"state\", &state, sizeof state);\n    hex(\"value 0\", &e%u, sizeof e%u);\n", index, index,
           index);
    printf("    printf(\"buffer %%lx \", (unsigned long)buffer);\n    hex(\"\", buffer, sizeof e%u);\n}\n", index);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: calls COUNT SEED WIDTH\n");
        return 2;
    }
    unsigned count = (unsigned)atoi(argv[1]);
    state = strtoull(argv[2], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
    width = atoi(argv[3]);
    printf("%s%s", head, width == 64 ? stubs_64 : stubs_32);
    add_scalars();
    for (unsigned i = 0; i < count; i++)
        function(i);
    printf("QUIET int main(void)\n{\n");
    for (unsigned i = 0; i < count; i++)
        printf("    c%u();\n", i);
    printf("    return 0;\n}\n");
    return 0;
}
