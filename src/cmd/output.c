#include "cmd/cmd.h"

#include "base/escape.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
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

void cmd_json_string(FILE *out, const char *text)
{
    escape_json(out, text);
}

void cmd_plain_string(FILE *out, const char *text)
{
    escape_plain(out, text);
}
