/* Loads a run: opens the file, detects its format, runs the stages of reader.h in order.
 *
 * The file is mapped, not copied. Pages that were read are released, so the resident size of a
 * report does not grow with the run. Memory is allocated for what the file contains, never for what
 * it claims to contain. A file with a readable header is always loaded as far as possible;
 * `truncated`, `bad_lines`, `recovered` and `saturated` of the run describe what was lost. */
#include "tool/load/run.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/live.h"
#include "tool/load/foreign.h"
#include "tool/load/reader.h"
#include "tool/util/file.h"
#include "tool/util/owner.h"
#include "tool/util/say.h"

enum { MAX_WORKERS = 8, FORGET_ABOVE = 64 << 20, MAX_LIVE_BYTES = 1 << 30 };

const char *reader_text(const struct run *run, uint64_t at, size_t *left)
{
    if (at < run->map_len) {
        *left = run->map_len - at;
        return run->map + at;
    }
    at -= run->map_len;
    *left = at < run->live.len ? run->live.len - at : 0;
    return run->live.data ? run->live.data + at : "";
}

void reader_bad(struct reader *r, uint64_t at, const char *why)
{
    r->bad_count++;
    if (at < r->bad_at) {
        r->bad_at = at;
        r->bad_why = why;
    }
}

struct job {
    void (*work)(void *ctx, size_t i);
    void *ctx;
    size_t i;
};

static void *job_run(void *arg)
{
    struct job *job = arg;
    job->work(job->ctx, job->i);
    return NULL;
}

