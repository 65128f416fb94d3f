/* The user's choice of functions.
 *
 * `piano build` fills a `struct selection` from its flags and saves it in the state directory. Each
 * compiler wrapper loads it and calls `selection_wants` for every function body it finds. `piano
 * build` calls it again for the functions recorded by the last build, to find the units that a
 * changed selection affects. So the answer depends only on the arguments.
 *
 * `--fn`, `--file` and `--dir` each add functions (a union); `--skip` removes functions. The
 * function named by `--frame` is added too unless it is skipped, because without it there would be
 * no frames. With none of the three that add, everything in the project is chosen: all files below
 * the root, and files elsewhere unless they are where systems keep third-party headers.
 *
 * The file is text, one `key value` per line in any order, so that it can be read with `cat`. */
#include "tool/build/selection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/vec.h"

int selection_add(struct selection_list *list, const char *value)
{
    char *copy = VEC_DOUBLE(list->items, list->count) == 0 ? strdup(value) : NULL;
    if (!copy)
        return -ENOMEM;
    list->items[list->count++] = copy;
    return 0;
}

static void list_release(struct selection_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct selection_list){0};
}

void selection_release(struct selection *s)
{
    free(s->root);
    free(s->mirror);
    free(s->runs);
    free(s->lib);
    free(s->frame);
    list_release(&s->fns);
    list_release(&s->files);
    list_release(&s->dirs);
    list_release(&s->skips);
    *s = (struct selection){0};
}

static int set_string(char **where, const char *value)
{
    free(*where);
    *where = strdup(value);
    return *where ? 0 : -ENOMEM;
}

static int take_pair(struct selection *s, const char *key, const char *value)
{
    const struct {
        const char *key;
        char **one;
        struct selection_list *many;
    } known[] = {
        {"root", &s->root, NULL},  {"mirror", &s->mirror, NULL}, {"runs", &s->runs, NULL},
        {"lib", &s->lib, NULL},    {"frame", &s->frame, NULL},   {"fn", NULL, &s->fns},
        {"file", NULL, &s->files}, {"dir", NULL, &s->dirs},      {"skip", NULL, &s->skips},
    };
    if (strcmp(key, "exact") == 0)
        s->exact = strcmp(value, "0") != 0;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(key, known[i].key) == 0)
            return known[i].one ? set_string(known[i].one, value)
                                : selection_add(known[i].many, value);
    }
    return 0;
}

int selection_load(struct selection *s, const char *path)
{
    struct buf text = {0};
    *s = (struct selection){0};
    int err = buf_read_own_file(&text, path);
    char *rest = text.data;
    while (err == 0 && rest && *rest) {
        char *line = strsep(&rest, "\n");
        char *space = strchr(line, ' ');
        if (*line == '\0')
            continue;
        if (!space) {
            err = -EINVAL;
            break;
        }
        *space = '\0';
        err = take_pair(s, line, space + 1);
    }
    buf_free(&text);
    return err;
}

static int put_pair(struct buf *b, const char *key, const char *value)
{
    if (!value)
        return 0;
    if (strchr(value, '\n'))
        return -EINVAL;
    buf_printf(b, "%s %s\n", key, value);
    return 0;
}

static int put_list(struct buf *b, const char *key, const struct selection_list *list)
{
    int err = 0;
    for (size_t i = 0; i < list->count && err == 0; i++)
        err = put_pair(b, key, list->items[i]);
    return err;
}

int selection_save(const struct selection *s, const char *path)
{
    struct buf b = {0};
    int err = put_pair(&b, "root", s->root);
    err = err ? err : put_pair(&b, "mirror", s->mirror);
    err = err ? err : put_pair(&b, "runs", s->runs);
    err = err ? err : put_pair(&b, "lib", s->lib);
    err = err ? err : put_pair(&b, "frame", s->frame);
    err = err ? err : put_pair(&b, "exact", s->exact ? "1" : NULL);
    err = err ? err : put_list(&b, "fn", &s->fns);
    err = err ? err : put_list(&b, "file", &s->files);
    err = err ? err : put_list(&b, "dir", &s->dirs);
    err = err ? err : put_list(&b, "skip", &s->skips);
    err = err ? err : buf_write_file(&b, path);
    buf_free(&b);
    return err;
}

/* The part of PATH below DIR, or NULL. "." contains every relative path. */
static const char *below(const char *dir, const char *path)
{
    size_t len = strlen(dir);
    while (len > 1 && dir[len - 1] == '/')
        len--;
    if (len == 1 && dir[0] == '/')
        return path[0] == '/' ? path + 1 : NULL;
    if (len == 0 || (len == 1 && dir[0] == '.'))
        return path[0] == '/' || strncmp(path, "../", 3) == 0 ? NULL : path;
    if (strncmp(path, dir, len) != 0 || path[len] != '/')
        return NULL;
    return path + len + 1;
}

static const char *without_dot(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        for (path += 2; *path == '/';)
            path++;
    return path;
}

const char *selection_relative(const struct selection *s, const char *path)
{
    const char *inside = s->mirror ? below(s->mirror, path) : NULL;
    if (!inside && s->root)
        inside = below(s->root, path);
    return without_dot(inside ? inside : path);
}

static bool is_name(const char *wanted, const char *bare, const char *qualified)
{
    return strcmp(wanted, bare) == 0 || strcmp(wanted, qualified) == 0;
}

static bool fn_matches(const struct selection *s, const char *bare, const char *qualified)
{
    for (size_t i = 0; i < s->fns.count; i++) {
        const char *pattern = s->fns.items[i];
        if (s->exact ? is_name(pattern, bare, qualified)
                     : strstr(bare, pattern) || strstr(qualified, pattern))
            return true;
    }
    return false;
}

static bool file_matches(const struct selection *s, const char *file)
{
    size_t len = strlen(file);
    for (size_t i = 0; i < s->files.count; i++) {
        const char *wanted = selection_relative(s, s->files.items[i]);
        size_t tail = strlen(wanted);
        if (strcmp(file, wanted) == 0)
            return true;
        if (len > tail && file[len - tail - 1] == '/' && strcmp(file + len - tail, wanted) == 0)
            return true;
    }
    return false;
}

static bool dir_matches(const struct selection *s, const char *file)
{
    for (size_t i = 0; i < s->dirs.count; i++) {
        const char *dir = s->dirs.items[i];
        if (s->root && strcmp(dir, s->root) == 0)
            dir = ".";
        if (below(selection_relative(s, dir), file))
            return true;
    }
    return false;
}

/* Without a selector: does FILE (relative if it is below the root) belong to the project? */
static bool is_own(const char *file)
{
    static const char *const foreign[] = {"/usr", "/opt", "/lib", "/nix", "/snap"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        if (below(foreign[i], file))
            return false;
    }
    return true;
}

/* Do `fns`, `files` or `dirs` narrow the choice? */
static bool narrows(const struct selection *s)
{
    return s->fns.count + s->files.count + s->dirs.count > 0;
}

bool selection_is_frame(const struct selection *s, const char *bare, const char *qualified)
{
    return s->frame && is_name(s->frame, bare, qualified);
}

bool selection_wants(const struct selection *s, const char *bare, const char *qualified,
                     const char *file)
{
    for (size_t i = 0; i < s->skips.count; i++) {
        if (is_name(s->skips.items[i], bare, qualified))
            return false;
    }
    if (selection_is_frame(s, bare, qualified))
        return true;
    file = selection_relative(s, file);
    if (!narrows(s))
        return is_own(file);
    return fn_matches(s, bare, qualified) || file_matches(s, file) || dir_matches(s, file);
}
