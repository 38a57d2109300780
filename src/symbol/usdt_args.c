/* USDT argument strings: SIZE@OPERAND, separated by blanks; operands in AT&T syntax. */
#include "symbol/usdt.h"

#include <string.h>

struct text {
    const char *at, *end;
};

static struct symbol_usdt_arg unknown(struct symbol_usdt_arg arg, const char *reason)
{
    return (struct symbol_usdt_arg){.size_bytes = arg.size_bytes,
                                    .is_signed = arg.is_signed,
                                    .is_float = arg.is_float,
                                    .reg = SYMBOL_NO_REG,
                                    .reg_high = SYMBOL_NO_REG,
                                    .index = SYMBOL_NO_REG,
                                    .reason = reason};
}

static bool take(struct text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

/* ---- registers ---- */

/* In the order of DWARF's numbers. */
static const char *const names_64[16][4] = {
    {"rax", "eax", "ax", "al"},      {"rdx", "edx", "dx", "dl"},      {"rcx", "ecx", "cx", "cl"},      {"rbx", "ebx", "bx", "bl"},
    {"rsi", "esi", "si", "sil"},     {"rdi", "edi", "di", "dil"},     {"rbp", "ebp", "bp", "bpl"},     {"rsp", "esp", "sp", "spl"},
    {"r8", "r8d", "r8w", "r8b"},     {"r9", "r9d", "r9w", "r9b"},     {"r10", "r10d", "r10w", "r10b"}, {"r11", "r11d", "r11w", "r11b"},
    {"r12", "r12d", "r12w", "r12b"}, {"r13", "r13d", "r13w", "r13b"}, {"r14", "r14d", "r14w", "r14b"}, {"r15", "r15d", "r15w", "r15b"},
};
static const char *const names_32[8][3] = {{"eax", "ax", "al"}, {"ecx", "cx", "cl"}, {"edx", "dx", "dl"}, {"ebx", "bx", "bl"},
                                           {"esp", "sp", ""},   {"ebp", "bp", ""},   {"esi", "si", ""},   {"edi", "di", ""}};

/* A register by name, which stands behind its %. False when there is no such register. */
static bool find_register(const char *name, size_t size, int width, int16_t *reg, uint8_t *shift)
{
    *shift = 0;
    for (int16_t i = 0; i < (width == 64 ? 16 : 8); i++)
        for (int k = 0; k < (width == 64 ? 4 : 3); k++) {
            const char *known = width == 64 ? names_64[i][k] : names_32[i][k];
            if (strlen(known) == size && strncmp(known, name, size) == 0) {
                *reg = i;
                return true;
            }
        }
    if (size == 2 && name[1] == 'h' && name[0] >= 'a' && name[0] <= 'd') {
        static const int16_t high[2][4] = {{SYMBOL_REG_32_EAX, SYMBOL_REG_32_EBX, SYMBOL_REG_32_ECX, SYMBOL_REG_32_EDX},
                                           {SYMBOL_REG_64_RAX, SYMBOL_REG_64_RBX, SYMBOL_REG_64_RCX, SYMBOL_REG_64_RDX}};
        *reg = high[width == 64][name[0] - 'a'];
        *shift = 8;
        return true;
    }
    if (size >= 4 && size <= 5 && strncmp(name, "xmm", 3) == 0) {
        int number = 0;
        for (size_t i = 3; i < size; i++) {
            if (name[i] < '0' || name[i] > '9')
                return false;
            number = number * 10 + name[i] - '0';
        }
        if (number >= (width == 64 ? 16 : 8) || (size == 5 && name[3] == '0'))
            return false;
        *reg = (int16_t)((width == 64 ? SYMBOL_REG_64_XMM0 : SYMBOL_REG_32_XMM0) + number);
        return true;
    }
    return false;
}

static size_t name_size(const struct text *text)
{
    const char *at = text->at;
    while (at < text->end && ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9')))
        at++;
    return (size_t)(at - text->at);
}

/* %NAME; false when it is not one. `is_pc`: it is %rip or %eip. */
static bool take_register(struct text *text, int width, int16_t *reg, uint8_t *shift, bool *is_pc)
{
    if (!take(text, '%'))
        return false;
    size_t size = name_size(text);
    *is_pc = size == 3 && (strncmp(text->at, "rip", 3) == 0 || strncmp(text->at, "eip", 3) == 0);
    bool is_good = *is_pc || find_register(text->at, size, width, reg, shift);
    text->at += size;
    return is_good;
}

/* ---- numbers and symbols ---- */

static bool take_digits(struct text *text, uint64_t *out)
{
    unsigned base = 10;
    const char *start = text->at;
    if (text->end - text->at > 2 && text->at[0] == '0' && (text->at[1] == 'x' || text->at[1] == 'X')) {
        base = 16;
        start = text->at += 2;
    }
    for (*out = 0; text->at < text->end; text->at++) {
        char c = *text->at;
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit >= base)
            break;
        if (__builtin_mul_overflow(*out, base, out) || __builtin_add_overflow(*out, digit, out))
            return false;
    }
    return text->at > start;
}

static bool is_symbol_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
}

static size_t symbol_size(const struct text *text)
{
    const char *at = text->at;
    while (at < text->end && (is_symbol_start(*at) || (*at >= '0' && *at <= '9') || *at == '$'))
        at++;
    return (size_t)(at - text->at);
}

