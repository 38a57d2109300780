/* Layout of C declarations in scripts equals gcc's, for both models: the same text is compiled with -m64 and -m32 into a table of sizes
 * and offsets, which is compared with what script/ computes. Bit-fields: gcc's program sets each to all ones in a zeroed object and
 * prints the first bit that is set and how many are. With arguments it prints instead, for script_layout_random.sh:
 *
 *   --layout FILE BITS COUNT  types t0 to tCOUNT-1 of the declarations in the file, in the form of test/layout/generate.c
 *
 * timeout: 120 */
#include "base/memory.h"
#include "script/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char declarations[] =
    "typedef unsigned long ulong_t; typedef long long big __attribute__((aligned(16)));\n"
    "typedef struct { char c; long l; } pair_t; typedef pair_t pairs_t[3]; typedef int (*handler_t)(int, void *);\n"
    "enum color { RED, GREEN = 5, BLUE }; enum tiny { T0, T1 } __attribute__((packed)); enum wide { W0, W1 = 0x100000000 };\n"
    "struct s0 { char a; short b; int c; long d; long long e; double f; long double g; float h; char *p; };\n"
    "struct s1 { long long a; char b; }; struct s2 { struct s1 a[2]; char z; }; struct s3 { char a; struct { int x; union { char y; long "
    "long w; }; }; char b; };\n"
    "struct s4 { int a : 3; int b : 5; unsigned c : 20; int d : 10; char e; }; struct s5 { char a; int b : 9; long long c : 33; char d : "
    "2; };\n"
    "struct s6 { long long a : 40; long long b : 40; int c : 1; }; struct s7 { char a; int : 0; char b; int c : 4; short : 0; char d; };\n"
    "struct s8 { char a; int b; short c; } __attribute__((packed)); struct s9 { int a : 3; int b : 31; char c; long long d : 50; } "
    "__attribute__((packed));\n"
    "struct s10 { char a; int b __attribute__((aligned(16))); char c; }; struct s11 { char a; } __attribute__((aligned(8)));\n"
    "union u0 { char a; int b[3]; long long c; double d; }; union u1 { int a : 5; char b; long c : 20; };\n"
    "struct s12 { int n; char rest[]; }; struct s13 { int (*f)(int); int (*g[3])(void); char *(*h)(char *); handler_t i; char j; };\n"
    "struct s14 { enum color a; enum tiny b; enum wide c; char d; }; struct s15 { pairs_t a; ulong_t b : 7; big c; };\n"
    "struct s16 { _Bool a : 1; _Bool b : 1; unsigned char c : 7; unsigned short d : 9; }; struct s17 { char a[3]; struct s8 b; int c; };\n"
    "struct s18 { const char *const a; volatile int b; signed char c; unsigned short int d; long unsigned int e; };\n"
    "struct s19 { char a; int b __attribute__((packed)); char c; int d : 9 __attribute__((packed)); }; struct s20 { int a[2][3]; char "
    "b[sizeof(long)]; char c[1 << 3]; };\n"
    "struct s21 { int a : 8; int : 7; int b : 8; int : 20; int c : 8; }; struct s22 { char a; long long : 0; char b; }; struct s23 { char "
    "a; long long : 5; char b; };\n"
    "struct s24 { struct s24 *next; struct unknown *other; union { struct { int a, b; }; long c; } in[2]; };\n"
    "struct s25 { short a : 3; int b : 20; short c : 14; long long d : 3; char e : 8; char f : 1; int g : 32; };\n"
    "struct s26 { char a; _Alignas(8) char b; long double c; }; struct s27 { char a; long double b[2]; }; union u2 { struct s9 a; char "
    "b[3]; } __attribute__((packed));\n";

