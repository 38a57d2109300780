/* Sources and diagnostics: where in the text, and how it is shown. */
#include "script/declare.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t source_add(struct script_program *program, const char *name, const char *text, size_t length)
{
    struct source source = {
        .name = arena_text(&program->arena, name, strlen(name)), .text = arena_text(&program->arena, text, length), .length = length};
    VEC_PUSH(&program->sources, source);
    return (uint32_t)program->sources.n - 1;
}

struct script_span span_join(struct script_span first, struct script_span last)
{
    if (first.file == last.file && last.end > first.end)
        first.end = last.end;
    return first;
}

void report(struct script_program *program, bool is_error, struct script_span span, const char *hint, const char *format, ...)
{
    if (is_error && !program->is_deferred)
        program->n_errors++;
    if (program->is_tentative)
        return;
    if (program->diagnostics.n + program->deferred.n >= LIMIT_DIAGNOSTICS)
        return;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc(&program->arena, length < 0 ? 1 : (size_t)length + 1);
    if (length > 0)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    /* The same place is checked once per model and binary, and often gives the same message. */
    for (size_t i = 0; i < program->diagnostics.n; i++) {
        const struct diagnostic *old = &program->diagnostics.at[i];
        if (old->span.file == span.file && old->span.begin == span.begin && old->is_error == is_error && strcmp(old->text, text) == 0)
            return;
    }
    if (program->is_narrow)
        text = arena_format(&program->arena, "%s (in 32-bit processes)", text);
    struct diagnostic diagnostic = {
        .span = span, .is_error = is_error, .text = text, .hint = hint ? arena_text(&program->arena, hint, strlen(hint)) : NULL};
    if (program->is_deferred)
        VEC_PUSH(&program->deferred, diagnostic);
    else
        VEC_PUSH(&program->diagnostics, diagnostic);
}

void report_deferred(struct script_program *program)
{
    for (size_t i = 0; i < program->deferred.n; i++) {
        VEC_PUSH(&program->diagnostics, program->deferred.at[i]);
        program->n_errors += program->deferred.at[i].is_error;
    }
    program->deferred.n = 0;
}

/* ---- places ---- */

static struct place find_place(struct source *source, size_t at)
{
    struct place place = {.name = source->name, .name_length = strlen(source->name), .line = 1};
    if (at > source->length)
        at = source->length;
    if (source->last.name && source->last.line_begin <= at)
        place = source->last;
    for (size_t i = place.line_begin; i < at; i++) {
        if (source->text[i] != '\n')
            continue;
        place.line++;
        place.line_begin = i + 1;
        /* # 12 "file.h" 1: the next line is line 12 of file.h. */
        const char *marker = source->text + i + 1;
        unsigned line;
        int skip = 0;
        if (source->is_preprocessed && sscanf(marker, "# %u \"%n", &line, &skip) == 1 && skip > 0) {
            const char *close = strpbrk(marker + skip, "\"\n");
            if (close && *close == '"') {
                place.name = marker + skip;
                place.name_length = (size_t)(close - place.name);
                place.line = line - 1;
            }
        }
    }
    place.column = (unsigned)(at - place.line_begin) + 1;
    place.line_end = place.line_begin;
    while (place.line_end < source->length && source->text[place.line_end] != '\n')
        place.line_end++;
    source->last = place;
    return place;
}

bool source_is_own(const struct script_program *program, struct script_span span)
{
    struct source *source = &program->sources.at[span.file];
    if (!source->is_preprocessed)
        return true;
    struct place place = find_place(source, span.begin);
    return strlen(source->name) == place.name_length && memcmp(source->name, place.name, place.name_length) == 0;
}

void script_place(const struct script_program *program, struct script_span span, const char **name, unsigned *line, unsigned *column)
{
    struct source *source = &program->sources.at[span.file];
    struct place place = find_place(source, span.begin);
    *name = source->name;
    *line = place.line;
    *column = place.column;
}

/* ---- text ---- */

static void print_line(FILE *out, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        fputc(c == '\t' || c >= 0x80 || (c >= 0x20 && c != 0x7f) ? c : '?', out);
    }
    fputc('\n', out);
}

static void print_one(FILE *out, const struct script_program *program, const struct diagnostic *diagnostic)
{
    struct source *source = &program->sources.at[diagnostic->span.file];
    struct place place = find_place(source, diagnostic->span.begin);
    size_t begin = diagnostic->span.begin, end = diagnostic->span.end;
    if (begin > source->length)
        begin = source->length;
    if (end > place.line_end)
        end = place.line_end;
    if (end < begin + 1)
        end = begin + 1;
    fprintf(out, "%.*s:%u:%u-%u: %s: %s\n", (int)place.name_length, place.name, place.line, place.column,
            place.column + (unsigned)(end - begin), diagnostic->is_error ? "ERROR" : "WARNING", diagnostic->text);
    print_line(out, source->text + place.line_begin, place.line_end - place.line_begin);
    for (size_t i = place.line_begin; i < begin; i++)
        fputc(source->text[i] == '\t' ? '\t' : ' ', out);
    for (size_t i = begin; i < end; i++)
        fputc('~', out);
    fputc('\n', out);
    if (diagnostic->hint)
        fprintf(out, "HINT: %s\n", diagnostic->hint);
}

static int by_place(const void *a, const void *b)
{
    const struct diagnostic *left = *(const struct diagnostic *const *)a, *right = *(const struct diagnostic *const *)b;
    if (left->span.file != right->span.file)
        return left->span.file < right->span.file ? -1 : 1;
    if (left->span.begin != right->span.begin)
        return left->span.begin < right->span.begin ? -1 : 1;
    return left < right ? -1 : left > right;
}

char *script_diagnostics(const struct script_program *program)
{
    char *text = NULL;
    size_t size = 0, n = program->diagnostics.n;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return memory_text("");
    const struct diagnostic **sorted = memory_alloc(n * sizeof *sorted);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &program->diagnostics.at[i];
    qsort(sorted, n, sizeof *sorted, by_place);
    for (size_t i = 0; i < n; i++)
        print_one(out, program, sorted[i]);
    free(sorted);
    if (n >= LIMIT_DIAGNOSTICS)
        fprintf(out, "%s: more errors were left out\n", program->sources.at[0].name);
    fclose(out);
    return text;
}

size_t script_errors(const struct script_program *program)
{
    return program->n_errors;
}
