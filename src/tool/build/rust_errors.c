/* A guard may be what a function does not compile with: rules of borrowing, or of types that the
 * compiler finds from their use. rustc says in which lines, as JSON. The functions around them are
 * compiled without guards.
 *
 * First the place of the error itself counts. If there is no guard, the other places count that
 * rustc names. */
#include "tool/build/rust_errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/build/rust_write.h"
#include "tool/util/json.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

enum { MAX_PLACES = 4096, MAX_DEPTH = 32 };

struct place {
    char *file; /* as rustc names it */
    char *message;
    unsigned line;
    bool is_primary;
};

struct places {
    struct place *items;
    size_t count;
    const char *message; /* of the error that is read now */
    int depth;
};

static int read_spans(struct places *p, struct json *j);

static bool is_next(struct json *j, char mark)
{
    json_space(j);
    return j->at < j->end && *j->at == mark;
}

static int read_span(struct places *p, struct json *j);

/* `"expansion": {"span": {...}, ...}`: where a macro was used. */
static int read_expansion(struct places *p, struct json *j)
{
    bool first = true;
    struct json_text key;
    if (!is_next(j, '{') || p->depth > MAX_DEPTH)
        return json_skip(j);
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1)
        err = json_is(key, "span") ? read_span(p, j) : json_skip(j);
    return err;
}

static int read_span(struct places *p, struct json *j)
{
    bool first = true;
    struct json_text key;
    struct place place = {0};
    int64_t line = 0;
    p->depth++;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1) {
        if (json_is(key, "file_name"))
            err = json_copy_string(j, &place.file);
        else if (json_is(key, "line_start"))
            err = json_count(j, &line);
        else if (json_is(key, "is_primary"))
            err = json_bool(j, &place.is_primary);
        else if (json_is(key, "expansion"))
            err = read_expansion(p, j);
        else
            err = json_skip(j);
    }
    p->depth--;
    place.line = (unsigned)line;
    place.message = strdup(p->message);
    if (err == 0 && place.file && place.message && p->count < MAX_PLACES &&
        VEC_DOUBLE(p->items, p->count) == 0) {
        p->items[p->count++] = place;
        return 0;
    }
    free(place.file);
    free(place.message);
    return err;
}

static int read_spans(struct places *p, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1)
        more = read_span(p, j);
    return more;
}

/* Notes and hints; their places are not those of the error. */
static int read_children(struct places *p, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1) {
        bool first_member = true;
        struct json_text key;
        size_t before = p->count;
        more = json_expect(j, '{', "expected `{`");
        while (more == 0 && (more = json_member(j, &first_member, &key)) == 1)
            more = json_is(key, "spans") ? read_spans(p, j) : json_skip(j);
        for (; before < p->count; before++)
            p->items[before].is_primary = false;
    }
    return more;
}

/* Calls READ for the value of the member NAME of OBJECT. */
static int read_member(struct places *p, struct json object, const char *name,
                       int (*read)(struct places *, struct json *))
{
    bool first = true;
    struct json_text key;
    int err = json_expect(&object, '{', "expected `{`");
    while (err == 0 && (err = json_member(&object, &first, &key)) == 1)
        err = json_is(key, name) ? read(p, &object) : json_skip(&object);
    return err;
}

static int member_text(struct json object, const char *name, char **out)
{
    bool first = true;
    struct json_text key;
    int err = json_expect(&object, '{', "expected `{`");
    while (err == 0 && (err = json_member(&object, &first, &key)) == 1)
        err = json_is(key, name) ? json_copy_string(&object, out) : json_skip(&object);
    return err;
}

static void read_message(struct places *p, const char *line, size_t len)
{
    const struct json object = {.at = line, .end = line + len};
    char *level = NULL, *message = NULL;
    if (member_text(object, "level", &level) == 0 && level && strncmp(level, "error", 5) == 0 &&
        member_text(object, "message", &message) == 0 && message) {
        p->message = message;
        (void)read_member(p, object, "spans", read_spans);
        (void)read_member(p, object, "children", read_children);
    }
    free(level);
    free(message);
}

static void places_read(struct places *p, const struct buf *messages)
{
    for (const char *line = messages->data; line && *line;) {
        size_t len = strcspn(line, "\n");
        if (*line == '{')
            read_message(p, line, len);
        line += len + (line[len] == '\n');
    }
}

static void places_release(struct places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].file);
        free(p->items[i].message);
    }
    free(p->items);
}

/* --- the functions around them ----------------------------------------------------------------- */

/* Removes `.` and `x/..` from PATH, which is absolute. */
static void make_normal(char *path)
{
    char *out = path;
    for (const char *part = path; *part;) {
        size_t len = strcspn(part + 1, "/") + 1;
        bool is_here = len == 1 || (len == 2 && part[1] == '.');
        bool is_up = len == 3 && part[1] == '.' && part[2] == '.';
        if (is_up) {
            while (out > path && *--out != '/')
                ;
        } else if (!is_here) {
            memmove(out, part, len);
            out += len;
        }
        part += len;
    }
    *out = '\0';
}

