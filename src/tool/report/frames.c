/* `piano report --frames`: a table of frames, with the most important functions as columns.
 *
 * A short run is shown completely. A long run shows the worst frames (wall time relative to the
 * median of their kind), each with the frame before and after it, because a spike is best
 * compared with its neighbours. The figures of single functions are read from the file again,
 * for the frames shown. */
#include "tool/report/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/util/sheet.h"
#include "tool/util/units.h"

enum {
    SHORT_RUN = 40,   /* frames shown without --all */
    WORST = 10,       /* number of spikes shown of a longer run */
    PIPE_COLUMNS = 6, /* functions shown if the output is no terminal */
    MAX_COLUMNS = 16,
    MAX_PARTS = 16, /* of a qualified name; the last one includes all further parts */
    TITLE_WIDTH = 14,
    NUMBER_WIDTH = 9,
    PRINT_EVERY = 500,
    MAX_WEIGHED = 10000, /* frames read again to choose the functions */
};

#define ABSENT INT64_MIN

struct columns {
    uint32_t fns[MAX_COLUMNS];
    char *names[MAX_COLUMNS];
    char *titles[MAX_COLUMNS];
    size_t count;
};

/* ---- which functions ---- */

/* The last PARTS parts of a qualified name. For `ui::Parser<T>::parse_node(int)`,
 * `parse_node(int)` is one part and `Parser<T>::parse_node(int)` two. Text in brackets is not
 * split. */
static const char *last_parts(const char *name, size_t parts)
{
    const char *starts[MAX_PARTS] = {name};
    size_t count = 1;
    int depth = 0;
    for (const char *p = name; *p; p++) {
        if (*p == '<' || *p == '(')
            depth++;
        else if (*p == '>' || *p == ')')
            depth--;
        else if (depth == 0 && p[0] == ':' && p[1] == ':' && p[2] && count < MAX_PARTS)
            starts[count++] = p + 2;
    }
    return starts[count > parts ? count - parts : 0];
}

static bool is_alone(const struct columns *c, size_t column, size_t parts)
{
    const char *name = last_parts(c->names[column], parts);
    for (size_t i = 0; i < c->count; i++)
        if (i != column && strcmp(last_parts(c->names[i], parts), name) == 0)
            return false;
    return true;
}

static bool title_taken(const struct columns *c, const char *title)
{
    for (size_t i = 0; i < c->count && c->titles[i]; i++)
        if (strcmp(c->titles[i], title) == 0)
            return true;
    return false;
}

/* A short title that is unique among the columns: as many parts of the name as needed,
 * truncated. */
static char *make_title(const struct columns *c, size_t column)
{
    char text[512];
    size_t parts = 1;
    while (parts < MAX_PARTS && !is_alone(c, column, parts))
        parts++;
    for (size_t width = TITLE_WIDTH; width < sizeof(text) / 4; width *= 2) {
        table_shorten(text, sizeof(text), last_parts(c->names[column], parts), width);
        if (!title_taken(c, text))
            return strdup(text);
    }
    return strdup(c->names[column]);
}

static int make_titles(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        c->titles[i] = make_title(c, i);
        if (!c->titles[i])
            return -ENOMEM;
    }
    return 0;
}

static int add_column(struct columns *c, const struct run *run, uint32_t fn)
{
    char *name = run_fn_name(run, fn);
    if (!name)
        return -ENOMEM;
    c->fns[c->count] = fn;
    c->names[c->count++] = name;
    return 0;
}

/* Self time of each function in the frames shown; ABSENT if it is in none of them. LIST NULL:
 * all frames. If these are too many to read twice, the sums of the run are used instead. */
static int weigh(const struct run *run, const size_t *list, size_t count,
                 struct run_scratch *scratch, int64_t *weights)
{
    int err = 0;
    for (size_t i = 0; i < run->fn_count; i++) {
        bool known = count > MAX_WEIGHED && run->fns[i].frames.count > 0;
        weights[i] = known ? run->fns[i].sum.self_ns : ABSENT;
    }
    for (size_t i = 0; count <= MAX_WEIGHED && i < count && err == 0; i++) {
        err = run_frame_functions(run, &run->frames[list ? list[i] : i], scratch);
        for (size_t k = 0; err == 0 && k < scratch->count; k++) {
            int64_t *w = &weights[scratch->entries[k].fn];
            *w = saturating_add(*w == ABSENT ? 0 : *w, scratch->entries[k].sum.self_ns);
        }
    }
    return err;
}

/* Chooses the COUNT functions with the largest weight, so that those that cause the spikes are
 * included. */
