/* USDT argument strings by hand-made cases; the notes of v_usdt in both widths and of system programs against what the sources and the
 * files say. With a FILE it prints the probes in the form of `readelf -n`, for symbol_usdt_notes.sh. */
#include "symbol/symbol.h"
#include "symbol/usdt.h"
#include "test/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- argument strings ---- */

static void print_arg(const struct symbol_usdt_arg *arg, char *out, size_t room)
{
    size_t at = (size_t)snprintf(out, room, "%s%u%s ", arg->is_signed ? "-" : "", arg->size_bytes, arg->is_float ? "f" : "");
    switch (arg->kind) {
    case SYMBOL_USDT_CONST:
        snprintf(out + at, room - at, "const %" PRId64, arg->value);
        break;
    case SYMBOL_USDT_REGISTER:
        at += (size_t)snprintf(out + at, room - at, "r%d", arg->reg);
        if (arg->reg_high != SYMBOL_NO_REG)
            at += (size_t)snprintf(out + at, room - at, ":r%d", arg->reg_high);
        if (arg->reg_shift)
            snprintf(out + at, room - at, ">>%u", arg->reg_shift);
        break;
    case SYMBOL_USDT_MEMORY:
        at += (size_t)snprintf(out + at, room - at, "[%" PRId64, arg->value);
        if (arg->reg != SYMBOL_NO_REG)
            at += (size_t)snprintf(out + at, room - at, "+r%d", arg->reg);
        if (arg->index != SYMBOL_NO_REG)
            at += (size_t)snprintf(out + at, room - at, "+r%d*%u", arg->index, arg->scale);
        if (arg->symbol)
            at += (size_t)snprintf(out + at, room - at, "+%.*s%s", (int)arg->symbol_size, arg->symbol, arg->is_got_offset ? "-got" : "");
        snprintf(out + at, room - at, "]");
        break;
    default:
        snprintf(out + at, room - at, "unknown");
    }
}

static void parse(int width, const char *text, const char *want)
{
    struct symbol_usdt_arg args[SYMBOL_USDT_MAX_ARGS];
    char got[1024] = "", one[160];
    size_t count = symbol_usdt_parse(text, width, args);
    for (size_t i = 0; i < count; i++) {
        print_arg(&args[i], one, sizeof one);
        strcat(got, i ? ", " : "");
        strcat(got, one);
        CHECK((args[i].kind == SYMBOL_USDT_UNKNOWN) == (args[i].reason != NULL), "%s", text);
    }
    CHECK(strcmp(got, want) == 0, "'%s' is '%s', wanted '%s'", text, got, want);
}

static void strings(void)
{
    parse(64, "-4@%edi 8@-16(%rbp)", "-4 r5, 8 [-16+r6]");
    parse(64, "4@$5 -8@$-1 8@$0x7fffffffffffffff 8@$-9223372036854775808",
          "4 const 5, -8 const -1, 8 const 9223372036854775807, 8 const -9223372036854775808");
    parse(64, "8@table+8(%rip) 4@table(%rip) 8@8+table(%rip) -2@table-4(%rip)", "8 [8+table], 4 [0+table], 8 [8+table], -2 [-4+table]");
    parse(64, "8f@%xmm0 4f@%xmm15 8f@8(%rsp) 8@%xmm16", "8f r17, 4f r32, 8f [8+r7], 8 unknown");
    parse(64, "1@%ah 1@%bh 1@%sil 2@%r10w 1@%r15b", "1 r0>>8, 1 r3>>8, 1 r4, 2 r10, 1 r15");
    parse(64, "8@(%rax,%rbx) 4@4(%rax,%r9,8) 4@(,%rcx,4) 8@0x10(%rdi)", "8 [0+r0+r3*1], 4 [4+r0+r9*8], 4 [0+r2*4], 8 [16+r5]");
    parse(64, "%rdi (%rsi) $7", "8 r5, 8 [0+r4], 8 const 7");
    parse(64, "8@16(%rip) 8@%fs:40 8@%rip 8@(%rip,%rax)", "8 unknown, 8 unknown, 8 unknown, 8 unknown");
    parse(64, "8@4(%eax)", "8 [4+r0]");
    parse(64, "3@%eax 8@ 8@$ 8@% 8@(%rax 8@(%rax,%rbx,3) 8@4( 9999999999999999999999@%eax",
          "8 unknown, 8 unknown, 8 unknown, 8 unknown, 8 unknown, 8 unknown, 8 unknown, 8 unknown");
    parse(64, "8@$99999999999999999999 8@a+b(%rip) 8@-a(%rip) 8@%rax,%rbx 8f8@%rax",
          "8 unknown, 8 unknown, 8 unknown, 8 unknown, 8f unknown");
    parse(64, "", "");
    parse(64, "   ", "");
    parse(32, "-4@8(%esp,%eax,4) 4@%edx 4@%rax 1@%sil", "-4 [8+r4+r0*4], 4 r2, 4 unknown, 1 unknown");
    parse(32, "-8@%ecx 8@%eax 8f@24(%esp) 4@counter 4@counter+4", "-8 r1:r3, 8 r0:r2, 8f [24+r4], 4 [0+counter], 4 [4+counter]");
    parse(32, "-4@v@GOTOFF(%ebx) 4@v@GOTOFF+8(%ebx) 4@v@GOTOFF 4@v@GOT(%ebx)", "-4 [0+r3+v-got], 4 [8+r3+v-got], 4 unknown, 4 unknown");
    parse(32, "1@%ch 4f@%xmm7 4f@%xmm8", "1 r1>>8, 4f r28, 4f unknown");
    parse(64, "1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al 1@%al",
          "1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0, 1 r0");
}

