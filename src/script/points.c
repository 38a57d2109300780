/* The probes of a clause: `uprobe:/bin/bash:readline, BEGIN`. */
#include "script/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 8 };

struct words {
    char *parts[MOST_PARTS];
    size_t n;
    struct script_span span;
};

static const struct {
    const char *name, *brief;
    enum script_point_kind kind;
} kinds[] = {
    {"BEGIN", "begin", SCRIPT_P_BEGIN},      {"END", "end", SCRIPT_P_END},      {"uprobe", "u", SCRIPT_P_UPROBE},
    {"uretprobe", "ur", SCRIPT_P_URETPROBE}, {"usdt", "U", SCRIPT_P_USDT},      {"interval", "i", SCRIPT_P_INTERVAL},
    {"profile", "p", SCRIPT_P_PROFILE},      {"self", "self", SCRIPT_P_SIGNAL},
};

static const struct {
    const char *name, *brief, *advice;
} kernel_kinds[] = {
    {"kprobe", "k", "uprobe traces functions of programs and libraries, such as libc's wrapper of a system call"},
    {"kretprobe", "kr", "uretprobe traces functions of programs and libraries"},
    {"fentry", "f", "uprobe traces functions of programs and libraries"},
    {"fexit", "fr", "uretprobe traces functions of programs and libraries"},
    {"kfunc", "kfunc", "uprobe traces functions of programs and libraries"},
    {"kretfunc", "kretfunc", "uretprobe traces functions of programs and libraries"},
    {"tracepoint", "t", "usdt traces the static points of programs; uprobe:libc:NAME a system call's wrapper"},
    {"rawtracepoint", "rt", "usdt traces the static points of programs"},
    {"hardware", "h", "profile:hz:N samples the traced programs"},
    {"software", "s", "profile:hz:N samples the traced programs"},
    {"iter", "it", NULL},
    {"watchpoint", "w", "uprobe traces the code that changes the value"},
    {"asyncwatchpoint", "aw", "uprobe traces the code that changes the value"},
    {"test", "test", NULL},
    {"bench", "bench", NULL},
};

/* ---- words ---- */

/* Reads one probe, up to blank, comma, brace or the slash of a predicate, split at its colons. */
static bool read_words(struct script_program *program, uint32_t file, size_t *at, size_t end, struct words *out)
{
    const char *text = program->sources.at[file].text;
    size_t begin = *at, n = 0;
    char *word = arena_alloc(&program->arena, end - begin + 1);
    *out = (struct words){.n = 1, .span = {.file = file, .begin = (uint32_t)begin}};
    out->parts[0] = word;
    bool in_quotes = false;
    for (; *at < end; (*at)++) {
        char c = text[*at];
        if (c == '"') {
            in_quotes = !in_quotes;
            continue;
        }
        if (!in_quotes && (isspace((unsigned char)c) || c == ',' || c == '{' || (c == '/' && out->n != 2)))
            break;
        if (!in_quotes && c == ':' && out->n < MOST_PARTS) {
            word[n++] = 0;
            out->parts[out->n++] = word + n;
            continue;
        }
        if (!in_quotes && c == '$' && *at + 1 < end && isdigit((unsigned char)text[*at + 1])) {
            /* A positional parameter is text here. */
            size_t index = strtoul(text + *at + 1, NULL, 10);
            while (*at + 1 < end && isdigit((unsigned char)text[*at + 1]))
                (*at)++;
            if (index >= 1 && index <= program->n_positional) {
                const char *value = program->positional[index - 1];
                size_t length = strlen(value);
                char *more = arena_alloc(&program->arena, n + length + (end - *at) + 1);
                memcpy(more, word, n);
                memcpy(more + n, value, length);
                for (size_t i = 0; i < out->n; i++)
                    out->parts[i] = more + (out->parts[i] - word);
                word = more;
                n += length;
            }
            continue;
        }
        word[n++] = c;
    }
    word[n] = 0;
    out->span.end = (uint32_t)*at;
    if (in_quotes)
        ERROR(program, out->span, "unterminated quotes in a probe");
    return !in_quotes;
}

static bool parse_number(const char *text, uint64_t *value)
{
    char *rest;
    if (!isdigit((unsigned char)*text))
        return false;
    *value = strtoull(text, &rest, 0);
    return *rest == 0;
}

/* ---- kinds ---- */

static bool parse_offset(struct script_program *program, struct script_point *point, char *name)
{
    char *plus = strrchr(name, '+');
    if (parse_number(name, &point->address)) {
        point->has_address = true;
        return true;
    }
    point->function = name;
    if (!plus || plus == name || !isdigit((unsigned char)plus[1]))
        return true; /* operator+ has no number behind */
    if (!parse_number(plus + 1, &point->offset)) {
        ERROR(program, point->span, "invalid offset '%s' in a probe: expected a number", plus + 1);
        return false;
    }
    *plus = 0;
    return true;
}

