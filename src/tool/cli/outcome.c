/* Messages that most commands have in common. */
#include "tool/cli/outcome.h"

#include <stdio.h>
#include <string.h>

#include "tool/util/say.h"

int outcome_failed(int err, const struct run_error *error)
{
    return say_error(error->hint[0] ? error->hint : NULL, "%s",
                     error->text[0] ? error->text : strerror(-err));
}

int outcome_not_recorded(const char *path, const char *what, const char *hint)
{
    char safe[512];
    return say_error(hint, "%s is a recording: it has no %s", say_safe(safe, sizeof(safe), path),
                     what);
}

int outcome_written(const char *what, int err)
{
    if (err && !ferror(stdout))
        return say_error(NULL, "%s stopped: %s", what, strerror(-err));
    return EXIT_DONE;
}
