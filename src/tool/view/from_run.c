/* Converts a run of functions to tables: functions, frames, and the values of each function in each
 * frame.
 *
 * The last is most of a page: with a million frames of a dozen functions it is read again, line by
 * line, from the file. Several threads do this, each for a part of the frames and into its own
 * columns. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/view/packer.h"

enum { MOST_THREADS = 8, PORTION = 1 << 12, SLACK_MS = 1000 };

/* Maximum rows of functions in frames. Beyond it, the fastest frames have none, because users
 * rarely look at them. */
enum { MOST_ROWS = 1 << 24 };

/* ---- functions ---- */

/* Fills a table of functions from RUN. ROW_OF receives the row of each function, PACK_NONE for
 * aliases; NULL: not needed. */
static void add_functions(struct packer *k, const char *table, const struct run *run,
                          uint32_t *row_of)
{
    const struct schema *s = &schema[SCHEMA_functions];
    struct pack_table *t = pack_table(&k->pack, table, s->kinds, s->count);
    for (size_t i = 0, row = 0; t && i < run->fn_count; i++) {
        const struct run_fn *f = &run->fns[i];
        if (row_of)
            row_of[i] = f->alias ? PACK_NONE : (uint32_t)row;
        if (f->alias)
            continue;
        bool framed = f->frames.count > 0;
        const int64_t values[] = {texts_of(&k->texts, f->name),
                                  texts_of(&k->texts, f->file),
                                  f->line > 0 ? f->line : 0,
                                  f->sum.calls,
                                  f->sum.self_ns,
                                  f->sum.has_total ? f->sum.total_ns : -1,
                                  framed ? f->p50_ns : -1,
                                  framed ? f->p99_ns : -1,
                                  f->sum.alloc_count,
                                  f->sum.alloc_bytes,
                                  f->sum.free_count,
                                  f->sum.free_bytes};
        SCHEMA_WRITES(functions, sizeof(values) / sizeof(*values));
        for (size_t c = 0; c < SCHEMA_COLUMNS(functions); c++)
            column_put(&t->columns[c], values[c]);
        row++;
    }
}

/* ---- threads ---- */

static uint32_t lane_of(struct packer *k, const struct run *run, uint32_t number)
{
    const struct run_thread *t = run_thread_find(run, number);
    return t && t->tid > 0 && t->tid <= UINT32_MAX ? lanes_of(&k->lanes, (uint32_t)t->tid)
                                                   : lanes_numbered(&k->lanes, number);
}

static void add_threads(struct packer *k, const struct run *run)
{
    for (size_t i = 0; i < run->thread_count; i++) {
        const struct run_thread *t = &run->threads[i];
        uint32_t lane = lane_of(k, run, t->number);
        lanes_name(&k->lanes, &k->texts, lane, t->name);
        if (lane < k->lanes.count && (run->pid > 0 ? t->tid == run->pid : t->number == 1))
            k->lanes.list[lane].is_main = true;
    }
}

/* ---- frames ---- */

/* Converts a time of the run to a time of the page. */
static int64_t moment(const struct packer *k, const struct run *run, int64_t at_ns)
{
    int64_t mono = k->base_ns ? run_mono(run, at_ns) : -1;
    return mono >= 0 ? packer_moment(k, (uint64_t)mono) : saturating_add(at_ns, k->run_offset_ns);
}

/* Both clocks start where the earlier of the two files does. A run without a clock sync is placed
 * beside the recording by the time of day, which it knows to a millisecond. */
static void join_clocks(struct packer *k, const struct run *run)
{
    int64_t mono = run_mono(run, 0), began = (int64_t)k->base_ns;
    if (k->base_ns == 0)
        return;
    if (mono < 0) {
        int64_t later = (run->timestamp_ms - k->about.started_ms) * 1000000;
        mono = saturating_add(began, later);
        k->run_offset_ns = later > 0 ? later : 0;
        packer_notice(k, "the run does not tell its clock: its frames are placed to the "
                         "millisecond among what was recorded");
    }
    if (mono > 0 && mono < began) {
        k->base_ns = (uint64_t)mono;
        k->about.started_ms -= (began - mono) / 1000000;
    }
}

#define MOST_MS ((int64_t)1 << 50) /* largest timestamp that can be computed with */

/* Process ids are reused, so the times must overlap too. */
static bool is_joined(const struct packer *k, const struct run *run)
{
    if (run->timestamp_ms < 0 || run->timestamp_ms > MOST_MS)
        return false;
    int64_t end_ms =
        run->wall_ns >= 0 ? saturating_add(run->timestamp_ms, run->wall_ns / 1000000) : INT64_MAX;
    return run->pid == k->joined.pid && run->timestamp_ms - SLACK_MS <= k->joined.to_ms &&
           k->joined.from_ms - SLACK_MS <= end_ms;
}

static int not_joined(const char *path, struct run_error *error)
{
    char safe[300];
    snprintf(error->text, sizeof(error->text), "%s and the recording are not of the same process",
             say_safe(safe, sizeof(safe), path));
    snprintf(error->hint, sizeof(error->hint), "one of them alone, or two of a kind to compare");
    return -EINVAL;
}

