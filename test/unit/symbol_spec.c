/* Trace point specifications: what is parsed, what is refused, what matches. */
#include "base/memory.h"
#include "symbol/spec.h"
#include "test/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- parsing ---- */

static const struct {
    const char *text;
    int pid;
    const char *module, *function;
    uint64_t offset;
    enum spec_point point;
} good[] = {
    {"libc:malloc", 0, "libc", "malloc", 0, SPEC_ENTRY},
    {"libc:malloc:return", 0, "libc", "malloc", 0, SPEC_RETURN},
    {"libc:malloc+0x10", 0, "libc", "malloc", 16, SPEC_OFFSET},
    {"libc:malloc+16", 0, "libc", "malloc", 16, SPEC_OFFSET},
    {"libc:malloc+0", 0, "libc", "malloc", 0, SPEC_OFFSET},
    {"libc:0x1f40", 0, "libc", NULL, 0x1f40, SPEC_ADDRESS},
    {"/usr/bin/a b:f*", 0, "/usr/bin/a b", "f*", 0, SPEC_ENTRY},
    {"*:main", 0, "*", "main", 0, SPEC_ENTRY},
    {"1234:libc:malloc", 1234, "libc", "malloc", 0, SPEC_ENTRY},
    {"1234:*:main", 1234, "*", "main", 0, SPEC_ENTRY},
    {"1234:main", 1234, "", "main", 0, SPEC_ENTRY},
    {"1234::main", 1234, "", "main", 0, SPEC_ENTRY},
    {"1234:main:return", 1234, "", "main", 0, SPEC_RETURN},
    {"1234:main+4", 1234, "", "main", 4, SPEC_OFFSET},
    {"1234:libc:0x10", 1234, "libc", NULL, 16, SPEC_ADDRESS},
    {"1234:std::vector<int>::push_back", 1234, "", "std::vector<int>::push_back", 0, SPEC_ENTRY},
    {"app:std::vector<int>::push_back", 0, "app", "std::vector<int>::push_back", 0, SPEC_ENTRY},
    {"app:std::vector<int>::push_back:return", 0, "app", "std::vector<int>::push_back", 0, SPEC_RETURN},
    {"app:::operator new", 0, "app", "operator new", 0, SPEC_ENTRY},
    {"app:num::operator+", 0, "app", "num::operator+", 0, SPEC_ENTRY},
    {"app:num::operator++", 0, "app", "num::operator++", 0, SPEC_ENTRY},
    {"app:num::operator++ +0x4", 0, "app", "num::operator++ ", 4, SPEC_OFFSET},
    {"app:foo(char*, int)", 0, "app", "foo(char*, int)", 0, SPEC_ENTRY},
    {"app:<T as core::fmt::Debug>::fmt", 0, "app", "<T as core::fmt::Debug>::fmt", 0, SPEC_ENTRY},
    {"./1234:main", 0, "./1234", "main", 0, SPEC_ENTRY},
};

static const char *const bad[] = {
    "libc:return",
    "",
    "malloc",
    ":malloc",
    "libc:",
    "libc:malloc:entry",
    "libc:malloc:return:return",
    "libc:malloc+0x10:return",
    "libc:0x10:return",
    "libc:0xzz",
    "libc:0x",
    "0:main",
    "1234:",
    "99999999999999:main",
    "libc:malloc+0x",
    "libc:f+99999999999999999999",
    "1234:0x10",
    "libc:malloc:",
    "std::foo",
    "libc:a:b:c",
    ":return",
    "libc::return",
    "1234:libc:malloc:x",
};

static void check_parse(void)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct spec spec;
        struct err *error = spec_parse(good[i].text, &spec);
        CHECK(!error, "%s: %s", good[i].text, error->message);
        if (error) {
            err_free(error);
            continue;
        }
        CHECK(strcmp(spec.text, good[i].text) == 0, "%s: text %s", good[i].text, spec.text);
        CHECK(spec.pid == good[i].pid, "%s: pid %d", good[i].text, spec.pid);
        CHECK(strcmp(spec.module, good[i].module) == 0, "%s: module '%s'", good[i].text, spec.module);
        CHECK(good[i].function ? spec.function && strcmp(spec.function, good[i].function) == 0 : !spec.function, "%s: function '%s'",
              good[i].text, spec.function ? spec.function : "(none)");
        CHECK(spec.offset == good[i].offset && spec.point == good[i].point, "%s: offset %llx, point %d", good[i].text,
              (unsigned long long)spec.offset, spec.point);
        spec_deinit(&spec);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct spec spec;
        struct err *error = spec_parse(bad[i], &spec);
        CHECK(error && error->code == ERR_USAGE, "'%s' was taken", bad[i]);
        CHECK(!error || strstr(error->message, "MODULE:FUNCTION"), "'%s': the message does not show the form", bad[i]);
        if (!error)
            spec_deinit(&spec);
        err_free(error);
    }
}

