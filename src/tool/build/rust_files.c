/* Reads what the helper piano-rust found in the user's crates. src/rust/src/main.rs has the format.
 * The lines are cut in place: names and edits point into the text.
 *
 * `piano build` keeps this text for the wrapper of rustc (rust_write.c), with a line for each file that
 * has flags: `flags PATH FLAGS`. FLAGS are letters: r root, n edition 2024, f foreign. */
#include "tool/build/rust_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

enum { MAX_FIELDS = 9 };

static size_t split(char *line, char *fields[MAX_FIELDS])
{
    static char none[] = "";
    size_t count = 0;
    for (size_t i = 0; i < MAX_FIELDS; i++)
        fields[i] = none;
    while (line && count < MAX_FIELDS)
        fields[count++] = strsep(&line, "\t");
    return count;
}

struct rust_file *rust_files_find(const struct rust_files *f, const char *path)
{
    for (size_t i = 0; i < f->count; i++) {
        if (strcmp(f->items[i].path, path) == 0)
            return &f->items[i];
    }
    return NULL;
}

static int add_file(struct rust_files *f, const char *path)
{
    if (VEC_DOUBLE(f->items, f->count) != 0)
        return -ENOMEM;
    struct rust_file *file = &f->items[f->count];
    *file = (struct rust_file){.path = strdup(path)};
    f->count += file->path != NULL;
    return file->path ? 0 : -ENOMEM;
}

/* PATH relative to ROOT, if it is below it. */
static const char *relative(const char *path, const char *root)
{
    size_t len = strlen(root);
    return strncmp(path, root, len) == 0 && path[len] == '/' ? path + len + 1 : path;
}

static int add_fn(struct rust_file *file, char *const fields[MAX_FIELDS], const char *root)
{
    struct analyse *a = &file->functions;
    size_t count = a->count;
    if (VEC_DOUBLE(file->more, count) != 0 || VEC_DOUBLE(a->fns, a->count) != 0)
        return -ENOMEM;
    file->more[a->count] = (struct rust_fn){.depth = (unsigned)strtoul(fields[5], NULL, 10),
                                            .last = (unsigned)strtoul(fields[8], NULL, 10),
                                            .edits = fields[6],
                                            .condition = fields[7]};
    struct analyse_fn *fn = &a->fns[a->count++];
    *fn = (struct analyse_fn){.qualified = strdup(fields[1]),
                              .bare = strdup(fields[2]),
                              .file = strdup(relative(file->path, root)),
                              .line = (unsigned)strtoul(fields[3], NULL, 10),
                              .skip = *fields[4] ? fields[4] : NULL};
    return fn->qualified && fn->bare && fn->file ? 0 : -ENOMEM;
}

static int add_error(struct rust_files *f, char *const fields[MAX_FIELDS])
{
    struct rust_file *file = rust_files_find(f, fields[1]);
    int err = file ? 0 : add_file(f, fields[1]);
    struct buf text = {0};
    if (err != 0)
        return err;
    file = rust_files_find(f, fields[1]);
    buf_printf(&text, "line %s: %s", fields[2], fields[3]);
    free(file->error);
    file->error = text.data;
    return text.failed ? -ENOMEM : 0;
}

/* A file of several crates is described once for each of them: its functions count once. */
struct reader {
    struct rust_files *files;
    const char *root;
    const char *crate;      /* root file of the current crate */
    bool is_bare;           /* it has no std */
    struct rust_file *file; /* the current one; NULL: known already */
};

static int begin_file(struct reader *r, const char *path, const char *condition)
{
    struct rust_file *file = rust_files_find(r->files, path);
    bool is_known = file != NULL;
    r->file = NULL;
    if (!is_known) {
        int err = add_file(r->files, path);
        if (err != 0)
            return err;
        file = &r->files->items[r->files->count - 1];
        r->file = file;
    }
    file->is_bare |= r->is_bare;
    if (!r->crate || r->is_bare)
        return 0;
    if (VEC_DOUBLE(file->crates, file->crate_count) != 0)
        return -ENOMEM;
    file->crates[file->crate_count++] = (struct rust_part){r->crate, condition};
    return 0;
}

static void read_flags(struct rust_files *f, const char *path, const char *flags)
{
    struct rust_file *file = rust_files_find(f, path);
    if (!file)
        return;
    file->is_root = strchr(flags, 'r') != NULL;
    file->is_2024 = strchr(flags, 'n') != NULL;
    file->is_foreign = strchr(flags, 'f') != NULL;
}

void rust_files_put_flags(struct buf *out, const struct rust_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct rust_file *file = &f->items[i];
        buf_printf(out, "flags\t%s\t%s%s%s\n", file->path, file->is_root ? "r" : "",
                   file->is_2024 ? "n" : "", file->is_foreign ? "f" : "");
    }
}

static int read_line(struct reader *r, char *line)
{
    char *fields[MAX_FIELDS];
    split(line, fields);
    if (strcmp(fields[0], "crate") == 0) {
        r->crate = fields[1];
        r->is_bare = strcmp(fields[2], "std") != 0;
    }
    if (strcmp(fields[0], "file") == 0)
        return begin_file(r, fields[1], fields[2]);
    if (strcmp(fields[0], "flags") == 0)
        read_flags(r->files, fields[1], fields[2]);
    if (strcmp(fields[0], "fn") == 0)
        return r->file ? add_fn(r->file, fields, r->root) : 0;
    if (strcmp(fields[0], "alloc") == 0 && r->file) {
        r->file->allocator = fields[1];
        r->file->allocator_if = fields[2];
    }
    if (strcmp(fields[0], "error") == 0)
        return add_error(r->files, fields);
    return 0;
}

int rust_files_read(struct rust_files *f, char *text, const char *root)
{
    struct reader r = {.files = f, .root = root};
    int err = 0;
    f->text = text;
    for (char *rest = text; rest && *rest && err == 0;)
        err = read_line(&r, strsep(&rest, "\n"));
    return err;
}

void rust_files_release(struct rust_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        analyse_release(&f->items[i].functions);
        free(f->items[i].path);
        free(f->items[i].more);
        free(f->items[i].error);
        free(f->items[i].crates);
    }
    free(f->items);
    free(f->text);
    *f = (struct rust_files){0};
}
