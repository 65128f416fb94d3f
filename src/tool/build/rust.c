/* `piano build` in a Cargo project.
 *
 * The guards are put into the files of the mirror before cargo starts, always from the user's own
 * files: cargo then sees by their times which crates to compile again. The helper piano-rust, which
 * has a parser of Rust, finds the functions (src/rust). While cargo runs, exec_hook.c catches rustc
 * (rust_wrap.c) and the linker, which adds the runtime as for C.
 *
 * STATE/rust/roots has the root files of instrumented crates, for the wrapper of rustc. If a crate
 * does not compile with guards, it compiles the user's own files instead, and writes the reason to
 * STATE/rust/crates. */
#include "tool/build/rust.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/build/cc_run.h"
#include "tool/build/mirror.h"
#include "tool/build/records.h"
#include "tool/build/rust_metadata.h"
#include "tool/build/unit.h"
#include "tool/build/words.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

bool rust_is_project(const char *dir)
{
    char *path = paths_join(dir, "Cargo.toml");
    bool found = path && access(path, R_OK) == 0;
    free(path);
    return found;
}

/* The path of the helper, malloc'd, or NULL. */
static char *find_helper(void)
{
    char *lib = paths_lib_dir();
    char *path = lib ? paths_join(lib, "piano-rust") : NULL;
    free(lib);
    if (path && access(path, X_OK) == 0)
        return path;
    free(path);
    return NULL;
}

bool rust_can_read(void)
{
    char *helper = find_helper();
    free(helper);
    return helper != NULL;
}

/* PATH of the mirror in the user's tree, malloc'd; NULL if it is elsewhere, or only in the mirror. */
static char *user_path(const struct driver *d, const char *path)
{
    size_t len = strlen(d->selection.mirror);
    if (strncmp(path, d->selection.mirror, len) != 0 || path[len] != '/')
        return NULL;
    char *own = paths_join(d->root, path + len + 1);
    if (own && access(own, R_OK) == 0)
        return own;
    free(own);
    return NULL;
}

/* --- finding the functions --------------------------------------------------------------------- */

/* Runs the helper on the crates of one kind. */
static int describe(struct rust_files *files, const struct driver *d, const char *helper,
                    const struct rust_crates *crates, bool foreign)
{
    struct words command = {0};
    struct cc_run run = {0};
    words_add(&command, helper);
    for (size_t i = 0; i < crates->count; i++) {
        char *own =
            crates->items[i].is_foreign == foreign ? user_path(d, crates->items[i].root) : NULL;
        if (own)
            words_add(&command, own);
        free(own);
    }
    int err = command.failed ? -ENOMEM : 0;
    if (err == 0 && command.count > 1) {
        err = cc_run_step(&run, command.items, CC_KEEP_OUT);
        if (err == 0 && run.status != 0)
            err = -EIO;
        if (err == 0 && run.out.data) {
            err = rust_files_read(files, run.out.data, d->root);
            run.out = (struct buf){0};
        }
    }
    cc_run_release(&run);
    words_release(&command);
    return err;
}

static bool has_crate(const struct rust_file *file, const char *root)
{
    for (size_t i = 0; i < file->crate_count; i++) {
        if (strcmp(file->crates[i], root) == 0)
            return true;
    }
    return false;
}

static void mark_roots(struct rust_files *files, const struct driver *d,
                       const struct rust_crates *crates)
{
    for (size_t i = 0; i < crates->count; i++) {
        char *own = crates->items[i].is_foreign ? NULL : user_path(d, crates->items[i].root);
        for (size_t k = 0; own && k < files->count; k++) {
            struct rust_file *file = &files->items[k];
            if (!has_crate(file, own))
                continue;
            file->is_root |= strcmp(file->path, own) == 0;
            file->is_2024 |= crates->items[i].is_2024;
        }
        free(own);
    }
}

