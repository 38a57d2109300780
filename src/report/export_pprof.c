/* profile.proto of pprof, compressed: https://github.com/google/pprof/blob/main/proto/profile.proto
 *
 * Samples keep the places they were taken at: a location is an address of a module, with a line for each function that is inlined there.
 * Events, and trees that were built while recording, have no addresses: a location is a routine. Addresses are those of the module's
 * file; each module is one mapping from its first to its last address that is named. */
#include "report/export.h"
#include "report/order.h"
#include "report/proto.h"

#include "base/escape.h"
#include "base/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Fields of the messages. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE, PROFILE_MAPPING, PROFILE_LOCATION, PROFILE_FUNCTION, PROFILE_STRING };
enum { PROFILE_TIME = 9, PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD, PROFILE_COMMENT, PROFILE_DEFAULT_TYPE };
enum { TYPE_TYPE = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE };
enum { MAPPING_ID = 1, MAPPING_START, MAPPING_LIMIT, MAPPING_OFFSET, MAPPING_FILE, MAPPING_BUILD_ID, MAPPING_HAS_FUNCTIONS };
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE, FUNCTION_LINE };

enum { VALUES_MAX = 1 + TREE_METRICS_MAX, OUT_BYTES = 1 << 16, PAGE = 4096 };

struct pprof {
    struct profile *profile;
    FILE *out;
    z_stream zip;
    uint8_t *zipped;
    struct names strings;          /* number 0 is "" */
    struct names functions;        /* key: name, file; the number + 1 is the id */
    struct names locations;        /* key: mapping, address, lines; likewise */
    VEC(uint64_t) lowest, highest; /* by module: addresses that are named */
    struct proto message, inner;   /* being written */
    size_t metric_count;
};

/* ---- compressed output ---- */

static void zip(struct pprof *pprof, const uint8_t *bytes, size_t count, int flush)
{
    pprof->zip.next_in = (uint8_t *)bytes;
    pprof->zip.avail_in = (uInt)count;
    do {
        pprof->zip.next_out = pprof->zipped;
        pprof->zip.avail_out = OUT_BYTES;
        deflate(&pprof->zip, flush);
        fwrite(pprof->zipped, 1, OUT_BYTES - pprof->zip.avail_out, pprof->out);
    } while (!pprof->zip.avail_out);
}

/* Writes the message as a field of the profile. */
static void put_field(struct pprof *pprof, unsigned field)
{
    struct proto whole = {0};
    proto_message(&whole, field, &pprof->message);
    zip(pprof, whole.bytes.at, whole.bytes.n, Z_NO_FLUSH);
    proto_deinit(&whole);
}

static void put_number(struct pprof *pprof, unsigned field, uint64_t value)
{
    struct proto whole = {0};
    proto_number(&whole, field, value);
    if (whole.bytes.n)
        zip(pprof, whole.bytes.at, whole.bytes.n, Z_NO_FLUSH);
    proto_deinit(&whole);
}

/* ---- names ---- */

/* Strings have to be UTF-8; names of a trace need not. */
static uint64_t string_number(struct pprof *pprof, const char *text)
{
    char *plain = NULL;
    size_t bytes;
    FILE *out = open_memstream(&plain, &bytes);
    if (!out)
        return 0;
    escape_plain(out, text);
    fclose(out);
    uint64_t number = names_number(&pprof->strings, plain);
    free(plain);
    return number;
}

static uint64_t function_id(struct pprof *pprof, const char *name, const char *file, uint32_t line)
{
    uint64_t name_number = string_number(pprof, name), file_number = string_number(pprof, file ? file : "");
    char *key = memory_format("%" PRIu64 " %" PRIu64, name_number, file_number);
    size_t before = pprof->functions.text.n;
    uint64_t id = names_number(&pprof->functions, key) + 1;
    free(key);
    if (pprof->functions.text.n > before) {
        proto_number(&pprof->message, FUNCTION_ID, id);
        proto_number(&pprof->message, FUNCTION_NAME, name_number);
        proto_number(&pprof->message, FUNCTION_SYSTEM_NAME, name_number);
        proto_number(&pprof->message, FUNCTION_FILE, file_number);
        proto_number(&pprof->message, FUNCTION_LINE, line);
        put_field(pprof, PROFILE_FUNCTION);
    }
    return id;
}

/* ---- locations ---- */

struct line {
    uint64_t function; /* id */
    uint32_t line;
};

struct place {
    uint64_t mapping; /* id; 0: none */
    uint64_t address;
    VEC(struct line) line; /* innermost first */
};

