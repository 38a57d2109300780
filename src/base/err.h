/* Errors as objects: a host function returns NULL when all went well, else a struct err that the caller owns. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* The numbers are the program's exit codes; doc/man/probity.1 documents them. */
enum err_code {
    ERR_SYSTEM = 1,     /* the kernel or a library refused something that should have worked */
    ERR_USAGE = 2,      /* the command line makes no sense */
    ERR_NO_PROCESS = 3, /* no such process, a zombie, or it ended while we worked on it */
    ERR_PERMISSION = 4, /* the user may not trace the process or read the file */
    ERR_NO_MATCH = 5,   /* the trace point names nothing */
    ERR_FILE = 6,       /* not an ELF file, truncated, hostile, or of another architecture */
    ERR_REFUSED = 7,    /* the process can not be traced safely now: seccomp, a debugger, another probity */
    ERR_PLACE = 8,      /* the trace point exists but can not be patched */
    ERR_BUSY = 9,       /* the process can not be stopped at a good moment, even after many attempts */
};

struct err {
    enum err_code code;
    char *message; /* one line, without the program's name and without a newline */
};

/* Never fails: when memory is short a static object is returned, which err_free() knows. */
struct err *err_new(enum err_code code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As err_new() with ": " and the text of errno value `number` appended. */
struct err *err_errno(enum err_code code, int number, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Accepts NULL. */
void err_free(struct err *error);

#define ERR_TRY(expression)                                                                                                                \
    do {                                                                                                                                   \
        struct err *try_error_ = (expression);                                                                                             \
        if (try_error_)                                                                                                                    \
            return try_error_;                                                                                                             \
    } while (0)

#endif
