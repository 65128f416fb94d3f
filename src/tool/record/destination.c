/* Checks before the program starts that the recording can be created.
 *
 * The program creates the file itself and cannot report a failure. So this first creates a file
 * with the same name plus a suffix, as large as a small recording, maps it as a recording is
 * mapped, and removes it. This detects a directory that is missing, read-only, full, or on a file
 * system without shared mappings before anything runs. Existing files are never overwritten. */
#include "tool/record/destination.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/owner.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { TRIED_BYTES = 1024 * 1024 };

/* Returns 0 or negative errno. Sets *MADE if the file could be created, so that only space is
 * missing. */
static int try_file(const char *path, int *made)
{
    char *name = NULL;
    if (asprintf(&name, "%s-%d.try", path, (int)getpid()) < 0)
        return -ENOMEM;
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int err = fd < 0 ? -errno : 0;
    *made = fd >= 0;
    if (fd >= 0) {
        err = -posix_fallocate(fd, 0, TRIED_BYTES);
        void *at = err == 0 ? mmap(NULL, TRIED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                            : MAP_FAILED;
        if (err == 0 && at == MAP_FAILED)
            err = -errno;
        if (at != MAP_FAILED)
            munmap(at, TRIED_BYTES);
        close(fd);
        unlink(name);
    }
    free(name);
    return err;
}

static int say_bad_place(const char *path, int err, int made)
{
    char safe[PATH_MAX];
    char hint[PATH_MAX + 64] = "-o FILE, in a directory that can be written to";
    const char *slash = strrchr(path, '/');
    char *dir = strndup(path, slash && slash > path ? (size_t)(slash - path) : 1);
    say_safe(safe, sizeof safe, dir ? dir : path);
    char cure[PATH_MAX + 128];
    const char *found = owner_hint(cure, sizeof cure, dir ? dir : path, err, NULL);
    free(dir);
    if (found)
        return say_error(found, "cannot make a recording in %s: %s", safe, strerror(-err));
    if (err == -ENOENT)
        snprintf(hint, sizeof hint, "mkdir -p %s", safe);
    else if (made)
        snprintf(hint, sizeof hint, "-o FILE, on a disk with room");
    return say_error(hint, "cannot make a recording in %s: %s", safe, strerror(-err));
}

/* A pipe or a terminal. The output of the program goes there anyway. */
static int say_no_pipe(const char *name)
{
    return say_error("-o FILE, and then cat FILE or piano export FILE",
                     "cannot record to %s: a recording is a file that the program maps, not a "
                     "stream",
                     name);
}

static int check_new(const char *path)
{
    char safe[PATH_MAX];
    char hint[PATH_MAX + 64];
    struct stat st;
    if (lstat(path, &st) != 0)
        return EXIT_DONE;
    say_safe(safe, sizeof safe, path);
    if (S_ISDIR(st.st_mode)) {
        snprintf(hint, sizeof hint, "-o %s/NAME.rec", safe);
        return say_error(hint, "%s is a directory", safe);
    }
    if (stat(path, &st) == 0 && (S_ISCHR(st.st_mode) || S_ISFIFO(st.st_mode)))
        return say_no_pipe(safe);
    return say_error("another name, or remove it first",
                     "%s is there already, and piano overwrites nothing", safe);
}

static int choose(struct destination *o, const char *file)
{
    struct timespec now;
    char safe[PATH_MAX];
    char hint[PATH_MAX + 128];
    char *dir = file ? getcwd(NULL, 0) : paths_runs_dir();
    if (!dir && !file)
        return paths_say_failure();
    int err = dir ? 0 : -ENOMEM;
    o->named = file != NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    if (file && file[0] == '/')
        o->before = strdup(file);
    else if (file)
        o->before = dir ? paths_join(dir, file) : NULL;
    else if (dir && asprintf(&o->before, "%s/%lld-", dir,
                             (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000) < 0)
        o->before = NULL;
    if (err == 0 && !file)
        err = paths_make_dirs(dir);
    int status = EXIT_DONE;
    if (err != 0)
        status = say_error(owner_hint(hint, sizeof hint, dir ? dir : "", err,
                                      "PIANO_RUNS_DIR=DIR or -o FILE, where files can be written"),
                           "cannot make the directory %s: %s",
                           say_safe(safe, sizeof safe, dir ? dir : "for runs"), strerror(-err));
    else if (!o->before)
        status = say_error(NULL, "out of memory");
    free(dir);
    return status;
}

int destination_prepare(struct destination *o, const char *file)
{
    int made = 0;
    *o = (struct destination){0};
    if (file && strcmp(file, "-") == 0)
        return say_no_pipe("stdout");
    int status = choose(o, file);
    if (status == EXIT_DONE && o->named)
        status = check_new(o->before);
    if (status != EXIT_DONE)
        return status;
    char *path = destination_path(o, getpid());
    int err = path ? try_file(path, &made) : -ENOMEM;
    if (err != 0)
        status = say_bad_place(o->before, err, made);
    free(path);
    return status;
}

void destination_release(struct destination *o)
{
    free(o->before);
    *o = (struct destination){0};
}

char *destination_path(const struct destination *o, pid_t pid)
{
    char *path = NULL;
    if (o->named)
        return strdup(o->before);
    return asprintf(&path, "%s%d.rec", o->before, (int)pid) < 0 ? NULL : path;
}
