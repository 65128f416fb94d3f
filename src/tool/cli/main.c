/* The entry point: finds the command in a table and calls it. It has no state; the commands are in
 * cmd_NAME.c beside it.
 *
 * A closed output pipe (`piano report | head`) is not a failure. SIGPIPE keeps its default action,
 * which ends the process silently. If our parent has set it to ignore, the write error is ignored
 * at the end instead. */
#include <errno.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/util/nearest.h"
#include "tool/util/say.h"

#ifndef PIANO_VERSION
#define PIANO_VERSION "0"
#endif

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help; /* one line; NULL: hidden */
    const char *text; /* for --help */
};

static const struct command commands[] = {
    {"profile", cmd_profile, "build, run and report in one step", cmd_profile_help},
    {"build", cmd_build, "build the project with chosen functions instrumented", cmd_build_help},
    {"run", cmd_run, "run an instrumented program", cmd_run_help},
    {"record", cmd_record, "run any program and record its memory, CPU time and waits",
     cmd_record_help},
    {"snapshot", cmd_snapshot, "take a snapshot of a program that is being recorded",
     cmd_snapshot_help},
    {"report", cmd_report, "show where the time, the allocations and the memory went",
     cmd_report_help},
    {"diff", cmd_diff, "compare two runs, or two groups of runs", cmd_diff_help},
    {"export", cmd_export, "write a recording for Speedscope, pprof, flame graphs or Perfetto",
     cmd_export_help},
    {"view", cmd_view, "look at a run in a browser, or as one HTML file", cmd_view_help},
    {"list", cmd_list, "list the recorded runs", cmd_list_help},
    {"tag", cmd_tag, "give a run a name", cmd_tag_help},
    {"doctor", cmd_doctor, "check that this machine has what piano needs", cmd_doctor_help},
    {"cc-wrap", cmd_cc_wrap, NULL, NULL},
};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    fputs(
        "piano is a profiler for C and C++ programs, and for Python and Tokio: it shows\n"
        "slow functions and frames, who holds the memory, where the CPU time goes and\n"
        "which turns of an event loop were long.\n\nUsage: piano COMMAND [OPTIONS]\n\nCommands:\n",
        out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].help)
            fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].help);
    fputs("\nStart here, in a project with a Makefile, CMakeLists.txt, meson.build or\nconfigure:\n"
          "  piano profile --fn update    measure the functions with `update` in their name\n"
          "  piano report --frames        then: which frames were slow, and why\n"
          "Or, with any program, as it is:\n"
          "  piano record PROGRAM         then: piano report, or piano view\n\n"
          "`piano help COMMAND` explains one command; `piano --version` prints the version.\n",
          out);
}

/* Is NAME a program that could be recorded? */
static bool is_program(const char *name)
{
    return strchr(name, '/') ? access(name, X_OK) == 0 : child_in_path(name);
}

static int unknown(const char *name)
{
    const char *names[COMMAND_COUNT + 2];
    size_t count = 0;
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (commands[i].help)
            names[count++] = commands[i].name;
    names[count++] = "--version";
    names[count++] = "--help";
    char safe[128];
    say_safe(safe, sizeof(safe), name);
    bool version = strcmp(name, "-v") == 0 || strcmp(name, "version") == 0;
    const char *near = version ? "--version" : nearest_name(name, names, count);
    if (near)
        return say_usage(NULL, "there is no command `%s`; did you mean `%s`?", safe, near);
    if (name[0] != '-' && is_program(name))
        return say_usage(NULL, "there is no command `%s`; to record that program: piano record %s",
                         safe, safe);
    return say_usage(NULL, "there is no command `%s`", safe);
}

static int help(int argc, char **argv)
{
    if (argc < 1) {
        print_help(stdout);
        return EXIT_DONE;
    }
    const struct command *c = find(argv[0]);
    if (!c || !c->help)
        return unknown(argv[0]);
    fputs(c->text, stdout);
    return EXIT_DONE;
}

/* Does the first word that is not a flag start another program's command line? */
static bool takes_program(const struct command *c)
{
    return c->run == cmd_record || c->run == cmd_run;
}

/* Is --help or -h among WORDS? The words after `--` are another program's command line. If C takes
 * a program without `--`, the search ends at the first word that is not a flag: it may be the
 * program or the value of a flag, and only C knows which. */
static bool asks_for_help(const struct command *c, char **words)
{
    for (; *words && strcmp(*words, "--") != 0; words++) {
        if (flags_is_help(*words))
            return true;
        if (takes_program(c) && (*words)[0] != '-')
            return false;
    }
    return false;
}

/* Checks that the output was written: a full disk is an error, a closed pipe is not. */
static int finish(int status)
{
    errno = 0;
    if ((fflush(stdout) == 0 && !ferror(stdout)) || errno == EPIPE)
        return status;
    return say_error(NULL, "cannot write the output: %s", strerror(errno ? errno : EIO));
}

int main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (flags_is_help(name) || strcmp(name, "help") == 0)
        return finish(help(argc - 2, argv + 2));
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        puts("piano " PIANO_VERSION);
        return finish(EXIT_DONE);
    }
    const struct command *c = find(name);
    if (!c)
        return unknown(name);
    if (c->help && asks_for_help(c, argv + 2))
        return finish(help(1, argv + 1));
    return finish(c->run(argc - 1, argv + 1));
}
