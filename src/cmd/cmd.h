/* Subcommands: options, messages, exit codes. */
#ifndef CMD_CMD_H
#define CMD_CMD_H

#include "base/err.h"
#include "climb/climb.h"

#include <stdio.h>
#include <sys/types.h>

/* Each gets its own name in argv[0] and returns the exit code. */
int cmd_list(int argc, char **argv);
int cmd_count(int argc, char **argv);
int cmd_climb(int argc, char **argv);
int cmd_trace(int argc, char **argv);
int cmd_record(int argc, char **argv);
int cmd_compile(int argc, char **argv);
int cmd_report(int argc, char **argv);
int cmd_browse(int argc, char **argv);
int cmd_import(int argc, char **argv);
/* The program under that name: `trace` with bpftrace's options, messages and exit codes. */
int cmd_bpftrace(int argc, char **argv);

#define CMD_VERSION "0.1"

/* Prints `probity: message` to stderr, frees the error and returns its exit code. */
int cmd_fail(struct err *error);
/* The exit code, unless what was printed could not be written. */
int cmd_finish(int code);
/* Writes a JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void cmd_json_string(FILE *out, const char *text);
/* Writes text that came from a file or a process with control characters made visible. */
void cmd_plain_string(FILE *out, const char *text);

/* options.c */
/* Everything behind `--` is a command, NULL without one; *argc counts what is before it. */
struct err *cmd_split_command(int *argc, char **argv, char *const **command);
struct err *cmd_parse_pid(const char *text, pid_t *out);
struct err *cmd_parse_seconds(const char *text, const char *option, double *out);
/* A number from `least` to `most`. */
struct err *cmd_parse_number(const char *text, const char *option, double least, double most, double *out);
/* What makes hot spots of a climb: "samples" or "calls". */
struct err *cmd_parse_hot(const char *text, enum climb_hot *out);
/* "2%" or "2": percent, as a share of 1. */
struct err *cmd_parse_percent(const char *text, const char *option, double *out);

#endif
