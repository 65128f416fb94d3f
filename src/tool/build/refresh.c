/* Makes the build system rebuild what piano, and not the user, has changed.
 *
 * A build system compares the times of files; it does not know about our selection or the runtime.
 * So `piano build` calls this before a build. The records of the units say what each object
 * contains. If the new selection gives another answer for one of its functions, the object and its
 * record are removed, so that make rebuilds it. Programs need no help, because a newer object makes
 * them out of date.
 *
 * An object may not exist any more (a command that compiles and links in one step, make's
 * intermediate files in an archive). Then the copy of the source in the mirror is touched, and the
 * programs are removed. */
#include "tool/build/refresh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/build/mirror.h"
#include "tool/util/paths.h"

void refresh_put_identity(struct buf *b, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0)
        buf_printf(b, "%s %lld %lld.%09ld\n", path, (long long)st.st_size,
                   (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

int refresh_all(const char *state)
{
    static const char *const products[] = {"tree",          "cmake",     "meson", "cargo",
                                           "rust",          "units",     "links", "log",
                                           "tree.manifest", "configured"};
    int err = 0;
    for (size_t i = 0; i < sizeof products / sizeof products[0] && err == 0; i++) {
        char *path = paths_join(state, products[i]);
        err = path ? mirror_remove(path) : -ENOMEM;
        free(path);
    }
    return err;
}

int refresh_fingerprint(const char *state, const char *fingerprint)
{
    struct buf old = {0};
    struct buf new = {0};
    char *path = paths_join(state, "fingerprint");
    char *units = paths_join(state, "units");
    int err = path && units ? 0 : -ENOMEM;
    buf_puts(&new, fingerprint);
    bool same = err == 0 && buf_read_own_file(&old, path) == 0 &&
                old.len == new.len &&memcmp(old.data, new.data, new.len) == 0 &&
                access(units, F_OK) == 0;
    if (err == 0 && !same) {
        /* Remove the mark first: an interrupted clean-up must not look finished. */
        unlink(path);
        err = refresh_all(state);
        if (err == 0)
            err = buf_write_file(&new, path);
    }
    buf_free(&old);
    buf_free(&new);
    free(path);
    free(units);
    return err;
}

static bool is_same_string(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same_list(const struct selection_list *a, const struct selection_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->items[i], b->items[i]) != 0)
            return false;
    }
    return true;
}

static bool is_same_choice(const struct selection *a, const struct selection *b)
{
    return a->exact == b->exact && is_same_list(&a->fns, &b->fns) &&
           is_same_list(&a->files, &b->files) && is_same_list(&a->dirs, &b->dirs) &&
           is_same_list(&a->skips, &b->skips) && is_same_string(a->frame, b->frame);
}

/* Settings that are in every instrumented object, whichever functions it contains. */
static bool is_same_setting(const struct selection *a, const struct selection *b)
{
    return is_same_string(a->frame, b->frame) && is_same_string(a->runs, b->runs) &&
           is_same_string(a->lib, b->lib) && is_same_string(a->root, b->root);
}

bool refresh_is_changed(const struct record_unit *u, const struct selection *before,
                        const struct selection *now)
{
    bool same_choice = is_same_choice(before, now);
    bool same_setting = is_same_setting(before, now);
    if (!same_choice && u->note && strstr(u->note, "not searched"))
        return true;
    for (size_t i = 0; i < u->fn_count; i++) {
        const struct record_fn *fn = &u->fns[i];
        bool holds = fn->status == RECORD_INSTRUMENTED;
        if (holds && !same_setting)
            return true;
        if (fn->status == RECORD_SKIPPED)
            continue;
        if (selection_wants(now, records_bare_name(fn->name), fn->name, fn->file) != holds)
            return true;
    }
    return false;
}

/* libtool keeps X/.libs/a.o beside X/a.lo, the target that make knows. */
static void remove_libtool_target(const char *output)
{
    const char *libs = strstr(output, "/.libs/");
    const char *dot = strrchr(output, '.');
    if (!libs || !dot || dot < libs)
        return;
    static const char *const tails[] = {".lo", ".o"};
    for (size_t i = 0; i < 2; i++) {
        struct buf path = {0};
        buf_put(&path, output, (size_t)(libs - output) + 1);
        buf_put(&path, libs + 7, (size_t)(dot - libs) - 7);
        buf_puts(&path, tails[i]);
        if (!path.failed)
            unlink(path.data);
        buf_free(&path);
    }
}

/* Returns whether the object existed. */
static bool remove_object(const struct record_unit *u)
{
    bool removed = unlink(u->output) == 0;
    remove_libtool_target(u->output);
    unlink(u->path);
    return removed;
}

static void touch_copy(const struct record_unit *u, const struct selection *now)
{
    char *path = now->mirror ? paths_join(now->mirror, selection_relative(now, u->source)) : NULL;
    if (path)
        utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
    free(path);
}

int refresh_selection(const char *state, const struct selection *now)
{
    struct selection before = {0};
    struct records records = {0};
    char *path = paths_join(state, "selection");
    int err = path ? selection_load(&before, path) : -ENOMEM;
    if (err == 0)
        err = records_load(&records, state);
    bool lost = false;
    for (size_t i = 0; err == 0 && i < records.unit_count; i++) {
        const struct record_unit *u = &records.units[i];
        if (!refresh_is_changed(u, &before, now) || remove_object(u))
            continue;
        touch_copy(u, now);
        lost = true;
    }
    for (size_t i = 0; lost && i < records.link_count; i++)
        unlink(records.links[i].output);
    records_release(&records);
    selection_release(&before);
    free(path);
    return err == -ENOENT ? 0 : err;
}
