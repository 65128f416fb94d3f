/* Tables of a run: header, functions, and control lines for threads, clocks and the end.
 *
 * A function is identified by name and place. The same pair under two ids (a static inline function
 * of a header in two libraries) is one row; the same name at two places is two. Without places,
 * every id is a separate row: functions must not be merged only because they share a name. Thread
 * lines update the thread of their number. All of this is serial because these lines are few. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

const char *const run_drop_names[RUN_DROP_KINDS] = {"frames", "threads", "functions", "depth",
                                                    "write",  "busy",    "allocators"};

/* "src/a.c:12" -> file and line; without a line number, the whole text is the file. */
static int split_place(struct run_fn *fn)
{
    const char *colon = fn->place ? strrchr(fn->place, ':') : NULL;
    if (!fn->place || !*fn->place)
        return 0;
    char *rest = NULL;
    long long line = colon ? strtoll(colon + 1, &rest, 10) : 0;
    bool numbered = colon && rest != colon + 1 && *rest == '\0' && line >= 0;
    fn->line = numbered ? line : 0;
    fn->file = numbered ? strndup(fn->place, (size_t)(colon - fn->place)) : strdup(fn->place);
    return fn->file ? 0 : -ENOMEM;
}

int tables_add_fn(struct run *run, char *name, char *place)
{
    if (VEC_DOUBLE(run->fns, run->fn_count) != 0) {
        free(name);
        free(place);
        return -ENOMEM;
    }
    struct run_fn *fn = &run->fns[run->fn_count++];
    *fn = (struct run_fn){.name = name, .place = place, .worst_ns = -1, .worst_frame = -1};
    return split_place(fn);
}

static int compare_names(const void *a, const void *b)
{
    const struct run_fn *x = *(struct run_fn *const *)a, *y = *(struct run_fn *const *)b;
    return strcmp(x->name, y->name) ?: ORDER(x, y);
}

int tables_namesakes(struct run *run)
{
    struct run_fn **sorted = calloc(run->fn_count + 1, sizeof(*sorted));
    size_t n = 0;
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < run->fn_count; i++)
        if (!run->fns[i].alias)
            sorted[n++] = &run->fns[i];
    qsort(sorted, n, sizeof(struct run_fn *), compare_names);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) != 0)
            continue;
        if (!sorted[i - 1]->namesake)
            sorted[i - 1]->namesake = 1;
        sorted[i]->namesake = sorted[i - 1]->namesake + 1;
    }
    free(sorted);
    return 0;
}

static bool is_same(const struct run_fn *a, const struct run_fn *b)
{
    return strcmp(a->name, b->name) == 0 && strcmp(a->place, b->place) == 0;
}

/* Adds the rows that have a place to the map. */
static int index_places(struct reader *r, size_t first_id)
{
    for (size_t id = first_id; id < r->id_count; id++) {
        uint32_t row = r->fn_of_id[id], known;
        struct run_fn *fn = &r->run->fns[row];
        if (!fn->place || !*fn->place)
            continue;
        uint64_t key =
            3 * map_hash(fn->name, strlen(fn->name)) + map_hash(fn->place, strlen(fn->place));
        while ((known = map_find(&r->known, key)) != MAP_NONE && !is_same(&r->run->fns[known], fn))
            key++;
        if (known == MAP_NONE && map_put(&r->known, key, row) != 0)
            return -ENOMEM;
        if (known != MAP_NONE && known != row) {
            r->fn_of_id[id] = known;
            fn->alias = true;
        }
    }
    return 0;
}

static int add_id(struct reader *r, char *name)
{
    if (!name || r->id_count >= RUN_NO_ROOT - 1 || VEC_DOUBLE(r->fn_of_id, r->id_count) != 0) {
        free(name);
        return -ENOMEM;
    }
    r->fn_of_id[r->id_count++] = (uint32_t)r->run->fn_count;
    return tables_add_fn(r->run, name, NULL);
}

static int read_names(struct reader *r, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1) {
        struct json_text text;
        more = json_string(j, &text);
        if (more == 0 && add_id(r, json_unescape(text)))
            return -ENOMEM;
    }
    return more;
}

