/* The wrapper of rustc.
 *
 * A crate whose root file has guards is compiled with two more flags: no lint of the user's may
 * forbid them, and paths in messages and debug information are those of the user's own tree. If it
 * does not compile, either the user's own files do not compile: then rustc says so about them. Or the
 * guards are taken out of the functions that rustc names, and it is compiled again. If that does not
 * help, the user's own files are compiled, in the user's own directory, so that `file!()` stays. All
 * other commands run unchanged.
 *
 * Cargo reads in the list of dependencies, which rustc writes, when it has to compile a crate again.
 * Relative names in it are those of the mirror, whichever files were compiled. */
#include "tool/build/rust.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/cc_run.h"
#include "tool/build/rust_cfg.h"
#include "tool/build/rust_command.h"
#include "tool/build/rust_errors.h"
#include "tool/build/rust_stream.h"
#include "tool/build/unit.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { STATUS_INTERRUPTED = 130, MAX_ROUNDS = 6 };

struct crate {
    const char *state;
    struct selection selection;
    struct rust_command command;
    char *root; /* the root file, absolute, in the mirror */
};

bool rust_is_compiler(const char *program)
{
    const char *name = paths_base(program);
    const char *own = getenv("RUSTC");
    bool is_it = strcmp(name, "rustc") == 0 ||
                 (strncmp(name, "rustc-", 6) == 0 && isdigit((unsigned char)name[6]));
    return is_it || (own && *own && strcmp(paths_base(own), name) == 0);
}

/* Is the root file of C in STATE/rust/NAME? */
static bool is_listed(const struct crate *c, const char *name)
{
    struct buf path = {0}, roots = {0};
    buf_printf(&path, "%s/rust/%s", c->state, name);
    bool found = !path.failed && buf_read_file(&roots, path.data) == 0 && roots.data &&
                 rust_has_line(roots.data, c->root);
    buf_free(&roots);
    buf_free(&path);
    return found;
}

/* Returns whether the root file has guards. */
static bool find_root(struct crate *c)
{
    const char *word = rust_command_root(&c->command);
    if (!word)
        return false;
    char *cwd = getcwd(NULL, 0);
    c->root = word[0] == '/' ? strdup(word) : cwd ? paths_join(cwd, word) : NULL;
    free(cwd);
    return c->root && is_listed(c, "roots");
}

char *rust_mark_path(const char *state, const char *root, bool is_test)
{
    struct buf path = {0};
    buf_printf(&path, "%s/rust/crates/%016llx%s", state,
               (unsigned long long)unit_hash(root, strlen(root)), is_test ? ".test" : "");
    if (!path.failed)
        return path.data;
    buf_free(&path);
    return NULL;
}

/* What rustc prints is JSON or text; the first error of either begins like this. */
static void put_error(struct buf *line, const struct buf *messages)
{
    const char *text = messages->data ? messages->data : "";
    const char *error = strstr(text, "\"message\":\"");
    error = error ? error + 11 : text;
    size_t len = strcspn(error, "\"\n");
    buf_put(line, len > 0 ? error : "no message", len > 0 ? len : 10);
}

/* The conditions of cfg() that hold for the crate, if it has functions that depend on one. */
static void put_conditions(struct buf *out, const struct crate *c)
{
    struct words w = {0};
    struct cc_run r = {0};
    if (!is_listed(c, "conditional"))
        return;
    rust_command_words(&w, &c->command, RUST_COMMAND_AS_IS, NULL);
    words_add(&w, "--print");
    words_add(&w, "cfg");
    if (!w.failed && rust_command_pack(&w, &c->command, c->state) == 0 &&
        cc_run_step(&r, w.items, CC_KEEP_OUT | CC_KEEP_ERR) == 0 && r.status == 0)
        buf_puts(out, r.out.data ? r.out.data : "");
    rust_command_unpack(&w, &c->command);
    cc_run_release(&r);
    words_release(&w);
}

/* ERROR: what rustc printed if the crate does not compile with guards, else NULL. */
static void note_outcome(const struct crate *c, const struct buf *error)
{
    struct buf text = {0};
    char *path = rust_mark_path(c->state, c->root, rust_command_has(&c->command, "--test"));
    if (error)
        put_error(&text, error);
    buf_putc(&text, '\n');
    put_conditions(&text, c);
    if (path && buf_write_file(&text, path) != 0)
        say("the state of a crate could not be written to %s", path);
    free(path);
    buf_free(&text);
}

static int run_guarded(const struct crate *c, struct cc_run *r)
{
    struct words w = {0};
    rust_command_words(&w, &c->command, RUST_COMMAND_AS_IS, NULL);
    if (!rust_command_has(&c->command, "--cap-lints")) {
        words_add(&w, "--cap-lints");
        words_add(&w, "allow");
    }
    words_add(&w, "--remap-path-prefix");
    words_addf(&w, "%s=%s", c->selection.mirror, c->selection.root);
    int err = w.failed ? -ENOMEM : rust_command_pack(&w, &c->command, c->state);
    err = err ? err : rust_stream_run(r, w.items);
    rust_command_unpack(&w, &c->command);
    words_release(&w);
    return err;
}

