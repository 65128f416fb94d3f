/* `piano report`: reads one run and prints one of its reports. */
#include <errno.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/load/runs.h"
#include "tool/report/report.h"
#include "tool/util/say.h"
#include "tool/util/table.h"

static const char help_text[] =
    "Usage: piano report [RUN] [OPTIONS]\n"
    "\n"
    "Shows where the time and the allocations of a run went. RUN is a file, a tag, a run id, or\n"
    "nothing for the latest run of the project. Of a tag with several runs, the newest is shown.\n"
    "\n"
    "  --frames       frame by frame: the worst ones and their neighbours, spikes marked\n"
    "  --threads      thread by thread\n"
    "  --top N        the first N functions (with --frames: the N worst frames)\n"
    "  --all          everything: functions never called, every frame, every thread\n"
    "  --places       with file and line\n"
    "  --uncorrected  self times as measured, with the cost of the measurement still in them\n"
    "                 (no Total then: it is not kept raw)\n"
    "  --json         the same as JSON, all of it\n"
    "\n"
    "Examples:\n"
    "  piano report\n"
    "  piano report --frames before\n"
    "  piano report .piano/runs/1740000000123-4711.ndjson --json | jq '.functions[0]'\n";

static const char *const flag_names[] = {"--frames", "--threads",     "--top",  "--all",
                                         "--places", "--uncorrected", "--json", "--help"};

struct request {
    struct report_options options;
    bool frames, threads, json, uncorrected, help;
    const char *run;
};

static enum flag_taken take_top(struct flags *f, struct request *q)
{
    double top = 0;
    enum flag_taken taken = flags_number(f, "--top", 1, &top);
    if (taken == FLAG_YES)
        q->options.top = (size_t)top;
    return taken;
}

static enum flag_taken take(struct flags *f, struct request *q)
{
    enum flag_taken taken = flags_switch(f, "--frames", &q->frames);
    taken = taken ? taken : flags_switch(f, "--threads", &q->threads);
    taken = taken ? taken : flags_switch(f, "--json", &q->json);
    taken = taken ? taken : flags_switch(f, "--all", &q->options.all);
    taken = taken ? taken : flags_switch(f, "--places", &q->options.places);
    taken = taken ? taken : flags_switch(f, "--uncorrected", &q->uncorrected);
    taken = taken ? taken : flags_switch(f, "--help", &q->help);
    taken = taken ? taken : flags_switch(f, "-h", &q->help);
    return taken ? taken : take_top(f, q);
}

static int parse(struct flags *f, struct request *q)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        const char *word = f->argv[f->at];
        enum flag_taken taken = take(f, q);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_YES)
            continue;
        if (word[0] == '-' && word[1])
            return flags_unknown(f, flag_names, sizeof(flag_names) / sizeof(*flag_names));
        if (q->run)
            return say_usage(f->command, "one run at a time; `piano diff` compares several");
        q->run = word;
    }
    if (q->frames && q->threads)
        return say_usage(f->command, "--frames and --threads are two reports; choose one");
    return EXIT_DONE;
}

static int print(const struct request *q, const struct run *run)
{
    const struct report_options *o = &q->options;
    if (q->frames)
        return q->json ? report_frames_json(stdout, run, o) : report_frames(stdout, run, o);
    if (q->threads)
        return q->json ? report_threads_json(stdout, run, o) : report_threads(stdout, run, o);
    return q->json ? report_functions_json(stdout, run, o) : report_functions(stdout, run, o);
}

static int report(const struct request *q)
{
    struct run run;
    struct run_error error;
    struct runs_paths paths;
    struct run_options load = {.uncorrected = q->uncorrected, .threads = q->threads};
    int err = runs_resolve(q->run, &paths, &error);
    if (err == 0 && paths.count > 1 && strchr(q->run, ',')) {
        runs_paths_release(&paths);
        return say_usage("report", "that names several runs; `piano diff` compares them");
    }
    if (err == 0) {
        const char *path = runs_paths_newest(&paths);
        char safe[512];
        if (paths.count > 1)
            say("the tag has %zu runs; this is the newest: %s", paths.count,
                say_safe(safe, sizeof(safe), path));
        say_progress("reading %s", path);
        err = run_load(&run, path, &load, &error);
        say_progress_done();
        runs_paths_release(&paths);
    }
    if (err)
        return say_error(error.hint[0] ? error.hint : NULL, "%s", error.text);
    report_notices(&run, !q->threads);
    err = print(q, &run);
    run_unload(&run);
    if (err && !ferror(stdout))
        return say_error(NULL, "the report stopped: %s", strerror(-err));
    return EXIT_DONE;
}

int cmd_report(int argc, char **argv)
{
    struct request q = {.run = NULL};
    struct flags f = {.command = "report", .argc = argc, .argv = argv};
    int status = parse(&f, &q);
    if (status != EXIT_DONE)
        return status;
    if (q.help) {
        fputs(help_text, stdout);
        return EXIT_DONE;
    }
    q.options.width = table_terminal(stdout);
    q.options.colour = say_colour(stdout);
    return report(&q);
}
