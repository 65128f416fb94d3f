/* The wrapper of rustc.
 *
 * A crate whose root file has guards is compiled with two more flags: no lint of the user's may
 * forbid them, and paths in messages and debug information are those of the user's own tree. If it
 * does not compile, the user's own files are compiled instead, and `piano build` says so. All other
 * commands run unchanged. */
#include "tool/build/rust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/cc_run.h"
#include "tool/build/words.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

enum { STATUS_INTERRUPTED = 130 };

struct crate {
    const char *state;
    struct selection selection;
    size_t source; /* index of the root file in argv */
    char *root;    /* the root file, absolute, in the mirror */
};

static bool is_rust(const char *word)
{
    size_t len = strlen(word);
    return len > 3 && strcmp(word + len - 3, ".rs") == 0;
}

/* Is LINE a line of TEXT? */
static bool has_line(const struct buf *text, const char *line)
{
    size_t len = strlen(line);
    for (const char *p = text->data; p && (p = strstr(p, line)); p += len) {
        if ((p == text->data || p[-1] == '\n') && p[len] == '\n')
            return true;
    }
    return false;
}

/* Finds the root file among the arguments. Returns whether it has guards. */
static bool find_root(struct crate *c, char *const argv[])
{
    for (size_t i = 1; argv[i]; i++) {
        bool is_value = argv[i - 1][0] == '-' && !strchr(argv[i - 1], '=') && i > 1;
        if (argv[i][0] != '-' && is_rust(argv[i]) && (!is_value || c->source == 0))
            c->source = i;
    }
    if (c->source == 0)
        return false;
    char *cwd = getcwd(NULL, 0);
    const char *word = argv[c->source];
    c->root = word[0] == '/' ? strdup(word) : cwd ? paths_join(cwd, word) : NULL;
    free(cwd);
    struct buf roots = {0};
    char *path = paths_join(c->state, "rust/roots");
    bool found = path && c->root && buf_read_file(&roots, path) == 0 && has_line(&roots, c->root);
    buf_free(&roots);
    free(path);
    return found;
}

static bool caps_lints(char *const argv[])
{
    for (size_t i = 1; argv[i]; i++) {
        if (strncmp(argv[i], "--cap-lints", 11) == 0)
            return true;
    }
    return false;
}

static void add_flags(struct words *w, const struct crate *c, char *const argv[])
{
    if (!caps_lints(argv)) {
        words_add(w, "--cap-lints");
        words_add(w, "allow");
    }
    words_add(w, "--remap-path-prefix");
    words_addf(w, "%s=%s", c->selection.mirror, c->selection.root);
}

char *rust_mark_path(const char *state, const char *root)
{
    struct buf path = {0};
    buf_printf(&path, "%s/rust/crates/", state);
    for (const char *p = root; *p; p++)
        buf_putc(&path, *p == '/' ? '%' : *p);
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

/* ERROR: what rustc printed if the crate does not compile with guards, else NULL. */
static void note_outcome(const struct crate *c, const struct buf *error)
{
    struct buf text = {0};
    char *path = rust_mark_path(c->state, c->root);
    if (error)
        put_error(&text, error);
    if (path && buf_write_file(&text, path) != 0)
        say("the state of a crate could not be written to %s", path);
    free(path);
    buf_free(&text);
}

/* The command for the user's own files. */
static void put_plain(struct words *w, const struct crate *c, char *const argv[])
{
    for (size_t i = 0; argv[i]; i++) {
        if (i == c->source)
            words_addf(w, "%s%s", c->selection.root, c->root + strlen(c->selection.mirror));
        else
            words_add(w, argv[i]);
    }
}

static int compile(struct crate *c, char *const argv[])
{
    struct words guarded = {0}, plain = {0};
    struct cc_run r = {0};
    for (size_t i = 0; argv[i]; i++)
        words_add(&guarded, argv[i]);
    add_flags(&guarded, c, argv);
    put_plain(&plain, c, argv);
    int err =
        guarded.failed || plain.failed ? -ENOMEM : cc_run_step(&r, guarded.items, CC_KEEP_ERR);
    int status = r.status;
    if (err == 0 && status == 0) {
        note_outcome(c, NULL);
        if (r.err.data)
            fputs(r.err.data, stderr);
    } else if (err != -EINTR) {
        struct cc_run again = {0};
        err = cc_run_step(&again, plain.items ? plain.items : argv, 0);
        status = again.status;
        if (err == 0 && status == 0)
            note_outcome(c, &r.err);
        cc_run_release(&again);
    }
    cc_run_release(&r);
    words_release(&guarded);
    words_release(&plain);
    return err == -EINTR ? STATUS_INTERRUPTED : err ? EXIT_FAILED : status;
}

int rust_wrap(const char *state, char *const argv[])
{
    struct crate c = {.state = state};
    char *path = paths_join(state, "selection");
    setenv("PIANO_RUSTC", "1", 1); /* rustup's rustc starts another one */
    int status = -1;
    if (path && find_root(&c, argv) && selection_load(&c.selection, path) == 0 &&
        c.selection.mirror && c.selection.root)
        status = compile(&c, argv);
    selection_release(&c.selection);
    free(c.root);
    free(path);
    return status >= 0 ? status : cc_run_exec(argv);
}
