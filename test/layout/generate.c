/* Prints random C types, and a program around them that tells how the compiler lays them out.
 *
 *   generate COUNT SEED          the program: declarations, then a main() that prints the table
 *   generate --types COUNT SEED  the declarations only
 *
 * The declarations are plain C: enums, structs and unions t0, t1, ... with nested and anonymous members, arrays, pointers and bit-fields
 * (also unnamed and of width 0), no attributes. The table has one line for each type and each member, numbers in decimal:
 *
 *   type t0 SIZE
 *   member t0 m3 BYTE-OFFSET BIT-OFFSET BIT-SIZE SIZE
 *
 * for each name that can stand behind the dot: members, and members of anonymous members. BIT-OFFSET and BIT-SIZE are 0 but for bit-fields,
 * whose BYTE-OFFSET is that of the byte that holds their lowest bit and whose BIT-OFFSET is the position of that bit in it; SIZE is then 0.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static unsigned below(unsigned limit) /* xorshift64* */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return (unsigned)(state * 0x2545f4914f6cdd1d >> 33) % limit;
}

/* ---- types ---- */

enum { MAX_MEMBERS = 8, MAX_DEPTH = 3 };

struct member {
    bool is_bit_field; /* else it has a size */
    char name[16];
};

/* What the table lists: the members that can be named from the type itself. */
static struct member members[256];
static unsigned member_count;
static unsigned next_name;

static void indent(unsigned depth)
{
    for (unsigned i = 0; i <= depth; i++)
        printf("    ");
}

static const char *const scalars[] = {"char",  "signed char",        "unsigned char", "short", "unsigned short", "int",    "unsigned int",
                                      "long",  "unsigned long",      "long long",     "float", "double",         "char *", "void *",
                                      "_Bool", "unsigned long long", "const char *",  "int *", "long double"};
/* Types that a bit-field may have, and their widths; of long that of the smaller model. */
static const struct {
    const char *name;
    unsigned bits;
} bit_types[] = {
    {"char", 8},          {"signed char", 8},  {"unsigned char", 8},  {"short", 16},     {"unsigned short", 16},     {"int", 32},
    {"unsigned int", 32}, {"long", 32},        {"unsigned long", 32}, {"long long", 64}, {"unsigned long long", 64}, {"_Bool", 1},
    {"int", 32},          {"unsigned int", 32}};

static void add_member(const char *name, bool is_bit_field)
{
    if (member_count == sizeof members / sizeof *members)
        return;
    snprintf(members[member_count].name, sizeof members[member_count].name, "%s", name);
    members[member_count++].is_bit_field = is_bit_field;
}

static void bit_field(unsigned depth, bool is_listed)
{
    unsigned kind = below(sizeof bit_types / sizeof *bit_types), bits = 1 + below(bit_types[kind].bits);
    char name[16];
    indent(depth);
    if (below(8) == 0) { /* nothing before and behind it shares a unit; _Bool and the rest alike */
        printf("%s : 0;\n", bit_types[kind].name);
        return;
    }
    if (below(10) == 0) {
        printf("%s : %u;\n", bit_types[kind].name, bits);
        return;
    }
    snprintf(name, sizeof name, "m%u", next_name++);
    printf("%s %s : %u;\n", bit_types[kind].name, name, bits);
    if (is_listed)
        add_member(name, true);
}

static void body(unsigned index, unsigned depth, bool is_listed);

/* `is_listed`: the member's name is one of the type itself. */
static void one_member(unsigned index, unsigned depth, bool is_listed)
{
    char name[16];
    unsigned choice = below(16);
    if (choice < 5) {
        bit_field(depth, is_listed);
        return;
    }
    indent(depth);
    if (choice == 5 && depth < MAX_DEPTH) { /* anonymous */
        printf("%s {\n", below(2) ? "struct" : "union");
        body(index, depth + 1, is_listed);
        indent(depth);
        printf("};\n");
        return;
    }
    snprintf(name, sizeof name, "m%u", next_name++);
    if (is_listed)
        add_member(name, false);
    if (choice == 6 && depth < MAX_DEPTH) {
        printf("%s {\n", below(2) ? "struct" : "union");
        body(index, depth + 1, false);
        indent(depth);
        printf("} %s", name);
    } else if (choice == 7 && index > 0) {
        unsigned other = below(index);
        printf("%s t%u %s%s", other % 4 == 3 ? "union" : "struct", other, below(2) ? "*" : "", name);
    } else if (choice == 8) {
        printf("enum e%u %s", below(4), name);
    } else if (choice == 9) {
        printf("int (*%s)(long, char *);\n", name);
        return;
    } else {
        printf("%s %s", scalars[below(sizeof scalars / sizeof *scalars)], name);
    }
    for (unsigned i = below(4) ? 0 : 1 + below(2); i > 0; i--)
        printf("[%u]", 1 + below(5));
    printf(";\n");
}

