/* A file is written under a temporary name and renamed when it is complete. If PATH is a symbolic
 * link, the rename replaces the link and does not follow it. */
#include "tool/util/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"

static int failed(const char *path, int err)
{
    char safe[300];
    return say_error(NULL, "%s: %s", say_safe(safe, sizeof(safe), path), strerror(err));
}

static bool is_stdout(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

/* A pipe or a character device such as a terminal or /dev/null: there is no content to
 * overwrite. */
static bool is_stream(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

static int open_temp(struct output *o)
{
    struct buf name = {0};
    buf_printf(&name, "%s.tmp-%d", o->path, (int)getpid());
    o->temp = name.failed ? NULL : name.data;
    int fd = o->temp ? piano__owner_create(o->temp, O_WRONLY | O_CREAT | O_EXCL, o->mode) : -ENOMEM;
    o->out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (o->out)
        return EXIT_DONE;
    int status = failed(o->path, fd < 0 ? -fd : ENOMEM);
    if (fd >= 0) {
        close(fd);
        unlink(o->temp);
    }
    buf_free(&name);
    o->temp = NULL;
    return status;
}

int output_check(const char *path, bool force)
{
    struct stat st;
    char safe[300];
    if (is_stdout(path) || lstat(path, &st) != 0 || is_stream(path))
        return EXIT_DONE;
    if (S_ISDIR(st.st_mode))
        return failed(path, EISDIR);
    return force ? EXIT_DONE
                 : say_error("--force to write over it", "%s is there already",
                             say_safe(safe, sizeof(safe), path));
}

int output_open(struct output *o)
{
    if (is_stdout(o->path)) {
        o->path = NULL;
        o->out = stdout;
        return EXIT_DONE;
    }
    if (!is_stream(o->path))
        return open_temp(o);
    o->out = fopen(o->path, "we");
    return o->out ? EXIT_DONE : failed(o->path, errno);
}

int output_close(struct output *o, int err)
{
    char safe[300];
    if (!o->path)
        return err && !ferror(stdout) ? say_error(NULL, "%s stopped: %s", o->what, strerror(-err))
                                      : EXIT_DONE;
    if (fflush(o->out) != 0 && err == 0)
        err = -errno;
    if (fclose(o->out) != 0 && err == 0)
        err = -errno;
    if (err == 0 && o->temp && rename(o->temp, o->path) != 0)
        err = -errno;
    if (err && o->temp)
        unlink(o->temp);
    free(o->temp);
    if (err)
        return failed(o->path, -err);
    say("wrote %s", say_safe(safe, sizeof(safe), o->path));
    return EXIT_DONE;
}
