/* Runs the real compiler, either as a step whose output is kept or in place of this process.
 *
 * Kept output goes to memory files, not pipes: then the compiler cannot block on a full pipe, and
 * we need not read while it runs. */
#include "tool/build/cc_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/util/say.h"

extern char **environ;

static int open_kept(unsigned keep, unsigned which)
{
    return keep & which ? memfd_create("piano", MFD_CLOEXEC) : -1;
}

static int read_kept(int fd, struct buf *b)
{
    char chunk[65536];
    ssize_t got = 0;
    if (fd < 0)
        return 0;
    off_t at = 0;
    while ((got = pread(fd, chunk, sizeof chunk, at)) > 0) {
        buf_put(b, chunk, (size_t)got);
        at += got;
    }
    close(fd);
    return got < 0 ? -errno : b->failed ? -ENOMEM : 0;
}

int cc_run_step(struct cc_run *r, char *const argv[], unsigned keep)
{
    return cc_run_step_in(r, NULL, argv, keep);
}

int cc_run_step_in(struct cc_run *r, const char *dir, char *const argv[], unsigned keep)
{
    *r = (struct cc_run){0};
    int out = open_kept(keep, CC_KEEP_OUT);
    int err = open_kept(keep, CC_KEEP_ERR);
    struct child_plan plan = {
        .argv = argv, .envp = environ, .dir = dir, .in = -1, .out = out, .err = err};
    struct child_result result = {0};
    int code = (keep & CC_KEEP_OUT && out < 0) || (keep & CC_KEEP_ERR && err < 0)
                   ? -EMFILE
                   : child_run(&plan, &result);
    int out_code = read_kept(out, &r->out);
    int err_code = read_kept(err, &r->err);
    r->status = result.status;
    if (code == 0 && result.interrupted)
        code = -EINTR;
    return code ? code : out_code ? out_code : err_code;
}

void cc_run_release(struct cc_run *r)
{
    buf_free(&r->out);
    buf_free(&r->err);
}

int cc_run_exec(char *const argv[])
{
    execvp(argv[0], argv);
    say_error(NULL, "%s: %s", argv[0], strerror(errno));
    return 127;
}

void cc_run_clean_environment(void)
{
    const char *preload = getenv("LD_PRELOAD");
    unsetenv("PIANO_STATE");
    unsetenv("PIANO_TOOL");
    if (!preload)
        return;
    struct buf kept = {0};
    char *copy = strdup(preload);
    char *rest = copy;
    for (char *lib; rest && (lib = strsep(&rest, ": "));) {
        if (*lib && !strstr(lib, "libpiano_exec.so"))
            buf_printf(&kept, "%s%s", kept.len ? ":" : "", lib);
    }
    if (kept.len > 0 && !kept.failed)
        setenv("LD_PRELOAD", kept.data, 1);
    else
        unsetenv("LD_PRELOAD");
    buf_free(&kept);
    free(copy);
}