/* TYPE member...; a leading : marks a bit-field, typed by its declaration. */
static const char *const wanted[] = {
    "s0 a b c d e f g h p",
    "s1 a b",
    "s2 a z",
    "s3 a x y w b",
    "s4 :a :b :c :d e",
    "s5 a :b :c :d",
    "s6 :a :b :c",
    "s7 a b :c d",
    "s8 a b c",
    "s9 :a :b c :d",
    "s10 a b c",
    "s11 a",
    "s12 n rest",
    "s13 f g h i j",
    "s14 a b c d",
    "s15 a :b c",
    "s16 :a :b :c :d",
    "s17 a b c",
    "s18 a b c d e",
    "s19 a b c :d",
    "s20 a b c",
    "s21 :a :b :c",
    "s22 a b",
    "s23 a b",
    "s24 next other in",
    "s25 :a :b :c :d :e :f :g",
    "s26 a b c",
    "s27 a b",
    "u0 a b c d",
    "u1 :a b :c",
    "u2 a b",
};

static const char *keyword(const char *name)
{
    return name[0] == 'u' ? "union" : "struct";
}

/* Lines: TYPE size; TYPE.member first-bit bits. */
static char *ours(enum script_model model)
{
    struct script_options options = {.name = "layout"};
    char *text = memory_format("%s\nBEGIN { }", declarations), *result = NULL;
    size_t size;
    FILE *out = open_memstream(&result, &size);
    struct script_program *program = script_parse(text, strlen(text), &options);
    char *diagnostics = script_diagnostics(program);
    fputs(diagnostics, out);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char line[200], *rest = NULL;
        snprintf(line, sizeof line, "%s", wanted[i]);
        const char *tag = strtok_r(line, " ", &rest);
        char *name = memory_format("%s %s", keyword(tag), tag);
        const struct script_type *type = script_types_find(script_program_types(program, model), name);
        free(name);
        if (!type) {
            fprintf(out, "%s is missing\n", tag);
            continue;
        }
        fprintf(out, "%s %llu\n", tag, (unsigned long long)type->bytes);
        for (char *member = strtok_r(NULL, " ", &rest); member; member = strtok_r(NULL, " ", &rest)) {
            struct script_member found = {0};
            if (!script_type_member(type, member + (member[0] == ':'), &found))
                fprintf(out, "%s.%s is missing\n", tag, member);
            else if (member[0] == ':')
                fprintf(out, "%s.%s %llu %u\n", tag, member + 1, (unsigned long long)found.offset * 8 + found.bit_offset, found.bit_size);
            else
                fprintf(out, "%s.%s %llu %llu\n", tag, member, (unsigned long long)found.offset * 8,
                        (unsigned long long)found.type->bytes * 8);
        }
    }
    script_destroy(program);
    free(diagnostics);
    free(text);
    fclose(out);
    return result;
}

static char *gcc(const char *folder, int bits)
{
    char *source = memory_format("%s/layout%d.c", folder, bits), *program = memory_format("%s/layout%d", folder, bits);
    FILE *file = fopen(source, "we");
    fprintf(file, "%s\n#define offsetof(t, m) __builtin_offsetof(t, m)\nint printf(const char *, ...);\n", declarations);
    fprintf(file, "static void bits(const char *name, const unsigned char *at, unsigned size) { unsigned first = 0, n = 0;\n"
                  "for (unsigned i = 0; i < size * 8; i++) if (at[i / 8] >> i %% 8 & 1) { if (!n) first = i; n++; }\n"
                  "printf(\"%%s %%u %%u\\n\", name, first, n); }\nint main(void) {\n");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        char line[200], *rest = NULL;
        snprintf(line, sizeof line, "%s", wanted[i]);
        const char *tag = strtok_r(line, " ", &rest);
        fprintf(file, "{ printf(\"%s %%lu\\n\", (unsigned long)sizeof(%s %s));\n", tag, keyword(tag), tag);
        for (char *member = strtok_r(NULL, " ", &rest); member; member = strtok_r(NULL, " ", &rest)) {
            const char *kind = keyword(tag);
            if (member[0] == ':')
                fprintf(file,
                        "{ static union { %s %s x; unsigned char b[sizeof(%s %s)]; } v; v.x.%s = -1; bits(\"%s.%s\", v.b, sizeof v.b); }\n",
                        kind, tag, kind, tag, member + 1, tag, member + 1);
            else if (strcmp(member, "rest") == 0)
                fprintf(file, "printf(\"%s.rest %%lu 0\\n\", (unsigned long)offsetof(%s %s, rest) * 8);\n", tag, kind, tag);
            else
                fprintf(file,
                        "printf(\"%s.%s %%lu %%lu\\n\", (unsigned long)offsetof(%s %s, %s) * 8, (unsigned long)sizeof(((%s %s *)0)->%s) * "
                        "8);\n",
                        tag, member, kind, tag, member, kind, tag, member);
        }
        fprintf(file, "}\n");
    }
    fprintf(file, "return 0; }\n");
    fclose(file);
    char *command = memory_format("gcc -w -m%d -o %s %s && %s", bits, program, source, program);
    FILE *pipe = popen(command, "re");
    char *text = memory_zero(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, pipe);
    bool failed = pclose(pipe) != 0 || n == 0;
    unlink(source);
    unlink(program);
    free(source);
    free(program);
    free(command);
    if (failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- printing ---- */

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *text = NULL;
    size_t room = 0;
    ssize_t n = file ? getdelim(&text, &room, '\0', file) : -1;
    if (file)
        fclose(file);
    if (n >= 0)
        return text;
    free(text);
    return NULL;
}

