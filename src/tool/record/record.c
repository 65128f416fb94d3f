/* `piano record`, from the words on the command line to the last line it says:
 *
 *   image       is the program one that can be recorded?
 *   output      can the recording be made?
 *   launch      the program starts, with libpiano.so loaded into it
 *   watch       until it ends: snapshots, signals, its time limit; recordings/view/series serve this
 *   finish      its exit status, the names of the files, what was recorded
 *
 * Whatever can be known to go wrong is said before the program starts, and then it does not start. Once it runs, nothing
 * that fails here may harm it, and its exit status is ours. */
#include "tool/record/record.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "tool/record/finish.h"
#include "tool/record/image.h"
#include "tool/record/launch.h"
#include "tool/record/output.h"
#include "tool/record/recordings.h"
#include "tool/record/watch.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

/* The path of libpiano.so, malloc'd; NULL, and said, when it cannot be loaded from there. */
static char *find_library(void)
{
    char safe[PATH_MAX];
    char *dir = paths_lib_dir();
    char *path = dir ? paths_join(dir, "libpiano.so") : NULL;
    free(dir);
    if (!path) {
        char *tool = paths_tool();
        char *slash = tool ? strrchr(tool, '/') : NULL;
        if (slash)
            *slash = '\0';
        say_safe(safe, sizeof safe, tool ? tool : "");
        say_error("make, or make install",
                  "libpiano.so is neither in %s/lib nor in %s/../lib/piano", safe, safe);
        free(tool);
    } else if (strpbrk(path, ": $")) {
        /* LD_PRELOAD is a list, and has no way to quote. */
        say_error("make install, or a directory without them",
                  "%s cannot be loaded: its path has a space, a colon or a $ in it",
                  say_safe(safe, sizeof safe, path));
        free(path);
        path = NULL;
    }
    return path;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int start_and_watch(const struct record *r, const char *image, const char *library,
                           const struct output *o, const struct launch_signals *signals)
{
    char safe[PATH_MAX];
    struct recordings recordings;
    struct watch watch;
    pid_t pid;
    uint64_t since = now_ns();
    int err = launch(r, image, library, o, signals, &pid);
    if (err != 0)
        return say_error(NULL, "cannot start %s: %s", say_safe(safe, sizeof safe, image),
                         strerror(-err));
    char *path = output_path(o, pid);
    if (!path) { /* nothing can be done for it, but it is waited for */
        waitpid(pid, &watch.status, 0);
        return say_error(NULL, "out of memory");
    }
    recordings_init(&recordings, path, pid, r->children, since);
    watch_program(r, &recordings, &signals->awaited, &watch);
    finish(r, &recordings, watch.status);
    recordings_release(&recordings);
    if (watch.timed_out)
        return EXIT_DONE;
    return WIFSIGNALED(watch.status) ? 128 + WTERMSIG(watch.status) : WEXITSTATUS(watch.status);
}

int record_run(const struct record *r)
{
    struct launch_signals signals;
    struct output output = {0};
    int status = EXIT_FAILED;
    char *image = image_find(r->words[0]);
    char *library = image ? find_library() : NULL;
    if (library) {
        launch_take_signals(&signals);
        status = output_prepare(&output, r->output);
        if (status == EXIT_DONE)
            status = start_and_watch(r, image, library, &output, &signals);
        launch_give_signals_back(&signals);
    }
    output_release(&output);
    free(library);
    free(image);
    return status;
}
