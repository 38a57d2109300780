/* A trace that is not whole is read as far as it goes, and says that it is cut: files cut short at every byte, a writer that is killed, a
 * full disk, files that are missing, longer, of another trace or of another version. timeout: 300 */
#include "test/unit/trace_random.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static const struct trace_about about = {.host = "host", .command = "command", .start_ns = 1000, .start_realtime_ns = 5000};

/* ---- files ---- */

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "re");
    require(file, path);
    uint8_t *bytes = memory_alloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    require(*size < 1 << 20, "the file is small");
    fclose(file);
    return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "we");
    require(file && fwrite(bytes, 1, size, file) == size && !fclose(file), path);
}

/* ---- reading what is there ---- */

/* The records of each thread, channels apart, as they were in the whole trace. */
struct whole {
    size_t thread_count, function_count;
    struct trace_record *records[64][2];
    size_t count[64][2];
};

static void read_channels(struct trace *trace, uint32_t thread, struct trace_record *records[2], size_t count[2])
{
    struct trace_cursor *cursor;
    struct trace_record found[32];
    VEC(struct trace_record) part[2] = {{0}};
    uint64_t last_ns = 0;
    require_no(trace_cursor_open(trace, thread, &cursor));
    for (size_t got; (got = trace_next(cursor, found, 32)) > 0;)
        for (size_t i = 0; i < got; i++) {
            require(found[i].time_ns >= last_ns, "times never go back");
            last_ns = found[i].time_ns;
            int channel = keep_what_counts(&found[i]);
            VEC_PUSH(&part[channel], found[i]);
        }
    trace_cursor_close(cursor);
    for (int channel = 0; channel < 2; channel++) {
        records[channel] = part[channel].at;
        count[channel] = part[channel].n;
    }
}

static void read_whole(const char *path, struct whole *whole)
{
    struct trace *trace;
    require_no(trace_open(path, &trace));
    trace_functions(trace, &whole->function_count);
    trace_threads(trace, &whole->thread_count);
    require(whole->thread_count <= 64, "few threads");
    for (uint32_t i = 0; i < whole->thread_count; i++)
        read_channels(trace, i, whole->records[i], whole->count[i]);
    require(!trace_info(trace)->is_cut, "it is whole");
    trace_close(trace);
}

static void forget_whole(struct whole *whole)
{
    for (size_t i = 0; i < whole->thread_count; i++)
        for (int channel = 0; channel < 2; channel++)
            free(whole->records[i][channel]);
}

/* What a damaged copy gives is a prefix; returns how many records, or SIZE_MAX when it does not open. */
static size_t read_prefix(const char *path, const struct whole *whole, bool must_be_cut)
{
    struct trace *trace;
    struct err *error = trace_open(path, &trace);
    if (error) {
        require(error->code == ERR_FILE && !trace, "what does not open is ERR_FILE");
        err_free(error);
        return SIZE_MAX;
    }
    size_t threads, functions, total = 0;
    trace_functions(trace, &functions);
    trace_threads(trace, &threads);
    require(threads <= whole->thread_count && functions <= whole->function_count, "definitions are a prefix");
    for (uint32_t i = 0; i < threads; i++) {
        struct trace_record *records[2];
        size_t count[2];
        read_channels(trace, i, records, count);
        for (int channel = 0; channel < 2; channel++) {
            require(count[channel] <= whole->count[i][channel], "records are not more");
            for (size_t k = 0; k < count[channel]; k++)
                require(is_same_record(&records[channel][k], &whole->records[i][channel][k]), "records are a prefix");
            total += count[channel];
            free(records[channel]);
        }
    }
    require(trace_info(trace)->is_cut == must_be_cut, "it says whether it is cut");
    require(!must_be_cut || trace_info(trace)->cut_where, "it says where it is cut");
    trace_close(trace);
    return total;
}

static void make(const char *path, uint64_t seed, size_t steps)
{
    struct written_trace written = {0};
    struct trace_writer *writer;
    random_seed(seed);
    require_no(trace_writer_create(path, &about, &writer));
    write_random(writer, &written, about.start_ns, steps / 2, true);
    require_no(trace_writer_flush(writer)); /* channels of two packets */
    write_random(writer, &written, written.now_ns, steps / 2, true);
    require_no(trace_writer_close(writer));
    forget_written(&written);
}

/* ---- cut at every byte ---- */

