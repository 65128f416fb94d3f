/* Removes old runs by name: regular files `<epoch ms>-<pid>.` with one of piano's extensions,
 * directly in the runs directory. All files with the same `<epoch ms>-<pid>` are one run and are
 * removed together. Files with other names were put there or renamed by the user, and stay.
 *
 * From newest to oldest, the first run beyond a limit and all older ones are removed. Protected
 * runs do not count. */
#include "tool/load/prune.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/load/companion.h"
#include "tool/load/tags.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"

enum { USUAL_RUNS = 50, BLOCK = 512 };
static const uint64_t USUAL_BYTES = (uint64_t)1 << 30;

/* One file of a run. */
struct file {
    char name[NAME_MAX + 1];
    long long ms;
    long pid;
    uint64_t bytes; /* on disk */
    bool stays;
};

struct files {
    struct file *list; /* newest first once sorted */
    size_t count;
    size_t cap;
};

struct limits {
    uint64_t runs;  /* UINT64_MAX: any number */
    uint64_t bytes; /* the same */
    bool set;       /* by the user */
};

/* --- limits ---------------------------------------------------------------------------------------------------- */

/* Reads a variable that holds a number; 0 means no limit. Reports anything else and returns
 * false. */
static bool read_limit(const char *name, bool is_size, uint64_t *limit, bool *set)
{
    const char *text = getenv(name);
    char safe[64];
    char *end = NULL;
    if (!text || !*text)
        return true;
    *set = true;
    if (strcmp(text, "0") == 0) {
        *limit = UINT64_MAX;
        return true;
    }
    errno = 0;
    *limit = is_size                        ? units_parse_bytes(text)
             : *text >= '1' && *text <= '9' ? strtoull(text, &end, 10)
                                            : 0;
    if (*limit > 0 && errno == 0 && (is_size || *end == '\0'))
        return true;
    say("%s=%s is %s: no old runs are removed", name, say_safe(safe, sizeof safe, text),
        is_size ? "no size such as 500M" : "no number of runs");
    return false;
}

static bool read_limits(struct limits *l)
{
    const char *dir = getenv("PIANO_RUNS_DIR");
    *l = (struct limits){USUAL_RUNS, USUAL_BYTES, false};
    if (!read_limit("PIANO_KEEP_RUNS", false, &l->runs, &l->set) ||
        !read_limit("PIANO_KEEP_SIZE", true, &l->bytes, &l->set))
        return false;
    return l->set || !dir || !*dir; /* a user who chose the runs directory wants to keep the runs */
}

/* --- files ----------------------------------------------------------------------------------------------------- */

/* Returns whether NAME is that of a run file, `<ms>-<pid>.ENDING`. */
static bool parse_name(const char *name, long long *ms, long *pid)
{
    static const char *const endings[] = {"ndjson", "json", "live", "rec"};
    size_t digits = strspn(name, "0123456789");
    size_t more = digits && name[digits] == '-' ? strspn(name + digits + 1, "0123456789") : 0;
    const char *rest = name + digits + 1 + more;
    if (more == 0 || *rest++ != '.')
        return false;
    *ms = strtoll(name, NULL, 10);
    *pid = strtol(name + digits + 1, NULL, 10);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (strcmp(rest, endings[i]) == 0)
            return true;
    }
    /* Later programs of the process, and its children. */
    return strncmp(rest, "rec", 3) == 0 && (rest[3] == '.' || rest[3] == '-') && rest[4] &&
           rest[4 + strspn(rest + 4, "0123456789.-")] == '\0';
}

