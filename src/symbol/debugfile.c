/* What a distribution split off: a separate debug file, found by build-id or by .gnu_debuglink, or .gnu_debugdata, a compressed ELF file
 * with a .symtab inside the file itself. The first that has symbols is used. */
#include "symbol/internal.h"

#include "base/regular.h"

#include <fcntl.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A program linked without liblzma does without .gnu_debugdata. (A weak reference alone does not make --as-needed link it.) */
#pragma weak lzma_stream_buffer_decode

static bool take_symbols(void *context, struct symbol_elf *elf, const char *path)
{
    (void)path;
    struct symbol_file *file = context;
    size_t before = file->candidates.n;
    file->name_budget += elf->image.size;
    file->demangle_budget += 4 * elf->image.size;
    symbol_load_symtab(file, elf, SHT_SYMTAB);
    elf->image.fd = -1;
    if (file->candidates.n > before)
        file->extra = elf;
    return file->extra;
}

/* ---- .gnu_debuglink ---- */

/* The CRC-32 of .gnu_debuglink (reflected, polynomial 0xedb88320), of a whole file. */
static bool file_crc(int fd, uint32_t *crc)
{
    enum { STEP = 1 << 16 };
    static const uint64_t MAX = 1ULL << 30;
    uint32_t table[256];
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++)
            table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
    uint8_t *buffer = memory_alloc(STEP);
    uint32_t value = ~0u;
    uint64_t offset = 0;
    ssize_t got;
    while ((got = pread(fd, buffer, STEP, (off_t)offset)) > 0 && offset < MAX) {
        for (ssize_t i = 0; i < got; i++)
            value = table[(value ^ buffer[i]) & 0xff] ^ value >> 8;
        offset += (uint64_t)got;
    }
    free(buffer);
    *crc = ~value;
    return got == 0;
}

/* Opens a debug file and offers it when it belongs to `of`: by build-id, or where either has none, by `crc`. */
static bool try_debug_file(const struct symbol_elf *of, const char *path, const uint32_t *crc, symbol_take_fn *take, void *context)
{
    int fd = regular_open(path);
    if (fd < 0)
        return false;
    struct symbol_elf *elf = memory_zero(1, sizeof *elf);
    struct err *error = symbol_image_init(&elf->image, fd, path);
    if (!error)
        error = symbol_elf_parse(elf, path, false);
    bool is_ours = !error && elf->width == of->width;
    if (is_ours && elf->build_id_size && of->build_id_size) {
        is_ours = elf->build_id_size == of->build_id_size && memcmp(elf->build_id, of->build_id, elf->build_id_size) == 0;
    } else if (is_ours) {
        uint32_t value;
        is_ours = crc && file_crc(fd, &value) && value == *crc;
    }
    err_free(error);
    bool is_taken = is_ours && take(context, elf, path);
    if (!is_taken) {
        symbol_elf_deinit(elf);
        free(elf);
    }
    close(fd);
    return is_taken;
}

static bool by_build_id(const struct symbol_elf *of, symbol_take_fn *take, void *context)
{
    char path[sizeof "/usr/lib/debug/.build-id/.debug" + 2 * sizeof of->build_id + 8];
    if (of->build_id_size < 2)
        return false;
    int at = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/%02x/", of->build_id[0]);
    for (size_t i = 1; i < of->build_id_size; i++)
        at += snprintf(path + at, sizeof path - (size_t)at, "%02x", of->build_id[i]);
    snprintf(path + at, sizeof path - (size_t)at, ".debug");
    return try_debug_file(of, path, NULL, take, context);
}

static bool by_debug_link(struct symbol_elf *of, const char *of_path, symbol_take_fn *take, void *context)
{
    const struct symbol_section *section = symbol_elf_section(of, ".gnu_debuglink");
    const uint8_t *bytes = section ? symbol_elf_section_bytes(of, section) : NULL;
    const uint8_t *nul = bytes ? memchr(bytes, 0, (size_t)section->size) : NULL;
    if (!nul || nul == bytes || nul - bytes > 255 || memchr(bytes, '/', (size_t)(nul - bytes)))
        return false;
    uint64_t crc_at = ((uint64_t)(nul - bytes) + 4) & ~3ULL;
    uint32_t crc;
    if (section->size < 4 || crc_at > section->size - 4)
        return false;
    memcpy(&crc, bytes + crc_at, 4);
    const char *slash = strrchr(of_path, '/');
    char *folder = slash ? strndup(of_path, (size_t)(slash + 1 - of_path)) : strdup("./");
    bool is_taken = false;
    const char *patterns[][2] = {{"", ""}, {"", ".debug/"}, {"/usr/lib/debug", ""}};
    for (size_t i = 0; folder && i < 3 && !is_taken; i++) {
        char *path = memory_format("%s%s%s%s", patterns[i][0], folder, patterns[i][1], (const char *)bytes);
        is_taken = try_debug_file(of, path, &crc, take, context);
        free(path);
    }
    free(folder);
    return is_taken;
}

void symbol_find_debug_file(struct symbol_elf *of, const char *path, symbol_take_fn *take, void *context)
{
    if (!by_build_id(of, take, context))
        by_debug_link(of, path, take, context);
}

/* ---- .gnu_debugdata ---- */

static void by_debug_data(struct symbol_file *file)
{
    const struct symbol_section *section = symbol_elf_section(&file->elf, ".gnu_debugdata");
    const uint8_t *bytes = section ? symbol_elf_section_bytes(&file->elf, section) : NULL;
    if (!bytes || !lzma_stream_buffer_decode)
        return;
    /* Symbol tables shrink to a fifth or so; what claims to have shrunk much more is not one. */
    size_t room = (size_t)section->size * 16 + (1 << 16);
    uint64_t memory_limit = 80 << 20; /* xz -9 asks for 65 MiB; only what the output reaches is touched */
    uint8_t *plain = memory_alloc(room);
    size_t in = 0, size = 0;
    if (lzma_stream_buffer_decode(&memory_limit, 0, NULL, bytes, &in, (size_t)section->size, plain, &size, room) != LZMA_OK ||
        size < sizeof(Elf32_Ehdr)) {
        free(plain);
        return;
    }
    plain = memory_resize(plain, size, 1);
    struct symbol_elf *elf = memory_zero(1, sizeof *elf);
    symbol_image_init_memory(&elf->image, plain, size);
    struct err *error = symbol_elf_parse(elf, ".gnu_debugdata", false);
    if (error || elf->width != file->elf.width || !take_symbols(file, elf, ".gnu_debugdata")) {
        symbol_elf_deinit(elf);
        free(elf);
    }
    err_free(error);
}

void symbol_load_debug_file(struct symbol_file *file)
{
    symbol_find_debug_file(&file->elf, file->path, take_symbols, file);
    if (!file->extra)
        by_debug_data(file);
}
