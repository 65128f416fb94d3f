/* Ownership of files that root created; see owner.h.
 *
 * The owner of the tree can move anything into it while root walks it. So the walk uses file
 * descriptors, never paths, and recognises new files by their creation time, which no user can
 * set. */
#include "tool/util/owner.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"

enum {
    DEEPEST = 200,
    TICK_NS = 20000000 /* the kernel's timestamps can lag by one timer tick */
};

struct gift {
    uid_t uid;
    gid_t gid;
    struct statx_timestamp since;
};

struct statx_timestamp owner_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    int64_t ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - TICK_NS;
    return (struct statx_timestamp){.tv_sec = ns / 1000000000,
                                    .tv_nsec = (uint32_t)(ns % 1000000000)};
}

static bool is_new(const struct gift *g, const struct statx *st)
{
    return (st->stx_mask & STATX_BTIME) &&
           (st->stx_btime.tv_sec > g->since.tv_sec ||
            (st->stx_btime.tv_sec == g->since.tv_sec && st->stx_btime.tv_nsec >= g->since.tv_nsec));
}

static void give(const struct gift *g, int fd, const struct statx *st)
{
    bool single = S_ISDIR(st->stx_mode) || st->stx_nlink == 1;
    if (st->stx_uid == 0 && single && is_new(g, st))
        (void)!fchown(fd, g->uid, g->gid);
}

static void give_below(const struct gift *g, int dir, int depth);

/* Opens only regular files and directories: opening a device or a pipe can have side effects. */
static void give_entry(const struct gift *g, int dir, const char *name, int depth)
{
    struct stat kind;
    struct statx st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
        fstatat(dir, name, &kind, AT_SYMLINK_NOFOLLOW) != 0 ||
        !(S_ISREG(kind.st_mode) || S_ISDIR(kind.st_mode)))
        return;
    int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) == 0) {
        give(g, fd, &st);
        if (S_ISDIR(st.stx_mode) && depth < DEEPEST)
            give_below(g, fd, depth + 1);
    }
    close(fd);
}

static void give_below(const struct gift *g, int dir, int depth)
{
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 0);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    if (!d && copy >= 0)
        close(copy);
    for (struct dirent *e; d && (e = readdir(d));)
        give_entry(g, dir, e->d_name, depth);
    if (d)
        closedir(d);
}

void owner_give_tree(const char *path, struct statx_timestamp since)
{
    struct gift g = {.since = since};
    const char *slash = strrchr(path, '/');
    char *above = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    int dir = above ? open(above, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir >= 0 && piano__owner_of(dir, &g.uid, &g.gid))
        give_entry(&g, dir, slash + 1, 0);
    if (dir >= 0)
        close(dir);
    free(above);
}

/* --- locked out ------------------------------------------------------------------------------ */

/* Does PATH belong to another user and deny us access? A directory ON_THE_WAY only needs search
 * permission. */
static bool is_closed(const char *path, bool on_the_way)
{
    struct stat st;
    if (lstat(path, &st) != 0 || S_ISLNK(st.st_mode) || st.st_uid == geteuid())
        return false;
    int wanted = (S_ISDIR(st.st_mode) ? X_OK : 0) | (on_the_way ? 0 : R_OK | W_OK);
    return faccessat(AT_FDCWD, path, wanted, AT_EACCESS) != 0;
}

static bool is_in_ours(const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    char *above = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    bool ours = above && stat(above, &st) == 0 && st.st_uid == geteuid();
    free(above);
    return ours;
}

/* Appends WORD quoted for a shell. */
static void put_quoted(struct buf *b, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "/._-+,:@%";
    if (word[strspn(word, plain)] == '\0') {
        buf_puts(b, word);
        return;
    }
    buf_putc(b, '\'');
    for (; *word; word++) {
        if (*word == '\'')
            buf_puts(b, "'\\''");
        else
            buf_putc(b, *word);
    }
    buf_putc(b, '\'');
}

static void put_user(struct buf *b, uid_t uid)
{
    const struct passwd *user = getpwuid(uid);
    if (user)
        buf_puts(b, user->pw_name);
    else
        buf_printf(b, "%u", (unsigned)uid);
}

/* Puts the owner after the command as a shell comment, so that the whole line can be pasted. */
static bool put_cure(char *hint, size_t size, const char *path)
{
    struct stat st;
    struct buf command = {0};
    buf_puts(&command, "sudo chown -R ");
    put_user(&command, geteuid());
    if (getpwuid(geteuid()))
        buf_puts(&command, ": ");
    else
        buf_printf(&command, ":%u ", (unsigned)getegid());
    put_quoted(&command, path);
    if (lstat(path, &st) == 0 && st.st_uid != geteuid()) {
        buf_puts(&command, "   # it belongs to ");
        put_user(&command, st.st_uid);
    }
    bool fits = !command.failed && command.len < size;
    if (fits)
        say_safe(hint, size, command.data);
    buf_free(&command);
    return fits;
}

const char *owner_hint(char *room, size_t size, const char *path, int err, const char *usual)
{
    bool found = false;
    if ((err != -EACCES && err != -EPERM) || geteuid() == 0)
        return usual;
    char *at = path[0] == '/' ? strdup(path) : realpath(path, NULL);
    /* From the root down, because nothing below a closed directory is visible. One command fixes
     * all of a `.piano`. */
    for (char *end = at ? at + 1 : NULL; end && !found; end = *end ? end + 1 : NULL) {
        end += strcspn(end, "/");
        char kept = *end;
        *end = '\0';
        char *project = strstr(at, "/.piano");
        if (is_closed(at, kept && !project)) {
            if (project && project[strlen("/.piano")] == '/')
                project[strlen("/.piano")] = '\0';
            found = is_in_ours(at) && put_cure(room, size, at);
            break;
        }
        *end = kept;
    }
    free(at);
    return found ? room : usual;
}