/* Numbers and at most one symbol, with + and - between them. */
static bool take_sum(struct text *text, struct symbol_usdt_arg *arg)
{
    uint64_t total = 0;
    bool is_first = true;
    for (;;) {
        bool is_minus = false, is_sign = false;
        while (text->at < text->end && (*text->at == '-' || *text->at == '+')) {
            is_minus ^= *text->at++ == '-';
            is_sign = true;
        }
        if (!is_first && !is_sign)
            break;
        uint64_t number;
        if (text->at < text->end && is_symbol_start(*text->at)) {
            if (arg->symbol || is_minus)
                return false;
            arg->symbol = text->at;
            arg->symbol_size = symbol_size(text);
            text->at += arg->symbol_size;
            arg->is_got_offset = text->end - text->at >= 7 && strncmp(text->at, "@GOTOFF", 7) == 0;
            text->at += arg->is_got_offset ? 7 : 0;
        } else if (take_digits(text, &number)) {
            total += is_minus ? 0 - number : number;
        } else {
            return false;
        }
        is_first = false;
        if (text->at == text->end || *text->at == '(')
            break;
    }
    arg->value = (int64_t)total;
    arg->is_file_va = arg->symbol && !arg->is_got_offset;
    return true;
}

/* ---- operands ---- */

/* What stands between ( and ): base, index, scale. */
static struct symbol_usdt_arg take_inner(struct text *text, int width, struct symbol_usdt_arg arg)
{
    uint8_t shift;
    bool is_pc = false, is_index_pc = false;
    arg.scale = 1;
    if (text->at < text->end && *text->at == '%' && (!take_register(text, width, &arg.reg, &shift, &is_pc) || shift))
        return unknown(arg, "a register that does not exist");
    if (is_pc && (!arg.symbol || width != 64))
        return unknown(arg, "an address relative to the program counter, without a symbol");
    if (take(text, ',')) {
        uint64_t scale;
        if (!take_register(text, width, &arg.index, &shift, &is_index_pc) || shift || is_index_pc || is_pc)
            return unknown(arg, "an index that is no register");
        if (take(text, ',')) {
            if (!take_digits(text, &scale) || (scale != 1 && scale != 2 && scale != 4 && scale != 8))
                return unknown(arg, "a scale that does not exist");
            arg.scale = (uint8_t)scale;
        }
    }
    if (arg.is_got_offset && (is_pc || arg.reg == SYMBOL_NO_REG))
        return unknown(arg, "an offset in the global offset table, without its register");
    if (!take(text, ')') || text->at != text->end)
        return unknown(arg, "an address that can not be parsed");
    int16_t last = width == 64 ? 15 : 7;
    if (arg.reg > last || arg.index > last)
        return unknown(arg, "an address in a register that can not hold one");
    return arg;
}

static struct symbol_usdt_arg take_operand(struct text *text, int width, struct symbol_usdt_arg arg)
{
    bool is_pc;
    if (take(text, '$')) {
        arg.kind = SYMBOL_USDT_CONST;
        if (!take_sum(text, &arg) || text->at != text->end)
            return unknown(arg, "a constant that can not be parsed");
        return arg;
    }
    if (text->at < text->end && *text->at == '%') {
        arg.kind = SYMBOL_USDT_REGISTER;
        if (!take_register(text, width, &arg.reg, &arg.reg_shift, &is_pc) || is_pc)
            return unknown(arg, "a register that is not supported");
        if (text->at != text->end)
            return unknown(arg, "a segment register");
        if (width == 32 && arg.size_bytes == 8 && arg.reg <= SYMBOL_REG_32_EDI) {
            /* gcc allots consecutive registers of its own order: ax, dx, cx, bx, si, di, bp. */
            static const int16_t next[] = {SYMBOL_REG_32_EDX, SYMBOL_REG_32_EBX, SYMBOL_REG_32_ECX, SYMBOL_REG_32_ESI,
                                           SYMBOL_NO_REG,     SYMBOL_NO_REG,     SYMBOL_REG_32_EDI, SYMBOL_REG_32_EBP};
            arg.reg_high = next[arg.reg];
        }
        return arg;
    }
    arg.kind = SYMBOL_USDT_MEMORY;
    arg.scale = 1;
    if ((text->at == text->end || *text->at != '(') && !take_sum(text, &arg))
        return unknown(arg, "an operand that can not be parsed");
    if (text->at == text->end)
        return arg.is_got_offset ? unknown(arg, "an offset in the global offset table, without its register") : arg;
    return take(text, '(') ? take_inner(text, width, arg) : unknown(arg, "an operand that can not be parsed");
}

/* SIZE@, which may be missing: then the argument is a word. */
static bool take_size(struct text *text, int width, struct symbol_usdt_arg *arg)
{
    const char *sign = memchr(text->at, '@', (size_t)(text->end - text->at));
    arg->size_bytes = (uint8_t)(width / 8);
    if (!sign || (*text->at != '-' && (*text->at < '0' || *text->at > '9')))
        return true;
    struct text size = {text->at, sign};
    uint64_t number;
    arg->is_signed = take(&size, '-');
    if (!take_digits(&size, &number) || (number != 1 && number != 2 && number != 4 && number != 8 && number != 16))
        return false;
    arg->size_bytes = (uint8_t)number;
    arg->is_float = take(&size, 'f');
    text->at = sign + 1;
    return size.at == size.end;
}

size_t symbol_usdt_parse(const char *text, int width, struct symbol_usdt_arg out[SYMBOL_USDT_MAX_ARGS])
{
    size_t count = 0;
    while (count < SYMBOL_USDT_MAX_ARGS) {
        text += strspn(text, " \t");
        if (!*text)
            break;
        struct text one = {text, text + strcspn(text, " \t")};
        text = one.end;
        struct symbol_usdt_arg arg = {.reg = SYMBOL_NO_REG, .reg_high = SYMBOL_NO_REG, .index = SYMBOL_NO_REG};
        out[count++] = take_size(&one, width, &arg) ? take_operand(&one, width, arg) : unknown(arg, "a size that does not exist");
    }
    return count;
}
