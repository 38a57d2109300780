/* Random traces with damage, read. Build with -fsanitize=address,undefined.
 *
 *   trace_read [--runs N] [--seed S]
 *
 * Besides what the sanitizers see, a run fails when it takes more than two seconds, when numbers are out of range, or when times go back. The
 * damaged directory is then left. */
#include "test/unit/trace_random.h"

#include <sys/stat.h>
#include <time.h>

enum { FILES_MAX = 64 };

struct file {
    char *path;
    uint8_t *bytes;
    size_t size;
    bool is_changed;
};

static char *directory;
static struct file files[FILES_MAX];
static size_t file_count;

static void write_file(const struct file *file, const uint8_t *bytes, size_t size)
{
    FILE *out = fopen(file->path, "we");
    require(out && fwrite(bytes, 1, size, out) == size && !fclose(out), "a file is written");
}

static void make_trace(void)
{
    struct written_trace written = {0};
    struct trace_writer *writer;
    require_no(trace_writer_create(directory, &(struct trace_about){.host = "h", .command = "c", .start_ns = 1000}, &writer));
    write_random(writer, &written, 1000, 20 + random_below(300), true);
    require_no(trace_writer_flush(writer));
    write_random(writer, &written, written.now_ns, 20 + random_below(300), true);
    if (written.process.n && written.module.n)
        for (uint64_t i = 0; i < 10; i++) {
            trace_define_mapping(writer, &(struct trace_mapping){0, 0, i * 4096, (i + 2) * 4096, 0, written.now_ns, 0});
            trace_define_unmapping(writer, written.now_ns, 0, i * 2048, i * 4096);
        }
    require_no(trace_writer_close(writer));
    forget_written(&written);
}

static void load_trace(void)
{
    DIR *listing = opendir(directory);
    require(listing, directory);
    for (size_t i = 0; i < file_count; i++) {
        free(files[i].path);
        free(files[i].bytes);
    }
    file_count = 0;
    for (struct dirent *entry; (entry = readdir(listing)) && file_count < FILES_MAX;) {
        if (entry->d_name[0] == '.')
            continue;
        struct file *file = &files[file_count++];
        struct stat status;
        file->path = memory_format("%s/%s", directory, entry->d_name);
        FILE *in = fopen(file->path, "re");
        require(in && !stat(file->path, &status), file->path);
        file->size = (size_t)status.st_size;
        file->bytes = memory_alloc(file->size);
        file->is_changed = false;
        require(fread(file->bytes, 1, file->size, in) == file->size, file->path);
        fclose(in);
    }
    closedir(listing);
}

/* Most damage is inside of packets: what is wrong with their heads ends a file at once. */
static size_t place(size_t size)
{
    size_t at = random_below(size);
    return at < 84 && size > 85 && random_below(4) ? 84 + random_below(size - 84) : at;
}

static void damage(struct file *file)
{
    static const uint64_t values[] = {0, 1, 30, 31, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, UINT64_MAX};
    uint8_t *bytes = memory_alloc(file->size + 64);
    size_t size = file->size;
    memcpy(bytes, file->bytes, size);
    for (size_t rounds = 1 + random_below(4); rounds > 0 && size > 8; rounds--) {
        size_t at = place(size - 8), width = (size_t)1 << random_below(4), from = random_below(size - 8), length = 1 + random_below(8);
        uint64_t value = values[random_below(sizeof values / sizeof *values)];
        switch (random_below(6)) {
        case 0:
            bytes[at] ^= (uint8_t)(1 << random_below(8));
            break;
        case 1:
            memcpy(bytes + at, &value, width);
            break;
        case 2:
            bytes[at] = (uint8_t)random_next();
            break;
        case 3:
            memmove(bytes + at, bytes + from, length);
            break;
        case 4:
            memcpy(&value, bytes + at, 8);
            value += random_below(17) - 8;
            memcpy(bytes + at, &value, width);
            break;
        case 5:
            if (random_below(4) == 0)
                size = random_below(size);
            break;
        }
    }
    write_file(file, bytes, size);
    file->is_changed = true;
    free(bytes);
}