void reader_parallel(size_t count, void (*work)(void *ctx, size_t i), void *ctx)
{
    struct job jobs[MAX_WORKERS + 1];
    pthread_t threads[MAX_WORKERS + 1];
    bool started[MAX_WORKERS + 1] = {false};
    for (size_t i = 1; i < count && i <= MAX_WORKERS; i++) {
        jobs[i] = (struct job){work, ctx, i};
        started[i] = pthread_create(&threads[i], NULL, job_run, &jobs[i]) == 0;
    }
    for (size_t i = 0; i < count; i++)
        if (i > MAX_WORKERS || !started[i])
            work(ctx, i);
    for (size_t i = 1; i < count && i <= MAX_WORKERS; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

void reader_forget(const struct run *run, uint64_t from, uint64_t to)
{
    if (run->map_len < FORGET_ABOVE || from >= run->map_len)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t a = ((uintptr_t)run->map + from + page - 1) & ~(page - 1);
    uintptr_t b = (uintptr_t)run->map + (to < run->map_len ? to : run->map_len);
    b &= ~(page - 1);
    if (b > a)
        (void)madvise((void *)a, b - a, MADV_DONTNEED); /* only a hint */
}

static int fail(struct run_error *e, int err, const char *hint, const char *path, const char *what)
{
    char safe[300];
    snprintf(e->text, sizeof(e->text), "%s: %s", say_safe(safe, sizeof(safe), path), what);
    if (!owner_hint(e->hint, sizeof(e->hint), path, err, NULL))
        snprintf(e->hint, sizeof(e->hint), "%s", hint ? hint : "");
    return err;
}

static uint64_t line_of(const struct run *run, uint64_t at)
{
    uint64_t line = 1, from = 0;
    while (from < at) {
        size_t left;
        const char *s = reader_text(run, from, &left);
        if (left == 0)
            break;
        if (left > at - from)
            left = at - from;
        const char *newline = memchr(s, '\n', left);
        from += newline ? (uint64_t)(newline - s) + 1 : left;
        line += newline != NULL;
    }
    return line;
}

static int fail_at(struct run *run, struct run_error *e, const struct json *j)
{
    char what[256];
    uint64_t at = (uint64_t)(j->at - run->map);
    bool cut = j->at >= j->end;
    snprintf(what, sizeof(what), "byte %llu (line %llu): %s%s", (unsigned long long)at,
             (unsigned long long)line_of(run, at), j->problem ? j->problem : "cannot be read",
             cut ? ", but the text ends here" : "");
    return fail(e, -EINVAL, "piano list", run->path, what);
}

static int map_file(struct run *run, const char *path, struct run_error *e)
{
    int fd = file_open(path, O_RDONLY);
    if (fd < 0)
        return fail(e, fd, fd == -ENOENT || fd == -EINVAL ? "piano list" : NULL, path,
                    fd == -EINVAL ? "is not a regular file" : strerror(-fd));
    struct stat st;
    int err = fstat(fd, &st) != 0 ? fail(e, -errno, NULL, path, strerror(errno)) : 0;
    if (err == 0 && st.st_size > 0) {
        void *map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            err = fail(e, -errno, NULL, path, strerror(errno));
        } else {
            run->map = map;
            run->map_len = (size_t)st.st_size;
        }
    }
    run->file_bytes = err == 0 ? (uint64_t)st.st_size : 0;
    run->foreign = err == 0 && file_is_of_other(path, &st);
    close(fd);
    return err;
}

static void take_live(void *ctx, const char *text, size_t len)
{
    buf_put(ctx, text, len);
}

/* Reads lines that a program had not written when it died, if it left a live file. */
static int read_live(struct run *run)
{
    const char *dot = strrchr(run->path, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - run->path) : strlen(run->path);
    struct buf path = {0};
    struct file_map image = {0};
    buf_put(&path, run->path, stem);
    buf_puts(&path, ".live");
    int err = path.failed ? -ENOMEM : 0;
    struct piano__written written = {run->map, run->map_len};
    if (err == 0 && file_copy(&image, path.data, MAX_LIVE_BYTES) == 0 && image.len > 0 &&
        piano__live_lines(image.data, image.len, written, take_live, &run->live) == 0) {
        run->recovered = true;
        if (run->live.failed)
            err = -ENOMEM;
    }
    file_unmap(&image);
    buf_free(&path);
    return err;
}

/* Returns the number of the thread that runs `main`; 0 if the file does not give it. */
static uint32_t main_thread(const struct run *run)
{
    for (size_t i = 0; run->pid > 0 && i < run->thread_count; i++)
        if (run->threads[i].tid == run->pid)
            return run->threads[i].number;
    return 0;
}

static int read_stages(struct reader *r, uint64_t body)
{
    int err = lines_index(r, body);
    if (err == 0)
        err = tables_control(r);
    r->run->fn_of_id = r->fn_of_id;
    r->run->id_count = r->id_count;
    r->main_thread = main_thread(r->run);
    say_progress_again();
    if (err == 0)
        err = sums_read(r);
    say_progress_again();
    if (err == 0)
        err = finish_frames(r);
    for (size_t i = 0; err == 0 && i < r->run->fn_count; i++) {
        struct run_fn *fn = &r->run->fns[i];
        fn->p50_ns = samples_percentile(&fn->frames, 0.50);
        fn->p99_ns = samples_percentile(&fn->frames, 0.99);
    }
    return err;
}

/* Sets the length of a run without an end line: up to the end of the last frame or thread. */
static void estimate_wall(struct run *run)
{
    int64_t end = -1;
    for (size_t i = 0; i < run->frame_count; i++) {
        const struct run_frame *f = &run->frames[i];
        int64_t to = f->start_ns >= 0 ? saturating_add(f->start_ns, f->wall_ns) : -1;
        end = to > end ? to : end;
    }
    for (size_t i = 0; i < run->thread_count; i++)
        end = run->threads[i].end_ns > end ? run->threads[i].end_ns : end;
    if (run->wall_ns < 0)
        run->wall_ns = end;
}

static int load_v2(struct run *run, const struct run_options *options, struct json *header,
                   struct run_error *e)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    struct reader r = {.run = run, .options = *options, .bad_at = UINT64_MAX};
    r.workers = cpus < 1 ? 1 : cpus > MAX_WORKERS ? MAX_WORKERS : (size_t)cpus;
    run->format = 2;
    int err = tables_header(&r, header);
    if (err == -EINVAL)
        fail_at(run, e, header);
    r.saturated += header->saturated;
    run->fn_of_id = r.fn_of_id; /* the run owns it from here, even on errors */
    if (err == 0)
        err = read_live(run);
    if (err == 0)
        err = read_stages(&r, (uint64_t)(header->end - run->map));
    run->fn_of_id = r.fn_of_id;
    run->bad_lines = r.bad_count;
    run->saturated += r.saturated;
    if (err == 0 && r.bad_count) {
        run->bad_first = line_of(run, r.bad_at);
        run->bad_why = strdup(r.bad_why ? r.bad_why : "cannot be read");
    }
    if (err == 0)
        estimate_wall(run);
    tables_release(&r);
    free(r.lines);
    free(r.worst);
    return err;
}

/* Returns whether the first line is a header: an object of its own with a list of names. */
static bool is_v2(const char *s, const char *end)
{
    struct json j = {.at = s, .end = end};
    bool first = true;
    struct json_text key;
    if (json_expect(&j, '{', ""))
        return false;
    while (json_member(&j, &first, &key) == 1) {
        if (json_is(key, "format_version"))
            return true;
        if (json_is(key, "functions") && !json_expect(&j, '[', "")) {
            json_space(&j);
            return j.at < j.end && *j.at == '"';
        }
        if (json_skip(&j))
            break;
    }
    return false;
}