static uint64_t location_id(struct pprof *pprof, const struct place *place)
{
    char *key = NULL;
    size_t bytes;
    FILE *out = open_memstream(&key, &bytes);
    if (!out)
        return 0;
    fprintf(out, "%" PRIu64 " %" PRIu64, place->mapping, place->address);
    for (size_t i = 0; i < place->line.n; i++)
        fprintf(out, " %" PRIu64 ":%" PRIu32, place->line.at[i].function, place->line.at[i].line);
    fclose(out);
    size_t before = pprof->locations.text.n;
    uint64_t id = names_number(&pprof->locations, key) + 1;
    free(key);
    if (pprof->locations.text.n == before)
        return id;
    proto_number(&pprof->message, LOCATION_ID, id);
    proto_number(&pprof->message, LOCATION_MAPPING, place->mapping);
    proto_number(&pprof->message, LOCATION_ADDRESS, place->address);
    for (size_t i = 0; i < place->line.n; i++) {
        proto_number(&pprof->inner, LINE_FUNCTION, place->line.at[i].function);
        proto_number(&pprof->inner, LINE_LINE, place->line.at[i].line);
        proto_message(&pprof->message, LOCATION_LINE, &pprof->inner);
    }
    put_field(pprof, PROFILE_LOCATION);
    return id;
}

/* Of no place: what stands for one. */
static uint64_t named_location(struct pprof *pprof, const char *name)
{
    struct place place = {0};
    VEC_PUSH(&place.line, (struct line){function_id(pprof, name, NULL, 0), 0});
    uint64_t id = location_id(pprof, &place);
    VEC_FREE(&place.line);
    return id;
}

/* Mappings are numbered as modules are, from 1 on. */
static uint64_t mapping_id(struct pprof *pprof, uint32_t module, uint64_t address)
{
    if (module == TRACE_NONE)
        return 0;
    if (address) {
        if (!pprof->highest.at[module] || address < pprof->lowest.at[module])
            pprof->lowest.at[module] = address;
        if (address > pprof->highest.at[module])
            pprof->highest.at[module] = address;
    }
    return module + 1;
}

/* ---- samples ---- */

/* What each stack of the trace stands for. */
struct weights {
    const struct pprof *pprof;
    uint64_t *value; /* by stack: how many samples, then by metric */
};

static bool add_weights(void *context, const struct trace_record *record, size_t count)
{
    struct weights *weights = context;
    size_t metric_count = weights->pprof->metric_count;
    for (size_t i = 0; i < count; i++) {
        if (record[i].major != TRACE_SAMPLE || record[i].number == TRACE_NONE || record[i].metric >= metric_count)
            continue;
        uint64_t *value = &weights->value[(size_t)record[i].number * (1 + metric_count)];
        value[0]++;
        value[1 + record[i].metric] += record[i].value;
    }
    return true;
}

typedef VEC(uint64_t) ids;

static void put_sample(struct pprof *pprof, const ids *location, const uint64_t *value)
{
    proto_numbers(&pprof->message, SAMPLE_LOCATION, location->at, location->n);
    proto_numbers(&pprof->message, SAMPLE_VALUE, value, 1 + pprof->metric_count);
    put_field(pprof, PROFILE_SAMPLE);
}

/* Where a stack is, innermost: frames up to the first that is not inlined are one location. `outer` is the stack that goes on from there.
 * Stacks share their outer parts: each location is made once. */
struct inner {
    uint64_t location; /* id; 0: not made yet */
    uint32_t outer;
};

static void make_inner(struct pprof *pprof, uint32_t number, struct inner *inner)
{
    const struct trace *trace = pprof->profile->trace;
    size_t count;
    const struct trace_stack *stack = trace_stacks(trace, &count);
    const struct trace_frame *frame = trace_frames(trace, &count), *at = &frame[stack[number].frame];
    const struct trace_function *function = trace_functions(trace, &count);
    struct place place = {.address = at->offset, .mapping = mapping_id(pprof, function[at->function].module, at->offset)};
    for (bool is_whole = false; !is_whole && number != TRACE_NONE; number = stack[number].parent) {
        at = &frame[stack[number].frame];
        const struct trace_function *in = &function[at->function];
        VEC_PUSH(&place.line, (struct line){function_id(pprof, in->name, in->file ? in->file : at->file, in->line), at->line});
        is_whole = !at->is_inlined;
    }
    inner->location = location_id(pprof, &place);
    inner->outer = number;
    VEC_FREE(&place.line);
}

