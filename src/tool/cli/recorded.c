/* Recordings by the id of their process, or by name. */
#include "tool/cli/recorded.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/cli/outcome.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/record/process.h"
#include "tool/util/say.h"

pid_t recorded_pid(const char *word)
{
    char *end = NULL;
    errno = 0;
    long pid = *word >= '1' && *word <= '9' ? strtol(word, &end, 10) : 0;
    return pid > 0 && errno == 0 && *end == '\0' && pid <= INT_MAX ? (pid_t)pid : 0;
}

char *recorded_path(pid_t pid)
{
    char *path = NULL;
    int fd = process_open_recording(pid, &path);
    if (fd >= 0)
        close(fd);
    return path;
}

char *recorded_named(const char *word)
{
    struct runs_paths paths;
    struct run_error error;
    char safe[512];
    int err = runs_resolve_kind(word, RUNS_RECORDING, &paths, &error);
    if (err) {
        outcome_failed(err, &error);
        return NULL;
    }
    char *path = strdup(runs_paths_newest(&paths));
    runs_paths_release(&paths);
    if (!path || recording_is(path))
        return path;
    say_error("piano record PROGRAM",
              "%s is a run of instrumented functions; only a recording can be followed",
              say_safe(safe, sizeof(safe), path));
    free(path);
    return NULL;
}