static int choose_columns(struct columns *c, const struct run *run, int64_t *weights, size_t count)
{
    int err = 0;
    while (err == 0 && c->count < count && c->count < MAX_COLUMNS) {
        uint32_t best = RUN_NO_FN;
        for (uint32_t i = 0; i < run->fn_count; i++)
            if (weights[i] != ABSENT && (best == RUN_NO_FN || weights[i] > weights[best]))
                best = i;
        if (best == RUN_NO_FN)
            break;
        weights[best] = ABSENT;
        err = add_column(c, run, best);
    }
    return err ? err : make_titles(c);
}

static void columns_release(struct columns *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->names[i]);
        free(c->titles[i]);
    }
}

/* ---- the table ---- */

struct view {
    const struct run *run;
    const struct report_options *o;
    struct table table;
    struct columns columns;
    struct run_scratch scratch;
    bool threads, kinds, allocs, turns;
    bool cpu, runq, blocked, off; /* where the time of frames went, see `onoff_columns` */
};

/* Shows these columns only if they are at least 1 % of the time. If the kind of wait is unknown,
 * one column shows all time off the CPU. */
static void onoff_columns(struct view *v)
{
    const struct run_group *all = &v->run->all;
    int64_t least = all->cpu_wall_ns / 100, off = all->cpu_wall_ns - all->cpu_ns;
    v->off = all->no_runq && off > least;
    v->runq = !all->no_runq && all->runq_ns > least;
    v->blocked = !all->no_runq && off - all->runq_ns > least;
    v->cpu = v->off || v->runq || v->blocked || v->o->rank == REPORT_BY_CPU;
}

static void look_around(struct view *v)
{
    const struct run *run = v->run;
    v->kinds = run->group_count > 1;
    for (size_t i = 0; i < run->frame_count; i++) {
        v->threads |= run->frames[i].thread != run->frames[0].thread;
        v->allocs |= run->frames[i].alloc_count > 0 || run->dropped[RUN_DROP_ALLOCATORS] > 0;
        v->turns |= run->frames[i].turn != 0;
    }
    onoff_columns(v);
}

static const char *thread_text(char *text, size_t size, const struct run *run, uint32_t number)
{
    const struct run_thread *thread = run_thread_find(run, number);
    char name[40];
    if (thread && thread->name && *thread->name)
        snprintf(text, size, "%u %s", number, say_safe(name, sizeof(name), thread->name));
    else
        snprintf(text, size, "%u", number);
    return text;
}

static const char *spike_mark(const struct run_frame *f)
{
    static const char *const marks[] = {[RUN_WHY_WORK] = "<- spike",
                                        [RUN_WHY_RUNQ] = "<- spike (waited for a CPU)",
                                        [RUN_WHY_BLOCKED] = "<- spike (blocked)",
                                        [RUN_WHY_OFF] = "<- spike (off the CPU)"};
    return f->spike ? marks[f->why] : "";
}

/* The times of the chosen functions in the frame that `scratch` holds. */
static void function_columns(struct sheet *s, const struct view *v)
{
    for (size_t i = 0; i < v->columns.count; i++) {
        uint32_t fn = v->columns.fns[i], slot = v->scratch.slot[fn];
        const struct tally *sum = slot ? &v->scratch.entries[slot - 1].sum : NULL;
        /* It ran, so `-` would be wrong, and every call takes some time. */
        bool residue = sum && (sum->self_ns < 0 || (sum->self_ns == 0 && sum->calls > 0));
        SHEET(s, TIME, NULL, v->columns.titles[i], .number = sum ? sum->self_ns : 0,
              .unknown = !sum, .shown = residue ? "~0" : NULL, .optional = (int)i + 1,
              .mark = sum && run_is_estimated(v->run, fn, sum) ? "~" : NULL);
    }
}