/* PATH of the mirror in the user's own tree; malloc'd. */
static char *user_path(const struct crate *c, const char *path)
{
    size_t len = strlen(c->selection.mirror);
    bool is_below =
        strncmp(path, c->selection.mirror, len) == 0 && (path[len] == '/' || path[len] == '\0');
    const char *rest = is_below && path[len] ? path + len + 1 : "";
    return is_below ? paths_join(c->selection.root, rest) : strdup(path);
}

/* Compiles the user's own files. PRODUCT: keeps all messages, and writes only this file; NULL: as the
 * command says. */
static int run_plain(const struct crate *c, struct cc_run *r, const char *product)
{
    struct words w = {0};
    char *cwd = getcwd(NULL, 0);
    char *dir = cwd ? user_path(c, cwd) : NULL;
    char *root = user_path(c, c->root);
    int err = dir && root ? 0 : -ENOMEM;
    rust_command_words(&w, &c->command, product ? RUST_COMMAND_CHECK : RUST_COMMAND_AS_IS, root);
    if (product)
        words_addf(&w, "--emit=metadata=%s", product);
    if (err == 0)
        err = w.failed ? -ENOMEM : rust_command_pack(&w, &c->command, c->state);
    if (err == 0)
        err = cc_run_step_in(r, dir, w.items, product ? CC_KEEP_ERR : 0);
    if (err == 0 && r->status == 0 && !product)
        rust_command_fix_dependencies(&c->command, c->selection.root, c->selection.mirror);
    rust_command_unpack(&w, &c->command);
    words_release(&w);
    free(root);
    free(dir);
    free(cwd);
    return err;
}

/* Do the user's own files fail to compile? Then shows why. */
static bool is_users_own_error(const struct crate *c, int *status)
{
    struct cc_run r = {0};
    struct buf product = {0};
    buf_printf(&product, "%s/rust/check-%d", c->state, (int)getpid());
    int err = product.failed ? -ENOMEM : run_plain(c, &r, product.data);
    bool is_own = err == 0 && r.status != 0;
    if (is_own && r.err.data)
        fputs(r.err.data, stderr);
    *status = err == -EINTR ? STATUS_INTERRUPTED : r.status;
    if (!product.failed)
        unlink(product.data);
    buf_free(&product);
    cc_run_release(&r);
    return is_own || err == -EINTR;
}

/* Compiles with fewer and fewer guards. R has what rustc said about all of them. 0 or negative
 * errno; then R has what it said last. If that does not help, the guards are not to blame alone. */
static int drop_guards(const struct crate *c, struct cc_run *r)
{
    struct buf added = {0};
    int err = 0;
    for (int round = 0; round < MAX_ROUNDS && err == 0 && r->status != 0; round++) {
        if (rust_errors_drop(c->state, &c->selection, &r->err, &added) <= 0)
            break;
        cc_run_release(r);
        err = run_guarded(c, r);
    }
    if (err != 0 || r->status != 0)
        rust_errors_undo(c->state, &c->selection, &added);
    buf_free(&added);
    return err;
}

static int compile(const struct crate *c)
{
    struct cc_run r = {0};
    int err = run_guarded(c, &r), status = 0;
    if (err == 0 && r.status != 0 && is_users_own_error(c, &status)) {
        cc_run_release(&r);
        return status;
    }
    if (err == 0 && r.status != 0)
        err = drop_guards(c, &r);
    status = r.status;
    if (err == 0 && status == 0) {
        note_outcome(c, NULL);
        fputs(r.err.data ? r.err.data : "", stderr);
    } else if (err != -EINTR) {
        struct cc_run plain = {0};
        err = run_plain(c, &plain, NULL);
        status = plain.status;
        if (err == 0 && status == 0)
            note_outcome(c, &r.err);
        cc_run_release(&plain);
    }
    cc_run_release(&r);
    return err == -EINTR ? STATUS_INTERRUPTED : err ? EXIT_FAILED : status;
}

/* A procedural macro runs in the compiler, a build script in the build: the linker gives them no
 * runtime. */
static bool is_for_host(const struct rust_command *c)
{
    const char *type = rust_command_value(c, "--crate-type");
    const char *name = rust_command_value(c, "--crate-name");
    return (type && strcmp(type, "proc-macro") == 0) ||
           (name && strncmp(name, "build_script_", 13) == 0);
}

int rust_wrap(const char *state, char *const argv[])
{
    struct crate c = {.state = state};
    char *path = paths_join(state, "selection");
    setenv("PIANO_RUSTC", "1", 1); /* rustup's rustc starts another one */
    int status = -1;
    bool is_read = path && rust_command_read(&c.command, argv) == 0;
    if (is_read && is_for_host(&c.command))
        setenv(RUST_HOST, "1", 1);
    if (is_read && find_root(&c) && selection_load(&c.selection, path) == 0 && c.selection.mirror &&
        c.selection.root)
        status = compile(&c);
    selection_release(&c.selection);
    rust_command_release(&c.command);
    free(c.root);
    free(path);
    return status >= 0 ? status : cc_run_exec(argv);
}
