/* `piano run`: runs a program that `piano build` made and prints the path of its run. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tool/build/program.h"
#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/load/prune.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

const char cmd_run_help[] =
    "Usage: piano run [OPTIONS] [--] [PROGRAM] [ARGS]\n"
    "\n"
    "Runs a program that `piano build` made, in this directory, with this terminal.\n"
    "If the first word names one of the programs built, that one is run; else all\n"
    "words are arguments. When several were built and it is not clear which one you\n"
    "mean, it asks, and remembers the answer. To choose again, name the program. The\n"
    "program's exit status is passed on (128 + N for signal N).\n"
    "\n"
    "  --duration S      end it after S seconds (SIGTERM); the exit status is then 0\n"
    "  --kill-timeout S  and if it has not ended S seconds later, kill it;\n"
    "                    default 10, 0 = never\n"
    "  --every-call      time every call, so that no time is estimated; slower\n"
    "\n"
    "Examples:\n"
    "  piano run\n"
    "  piano run -- --level 3\n"
    "  piano run --duration 30 server --port 8080\n";

static const char *const names[] = {"--duration", "--kill-timeout", "--every-call", "--help", NULL};

static int read_flags(struct flags *f, struct program_run *p, bool *help)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        *help = flags_is_help(f->argv[f->at]);
        if (*help)
            break;
        if (strcmp(f->argv[f->at], "--") == 0) {
            p->words = f->argv + f->at + 1;
            break;
        }
        if (f->argv[f->at][0] != '-') {
            p->words = f->argv + f->at;
            break;
        }
        enum flag_taken taken = flags_run(f, p);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_NO)
            return flags_unknown(f);
    }
    return EXIT_DONE;
}

int cmd_run(int argc, char **argv)
{
    struct flags f = {"run", argc, argv, names, 1};
    struct program_run p = {.words = argv + argc, .kill_s = 10};
    bool started = false;
    char path[PATH_MAX];
    bool help = false;
    int status = read_flags(&f, &p, &help);
    if (status != EXIT_DONE)
        return status;
    if (help) {
        fputs(cmd_run_help, stdout);
        return EXIT_DONE;
    }
    status = program_run(&p, &started);
    if (started && p.run) {
        say("run: %s", paths_short(path, sizeof(path), p.run));
        prune_runs();
        say("next: piano report");
    } else if (started && !p.unstarted) {
        (void)program_no_run(); /* the exit status is that of the program */
    }
    program_run_release(&p);
    return status;
}