static void stack_locations(struct pprof *pprof, uint32_t number, struct inner *inner, size_t most, ids *out)
{
    out->n = 0;
    for (; number != TRACE_NONE; number = inner[number].outer) {
        if (out->n == most) {
            VEC_PUSH(out, named_location(pprof, EXPORT_CUT));
            return;
        }
        if (!inner[number].location)
            make_inner(pprof, number, &inner[number]);
        VEC_PUSH(out, inner[number].location);
    }
}

static struct err *put_stacks(struct pprof *pprof)
{
    const struct profile *profile = pprof->profile;
    size_t stack_count, width = 1 + pprof->metric_count;
    trace_stacks(profile->trace, &stack_count);
    struct weights weights = {pprof, memory_zero(stack_count * width + 1, sizeof *weights.value)};
    struct err *error = NULL;
    for (size_t i = 0; i < profile->thread.n && !error; i++)
        error = profile_read(profile, profile->thread.at[i].thread, add_weights, &weights);
    ids location = {0};
    struct inner *inner = memory_zero(stack_count + 1, sizeof *inner);
    const struct trace_stack *stack = trace_stacks(profile->trace, &stack_count);
    size_t *level = memory_zero(stack_count + 1, sizeof *level), most;
    struct export_depth depth = {0};
    for (uint32_t i = 0; i < stack_count; i++) { /* outer parts come before the whole */
        level[i] = 1 + (stack[i].parent == TRACE_NONE ? 0 : level[stack[i].parent]);
        if (weights.value[i * width])
            export_depth_count(&depth, level[i]);
    }
    free(level);
    most = export_depth_most(&depth, pprof->profile);
    for (uint32_t i = 0; i < stack_count && !error; i++) {
        if (!weights.value[i * width])
            continue;
        stack_locations(pprof, i, inner, most, &location);
        put_sample(pprof, &location, &weights.value[i * width]);
    }
    VEC_FREE(&location);
    free(inner);
    free(weights.value);
    return error;
}

/* ---- trees ---- */

static uint32_t module_number(const struct pprof *pprof, const char *path)
{
    size_t count;
    const struct trace_module *module = trace_modules(pprof->profile->trace, &count);
    for (uint32_t i = 0; path && i < count; i++)
        if (!strcmp(module[i].path, path))
            return i;
    return TRACE_NONE;
}

static uint64_t routine_location(struct pprof *pprof, uint32_t routine)
{
    const struct tree_set *set = pprof->profile->set;
    uint32_t line = 0;
    const char *file = tree_routine_file(set, routine, &line);
    struct place place = {.mapping = mapping_id(pprof, module_number(pprof, tree_routine_module(set, routine)), 0)};
    VEC_PUSH(&place.line, (struct line){function_id(pprof, tree_routine(set, routine), file, line), line});
    uint64_t id = location_id(pprof, &place);
    VEC_FREE(&place.line);
    return id;
}

static void put_tree(struct pprof *pprof)
{
    struct profile *profile = pprof->profile;
    const struct tree *tree = profile_sum(profile);
    size_t count, routines = tree_routine_count(profile->set);
    const struct tree_node *node = tree_nodes(tree, &count);
    uint64_t *location_of = memory_zero(routines + 1, sizeof *location_of);
    ids location = {0};
    struct export_depth depth = {0};
    for (uint32_t i = 0; i < count; i++)
        export_depth_count(&depth, node[i].level);
    size_t most = export_depth_most(&depth, profile);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t value[VALUES_MAX] = {profile->what == TREE_EVENTS ? node[i].calls : node[i].samples}, any = i ? value[0] : 0;
        for (unsigned m = 0; m < pprof->metric_count; m++) {
            value[1 + m] = (uint64_t)tree_base(tree, i, profile->what, m) + (uint64_t)tree_folded(tree, i, profile->what, m);
            any |= value[1 + m];
        }
        if (!any)
            continue;
        location.n = 0;
        if (!i)
            VEC_PUSH(&location, named_location(pprof, EXPORT_OUTSIDE));
        for (uint32_t at = i; at; at = node[at].parent) {
            if (location.n == most) {
                VEC_PUSH(&location, named_location(pprof, EXPORT_CUT));
                break;
            }
            if (!location_of[node[at].routine])
                location_of[node[at].routine] = routine_location(pprof, node[at].routine);
            VEC_PUSH(&location, location_of[node[at].routine]);
        }
        put_sample(pprof, &location, value);
    }
    VEC_FREE(&location);
    free(location_of);
}

/* ---- the rest ---- */

static const char *pprof_unit(const char *unit)
{
    return !strcmp(unit, "ns") ? "nanoseconds" : unit;
}

