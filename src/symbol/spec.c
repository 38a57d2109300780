/* Parsing and matching of trace point specifications. */
#include "symbol/spec.h"
#include "base/memory.h"
#include "base/regular.h"
#include "symbol/glob.h"
#include "symbol/spec_internal.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsing ---- */

static struct err *bad(const char *text, const char *why)
{
    return err_new(
        ERR_USAGE,
        "trace point: '%s': %s; write MODULE:FUNCTION, MODULE:FUNCTION:return, MODULE:FUNCTION+OFFSET or MODULE:0xADDRESS, as in "
        "libc:malloc or /usr/bin/python3:Py_*, with PID: in front to mean one process",
        text, why);
}

/* The first colon that separates fields: one of an odd run, as "::" belongs to a C++ or Rust name. */
static const char *find_colon(const char *text)
{
    while ((text = strchr(text, ':'))) {
        size_t run = strspn(text, ":");
        if (run % 2)
            return text;
        text += run;
    }
    return NULL;
}

/* A decimal or 0x number that is all of `text`. */
static bool parse_number(const char *text, uint64_t *value)
{
    bool is_hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    const char *digits = is_hex ? text + 2 : text;
    if (!*digits || digits[strspn(digits, is_hex ? "0123456789abcdefABCDEF" : "0123456789")])
        return false;
    errno = 0;
    *value = strtoull(digits, NULL, is_hex ? 16 : 10);
    return !errno;
}

static struct err *parse_pid(const char **rest, struct spec *out)
{
    size_t digits = strspn(*rest, "0123456789");
    if (!digits || (*rest)[digits] != ':')
        return NULL;
    errno = 0;
    unsigned long long pid = strtoull(*rest, NULL, 10);
    if (errno || !pid || pid > INT_MAX)
        return bad(out->text, "not a process id");
    out->pid = (int)pid;
    *rest += digits + 1;
    return NULL;
}

/* Takes NAME, NAME+OFFSET or 0xADDRESS. A plus sign that no number follows belongs to the name (operator+). */
static struct err *parse_function(const char *text, bool is_return, struct spec *out)
{
    if (text[0] == ':' && text[1] == ':')
        text += 2;
    if (!*text)
        return bad(out->text, "the function is missing");
    if (find_colon(text))
        return bad(out->text, "only :return may follow the function");
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
        if (!parse_number(text, &out->offset))
            return bad(out->text, "not a hexadecimal address");
        if (is_return)
            return bad(out->text, "an address has no :return");
        if (!*out->module)
            return bad(out->text, "an address needs a module");
        out->point = SPEC_ADDRESS;
        return NULL;
    }
    const char *plus = strrchr(text, '+');
    out->point = is_return ? SPEC_RETURN : SPEC_ENTRY;
    if (plus && plus > text && isdigit((unsigned char)plus[1])) {
        if (!parse_number(plus + 1, &out->offset))
            return bad(out->text, "not a number after '+'");
        if (is_return)
            return bad(out->text, "an offset has no :return");
        out->point = SPEC_OFFSET;
        out->function = strndup(text, (size_t)(plus - text));
    } else {
        out->function = memory_text(text);
    }
    return NULL;
}

static struct err *parse_fields(char *copy, struct spec *out)
{
    static const char suffix[] = ":return";
    const char *rest = copy;
    ERR_TRY(parse_pid(&rest, out));
    size_t length = strlen(rest);
    bool is_return =
        length > sizeof suffix && strcmp(rest + length - (sizeof suffix - 1), suffix) == 0 && rest[length - sizeof suffix] != ':';
    if (is_return)
        copy[strlen(copy) - (sizeof suffix - 1)] = 0;
    const char *colon = find_colon(rest);
    if (!colon && !out->pid)
        return bad(out->text, is_return ? "the module or the function is missing" : "no module");
    if (colon == rest && !out->pid)
        return bad(out->text, "the module is empty");
    out->module = colon ? strndup(rest, (size_t)(colon - rest)) : memory_text("");
    return parse_function(colon ? colon + 1 : rest, is_return, out);
}

struct err *spec_parse(const char *text, struct spec *out)
{
    memset(out, 0, sizeof *out);
    out->text = memory_text(text);
    char *copy = memory_text(text);
    struct err *error = parse_fields(copy, out);
    free(copy);
    if (error)
        spec_deinit(out);
    return error;
}

void spec_deinit(struct spec *spec)
{
    free(spec->text);
    free(spec->module);
    free(spec->function);
    free(spec->label);
    memset(spec, 0, sizeof *spec);
}

/* ---- modules ---- */

bool spec_short_name_fits(const char *name, const char *component)
{
    static const char version[] = "0123456789.";
    size_t length = strlen(name);
    if (!length || strncmp(component, name, length) != 0)
        return false;
    const char *rest = component + length;
    if (strncmp(rest, ".so", 3) == 0 && !rest[3 + strspn(rest + 3, version)])
        return true;
    if (rest[0] == '-' && isdigit((unsigned char)rest[1])) { /* libc-2.31.so, as glibc named its files once */
        size_t digits = strspn(rest + 1, version);
        return rest[digits] == '.' && strcmp(rest + 1 + digits, "so") == 0;
    }
    return !rest[strspn(rest, version)];
}

