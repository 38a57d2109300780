#include "cmd/cmd.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

int cmd_fail(struct err *error)
{
    int code = error->code;
    fputs("probity: ", stderr);
    cmd_plain_string(stderr, error->message);
    fputc('\n', stderr);
    err_free(error);
    return code;
}

/* Whether nobody reads what we print any more, which is no error: `probity ... | head`. */
static bool is_reader_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    return errno == EPIPE || (poll(&out, 1, 0) == 1 && out.revents & POLLERR);
}

int cmd_finish(int code)
{
    errno = 0;
    if (fflush(stdout) || ferror(stdout))
        return is_reader_gone() ? code : cmd_fail(err_errno(ERR_SYSTEM, errno ? errno : EIO, "standard output"));
    return code;
}

/* Length of the UTF-8 sequence at `text`, 0 when it is none. Overlong forms and surrogates are none. */
static unsigned utf8_length(const uint8_t *text)
{
    if (text[0] < 0x80)
        return 1;
    unsigned length = text[0] >= 0xf0 && text[0] <= 0xf4  ? 4
                      : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                      : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                                                          : 0;
    for (unsigned i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) || (text[0] == 0xf0 && text[1] < 0x90) ||
        (text[0] == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

void cmd_json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = utf8_length(at);
        if (*at == '"' || *at == '\\')
            fprintf(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            fprintf(out, "\\u%04x", *at);
        else if (!length)
            fputs("\\ufffd", out);
        else
            fwrite(at, 1, length, out);
        at += length ? length : 1;
    }
    fputc('"', out);
}

void cmd_plain_string(FILE *out, const char *text)
{
    for (const uint8_t *at = (const uint8_t *)text; *at;) {
        unsigned length = utf8_length(at);
        bool c1 = length == 2 && at[0] == 0xc2 && at[1] < 0xa0; /* control characters of 8-bit terminals */
        if (*at < 0x20 || *at == 0x7f || !length || c1)
            fprintf(out, "\\x%02x", *at);
        else
            fwrite(at, 1, length, out);
        at += length && !c1 ? length : 1;
    }
}
