/* `piano build` in a Cargo project.
 *
 * The guards are put into the files of the mirror before cargo starts, always from the user's own
 * files: cargo then sees by their times which crates to compile again. The helper piano-rust, which
 * has a parser of Rust, finds the functions (src/rust). While cargo runs, exec_hook.c catches rustc
 * (rust_wrap.c) and the linker, which adds the runtime as for C.
 *
 * The files of STATE/rust:
 *   roots        root files of crates with guards, for the wrapper of rustc
 *   conditional  root files of crates with functions that depend on cfg()
 *   functions    what the helper said
 *   dropped      functions that do not compile with a guard (rust_write.c)
 *   crates/      what became of each crate (rust_records.c)
 *   stamps/      one file for each file with a record */
#include "tool/build/rust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/cc_run.h"
#include "tool/build/mirror.h"
#include "tool/build/rust_metadata.h"
#include "tool/build/words.h"
#include "tool/util/child.h"
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

/* --- crates outside of the project -------------------------------------------------------------- */

/* Can a path in the manifest of DIR lead to a directory two above? Those of a workspace's members are
 * elsewhere. */
static bool may_climb(const char *dir)
{
    struct buf text = {0};
    char *path = paths_join(dir, "Cargo.toml");
    bool may = path && buf_read_file(&text, path) == 0 &&
               (strstr(text.data, "../..") || strstr(text.data, "[workspace"));
    buf_free(&text);
    free(path);
    return may;
}

/* How many directories PATH is above ROOT: 1 for a sibling; 0: below it, or with nothing in common,
 * then it is named by an absolute path. */
static unsigned climbs(const char *root, const char *path)
{
    size_t common = 0;
    unsigned count = 0;
    for (size_t i = 0;; i++) {
        bool ends_root = root[i] == '/' || root[i] == '\0';
        bool ends_path = path[i] == '/' || path[i] == '\0';
        if (ends_root && ends_path)
            common = i;
        if (root[i] != path[i] || root[i] == '\0')
            break;
    }
    for (const char *p = root + common; common > 0 && *p; p++)
        count += *p == '/';
    return count;
}

unsigned rust_climbs(const char *dir, const char *root)
{
    char cargo[] = "cargo", metadata[] = "metadata";
    char *command[] = {cargo, metadata, NULL};
    struct rust_crates crates = {0};
    struct buf messages = {0};
    unsigned most = 1;
    if (!may_climb(dir) || !child_in_path("cargo"))
        return 0;
    if (rust_crates_find_members(&crates, dir, command, &messages) == 0) {
        for (size_t i = 0; i < crates.used_count; i++) {
            unsigned count = climbs(root, crates.used[i]);
            most = count > most ? count : most;
        }
    }
    rust_crates_release(&crates);
    buf_free(&messages);
    return most - 1;
}

/* --- finding the functions --------------------------------------------------------------------- */

/* Runs the helper on the crates of one kind. TEXT gets what it said, if it is not NULL. */
static int describe(struct rust_files *files, struct buf *text, const struct driver *d,
                    const char *helper, const struct rust_crates *crates, bool foreign)
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
        if (err == 0 && text)
            buf_put(text, run.out.data ? run.out.data : "", run.out.len);
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
        if (strcmp(file->crates[i].root, root) == 0)
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
    int err = describe(&foreign, NULL, d, helper, crates, true);
    for (size_t i = 0; i < foreign.count; i++) {
        struct rust_file *file = rust_files_find(files, foreign.items[i].path);
        if (file)
            file->is_foreign = true;
    }
    rust_files_release(&foreign);
    return err;
}

/* --- the mirror -------------------------------------------------------------------------------- */

static bool is_conditional(const struct rust_file *file)
{
    bool found = false;
    for (size_t i = 0; i < file->crate_count; i++)
        found |= file->crates[i].condition[0] != '\0';
    for (size_t i = 0; i < file->functions.count; i++)
        found |= file->more[i].condition[0] != '\0';
    return found;
}

static int write_list(const struct driver *d, const char *name, const struct buf *text)
{
    char *path = paths_join(d->state, name);
    int err = !path || text->failed ? -ENOMEM : buf_write_file(text, path);
    free(path);
    return err;
}

static void put_root(struct buf *out, const struct driver *d, const char *root)
{
    struct mirror m = {.root = d->root, .tree = d->selection.mirror};
    char *copy = mirror_map(&m, root);
    buf_printf(out, "%s\n", copy ? copy : "");
    free(copy);
}

/* The root files of crates with guards, as cargo names them: in the mirror. And of the crates with
 * functions that depend on cfg(). */
