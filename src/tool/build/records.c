/* Reads the records that `piano cc-wrap` leaves in the state directory: one small text file per
 * unit and per link, with lines of tab-separated fields. Only these records say which functions
 * exist. So `piano build` reads them before a build (which units does a changed selection affect?)
 * and after it (what was done?), and `piano run` reads them to find the program.
 *
 * The files are ours, but a build may have been killed, or another tool may have cleaned up:
 * anything that does not parse is ignored. */
#include "tool/build/records.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/util/buf.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

enum { MAX_FIELDS = 5 };

/* Splits LINE at its tabs; missing fields are "". Returns the number of fields. */
static int split(char *line, const char *fields[MAX_FIELDS])
{
    int count = 0;
    for (int i = 0; i < MAX_FIELDS; i++)
        fields[i] = "";
    while (line && count < MAX_FIELDS)
        fields[count++] = strsep(&line, "\t");
    return count;
}

static int add_fn(struct record_unit *u, const char *const fields[MAX_FIELDS])
{
    if (VEC_DOUBLE(u->fns, u->fn_count) != 0)
        return -ENOMEM;
    struct record_fn *fn = &u->fns[u->fn_count++];
    const char *status = fields[4];
    *fn = (struct record_fn){.name = fields[1], .file = fields[2], .reason = ""};
    fn->line = (unsigned)strtoul(fields[3], NULL, 10);
    fn->status = RECORD_UNSELECTED;
    if (strcmp(status, "instrumented") == 0)
        fn->status = RECORD_INSTRUMENTED;
    if (strncmp(status, "skipped", 7) == 0) {
        fn->status = RECORD_SKIPPED;
        fn->reason = status[7] == ':' ? status + 8 : "";
    }
    return 0;
}

static void unit_release(struct record_unit *u)
{
    free(u->path);
    free(u->text);
    free(u->fns);
}

static int unit_parse(struct record_unit *u)
{
    int err = 0;
    for (char *rest = u->text; rest && *rest && err == 0;) {
        const char *fields[MAX_FIELDS];
        int count = split(strsep(&rest, "\n"), fields);
        if (strcmp(fields[0], "unit") == 0 && count >= 3) {
            u->source = fields[1];
            u->output = fields[2];
        } else if (strcmp(fields[0], "note") == 0 && count >= 2) {
            u->note = fields[1];
        } else if (strcmp(fields[0], "fn") == 0 && count >= 5) {
            err = add_fn(u, fields);
        }
    }
    return err;
}

static int take_unit(struct records *r, char *path, char *text, struct timespec time)
{
    struct record_unit u = {.path = path, .text = text, .time = time};
    int err = unit_parse(&u);
    if (err == 0 && u.source && u.output) {
        err = VEC_DOUBLE(r->units, r->unit_count);
        if (err == 0) {
            r->units[r->unit_count++] = u;
            return 0;
        }
    }
    unit_release(&u);
    return err;
}

static int take_link(struct records *r, char *path, char *text, struct timespec time)
{
    (void)time;
    struct record_link l = {.path = path, .text = text};
    const char *fields[MAX_FIELDS];
    struct stat st;
    char *rest = text;
    int count = split(strsep(&rest, "\n"), fields);
    bool usable = strcmp(fields[0], "link") == 0 && count >= 3;
    if (usable && stat(fields[1], &st) == 0) {
        if (VEC_DOUBLE(r->links, r->link_count) == 0) {
            l.output = fields[1];
            l.shared = strcmp(fields[2], "shared") == 0;
            l.time = st.st_mtim;
            r->links[r->link_count++] = l;
            return 0;
        }
    } else if (usable) {
        unlink(path);
    }
    free(path);
    free(text);
    return 0;
}

/* Calls TAKE for each file of STATE/SUB that ends in TAIL. TAKE owns path and text. */
static int each_file(struct records *r, const char *state, const char *sub, const char *tail,
                     int (*take)(struct records *, char *, char *, struct timespec))
{
    char *dir_path = paths_join(state, sub);
    DIR *dir = dir_path ? opendir(dir_path) : NULL;
    int err = dir_path ? 0 : -ENOMEM;
    const struct dirent *d;
    while (err == 0 && dir && (d = readdir(dir))) {
        size_t len = strlen(d->d_name);
        size_t tail_len = strlen(tail);
        if (len <= tail_len || strcmp(d->d_name + len - tail_len, tail) != 0)
            continue;
        struct buf text = {0};
        struct stat st;
        char *path = paths_join(dir_path, d->d_name);
        if (path && stat(path, &st) == 0 && buf_read_own_file(&text, path) == 0 && text.data) {
            err = take(r, path, text.data, st.st_mtim);
        } else {
            free(path);
            buf_free(&text);
        }
    }
    if (dir)
        closedir(dir);
    free(dir_path);
    return err;
}

