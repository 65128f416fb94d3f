/* `piano list`: the runs of the project, newest first. Every run is loaded for its figures. A run
 * that cannot be read is still listed, without figures. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/load/tags.h"
#include "tool/profile/profile.h"
#include "tool/report/report.h"
#include "tool/util/json_writer.h"
#include "tool/util/paths.h"
#include "tool/util/program.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { LIST_TOP = 20 };

struct request {
    bool all, json;
};

static const struct flag flags[] = {
    {"--all", "all of them, not only the latest 20", FLAG_SWITCH(all)},
    {"--json", "all of them as JSON", FLAG_SWITCH(json)},
    {0},
};

/* Whether T names the run of E. */
static bool is_tagged(const struct tag *t, const struct runs_entry *e)
{
    const char *file = paths_base(e->path);
    for (size_t k = 0; k < t->run_count; k++)
        if (strcmp(t->runs[k], file) == 0 || strcmp(t->runs[k], e->path) == 0)
            return true;
    return false;
}

/* Adds the tags of this run as a cell: "a, b". */
static void add_tags(struct table *t, const struct tags *tags, const struct runs_entry *e)
{
    struct buf b = {0};
    char safe[256];
    for (size_t i = 0; i < tags->count; i++)
        if (is_tagged(&tags->list[i], e))
            buf_printf(&b, "%s%s", b.len ? ", " : "",
                       say_safe(safe, sizeof(safe), tags->list[i].name));
    table_cell(t, b.data ? b.data : "");
    buf_free(&b);
}

static size_t called(const struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->fn_count; i++)
        count += run->fns[i].sum.calls > 0;
    return count;
}

static const struct {
    unsigned instrument;
    const char *name;
} kinds[] = {{PROFILE_HEAP, "heap"}, {PROFILE_CPU, "cpu"}, {PROFILE_EVENTS, "events"}};

/* Adds the instruments of the recording as a cell: "heap, cpu". */
static void add_kinds(struct table *t, unsigned found)
{
    struct buf b = {0};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (found & kinds[i].instrument)
            buf_printf(&b, "%s%s", b.len ? ", " : "", kinds[i].name);
    table_cell(t, b.len ? b.data : "-");
    buf_free(&b);
}

/* A recording has neither frames nor instrumented functions. */
static void add_recording(struct table *t, const struct runs_entry *e, const struct tags *tags,
                          int64_t now_ms)
{
    struct recording rec;
    struct run_error error;
    char text[UNITS_LEN], safe[128], name[PIANO_REC_PATH] = "";
    bool good = recording_peek(&rec, e->path, &error) == 0;
    table_cell(t, say_safe(safe, sizeof(safe), e->stem));
    table_cell(t, units_age(text, (now_ms - e->timestamp_ms) / 1000));
    if (good)
        program_called(name, sizeof(name), rec.header.program, rec.header.command);
    table_cell(t, !good ? "(unreadable)" : *name ? say_safe(safe, sizeof(safe), name) : "-");
    table_cell(t, good && rec.duration_ns >= 0 ? units_time(text, rec.duration_ns) : "-");
    add_kinds(t, good ? profile_instruments(&rec) : 0);
    table_cell(t, "-");
    table_cell(t, units_bytes(text, (int64_t)e->bytes));
    add_tags(t, tags, e);
    if (good)
        recording_unload(&rec);
}

static void add_row(struct table *t, const struct runs_entry *e, const struct tags *tags,
                    int64_t now_ms)
{
    struct run run;
    struct run_error error;
    char text[UNITS_LEN], safe[128];
    bool good = run_load(&run, e->path, NULL, &error) == 0;
    table_cell(t, say_safe(safe, sizeof(safe), e->stem));
    table_cell(t, units_age(text, (now_ms - e->timestamp_ms) / 1000));
    table_cell(t, !good         ? "(unreadable)"
                  : run.program ? say_safe(safe, sizeof(safe), paths_base(run.program))
                                : "-");
    table_cell(t, good && run.wall_ns >= 0 ? units_time(text, run.wall_ns) : "-");
    table_cell(t, good ? units_count(text, run.all.count) : "-");
    table_cell(t, good ? units_count(text, (int64_t)called(&run)) : "-");
    table_cell(t, units_bytes(text, (int64_t)e->bytes));
    add_tags(t, tags, e);
    if (good)
        run_unload(&run);
}

