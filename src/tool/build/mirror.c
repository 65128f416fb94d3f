/* The mirror: a copy of the user's tree, so that a build that writes into its source directory
 * cannot touch the user's own files and products.
 *
 * Each build calls `mirror_sync`. It lists the user's tree, drops what stale.c recognises as
 * products of a build, and compares the rest with the manifest of the last time (type, time, size):
 *   - new or changed in the user's tree: copied, with its mode and time, so that make's own
 *     comparison of times decides what to build;
 *   - unchanged: left alone, even if the build has rewritten the copy (generated headers);
 *   - in the manifest but removed from the user's tree: removed from the copy;
 *   - in the copy but in neither: made by the build there, never touched.
 * The manifest is written last: after a crash, files are copied again, at worst.
 *
 * Two things are changed, because a copy is in another place. Symbolic links that leave the tree
 * become absolute; absolute links into the tree lead into the copy. In files that configure
 * generates with absolute paths (`Makefile`, `config.status`, `libtool`) the root's path is
 * replaced. Otherwise a project configured in its tree would be built in the original. */
#include "tool/build/mirror.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/build/manifest.h"
#include "tool/build/stale.h"
#include "tool/util/buf.h"
#include "tool/util/file.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

/* A larger tree is a home directory, not a project. */
static const size_t MAX_FILES = 500000;
static const int64_t MAX_BYTES = (int64_t)16 << 30;
/* Files that are generated with absolute paths are smaller than this. */
static const int64_t MAX_RELOCATED_BYTES = 16 << 20;