/* A file that is gone has no real path, but its folder may have one. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real)
        return real;
    const char *name = strrchr(path, '/') + 1;
    char *folder = strndup(path, (size_t)(name - path)), *real_folder = realpath(folder, NULL);
    real = real_folder ? memory_format("%s/%s", strcmp(real_folder, "/") ? real_folder : "", name) : NULL;
    free(folder);
    free(real_folder);
    return real;
}

static bool matches_path(const struct spec *spec, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *component = slash ? slash + 1 : path;
    if (!*spec->module)
        return spec->pid != 0;
    if (strcmp(spec->module, path) == 0)
        return true;
    bool has_slash = strchr(spec->module, '/') != NULL;
    if (symbol_glob_is(spec->module))
        return symbol_glob_match(spec->module, has_slash ? path : component, has_slash);
    if (!has_slash)
        return spec_short_name_fits(spec->module, component);
    char *real = real_path(spec->module);
    bool is_same = real && strcmp(real, path) == 0;
    free(real);
    return is_same;
}

bool spec_matches_module(const struct spec *spec, const char *path)
{
    if (spec->no_deleted && regular_is_deleted(path))
        return !strcmp(spec->module, path);
    if (matches_path(spec, path))
        return true;
    if (!regular_is_deleted(path))
        return false;
    char *had = strndup(path, regular_path_length(path));
    bool is_meant = matches_path(spec, had);
    free(had);
    return is_meant;
}

/* ---- functions ---- */

/* A demangled name in pieces: "RETURN NAME(PARAMETERS) QUALIFIERS [clone .x]". */
struct pieces {
    size_t name;     /* where NAME starts, 0 without RETURN */
    size_t name_end; /* where PARAMETERS start */
    size_t clone;    /* where " [clone" starts, else the end */
};

/* Only template functions have their return type in the mangled name. Finds where the name starts: behind the last space outside of all
 * brackets, where an operator's own name, with its spaces and angle brackets, does not count. */
static size_t skip_return_type(const char *text, size_t end)
{
    size_t from = end;
    const char *operator_at = memmem(text, end, "operator", 8);
    if (operator_at)
        from = (size_t)(operator_at - text);
    int depth = 0;
    for (size_t i = from; i > 0; i--) {
        char c = text[i - 1];
        if (c == '>' || c == ')' || c == ']' || c == '}')
            depth++;
        else if (c == '<' || c == '(' || c == '[' || c == '{')
            depth--;
        else if (c == ' ' && depth == 0)
            return i;
        if (depth < 0)
            return 0;
    }
    return 0;
}

static bool cut(const char *text, struct pieces *out)
{
    size_t end = strlen(text);
    const char *clone = strstr(text, " [clone ");
    out->clone = clone ? (size_t)(clone - text) : end;
    end = out->clone;
    static const char *const qualifiers[] = {" const", " volatile", " &&", " &", " noexcept"};
    for (size_t i = 0; i < sizeof qualifiers / sizeof *qualifiers; i++) {
        size_t length = strlen(qualifiers[i]);
        if (end > length && memcmp(text + end - length, qualifiers[i], length) == 0) {
            end -= length;
            i = (size_t)-1;
        }
    }
    if (!end || text[end - 1] != ')')
        return false;
    int depth = 0;
    while (end > 0) {
        char c = text[--end];
        depth += c == ')';
        depth -= c == '(';
        if (depth == 0)
            break;
    }
    if (depth || !end)
        return false;
    out->name_end = end;
    out->name = skip_return_type(text, end);
    return true;
}

size_t spec_bare_name(const char *demangled, const char **start)
{
    struct pieces pieces;
    *start = demangled;
    if (!cut(demangled, &pieces))
        return strlen(demangled);
    *start = demangled + pieces.name;
    return pieces.name_end - pieces.name;
}

static bool is_match(const struct spec *spec, bool is_glob, const char *text)
{
    return strcmp(spec->function, text) == 0 || (is_glob && symbol_glob_match(spec->function, text, false));
}

/* Tries the demangled name without parameters, then also without the return type. A clone keeps its mark, so that foo does not mean
 * foo.part.0 in C++ when it does not in C. */
static bool matches_bare(const struct spec *spec, bool is_glob, const char *demangled)
{
    struct pieces pieces;
    if (!cut(demangled, &pieces))
        return false;
    char stack[512];
    size_t tail = strlen(demangled + pieces.clone);
    char *text = pieces.name_end + tail < sizeof stack ? stack : memory_alloc(pieces.name_end + tail + 1);
    memcpy(text, demangled, pieces.name_end);
    memcpy(text + pieces.name_end, demangled + pieces.clone, tail + 1);
    bool is_ok = is_match(spec, is_glob, text) || (pieces.name && is_match(spec, is_glob, text + pieces.name));
    if (text != stack)
        free(text);
    return is_ok;
}

static bool matches_func(const struct spec *spec, bool is_glob, const struct symbol_func *func)
{
    if ((func->source == SYMBOL_FROM_PLT || func->is_fragment) && is_glob && !strpbrk(spec->function, "@."))
        is_glob = false;
    if (is_match(spec, is_glob, func->name))
        return true;
    if (func->demangled == func->name)
        return false;
    return is_match(spec, is_glob, func->demangled) || matches_bare(spec, is_glob, func->demangled);
}

bool spec_matches_func(const struct spec *spec, const struct symbol_func *func)
{
    return spec->function && matches_func(spec, symbol_glob_is(spec->function), func);
}

size_t spec_next_match(const struct spec *spec, const struct symbol_func *func, size_t count, size_t from)
{
    if (!spec->function)
        return count;
    bool is_glob = symbol_glob_is(spec->function);
    for (size_t i = from; i < count; i++) {
        /* What most functions of a C library fail by is looked at first. */
        bool is_plain = !is_glob && func[i].demangled == func[i].name;
        if ((!is_plain || func[i].name[0] == spec->function[0]) && matches_func(spec, is_glob, &func[i]))
            return i;
    }
    return count;
}

bool spec_has_pattern(const struct spec *spec)
{
    return spec->function && strpbrk(spec->function, "*?[");
}