static void check_definitions(const struct trace *trace)
{
    size_t processes, modules, functions, frames, n;
    const struct trace_process *process = trace_processes(trace, &processes);
    for (size_t i = 0; i < processes; i++)
        require(strlen(process[i].name) < 1 << 20 && (process[i].parent == TRACE_NONE || process[i].parent < i), "processes");
    const struct trace_module *module = trace_modules(trace, &modules);
    for (size_t i = 0; i < modules; i++)
        require(strlen(module[i].path) < 1 << 20 && !module[i].build_id == !module[i].build_id_bytes, "modules");
    const struct trace_thread *thread = trace_threads(trace, &n);
    for (size_t i = 0; i < n; i++)
        require(strlen(thread[i].name) < 1 << 20 && thread[i].process < processes, "threads");
    const struct trace_mapping *mapping = trace_mappings(trace, &n);
    for (size_t i = 0; i < n; i++)
        require(mapping[i].process < processes && mapping[i].module < modules && mapping[i].start_va < mapping[i].end_va, "mappings");
    const struct trace_function *function = trace_functions(trace, &functions);
    for (size_t i = 0; i < functions; i++)
        require(strlen(function[i].name) < 1 << 20 && (function[i].module == TRACE_NONE || function[i].module < modules), "functions");
    const struct trace_frame *frame = trace_frames(trace, &frames);
    for (size_t i = 0; i < frames; i++)
        require(frame[i].function < functions, "frames");
    const struct trace_stack *stack = trace_stacks(trace, &n);
    for (size_t i = 0; i < n; i++)
        require(stack[i].frame < frames && (stack[i].parent == TRACE_NONE || stack[i].parent < i), "stacks");
}

static size_t read_records(struct trace *trace, uint32_t thread)
{
    size_t functions, stacks, metrics, total = 0;
    trace_functions(trace, &functions);
    trace_stacks(trace, &stacks);
    trace_metrics(trace, &metrics);
    struct trace_cursor *cursor;
    struct trace_record found[50];
    uint64_t last_ns = 0;
    require_no(trace_cursor_open(trace, thread, &cursor));
    for (size_t got; (got = trace_next(cursor, found, 1 + random_below(50))) > 0; total += got)
        for (size_t i = 0; i < got; i++) {
            const struct trace_record *record = &found[i];
            require(record->time_ns >= last_ns, "times");
            require(record->major != TRACE_CALL || record->number < functions, "functions of records");
            require(record->major != TRACE_SAMPLE ||
                        (record->metric < metrics && (record->number < stacks || record->number == TRACE_NONE)),
                    "stacks and metrics of records");
            last_ns = record->time_ns;
        }
    trace_cursor_close(cursor);
    return total;
}

/* Returns how many records could be read. */
static size_t read_trace(bool *is_open)
{
    struct trace *trace;
    struct err *error = trace_open(directory, &trace);
    *is_open = !error;
    if (error) {
        require(error->code == ERR_FILE && !trace, error->message);
        err_free(error);
        return 0;
    }
    size_t threads, total = 0;
    check_definitions(trace);
    trace_threads(trace, &threads);
    for (uint32_t i = 0; i < threads; i++)
        total += read_records(trace, i);
    require(trace_info(trace)->is_cut == !!trace_info(trace)->cut_where, "a cut has a place");
    trace_close(trace);
    return total;
}

static uint64_t now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
    uint64_t runs = 10000, seed = 1, opened = 0, records = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--runs") == 0)
            runs = strtoull(argv[i + 1], NULL, 0);
        else if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 0);
    }
    random_seed(seed);
    directory = temporary_directory();
    for (uint64_t run = 0; run < runs; run++) {
        if (run % 200 == 0) {
            make_trace();
            load_trace();
        }
        for (size_t i = 0; i < file_count; i++)
            if (files[i].is_changed) {
                write_file(&files[i], files[i].bytes, files[i].size);
                files[i].is_changed = false;
            }
        for (size_t damaged = 1 + random_below(2); damaged > 0; damaged--)
            damage(&files[random_below(file_count)]);
        uint64_t start = now_ms();
        bool is_open;
        records += read_trace(&is_open);
        opened += is_open;
        require(now_ms() - start < 2000, "a run takes less than two seconds");
    }
    remove_directory(directory);
    printf("%llu runs, %llu traces open, %llu records\n", (unsigned long long)runs, (unsigned long long)opened,
           (unsigned long long)records);
    return 0;
}
