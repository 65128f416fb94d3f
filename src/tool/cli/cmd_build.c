/* `piano build`: reads the flags, runs the driver, and reports the result. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/driver.h"
#include "tool/build/choice.h"
#include "tool/build/program.h"
#include "tool/build/records.h"
#include "tool/build/summary.h"
#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/util/say.h"

const char cmd_build_help[] =
    "Usage: piano build [OPTIONS] [-- BUILD COMMAND]\n"
    "\n"
    "Builds the project with the chosen functions instrumented. The build is found\n"
    "by itself (CMakeLists.txt, meson.build, Makefile, configure) or given after\n"
    "`--`. All work happens under .piano/; the project's own files and build\n"
    "products are not touched.\n"
    "\n"
    "Which functions (--fn, --file and --dir add; none of them: all of the\n"
    "project's own):\n"
    "  --fn PAT        those with PAT in their name (`update`, `Parser::parse`)\n"
    "  --exact         PAT is the whole name, with or without namespace and class\n"
    "  --file PATH     those of this file; the tail of a path will do\n"
    "  --dir DIR       those of the files below this directory\n"
    "  --skip NAME     but not this one\n"
    "  --frame FN      each call of FN is a frame; else frames are found at run time\n"
    "\n"
    "  --list-skipped  build, then print what was left out and why\n"
    "  -j N            so many processes; default: as many as processors\n"
    "  --verbose       show the build's own output\n"
    "\n"
    "Examples:\n"
    "  piano build --fn update\n"
    "  piano build --dir src/physics --skip vec3_add\n"
    "  piano build --fn update -- make -C game debug\n"
    "  piano build --fn update -- cc -O2 game.c -o game -lm\n"
    "\n"
    "When stdout is not a terminal, it gets the path of the program that `piano run`\n"
    "would start.\n";

static const char *const names[] = {"--fn",    "--exact",        "--file",    "--dir", "--skip",
                                    "--frame", "--list-skipped", "--verbose", "-j",    "--help",
                                    NULL};

static int read_flags(struct flags *f, struct driver *d, bool *list_skipped)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        if (strcmp(f->argv[f->at], "--") == 0) {
            d->command = f->argv + f->at + 1;
            if (!d->command[0])
                return say_usage(f->command, "there is no build command after `--`");
            break;
        }
        enum flag_taken taken = flags_build(f, d);
        taken = taken ? taken : flags_switch(f, "--list-skipped", list_skipped);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_NO)
            return flags_unknown(f);
    }
    return flags_check_build(f, d);
}

/* A build without a program is not a failure, but there is nothing to run yet. */
static void print_program(const struct records *r, const char *state)
{
    struct choice_list programs;
    choice_load(&programs, r, state);
    if (programs.count == 0)
        (void)say_error(PROGRAM_NONE_HINT, PROGRAM_NONE);
    else if (!isatty(STDOUT_FILENO))
        puts(programs.items[0].path);
    choice_release(&programs);
}

static int tell(const struct driver *d, bool list_skipped)
{
    struct records records;
    if (records_load(&records, d->state) != 0) {
        records_release(&records);
        return say_error(NULL, "out of memory");
    }
    int status = EXIT_DONE;
    if (!list_skipped || summary_list_skipped(d, &records) == 0) {
        status = summary_check(d, &records);
        if (status == EXIT_DONE && list_skipped)
            say("nothing was left out");
        if (status == EXIT_DONE)
            summary_show(d, &records);
        if (status == EXIT_DONE && !list_skipped)
            print_program(&records, d->state);
    }
    records_release(&records);
    return status;
}

int cmd_build(int argc, char **argv)
{
    struct driver d = {0};
    struct flags f = {"build", argc, argv, names, 1};
    bool list_skipped = false;
    int status = read_flags(&f, &d, &list_skipped);
    if (status == EXIT_DONE)
        status = driver_build(&d);
    if (status == EXIT_DONE)
        status = tell(&d, list_skipped);
    driver_release(&d);
    return status;
}