/* ---- modules ---- */

static const struct {
    const char *module, *path;
    bool matches;
} modules[] = {
    {"libc", "/lib/x86_64-linux-gnu/libc.so.6", true},
    {"libc", "/lib/x86_64-linux-gnu/libc.so.6 (deleted)", true},
    {"/no/lib/libgone.so", "/no/lib/libgone.so (deleted)", true},
    {"/no/lib/libgone.so (deleted)", "/no/lib/libgone.so (deleted)", true},
    {"/no/lib/libgone.so (deleted)", "/no/lib/libgone.so", false},
    {"/no/lib/lib*.so", "/no/lib/libgone.so (deleted)", true},
    {"/no/lib/libgone.so", "/no/lib/libgone.so.1 (deleted)", false},
    {"libc", "/lib/libc-2.31.so", true},
    {"libc", "/lib/libcrypt.so.1", false},
    {"libc", "/lib/libc++.so.1", false},
    {"libc", "/lib/libc.musl-x86_64.so.1", false},
    {"libc", "/lib/ld-musl-x86_64.so.1", false},
    {"libc", "/opt/libc/lib/x.so", false},
    {"libc.so", "/lib/libc.so.6", true},
    {"libc.so.6", "/lib/libc.so.6", true},
    {"libstdc++", "/usr/lib/libstdc++.so.6.0.30", true},
    {"libssl", "/usr/lib/libssl3.so", false},
    {"libssl", "/usr/lib/libssl.so.3", true},
    {"python3", "/usr/bin/python3", true},
    {"python3", "/usr/bin/python3.11", true},
    {"python3", "/usr/bin/python3-config", false},
    {"python3", "/usr/lib/libpython3.so", false},
    {"libpython3.11", "/usr/lib/libpython3.11.so.1.0", true},
    {"node", "/usr/bin/node", true},
    {"ode", "/usr/bin/node", false},
    {"*", "/usr/bin/node", true},
    {"lib*", "/lib/libm.so.6", true},
    {"lib*", "/lib/ld.so", false},
    {"ib*", "/lib/libm.so.6", false},
    {"lib[mc].so*", "/lib/libm.so.6", true},
    {"lib[!m].so*", "/lib/libm.so.6", false},
    {"/lib/*", "/lib/libm.so.6", true},
    {"/lib/*", "/lib/x/libm.so.6", false},
    {"/lib/*/libm.so.?", "/lib/x/libm.so.6", true},
    {"/lib/libm.so.6", "/lib/libm.so.6", true},
    {"/proc/self/../self/exe", "/nonexistent", false},
};

static void check_modules(void)
{
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        struct spec spec = {.module = (char *)modules[i].module};
        CHECK(spec_matches_module(&spec, modules[i].path) == modules[i].matches, "%s for %s", modules[i].module, modules[i].path);
    }
    struct spec every = {.module = (char *)"", .pid = 5};
    CHECK(spec_matches_module(&every, "/bin/x"), "an empty module means all");
    struct spec current = {.module = (char *)"/no/lib/libgone.so", .no_deleted = true};
    CHECK(!spec_matches_module(&current, "/no/lib/libgone.so (deleted)"), "a deleted file has another file's path");
    char *self = realpath("/proc/self/exe", NULL);
    struct spec link = {.module = (char *)"/proc/self/exe"};
    CHECK(self && spec_matches_module(&link, self), "a link to %s", self);
    free(self);
}

/* ---- functions ---- */