static int load_text(struct run *run, const struct run_options *options, struct run_error *e)
{
    const char *end = run->map + run->map_len;
    const char *newline = memchr(run->map, '\n', run->map_len);
    if (is_v2(run->map, newline ? newline : end)) {
        struct json header = {.at = run->map, .end = newline ? newline : end};
        return load_v2(run, options, &header, e);
    }
    struct json j = {.at = run->map, .end = end};
    int err = v1_load(run, &j);
    if (err == -EINVAL)
        fail_at(run, e, &j);
    return err;
}

/* Describes a file that could not be read, if it does not look like a run. */
static void fail_foreign(const struct run *run, struct run_error *e)
{
    const char *kind = foreign_kind(run->map, run->map_len);
    char safe[300];
    if (!kind)
        return;
    snprintf(e->text, sizeof(e->text),
             "%s is neither a run nor a recording of piano: it looks like %s",
             say_safe(safe, sizeof(safe), run->path), kind);
    snprintf(e->hint, sizeof(e->hint), "piano list, for those there are");
}

/* Leaves out the frames that do not begin in the range. */
static int keep_range(struct run *run, const struct range_asked *asked, struct run_error *e)
{
    int64_t end = run->wall_ns > 0 ? run->wall_ns : 0;
    for (size_t i = 0; i < run->frame_count; i++) {
        int64_t over = saturating_add(run->frames[i].start_ns, run->frames[i].wall_ns);
        end = over > end ? over : end;
    }
    run->all_frames = run->frame_count;
    int err = range_resolve(&run->range, asked, 0, (uint64_t)end, run->path, e);
    if (err || !run->range.given)
        return err;
    int64_t *place = calloc(run->frame_count + 1, sizeof(*place)); /* new index; -1: left out */
    size_t kept = 0;
    if (!place)
        return -ENOMEM;
    for (size_t i = 0; i < run->frame_count; i++) {
        bool is_in = run->frames[i].start_ns >= 0 &&
                     range_has(&run->range, (uint64_t)run->frames[i].start_ns);
        place[i] = is_in ? (int64_t)kept : -1;
        if (is_in)
            run->frames[kept++] = run->frames[i];
    }
    while (run->frames_before < run->frame_count && place[run->frames_before] < 0)
        run->frames_before++;
    for (size_t i = 0; i < run->fn_count; i++)
        if (run->fns[i].worst_frame >= 0)
            run->fns[i].worst_frame = place[run->fns[i].worst_frame];
    run->frame_count = kept;
    free(place);
    return 0;
}

int run_load(struct run *run, const char *path, const struct run_options *options,
             struct run_error *error)
{
    static const struct run_options plain;
    *run = (struct run){.path = strdup(path), .wall_ns = -1, .main_ns = -1};
    *error = (struct run_error){.text = ""};
    run->uncorrected = options && options->uncorrected;
    run->budget_ns = options ? options->budget_ns : 0;
    int err = run->path ? map_file(run, path, error) : -ENOMEM;
    if (err == 0 && run->map_len == 0)
        err = fail(error, -EINVAL, "piano list", path,
                   "is empty: the program was killed before it wrote anything, or could not write");
    if (err == 0)
        err = load_text(run, options ? options : &plain, error);
    if (err == -EINVAL && run->map)
        fail_foreign(run, error);
    if (err == 0)
        err = tables_namesakes(run);
    if (err == 0 && !run->run_id)
        run->run_id = strdup("");
    if (err == 0 && !run->run_id)
        err = -ENOMEM;
    if (err == 0)
        err = keep_range(run, options ? &options->range : &plain.range, error);
    if (err == -ENOMEM)
        fail(error, err, NULL, path, "not enough memory to load it");
    if (err)
        run_unload(run);
    return err;
}

static void release_tables(struct run *run)
{
    for (size_t i = 0; i < run->fn_count; i++) {
        free(run->fns[i].name);
        free(run->fns[i].place);
        free(run->fns[i].file);
        samples_release(&run->fns[i].frames);
    }
    for (size_t i = 0; i < run->thread_count; i++) {
        free(run->threads[i].name);
        free(run->threads[i].fns);
    }
    for (size_t i = 0; i < run->group_count; i++)
        free(run->groups[i].hist);
    for (size_t i = 0; i < run->fold_count; i++)
        free(run->folds[i].lines);
}

void run_unload(struct run *run)
{
    release_tables(run);
    free(run->fns);
    free(run->frames);
    free(run->folds);
    free(run->turns);
    free(run->threads);
    free(run->pairs);
    free(run->companion);
    free(run->groups);
    free(run->all.hist);
    free(run->fn_of_id);
    free(run->path);
    free(run->run_id);
    free(run->program);
    free(run->frame_fn);
    free(run->clock);
    free(run->bad_why);
    buf_free(&run->live);
    if (run->map)
        munmap((void *)(uintptr_t)run->map, run->map_len);
    *run = (struct run){0};
}