/* Reads places of the functions from FIRST_ID on. Surplus places are ignored. */
static int read_places(struct reader *r, struct json *j, size_t first_id)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    for (size_t id = first_id; more == 0 && (more = json_item(j, &first)) == 1; id++) {
        struct json_text text;
        more = json_string(j, &text);
        if (more != 0 || id >= r->id_count)
            continue;
        struct run_fn *fn = &r->run->fns[r->fn_of_id[id]];
        free(fn->place);
        free(fn->file);
        *fn = (struct run_fn){.name = fn->name, .place = json_unescape(text)};
        if (!fn->place || split_place(fn))
            return -ENOMEM;
    }
    return more;
}

static int read_version(struct json *j)
{
    int64_t version = 0;
    int err = json_int(j, &version);
    if (err == 0 && version != 2)
        return json_fail(j, "expected format version 1 or 2: a newer piano wrote this");
    return err;
}

/* Reads one member of the header. PLACES is set if a `places` array comes before `functions`. */
static int header_key(struct reader *r, struct json *j, struct json_text key, const char **places,
                      bool *functions)
{
    struct run *run = r->run;
    if (json_is(key, "format_version"))
        return read_version(j);
    if (json_is(key, "functions")) {
        *functions = true;
        return r->id_count ? json_skip(j) : read_names(r, j);
    }
    if (json_is(key, "places")) {
        *places = j->at;
        return json_skip(j);
    }
    if (json_is(key, "run_id"))
        return json_copy_string(j, &run->run_id);
    if (json_is(key, "timestamp_ms"))
        return json_int(j, &run->timestamp_ms);
    if (json_is(key, "pid"))
        return json_int(j, &run->pid);
    if (json_is(key, "start_mono_ns")) {
        int64_t mono_ns = 0;
        int err = json_int(j, &mono_ns);
        return err ? err : clock_add(run, 0, mono_ns);
    }
    if (json_is(key, "program"))
        return json_copy_string(j, &run->program);
    if (json_is(key, "frame_fn"))
        return json_copy_string(j, &run->frame_fn);
    if (json_is(key, "clock")) {
        run->by_piano = true;
        return json_copy_string(j, &run->clock);
    }
    return json_skip(j);
}

int tables_header(struct reader *r, struct json *j)
{
    bool first = true, functions = false;
    const char *places = NULL, *start = j->at;
    struct json_text key;
    int got = json_expect(j, '{', "expected `{`");
    while (got == 0) {
        int more = json_member(j, &first, &key);
        if (more <= 0) {
            got = more;
            break;
        }
        got = header_key(r, j, key, &places, &functions);
    }
    if (got == 0)
        got = json_end(j);
    if (got == 0 && !functions) {
        j->at = start; /* the error concerns the whole line */
        got = json_fail(j, "expected a `functions` key: this is not a piano run");
    }
    if (got == 0 && places) {
        struct json again = {.at = places, .end = j->end};
        got = read_places(r, &again, 0);
    }
    return got ? got : index_places(r, 0);
}

static int read_dropped(struct run *run, struct json *j)
{
    bool first = true;
    struct json_text key;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0) {
        int more = json_member(j, &first, &key);
        if (more <= 0)
            return more;
        int64_t count = 0;
        err = json_count(j, &count);
        for (int k = 0; err == 0 && k < RUN_DROP_KINDS; k++)
            if (json_is(key, run_drop_names[k]))
                run->dropped[k] = saturating_add(run->dropped[k], count);
    }
    return err;
}

static int read_parent_fn(struct reader *r, struct json *j, struct run_thread *t)
{
    int64_t id = 0;
    int err = json_int(j, &id);
    if (err == 0 && id >= 0 && (uint64_t)id < r->id_count)
        t->parent_fn = r->fn_of_id[id];
    return err;
}

static int read_parent_thread(struct json *j, struct run_thread *t)
{
    int64_t number = 0;
    int err = json_count(j, &number);
    if (err == 0 && number < UINT32_MAX)
        t->parent_thread = (uint32_t)number;
    return err;
}