static size_t cut_file(const char *path, const char *name, const struct whole *whole)
{
    char *file = memory_format("%s/%s", path, name);
    size_t size, opened = 0;
    uint8_t *bytes = read_file(file, &size);
    for (size_t length = 0; length < size; length++) {
        write_file(file, bytes, length);
        opened += read_prefix(path, whole, true) != SIZE_MAX;
    }
    /* Longer than it was. */
    bytes[size] = 0;
    write_file(file, bytes, size + 1);
    read_prefix(path, whole, true);
    require(!unlink(file), "unlink");
    read_prefix(path, whole, true);
    write_file(file, bytes, size);
    size_t all = read_prefix(path, whole, false);
    require(all != SIZE_MAX && all > 0, "whole again");
    free(bytes);
    free(file);
    printf("%s: %zu of %zu lengths open\n", name, opened, size);
    return opened;
}

static void cut_everywhere(const char *path)
{
    struct whole whole = {0};
    make(path, 11, 150);
    read_whole(path, &whole);
    /* Without the definitions up to the first thread there is nothing; any later cut opens. */
    require(cut_file(path, "definitions", &whole) > 1000, "cut definitions open");
    require(cut_file(path, "metadata", &whole) > 1000, "cut metadata opens");
    for (uint32_t i = 0; i < whole.thread_count; i++)
        for (int channel = 0; channel < 2; channel++) {
            char name[32];
            snprintf(name, sizeof name, "%s.%u", channel ? "samples" : "calls", i);
            if (whole.count[i][channel])
                require(cut_file(path, name, &whole) > 0, "cut channels open");
        }
    forget_whole(&whole);
}

/* ---- every byte changed ---- */

/* What is read may then be wrong, but it ends, and keeps what the contracts say of numbers and times. */
static void read_anyhow(const char *path)
{
    struct trace *trace;
    struct err *error = trace_open(path, &trace);
    if (error) {
        require(error->code == ERR_FILE, "what does not open is ERR_FILE");
        err_free(error);
        return;
    }
    size_t threads, functions, stacks, metrics;
    trace_functions(trace, &functions);
    trace_threads(trace, &threads);
    trace_metrics(trace, &metrics);
    const struct trace_stack *stack = trace_stacks(trace, &stacks);
    for (size_t i = 0; i < stacks; i++)
        require(stack[i].parent == TRACE_NONE || stack[i].parent < i, "a stack's parent comes before it");
    for (uint32_t i = 0; i < threads; i++) {
        struct trace_record *records[2];
        size_t count[2];
        read_channels(trace, i, records, count);
        for (size_t k = 0; k < count[0]; k++)
            require(records[0][k].major != TRACE_CALL || records[0][k].number < functions, "functions are defined");
        for (size_t k = 0; k < count[1]; k++)
            require(records[1][k].major != TRACE_SAMPLE || (records[1][k].number < stacks && records[1][k].metric < metrics),
                    "stacks and metrics are defined");
        free(records[0]);
        free(records[1]);
    }
    trace_close(trace);
}

static void change_every_byte(const char *path)
{
    static const char *const names[] = {"definitions", "calls.0", "samples.0"};
    make(path, 12, 150);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *file = memory_format("%s/%s", path, names[i]);
        size_t size;
        uint8_t *bytes = read_file(file, &size);
        for (size_t at = 0; at < size; at++) {
            uint8_t before = bytes[at];
            for (int change = 0; change < 2; change++) {
                bytes[at] = change ? (uint8_t)random_next() : (uint8_t)(before ^ 1 << random_below(8));
                write_file(file, bytes, size);
                read_anyhow(path);
            }
            bytes[at] = before;
        }
        write_file(file, bytes, size);
        free(bytes);
        free(file);
    }
}

/* ---- what does not belong together ---- */

static void expect_error(const char *path, const char *text)
{
    struct trace *trace;
    struct err *error = trace_open(path, &trace);
    require(error && error->code == ERR_FILE && !trace, "it does not open");
    if (!strstr(error->message, text)) {
        fprintf(stderr, "FAIL: '%s' is not in '%s'\n", text, error->message);
        exit(1);
    }
    err_free(error);
}