static char *join_parts(struct script_program *program, const struct words *words, size_t from)
{
    char *text = words->parts[from];
    for (size_t i = from + 1; i < words->n; i++)
        text = arena_format(&program->arena, "%s:%s", text, words->parts[i]);
    return text;
}

static bool parse_uprobe(struct script_program *program, struct script_point *point, const struct words *words)
{
    const char *kind = point->kind == SCRIPT_P_UPROBE ? "uprobe" : "uretprobe";
    char *at_sign = words->n >= 2 ? strchr(words->parts[1], '@') : NULL;
    if (at_sign && words->n == 3 && words->parts[2][0]) {
        uint64_t line;
        if (!parse_number(words->parts[2], &line) || line == 0 || line > UINT32_MAX) {
            ERROR(program, point->span, "%s: invalid line '%s': expected %s:PATH@FILE:LINE", kind, words->parts[2], kind);
            return false;
        }
        *at_sign = 0;
        point->path = words->parts[1];
        point->file = at_sign + 1;
        point->line = (uint32_t)line;
        if (point->kind == SCRIPT_P_URETPROBE) {
            ERROR(program, point->span, "uretprobe can not be at a line: it is where a function returns");
            return false;
        }
        return true;
    }
    if (words->n < 3) {
        /* With one part it is a function of the traced program itself. */
        ERROR(program, point->span, "%s probe type requires 2 arguments, found %zu: expected %s:PATH:FUNCTION", kind, words->n - 1, kind);
        return false;
    }
    size_t name = 2;
    if (words->n > 3 && strcmp(words->parts[2], "cpp") == 0) {
        point->is_cpp = true;
        name = 3;
    }
    point->path = words->parts[1];
    char *function = join_parts(program, words, name);
    if (!*point->path || !*function) {
        ERROR(program, point->span, "%s probe has an empty %s: expected %s:PATH:FUNCTION", kind, *point->path ? "function" : "path", kind);
        return false;
    }
    return parse_offset(program, point, arena_text(&program->arena, function, strlen(function)));
}

static bool parse_usdt(struct script_program *program, struct script_point *point, const struct words *words)
{
    if (words->n == 3) {
        point->path = words->parts[1];
        point->function = words->parts[2];
    } else if (words->n == 4) {
        point->path = words->parts[1];
        point->provider = *words->parts[2] ? words->parts[2] : NULL;
        point->function = words->parts[3];
    } else {
        ERROR(program, point->span, "usdt probe type requires 2 or 3 arguments, found %zu: expected usdt:PATH:PROVIDER:NAME", words->n - 1);
        return false;
    }
    return true;
}

static bool parse_period(struct script_program *program, struct script_point *point, const struct words *words)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"s", 1000000000},  {"ms", 1000000},      {"us", 1000},         {"ns", 1},
                 {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}};
    const char *unit = NULL;
    uint64_t count = 0;
    bool ok = false;
    if (words->n == 3) {
        unit = words->parts[1];
        ok = parse_number(words->parts[2], &count);
    } else if (words->n == 2 && isdigit((unsigned char)words->parts[1][0])) {
        char *rest;
        count = strtoull(words->parts[1], &rest, 10);
        unit = *rest ? rest : "ns"; /* a plain number: nanoseconds, as 0.26 has it */
        ok = true;
    }
    const char *kind = point->kind == SCRIPT_P_INTERVAL ? "interval" : "profile";
    if (!ok || count == 0) {
        ERROR(program, point->span, "invalid %s: expected %s:UNIT:COUNT with a count above 0, such as %s:s:1, or %s:1s", kind, kind, kind,
              kind);
        return false;
    }
    if (strcmp(unit, "hz") == 0 && count <= 1000000) {
        point->hertz = count;
        point->period_ns = 1000000000 / count;
        return true;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(units[i].unit, unit) == 0 && !__builtin_mul_overflow(units[i].ns, count, &point->period_ns))
            return true;
    ERROR(program, point->span, "invalid unit '%s' of %s: expected hz, s, ms, us, m or h", unit, kind);
    return false;
}

static void unknown_kind(struct script_program *program, const struct words *words)
{
    const char *name = words->parts[0];
    for (size_t i = 0; i < sizeof kernel_kinds / sizeof *kernel_kinds; i++)
        if (strcmp(kernel_kinds[i].name, name) == 0 || strcmp(kernel_kinds[i].brief, name) == 0) {
            report(program, true, words->span, kernel_kinds[i].advice,
                   "%s probes need the kernel's tracing; probity traces user-space programs", kernel_kinds[i].name);
            return;
        }
    struct near near = {.wanted = name};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        near_try(&near, kinds[i].name);
    const char *hint = near_hint(&near, &program->arena);
    if (!*name)
        ERROR(program, words->span,
              "syntax error, expected a probe such as uprobe:PATH:FUNCTION, usdt:PATH:NAME, interval:s:1, BEGIN or END");
    else
        report(program, true, words->span, hint, "Invalid probe type: %s", name);
}

