/* Links to libraries under a path that the loader's variables can hold; see preload.h.
 *
 * The links are never removed: processes that a recorded program or a build started can outlive
 * piano, and every program they start loads the library again. Each directory is always linked from
 * the same place, TMP/piano-UID/HASH, so there is one such place per installation. Unlike a
 * copy, a link does not need a file system that allows execution. Other users may follow the links,
 * because a program may change its user.
 *
 * Every user can write to TMP, so an existing name in it proves nothing. The directory is used only
 * if it is ours, no other user can write to it, and no other user can remove it from TMP. */
#include "tool/util/preload.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/util/paths.h"
#include "tool/util/say.h"

static const char *const libraries[] = {"libpiano.so", "libpiano_exec.so"};

/* What to link, and the characters that its path must not contain. */
struct request {
    const char *dir;
    const char *bad;
    bool whole; /* link the directory itself, not the libraries in it */
};

/* Is DIR ours and not writable by other users? For a directory ABOVE ours, root may own it too, and
 * others may write to it if it is sticky: then they cannot rename our directory. */
static bool is_safe(int dir, bool above)
{
    struct stat st;
    if (fstat(dir, &st) != 0)
        return false;
    bool shared = st.st_mode & (S_IWGRP | S_IWOTH);
    if (!above)
        return st.st_uid == geteuid() && !shared;
    return (st.st_uid == geteuid() || st.st_uid == 0) && (!shared || (st.st_mode & S_ISVTX));
}

/* Creates the directory NAME in DIR and opens it. Returns a descriptor or negative errno. */
static int enter(int dir, const char *name)
{
    if (mkdirat(dir, name, 0755) != 0 && errno != EEXIST)
        return -errno;
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (is_safe(fd, false) && fchmod(fd, 0755) == 0)
        return fd;
    close(fd);
    return -EPERM;
}

/* Makes NAME in DIR a link to TARGET. Replaces another link by rename, so that the name always
 * exists. */
static int put_link(int dir, const char *name, const char *target)
{
    char now[PATH_MAX], other[64];
    ssize_t len = readlinkat(dir, name, now, sizeof now - 1);
    now[len > 0 ? len : 0] = '\0';
    if (strcmp(now, target) == 0)
        return 0;
    snprintf(other, sizeof other, "%s.%d", name, (int)getpid());
    if (symlinkat(target, dir, other) != 0)
        return -errno;
    if (renameat(dir, other, dir, name) == 0)
        return 0;
    int err = -errno;
    unlinkat(dir, other, 0);
    return err;
}

static int put_links(int place, const char *dir, bool whole)
{
    int err = 0;
    if (whole)
        return put_link(place, "dir", dir);
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0] && err == 0; i++) {
        char *target = paths_join(dir, libraries[i]);
        err = target ? put_link(place, libraries[i], target) : -ENOMEM;
        free(target);
    }
    return err;
}

static uint64_t hash(const char *text)
{
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

/* Makes the links for R below TMP. Returns the path of the linked directory, or of the directory
 * with the links to its libraries; NULL on failure. */
static char *try_place(const char *tmp, const struct request *r)
{
    char user[32], name[32];
    char *path = NULL;
    if (!tmp || tmp[0] != '/' || strpbrk(tmp, r->bad))
        return NULL;
    snprintf(user, sizeof user, "piano-%u", (unsigned)geteuid());
    snprintf(name, sizeof name, "%016llx", (unsigned long long)hash(r->dir));
    int above = open(tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ours = above >= 0 && is_safe(above, true) ? enter(above, user) : -1;
    int place = ours >= 0 ? enter(ours, name) : -1;
    if (place >= 0 && put_links(place, r->dir, r->whole) == 0 &&
        asprintf(&path, "%s/%s/%s%s", tmp, user, name, r->whole ? "/dir" : "") < 0)
        path = NULL;
    const int all[] = {above, ours, place};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] >= 0)
            close(all[i]);
    }
    return path;
}

/* Returns the directory of R if its path is plain, else tries FIRST, if not NULL, and then the
 * directories for temporary files. NULL on failure. */
static char *find_place(const struct request *r, const char *first)
{
    const char *const places[] = {first, getenv("TMPDIR"), "/tmp", "/var/tmp"};
    char *path = strpbrk(r->dir, r->bad) ? NULL : strdup(r->dir);
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !path; i++)
        path = try_place(places[i], r);
    return path;
}

static void say_no_place(const char *dir, const char *hint, const char *what)
{
    char safe[PATH_MAX];
    say_error(hint,
              "%s cannot be %s: its path has a space, a colon or a $ in it, and a link to it can "
              "be made neither in $TMPDIR nor in /tmp nor in /var/tmp",
              say_safe(safe, sizeof safe, dir), what);
}

static const char install_hint[] = "make install, to a directory without them";

char *preload_dir(const char *dir)
{
    const struct request r = {.dir = dir, .bad = ": $\t\n\\;"};
    char *path = find_place(&r, NULL);
    if (!path)
        say_no_place(dir, install_hint, "loaded into programs");
    return path;
}

char *preload_run_path(const char *dir)
{
    const struct request r = {.dir = dir, .bad = ":$"};
    char *state = strpbrk(dir, r.bad) ? paths_state_dir() : NULL;
    char *path = find_place(&r, state && paths_make_dirs(state) == 0 ? state : NULL);
    if (!path)
        say_no_place(dir, install_hint, "loaded into programs");
    free(state);
    return path;
}

char *preload_search_path(const char *dir)
{
    const struct request r = {.dir = dir, .bad = ":;$", .whole = true};
    char *path = find_place(&r, NULL);
    if (!path)
        say_no_place(dir, "move the project to a directory without them",
                     "searched for shared libraries");
    return path;
}