static bool is_newer(struct timespec a, struct timespec b)
{
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

static int take_entry(struct manifest *l, const FTSENT *f, const char *rel)
{
    const struct stat *st = f->fts_statp;
    struct manifest_entry *e = manifest_add(l, rel);
    if (!e)
        return -ENOMEM;
    e->type = S_ISDIR(st->st_mode) ? 'd' : S_ISLNK(st->st_mode) ? 'l' : 'f';
    e->mode = st->st_mode & 07777;
    if (e->type == 'd')
        return 0;
    e->mtime = st->st_mtim;
    e->size = st->st_size;
    if (st->st_size > MAX_BYTES - l->bytes) /* a sum could overflow: sparse files have any size */
        return -EFBIG;
    l->bytes += st->st_size;
    if (e->type == 'f') {
        e->kind = stale_kind(f->fts_path, f->fts_name);
        if (stale_is_source(f->fts_name) && is_newer(e->mtime, l->newest_source))
            l->newest_source = e->mtime;
    }
    return l->count > MAX_FILES ? -EFBIG : 0;
}

/* Handles one entry of the walk. */
static int visit(FTS *fts, FTSENT *f, struct manifest *l, size_t root_len)
{
    if (f->fts_level == 0 || f->fts_info == FTS_DP)
        return 0;
    const char *rel = f->fts_path + root_len + 1;
    switch (f->fts_info) {
    case FTS_D:
        if (stale_is_dir(f->fts_path, f->fts_name)) {
            fts_set(fts, f, FTS_SKIP);
            return 0;
        }
        return take_entry(l, f, rel);
    case FTS_F:
    case FTS_SL:
    case FTS_SLNONE:
        return take_entry(l, f, rel);
    default: /* sockets, unreadable directories: a build cannot read them */
        return 0;
    }
}

/* Cargo also reads its settings in the directories above, and the root is one of them. Read twice,
 * their lists would be twice as long. */
static bool is_read_above(const char *rel)
{
    return strcmp(rel, ".cargo/config.toml") == 0 || strcmp(rel, ".cargo/config") == 0;
}

static int walk(struct manifest *l, const char *root, const struct stale_tracked *tracked)
{
    char *copy = strdup(root);
    char *roots[] = {copy, NULL};
    FTS *fts = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    int err = fts ? 0 : -ENOMEM;
    FTSENT *f = NULL;
    while (err == 0 && (f = fts_read(fts)))
        err = visit(fts, f, l, strlen(root));
    if (fts)
        fts_close(fts);
    free(copy);
    for (size_t i = 0; i < l->count; i++) {
        struct manifest_entry *e = &l->items[i];
        e->kept = !stale_leaves_out(e->kind, tracked, e->rel, e->mtime, l->newest_source) &&
                  !is_read_above(e->rel);
    }
    manifest_sort(l);
    return err;
}

/* Is PATH the directory DIR or below it, by whole components? */
static bool is_below(const char *path, const char *dir)
{
    size_t len = strlen(dir);
    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

char *mirror_map(const struct mirror *m, const char *path)
{
    if (!is_below(path, m->root) || is_below(path, m->tree))
        return strdup(path);
    const char *rest = path + strlen(m->root);
    return paths_join(m->tree, *rest == '/' ? rest + 1 : rest);
}

static bool is_path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == '/';
}

/* Does a path begin at HIT? The text before it must not belong to the same path (`/mnt` in
 * `/mnt/home`), except for a flag (`-I/home`). */
static bool begins_path(const char *text, const char *hit)
{
    const char *run = hit;
    while (run > text && is_path_char(run[-1]))
        run--;
    return run == hit || (*run == '-' && !memchr(run, '/', (size_t)(hit - run)));
}

char *mirror_replace(const char *text, size_t *len, const char *from, const char *to)
{
    struct buf out = {0};
    size_t from_len = strlen(from);
    const char *at = text;
    const char *end = text + *len;
    for (;;) {
        const char *hit = memmem(at, (size_t)(end - at), from, from_len);
        if (!hit)
            break;
        const char *after = hit + from_len;
        bool whole =
            begins_path(text, hit) && (after == end || *after == '/' || !is_path_char(*after));
        buf_put(&out, at, (size_t)(hit - at));
        buf_puts(&out, whole ? to : from);
        at = after;
    }
    buf_put(&out, at, (size_t)(end - at));
    if (out.failed)
        return NULL;
    *len = out.len;
    return out.data;
}

/* Does the link REL with TARGET leave the tree? Compares only the text of the paths, which is what
 * the kernel does unless there are other links on the way. */
static bool leaves_tree(const char *rel, const char *target)
{
    int depth = 0;
    for (const char *p = rel; *p; p++)
        depth += *p == '/';
    while (*target) {
        size_t len = strcspn(target, "/");
        if (len == 2 && target[0] == '.' && target[1] == '.')
            depth--;
        else if (len > 0 && !(len == 1 && target[0] == '.'))
            depth++;
        if (depth < 0)
            return true;
        target += len;
        while (*target == '/')
            target++;
    }
    return false;
}

static int copy_link(const struct mirror *m, const char *rel, const char *from, const char *to)
{
    char target[PATH_MAX];
    ssize_t len = readlink(from, target, sizeof target - 1);
    if (len < 0)
        return -errno;
    target[len] = '\0';
    char *made = NULL;
    if (target[0] == '/') {
        made = mirror_map(m, target);
    } else if (leaves_tree(rel, target)) {
        char *dir = strdup(from);
        if (dir)
            *strrchr(dir, '/') = '\0';
        made = dir ? paths_join(dir, target) : NULL;
        free(dir);
    } else {
        made = strdup(target);
    }
    if (!made)
        return -ENOMEM;
    int err = symlink(made, to) != 0 ? -errno : 0;
    free(made);
    return err;
}

static bool is_relocated(const struct manifest_entry *e)
{
    static const char *const names[] = {"Makefile",      "makefile", "GNUmakefile",
                                        "config.status", "libtool",  "config.mk"};
    const char *name = paths_base(e->rel);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0)
            return e->size <= MAX_RELOCATED_BYTES;
    }
    return false;
}

static int put_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t put = write(fd, data, len);
        if (put < 0 && errno != EINTR)
            return -errno;
        if (put > 0) {
            data += put;
            len -= (size_t)put;
        }
    }
    return 0;
}

