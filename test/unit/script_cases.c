/* The scripts in test/script/TOPIC: {ok,err}.NAME.bt is parsed and checked for both models, and what comes out (maps, trees, messages)
 * must be the text in the .out file beside it. `script_cases FILE.bt` prints what comes out; `script_cases --rebase` writes the .out
 * files anew (look at the difference before it is committed).
 *
 * Words in a first line `// args: ...` are the script's arguments; `// unsafe` allows unsafe functions. A probe on /test/debug has a
 * made-up debug information. */
#include "base/memory.h"
#include "script/script.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an environment ---- */

static const struct script_type *point_type(struct script_types *types)
{
    const struct script_type *type = script_record_open(types, "struct point", false);
    if (!type->record->is_complete) {
        struct script_field fields[] = {
            {.name = "x", .type = script_types_find(types, "int"), .offset = SCRIPT_COMPUTED},
            {.name = "y", .type = script_types_find(types, "long"), .offset = SCRIPT_COMPUTED},
            {.name = "next", .type = script_type_pointer(types, type), .offset = SCRIPT_COMPUTED},
        };
        script_record_close(types, type, fields, 3, false, 0, SCRIPT_COMPUTED);
    }
    return type;
}

static size_t env_arguments(void *cookie, struct script_types *types, const struct script_argument **list)
{
    struct script_argument *arguments = cookie;
    arguments[0] = (struct script_argument){"count", script_types_find(types, "int"), 1};
    arguments[1] = (struct script_argument){"name", script_type_pointer(types, script_types_find(types, "char")), 2};
    arguments[2] = (struct script_argument){"ratio", script_types_find(types, "double"), 3};
    arguments[3] = (struct script_argument){"where", point_type(types), 4};
    arguments[4] = (struct script_argument){"at", script_type_pointer(types, point_type(types)), 5};
    *list = arguments;
    return 5;
}

static bool env_local(void *cookie, struct script_types *types, const char *name, struct script_argument *out)
{
    (void)cookie;
    *out = (struct script_argument){"local", script_types_find(types, "long"), 6};
    return strcmp(name, "local") == 0;
}

static const struct script_type *env_type(void *cookie, struct script_types *types, const char *name)
{
    (void)cookie;
    return strcmp(name, "struct point") == 0 ? point_type(types) : NULL;
}

static const struct script_type *env_retval(void *cookie, struct script_types *types)
{
    (void)cookie;
    return script_types_find(types, "long");
}

static struct script_argument arguments[5];
static const struct script_env environment = {.cookie = arguments,
                                              .name = "uprobe:/test/debug:f",
                                              .arguments = env_arguments,
                                              .local = env_local,
                                              .type = env_type,
                                              .retval = env_retval};

/* ---- one script ---- */

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    char *text = memory_alloc(1 << 20);
    *length = fread(text, 1, (1 << 20) - 1, file);
    text[*length] = 0;
    fclose(file);
    return text;
}

static void print_maps(FILE *out, const struct script_program *program)
{
    struct arena arena = {0};
    for (size_t i = 0; i < script_n_maps(program); i++) {
        const struct script_map *map = script_map_at(program, i);
        fprintf(out, "map %s", map->name);
        if (map->key)
            fprintf(out, "[%s]", script_type_name(&arena, map->key));
        fprintf(out, " :: %s", script_type_name(&arena, map->value));
        if (map->kind)
            fprintf(out, " %s(%llu)", map->kind, (unsigned long long)map->entries);
        fputc('\n', out);
    }
    for (size_t i = 0; i < script_n_thread_variables(program); i++)
        fprintf(out, "self->%s :: %s\n", script_thread_variable_at(program, i)->name,
                script_type_name(&arena, script_thread_variable_at(program, i)->type));
    arena_deinit(&arena);
}

