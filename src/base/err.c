#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct err out_of_memory = {ERR_SYSTEM, (char *)"out of memory"};

static struct err *make(enum err_code code, char *message)
{
    struct err *error = message ? malloc(sizeof *error) : NULL;
    if (!error) {
        free(message);
        return &out_of_memory;
    }
    error->code = code;
    error->message = message;
    return error;
}

static char *format_message(const char *format, va_list args)
{
    char *message = NULL;
    return vasprintf(&message, format, args) < 0 ? NULL : message;
}

struct err *err_new(enum err_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *message = format_message(format, args);
    va_end(args);
    return make(code, message);
}

struct err *err_errno(enum err_code code, int number, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *prefix = format_message(format, args);
    va_end(args);
    char *message = NULL;
    if (prefix && asprintf(&message, "%s: %s", prefix, strerror(number)) < 0)
        message = NULL;
    free(prefix);
    return make(code, message);
}

void err_free(struct err *error)
{
    if (!error || error == &out_of_memory)
        return;
    free(error->message);
    free(error);
}