static int newest_first(const void *a, const void *b)
{
    const struct timespec x = ((const struct record_link *)a)->time;
    const struct timespec y = ((const struct record_link *)b)->time;
    return ORDER(y.tv_sec, x.tv_sec) ?: ORDER(y.tv_nsec, x.tv_nsec);
}

static int by_source(const void *a, const void *b)
{
    const struct record_unit *x = a, *y = b;
    return strcmp(x->source, y->source) ?: strcmp(x->output, y->output);
}

/* Does SOURCE, relative to the root, still exist, in the user's tree or generated in the mirror?
 * STATE is ROOT/.piano/build, the mirror ROOT/.piano/build/tree/NAME, with NAME the root's own
 * name. */
static bool source_exists(const char *state, const char *source)
{
    if (source[0] == '/')
        return access(source, F_OK) == 0;
    size_t len = strlen(state);
    size_t tail = strlen("/.piano/build");
    struct buf root = {0};
    struct buf path = {0};
    buf_put(&root, state, len > tail ? len - tail : 0);
    const char *name = root.data ? strrchr(root.data, '/') : NULL;
    buf_printf(&path, "%s/tree%s/%s", state, name ? name : "", source);
    buf_printf(&root, "/%s", source);
    bool found =
        root.failed || path.failed || access(root.data, F_OK) == 0 || access(path.data, F_OK) == 0;
    buf_free(&root);
    buf_free(&path);
    return found;
}

/* A unit without an output may still be in a program (make removes intermediate files), unless its
 * source was removed too or was compiled to another output since. Units are sorted by source. */
static bool is_forgotten(const struct records *r, size_t i, const char *state)
{
    const struct record_unit *u = &r->units[i];
    if (access(u->output, F_OK) == 0)
        return false;
    for (size_t j = i; j-- > 0 && strcmp(r->units[j].source, u->source) == 0;) {
        if (access(r->units[j].output, F_OK) == 0)
            return true;
    }
    for (size_t j = i + 1; j < r->unit_count && strcmp(r->units[j].source, u->source) == 0; j++) {
        if (access(r->units[j].output, F_OK) == 0)
            return true;
    }
    return !source_exists(state, u->source);
}

static void forget_units(struct records *r, const char *state)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->unit_count; i++) {
        if (is_forgotten(r, i, state))
            unlink(r->units[i].path);
    }
    for (size_t i = 0; i < r->unit_count; i++) {
        if (access(r->units[i].path, F_OK) == 0)
            r->units[kept++] = r->units[i];
        else
            unit_release(&r->units[i]);
    }
    r->unit_count = kept;
}

int records_load(struct records *r, const char *state)
{
    *r = (struct records){0};
    int err = each_file(r, state, "units", ".unit", take_unit);
    if (err == 0)
        err = each_file(r, state, "links", ".link", take_link);
    if (r->unit_count > 0)
        qsort(r->units, r->unit_count, sizeof *r->units, by_source);
    forget_units(r, state);
    if (r->link_count > 0)
        qsort(r->links, r->link_count, sizeof *r->links, newest_first);
    return err;
}

void records_release(struct records *r)
{
    for (size_t i = 0; i < r->unit_count; i++)
        unit_release(&r->units[i]);
    for (size_t i = 0; i < r->link_count; i++) {
        free(r->links[i].path);
        free(r->links[i].text);
    }
    free(r->units);
    free(r->links);
    *r = (struct records){0};
}

const char *records_bare_name(const char *name)
{
    const char *bare = name;
    int depth = 0;
    for (const char *p = name; *p; p++) {
        if (strncmp(p, "operator", 8) == 0 && (p == name || p[-1] == ':'))
            return p;
        depth += *p == '<' || *p == '(';
        depth -= *p == '>' || *p == ')';
        if (depth == 0 && p[0] == ':' && p[1] == ':') {
            bare = p + 2;
            p++;
        }
    }
    return bare;
}
