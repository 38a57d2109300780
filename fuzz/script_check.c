/* Random scripts, parsed and checked for both models. Build with -fsanitize=address,undefined.
 *
 *   script_check [--runs N] [--seed S] [FILE]
 *
 * Half of the scripts are words of the language in random order, half are good scripts with random changes. Besides what the sanitizers
 * see, a run fails when a finished tree has a node without a type, or a script with errors gives a tree. */
#include "script/script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static size_t below(size_t limit) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (size_t)(state * 0x2545f4914f6cdd1d >> 33) % limit;
}

static const char *const words[] = {"BEGIN",
                                    "uprobe:/a:f",
                                    "uretprobe:/a:f",
                                    "{",
                                    "}",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    ";",
                                    ",",
                                    "/",
                                    "*",
                                    "&",
                                    "+",
                                    "-",
                                    "!",
                                    "~",
                                    "=",
                                    "==",
                                    "+=",
                                    "<<",
                                    "?",
                                    ":",
                                    "..",
                                    "$x",
                                    "$y",
                                    "@",
                                    "@m",
                                    "@n[",
                                    "1",
                                    "0x10",
                                    "5s",
                                    "1.5",
                                    "\"%d %s\"",
                                    "\"a\"",
                                    "printf(",
                                    "print(",
                                    "count()",
                                    "hist(",
                                    "lhist(1,0,10,1)",
                                    "str(",
                                    "buf(",
                                    "if",
                                    "else",
                                    "while",
                                    "for",
                                    "unroll(3)",
                                    "let",
                                    "return",
                                    "break",
                                    "macro m(a, $b)",
                                    "m(",
                                    "sizeof(",
                                    "offsetof(struct s, a)",
                                    "struct s",
                                    "int",
                                    "long",
                                    "(struct s *)",
                                    "(uint8[8])",
                                    "arg0",
                                    "retval",
                                    "args.x",
                                    "->",
                                    ".a",
                                    ".0",
                                    "pid",
                                    "comm",
                                    "nsecs",
                                    "++",
                                    "--",
                                    "&&",
                                    "||",
                                    "struct s { int a; long b : 3; };",
                                    "typedef",
                                    "enum e { A, B };",
                                    "union",
                                    "char",
                                    "__attribute__((packed))",
                                    "delete(",
                                    "has_key(",
                                    "clear(",
                                    "self->t",
                                    "true",
                                    "$1",
                                    "getopt(\"x\", 1)",
                                    "config = { max_strlen = 10 }",
                                    "let @m = hash(5);",
                                    "//",
                                    "/*",
                                    "*/",
                                    "\n",
                                    "\\",
                                    "'",
                                    "%",
                                    "<",
                                    ">",
                                    "a",
                                    "b",
                                    "strftime(\"%H\", nsecs)",
                                    "ntop(",
                                    "comptime"};

static const char *const good[] = {
    "struct s { int a; long b; char name[8]; struct { short c; } in; unsigned x : 3; long long y : 40; int arr[4]; struct s *next; };\n"
    "uprobe:/a:f /pid == 5 && comm == \"x\"/ { $f = (struct s *)arg0; printf(\"%d %s\", $f->a, $f->name); @[comm, pid] = count(); @p = $f; "
    "@x++; }\n"
    "uretprobe:/a:f { @h = hist(@p->b + retval); for ($kv : @) { print($kv.0.1); } $t = (1, \"a\", $f); }",
    "macro m(a, $b) { $b += a; a + 1 }\nmacro n(a) { m(a, $q) }\nBEGIN { $q = 1; $z = m(3, $q); print($z); let $w: int8 = 5; "
    "print((1,2).1); print({ let $k = 1; $k }); }",
    "typedef struct { union { int a; char b[4]; }; enum { X, Y = 3 } e : 4; int (*f)(int); } t; BEGIN { print(offsetof(t, b)); "
    "print(sizeof(t)); }\n"
    "interval:s:1 { @a[1] = 5; @b = @a[1] ? 1 : 2; if (@b > 1) { @b <<= 2; } else { exit(1); } $i = 0; while ($i < 3) { $i++; } unroll(2) "
    "{ @c = sum(1); } clear(@a); }",
    "usdt:/a:p:n { @s = str(arg0); @d = buf(arg1, 8); printf(\"%-5.3d %r %%\", arg2, @d); self->x = nsecs; @t = self->x + 1; @l = "
    "lhist(arg0, 0, 100, 5); print(@l, 3, 2); }",
};