static void check_all(FILE *out, struct script_program *program)
{
    VEC(struct script_context) contexts = {0};
    for (int model = 0; model < SCRIPT_MODELS; model++)
        for (size_t i = 0; i < script_n_clauses(program); i++) {
            const struct script_point *point = &script_clause_at(program, i)->points[0];
            bool has_process = point->path || point->kind == SCRIPT_P_PROFILE;
            struct script_context context = {.clause = i, .model = (enum script_model)model};
            if (point->path && strcmp(point->path, "/test/debug") == 0)
                context.env = &environment;
            if (model == SCRIPT_LP64 || has_process)
                VEC_PUSH(&contexts, context);
        }
    if (script_check(program, contexts.at, contexts.n) == 0) {
        print_maps(out, program);
        char *help = script_help(program);
        fputs(help, out);
        free(help);
        for (size_t i = 0; i < contexts.n; i++) {
            char *text = script_dump(program, contexts.at[i].checked);
            /* The 32-bit tree only where it differs, apart from its first line. */
            bool is_same = false;
            for (size_t j = 0; j < i && contexts.at[i].model == SCRIPT_ILP32; j++)
                if (contexts.at[j].clause == contexts.at[i].clause) {
                    char *other = script_dump(program, contexts.at[j].checked);
                    is_same = strcmp(strchr(text, '\n'), strchr(other, '\n')) == 0;
                    free(other);
                }
            if (is_same)
                fprintf(out, "clause %zu is the same for ILP32\n", contexts.at[i].clause);
            else
                fputs(text, out);
            free(text);
        }
    }
    VEC_FREE(&contexts);
}

static char *run(const char *path)
{
    char *result = NULL;
    size_t size, length;
    FILE *out = open_memstream(&result, &size);
    char *text = read_file(path, &length);
    if (!text) {
        fprintf(out, "%s: can not be read\n", path);
        fclose(out);
        return result;
    }
    const char *words[16];
    const char *slash = strrchr(path, '/');
    struct script_options options = {.name = path, .arguments = words};
    char first[256] = "";
    sscanf(text, "%255[^\n]", first);
    char *rest = NULL;
    if (strncmp(first, "// args:", 8) == 0)
        for (char *word = strtok_r(first + 8, " ", &rest); word && options.n_arguments < 16; word = strtok_r(NULL, " ", &rest))
            words[options.n_arguments++] = word;
    options.allow_unsafe = strncmp(text, "// unsafe", 9) == 0;
    struct script_program *program = script_parse(text, length, &options);
    if (script_errors(program) == 0)
        check_all(out, program);
    char *diagnostics = script_diagnostics(program);
    fputs(diagnostics, out);
    free(diagnostics);
    bool has_failed = script_errors(program) > 0;
    if (slash && has_failed != (strncmp(slash, "/err.", 5) == 0))
        fprintf(out, "FAIL: the name says otherwise\n");
    script_destroy(program);
    free(text);
    fclose(out);
    return result;
}

int main(int argc, char **argv)
{
    bool is_rebase = argc > 1 && strcmp(argv[1], "--rebase") == 0;
    if (argc > 1 && !is_rebase) {
        char *text = run(argv[1]);
        fputs(text, stdout);
        free(text);
        return 0;
    }
    glob_t found;
    if (glob("test/script/*/*.bt", 0, NULL, &found) != 0) {
        puts("no scripts in test/script");
        return 1;
    }
    int failures = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        char *expected_path = memory_format("%.*s.out", (int)strlen(path) - 3, path);
        char *text = run(path);
        size_t length;
        if (is_rebase) {
            FILE *file = fopen(expected_path, "we");
            if (!file || fputs(text, file) < 0 || fclose(file) != 0)
                return 1;
        } else {
            char *expected = read_file(expected_path, &length);
            if (!expected || strcmp(expected, text) != 0 || strstr(text, "FAIL: ")) {
                failures++;
                printf("%s: does not give %s, but:\n%s", path, expected_path, text);
            }
            free(expected);
        }
        free(text);
        free(expected_path);
    }
    printf("%zu scripts, %d failures\n", found.gl_pathc, failures);
    globfree(&found);
    return failures != 0;
}