static void foreign_files(const char *path)
{
    make(path, 13, 400);
    struct whole whole = {0};
    read_whole(path, &whole);
    char *calls = memory_format("%s/calls.0", path), *other = memory_format("%s/calls.1", path),
         *metadata = memory_format("%s/metadata", path);
    size_t size, other_size;
    uint8_t *bytes = read_file(calls, &size), *other_bytes = read_file(other, &other_size);
    write_file(calls, other_bytes, other_size);
    read_prefix(path, &whole, true);
    /* Without its first packet. */
    uint64_t first_bits;
    memcpy(&first_bits, bytes + 48, sizeof first_bits);
    require(first_bits / 8 < size && first_bits / 8 > 84, "two packets");
    write_file(calls, bytes + first_bits / 8, size - first_bits / 8);
    read_prefix(path, &whole, true);
    write_file(calls, bytes, size);
    forget_whole(&whole);

    make(path, 13, 400); /* the same, but another trace */
    whole = (struct whole){0};
    read_whole(path, &whole);
    write_file(calls, bytes, size);
    read_prefix(path, &whole, true);
    forget_whole(&whole);
    free(bytes);
    free(other_bytes);

    make(path, 13, 400);
    bytes = read_file(metadata, &size);
    uint8_t *digit = (uint8_t *)strstr((char *)bytes, "probity_layout = 2") + strlen("probity_layout = ");
    *digit = '1'; /* has no less */
    write_file(metadata, bytes, size);
    whole = (struct whole){0};
    read_whole(path, &whole);
    forget_whole(&whole);
    *digit = '3';
    write_file(metadata, bytes, size);
    expect_error(path, "layout 3, this probity reads 1 to 2");
    write_file(metadata, (const uint8_t *)"/* CTF 1.8 */\nenv {};\n", 20);
    expect_error(path, "no trace of probity's");
    require(!unlink(metadata), "unlink");
    expect_error(path, "no trace");
    expect_error(calls, "no directory");
    expect_error("/nonexistent/trace", "No such file");
    require(!mkfifo(metadata, 0600), "mkfifo");
    expect_error(path, "no trace");
    free(bytes);
    free(calls);
    free(other);
    free(metadata);
    remove_directory(path);
    require(!mkdir(path, 0700), "mkdir");
}

/* What is no trace is not replaced. */
static void foreign_directories(const char *path)
{
    char *file = memory_format("%s/letter", path), *link = memory_format("%s-link", path), *slash = memory_format("%s-link/", path);
    const char *const refused[] = {path, file, link, slash};
    write_file(file, (const uint8_t *)"dear", 4);
    require(!symlink(path, link), "symlink");
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 4; i++) {
            struct trace_writer *writer;
            struct err *error = trace_writer_create(refused[i], &about, &writer);
            require(error && error->code == ERR_USAGE && !writer, "what is no trace is not replaced");
            err_free(error);
        }
        size_t size;
        free(read_file(file, &size));
        require(size == 4, "the file is as it was");
        /* Once more with a trace beside the file. */
        char *away = memory_format("%s-letter", path);
        if (round == 0) {
            require(!rename(file, away), "rename");
            make(path, 1, 100);
            require(!rename(away, file), "rename");
        }
        free(away);
    }
    struct stat status;
    require(!stat(path, &status) && (status.st_mode & 0777) == 0700, "the directory is private");
    char *definitions = memory_format("%s/definitions", path);
    require(!stat(definitions, &status) && (status.st_mode & 0777) == 0600, "files are private");
    free(definitions);
    unlink(link);
    unlink(file);
    free(file);
    free(link);
    free(slash);
}

/* ---- a writer that is killed ---- */

enum { KILLED_THREADS = 3 };

/* The i-th record of a thread: a function of its number. */
static struct trace_record nth(uint32_t thread, uint64_t i)
{
    return (struct trace_record){.time_ns = 1000 + i * 10,
                                 .major = TRACE_CALL,
                                 .minor = (uint8_t)(1 + i % 2),
                                 .number = (uint32_t)((i / 2 * 7 + thread) % (i / 1000 + 1))};
}

/* Writes until it is told to end or can not go on; functions are defined as time goes by. */
static struct err *write_numbered(const char *path, uint64_t limit)
{
    struct trace_writer *writer;
    ERR_TRY(trace_writer_create(path, &about, &writer));
    struct err *unpublished = trace_writer_publish(writer);
    if (unpublished) {
        trace_writer_discard(writer);
        return unpublished;
    }
    uint32_t process = trace_define_process(writer, 5, &(struct trace_process){.pid = 1, .parent = TRACE_NONE, .name = "p", .status = -1});
    for (uint32_t i = 0; i < KILLED_THREADS; i++)
        trace_define_thread(writer, 5, &(struct trace_thread){.process = process, .tid = i, .name = "t"});
    for (uint64_t i = 0; i < limit && !trace_writer_error(writer); i++) {
        if (i % 1000 == 0) {
            char name[32];
            snprintf(name, sizeof name, "f%llu", (unsigned long long)i / 1000);
            trace_define_function(writer, &(struct trace_function){.module = TRACE_NONE, .name = name});
        }
        for (uint32_t thread = 0; thread < KILLED_THREADS; thread++) {
            struct trace_record record = nth(thread, i);
            trace_write(writer, thread, &record);
        }
        if (i % 50000 == 0)
            err_free(trace_writer_flush(writer));
    }
    return trace_writer_close(writer);
}