/* Contents of a control line. */
struct control {
    struct run_thread *thread; /* thread of the line; a dummy for the other kinds */
    bool end;
    struct run_pair pair;
};

static int control_key(struct reader *r, struct json *j, struct json_text key, struct control *c)
{
    struct run_thread *t = c->thread;
    if (json_is(key, "tid"))
        return json_int(j, &t->tid);
    if (json_is(key, "name"))
        return json_copy_string(j, &t->name);
    if (json_is(key, "start_ns"))
        return json_int(j, &t->start_ns);
    if (json_is(key, "end_ns"))
        return json_count(j, &t->end_ns);
    if (json_is(key, "parent_thread"))
        return read_parent_thread(j, t);
    if (json_is(key, "parent_fn"))
        return read_parent_fn(r, j, t);
    if (json_is(key, "cpu_wall_ns"))
        return json_count(j, &t->cpu_wall_ns);
    if (json_is(key, "cpu_ns"))
        return json_count(j, &t->cpu_ns);
    if (json_is(key, "runq_ns"))
        return json_count(j, &t->runq_ns);
    if (json_is(key, "end"))
        return json_bool(j, &c->end);
    if (json_is(key, "at_ns"))
        return json_int(j, &c->pair.at_ns);
    if (json_is(key, "mono_ns"))
        return json_int(j, &c->pair.mono_ns);
    if (json_is(key, "wall_ns"))
        return json_count(j, &r->run->wall_ns);
    if (json_is(key, "dropped"))
        return read_dropped(r->run, j);
    return json_skip(j);
}

static int read_added(struct reader *r, struct line *l)
{
    size_t left, first_id = r->id_count;
    const char *s = reader_text(r->run, l->at, &left);
    for (int round = 0; round < 2; round++) { /* names first, whatever the order of the keys */
        struct json j = {.at = s, .end = s + l->len};
        bool first = true;
        struct json_text key;
        int err = json_expect(&j, '{', "expected `{`");
        while (err == 0 && (err = json_member(&j, &first, &key)) == 1) {
            if (round == 0 && json_is(key, "functions_add"))
                err = read_names(r, &j);
            else if (round == 1 && json_is(key, "places_add"))
                err = read_places(r, &j, first_id);
            else
                err = json_skip(&j);
        }
        if (err == -ENOMEM)
            return err;
        if (err)
            reader_bad(r, l->at, j.problem);
    }
    return index_places(r, first_id);
}

static int read_control(struct reader *r, struct line *l)
{
    size_t left;
    struct run_thread none = {.number = 0};
    const char *s = reader_text(r->run, l->at, &left);
    struct control c = {.thread = l->thread ? threads_get(r, l->thread) : &none};
    if (!c.thread)
        return -ENOMEM;
    struct json j = {.at = s, .end = s + l->len};
    bool first = true;
    struct json_text key;
    int err = json_expect(&j, '{', "expected `{`");
    while (err == 0 && (err = json_member(&j, &first, &key)) == 1)
        err = control_key(r, &j, key, &c);
    free(none.name);
    r->run->ended |= c.end;
    r->saturated += j.saturated;
    if (err == -ENOMEM)
        return err;
    if (err)
        reader_bad(r, l->at, j.problem);
    return err ? 0 : clock_add(r->run, c.pair.at_ns, c.pair.mono_ns);
}

int tables_control(struct reader *r)
{
    int err = 0;
    for (size_t i = 0; err == 0 && i < r->line_count; i++) {
        struct line *l = &r->lines[i];
        size_t left;
        if (l->kind != LINE_CONTROL)
            continue;
        const char *s = reader_text(r->run, l->at, &left);
        err = memmem(s, l->len, "\"functions_add\"", 15) ? read_added(r, l) : 0;
        if (err == 0)
            err = read_control(r, l);
    }
    threads_sort(r->run);
    clock_settle(r->run);
    return err;
}

void tables_release(struct reader *r)
{
    map_release(&r->known);
    map_release(&r->threads);
}