static void columns(struct sheet *s, const void *ctx, const void *of)
{
    static const char *const whys[] = {[RUN_WHY_WORK] = NULL,
                                       [RUN_WHY_RUNQ] = "waited",
                                       [RUN_WHY_BLOCKED] = "blocked",
                                       [RUN_WHY_OFF] = "off_cpu"};
    const struct view *v = ctx;
    const struct run_frame *f = of;
    int64_t index = (int64_t)v->run->frames_before + (f - v->run->frames),
            off = f->wall_ns - f->cpu_ns, blocked = run_frame_blocked(f);
    bool has_root = f->root != RUN_NO_ROOT, no_cpu = f->cpu_ns < 0, no_runq = f->runq_ns < 0;
    bool no_allocs = v->run->dropped[RUN_DROP_ALLOCATORS] > 0;
    char number[UNITS_LEN], thread[64];
    char *root = s->table && has_root ? run_fn_name(v->run, f->root) : NULL;
    SHEET(s, COUNT, "frame", "Frame", .number = index,
          .shown = s->table ? units_count(number, index + 1) : NULL);
    SHEET(s, COUNT, "thread", NULL, .count = f->thread);
    if (v->threads)
        SHEET(s, TEXT, NULL, "Thread",
              .shown = thread_text(thread, sizeof(thread), v->run, f->thread));
    SHEET(s, TEXT, "root", v->kinds ? "Of" : NULL, .most = TITLE_WIDTH,
          .text = has_root ? v->run->fns[f->root].name : NULL,
          .shown = root ? last_parts(root, 1) : "-");
    free(root);
    SHEET(s, TIME, "start_ns", NULL, .number = f->start_ns, .unknown = f->start_ns == INT64_MIN);
    SHEET(s, TEXT, "kind", NULL, .text = f->turn ? "turn" : "call");
    SHEET(s, TIME, "between_ns", v->turns ? "between" : NULL, .unknown = !f->turn, .place = 1,
          .number = f->turn ? v->run->turns[f->turn - 1].between_ns : 0);
    SHEET(s, TIME, "wall_ns", "Total", .number = f->wall_ns);
    SHEET(s, TIME, "cpu_ns", v->cpu ? "CPU" : NULL, .number = f->cpu_ns, .unknown = no_cpu);
    SHEET(s, TIME, "runq_ns", v->runq ? "Waited" : NULL, .number = f->runq_ns, .unknown = no_runq);
    SHEET(s, TIME, "blocked_ns", v->blocked ? "Blocked" : NULL, .number = blocked,
          .unknown = no_runq, .shown = !no_runq && blocked < 0 ? "0ns" : NULL);
    SHEET(s, TIME, NULL, v->off ? "Off CPU" : NULL, .number = off > 0 ? off : 0, .unknown = no_cpu);
    function_columns(s, v);
    SHEET(s, COUNT, "alloc_count", v->allocs ? "Allocs" : NULL, .number = f->alloc_count,
          .unknown = no_allocs, .place = 2);
    SHEET(s, BYTES, "alloc_bytes", v->allocs ? "Bytes" : NULL, .number = f->alloc_bytes,
          .unknown = no_allocs, .place = 2);
    SHEET(s, FLAG, "spike", NULL, .count = f->spike);
    SHEET(s, TEXT, "why", "", .text = f->spike ? whys[f->why] : NULL, .shown = spike_mark(f),
          .place = 2);
}

static int add_frame(struct view *v, size_t index)
{
    const struct run_frame *f = &v->run->frames[index];
    int err = run_frame_functions(v->run, f, &v->scratch);
    if (err == 0)
        sheet_table(&v->table, columns, v, f);
    return err;
}

static void add_gap(struct view *v, const struct run_frame *next)
{
    if (v->table.column_count == 0)
        sheet_titles(&v->table, columns, v, next);
    for (size_t i = 0; i < v->table.column_count; i++)
        table_cell(&v->table, i == 0 ? "..." : "");
}

static int print_frames(FILE *out, struct view *v, const size_t *list, size_t count)
{
    int err = 0;
    for (size_t i = 0; i < count && err == 0; i++) {
        size_t index = list ? list[i] : i;
        if (list && (i == 0 ? index > 0 : index > list[i - 1] + 1))
            add_gap(v, &v->run->frames[index]);
        err = add_frame(v, index);
        if (err == 0 && (i + 1) % PRINT_EVERY == 0)
            err = table_print(&v->table, out, v->o->width, v->o->colour);
    }
    if (list && count && list[count - 1] + 1 < v->run->frame_count)
        add_gap(v, NULL);
    return err ? err : table_print(&v->table, out, v->o->width, v->o->colour);
}

static size_t column_budget(const struct view *v)
{
    const struct report_options *o = v->o;
    if (o->width == 0)
        return PIPE_COLUMNS;
    size_t fixed = 50; /* frame, total, allocations, the mark */
    fixed += (size_t)(v->cpu + v->runq + v->blocked + v->off) * NUMBER_WIDTH;
    size_t room = o->width > fixed ? (o->width - fixed) / (NUMBER_WIDTH + 2) : 0;
    return room < 2 ? 2 : room > MAX_COLUMNS ? MAX_COLUMNS : room;
}

