/* Reads .note.stapsdt and .stapsdt.base; see usdt.h. */
#include "symbol/usdt.h"
#include "symbol/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOTE_TYPE = 3, MAX_TEXT = 4096, MAX_SYMBOL = 255 };

struct symbol_usdt {
    struct symbol_elf elf;
    VEC(struct symbol_usdt_probe) probes;
    VEC(struct symbol_usdt_arg) args; /* of all probes, in their order */
};

/* ---- symbols ---- */

struct resolver {
    struct symbol_usdt *usdt;
    bool *is_waiting; /* for each argument: its symbol's address is not known yet */
    size_t left;      /* how many are */
};

static void resolve_in(struct resolver *resolver, struct symbol_elf *elf, uint32_t type)
{
    struct symbol_usdt *usdt = resolver->usdt;
    uint64_t budget = 64 * usdt->elf.image.size + (1 << 20);
    for (size_t i = 0; i < elf->sections.n && resolver->left; i++) {
        const struct symbol_section *table = &elf->sections.at[i];
        if (table->type != type || table->link >= elf->sections.n)
            continue;
        const struct symbol_section *strings = &elf->sections.at[table->link];
        const uint8_t *entries = symbol_elf_section_bytes(elf, table), *text = symbol_elf_section_bytes(elf, strings);
        uint64_t count = table->size / symbol_elf_entry_size(elf);
        for (uint64_t k = 0; entries && text && k < count; k++) {
            struct symbol_entry entry = symbol_elf_entry(elf, entries, (size_t)k);
            if (entry.section == SHN_UNDEF || entry.section >= SHN_LORESERVE || entry.name >= strings->size || (entry.info & 15) == STT_TLS)
                continue;
            const char *name = (const char *)text + entry.name;
            size_t size = strnlen(name, (size_t)(strings->size - entry.name < MAX_SYMBOL ? strings->size - entry.name : MAX_SYMBOL));
            for (size_t a = 0; a < usdt->args.n; a++) {
                struct symbol_usdt_arg *arg = &usdt->args.at[a];
                if (!resolver->is_waiting[a] || arg->symbol_size != size || memcmp(arg->symbol, name, size) != 0)
                    continue;
                arg->value = (int64_t)((uint64_t)arg->value + entry.value - (arg->is_got_offset ? usdt->elf.got_va : 0));
                resolver->is_waiting[a] = false;
                resolver->left--;
            }
            if (usdt->args.n + size + 1 > budget)
                return;
            budget -= usdt->args.n + size + 1;
        }
    }
}

static bool resolve_in_debug_file(void *context, struct symbol_elf *debug, const char *path)
{
    (void)path;
    resolve_in(context, debug, SHT_SYMTAB);
    return false;
}

/* Adds the addresses of symbols; what has none becomes unknown. */
static void resolve(struct symbol_usdt *usdt, const char *path)
{
    struct resolver resolver = {usdt, memory_zero(usdt->args.n, sizeof(bool)), 0};
    for (size_t i = 0; i < usdt->args.n; i++)
        resolver.left += resolver.is_waiting[i] = usdt->args.at[i].symbol;
    if (resolver.left)
        resolve_in(&resolver, &usdt->elf, SHT_SYMTAB);
    if (resolver.left)
        resolve_in(&resolver, &usdt->elf, SHT_DYNSYM);
    if (resolver.left)
        symbol_find_debug_file(&usdt->elf, path, resolve_in_debug_file, &resolver);
    for (size_t i = 0; i < usdt->args.n; i++)
        if (resolver.is_waiting[i]) {
            usdt->args.at[i].kind = SYMBOL_USDT_UNKNOWN;
            usdt->args.at[i].reason = "its symbol is not in the file";
        }
    free(resolver.is_waiting);
}

/* ---- notes ---- */

/* The next NUL-terminated text without control characters, or NULL. */
static const char *take_text(const uint8_t **at, const uint8_t *end)
{
    size_t room = (size_t)(end - *at) < MAX_TEXT ? (size_t)(end - *at) : MAX_TEXT;
    const uint8_t *nul = room ? memchr(*at, 0, room) : NULL;
    if (!nul)
        return NULL;
    const char *text = (const char *)*at;
    for (const uint8_t *c = *at; c < nul; c++)
        if ((*c < 0x20 && *c != '\t') || *c == 0x7f)
            return NULL;
    *at = nul + 1;
    return text;
}