static void put_type(struct pprof *pprof, unsigned field, const char *type, const char *unit)
{
    proto_number(&pprof->message, TYPE_TYPE, string_number(pprof, type));
    proto_number(&pprof->message, TYPE_UNIT, string_number(pprof, unit));
    put_field(pprof, field);
}

static void put_mappings(struct pprof *pprof)
{
    size_t count;
    const struct trace_module *module = trace_modules(pprof->profile->trace, &count);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = pprof->lowest.at[i] & ~(uint64_t)(PAGE - 1), limit = (pprof->highest.at[i] | (PAGE - 1)) + 1;
        char hex[2 * 64 + 1] = "";
        for (uint32_t k = 0; module[i].build_id && k < module[i].build_id_bytes && k < 64; k++)
            snprintf(hex + 2 * k, 3, "%02x", module[i].build_id[k]);
        proto_number(&pprof->message, MAPPING_ID, i + 1);
        proto_number(&pprof->message, MAPPING_START, start);
        proto_number(&pprof->message, MAPPING_LIMIT, limit);
        proto_number(&pprof->message, MAPPING_OFFSET, start);
        proto_number(&pprof->message, MAPPING_FILE, string_number(pprof, module[i].path));
        proto_number(&pprof->message, MAPPING_BUILD_ID, string_number(pprof, hex));
        for (unsigned k = 0; k < 4; k++) /* functions, file names, lines, inlined functions: pprof need not look for them */
            proto_number(&pprof->message, MAPPING_HAS_FUNCTIONS + k, 1);
        put_field(pprof, PROFILE_MAPPING);
    }
}

static void put_strings(struct pprof *pprof)
{
    for (size_t i = 0; i < pprof->strings.text.n; i++) {
        struct proto string = {0};
        proto_text(&string, PROFILE_STRING, pprof->strings.text.at[i]);
        zip(pprof, string.bytes.at, string.bytes.n, Z_NO_FLUSH);
        proto_deinit(&string);
    }
}

static struct err *put_profile(struct pprof *pprof)
{
    const struct profile *profile = pprof->profile;
    const struct trace_about *about = &profile->info->about;
    names_number(&pprof->strings, "");
    put_type(pprof, PROFILE_SAMPLE_TYPE, profile->what == TREE_EVENTS ? "calls" : "samples", "count");
    for (size_t i = 0; i < pprof->metric_count; i++)
        put_type(pprof, PROFILE_SAMPLE_TYPE, profile->metrics[i].name, pprof_unit(profile->metrics[i].unit));
    if (profile->what == TREE_EVENTS || profile_is_tree(profile))
        put_tree(pprof);
    else
        ERR_TRY(put_stacks(pprof));
    put_mappings(pprof);
    put_number(pprof, PROFILE_TIME, about->start_realtime_ns);
    put_number(pprof, PROFILE_DURATION, profile->info->end_ns > about->start_ns ? profile->info->end_ns - about->start_ns : 0);
    if (about->period_ns && profile->what == TREE_SAMPLES) {
        put_type(pprof, PROFILE_PERIOD_TYPE, profile->metrics[0].name, pprof_unit(profile->metrics[0].unit));
        put_number(pprof, PROFILE_PERIOD, about->period_ns);
    }
    put_number(pprof, PROFILE_DEFAULT_TYPE, string_number(pprof, profile->metrics[profile->metric].name));
    put_strings(pprof);
    return NULL;
}

struct err *export_pprof(struct profile *profile, const struct report_options *options, FILE *out)
{
    (void)options;
    struct pprof pprof = {.profile = profile, .out = out, .zipped = memory_alloc(OUT_BYTES)};
    enum { GZIP = 16 };
    if (deflateInit2(&pprof.zip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + GZIP, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(pprof.zipped);
        return err_new(ERR_SYSTEM, "report: zlib does not start");
    }
    pprof.metric_count = profile->metric_count < TREE_METRICS_MAX ? profile->metric_count : TREE_METRICS_MAX;
    size_t modules;
    trace_modules(profile->trace, &modules);
    for (size_t i = 0; i < modules; i++) {
        VEC_PUSH(&pprof.lowest, 0);
        VEC_PUSH(&pprof.highest, 0);
    }
    struct err *error = put_profile(&pprof);
    zip(&pprof, NULL, 0, Z_FINISH);
    deflateEnd(&pprof.zip);
    free(pprof.zipped);
    names_deinit(&pprof.strings);
    names_deinit(&pprof.functions);
    names_deinit(&pprof.locations);
    VEC_FREE(&pprof.lowest);
    VEC_FREE(&pprof.highest);
    proto_deinit(&pprof.message);
    proto_deinit(&pprof.inner);
    return error;
}
