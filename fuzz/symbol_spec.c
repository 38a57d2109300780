/* Random specifications, matched with random names. Build with -fsanitize=address,undefined.
 *
 *   symbol_spec [--runs N] [--seed S]
 *
 * Besides what the sanitizers see, a run fails when a parsed specification does not match the name and path that it spells out. */
#include "symbol/spec.h"

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

static void random_text(char *text, size_t room)
{
    static const char *const parts[] = {
        ":",       "::",   "+",     "0x",   "1", "9", "a",    "lib",   ".so", "*",        "?",      "[",   "]",
        "!",       "-",    "\\",    "/",    "(", ")", "<",    ">",     " ",   "operator", " const", " &&", " [clone .cold]",
        ":return", "@plt", ".cold", "\xff", "{", "}", "main", "f(int)"};
    size_t size = 0;
    for (size_t left = below(12); left > 0; left--) {
        const char *part = parts[below(sizeof parts / sizeof *parts)];
        if (size + strlen(part) >= room)
            break;
        memcpy(text + size, part, strlen(part));
        size += strlen(part);
    }
    text[size] = 0;
}

int main(int argc, char **argv)
{
    uint64_t runs = 1000000, parsed = 0, matched = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            state = strtoull(argv[i + 1], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
    }
    for (uint64_t run = 0; run < runs; run++) {
        char text[160], name[160], path[160];
        random_text(text, sizeof text);
        random_text(name, sizeof name);
        random_text(path, sizeof path);
        struct spec spec;
        struct err *error = spec_parse(text, &spec);
        if (error) {
            err_free(error);
            continue;
        }
        parsed++;
        struct symbol_func func = {.name = "_Zx", .demangled = name, .source = (uint8_t)below(4), .is_fragment = below(2)};
        matched += spec_matches_func(&spec, &func);
        matched += spec_matches_module(&spec, path);
        struct symbol_func same = {.name = spec.function, .demangled = spec.function};
        if ((spec.function && !spec_matches_func(&spec, &same)) || !spec_matches_module(&spec, spec.module)) {
            fprintf(stderr, "FAIL: '%s' does not match itself\n", text);
            return 1;
        }
        spec_deinit(&spec);
    }
    printf("%llu runs, %llu parsed, %llu matches\n", (unsigned long long)runs, (unsigned long long)parsed, (unsigned long long)matched);
    return 0;
}