static size_t make(char *text, size_t room)
{
    size_t n = 0;
    if (below(2)) {
        for (size_t left = below(60); left > 0; left--) {
            const char *word = words[below(sizeof words / sizeof *words)];
            size_t length = strlen(word);
            if (n + length + 1 >= room)
                break;
            memcpy(text + n, word, length);
            n += length;
            text[n++] = ' ';
        }
        return n;
    }
    const char *base = good[below(sizeof good / sizeof *good)];
    n = strlen(base);
    memcpy(text, base, n);
    for (size_t changes = below(6); changes > 0; changes--) {
        size_t at = below(n), length = below(8);
        if (at + length > n)
            length = n - at;
        if (below(3) == 0) {
            text[at] = (char)below(256);
        } else if (below(2)) {
            memmove(text + at, text + at + length, n - at - length);
            n -= length;
        } else {
            const char *word = words[below(sizeof words / sizeof *words)];
            length = strlen(word);
            if (n + length >= room)
                continue;
            memmove(text + at + length, text + at, n - at);
            memcpy(text + at, word, length);
            n += length;
        }
        if (n == 0)
            break;
    }
    return n;
}

static bool is_whole(const struct script_stmt *stmt);

static bool expr_is_whole(const struct script_expr *expr)
{
    if (!expr)
        return true;
    if (!expr->type || expr->type->kind == SCRIPT_T_UNKNOWN)
        return false;
    for (size_t i = 0; i < expr->n_list; i++)
        if (!expr->list[i] || !expr_is_whole(expr->list[i]))
            return false;
    return expr_is_whole(expr->left) && expr_is_whole(expr->right) && expr_is_whole(expr->condition) && expr_is_whole(expr->target) &&
           expr_is_whole(expr->key) && is_whole(expr->body);
}

static bool is_whole(const struct script_stmt *stmt)
{
    for (; stmt; stmt = stmt->next)
        if (!expr_is_whole(stmt->target) || !expr_is_whole(stmt->value) || !expr_is_whole(stmt->condition) || !expr_is_whole(stmt->low) ||
            !expr_is_whole(stmt->high) || !expr_is_whole(stmt->weight) || !is_whole(stmt->body) || !is_whole(stmt->other))
            return false;
    return true;
}

/* 1: checked without errors, 0: with errors, -1: a bug. */
static int run(const char *text, size_t length)
{
    struct script_options options = {.name = "fuzz", .no_files = true, .allow_unsafe = true};
    struct script_program *program = script_parse(text, length, &options);
    struct script_context contexts[16];
    size_t n = 0;
    int result = 0;
    for (int model = 0; model < SCRIPT_MODELS; model++)
        for (size_t i = 0; i < script_n_clauses(program) && i < 8; i++)
            contexts[n++] = (struct script_context){.clause = i, .model = (enum script_model)model};
    size_t errors = script_check(program, contexts, n);
    for (size_t i = 0; i < n; i++) {
        const struct script_checked *checked = contexts[i].checked;
        if ((checked != NULL) != (errors == 0) || (checked && (!is_whole(checked->body) || !expr_is_whole(checked->predicate))))
            result = -1;
        if (checked)
            free(script_dump(program, checked));
    }
    if (result == 0)
        result = errors == 0;
    free(script_diagnostics(program));
    script_destroy(program);
    return result;
}

int main(int argc, char **argv)
{
    uint64_t runs = 20000, passed = 0;
    static char text[1 << 16];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc) {
            runs = strtoull(argv[++i], NULL, 0);
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            state = strtoull(argv[++i], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
        } else {
            FILE *file = fopen(argv[i], "re");
            if (!file)
                return 1;
            size_t length = fread(text, 1, sizeof text, file);
            fclose(file);
            printf("%d\n", run(text, length));
            return 0;
        }
    }
    for (uint64_t i = 0; i < runs; i++) {
        size_t length = make(text, sizeof text / 2);
        char *exact = malloc(length + 1); /* so that a read past its end is seen */
        memcpy(exact, text, length);
        int result = run(exact, length);
        if (result < 0) {
            fprintf(stderr, "FAIL: the tree of this script is not whole:\n%.*s\n", (int)length, text);
            return 1;
        }
        passed += result;
        free(exact);
    }
    printf("%llu scripts, %llu without errors\n", (unsigned long long)runs, (unsigned long long)passed);
    return 0;
}