/* Each name in the order of the declaration; what is printed of it is what looking it up in `type` finds. */
static void print_members(const char *owner, const struct script_type *type, const struct script_record *record)
{
    for (size_t i = 0; i < record->n_members; i++) {
        const char *name = record->members[i].name;
        struct script_member found = {0};
        if (!name)
            print_members(owner, type, record->members[i].type->record);
        else if (!script_type_member(type, name, &found))
            printf("member %s %s is missing\n", owner, name);
        else
            printf("member %s %s %llu %u %u %llu\n", owner, name, (unsigned long long)found.offset, found.bit_offset, found.bit_size,
                   found.bit_size ? 0 : (unsigned long long)found.type->bytes);
    }
}

static int print_layout(const char *path, const char *bits, int count)
{
    struct script_options options = {.name = path, .no_files = true};
    char *types = read_file(path), *text = memory_format("%s\nBEGIN { }\n", types ? types : "");
    struct script_program *program = script_parse(text, strlen(text), &options);
    char *diagnostics = script_diagnostics(program);
    fputs(diagnostics, stdout);
    int errors = !types || script_errors(program);
    for (int i = 0; i < count && !errors; i++) {
        char name[32], *tag;
        snprintf(name, sizeof name, "%s t%d", i % 4 == 3 ? "union" : "struct", i);
        tag = strchr(name, ' ') + 1;
        const struct script_type *type =
            script_types_find(script_program_types(program, strcmp(bits, "32") == 0 ? SCRIPT_ILP32 : SCRIPT_LP64), name);
        if (!type) {
            printf("type %s is missing\n", tag);
            continue;
        }
        printf("type %s %llu\n", tag, (unsigned long long)type->bytes);
        print_members(tag, type, type->record);
    }
    script_destroy(program);
    free(diagnostics);
    free(text);
    free(types);
    return errors != 0;
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--layout") == 0)
        return print_layout(argv[2], argv[3], atoi(argv[4]));
    char folder[] = "/tmp/script_layout_XXXXXX";
    int failures = 0, lines = 0;
    if (!mkdtemp(folder))
        return 1;
    for (int model = 0; model < SCRIPT_MODELS; model++) {
        int bits = model == SCRIPT_ILP32 ? 32 : 64;
        char *theirs = gcc(folder, bits);
        if (!theirs) {
            rmdir(folder);
            printf("gcc -m%d does not work here\n", bits);
            return 77;
        }
        char *mine = ours((enum script_model)model), *rest_a = NULL, *rest_b = NULL;
        char *a = strtok_r(theirs, "\n", &rest_a), *b = strtok_r(mine, "\n", &rest_b);
        while (a || b) {
            lines++;
            if (!a || !b || strcmp(a, b) != 0) {
                failures++;
                printf("%d bits: gcc has '%s', script has '%s'\n", bits, a ? a : "", b ? b : "");
            }
            a = a ? strtok_r(NULL, "\n", &rest_a) : NULL;
            b = b ? strtok_r(NULL, "\n", &rest_b) : NULL;
        }
        free(theirs);
        free(mine);
    }
    rmdir(folder);
    printf("%d lines compared, %d differ\n", lines, failures);
    return failures != 0;
}