static bool make_point(struct script_program *program, struct words *words, struct script_point *point)
{
    *point = (struct script_point){.span = words->span};
    size_t i = 0;
    while (i < sizeof kinds / sizeof *kinds && strcmp(kinds[i].name, words->parts[0]) != 0 && strcmp(kinds[i].brief, words->parts[0]) != 0)
        i++;
    if (i == sizeof kinds / sizeof *kinds) {
        unknown_kind(program, words);
        return false;
    }
    point->kind = kinds[i].kind;
    point->text = words->n > 1 ? arena_format(&program->arena, "%s:%s", kinds[i].name, join_parts(program, words, 1)) : kinds[i].name;
    switch (point->kind) {
    case SCRIPT_P_BEGIN:
    case SCRIPT_P_END:
        if (words->n > 1)
            ERROR(program, words->span, "%s probes take no argument", kinds[i].name);
        return words->n == 1;
    case SCRIPT_P_UPROBE:
    case SCRIPT_P_URETPROBE:
        return parse_uprobe(program, point, words);
    case SCRIPT_P_USDT:
        return parse_usdt(program, point, words);
    case SCRIPT_P_INTERVAL:
    case SCRIPT_P_PROFILE:
        return parse_period(program, point, words);
    case SCRIPT_P_SIGNAL:
        if (words->n == 3 && strcmp(words->parts[1], "signal") == 0 && strcmp(words->parts[2], "SIGUSR1") == 0)
            return true;
        ERROR(program, words->span, "expected self:signal:SIGUSR1");
        return false;
    }
    return false;
}

/* ---- the list ---- */

static void skip_blank(const char *text, size_t *at, size_t end)
{
    while (*at < end) {
        if (isspace((unsigned char)text[*at])) {
            (*at)++;
        } else if (text[*at] == '/' && *at + 1 < end && text[*at + 1] == '/') {
            while (*at < end && text[*at] != '\n')
                (*at)++;
        } else if (text[*at] == '/' && *at + 1 < end && text[*at + 1] == '*') {
            const char *close = memmem(text + *at, end - *at, "*/", 2);
            *at = close ? (size_t)(close - text) + 2 : end;
        } else {
            return;
        }
    }
}

/* `name = probe`: the name is reserved and has no meaning. */
static void skip_label(const char *text, size_t *at, size_t end)
{
    size_t i = *at;
    while (i < end && (isalnum((unsigned char)text[i]) || text[i] == '_'))
        i++;
    while (i < end && text[i] == ' ')
        i++;
    if (i > *at && i < end && text[i] == '=' && text[i + 1] != '=') {
        *at = i + 1;
        skip_blank(text, at, end);
    }
}

bool parse_points(struct script_program *program, uint32_t file, size_t *at, size_t end, struct script_clause *clause)
{
    const char *text = program->sources.at[file].text;
    VEC(struct script_point) points = {0};
    bool ok = true;
    skip_label(text, at, end);
    for (;;) {
        skip_blank(text, at, end);
        struct words words;
        struct script_point point;
        size_t begin = *at;
        if (!read_words(program, file, at, end, &words) || !make_point(program, &words, &point))
            ok = false;
        else
            VEC_PUSH(&points, point);
        skip_blank(text, at, end);
        if (*at >= end || text[*at] != ',' || *at == begin)
            break;
        (*at)++;
        skip_blank(text, at, end);
        if (*at < end && (text[*at] == '{' || text[*at] == '/'))
            break; /* a trailing comma */
    }
    struct script_point *kept = arena_alloc(&program->arena, points.n * sizeof *kept);
    if (points.n)
        memcpy(kept, points.at, points.n * sizeof *kept);
    clause->points = kept;
    clause->n_points = points.n;
    VEC_FREE(&points);
    if (ok && *at < end && text[*at] != '{' && text[*at] != '/') {
        ERROR(program, ((struct script_span){file, (uint32_t)*at, (uint32_t)*at + 1}),
              "syntax error, expected { or a /predicate/ after the probes");
        ok = false;
    }
    if (ok && *at >= end) {
        ERROR(program, ((struct script_span){file, (uint32_t)clause->span.begin, (uint32_t)end}),
              "syntax error, unexpected end of file, expecting {");
        ok = false;
    }
    return ok;
}