/* ---- notes ---- */

static const struct symbol_usdt_probe *find(const struct symbol_usdt *usdt, const char *name)
{
    size_t count;
    const struct symbol_usdt_probe *probes = symbol_usdt_probes(usdt, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(probes[i].name, name) == 0)
            return &probes[i];
    return NULL;
}

static void victim(const char *path, int width)
{
    struct symbol_usdt *usdt;
    struct symbol_file *file;
    struct err *error = symbol_usdt_open(path, &usdt);
    CHECK(!error, "%s", error ? error->message : "");
    if (error || (error = symbol_file_open(path, &file))) {
        err_free(error);
        return;
    }
    CHECK(symbol_usdt_width(usdt) == width, "%s", path);
    static const struct {
        const char *name, *function;
        size_t args;
    } wanted[] = {{"plain", "plain", 2}, {"mixed", "mixed", 7}, {"guarded", "guarded", 3}, {"none", "main", 0}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const struct symbol_usdt_probe *probe = find(usdt, wanted[i].name);
        CHECK(probe, "%s: %s", path, wanted[i].name);
        if (!probe)
            continue;
        const struct symbol_func *func = symbol_file_func_at(file, probe->va);
        size_t available;
        const uint8_t *code = symbol_file_text(file, probe->va, &available);
        CHECK(func && strcmp(func->name, wanted[i].function) == 0, "%s is in %s", wanted[i].name, func ? func->name : "nothing");
        CHECK(code && code[0] == 0x90, "%s: no NOP there", wanted[i].name);
        CHECK(strcmp(probe->provider, "v_usdt") == 0 && probe->semaphore_va, "%s", wanted[i].name);
        CHECK(probe->arg_count == wanted[i].args, "%s has %zu arguments", wanted[i].name, probe->arg_count);
        for (size_t k = 0; k < probe->arg_count; k++)
            CHECK(probe->args[k].kind != SYMBOL_USDT_UNKNOWN, "%s: argument %zu: %s", wanted[i].name, k, probe->args[k].reason);
    }
    const struct symbol_usdt_probe *mixed = find(usdt, "mixed");
    if (mixed && mixed->arg_count == 7) {
        CHECK(mixed->args[3].kind == SYMBOL_USDT_CONST && mixed->args[3].value == -5 && mixed->args[3].size_bytes == 2, "%s", path);
        CHECK(mixed->args[4].is_float && mixed->args[4].size_bytes == 8, "%s", path);
        CHECK(mixed->args[6].kind == SYMBOL_USDT_CONST && mixed->args[6].value == 12345, "%s", path);
    }
    symbol_file_close(file);
    symbol_usdt_close(usdt);
}

static void bad_files(void)
{
    struct symbol_usdt *usdt;
    struct err *error = symbol_usdt_open("/nonexistent", &usdt);
    CHECK(error && error->code == ERR_NO_MATCH && !usdt, "no such file");
    err_free(error);
    error = symbol_usdt_open("/etc/passwd", &usdt);
    CHECK(error && error->code == ERR_FILE && !usdt, "not ELF");
    err_free(error);
    error = symbol_usdt_open("/bin/true", &usdt);
    size_t count = 1;
    if (!error)
        symbol_usdt_probes(usdt, &count);
    CHECK(!error && !count, "no probes");
    symbol_usdt_close(usdt);
}

static int print(const char *path)
{
    struct symbol_usdt *usdt;
    struct err *error = symbol_usdt_open(path, &usdt);
    if (error) {
        printf("error %d %s\n", error->code, error->message);
        err_free(error);
        return 1;
    }
    size_t count;
    const struct symbol_usdt_probe *probes = symbol_usdt_probes(usdt, &count);
    for (size_t i = 0; i < count; i++) {
        printf("%s:%s 0x%0*" PRIx64 " 0x%0*" PRIx64 " %s", probes[i].provider, probes[i].name, symbol_usdt_width(usdt) / 4, probes[i].va,
               symbol_usdt_width(usdt) / 4, probes[i].semaphore_va, probes[i].arguments);
        for (size_t k = 0; k < probes[i].arg_count; k++) {
            const struct symbol_usdt_arg *arg = &probes[i].args[k];
            if (arg->kind == SYMBOL_USDT_UNKNOWN)
                printf(" {%zu: %s}", k, arg->reason);
            if (arg->symbol)
                printf(" {%.*s %s %" PRIx64 "}", (int)arg->symbol_size, arg->symbol, arg->is_file_va ? "at" : "off", (uint64_t)arg->value);
        }
        puts("");
    }
    symbol_usdt_close(usdt);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return print(argv[1]);
    strings();
    victim("build/victim/64/v_usdt", 64);
    victim("build/victim/32/v_usdt", 32);
    bad_files();
    if (!failures)
        puts("ok");
    return failures != 0;
}