/* Duration of a frame by the clock of the samples: its wall time plus the overhead of measuring.
 * Without samples it is not needed, and the lines of the frames need not be read again. */
static int64_t took(const struct packer *k, const struct run *run, const struct run_frame *f)
{
    int64_t wall = f->wall_ns > 0 ? f->wall_ns : 0;
    if (k->base_ns == 0 || f->start_ns == INT64_MIN)
        return wall;
    int64_t length = run_frame_took(run, f);
    int64_t begin = run_mono(run, f->start_ns);
    int64_t end = run_mono(run, saturating_add(f->start_ns, length));
    if (begin >= 0 && end >= begin)
        length = end - begin;
    return length > 0 ? length : 0;
}

/* Frames without a start are placed one after the other. */
static void add_frames(struct packer *k, const struct run *run, const uint32_t *row_of)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_frames);
    int64_t before = 0, unknown = 0;
    uint32_t thread = 0, lane = PACK_NONE;
    for (size_t i = 0; t && i < run->frame_count; i++) {
        const struct run_frame *f = &run->frames[i];
        int64_t start = moment(k, run, f->start_ns);
        if (f->start_ns == INT64_MIN || start < before) { /* out of order, or hostile */
            unknown += f->start_ns == INT64_MIN;
            start = before;
        }
        before = start;
        if (f->start_ns == INT64_MIN && f->wall_ns > 0)
            before = saturating_add(start, f->wall_ns);
        if (lane == PACK_NONE || f->thread != thread)
            lane = lane_of(k, run, f->thread);
        thread = f->thread;
        const int64_t values[] = {
            start,          f->wall_ns > 0 ? f->wall_ns : 0,
            lane,           f->root == RUN_NO_ROOT ? PACK_NONE : row_of[f->root],
            f->spike,       f->alloc_count,
            f->alloc_bytes, (int64_t)i,
            took(k, run, f)};
        SCHEMA_WRITES(frames, sizeof(values) / sizeof(*values));
        for (size_t c = 0; c < SCHEMA_COLUMNS(frames); c++)
            column_put(&t->columns[c], values[c]);
    }
    if (unknown)
        packer_notice(k, "%lld frames have no start in the file: they are shown one after another",
                      (long long)unknown);
}

/* ---- functions of frames ---- */

enum { FF_COLUMNS = SCHEMA_COLUMNS(frame_functions) };

/* The part of the frames that one thread reads. */
struct portion {
    const struct run *run;
    const uint32_t *row_of;
    size_t from, to;
    int64_t least_ns; /* minimum wall time of a frame to be included */
    struct column columns[FF_COLUMNS];
    int err;
};

static void put_entry(struct portion *s, size_t frame, const struct run_entry *e)
{
    const struct tally *sum = &e->sum;
    if (s->row_of[e->fn] == PACK_NONE)
        return;
    const int64_t values[] = {(int64_t)frame, s->row_of[e->fn], sum->calls,
                              sum->self_ns,   sum->alloc_count, sum->alloc_bytes};
    SCHEMA_WRITES(frame_functions, sizeof(values) / sizeof(*values));
    for (size_t c = 0; c < FF_COLUMNS; c++)
        column_put(&s->columns[c], values[c]);
}

static void *read_portion(void *arg)
{
    struct portion *s = arg;
    struct run_scratch scratch = {0};
    for (size_t i = s->from; i < s->to && s->err == 0; i++) {
        if (s->run->frames[i].wall_ns < s->least_ns)
            continue;
        int err = run_frame_functions(s->run, &s->run->frames[i], &scratch);
        s->err = err == -ENOMEM ? err
                                : 0; /* a line that cannot be read was counted when it was loaded */
        for (size_t e = 0; e < scratch.count && err == 0; e++)
            put_entry(s, i, &scratch.entries[e]);
    }
    run_scratch_release(&scratch);
    return NULL;
}

/* The minimum wall time of frames that keep their functions, so that there are at most
 * MOST_ROWS. */
static int64_t least_wall(struct packer *k, const struct run *run)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < run->fn_count; i++)
        rows += run->fns[i].listed;
    if (rows <= MOST_ROWS)
        return INT64_MIN;
    int64_t *walls = malloc((run->frame_count + 1) * sizeof(*walls));
    size_t kept = (size_t)((double)run->frame_count * MOST_ROWS / (double)rows);
    if (!walls || run->frame_count == 0) {
        free(walls);
        return INT64_MAX;
    }
    for (size_t i = 0; i < run->frame_count; i++)
        walls[i] = run->frames[i].wall_ns;
    qsort(walls, run->frame_count, sizeof(*walls), order_i64);
    int64_t least =
        saturating_add(walls[kept < run->frame_count ? run->frame_count - 1 - kept : 0], 1);
    free(walls);
    packer_notice(k,
                  "the functions of single frames are kept of the slowest %zu of %zu frames: the "
                  "page would be too large",
                  kept, run->frame_count);
    return least;
}