static int write_roots(const struct rust_files *files, const struct driver *d)
{
    struct buf roots = {0}, conditional = {0};
    for (size_t i = 0; i < files->count; i++) {
        const struct rust_file *file = &files->items[i];
        if (file->is_root)
            put_root(&roots, d, file->path);
        for (size_t k = 0; k < file->crate_count && is_conditional(file); k++)
            put_root(&conditional, d, file->crates[k].root);
    }
    int err = write_list(d, "rust/roots", &roots);
    if (err == 0)
        err = write_list(d, "rust/conditional", &conditional);
    buf_free(&roots);
    buf_free(&conditional);
    return err;
}

static int make_dirs(const struct driver *d)
{
    static const char *const dirs[] = {"rust/stamps", "rust/crates"};
    int err = 0;
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0] && err == 0; i++) {
        char *dir = paths_join(d->state, dirs[i]);
        err = dir ? paths_make_dirs(dir) : -ENOMEM;
        free(dir);
    }
    return err;
}

/* A crate's files have guards only if the crate is the user's, and its root file could be read.
 * TEXT is what the helper said about them. */
static int write_all(struct rust *r, const struct driver *d, const struct buf *text)
{
    int err = make_dirs(d);
    if (err == 0)
        err = rust_dropped_load(&r->dropped, d->state);
    for (size_t i = 0; i < r->files.count && err == 0; i++) {
        struct rust_file *file = &r->files.items[i];
        rust_choose(file, &d->selection, &r->dropped);
        file->is_root &= !file->is_foreign && !file->is_bare && !file->error;
        if (!file->error || file->functions.count > 0)
            err = rust_write(file, &d->selection, false);
        if (err == -EBADMSG || err == -ENOENT) {
            free(file->error);
            file->error = strdup("the functions that were found do not fit the file");
            err = 0;
        }
    }
    if (err == 0)
        err = rust_save(&r->files, text, d->state);
    return err ? err : write_roots(&r->files, d);
}

static int say_cargo_failed(const struct driver *d, const struct buf *messages)
{
    const char *text = messages->data ? messages->data : "";
    fputs(text, stderr);
    return say_error("cargo build, which should say the same", "`cargo metadata` failed in %s",
                     d->root);
}

/* Adds WORD if it is one of the flags that decide what cargo may change or fetch, with its VALUE if
 * that is the next word. */
static void add_flag(struct words *w, const char *word, const char *value)
{
    static const char *const alone[] = {"--locked", "--offline", "--frozen"};
    static const char *const with_value[] = {"--config", "--manifest-path"};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        if (strcmp(word, alone[i]) == 0)
            words_add(w, word);
    }
    for (size_t i = 0; i < sizeof with_value / sizeof with_value[0]; i++) {
        size_t len = strlen(with_value[i]);
        if (strncmp(word, with_value[i], len) != 0 || (word[len] && word[len] != '='))
            continue;
        words_add(w, word);
        if (!word[len] && value)
            words_add(w, value);
    }
}

/* Asks cargo as the user's own command calls it. */
static int find_crates(struct rust_crates *c, const struct driver *d, const char *dir,
                       struct buf *messages)
{
    char *const none[] = {NULL};
    char *const *command = d->command ? d->command : none;
    bool is_cargo = command[0] && strcmp(paths_base(command[0]), "cargo") == 0;
    struct words w = {0};
    words_add(&w, is_cargo ? command[0] : "cargo");
    if (is_cargo && command[1] && command[1][0] == '+')
        words_add(&w, command[1]);
    words_add(&w, "metadata");
    for (size_t i = 1; is_cargo && command[i] && strcmp(command[i], "--") != 0; i++)
        add_flag(&w, command[i], command[i + 1]);
    int err = w.failed ? -ENOMEM : rust_crates_find(c, dir, w.items, messages);
    words_release(&w);
    return err;
}

int rust_prepare(struct rust *r, const struct driver *d, const char *dir)
{
    struct rust_crates crates = {0};
    struct buf messages = {0}, text = {0};
    *r = (struct rust){0};
    char *helper = find_helper();
    if (!helper)
        return say_error(
            "install cargo, then `make` in piano's own directory, or a package of piano",
            "piano cannot read Rust: its helper piano-rust is not built");
    say_progress("reading the crates of %s", paths_base(d->root));
    int err = find_crates(&crates, d, dir, &messages);
    int status = err == -EIO ? say_cargo_failed(d, &messages) : 0;
    if (err == 0)
        err = describe(&r->files, &text, d, helper, &crates, false);
    if (err == 0)
        err = mark_foreign(&r->files, d, helper, &crates);
    mark_roots(&r->files, d, &crates);
    if (err == 0)
        err = write_all(r, d, &text);
    r->is_used = err == 0;
    say_progress_done();
    if (err != 0 && status == 0)
        status = say_error(NULL, "cannot instrument the crates of %s: %s", d->root, strerror(-err));
    rust_crates_release(&crates);
    buf_free(&messages);
    buf_free(&text);
    free(helper);
    return status;
}
