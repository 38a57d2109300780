/* What a binary's debug information says, in the script's terms. */
#ifndef LIVE_ENV_H
#define LIVE_ENV_H

#include "live/file.h"
#include "script/script.h"
#include "stream/lower.h"

/* One place in one file. */
struct live_env {
    struct script_env env; /* env.cookie is this */
    struct live_files *files;
    char *path;             /* as the script has it */
    struct live_file *file; /* once it was looked for; NULL when there is none */
    bool looked_for_file;
    char *function;  /* name; NULL with an address */
    uint64_t offset; /* from its entry */
    uint64_t va;     /* of the place, once `is_found` or given */
    bool has_va, is_return;
    int width;
    struct arena arena; /* of lists and locations */
    const struct script_argument *arguments;
    size_t n_arguments;
    bool has_arguments;
};

/* `function` or `va` (with is_address) says where in the file of that width. The environment is the caller's to destroy, after the program;
 * `name` stays the caller's. Nothing is opened before the script asks. */
struct live_env *live_env_create(struct live_files *files, const char *path, int width, const char *name, const char *function,
                                 uint64_t offset, bool is_address, bool is_return);
void live_env_destroy(struct live_env *env);

/* From symbol/'s terms to the stream's. */
void live_location(const struct symbol_location *from, int width, uint64_t value_bytes, struct stream_location *out);
void live_usdt_location(const struct symbol_usdt_arg *arg, int width, struct stream_location *out);

#endif
