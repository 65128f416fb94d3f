/* `piano where`: prints the directory of the runs. */
#include <stdio.h>
#include <stdlib.h>

#include "tool/cli/command.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

struct request {
    bool quote;
};

static const struct flag flags[] = {
    {"--quote", "in quotes", FLAG_SWITCH(quote)},
    {0},
};

static int where(void *request)
{
    const struct request *q = request;
    char *dir = paths_runs_dir();
    printf(q->quote ? "'%s'\n" : "%s\n", dir ? dir : "");
    free(dir);
    return EXIT_DONE;
}

const struct command command_where = {
    .name = "where",
    .summary = "print the directory of the runs",
    .usage = "piano where [--quote]",
    .about = "Prints the directory of the runs.",
    .flags = flags,
    .examples = "piano where",
    .words = {.too_many = "`piano where` takes no words"},
    .run = where,
    COMMAND_REQUEST(),
};