static int list_table(const struct runs *runs, const struct tags *tags, bool all)
{
    static const char *const titles[] = {"Run",    "Age",       "Program", "Length",
                                         "Frames", "Functions", "Size",    "Tags"};
    struct table t = {.cells = NULL};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t now_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    for (size_t i = 0; i < 8; i++)
        table_column(&t, titles[i], i == 0 || i == 2 || i == 7 ? TABLE_LEFT : TABLE_RIGHT,
                     i == 5 ? 1 : 0);
    size_t shown = !all && runs->count > LIST_TOP ? LIST_TOP : runs->count;
    for (size_t i = 0; i < shown; i++) {
        say_progress("reading run %zu of %zu", i + 1, shown);
        if (runs->entries[i].recording)
            add_recording(&t, &runs->entries[i], tags, now_ms);
        else
            add_row(&t, &runs->entries[i], tags, now_ms);
    }
    say_progress_done();
    bool colour = say_colour(stdout);
    int err = table_print(&t, stdout, table_terminal(stdout), colour);
    table_release(&t);
    if (shown < runs->count)
        report_dim(stdout, colour, "%zu more runs: --all", runs->count - shown);
    return err;
}

static void put_recording(struct json_writer *w, const struct runs_entry *e)
{
    struct recording rec;
    struct run_error error;
    if (recording_peek(&rec, e->path, &error) != 0) {
        json_add_text(w, "error", error.text);
        return;
    }
    unsigned found = profile_instruments(&rec);
    json_add_text(w, "id", e->stem);
    json_add_text(w, "program", rec.header.program);
    json_add_array(w, "kinds");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (found & kinds[i].instrument)
            json_add_text(w, NULL, kinds[i].name);
    json_close(w);
    json_add_count(w, "pid", rec.header.pid);
    json_add_count(w, "rate", rec.header.rate);
    json_add_count(w, "samples", rec.header.stats.samples);
    json_add_known(w, "wall_ns", rec.duration_ns >= 0, rec.duration_ns);
    recording_unload(&rec);
}

static void put_run(struct json_writer *w, const struct runs_entry *e)
{
    struct run run;
    struct run_error error;
    if (run_load(&run, e->path, NULL, &error) != 0) {
        json_add_text(w, "error", error.text);
        return;
    }
    json_add_text(w, "id", e->stem);
    json_add_text(w, "run_id", run.run_id);
    json_add_text(w, "program", run.program);
    json_add_known(w, "wall_ns", run.wall_ns >= 0, run.wall_ns);
    json_add_number(w, "frames", run.all.count);
    json_add_count(w, "functions", called(&run));
    run_unload(&run);
}

static int list_json(const struct runs *runs, const struct tags *tags)
{
    struct json_writer w = {.out = stdout};
    json_add_object(&w, NULL);
    json_add_text(&w, "dir", runs->dir);
    json_add_array(&w, "runs");
    for (size_t i = 0; i < runs->count; i++) {
        const struct runs_entry *e = &runs->entries[i];
        json_add_row(&w);
        json_add_text(&w, "path", e->path);
        json_add_text(&w, "kind", e->recording ? "recording" : "run");
        json_add_number(&w, "timestamp_ms", e->timestamp_ms);
        json_add_count(&w, "bytes", e->bytes);
        json_add_array(&w, "tags");
        for (size_t k = 0; k < tags->count; k++)
            if (is_tagged(&tags->list[k], e))
                json_add_text(&w, NULL, tags->list[k].name);
        json_close(&w);
        if (e->recording) {
            json_add_count(&w, "more_processes", e->more);
            put_recording(&w, e);
        } else {
            put_run(&w, e);
        }
        json_close(&w);
    }
    json_line(&w);
    return json_finish(&w);
}

static int list(void *request)
{
    const struct request *q = request;
    struct runs runs;
    struct tags tags = {0};
    int err = runs_list(&runs, NULL);
    if (err == 0)
        err = tags_load(&tags, runs.dir);
    if (err) {
        struct run_error error;
        runs_fail(&runs, err, &error);
        int status = say_error(error.hint[0] ? error.hint : NULL, "%s", error.text);
        runs_release(&runs);
        return status;
    }
    runs_fold(&runs);
    if (q->json)
        err = list_json(&runs, &tags);
    else if (runs.count == 0)
        say("there are no runs in %s yet; `piano record -- PROGRAM` or `piano profile` makes one",
            runs.dir);
    else
        err = list_table(&runs, &tags, q->all);
    tags_release(&tags);
    runs_release(&runs);
    return outcome_written("the list", err);
}

const struct command command_list = {
    .name = "list",
    .summary = "list the recorded runs",
    .usage = "piano list [--all] [--json]",
    .about = "Lists the runs and recordings, newest first: id, age, program, length, frames (of a "
             "recording what is in it: heap, cpu, events), functions called, size and tags.",
    .flags = flags,
    .notes = "Runs are files in PIANO_RUNS_DIR, else in .piano/runs of the project. Delete what is "
             "not needed any more with rm. In .piano/runs, the newest 50 runs are kept, up to "
             "1 GB, and those with a tag; PIANO_KEEP_RUNS and PIANO_KEEP_SIZE change that.",
    .examples = "piano list\n"
                "piano list --json | jq -r '.runs[0].path'",
    .words = {WORDS_LISTED, 0, NULL, 0, "`piano list` takes no runs"},
    .run = list,
    COMMAND_REQUEST(),
};
