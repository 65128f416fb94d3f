/* Writes Rust files with guards into the mirror: `piano build` before cargo starts, and the wrapper of
 * rustc when a function does not compile with a guard.
 *
 * STATE/rust/dropped has one line for each such function. It holds as long as the text of the
 * function's file is the same. */
#include "tool/build/rust_write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/build/mirror.h"
#include "tool/build/rust_cfg.h"
#include "tool/build/unit.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

enum { MAX_FIELDS = 5 };

static int add_line(struct rust_dropped *d, char *line)
{
    char *fields[MAX_FIELDS];
    for (size_t i = 0; i < MAX_FIELDS; i++) {
        fields[i] = strsep(&line, "\t");
        if (!fields[i])
            return 0;
    }
    if (VEC_DOUBLE(d->items, d->count) != 0)
        return -ENOMEM;
    d->items[d->count++] = (struct rust_drop){fields[0], fields[1], fields[3], fields[4],
                                              (unsigned)strtoul(fields[2], NULL, 10)};
    return 0;
}

int rust_dropped_load(struct rust_dropped *d, const char *state)
{
    char *path = paths_join(state, "rust/dropped");
    *d = (struct rust_dropped){0};
    int err = path ? buf_read_own_file(&d->text, path) : -ENOMEM;
    free(path);
    if (err == -ENOENT)
        return 0;
    for (char *rest = d->text.data; rest && *rest && err == 0;)
        err = add_line(d, strsep(&rest, "\n"));
    return err;
}

void rust_dropped_release(struct rust_dropped *d)
{
    free(d->items);
    buf_free(&d->text);
    *d = (struct rust_dropped){0};
}

/* Of the text at PATH, as 16 digits. */
static int hash_file(const char *path, char out[17])
{
    struct buf text = {0};
    int err = buf_read_file(&text, path);
    if (err == 0)
        snprintf(out, 17, "%016llx", (unsigned long long)unit_hash(text.data, text.len));
    buf_free(&text);
    return err;
}

static void put_field(struct buf *out, const char *text, char end)
{
    for (; *text; text++)
        buf_putc(out, (unsigned char)*text < ' ' ? ' ' : *text);
    buf_putc(out, end);
}

int rust_dropped_add(const char *state, const struct rust_file *file, const struct analyse_fn *fn,
                     const char *reason, struct buf *added)
{
    struct buf line = {0};
    char hash[17];
    char *path = paths_join(state, "rust/dropped");
    int err = path ? hash_file(file->path, hash) : -ENOMEM;
    if (err == 0) {
        put_field(&line, file->path, '\t');
        buf_printf(&line, "%s\t%u\t", hash, fn->line);
        put_field(&line, fn->qualified, '\t');
        buf_puts(&line, "does not compile with a guard: ");
        put_field(&line, reason, '\n');
        err = line.failed ? -ENOMEM : 0;
    }
    int fd = err == 0 ? piano__owner_create(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (err == 0)
        err = fd < 0 ? fd : write(fd, line.data, line.len) == (ssize_t)line.len ? 0 : -EIO;
    if (fd >= 0)
        close(fd);
    if (err == 0)
        buf_put(added, line.data, line.len);
    buf_free(&line);
    free(path);
    return err;
}

/* TEXT without the lines that are in REMOVED. */
static void put_others(struct buf *out, const char *text, const char *removed)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        char *line = strndup(text, len);
        out->failed |= !line;
        if (line && !rust_has_line(removed, line))
            buf_printf(out, "%s\n", line);
        free(line);
        text += len + (text[len] == '\n');
    }
}

int rust_dropped_remove(const char *state, const struct buf *added)
{
    struct buf text = {0}, rest = {0};
    char *path = paths_join(state, "rust/dropped");
    int err = path ? buf_read_own_file(&text, path) : -ENOMEM;
    if (err == 0) {
        put_others(&rest, text.data, added->data ? added->data : "");
        err = rest.failed ? -ENOMEM : buf_write_file(&rest, path);
    }
    buf_free(&text);
    buf_free(&rest);
    free(path);
    return err;
}

/* --- choosing ---------------------------------------------------------------------------------- */

static const char *drop_reason(const struct rust_dropped *d, const struct rust_file *file,
                               const struct analyse_fn *fn, const char *source)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct rust_drop *drop = &d->items[i];
        if (drop->line == fn->line && strcmp(drop->name, fn->qualified) == 0 &&
            strcmp(drop->path, file->path) == 0 && strcmp(drop->source, source) == 0)
            return drop->reason;
    }
    return NULL;
}

static bool has_drop(const struct rust_dropped *d, const char *path)
{
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->items[i].path, path) == 0)
            return true;
    }
    return false;
}

void rust_choose(struct rust_file *file, const struct selection *s,
                 const struct rust_dropped *dropped)
{
    char source[17] = "";
    if (has_drop(dropped, file->path))
        (void)hash_file(file->path, source);
    for (size_t i = 0; i < file->functions.count; i++) {
        struct analyse_fn *fn = &file->functions.fns[i];
        bool wanted = !file->is_foreign && selection_wants(s, fn->bare, fn->qualified, fn->file);
        if (file->crate_count == 0 || file->is_bare)
            fn->skip = "a crate without std";
        if (!fn->skip && *source)
            fn->skip = drop_reason(dropped, file, fn, source);
        fn->chosen = wanted && !fn->skip;
        if (!wanted)
            fn->skip = NULL;
    }
}

/* --- writing ----------------------------------------------------------------------------------- */

static bool holds(const char *path, const struct buf *text)
{
    struct buf now = {0};
    bool same = buf_read_file(&now, path) == 0 && now.len == text->len &&
                (text->len == 0 || memcmp(now.data, text->data, text->len) == 0);
    buf_free(&now);
    return same;
}

/* Cargo compares times to find what it has to compile again. */
static int replace(const char *path, const struct buf *text, bool keep_time)
{
    struct stat before;
    bool is_known = keep_time && stat(path, &before) == 0;
    int err = buf_write_file(text, path);
    if (err != 0 || !is_known)
        return err;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, before.st_mtim};
    return utimensat(AT_FDCWD, path, times, 0) == 0 ? 0 : -errno;
}

int rust_write(const struct rust_file *file, const struct selection *s, bool keep_time)
{
    struct buf source = {0}, text = {0};
    struct mirror m = {.root = s->root, .tree = s->mirror};
    char *path = mirror_map(&m, file->path);
    int err = path ? buf_read_file(&source, file->path) : -ENOMEM;
    if (err == 0) {
        err = rust_text(&text, file, &source, s);
        if (err == 0 && !holds(path, &text))
            err = replace(path, &text, keep_time);
    }
    buf_free(&source);
    buf_free(&text);
    free(path);
    return err;
}

/* --- for the wrapper of rustc ------------------------------------------------------------------ */

int rust_save(const struct rust_files *f, const struct buf *text, const char *state)
{
    struct buf all = {0};
    char *path = paths_join(state, "rust/functions");
    buf_put(&all, text->data ? text->data : "", text->len);
    rust_files_put_flags(&all, f);
    int err = !path || all.failed ? -ENOMEM : buf_write_file(&all, path);
    buf_free(&all);
    free(path);
    return err;
}

int rust_load(struct rust_files *f, const char *state, const struct selection *s)
{
    struct buf text = {0};
    char *path = paths_join(state, "rust/functions");
    *f = (struct rust_files){0};
    int err = path ? buf_read_own_file(&text, path) : -ENOMEM;
    free(path);
    if (err != 0) {
        buf_free(&text);
        return err;
    }
    return rust_files_read(f, text.data, s->root);
}
