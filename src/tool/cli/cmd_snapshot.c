/* `piano snapshot`: adds a snapshot to the recording of a running program. */
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/command.h"
#include "tool/record/process.h"
#include "tool/record/view.h"
#include "tool/util/say.h"

/* The owner of the process, for messages. */
static const char *owner(char *text, size_t size, pid_t pid)
{
    struct stat st;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    const struct passwd *user = stat(path, &st) == 0 ? getpwuid(st.st_uid) : NULL;
    return say_safe(text, size, user ? user->pw_name : "somebody else");
}

/* May we send signals to the process (it is ours, or we are root)? Then something else denies
 * access. The owner of /proc/PID is not sufficient: it is root for a process that is not
 * dumpable. */
static bool is_ours(pid_t pid)
{
    return kill(pid, 0) == 0;
}

static int say_no_recording(pid_t pid, int err)
{
    char who[64];
    char hint[128];
    bool there = kill(pid, 0) == 0 || errno == EPERM;
    if (!there)
        return say_error("pgrep -a NAME lists the ids of running processes",
                         "there is no process %d; if it was recorded, it has ended", (int)pid);
    if (process_is_zombie(pid))
        return say_error("piano report", "process %d has ended already", (int)pid);
    if (err == -ENODATA)
        return say_error(NULL, "the recording of process %d was deleted", (int)pid);
    if ((err == -EACCES || err == -EPERM || err == -ESRCH) && is_ours(pid))
        return say_error("start it with: piano record -- PROGRAM",
                         "process %d does not allow reading its memory map%s", (int)pid,
                         geteuid() == 0 ? ", not even by root, in this container" : "");
    if (err == -EACCES || err == -EPERM || err == -ESRCH) { /* -ESRCH: /proc is hidden */
        snprintf(hint, sizeof hint, "sudo piano snapshot %d", (int)pid);
        return say_error(hint, "process %d is not yours, but %s's", (int)pid,
                         owner(who, sizeof who, pid));
    }
    if (err != -ENOENT)
        return say_error(NULL, "the recording of process %d cannot be opened: %s", (int)pid,
                         strerror(-err));
    return say_error("start it with: piano record -- PROGRAM",
                     "process %d is not being recorded by piano", (int)pid);
}

static int say_failed(pid_t pid, const char *path, int err)
{
    if (err == -ENOSPC)
        return say_error("room on its disk; see docs/snapshot.md for the limit",
                         "no room for another snapshot in %s", path);
    if (err == -EPROTO)
        return say_error("the piano that records it", "%s was made by another version of piano",
                         path);
    if (err == -EAGAIN)
        return say_error("once more", "another piano is taking a snapshot of process %d", (int)pid);
    return say_error(NULL, "no snapshot of process %d in %s: %s", (int)pid, path, strerror(-err));
}

static int take(pid_t pid)
{
    char *path = NULL;
    char safe[PATH_MAX];
    char hint[64];
    struct view view;
    int fd = process_open_recording(pid, &path);
    if (fd < 0)
        return say_no_recording(pid, fd);
    say_safe(safe, sizeof safe, path ? path : "the recording");
    free(path);
    signal(SIGXFSZ, SIG_IGN);
    int number = view_open_fd(&view, fd);
    if (number == 0 && view.base.header->pid != (uint32_t)process_own_pid(pid)) {
        /* A child shares its parent's mappings, and `piano record` itself maps the recording. */
        unsigned other = view.base.header->pid;
        view_close(&view);
        snprintf(hint, sizeof hint, "piano snapshot %u", other);
        return say_error(hint, "process %d is not recorded itself, but shares the recording of %u",
                         (int)pid, other);
    }
    if (number == 0) {
        number = view_snapshot(&view, PIANO_SNAPSHOT_ASKED, process_resident(pid));
        view_close(&view);
    }
    if (number < 0)
        return say_failed(pid, safe, number);
    printf("snapshot %d: %s\n", number, safe);
    return EXIT_DONE;
}

struct request {
    const char *pid;
};

static int snapshot(void *request)
{
    const char *word = ((struct request *)request)->pid;
    if (!word)
        return say_usage("snapshot", "of which process? piano snapshot PID");
    char *end = NULL;
    errno = 0;
    long pid = strtol(word, &end, 10);
    if (errno != 0 || end == word || *end != '\0' || pid < 1 || pid > INT_MAX) {
        char safe[64];
        return say_usage("snapshot", "`%s` is not a process id", say_safe(safe, sizeof safe, word));
    }
    return take((pid_t)pid);
}

const struct command command_snapshot = {
    .name = "snapshot",
    .summary = "take a snapshot of a program that is being recorded",
    .usage = "piano snapshot PID",
    .about = "Takes a snapshot of the heap of a running program that `piano record` has started, "
             "and prints its number and the recording it is in. The program is not interrupted: "
             "the recording always holds its current state.",
    .examples = "piano snapshot 4711\npiano snapshot $(pidof server)",
    .words = {WORDS_LISTED, offsetof(REQUEST, pid), "recorded", 1, "one process at a time"},
    .run = snapshot,
    COMMAND_REQUEST(),
};