static int set_columns(struct view *v, const size_t *list, size_t count)
{
    int64_t *weights = calloc(v->run->fn_count + 1, sizeof(*weights));
    int err = weights ? weigh(v->run, list, count, &v->scratch, weights) : -ENOMEM;
    if (err == 0)
        err = choose_columns(&v->columns, v->run, weights, column_budget(v));
    free(weights);
    return err;
}

/* Which function has the time between the calls of a turn: the caller, if it is instrumented. */
static void between_note(FILE *out, const struct view *v)
{
    const struct run *run = v->run;
    uint32_t caller = RUN_NO_FN;
    size_t kinds = 0;
    for (size_t i = 0; i < run->group_count; i++)
        if (run->groups[i].turn) {
            caller = run->groups[i].caller;
            kinds++;
        }
    char *name = kinds == 1 && caller != RUN_NO_FN ? run_fn_name(run, caller) : NULL;
    if (name)
        report_dim(out, v->o->colour, "between: between the calls of a turn; self time of %s",
                   name);
    else
        report_dim(out, v->o->colour,
                   "between: between the calls of a turn, in functions that were not chosen");
    free(name);
}

static void print_range(FILE *out, const struct run *run)
{
    char from[UNITS_LEN], to[UNITS_LEN];
    fprintf(
        out, "from %s to %s: %zu of %zu frame%s begin in it; spikes are those of the whole run\n",
        units_time(from, (int64_t)run->range.from_ns), units_time(to, (int64_t)run->range.to_ns),
        run->frame_count, run->all_frames, run->all_frames == 1 ? "" : "s");
}

int report_frames(FILE *out, const struct run *run, const struct report_options *o)
{
    struct view v = {.run = run, .o = o};
    size_t *list = NULL, count = run->frame_count;
    if (run->range.given)
        print_range(out, run);
    if (run->frame_count == 0 && run->all_frames > 0)
        return 0;
    if (run->frame_count == 0) {
        fputs("This run has no frames: no instrumented function was called more than once at its "
              "outermost level.\n",
              out);
        return 0;
    }
    look_around(&v);
    bool part = !o->all && run->frame_count > SHORT_RUN;
    int err = part ? frames_choose(run, o->top ? o->top : WORST, o->rank, &list, &count) : 0;
    if (err == 0)
        err = set_columns(&v, list, count);
    if (err == 0)
        err = print_frames(out, &v, list, count);
    if (err == 0 && v.turns)
        between_note(out, &v);
    if (err == 0 && part)
        report_dim(out, o->colour, "the worst frames and their neighbours; all %zu: --all",
                   run->frame_count);
    if (err == 0)
        report_footer(out, run, o);
    struct inside *inside = err == 0 ? inside_open(run) : NULL;
    if (inside)
        err = inside_print(out, inside, o);
    inside_close(inside);
    table_release(&v.table);
    columns_release(&v.columns);
    run_scratch_release(&v.scratch);
    free(list);
    return err;
}

/* ---- JSON ---- */

static void put_frame(struct json_writer *w, const struct view *v, const struct run_frame *f,
                      struct inside *inside)
{
    json_add_row(w);
    sheet_put(w, columns, v, f);
    json_add_array(w, "functions");
    for (size_t i = 0; i < v->scratch.count; i++) {
        json_add_object(w, NULL);
        report_put_function(w, v->run, v->scratch.entries[i].fn, &v->scratch.entries[i].sum);
        json_close(w);
    }
    json_close(w);
    inside_put(w, inside, f);
    json_close(w);
}

/* Lists all frames, because the program that reads the JSON can choose. `--top` limits it to the
 * worst. */
int report_frames_json(FILE *out, const struct run *run, const struct report_options *o)
{
    struct json_writer w = {.out = out};
    struct view v = {.run = run, .o = o};
    size_t *list = NULL, count = run->frame_count;
    struct inside *inside = inside_open(run);
    if (o->top && !o->all && run->frame_count > 0)
        json_keep_error(&w, frames_choose(run, o->top, o->rank, &list, &count));
    json_add_object(&w, NULL);
    json_add_array(&w, "frames");
    for (size_t i = 0; i < count && w.err == 0; i++) {
        const struct run_frame *f = &run->frames[list ? list[i] : i];
        json_keep_error(&w, run_frame_functions(run, f, &v.scratch));
        if (w.err == 0)
            put_frame(&w, &v, f, inside);
    }
    json_line(&w);
    json_close(&w);
    report_put_budget(&w, run);
    report_put_run(&w, run);
    say_progress_done();
    inside_close(inside);
    run_scratch_release(&v.scratch);
    free(list);
    return json_finish(&w);
}
