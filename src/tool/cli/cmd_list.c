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
#include "tool/util/json.h"
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

/* Appends the tags of this run to B: "a, b". */
static void tags_of(struct buf *b, const struct tags *tags, const struct runs_entry *e, bool json)
{
    const char *file = paths_base(e->path);
    char safe[256];
    const char *comma = "";
    for (size_t i = 0; i < tags->count; i++)
        for (size_t k = 0; k < tags->list[i].run_count; k++) {
            const char *run = tags->list[i].runs[k];
            if (strcmp(run, file) != 0 && strcmp(run, e->path) != 0)
                continue;
            buf_puts(b, comma);
            if (json)
                json_put_string(b, tags->list[i].name);
            else
                buf_puts(b, say_safe(safe, sizeof(safe), tags->list[i].name));
            comma = json ? "," : ", ";
            break;
        }
}

static size_t called(const struct run *run)
{
    size_t count = 0;
    for (size_t i = 0; i < run->fn_count; i++)
        count += run->fns[i].sum.calls > 0;
    return count;
}

/* Appends the instruments of RECORDING to B: "heap, cpu"; quoted for JSON. */
static void put_kinds(struct buf *b, const struct recording *rec, bool json)
{
    static const struct {
        unsigned instrument;
        const char *name;
    } kinds[] = {{PROFILE_HEAP, "heap"}, {PROFILE_CPU, "cpu"}, {PROFILE_EVENTS, "events"}};
    unsigned found = profile_instruments(rec);
    const char *comma = "";
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!(found & kinds[i].instrument))
            continue;
        buf_printf(b, json ? "%s\"%s\"" : "%s%s", comma, kinds[i].name);
        comma = json ? "," : ", ";
    }
}

/* A recording has neither frames nor instrumented functions. */
static void add_recording(struct table *t, const struct runs_entry *e, const struct tags *tags,
                          int64_t now_ms)
{
    struct recording rec;
    struct run_error error;
    struct buf names = {0}, kinds = {0};
    char text[UNITS_LEN], safe[128], name[PIANO_REC_PATH] = "";
    bool good = recording_peek(&rec, e->path, &error) == 0;
    table_cell(t, say_safe(safe, sizeof(safe), e->stem));
    table_cell(t, units_age(text, (now_ms - e->timestamp_ms) / 1000));
    if (good)
        program_called(name, sizeof(name), rec.header.program, rec.header.command);
    table_cell(t, !good ? "(unreadable)" : *name ? say_safe(safe, sizeof(safe), name) : "-");
    table_cell(t, good && rec.duration_ns >= 0 ? units_time(text, rec.duration_ns) : "-");
    if (good)
        put_kinds(&kinds, &rec, false);
    table_cell(t, kinds.len ? kinds.data : "-");
    table_cell(t, "-");
    table_cell(t, units_bytes(text, (int64_t)e->bytes));
    tags_of(&names, tags, e, false);
    table_cell(t, names.data ? names.data : "");
    buf_free(&names);
    buf_free(&kinds);
    if (good)
        recording_unload(&rec);
}

static void add_row(struct table *t, const struct runs_entry *e, const struct tags *tags,
                    int64_t now_ms)
{
    struct run run;
    struct run_error error;
    struct buf names = {0};
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
    tags_of(&names, tags, e, false);
    table_cell(t, names.data ? names.data : "");
    buf_free(&names);
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

static void put_recording(struct buf *b, const struct runs_entry *e)
{
    struct recording rec;
    struct run_error error;
    if (recording_peek(&rec, e->path, &error) != 0) {
        buf_puts(b, ",\"error\":");
        json_put_string(b, error.text);
        return;
    }
    buf_puts(b, ",\"id\":");
    json_put_string(b, e->stem);
    buf_puts(b, ",\"program\":");
    json_put_string(b, rec.header.program);
    buf_puts(b, ",\"kinds\":[");
    put_kinds(b, &rec, true);
    buf_printf(b, "],\"pid\":%u,\"rate\":%llu,\"samples\":%llu", rec.header.pid,
               (unsigned long long)rec.header.rate, (unsigned long long)rec.header.stats.samples);
    if (rec.duration_ns >= 0)
        buf_printf(b, ",\"wall_ns\":%lld", (long long)rec.duration_ns);
    else
        buf_puts(b, ",\"wall_ns\":null");
    recording_unload(&rec);
}

static void put_run(struct buf *b, const struct runs_entry *e, const struct tags *tags)
{
    struct run run;
    struct run_error error;
    buf_puts(b, "{\"path\":");
    json_put_string(b, e->path);
    buf_printf(b, ",\"kind\":\"%s\",\"timestamp_ms\":%lld,\"bytes\":%llu,\"tags\":[",
               e->recording ? "recording" : "run", (long long)e->timestamp_ms,
               (unsigned long long)e->bytes);
    tags_of(b, tags, e, true);
    buf_putc(b, ']');
    if (e->recording) {
        buf_printf(b, ",\"more_processes\":%zu", e->more);
        put_recording(b, e);
        buf_putc(b, '}');
        return;
    }
    if (run_load(&run, e->path, NULL, &error) != 0) {
        buf_puts(b, ",\"error\":");
        json_put_string(b, error.text);
    } else {
        buf_puts(b, ",\"id\":");
        json_put_string(b, e->stem);
        buf_puts(b, ",\"run_id\":");
        json_put_string(b, run.run_id);
        buf_puts(b, ",\"program\":");
        if (run.program)
            json_put_string(b, run.program);
        else
            buf_puts(b, "null");
        if (run.wall_ns >= 0)
            buf_printf(b, ",\"wall_ns\":%lld", (long long)run.wall_ns);
        else
            buf_puts(b, ",\"wall_ns\":null");
        buf_printf(b, ",\"frames\":%lld,\"functions\":%zu", (long long)run.all.count, called(&run));
        run_unload(&run);
    }
    buf_putc(b, '}');
}

static int list_json(const struct runs *runs, const struct tags *tags)
{
    struct buf b = {0};
    buf_puts(&b, "{\"dir\":");
    json_put_string(&b, runs->dir);
    buf_puts(&b, ",\"runs\":[");
    for (size_t i = 0; i < runs->count; i++) {
        buf_puts(&b, i ? ",\n" : "\n");
        put_run(&b, &runs->entries[i], tags);
    }
    buf_puts(&b, "\n]}\n");
    int err = buf_flush(&b, stdout, true);
    buf_free(&b);
    return err;
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