static const struct {
    const char *function, *name, *demangled; /* NULL: equal to the name */
    bool is_plt, is_fragment, matches;
} functions[] = {
    {"malloc", "malloc", NULL, false, false, true},
    {"malloc", "malloc_usable_size", NULL, false, false, false},
    {"mall*", "malloc", NULL, false, false, true},
    {"*", "x", NULL, false, false, true},
    {"m?ll[a-o]c", "malloc", NULL, false, false, true},
    {"*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaac", NULL, false, false, false},
    {"*", "malloc@plt", NULL, true, false, false},
    {"malloc", "malloc@plt", NULL, true, false, false},
    {"malloc@plt", "malloc@plt", NULL, true, false, true},
    {"*@plt", "malloc@plt", NULL, true, false, true},
    {"*", "f.cold", NULL, false, true, false},
    {"f.cold", "f.cold", NULL, false, true, true},
    {"*.cold", "f.cold", NULL, false, true, true},
    {"f", "f.cold", NULL, false, true, false},
    {"_Z1fi", "_Z1fi", "f(int)", false, false, true},
    {"f", "_Z1fi", "f(int)", false, false, true},
    {"f(int)", "_Z1fi", "f(int)", false, false, true},
    {"f(char)", "_Z1fi", "f(int)", false, false, false},
    {"f", "_Z1fi.cold", "f(int) [clone .cold]", false, true, false},
    {"f", "_Z1fi.part.0", "f(int) [clone .part.0]", false, false, false},
    {"f(int) [clone .part.0]", "_Z1fi.part.0", "f(int) [clone .part.0]", false, false, true},
    {"a::b::get", "_Zx", "a::b::get() const", false, false, true},
    {"a::*", "_Zx", "a::b::get() const", false, false, true},
    {"(anonymous namespace)::run", "_Zx", "(anonymous namespace)::run(void (*)(int))", false, false, true},
    {"f::operator()", "_Zx", "f::operator()(int) const", false, false, true},
    {"f::operator()", "_Zx", "f::operator()() const", false, false, true},
    {"operator new[]", "_Znam", "operator new[](unsigned long)", false, false, true},
    {"max<int>", "_Zx", "int const& max<int>(int const&, int const&)", false, false, true},
    {"int const& max<int>", "_Zx", "int const& max<int>(int const&, int const&)", false, false, true},
    {"operator<< <char>", "_Zx", "std::ostream& operator<< <char>(std::ostream&, char)", false, false, true},
    {"core::fmt::write", "_Rx", "core::fmt::write", false, false, true},
    {"<T as X>::go", "_Rx", "<T as X>::go", false, false, true},
};

static void check_functions(void)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        struct spec spec = {.function = (char *)functions[i].function};
        struct symbol_func func = {.name = functions[i].name,
                                   .demangled = functions[i].demangled ? functions[i].demangled : functions[i].name,
                                   .source = functions[i].is_plt ? SYMBOL_FROM_PLT : SYMBOL_FROM_SYMTAB,
                                   .is_fragment = functions[i].is_fragment};
        CHECK(spec_matches_func(&spec, &func) == functions[i].matches, "%s for %s", functions[i].function, func.demangled);
    }
}

/* ---- files ---- */

static size_t find(const char *text, char **first)
{
    struct spec spec;
    char **paths = NULL;
    struct err *error = spec_parse(text, &spec);
    if (!error) {
        error = spec_find_files(&spec, &paths);
        spec_deinit(&spec);
    }
    CHECK(!error || error->code == ERR_NO_MATCH, "%s: %s", text, error->message);
    err_free(error);
    size_t count = 0;
    *first = NULL;
    for (; paths && paths[count]; count++) {
        if (count)
            free(paths[count]);
        else
            *first = paths[count];
    }
    free(paths);
    return count;
}

static void check_files(void)
{
    char *path;
    size_t count = find("libc:malloc", &path);
    CHECK(count == 1 && strstr(path, "libc"), "libc: %s", path);
    struct symbol_file *file = NULL;
    if (path) {
        err_free(symbol_file_open(path, &file));
        CHECK(file && symbol_file_width(file) == 64, "%s is not 64-bit", path);
    }
    if (file) {
        struct spec wrong = {.function = (char *)"mallok"}, hopeless = {.function = (char *)"qqqqqqqqqqqqqqqqqqqqqqqqqq"};
        char *near = spec_near_names(&wrong, file);
        CHECK(near && strncmp(near, "malloc", 6) == 0 && strstr(near, " or "), "near names: %s", near ? near : "none");
        free(near);
        near = spec_near_names(&hopeless, file);
        CHECK(!near, "near names: %s", near);
        free(near);
    }
    symbol_file_close(file);
    free(path);

    count = find("sh:main", &path);
    CHECK(count == 1 && path[0] == '/', "sh");
    free(path);
    count = find("/nonexistent/x:main", &path);
    CHECK(count == 0, "/nonexistent/x");
    count = find("no-such-program-anywhere:main", &path);
    CHECK(count == 0, "no-such-program-anywhere");
    count = find("/proc/self/ex*:main", &path);
    CHECK(count == 1 && strcmp(path, "/proc/self/exe") == 0, "/proc/self/ex*");
    free(path);
    count = find("/bin/[a-m]*:main", &path);
    CHECK(count > 1, "/bin/[a-m]*: %zu", count);
    free(path);
}

int main(void)
{
    check_parse();
    check_modules();
    check_functions();
    check_files();
    printf("%lu checks, %d failures\n", checks, failures);
    return failures != 0;
}