/* Marks what runs in the compiler: files of build scripts and procedural macros. */
static int mark_foreign(struct rust_files *files, const struct driver *d, const char *helper,
                        const struct rust_crates *crates)
{
    struct rust_files foreign = {0};
    int err = describe(&foreign, d, helper, crates, true);
    for (size_t i = 0; i < foreign.count; i++) {
        struct rust_file *file = rust_files_find(files, foreign.items[i].path);
        if (file)
            file->is_foreign = true;
    }
    rust_files_release(&foreign);
    return err;
}

static void choose(struct rust_file *file, const struct selection *s)
{
    for (size_t i = 0; i < file->functions.count; i++) {
        struct analyse_fn *fn = &file->functions.fns[i];
        bool wanted = !file->is_foreign && selection_wants(s, fn->bare, fn->qualified, fn->file);
        if (file->crate_count == 0)
            fn->skip = "a crate without std";
        fn->chosen = wanted && !fn->skip;
        if (!wanted)
            fn->skip = NULL;
    }
}

/* --- the mirror -------------------------------------------------------------------------------- */

static bool holds(const char *path, const struct buf *text)
{
    struct buf now = {0};
    bool same = buf_read_file(&now, path) == 0 && now.len == text->len &&
                (text->len == 0 || memcmp(now.data, text->data, text->len) == 0);
    buf_free(&now);
    return same;
}

/* Writes the text of FILE into the mirror, unless it is there already: cargo compares times. */
static int write_file(const struct rust_file *file, const struct driver *d)
{
    struct buf source = {0}, text = {0};
    struct mirror m = {d->root, d->selection.mirror, NULL};
    char *path = mirror_map(&m, file->path);
    int err = path ? buf_read_file(&source, file->path) : -ENOMEM;
    if (err == 0) {
        err = rust_text(&text, file, &source, &d->selection);
        if (err == 0 && !holds(path, &text))
            err = buf_write_file(&text, path);
    }
    buf_free(&source);
    buf_free(&text);
    free(path);
    return err;
}

/* The root files of crates with guards, as cargo names them: in the mirror. */
static int write_roots(const struct rust_files *files, const struct driver *d)
{
    struct buf text = {0};
    char *path = paths_join(d->state, "rust/roots");
    for (size_t i = 0; i < files->count; i++) {
        struct mirror m = {d->root, d->selection.mirror, NULL};
        char *copy = files->items[i].is_root ? mirror_map(&m, files->items[i].path) : NULL;
        if (copy)
            buf_printf(&text, "%s\n", copy);
        free(copy);
    }
    int err = path ? buf_write_file(&text, path) : -ENOMEM;
    free(path);
    buf_free(&text);
    return err;
}

/* A crate's files have guards only if the crate is the user's, and its root file could be read. */
static int write_all(struct rust *r, const struct driver *d)
{
    static const char *const dirs[] = {"rust/stamps", "rust/crates"};
    int err = 0;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0] && err == 0; i++) {
        char *dir = paths_join(d->state, dirs[i]);
        err = dir ? paths_make_dirs(dir) : -ENOMEM;
        free(dir);
    }
    for (size_t i = 0; i < r->files.count && err == 0; i++) {
        struct rust_file *file = &r->files.items[i];
        choose(file, &d->selection);
        file->is_root &= !file->is_foreign && !file->error;
        if (!file->error || file->functions.count > 0)
            err = write_file(file, d);
        if (err == -EBADMSG || err == -ENOENT) {
            free(file->error);
            file->error = strdup("the functions that were found do not fit the file");
            err = 0;
        }
    }
    return err ? err : write_roots(&r->files, d);
}

static int say_cargo_failed(const struct driver *d, const struct buf *messages)
{
    const char *text = messages->data ? messages->data : "";
    fputs(text, stderr);
    return say_error("cargo build, which should say the same", "`cargo metadata` failed in %s",
                     d->root);
}

