/* Reads and changes the words of a command that runs rustc. */
#include "tool/build/rust_command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/paths.h"

static bool is_rust(const char *word)
{
    size_t len = strlen(word);
    return len > 3 && strcmp(word + len - 3, ".rs") == 0;
}

/* One word per line. */
static int add_file(struct rust_command *c, const char *path)
{
    struct buf text = {0};
    int err = buf_read_file(&text, path);
    for (char *rest = text.data; err == 0 && rest && *rest;) {
        const char *line = strsep(&rest, "\n");
        words_add(&c->words, line);
    }
    buf_free(&text);
    c->is_long = true;
    return err;
}

int rust_command_read(struct rust_command *c, char *const argv[])
{
    int err = 0;
    *c = (struct rust_command){0};
    for (size_t i = 0; argv[i] && err == 0; i++) {
        if (i > 0 && argv[i][0] == '@')
            err = add_file(c, argv[i] + 1);
        else
            words_add(&c->words, argv[i]);
    }
    for (size_t i = 1; i < c->words.count; i++) {
        const char *word = c->words.items[i], *before = c->words.items[i - 1];
        bool is_value = before[0] == '-' && !strchr(before, '=') && i > 1;
        if (word[0] != '-' && is_rust(word) && (!is_value || c->root == 0))
            c->root = i;
    }
    return err ? err : c->words.failed ? -ENOMEM : 0;
}

void rust_command_release(struct rust_command *c)
{
    words_release(&c->words);
}

const char *rust_command_root(const struct rust_command *c)
{
    return c->root ? c->words.items[c->root] : NULL;
}

/* The word I is FLAG or begins with FLAG=. */
static bool is_flag(const struct rust_command *c, size_t i, const char *flag)
{
    size_t len = strlen(flag);
    const char *word = c->words.items[i];
    return strncmp(word, flag, len) == 0 && (word[len] == '\0' || word[len] == '=');
}

bool rust_command_has(const struct rust_command *c, const char *flag)
{
    for (size_t i = 1; i < c->words.count; i++) {
        if (is_flag(c, i, flag))
            return true;
    }
    return false;
}

const char *rust_command_value(const struct rust_command *c, const char *flag)
{
    size_t len = strlen(flag);
    for (size_t i = 1; i < c->words.count; i++) {
        if (is_flag(c, i, flag))
            return c->words.items[i][len] ? c->words.items[i] + len + 1 : c->words.items[i + 1];
    }
    return NULL;
}

/* `-C NAME=VALUE`, as one word or two. Returns VALUE, or NULL. */
static const char *codegen_value(const struct rust_command *c, size_t i, const char *name)
{
    size_t len = strlen(name);
    const char *word = c->words.items[i];
    if (strcmp(word, "-C") == 0 && i + 1 < c->words.count)
        word = c->words.items[i + 1];
    else if (strncmp(word, "-C", 2) == 0)
        word += 2;
    else
        return NULL;
    return strncmp(word, name, len) == 0 && word[len] == '=' ? word + len + 1 : NULL;
}

/* Does the word I, with the one behind it, say what to write? */
static bool is_product(const struct rust_command *c, size_t i)
{
    return is_flag(c, i, "--emit") || codegen_value(c, i, "incremental");
}

void rust_command_words(struct words *w, const struct rust_command *c, enum rust_command_kind kind,
                        const char *root)
{
    for (size_t i = 0; i < c->words.count; i++) {
        const char *word = c->words.items[i];
        if (kind == RUST_COMMAND_CHECK && i > 0 && is_product(c, i)) {
            i += strcmp(word, "--emit") == 0 || strcmp(word, "-C") == 0;
            continue;
        }
        words_add(w, root && i == c->root && word[0] == '/' ? root : word);
    }
}

int rust_command_pack(struct words *w, const struct rust_command *c, const char *state)
{
    struct words packed = {0};
    struct buf text = {0}, path = {0};
    if (!c->is_long)
        return 0;
    buf_printf(&path, "%s/rust/words-%d", state, (int)getpid());
    for (size_t i = 1; i < w->count; i++)
        buf_printf(&text, "%s\n", w->items[i]);
    int err = path.failed || text.failed ? -ENOMEM : buf_write_file(&text, path.data);
    if (err == 0) {
        words_add(&packed, w->items[0]);
        words_addf(&packed, "@%s", path.data);
        words_release(w);
        *w = packed;
        err = w->failed ? -ENOMEM : 0;
    }
    buf_free(&text);
    buf_free(&path);
    return err;
}

void rust_command_unpack(const struct words *w, const struct rust_command *c)
{
    if (c->is_long && w->count == 2 && w->items[1][0] == '@')
        unlink(w->items[1] + 1);
}

/* OUT_DIR/NAME-HASH.d; malloc'd, or NULL. */
static char *dependencies_path(const struct rust_command *c)
{
    const char *dir = rust_command_value(c, "--out-dir");
    const char *name = rust_command_value(c, "--crate-name");
    const char *extra = NULL;
    for (size_t i = 1; i < c->words.count && !extra; i++)
        extra = codegen_value(c, i, "extra-filename");
    struct buf path = {0};
    if (dir && name)
        buf_printf(&path, "%s/%s%s.d", dir, name, extra ? extra : "");
    if (!path.failed)
        return path.data;
    buf_free(&path);
    return NULL;
}

/* Appends PATH as in the list: a blank has a backslash before it. */
static void put_escaped(struct buf *out, const char *path)
{
    for (; *path; path++) {
        if (*path == ' ')
            buf_putc(out, '\\');
        buf_putc(out, *path);
    }
    buf_putc(out, '/');
}

void rust_command_fix_dependencies(const struct rust_command *c, const char *root,
                                   const char *mirror)
{
    struct buf text = {0}, out = {0}, from = {0}, to = {0};
    if (c->root == 0 || c->words.items[c->root][0] != '/')
        return;
    char *path = dependencies_path(c);
    put_escaped(&from, root);
    put_escaped(&to, mirror);
    if (path && !from.failed && !to.failed && buf_read_file(&text, path) == 0) {
        const char *at = text.data;
        for (const char *hit; (hit = strstr(at, from.data)); at = hit + from.len) {
            bool is_state = strncmp(hit + from.len, ".piano/", 7) == 0;
            buf_put(&out, at, (size_t)(hit - at));
            buf_puts(&out, is_state ? from.data : to.data);
        }
        buf_puts(&out, at);
        if (!out.failed)
            (void)buf_write_file(&out, path);
    }
    buf_free(&text);
    buf_free(&out);
    buf_free(&from);
    buf_free(&to);
    free(path);
}