static int copy_relocated(const struct mirror *m, const char *from, int out)
{
    struct buf text = {0};
    int err = buf_read_file(&text, from);
    size_t len = text.len;
    char *changed =
        err == 0 ? mirror_replace(text.data ? text.data : "", &len, m->root, m->tree) : NULL;
    if (err == 0)
        err = changed || len == 0 ? put_all(out, changed, len) : -ENOMEM;
    free(changed);
    buf_free(&text);
    return err;
}

/* Shares the blocks if the file system supports clones; else the kernel copies. */
static int copy_bytes(int in, int out)
{
    if (ioctl(out, FICLONE, in) == 0)
        return 0;
    for (;;) {
        ssize_t sent = sendfile(out, in, NULL, 1 << 30);
        if (sent == 0)
            return 0;
        if (sent < 0 && errno != EINTR)
            return -errno;
    }
}

/* Counts REL, and keeps the names of the first MIRROR_MAX_NAMED. */
static void add_unreadable(struct mirror_result *result, const char *rel)
{
    struct buf names = {0};
    if (result->unreadable++ >= MIRROR_MAX_NAMED)
        return;
    buf_printf(&names, "%s%s%s", result->unread_names ? result->unread_names : "",
               result->unread_names ? ", " : "", rel);
    if (names.failed) {
        buf_free(&names);
        return;
    }
    free(result->unread_names);
    result->unread_names = names.data;
}

static int copy_file(const struct mirror *m, const struct manifest_entry *e, const char *from,
                     const char *to, struct mirror_result *result)
{
    int in = file_open(from, O_RDONLY | O_NOFOLLOW);
    if (in == -EACCES || in == -ENOENT) {
        add_unreadable(result, e->rel);
        return 0;
    }
    int out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int err = in < 0 ? in : out < 0 ? -errno : 0;
    if (err == 0)
        err = is_relocated(e) ? copy_relocated(m, from, out) : copy_bytes(in, out);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, e->mtime};
    if (err == 0 && (fchmod(out, e->mode | S_IWUSR) != 0 || futimens(out, times) != 0))
        err = -errno;
    if (in >= 0)
        close(in);
    if (out >= 0 && close(out) != 0 && err == 0)
        err = -errno;
    return err;
}

/* Copies one entry that is new or has changed. */
static int copy_entry(const struct mirror *m, const struct manifest_entry *e,
                      struct mirror_result *result)
{
    char *from = paths_join(m->root, e->rel);
    char *to = paths_join(m->tree, e->rel);
    int err = from && to ? 0 : -ENOMEM;
    if (err == 0 && e->type == 'd') {
        if (mkdir(to, e->mode | S_IRWXU) != 0 && errno != EEXIST)
            err = -errno;
    } else if (err == 0) {
        if (unlink(to) != 0 && errno != ENOENT)
            err = -errno;
        if (err == 0)
            err =
                e->type == 'l' ? copy_link(m, e->rel, from, to) : copy_file(m, e, from, to, result);
        result->copied++;
    }
    if (err != 0)
        result->failed = strdup(e->rel);
    free(from);
    free(to);
    return err;
}