static void body(unsigned index, unsigned depth, bool is_listed)
{
    unsigned count = 1 + below(depth ? 4 : MAX_MEMBERS);
    for (unsigned i = 0; i < count; i++)
        one_member(index, depth, is_listed);
    /* A type of unnamed bit-fields only has no layout that C defines. */
    char name[16];
    snprintf(name, sizeof name, "m%u", next_name++);
    indent(depth);
    printf("%s %s;\n", scalars[below(14)], name);
    if (is_listed)
        add_member(name, false);
}

/* ---- the program ---- */

static const char head[] = "#include <stddef.h>\n#include <stdio.h>\n#include <string.h>\n";
static const char helpers[] =
    "static void whole(const char *type, const char *member, unsigned long offset, unsigned long size)\n"
    "{ printf(\"member %s %s %lu 0 0 %lu\\n\", type, member, offset, size); }\n"
    "/* All bits of one member are set: where they are. */\n"
    "static void bits(const char *type, const char *member, const unsigned char *bytes, unsigned long size)\n"
    "{\n"
    "    unsigned long first = 0, last = 0, i;\n"
    "    int found = 0;\n"
    "    for (i = 0; i < size * 8; i++)\n"
    "        if (bytes[i / 8] >> i % 8 & 1) { if (!found) first = i; found = 1; last = i; }\n"
    "    printf(\"member %s %s %lu %lu %lu 0\\n\", type, member, first / 8, first % 8, found ? last - first + 1 : 0);\n"
    "}\n";

struct listed {
    unsigned first, count;
};

int main(int argc, char **argv)
{
    bool is_types_only = argc == 4 && strcmp(argv[1], "--types") == 0;
    if (argc != 3 && !is_types_only) {
        fprintf(stderr, "usage: generate [--types] COUNT SEED\n");
        return 2;
    }
    unsigned count = (unsigned)atoi(argv[argc - 2]);
    state = strtoull(argv[argc - 1], NULL, 0) * 0x9e3779b97f4a7c15 + 1;
    if (!is_types_only)
        printf("%s", head);
    printf("enum e0 { E0_A, E0_B };\nenum e1 { E1_A = -5, E1_B = 100000 };\nenum e2 { E2_A = 0x7fffffff };\nenum e3 { E3_A = 0xffffffffu "
           "};\n");
    struct member *all = NULL;
    struct listed *types = calloc(count, sizeof *types);
    size_t total = 0;
    for (unsigned i = 0; i < count && types; i++) {
        member_count = next_name = 0;
        printf("%s t%u {\n", i % 4 == 3 ? "union" : "struct", i);
        body(i, 0, true);
        printf("};\n");
        types[i] = (struct listed){(unsigned)total, member_count};
        all = realloc(all, (total + member_count) * sizeof *all);
        memcpy(all + total, members, member_count * sizeof *all);
        total += member_count;
    }
    if (is_types_only)
        return 0;
    printf("%s", helpers);
    for (unsigned i = 0; i < count; i++) {
        const char *tag = i % 4 == 3 ? "union" : "struct";
        printf("%s t%u v%u;\nstatic void show%u(void)\n{\n    printf(\"type t%u %%lu\\n\", (unsigned long)sizeof v%u);\n", tag, i, i, i, i,
               i);
        for (unsigned k = types[i].first; k < types[i].first + types[i].count; k++) {
            const char *name = all[k].name;
            if (all[k].is_bit_field)
                printf(
                    "    memset(&v%u, 0, sizeof v%u);\n    v%u.%s = -1;\n    bits(\"t%u\", \"%s\", (unsigned char *)&v%u, sizeof v%u);\n",
                    i, i, i, name, i, name, i, i);
            else
                printf("    whole(\"t%u\", \"%s\", offsetof(%s t%u, %s), sizeof v%u.%s);\n", i, name, tag, i, name, i, name);
        }
        printf("}\n");
    }
    printf("int main(void)\n{\n");
    for (unsigned i = 0; i < count; i++)
        printf("    show%u();\n", i);
    printf("    return 0;\n}\n");
    free(all);
    free(types);
    return 0;
}
