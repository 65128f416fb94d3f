/* `piano run`: runs a program that `piano build` made and prints the path of its run. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "tool/build/program.h"
#define REQUEST struct program_run
#include "tool/cli/command.h"
#include "tool/load/prune.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

const struct flag run_flags[] = {
    {"--duration", "end it after S seconds (SIGTERM); the exit status is then 0",
     FLAG_SECONDS(duration_s, 0.001)},
    {"--kill-timeout", "if it still runs S seconds later, kill it; 0 = never; default 10",
     FLAG_SECONDS(kill_s, 0)},
    {"--every-call", "time every call, so that no time is estimated; slower",
     FLAG_SWITCH(every_call)},
    {0},
};

static int run(void *request)
{
    struct program_run *p = request;
    bool started = false;
    char path[PATH_MAX];
    int status = program_run(p, &started);
    if (started && p->run) {
        say("run: %s", paths_short(path, sizeof(path), p->run));
        prune_runs();
        say("next: piano report");
    } else if (started && !p->unstarted) {
        (void)program_no_run(); /* the exit status is that of the program */
    }
    program_run_release(p);
    return status;
}

const struct command command_run = {
    .name = "run",
    .summary = "run an instrumented program",
    .usage = "piano run [OPTIONS] [--] [PROGRAM] [ARGS]",
    .about = "Runs a program that `piano build` made, in this directory, with this terminal. If "
             "the first word names one of the programs built, that one is run; else all words are "
             "arguments. When several were built and it is not clear which one you mean, it asks, "
             "and remembers the answer. To choose again, name the program. The program's exit "
             "status is passed on (128 + N for signal N).",
    .flags = run_flags,
    .examples = "piano run\n"
                "piano run -- --level 3\n"
                "piano run --duration 30 server --port 8080",
    .words = {WORDS_ARE_PROGRAM, FLAG_FIELD(char *const *, words), "program", 0, NULL},
    .run = run,
    COMMAND_REQUEST(.kill_s = 10),
};
