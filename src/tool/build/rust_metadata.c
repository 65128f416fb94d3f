/* Reads `cargo metadata`: the packages without a source are those of the user's own directories. */
#include "tool/build/rust_metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/cc_run.h"
#include "tool/build/words.h"
#include "tool/util/json.h"
#include "tool/util/vec.h"

static int read_kinds(struct json *j, bool *is_foreign)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1) {
        struct json_text kind;
        more = json_string(j, &kind);
        *is_foreign |= json_is(kind, "custom-build") || json_is(kind, "proc-macro");
    }
    return more;
}

static int read_target(struct json *j, struct rust_crate *crate)
{
    bool first = true;
    struct json_text key;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1) {
        char *edition = NULL;
        if (json_is(key, "src_path"))
            err = json_copy_string(j, &crate->root);
        else if (json_is(key, "kind"))
            err = read_kinds(j, &crate->is_foreign);
        else if (json_is(key, "edition"))
            err = json_copy_string(j, &edition);
        else
            err = json_skip(j);
        if (edition)
            crate->is_2024 = atoi(edition) >= 2024;
        free(edition);
    }
    return err;
}

static int read_targets(struct rust_crates *c, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1) {
        struct rust_crate crate = {0};
        more = read_target(j, &crate);
        if (more == 0)
            more = crate.root ? VEC_DOUBLE(c->items, c->count) : json_skip(j);
        if (more == 0)
            c->items[c->count++] = crate;
        else
            free(crate.root);
    }
    return more;
}

static int read_dependency(struct rust_crates *c, struct json *j)
{
    bool first = true;
    struct json_text key;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1) {
        json_space(j);
        bool is_path = json_is(key, "path") && j->at < j->end && *j->at == '"';
        if (!is_path) {
            err = json_skip(j);
            continue;
        }
        char *path = NULL;
        err = json_copy_string(j, &path);
        err = err ? err : VEC_DOUBLE(c->used, c->used_count);
        if (err == 0)
            c->used[c->used_count++] = path;
        else
            free(path);
    }
    return err;
}

static int read_dependencies(struct rust_crates *c, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1)
        more = read_dependency(c, j);
    return more;
}

/* The crates of a package count only if it has no source: those were not fetched. */
static int read_package(struct rust_crates *c, struct json *j)
{
    bool first = true, is_fetched = false;
    size_t before = c->count;
    struct json_text key;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1) {
        json_space(j);
        if (json_is(key, "targets"))
            err = read_targets(c, j);
        else if (json_is(key, "dependencies"))
            err = read_dependencies(c, j);
        else if (json_is(key, "source")) {
            is_fetched = j->at < j->end && *j->at == '"';
            err = json_skip(j);
        } else
            err = json_skip(j);
    }
    for (; is_fetched && c->count > before; c->count--)
        free(c->items[c->count - 1].root);
    return err;
}

static int read_packages(struct rust_crates *c, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1)
        more = read_package(c, j);
    return more;
}

int rust_crates_read(struct rust_crates *c, const struct buf *text)
{
    struct json j = {.at = text->data, .end = text->data + text->len};
    bool first = true;
    struct json_text key;
    int err = json_expect(&j, '{', "expected `{`");
    while (err == 0 && (err = json_member(&j, &first, &key)) == 1) {
        if (json_is(key, "packages"))
            err = read_packages(c, &j);
        else if (json_is(key, "target_directory"))
            err = json_copy_string(&j, &c->target_dir);
        else
            err = json_skip(&j);
    }
    return err == -ENOMEM ? err : err ? -EBADMSG : 0;
}

static int ask(struct rust_crates *c, const char *dir, char *const command[], bool deps,
               struct buf *messages)
{
    struct words w = {0};
    for (size_t i = 0; command[i]; i++)
        words_add(&w, command[i]);
    words_add(&w, "--format-version");
    words_add(&w, "1");
    words_add(&w, deps ? "--all-features" : "--no-deps");
    struct cc_run r = {0};
    int err = w.failed ? -ENOMEM : cc_run_step_in(&r, dir, w.items, CC_KEEP_OUT | CC_KEEP_ERR);
    if (err == 0 && (r.status != 0 || r.out.len == 0))
        err = -EIO;
    if (err == 0)
        err = rust_crates_read(c, &r.out);
    buf_free(messages);
    *messages = r.err;
    r.err = (struct buf){0};
    cc_run_release(&r);
    words_release(&w);
    return err;
}

int rust_crates_find(struct rust_crates *c, const char *dir, char *const command[],
                     struct buf *messages)
{
    *c = (struct rust_crates){0};
    int err = ask(c, dir, command, true, messages);
    if (err != -EIO)
        return err;
    rust_crates_release(c); /* without the index, cargo still knows the workspace */
    return ask(c, dir, command, false, messages);
}

int rust_crates_find_members(struct rust_crates *c, const char *dir, char *const command[],
                             struct buf *messages)
{
    *c = (struct rust_crates){0};
    return ask(c, dir, command, false, messages);
}

void rust_crates_release(struct rust_crates *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].root);
    for (size_t i = 0; i < c->used_count; i++)
        free(c->used[i]);
    free(c->used);
    free(c->items);
    free(c->target_dir);
    *c = (struct rust_crates){0};
}
