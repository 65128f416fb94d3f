/* The v1 file: one JSON object with the sums of each function and nothing else. Written for runs in
 * which nothing repeated, and by older versions. Times are milliseconds with a fraction. */
#include "tool/load/reader.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static int read_ms(struct json *j, int64_t *ns)
{
    double ms;
    int err = json_double(j, &ms);
    if (err)
        return err;
    if (fabs(ms) > 9.2e12) {
        j->saturated++;
        *ns = ms > 0 ? INT64_MAX : -INT64_MAX;
    } else {
        *ns = (int64_t)llround(ms * 1e6);
    }
    return 0;
}

struct v1_fn {
    char *name, *place;
    struct tally sum;
    int64_t raw_ns, timed;
    bool has_raw, has_timed;
};

static int fn_key(struct json *j, struct json_text key, struct v1_fn *f)
{
    if (json_is(key, "name"))
        return json_copy_string(j, &f->name);
    if (json_is(key, "place"))
        return json_copy_string(j, &f->place);
    if (json_is(key, "calls"))
        return json_count(j, &f->sum.calls);
    if (json_is(key, "self_ms"))
        return read_ms(j, &f->sum.self_ns);
    if (json_is(key, "total_ms")) {
        f->sum.has_total = true;
        return read_ms(j, &f->sum.total_ns);
    }
    if (json_is(key, "raw_ms")) {
        f->has_raw = true;
        return read_ms(j, &f->raw_ns);
    }
    if (json_is(key, "timed")) {
        f->has_timed = true;
        return json_count(j, &f->timed);
    }
    if (json_is(key, "alloc_count"))
        return json_count(j, &f->sum.alloc_count);
    if (json_is(key, "alloc_bytes"))
        return json_count(j, &f->sum.alloc_bytes);
    if (json_is(key, "free_count"))
        return json_count(j, &f->sum.free_count);
    if (json_is(key, "free_bytes"))
        return json_count(j, &f->sum.free_bytes);
    return json_skip(j);
}

static int read_fn(struct run *run, struct json *j)
{
    struct v1_fn f = {.sum.seen = true};
    bool first = true;
    struct json_text key;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1)
        err = fn_key(j, key, &f);
    if (err == 0 && !f.name)
        err = json_fail(j, "expected a `name` in the function");
    if (err) {
        free(f.name);
        free(f.place);
        return err;
    }
    f.sum.timed = f.has_timed ? f.timed : f.sum.calls;
    if (run->uncorrected && f.has_raw)
        f.sum.self_ns = f.raw_ns;
    err = tables_add_fn(run, f.name, f.place);
    if (err == 0)
        run->fns[run->fn_count - 1].sum = f.sum;
    return err;
}

static int read_functions(struct run *run, struct json *j)
{
    bool first = true;
    int more = json_expect(j, '[', "expected `[`");
    while (more == 0 && (more = json_item(j, &first)) == 1)
        more = read_fn(run, j);
    return more;
}

static int run_key(struct run *run, struct json *j, struct json_text key, bool *functions)
{
    if (json_is(key, "functions")) {
        *functions = true;
        return read_functions(run, j);
    }
    if (json_is(key, "run_id"))
        return json_copy_string(j, &run->run_id);
    if (json_is(key, "timestamp_ms"))
        return json_int(j, &run->timestamp_ms);
    if (json_is(key, "program"))
        return json_copy_string(j, &run->program);
    if (json_is(key, "pid"))
        return json_int(j, &run->pid);
    if (json_is(key, "wall_ns"))
        return json_count(j, &run->wall_ns);
    return json_skip(j);
}

int v1_load(struct run *run, struct json *j)
{
    bool first = true, functions = false;
    struct json_text key;
    run->format = 1;
    run->ended = true;
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1)
        err = run_key(run, j, key, &functions);
    if (err == 0 && !functions)
        err = json_fail(j, "expected a `functions` key: this is not a piano run");
    run->saturated += j->saturated;
    return err ? err : json_end(j);
}
