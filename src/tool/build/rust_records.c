/* The records of a Cargo project: which functions were instrumented, and why others were not.
 *
 * The wrapper of rustc leaves a mark for each crate, and cargo does not run it for a crate that has not
 * changed. So the marks stay, and say what the crates in cargo's directory contain. */
#include "tool/build/rust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/build/mirror.h"
#include "tool/build/records.h"
#include "tool/build/rust_cfg.h"
#include "tool/build/unit.h"
#include "tool/util/paths.h"

enum outcome { NOT_COMPILED, FAILED, GUARDED };

/* What the wrapper of rustc said about a crate, see rust_mark_path. */
struct mark {
    enum outcome outcome;
    struct buf text;
    char *conditions; /* in `text`; "": no function depends on them */
};

static void mark_read(struct mark *m, const struct driver *d, const char *root, bool is_test)
{
    struct mirror mirror = {.root = d->root, .tree = d->selection.mirror};
    char *copy = mirror_map(&mirror, root);
    char *path = copy ? rust_mark_path(d->state, copy, is_test) : NULL;
    *m = (struct mark){0};
    if (path && buf_read_file(&m->text, path) == 0) {
        char *newline = strchr(m->text.data, '\n');
        m->conditions = newline ? newline + 1 : m->text.data + m->text.len;
        if (newline)
            *newline = '\0';
        m->outcome = m->text.data[0] ? FAILED : GUARDED;
    }
    free(path);
    free(copy);
}

/* What became of a file, which may be part of several crates: the best of them counts. */
struct result {
    enum outcome outcome;
    char *reason;   /* why it failed; malloc'd */
    bool *compiled; /* for each of its functions: does a crate have it? */
};

static void note_mark(struct result *r, const struct rust_file *file, const struct rust_part *part,
                      const struct mark *m)
{
    bool knows = m->outcome != NOT_COMPILED && m->conditions[0] != '\0';
    if (m->outcome == NOT_COMPILED || (knows && !rust_cfg_holds(part->condition, m->conditions)))
        return;
    r->outcome = m->outcome > r->outcome ? m->outcome : r->outcome;
    if (m->outcome == FAILED && !r->reason)
        r->reason = strdup(m->text.data);
    for (size_t i = 0; i < file->functions.count; i++)
        r->compiled[i] |= !knows || rust_cfg_holds(file->more[i].condition, m->conditions);
}

static void find_result(struct result *r, const struct rust_file *file, const struct driver *d)
{
    for (size_t i = 0; i < file->crate_count; i++) {
        for (int is_test = 0; is_test < 2; is_test++) {
            struct mark m;
            mark_read(&m, d, file->crates[i].root, is_test);
            note_mark(r, file, &file->crates[i], &m);
            buf_free(&m.text);
        }
    }
}

/* STATE/rust/stamps/HASH: the record of a file counts as long as it is there. */
static void put_stamp(struct buf *out, const struct driver *d, const char *name)
{
    buf_printf(out, "%s/rust/stamps/%016llx", d->state,
               (unsigned long long)unit_hash(name, strlen(name)));
}

/* Saves the functions of FILE that were compiled. */
static void save_record(const struct rust_file *file, const struct driver *d,
                        const struct result *r, const char *name, const char *stamp)
{
    bool is_failed = r->outcome == FAILED;
    const struct buf nothing = {0};
    struct buf note = {0};
    struct analyse compiled = {.fns = calloc(file->functions.count + 1, sizeof *compiled.fns)};
    for (size_t i = 0; compiled.fns && i < file->functions.count; i++) {
        if (file->crate_count == 0 || r->compiled[i])
            compiled.fns[compiled.count++] = file->functions.fns[i];
    }
    if (file->error)
        buf_printf(&note, "not all of it could be read: %s", file->error);
    else if (is_failed)
        buf_printf(&note, "its crate does not compile with guards: %s", r->reason);
    struct unit u = {.state = d->state,
                     .source = name,
                     .output = stamp,
                     .note = note.data,
                     .failed = is_failed ? "its crate does not compile with guards" : NULL,
                     .functions = &compiled};
    if (compiled.fns && buf_write_file(&nothing, stamp) == 0)
        (void)unit_save(&u); /* a missing record must not fail the build */
    free(compiled.fns);      /* the names are those of FILE */
    buf_free(&note);
}

static void save_file(const struct rust_file *file, const struct driver *d)
{
    struct buf stamp = {0};
    struct result r = {.compiled = calloc(file->functions.count + 1, sizeof *r.compiled)};
    const char *name = selection_relative(&d->selection, file->path);
    put_stamp(&stamp, d, name);
    if (r.compiled && !stamp.failed) {
        find_result(&r, file, d);
        if (r.outcome != NOT_COMPILED || file->crate_count == 0)
            save_record(file, d, &r, name, stamp.data);
        else
            unlink(stamp.data);
    }
    buf_free(&stamp);
    free(r.compiled);
    free(r.reason);
}

/* cargo links target/release/deps/game-0123456789abcdef and gives it the name target/release/game,
 * or that of an example: the user knows the second one. */
static char *known_name(const char *output)
{
    const char *slash = strrchr(output, '/');
    const char *dash = slash ? strrchr(slash, '-') : NULL;
    struct stat linked, known;
    if (!dash || strlen(dash + 1) != 16 || strspn(dash + 1, "0123456789abcdef") != 16)
        return NULL;
    size_t dir = (size_t)(slash - output);
    bool is_dep = dir >= 5 && memcmp(slash - 5, "/deps", 5) == 0;
    struct buf path = {0};
    buf_put(&path, output, is_dep ? dir - 5 : dir);
    buf_put(&path, slash, (size_t)(dash - slash));
    if (!path.failed && stat(output, &linked) == 0 && stat(path.data, &known) == 0 &&
        linked.st_ino == known.st_ino && linked.st_dev == known.st_dev)
        return path.data;
    buf_free(&path);
    return NULL;
}

static void rename_links(const struct driver *d)
{
    struct records records = {0};
    (void)records_load(&records, d->state);
    for (size_t i = 0; i < records.link_count; i++) {
        const struct record_link *l = &records.links[i];
        char *known = known_name(l->output);
        if (known && unit_save_link(d->state, known, l->shared) == 0)
            unlink(l->path);
        free(known);
    }
    records_release(&records);
}

/* The wrapper of rustc may have dropped functions. */
static void save_files(struct rust *r, const struct driver *d)
{
    rust_dropped_release(&r->dropped);
    (void)rust_dropped_load(&r->dropped, d->state);
    for (size_t i = 0; i < r->files.count; i++) {
        struct rust_file *file = &r->files.items[i];
        if (file->is_foreign)
            continue;
        rust_choose(file, &d->selection, &r->dropped);
        save_file(file, d);
    }
}

void rust_finish(struct rust *r, const struct driver *d)
{
    if (r->is_used) {
        save_files(r, d);
        rename_links(d);
    }
    rust_files_release(&r->files);
    rust_dropped_release(&r->dropped);
    *r = (struct rust){0};
}