/* Every thread has a prefix of its records, and no number is unknown. Returns how many there are. */
static uint64_t check_numbered(const char *path)
{
    struct trace *trace;
    require_no(trace_open(path, &trace));
    require(trace_info(trace)->is_cut, "it says that it is cut");
    size_t threads;
    trace_threads(trace, &threads);
    uint64_t total = 0;
    for (uint32_t thread = 0; thread < threads; thread++) {
        struct trace_cursor *cursor;
        struct trace_record found[64];
        uint64_t i = 0;
        require_no(trace_cursor_open(trace, thread, &cursor));
        for (size_t got; (got = trace_next(cursor, found, 64)) > 0;)
            for (size_t k = 0; k < got; k++, i++) {
                struct trace_record expected = nth(thread, i);
                require(is_same_record(&found[k], &expected), "a record is the one that was written");
            }
        trace_cursor_close(cursor);
        total += i;
    }
    const char *where = trace_info(trace)->cut_where;
    require(!strstr(where, "not defined") && !strstr(where, "makes no sense"), where);
    trace_close(trace);
    return total;
}

static void killed_writer(const char *path)
{
    int rounds = getenv("PROBITY_LONG") && *getenv("PROBITY_LONG") ? 300 : 15;
    uint64_t total = 0;
    char *definitions = memory_format("%s/calls.0", path);
    for (int round = 0; round < rounds; round++) {
        unlink(definitions);
        pid_t child = fork();
        require(child >= 0, "fork");
        if (!child) {
            err_free(write_numbered(path, UINT64_MAX));
            _exit(0);
        }
        /* Until something is there, and then for a random number of looks. */
        struct stat status;
        long wanted = (long)random_below(3 << 20);
        while (stat(definitions, &status) || status.st_size < wanted)
            usleep(100);
        kill(child, SIGKILL);
        int code;
        require(waitpid(child, &code, 0) == child && WIFSIGNALED(code), "the writer was killed");
        total += check_numbered(path);
    }
    require(total > 0, "something was written");
    printf("killed %d times: %llu records could be read\n", rounds, (unsigned long long)total);
    free(definitions);
}

/* ---- a full disk ---- */

/* In a process of its own; exits 0 when the writer failed with `number`, and the trace is what was written before. */
static int fill_disk(const char *path, int number)
{
    struct err *error = write_numbered(path, 10000000);
    if (!error || !strstr(error->message, strerror(number))) {
        fprintf(stderr, "FAIL: instead of '%s': %s\n", strerror(number), error ? error->message : "no error");
        return 1;
    }
    err_free(error);
    uint64_t count = check_numbered(path);
    printf("%s: %llu records could be read\n", strerror(number), (unsigned long long)count);
    return count > 1000 ? 0 : 1;
}

static int run_apart(int (*run)(const char *path), const char *path)
{
    fflush(stdout);
    pid_t child = fork();
    require(child >= 0, "fork");
    if (!child) {
        int code = run(path);
        fflush(stdout);
        _exit(code);
    }
    int code;
    require(waitpid(child, &code, 0) == child && WIFEXITED(code), "the process ended by itself"); /* and not by SIGXFSZ */
    return WEXITSTATUS(code);
}

static int limited_files(const char *path)
{
    struct rlimit limit = {300000, 300000};
    require(!setrlimit(RLIMIT_FSIZE, &limit), "setrlimit");
    return fill_disk(path, EFBIG);
}

/* Not even the start fits: then nothing is left. */
static int no_room(const char *path)
{
    struct rlimit limit = {1000, 1000};
    struct trace_writer *writer;
    struct stat status;
    char *inside = memory_format("%s/trace", path);
    require(!setrlimit(RLIMIT_FSIZE, &limit), "setrlimit");
    struct err *error = trace_writer_create(inside, &about, &writer);
    require(error && error->code == ERR_SYSTEM && !writer && stat(inside, &status), "nothing is left where nothing could be written");
    return 0;
}

static int small_disk(const char *path)
{
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) || mount("tmpfs", path, "tmpfs", 0, "size=600k"))
        return 77;
    char *inside = memory_format("%s/trace", path);
    return fill_disk(inside, ENOSPC);
}

int main(void)
{
    char *path = temporary_directory();
    foreign_files(path);
    foreign_directories(path);
    cut_everywhere(path);
    change_every_byte(path);
    killed_writer(path);
    require(run_apart(limited_files, path) == 0, "files that may not grow");
    remove_directory(path);
    require(!mkdir(path, 0700), "mkdir");
    require(run_apart(no_room, path) == 0, "no room for the start");
    int code = run_apart(small_disk, path);
    require(code == 0 || code == 77, "a full disk");
    if (code == 77)
        puts("no disk could be made: without a test of a full one");
    remove_directory(path);
    free(path);
    return 0;
}