/* FILE, as rustc names it, in the user's tree; malloc'd. */
static char *user_path(const struct selection *s, const char *file)
{
    char *cwd = file[0] == '/' ? NULL : getcwd(NULL, 0);
    char *path = cwd ? paths_join(cwd, file) : strdup(file);
    size_t len = strlen(s->mirror);
    free(cwd);
    if (path && path[0] == '/')
        make_normal(path);
    if (!path || strncmp(path, s->mirror, len) != 0 || path[len] != '/')
        return path;
    char *own = paths_join(s->root, path + len + 1);
    free(path);
    return own;
}

static unsigned length_of(const struct rust_file *file, size_t i)
{
    return file->more[i].last - file->functions.fns[i].line;
}

struct drop {
    const char *state;
    const struct selection *selection;
    struct rust_files files;
    struct rust_dropped known;
    struct buf *added; /* lines of STATE/rust/dropped */
    int lock;
};

/* Drops the innermost functions with guards around LINE: several if they are in the same lines. */
static int drop_around(const struct drop *d, struct rust_file *file, const struct place *place)
{
    unsigned least = UINT32_MAX;
    int dropped = 0, err = 0;
    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t i = 0; i < file->functions.count && err == 0; i++) {
            struct analyse_fn *fn = &file->functions.fns[i];
            bool is_around = fn->line <= place->line && place->line <= file->more[i].last;
            if (!is_around || !fn->chosen)
                continue;
            if (pass == 0 && length_of(file, i) < least)
                least = length_of(file, i);
            if (pass == 0 || length_of(file, i) != least)
                continue;
            err = rust_dropped_add(d->state, file, fn, place->message, d->added);
            fn->chosen = false;
            dropped += err == 0;
        }
    }
    return err ? err : dropped;
}

/* Drops functions, and writes their files again. */
static int drop_all(struct drop *d, const struct places *p, bool primary)
{
    const struct selection *s = d->selection;
    int dropped = 0;
    for (size_t i = 0; i < p->count; i++) {
        char *path = p->items[i].is_primary == primary ? user_path(s, p->items[i].file) : NULL;
        struct rust_file *file = path ? rust_files_find(&d->files, path) : NULL;
        free(path);
        if (!file)
            continue;
        int count = drop_around(d, file, &p->items[i]);
        if (count > 0)
            count = rust_write(file, s, true) ?: count;
        if (count < 0)
            return count;
        dropped += count;
    }
    return dropped;
}

/* Another crate may drop functions of the same file. */
static int lock(const char *state)
{
    char *path = paths_join(state, "rust/lock");
    int fd = path ? piano__owner_create(path, O_RDWR | O_CREAT, 0600) : -ENOMEM;
    free(path);
    while (fd >= 0 && flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        close(fd);
        return -errno;
    }
    return fd;
}

/* Reads what is known, and keeps others from changing it. */
static int begin(struct drop *d)
{
    d->lock = lock(d->state);
    int err = d->lock < 0 ? d->lock : rust_dropped_load(&d->known, d->state);
    return err ? err : rust_load(&d->files, d->state, d->selection);
}

static void choose_all(struct drop *d)
{
    for (size_t i = 0; i < d->files.count; i++)
        rust_choose(&d->files.items[i], d->selection, &d->known);
}

static void end(struct drop *d)
{
    rust_files_release(&d->files);
    rust_dropped_release(&d->known);
    if (d->lock >= 0)
        close(d->lock);
}

int rust_errors_drop(const char *state, const struct selection *s, const struct buf *messages,
                     struct buf *added)
{
    struct places places = {0};
    struct drop d = {.state = state, .selection = s, .added = added, .lock = -1};
    places_read(&places, messages);
    int result = places.count > 0 ? begin(&d) : 0;
    if (result == 0 && places.count > 0) {
        choose_all(&d);
        result = drop_all(&d, &places, true);
        result = result ?: drop_all(&d, &places, false);
    }
    end(&d);
    places_release(&places);
    return result;
}

void rust_errors_undo(const char *state, const struct selection *s, const struct buf *added)
{
    struct drop d = {.state = state, .selection = s, .lock = -1};
    if (added->len == 0)
        return;
    if (begin(&d) == 0 && rust_dropped_remove(state, added) == 0) {
        rust_dropped_release(&d.known);
        (void)rust_dropped_load(&d.known, state);
        choose_all(&d);
        for (size_t i = 0; i < d.files.count; i++) {
            if (strstr(added->data, d.files.items[i].path))
                (void)rust_write(&d.files.items[i], s, true);
        }
    }
    end(&d);
}