/* The description: address, base, semaphore, then three texts. */
static void add_probe(struct symbol_usdt *usdt, const uint8_t *at, const uint8_t *end, const struct symbol_section *base)
{
    size_t word = usdt->elf.width == 64 ? 8 : 4;
    if ((size_t)(end - at) < 3 * word)
        return;
    struct symbol_usdt_probe probe = {.va = symbol_elf_word(&usdt->elf, at), .semaphore_va = symbol_elf_word(&usdt->elf, at + 2 * word)};
    /* Prelinking moves everything but notes, which are not loaded: the section's real address tells by how much. */
    uint64_t move = base ? base->va - symbol_elf_word(&usdt->elf, at + word) : 0;
    probe.va += move;
    if (probe.semaphore_va)
        probe.semaphore_va += move;
    if (usdt->elf.width == 32) {
        probe.va = (uint32_t)probe.va;
        probe.semaphore_va = (uint32_t)probe.semaphore_va;
    }
    at += 3 * word;
    probe.provider = take_text(&at, end);
    probe.name = probe.provider ? take_text(&at, end) : NULL;
    probe.arguments = probe.name ? take_text(&at, end) : NULL;
    if (!probe.arguments || !probe.provider[0] || !probe.name[0])
        return;
    bool is_code = false;
    for (size_t i = 0; i < usdt->elf.segments.n && !is_code; i++) {
        const struct symbol_segment *segment = &usdt->elf.segments.at[i];
        is_code = segment->executable && probe.va >= segment->va && probe.va - segment->va < segment->size;
    }
    if (is_code)
        VEC_PUSH(&usdt->probes, probe);
}

static void read_notes(struct symbol_usdt *usdt, const uint8_t *bytes, uint64_t size)
{
    const struct symbol_section *base = symbol_elf_section(&usdt->elf, ".stapsdt.base");
    for (uint64_t at = 0; size - at >= 12;) {
        uint32_t head[3];
        memcpy(head, bytes + at, sizeof head);
        uint64_t value = at + 12 + (((uint64_t)head[0] + 3) & ~3ULL);
        if (value > size || head[1] > size - value)
            return;
        if (head[2] == NOTE_TYPE && head[0] == 8 && memcmp(bytes + at + 12, "stapsdt", 8) == 0)
            add_probe(usdt, bytes + value, bytes + value + head[1], base);
        uint64_t next = value + (((uint64_t)head[1] + 3) & ~3ULL);
        if (next > size)
            return;
        at = next;
    }
}

static int by_va(const void *left, const void *right)
{
    const struct symbol_usdt_probe *a = left, *b = right;
    if (a->va != b->va)
        return a->va < b->va ? -1 : 1;
    int order = strcmp(a->provider, b->provider);
    return order ? order : strcmp(a->name, b->name);
}

static void parse_args(struct symbol_usdt *usdt, const char *path)
{
    for (size_t i = 0; i < usdt->probes.n; i++) {
        struct symbol_usdt_arg args[SYMBOL_USDT_MAX_ARGS];
        struct symbol_usdt_probe *probe = &usdt->probes.at[i];
        probe->arg_count = symbol_usdt_parse(probe->arguments, usdt->elf.width, args);
        for (size_t k = 0; k < probe->arg_count; k++)
            VEC_PUSH(&usdt->args, args[k]);
    }
    resolve(usdt, path);
    for (size_t i = 0, at = 0; i < usdt->probes.n; at += usdt->probes.at[i++].arg_count)
        usdt->probes.at[i].args = usdt->args.at ? usdt->args.at + at : NULL;
}

/* ---- open and close ---- */

struct err *symbol_usdt_open_fd(int fd, const char *path, struct symbol_usdt **out)
{
    struct symbol_usdt *usdt = memory_zero(1, sizeof *usdt);
    *out = NULL;
    struct err *error = symbol_image_init(&usdt->elf.image, fd, path);
    if (!error)
        error = symbol_elf_parse(&usdt->elf, path, false);
    if (!error && usdt->elf.type == ET_REL)
        error = err_new(ERR_FILE, "symbol: %s: neither a program nor a shared object", path);
    if (error) {
        symbol_usdt_close(usdt);
        return error;
    }
    /* Linkers may leave several sections of the name. */
    for (size_t i = 0; i < usdt->elf.sections.n; i++) {
        const struct symbol_section *section = &usdt->elf.sections.at[i];
        const uint8_t *bytes = strcmp(section->name, ".note.stapsdt") == 0 ? symbol_elf_section_bytes(&usdt->elf, section) : NULL;
        if (bytes && usdt->probes.n < usdt->elf.image.size / 24)
            read_notes(usdt, bytes, section->size);
    }
    if (usdt->probes.n)
        qsort(usdt->probes.at, usdt->probes.n, sizeof *usdt->probes.at, by_va);
    parse_args(usdt, path);
    usdt->elf.image.fd = -1;
    *out = usdt;
    return NULL;
}

struct err *symbol_usdt_open(const char *path, struct symbol_usdt **out)
{
    *out = NULL;
    int fd;
    ERR_TRY(symbol_open_path(path, &fd));
    struct err *error = symbol_usdt_open_fd(fd, path, out);
    close(fd);
    return error;
}

void symbol_usdt_close(struct symbol_usdt *usdt)
{
    if (!usdt)
        return;
    VEC_FREE(&usdt->probes);
    VEC_FREE(&usdt->args);
    symbol_elf_deinit(&usdt->elf);
    free(usdt);
}

int symbol_usdt_width(const struct symbol_usdt *usdt)
{
    return usdt->elf.width;
}

const struct symbol_usdt_probe *symbol_usdt_probes(const struct symbol_usdt *usdt, size_t *count)
{
    *count = usdt->probes.n;
    return usdt->probes.at;
}
