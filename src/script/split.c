/* A source into its top-level items, by braces and words alone, so that C declarations can be read before what uses them. */
#include "script/internal.h"

#include <ctype.h>
#include <string.h>

struct scan {
    const char *text;
    size_t at, end;
};

static int look(const struct scan *scan, size_t ahead)
{
    return scan->at + ahead < scan->end ? (unsigned char)scan->text[scan->at + ahead] : -1;
}

/* Skips a comment, a string, or one character. */
static void skip_one(struct scan *scan)
{
    int c = look(scan, 0);
    if (c == '/' && look(scan, 1) == '/') {
        while (look(scan, 0) >= 0 && look(scan, 0) != '\n')
            scan->at++;
    } else if (c == '/' && look(scan, 1) == '*') {
        scan->at += 2;
        while (look(scan, 0) >= 0 && !(look(scan, 0) == '*' && look(scan, 1) == '/'))
            scan->at++;
        scan->at += 2;
    } else if (c == '"') {
        for (scan->at++; look(scan, 0) >= 0 && look(scan, 0) != '"'; scan->at++)
            scan->at += look(scan, 0) == '\\';
        scan->at++;
    } else {
        scan->at++;
    }
    if (scan->at > scan->end)
        scan->at = scan->end;
}

static void skip_blank(struct scan *scan)
{
    while (look(scan, 0) >= 0) {
        int c = look(scan, 0);
        if (!isspace(c) && !(c == '/' && (look(scan, 1) == '/' || look(scan, 1) == '*')))
            return;
        skip_one(scan);
    }
}

static void skip_line(struct scan *scan)
{
    while (look(scan, 0) >= 0 && look(scan, 0) != '\n')
        scan->at += look(scan, 0) == '\\' && look(scan, 1) == '\n' ? 2 : 1;
    if (scan->at > scan->end)
        scan->at = scan->end;
}

/* To behind the bracket that closes the one at the current place; other kinds of brackets need not match. */
static void skip_balanced(struct scan *scan)
{
    int open = look(scan, 0), close = open == '(' ? ')' : '}';
    size_t depth = 0;
    while (look(scan, 0) >= 0) {
        int c = look(scan, 0);
        depth += c == open;
        skip_one(scan);
        if (c == close && --depth == 0)
            return;
    }
}

static bool at_word(const struct scan *scan, const char *word)
{
    size_t n = strlen(word);
    if (scan->at + n > scan->end || memcmp(scan->text + scan->at, word, n) != 0)
        return false;
    int after = look(scan, n);
    return !(isalnum(after) || after == '_' || after == ':');
}

static void skip_past(struct scan *scan, int stop)
{
    while (look(scan, 0) >= 0 && look(scan, 0) != stop) {
        if (look(scan, 0) == '{' || look(scan, 0) == '(')
            skip_balanced(scan);
        else
            skip_one(scan);
    }
    if (look(scan, 0) >= 0)
        scan->at++;
}

/* struct, union, enum: to the `;`, which may be missing behind the closing brace. */
static void skip_record(struct scan *scan)
{
    while (look(scan, 0) >= 0 && look(scan, 0) != ';' && look(scan, 0) != '{') {
        if (look(scan, 0) == '(')
            skip_balanced(scan);
        else
            skip_one(scan);
    }
    if (look(scan, 0) == '{')
        skip_balanced(scan);
    size_t end = scan->at;
    skip_blank(scan);
    while (at_word(scan, "__attribute__")) {
        scan->at += strlen("__attribute__");
        skip_blank(scan);
        if (look(scan, 0) == '(')
            skip_balanced(scan);
        end = scan->at;
        skip_blank(scan);
    }
    if (look(scan, 0) == ';')
        end = scan->at + 1;
    scan->at = end;
}

/* A clause: probes (where `/` and `*` mean no comment), a predicate, a block. */
static void skip_clause(struct scan *scan)
{
    bool in_word = false;
    while (look(scan, 0) >= 0 && look(scan, 0) != '{') {
        int c = look(scan, 0);
        if (in_word && c == '/') {
            scan->at++;
            continue;
        }
        in_word = !isspace(c) && c != ',' && c != '"';
        if (c == '/' && look(scan, 1) != '/' && look(scan, 1) != '*')
            in_word = false;
        skip_one(scan);
    }
    if (look(scan, 0) == '{')
        skip_balanced(scan);
}

static enum item_kind skip_item(struct scan *scan)
{
    if (look(scan, 0) == '#') {
        skip_line(scan);
        return ITEM_DIRECTIVE;
    }
    if (at_word(scan, "struct") || at_word(scan, "union") || at_word(scan, "enum")) {
        skip_record(scan);
        return ITEM_C;
    }
    if (at_word(scan, "typedef")) {
        skip_past(scan, ';');
        return ITEM_C;
    }
    if (at_word(scan, "import")) {
        skip_past(scan, ';');
        return ITEM_IMPORT;
    }
    if (at_word(scan, "let")) {
        skip_past(scan, ';');
        return ITEM_LET;
    }
    bool is_macro = at_word(scan, "macro"), is_fn = at_word(scan, "fn"), is_config = at_word(scan, "config");
    if (is_macro || is_fn || is_config) {
        while (look(scan, 0) >= 0 && look(scan, 0) != '{')
            skip_one(scan);
        if (look(scan, 0) == '{')
            skip_balanced(scan);
        return is_macro ? ITEM_MACRO : is_fn ? ITEM_FN : ITEM_CONFIG;
    }
    skip_clause(scan);
    return ITEM_CLAUSE;
}

/* Reports a comment that does not end among the blanks from `at` to the end of the source. */
static void check_comment(struct script_program *program, uint32_t file, size_t at)
{
    const struct source *source = &program->sources.at[file];
    struct lexer lexer;
    lexer_init(&lexer, program, &program->arena, file, at, source->length);
    lexer_next(&lexer);
}

void split_source(struct script_program *program, uint32_t file, struct items *out)
{
    const struct source *source = &program->sources.at[file];
    struct scan scan = {.text = source->text, .end = source->length};
    if (scan.end >= 2 && memcmp(scan.text, "#!", 2) == 0)
        skip_line(&scan);
    for (;;) {
        size_t blank = scan.at;
        skip_blank(&scan);
        if (look(&scan, 0) < 0)
            check_comment(program, file, blank);
        if (look(&scan, 0) == ';') {
            scan.at++;
            continue;
        }
        if (look(&scan, 0) < 0)
            return;
        struct item item = {.begin = scan.at};
        item.kind = skip_item(&scan);
        if (scan.at == item.begin)
            scan.at++;
        item.end = scan.at;
        VEC_PUSH(&out->list, item);
    }
}
