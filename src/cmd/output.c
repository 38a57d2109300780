#include "cmd/cmd.h"

#include "base/escape.h"
#include "base/output.h"

#include <errno.h>
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

int cmd_finish(int code)
{
    errno = 0;
    bool is_bad = fflush(stdout) || ferror(stdout);
    int number = errno;
    bool is_deserted = is_bad && output_is_deserted(STDOUT_FILENO, number);
    errno = 0;
    if (fclose(stdout) && !is_bad) {
        is_bad = true;
        number = errno;
    }
    return is_bad && !is_deserted ? cmd_fail(output_unwritten("standard output", number)) : code;
}

void cmd_json_string(FILE *out, const char *text)
{
    escape_json(out, text);
}

void cmd_plain_string(FILE *out, const char *text)
{
    escape_plain(out, text);
}
