/* Tags on disk. A tag holds names, not numbers. If a tagged run was deleted, using the tag reports
 * it. Tags are written to a temporary file and renamed, so a reader never sees a partial one. */
#include "tool/load/tags.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

enum { NAME_MAX_BYTES = 100 };

const char *tags_name_problem(const char *name)
{
    if (!*name)
        return "a tag needs a name";
    if (strlen(name) > NAME_MAX_BYTES)
        return "the name is too long";
    if (name[0] == '.' || name[0] == '-')
        return "a name may not begin with `.` or `-`";
    for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
        if (*p < 0x20 || *p == 0x7f)
            return "a name may not hold control characters";
        if (*p == '/' || *p == ',')
            return "a name may not hold `/` or `,`";
    }
    return NULL;
}

static char *tag_path(const char *runs_dir, const char *name)
{
    char *dir = paths_join(runs_dir, "tags");
    char *path = dir ? paths_join(dir, name) : NULL;
    free(dir);
    return path;
}

/* Rejects a line that could escape the runs directory. */
static bool sane_run(const char *run)
{
    return *run && (run[0] == '/' || !strchr(run, '/'));
}

static int tag_read(struct tag *tag, const char *path)
{
    struct buf b = {0};
    int err = buf_read_own_file(&b, path);
    char *save = NULL;
    for (char *line = err || !b.data ? NULL : strtok_r(b.data, "\n", &save); line && !err;
         line = strtok_r(NULL, "\n", &save)) {
        if (!sane_run(line))
            continue;
        char *copy = VEC_DOUBLE(tag->runs, tag->run_count) == 0 ? strdup(line) : NULL;
        if (copy)
            tag->runs[tag->run_count++] = copy;
        else
            err = -ENOMEM;
    }
    buf_free(&b);
    return err;
}

static int add_tag(struct tags *tags, const char *runs_dir, const char *name)
{
    if (VEC_DOUBLE(tags->list, tags->count) != 0)
        return -ENOMEM;
    struct tag *tag = &tags->list[tags->count++];
    *tag = (struct tag){.name = strdup(name)};
    char *path = tag_path(runs_dir, name);
    int err = tag->name && path ? tag_read(tag, path) : -ENOMEM;
    free(path);
    return err == -ENOMEM ? err : 0;
}

int tags_load(struct tags *tags, const char *runs_dir)
{
    *tags = (struct tags){0};
    char *path = paths_join(runs_dir, "tags");
    DIR *dir = path ? opendir(path) : NULL;
    int err = path ? 0 : -ENOMEM;
    if (path && !dir && errno != ENOENT && errno != ENOTDIR)
        err = -errno;
    free(path);
    struct dirent *e;
    while (dir && err == 0 && (e = readdir(dir)))
        if (!tags_name_problem(e->d_name) && !strstr(e->d_name, ".tmp-"))
            err = add_tag(tags, runs_dir, e->d_name);
    if (dir)
        closedir(dir);
    if (tags->count)
        qsort(tags->list, tags->count, sizeof(*tags->list), order_text);
    if (err)
        tags_release(tags);
    return err;
}

const struct tag *tags_find(const struct tags *tags, const char *name)
{
    for (size_t i = 0; i < tags->count; i++)
        if (strcmp(tags->list[i].name, name) == 0)
            return &tags->list[i];
    return NULL;
}

static bool holds_line(const struct buf *b, const char *line)
{
    size_t len = strlen(line);
    for (const char *at = b->data; at && (at = strstr(at, line)); at += len)
        if ((at == b->data || at[-1] == '\n') && (at[len] == '\n' || at[len] == '\0'))
            return true;
    return false;
}

int tags_write(const char *runs_dir, const char *name, const char *run, bool add)
{
    struct buf b = {0};
    char *path = tag_path(runs_dir, name);
    char *dir = paths_join(runs_dir, "tags");
    int err = path && dir ? paths_make_dirs(dir) : -ENOMEM;
    if (err == 0 && add) {
        err = buf_read_own_file(&b, path);
        err = err == -ENOENT ? 0 : err;
    }
    if (err == 0 && !holds_line(&b, run)) {
        buf_puts(&b, run);
        buf_putc(&b, '\n');
        err = buf_write_file(&b, path);
    }
    buf_free(&b);
    free(dir);
    free(path);
    return err;
}

int tags_delete(const char *runs_dir, const char *name)
{
    char *path = tag_path(runs_dir, name);
    int err = !path ? -ENOMEM : unlink(path) != 0 ? -errno : 0;
    free(path);
    return err;
}

void tags_release(struct tags *tags)
{
    for (size_t i = 0; i < tags->count; i++) {
        for (size_t k = 0; k < tags->list[i].run_count; k++)
            free(tags->list[i].runs[k]);
        free(tags->list[i].runs);
        free(tags->list[i].name);
    }
    free(tags->list);
    *tags = (struct tags){0};
}