static int add(struct files *f, int dir, const char *name)
{
    struct file one = {.stays = false};
    struct stat st;
    if (!parse_name(name, &one.ms, &one.pid) || strlen(name) >= sizeof one.name ||
        fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return 0;
    snprintf(one.name, sizeof one.name, "%s", name);
    one.bytes = (uint64_t)st.st_blocks * BLOCK;
    if (VEC_ROOM(f->list, f->count, f->cap) != 0)
        return -ENOMEM;
    f->list[f->count++] = one;
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct file *x = a, *y = b;
    return ORDER(y->ms, x->ms) ?: ORDER(y->pid, x->pid);
}

static bool is_same_run(const struct file *a, const struct file *b)
{
    return a->ms == b->ms && a->pid == b->pid;
}

/* The files of one run are adjacent. Returns the index after those that begin at FIRST. */
static size_t end_of_run(const struct files *f, size_t first)
{
    size_t end = first + 1;
    while (end < f->count && is_same_run(&f->list[end], &f->list[first]))
        end++;
    return end;
}

/* --- what stays ------------------------------------------------------------------------------------------------ */

/* Protects all files of the run of PATH, which is a file in DIR or a bare name. */
static void keep(struct files *f, const char *dir, const char *path)
{
    long long ms;
    long pid;
    size_t len = strlen(dir);
    const char *name = path;
    if (strncmp(path, dir, len) == 0 && path[len] == '/')
        name = path + len + 1;
    if (strchr(name, '/') || !parse_name(name, &ms, &pid))
        return;
    for (size_t i = 0; i < f->count; i++)
        f->list[i].stays |= f->list[i].ms == ms && f->list[i].pid == pid;
}

/* 0 or negative errno: nothing may be removed if the tags cannot be read. */
static int keep_tagged(struct files *f, const char *dir)
{
    struct tags tags;
    int err = tags_load(&tags, dir);
    for (size_t i = 0; err == 0 && i < tags.count; i++) {
        for (size_t k = 0; k < tags.list[i].run_count; k++) {
            const char *run = tags.list[i].runs[k];
            char *path = run[0] == '/' ? strdup(run) : paths_join(dir, run);
            char *companion = path ? companion_find(path) : NULL;
            err = path ? err : -ENOMEM;
            keep(f, dir, run);
            if (companion)
                keep(f, dir, companion);
            free(companion);
            free(path);
        }
    }
    tags_release(&tags);
    return err;
}

static void keep_running(struct files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        pid_t pid = (pid_t)f->list[i].pid;
        f->list[i].stays |= pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
    }
}

/* --- removal ------------------------------------------------------------------------------------------------- */

static void say_removed(size_t runs, uint64_t bytes, const struct limits *l, bool by_size)
{
    char size[UNITS_LEN];
    char limit[UNITS_LEN];
    char which[40] = "oldest run";
    if (runs > 1)
        snprintf(which, sizeof which, "%zu oldest runs", runs);
    units_bytes(size, (int64_t)bytes);
    if (by_size)
        say("removed the %s (%s): all together took more than %s; PIANO_KEEP_SIZE=SIZE changes "
            "that, piano tag NAME keeps a run",
            which, size, units_bytes(limit, (int64_t)l->bytes));
    else
        say("removed the %s (%s): there were more than %llu; PIANO_KEEP_RUNS=N changes that, "
            "piano tag NAME keeps a run",
            which, size, (unsigned long long)l->runs);
}

static void remove_old(const struct files *f, int dir, const struct limits *l)
{
    uint64_t kept = 0, bytes = 0, gone_bytes = 0;
    size_t gone = 0;
    bool over = false, by_size = false;
    for (size_t first = 0, end; first < f->count; first = end) {
        uint64_t size = 0;
        bool removed = false;
        end = end_of_run(f, first);
        for (size_t i = first; i < end; i++)
            size += f->list[i].bytes;
        if (f->list[first].stays)
            continue;
        kept++;
        bytes += size;
        if (!over && kept > 1 && (kept > l->runs || bytes > l->bytes)) {
            over = true;
            by_size = kept <= l->runs;
        }
        for (size_t i = first; over && i < end; i++)
            removed |= unlinkat(dir, f->list[i].name, 0) == 0;
        gone += removed;
        gone_bytes += removed ? size : 0;
    }
    if (gone > 0)
        say_removed(gone, gone_bytes, l, by_size);
}

void prune_runs(void)
{
    struct limits limits;
    struct files files = {0};
    const struct dirent *e;
    char *path = paths_runs_dir();
    DIR *dir = path && read_limits(&limits) ? opendir(path) : NULL;
    int err = dir ? 0 : -ENOENT;
    while (err == 0 && (e = readdir(dir)))
        err = add(&files, dirfd(dir), e->d_name);
    if (err == 0 && files.count > 0) {
        qsort(files.list, files.count, sizeof *files.list, newest_first);
        keep_running(&files);
        err = keep_tagged(&files, path);
        if (err == 0)
            remove_old(&files, dirfd(dir), &limits);
    }
    if (dir)
        closedir(dir);
    free(files.list);
    free(path);
}
