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
#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/load/prune.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

const char cmd_profile_help[] =
    "Usage: piano profile [OPTIONS] [-- [PROGRAM] ARGS]\n"
    "       piano profile [OPTIONS] -- BUILD COMMAND [-- [PROGRAM] ARGS]\n"
    "\n"
    "Builds the project with the chosen functions instrumented, runs the program and\n"
    "reports. Takes the options of `piano build` (--fn, --exact, --file, --dir,\n"
    "--skip, --frame, -j, --verbose), of `piano run` (--duration, --kill-timeout,\n"
    "--every-call) and of `piano report` (--top N, --all, --frames, --threads,\n"
    "--places, --budget TIME, --cpu-time, --wall, --uncorrected, --json). The first\n"
    "word after `--` decides: a compiler or a build tool (cc, make, cmake, ...)\n"
    "starts a build command, anything else is the program's.\n"
    "\n"
    "With --json, stdout holds the report alone: what the program prints goes to\n"
    "stderr.\n"
    "The program's exit status is passed on.\n"
    "\n"
    "Examples:\n"
    "  piano profile --fn update\n"
    "  piano profile --fn update --duration 10 -- --level 3\n"
    "  piano profile --fn update -- cc -O2 game.c -o game -- --frames 100\n";

static const char *const names[] = {
    "--fn",         "--exact",    "--file",         "--dir",    "--skip", "--frame",    "--verbose",
    "-j",           "--duration", "--kill-timeout", "--top",    "--all",  "--frames",   "--threads",
    "--json",       "--places",   "--uncorrected",  "--budget", "--help", "--cpu-time", "--wall",
    "--every-call", NULL};

enum { MAX_REPORT_WORDS = 16 };

struct profiling {
    struct driver build;
    struct program_run run;
    char *report[MAX_REPORT_WORDS]; /* argv of `piano report` */
    int report_count;
};

static enum flag_taken take_report(struct flags *f, struct profiling *p)
{
    static const char *const switches[] = {"--all",    "--frames",      "--threads",  "--json",
                                           "--places", "--uncorrected", "--cpu-time", "--wall"};
    int first = f->at;
    enum flag_taken taken = FLAG_NO;
    const char *value = NULL;
    int64_t budget_ns;
    for (size_t i = 0; i < sizeof switches / sizeof switches[0] && !taken; i++) {
        bool set = false;
        taken = flags_switch(f, switches[i], &set);
        if (set && strcmp(switches[i], "--json") == 0)
            p->run.out_to_err = true;
    }
    if (taken == FLAG_NO)
        taken = flags_value(f, "--top", &value);
    if (taken == FLAG_NO)
        taken = flags_time(f, "--budget", &budget_ns); /* rejects wrong values before the build */
    for (int i = first; taken == FLAG_YES && i <= f->at; i++) {
        /* leave space for the name, the run and the end */
        if (p->report_count >= MAX_REPORT_WORDS - 2) {
            say_usage(f->command, "too many flags");
            return FLAG_BAD;
        }
        p->report[p->report_count++] = f->argv[i];
    }
    return taken;
}

static bool starts_build(const char *word)
{
    static const char *const tools[] = {"make",    "gmake", "cmake", "ninja", "meson",
                                        "cc",      "c++",   "gcc",   "g++",   "clang",
                                        "clang++", "sh",    "bash",  "ccache"};
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

/* Splits the words after the first `--`; FROM is the index of the first of them. */
static void split_words(struct flags *f, struct profiling *p, int from)
{
    char **words = f->argv + from;
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

static int read_flags(struct flags *f, struct profiling *p)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        if (strcmp(f->argv[f->at], "--") == 0) {
            split_words(f, p, f->at + 1);
            break;
        }
        enum flag_taken taken = flags_build(f, &p->build);
        taken = taken ? taken : flags_run(f, &p->run);
        taken = taken ? taken : take_report(f, p);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_NO)
            return flags_unknown(f);
    }
    return flags_check_build(f, &p->build);
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

static int report(struct profiling *p)
{
    p->report[p->report_count++] = p->run.run;
    return cmd_report(p->report_count, p->report);
}

static int profile(struct profiling *p)
{
    bool started = false;
    int status = build(p);
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
    int reported = report(p);
    return status ? status : reported;
}

int cmd_profile(int argc, char **argv)
{
    char name[] = "report";
    struct flags f = {"profile", argc, argv, names, 1};
    struct profiling p = {.run = {.command = "profile", .words = argv + argc, .kill_s = 10},
                          .report = {name},
                          .report_count = 1};
    int status = read_flags(&f, &p);
    if (status == EXIT_DONE)
        status = profile(&p);
    driver_release(&p.build);
    program_run_release(&p.run);
    return status;
}
