/* `piano profile`: build, run and report in one step, with the code of the single commands. It
 * reports only the run made here, never an older one.
 *
 * The words after `--` belong to the program, unless the first is a compiler or a build tool: then
 * they are the build command, up to a second `--`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/driver.h"
#include "tool/build/program.h"
#include "tool/build/records.h"
#include "tool/build/summary.h"
#define REQUEST struct profiling
#include "tool/cli/command.h"
#include "tool/cli/requests.h"
#include "tool/load/prune.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

struct profiling {
    struct driver build;
    struct program_run run;
    struct report_request report;
    char **words; /* after `--` */
};

static const struct flag flags[] = {
    {.include = build_flags, .field = offsetof(struct profiling, build)},
    {.help = "\nThe program:"},
    {.include = run_flags, .field = offsetof(struct profiling, run)},
    {.help = "\nThe report:"},
    {.include = report_flags, .field = offsetof(struct profiling, report)},
    {0},
};

static bool starts_build(const char *word)
{
    static const char *const tools[] = {"make",  "gmake",   "cmake", "ninja", "meson",
                                        "cargo", "cc",      "c++",   "gcc",   "g++",
                                        "clang", "clang++", "sh",    "bash",  "ccache"};
    const char *name = paths_base(word);
    for (size_t i = 0; i < sizeof tools / sizeof tools[0]; i++) {
        size_t len = strlen(tools[i]);
        if (strncmp(name, tools[i], len) != 0)
            continue;
        const char *rest = name + len;
        if (*rest == '-')
            rest += 1 + strspn(rest + 1, "0123456789.");
        if (*rest == '\0')
            return true;
    }
    return false;
}

/* Splits the words after the first `--`. */
static void split_words(struct profiling *p)
{
    static char *none[] = {NULL};
    char **words = p->words ? p->words : none;
    p->run.words = words;
    if (!words[0] || !starts_build(words[0]))
        return;
    p->build.command = words;
    while (*words && strcmp(*words, "--") != 0)
        words++;
    p->run.words = words;
    if (*words) {
        *words = NULL;
        p->run.words = words + 1;
    }
}

static int build(struct profiling *p)
{
    struct records records = {0};
    int status = driver_build(&p->build);
    if (status != EXIT_DONE)
        return status;
    if (records_load(&records, p->build.state) != 0)
        status = say_error(NULL, "out of memory");
    else
        status = summary_check(&p->build, &records);
    if (status == EXIT_DONE)
        summary_show(&p->build, &records);
    records_release(&records);
    return status;
}

static int profile(void *request)
{
    struct profiling *p = request;
    bool started = false;
    int status = build_check("profile", &p->build);
    if (status == EXIT_DONE)
        status = report_check("profile", &p->report);
    if (status != EXIT_DONE)
        return status;
    split_words(p);
    p->run.out_to_err = p->report.json;
    status = build(p);
    if (status != EXIT_DONE)
        return status;
    fflush(stdout);
    status = program_run(&p->run, &started);
    if (!started || p->run.unstarted)
        return status;
    if (status != 0 && !p->run.interrupted)
        say("the program ended with status %d", status);
    if (!p->run.run) {
        int failed = program_no_run();
        return status ? status : failed;
    }
    prune_runs();
    p->report.run = p->run.run;
    int reported = report_show(&p->report);
    return status ? status : reported;
}

static void release(void *request)
{
    struct profiling *p = request;
    driver_release(&p->build);
    program_run_release(&p->run);
}

const struct command command_profile = {
    .name = "profile",
    .summary = "build, run and report in one step",
    .usage = "piano profile [OPTIONS] [-- [PROGRAM] ARGS]\n"
             "piano profile [OPTIONS] -- BUILD COMMAND [-- [PROGRAM] ARGS]",
    .about = "Builds the project with the chosen functions instrumented, runs the program and "
             "reports. The first word after `--` decides: a compiler or a build tool (cc, make, "
             "cmake, ...) starts a build command, anything else belongs to the program. The "
             "program's exit status is passed on. With --json, stdout holds only the report: "
             "output of the program goes to stderr.",
    .flags = flags,
    .examples = "piano profile --fn update\n"
                "piano profile --fn update --duration 10 -- --level 3\n"
                "piano profile --fn update -- cc -O2 game.c -o game -- --frames 100",
    .words = {WORDS_AFTER_DASHES, FLAG_FIELD(char **, words), "command", 0, NULL},
    .run = profile,
    .release = release,
    COMMAND_REQUEST(.run = {.command = "profile", .kill_s = 10}, .report = {REPORT_DEFAULTS}),
};