static int add_frame_functions(struct packer *k, const struct run *run, const uint32_t *row_of)
{
    struct pack_table *t = pack_add(&k->pack, SCHEMA_frame_functions);
    struct portion parts[MOST_THREADS] = {{.run = NULL}};
    pthread_t threads[MOST_THREADS];
    bool started[MOST_THREADS] = {false};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = processors > 1 ? (size_t)processors : 1;
    int64_t least = least_wall(k, run);
    int err = 0;
    count = count > MOST_THREADS ? MOST_THREADS : run->frame_count < PORTION ? 1 : count;
    say_progress("reading %zu frames", run->frame_count);
    for (size_t i = 0; i < count; i++) {
        parts[i] = (struct portion){.run = run,
                                    .row_of = row_of,
                                    .from = run->frame_count * i / count,
                                    .to = run->frame_count * (i + 1) / count,
                                    .least_ns = least};
        for (size_t c = 0; c < FF_COLUMNS; c++)
            parts[i].columns[c].kind = schema[SCHEMA_frame_functions].kinds[c];
        started[i] = i > 0 && pthread_create(&threads[i], NULL, read_portion, &parts[i]) == 0;
    }
    for (size_t i = 0; i < count; i++) {
        if (started[i])
            pthread_join(threads[i], NULL);
        else
            read_portion(&parts[i]);
        err = err ? err : parts[i].err;
        for (size_t c = 0; c < FF_COLUMNS; c++) {
            if (t)
                column_append(&t->columns[c], &parts[i].columns[c]);
            column_release(&parts[i].columns[c]);
        }
    }
    say_progress_done();
    return t ? err : -ENOMEM;
}

/* ---- all ---- */

static void add_about(struct packer_about *about, const struct run *run)
{
    if (about->name.len == 0)
        buf_puts(&about->name, paths_base(run->path));
    if (about->program.len == 0 && run->program)
        buf_puts(&about->program, run->program);
    about->pid = about->pid ? about->pid : run->pid;
    about->started_ms = about->started_ms ? about->started_ms : run->timestamp_ms;
}

/* The time at which the last frame or the run ended. */
static int64_t end_of(const struct run *run)
{
    int64_t end = run->wall_ns;
    for (size_t i = 0; i < run->frame_count; i++) {
        const struct run_frame *f = &run->frames[i];
        int64_t over = f->start_ns == INT64_MIN ? 0 : saturating_add(f->start_ns, f->wall_ns);
        end = over > end ? over : end;
    }
    return end;
}

static int load(struct run *run, const char *path, struct run_error *error)
{
    char safe[300];
    say_progress("reading %s", say_safe(safe, sizeof(safe), path));
    int err = run_load(run, path, NULL, error);
    say_progress_done();
    return err;
}

int packer_add_run(struct packer *k, const char *path, struct run_error *error)
{
    struct run run;
    int err = load(&run, path, error);
    if (err)
        return err;
    if (k->base_ns && !is_joined(k, &run)) {
        run_unload(&run);
        return not_joined(path, error);
    }
    k->kinds |= PACKER_SPANS;
    add_about(&k->about, &run);
    join_clocks(k, &run);
    int64_t end = end_of(&run);
    end = end >= 0 ? moment(k, &run, end) : end;
    k->about.duration_ns = end > k->about.duration_ns ? end : k->about.duration_ns;
    run_notices(&run, true);
    for (int i = 0; i < RUN_DROP_KINDS; i++)
        packer_dropped(k, run_drop_names[i], run.dropped[i] > 0 ? (uint64_t)run.dropped[i] : 0);
    uint32_t *row_of = calloc(run.fn_count + 1, sizeof(*row_of));
    err = row_of ? 0 : -ENOMEM;
    if (err == 0) {
        add_functions(k, "functions", &run, row_of);
        add_threads(k, &run);
        if (run.frame_count > 0) {
            add_frames(k, &run, row_of);
            err = add_frame_functions(k, &run, row_of);
        }
    }
    if (err == 0)
        err = k->digest.run(k->digest.to, &run);
    free(row_of);
    run_unload(&run);
    return err ? packer_no_memory(error, path) : 0;
}

int packer_add_other_run(struct packer *k, const char *path, const char *other,
                         struct run_error *error)
{
    struct run runs[2];
    int err = load(&runs[0], path, error);
    if (err)
        return err;
    err = load(&runs[1], other, error);
    if (err) {
        run_unload(&runs[0]);
        return err;
    }
    k->compared = true;
    add_about(&k->other, &runs[1]);
    k->other.duration_ns = end_of(&runs[1]);
    run_notices(&runs[1], true);
    add_functions(k, "b_functions", &runs[1], NULL);
    err = k->digest.diff(k->digest.to, runs);
    run_unload(&runs[0]);
    run_unload(&runs[1]);
    return err ? packer_no_memory(error, other) : 0;
}