static bool is_same(const struct manifest_entry *a, const struct manifest_entry *b)
{
    return a->type == b->type && a->size == b->size && a->mtime.tv_sec == b->mtime.tv_sec &&
           a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static bool is_there(const struct mirror *m, const char *rel)
{
    struct stat st;
    char *path = paths_join(m->tree, rel);
    bool there = path && lstat(path, &st) == 0;
    free(path);
    return there;
}

/* Removes the copies of removed files, deepest first. A directory is removed when it is empty. */
static void remove_gone(const struct mirror *m, const struct manifest *before,
                        struct mirror_result *result)
{
    for (size_t i = before->count; i-- > 0;) {
        const struct manifest_entry *e = &before->items[i];
        char *path = e->kept ? NULL : paths_join(m->tree, e->rel);
        if (path && (e->type == 'd' ? rmdir(path) : unlink(path)) == 0 && e->type != 'd')
            result->removed++;
        free(path);
    }
}

static int update(const struct mirror *m, struct manifest *now, struct manifest *before,
                  struct mirror_result *result)
{
    for (size_t i = 0; i < now->count; i++) {
        struct manifest_entry *old = manifest_find(before, now->items[i].rel);
        if (old && now->items[i].kept && old->type == now->items[i].type)
            old->kept = true;
    }
    remove_gone(m, before, result);
    int err = 0;
    for (size_t i = 0; i < now->count && err == 0; i++) {
        const struct manifest_entry *e = &now->items[i];
        const struct manifest_entry *old = manifest_find(before, e->rel);
        if (!e->kept || (old && old->kept && is_same(e, old) && is_there(m, e->rel)))
            continue;
        err = copy_entry(m, e, result);
        if (result->copied % 256 == 0)
            say_progress("copying %zu of %zu files", i, now->count);
    }
    return err;
}

/* Links what is in the directory FROM into the directory TO, but not the item SELF. */
static void link_items(const char *from, const char *to, const char *self)
{
    char *copy = strdup(from);
    char *roots[] = {copy, NULL};
    FTS *fts = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, NULL) : NULL;
    if (fts)
        fts_read(fts);
    for (FTSENT *f = fts ? fts_children(fts, FTS_NAMEONLY) : NULL; f; f = f->fts_link) {
        char *item = paths_join(from, f->fts_name);
        char *link = paths_join(to, f->fts_name);
        /* A failure means that it exists already, or the build will report it. Not for dot
         * files: with a `.git` beside the copy, git would take the copy for part of that
         * checkout. */
        if (item && link && f->fts_name[0] != '.' && strcmp(item, self) != 0)
            (void)!symlink(item, link);
        free(item);
        free(link);
    }
    if (fts)
        fts_close(fts);
    free(copy);
}

/* A build may use `../common/x.h`, so the siblings of the root are linked beside the copy, and the
 * same for the directories above it that the path of the copy has. */
static void link_siblings(const struct mirror *m)
{
    char *self = strdup(m->root);
    char *place = strdup(m->tree);
    for (unsigned i = 0; self && place && i <= m->above; i++) {
        char *slash = strrchr(self, '/');
        if (!slash || slash == self)
            break;
        char *parent = strndup(self, (size_t)(slash - self));
        *strrchr(place, '/') = '\0';
        if (parent)
            link_items(parent, place, self);
        free(self);
        self = parent;
    }
    free(self);
    free(place);
}

int mirror_sync(const struct mirror *m, struct mirror_result *result)
{
    struct manifest now = {0};
    struct manifest before = {0};
    struct stale_tracked tracked;
    *result = (struct mirror_result){0};
    char *scratch = NULL;
    if (asprintf(&scratch, "%s.git", m->manifest) < 0)
        return -ENOMEM;
    stale_tracked_load(&tracked, m->root, scratch);
    free(scratch);
    int err = paths_make_dirs(m->tree);
    if (err == 0)
        err = manifest_load(&before, m->manifest);
    if (err == 0)
        err = walk(&now, m->root, &tracked);
    if (err == 0)
        err = update(m, &now, &before, result);
    if (err == 0)
        err = manifest_save(&now, m->manifest);
    link_siblings(m);
    say_progress_done();
    stale_tracked_release(&tracked);
    manifest_release(&now);
    manifest_release(&before);
    return err;
}

int mirror_remove(const char *path)
{
    char *copy = strdup(path);
    char *roots[] = {copy, NULL};
    FTS *fts = copy ? fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL) : NULL;
    int err = fts ? 0 : -ENOMEM;
    for (FTSENT *f = fts ? fts_read(fts) : NULL; f; f = fts_read(fts)) {
        int failed = 0;
        if (f->fts_info == FTS_D)
            chmod(f->fts_path, S_IRWXU);
        else if (f->fts_info == FTS_DP)
            failed = rmdir(f->fts_path);
        else
            failed = unlink(f->fts_path);
        if (failed != 0 && errno != ENOENT && err == 0)
            err = -errno;
    }
    if (fts)
        fts_close(fts);
    free(copy);
    return err;
}