int rust_prepare(struct rust *r, const struct driver *d, const char *dir)
{
    struct rust_crates crates = {0};
    struct buf messages = {0};
    *r = (struct rust){0};
    char *helper = find_helper();
    if (!helper)
        return say_error(
            "install cargo, then `make` in piano's own directory, or a package of piano",
            "piano cannot read Rust: its helper piano-rust is not built");
    say_progress("reading the crates of %s", paths_base(d->root));
    int err = rust_crates_find(&crates, dir, &messages);
    int status = err == -EIO ? say_cargo_failed(d, &messages) : 0;
    if (err == 0)
        err = describe(&r->files, d, helper, &crates, false);
    if (err == 0)
        err = mark_foreign(&r->files, d, helper, &crates);
    mark_roots(&r->files, d, &crates);
    if (err == 0)
        err = write_all(r, d);
    r->is_used = err == 0;
    say_progress_done();
    if (err != 0 && status == 0)
        status = say_error(NULL, "cannot instrument the crates of %s: %s", d->root, strerror(-err));
    rust_crates_release(&crates);
    buf_free(&messages);
    free(helper);
    return status;
}

/* --- the records ------------------------------------------------------------------------------- */

/* The wrapper of rustc leaves a mark for each crate: STATE/rust/crates/NAME, which has the reason if
 * the crate does not compile with guards. */
enum outcome { NOT_COMPILED, FAILED, GUARDED };

static enum outcome outcome_of(const struct driver *d, const char *root, char **reason)
{
    struct mirror m = {d->root, d->selection.mirror, NULL};
    struct buf text = {0};
    char *copy = mirror_map(&m, root);
    char *mark = copy ? rust_mark_path(d->state, copy) : NULL;
    enum outcome found = NOT_COMPILED;
    if (mark && buf_read_file(&text, mark) == 0) {
        found = text.len > 0 ? FAILED : GUARDED;
        if (found == FAILED) {
            free(*reason);
            *reason = strndup(text.data, text.len);
        }
    }
    buf_free(&text);
    free(mark);
    free(copy);
    return found;
}

/* A file may be part of several crates: the best of them counts. */
static enum outcome outcome_of_file(const struct rust_file *file, const struct driver *d,
                                    char **reason)
{
    enum outcome best = NOT_COMPILED;
    for (size_t i = 0; i < file->crate_count; i++) {
        enum outcome one = outcome_of(d, file->crates[i], reason);
        best = one > best ? one : best;
    }
    return best;
}

static void save_file(const struct rust_file *file, const struct driver *d)
{
    char *reason = NULL;
    enum outcome outcome = outcome_of_file(file, d, &reason);
    bool is_failed = outcome == FAILED;
    struct buf stamp = {0}, note = {0};
    const char *name = selection_relative(&d->selection, file->path);
    buf_printf(&stamp, "%s/rust/stamps/", d->state);
    for (const char *p = name; *p; p++)
        buf_putc(&stamp, *p == '/' ? '%' : *p);
    if (file->error)
        buf_printf(&note, "not all of it could be read: %s", file->error);
    else if (is_failed)
        buf_printf(&note, "its crate does not compile with guards: %s", reason);
    struct unit u = {.state = d->state,
                     .source = name,
                     .output = stamp.data,
                     .note = note.data,
                     .failed = is_failed ? "its crate does not compile with guards" : NULL,
                     .functions = &file->functions};
    const struct buf nothing = {0};
    if (!stamp.failed && (outcome != NOT_COMPILED || file->crate_count == 0) &&
        buf_write_file(&nothing, stamp.data) == 0)
        (void)unit_save(&u); /* a missing record must not fail the build */
    buf_free(&stamp);
    buf_free(&note);
    free(reason);
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

void rust_finish(struct rust *r, const struct driver *d)
{
    for (size_t i = 0; r->is_used && i < r->files.count; i++) {
        if (!r->files.items[i].is_foreign)
            save_file(&r->files.items[i], d);
    }
    if (r->is_used)
        rename_links(d);
    rust_files_release(&r->files);
    *r = (struct rust){0};
}
