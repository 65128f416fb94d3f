/* Parses the functions of a line (`fns`) into a table with one entry per function.
 *
 * Large files spend most of their time here. The keys of an entry have at most eight letters, so a
 * key is compared as one 64-bit word. Keys may come in any order; unknown keys are skipped. The
 * table (`struct run_scratch`) is reused for each line: only the slots that were used are cleared.
 * The workers of sums.c call this, and the report for single frames. */
#include "tool/load/reader.h"
#include "tool/load/estimates.h"
#include "tool/util/vec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEY2(a, b) ((uint64_t)(a) | (uint64_t)(b) << 8)
#define KEY4(a, b, c, d) (KEY2(a, b) | KEY2(c, d) << 16)
#define KEY8(a, b, c, d, e, f, g, h) (KEY4(a, b, c, d) | KEY4(e, f, g, h) << 32)

int64_t saturating_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a > 0 ? INT64_MAX : -INT64_MAX;
    return sum;
}

int64_t saturating_int(double x)
{
    const double most = 9e18;
    return x > most ? INT64_MAX : x < -most ? -INT64_MAX : x == x ? (int64_t)x : 0;
}

void tally_add(struct tally *sum, const struct tally *more)
{
    if (!sum->seen) {
        *sum = *more;
        sum->seen = true;
        return;
    }
    sum->calls = saturating_add(sum->calls, more->calls);
    sum->timed = saturating_add(sum->timed, more->timed);
    sum->self_ns = saturating_add(sum->self_ns, more->self_ns);
    sum->total_ns = saturating_add(sum->total_ns, more->total_ns);
    sum->alloc_count = saturating_add(sum->alloc_count, more->alloc_count);
    sum->alloc_bytes = saturating_add(sum->alloc_bytes, more->alloc_bytes);
    sum->free_count = saturating_add(sum->free_count, more->free_count);
    sum->free_bytes = saturating_add(sum->free_bytes, more->free_bytes);
    sum->wait_ns = saturating_add(sum->wait_ns, more->wait_ns);
    sum->runq_ns = saturating_add(sum->runq_ns, more->runq_ns);
    sum->looked_ns = saturating_add(sum->looked_ns, more->looked_ns);
    sum->looked_var += more->looked_var;
    sum->held_ns = saturating_add(sum->held_ns, more->held_ns);
    sum->unwatched_ns = saturating_add(sum->unwatched_ns, more->unwatched_ns);
    sum->looked_sys += more->looked_sys;
    sum->probes_ns = saturating_add(sum->probes_ns, more->probes_ns);
    sum->self_var += more->self_var;
    sum->self_sys += more->self_sys;
    sum->self_cal += more->self_cal;
    sum->self_probes += more->self_probes;
    sum->total_var += more->total_var;
    sum->has_total &= more->has_total;
    sum->has_cpu |= more->has_cpu;
    if (more->has_max && (!sum->has_max || more->max_ns > sum->max_ns))
        sum->max_ns = more->max_ns;
    sum->has_max |= more->has_max;
    sum->lacks_max |= more->lacks_max;
}

/* Reads the key at `at` as a word and skips the `:` after it. 0 if it has more than eight letters,
 * so it cannot be a known key; -1 with a problem. */
static int entry_key(struct json *j, uint64_t *word)
{
    *word = 0;
    if (j->end - j->at >= 12 && *j->at == '"') {
        uint64_t bytes;
        memcpy(&bytes, j->at + 1, 8);
        uint64_t x = bytes ^ 0x2222222222222222u; /* `"` becomes a zero byte */
        uint64_t zero = (x - 0x0101010101010101u) & ~x & 0x8080808080808080u;
        unsigned len = zero ? (unsigned)__builtin_ctzll(zero) / 8 : 8;
        if (len > 0 && j->at[len + 1] == '"' && j->at[len + 2] == ':') {
            *word = len == 8 ? bytes : bytes & (((uint64_t)1 << len * 8) - 1);
            j->at += len + 3;
            return 0;
        }
    }
    struct json_text key;
    if (json_string(j, &key) || json_expect(j, ':', "expected `:` after a key"))
        return -EINVAL;
    if (key.len <= 8)
        memcpy(word, key.data, key.len);
    return 0;
}

struct raw_entry {
    struct tally sum;
    int64_t id, raw_ns, timed, cpu_ns, self_se, total_se, looked_se;
    bool has_raw, has_timed;
};

static int entry_value(struct json *j, uint64_t key, struct raw_entry *e)
{
    switch (key) {
    case KEY2('i', 'd'):
        return json_count(j, &e->id);
    case KEY8('c', 'a', 'l', 'l', 's', 0, 0, 0):
        return json_count(j, &e->sum.calls);
    case KEY8('s', 'e', 'l', 'f', '_', 'n', 's', 0):
        return json_int(j, &e->sum.self_ns);
    case KEY8('t', 'o', 't', 'a', 'l', '_', 'n', 's'):
        e->sum.has_total = true;
        return json_int(j, &e->sum.total_ns);
    case KEY2('a', 'c'):
        return json_count(j, &e->sum.alloc_count);
    case KEY2('a', 'b'):
        return json_count(j, &e->sum.alloc_bytes);
    case KEY2('f', 'c'):
        return json_count(j, &e->sum.free_count);
    case KEY2('f', 'b'):
        return json_count(j, &e->sum.free_bytes);
    case KEY8('r', 'a', 'w', '_', 'n', 's', 0, 0):
        e->has_raw = true;
        return json_int(j, &e->raw_ns);
    case KEY8('c', 'p', 'u', '_', 'n', 's', 0, 0):
        e->sum.has_cpu = true;
        return json_int(j, &e->cpu_ns);
    case KEY8('r', 'u', 'n', 'q', '_', 'n', 's', 0):
        return json_count(j, &e->sum.runq_ns);
    case KEY8('s', 'e', '_', 'n', 's', 0, 0, 0):
        return json_count(j, &e->self_se);
    case KEY8('t', 's', 'e', '_', 'n', 's', 0, 0):
        return json_count(j, &e->total_se);
    case KEY8('s', 'e', 'e', 'n', '_', 'n', 's', 0):
        return json_count(j, &e->sum.looked_ns);
    case KEY8('h', 'e', 'l', 'd', '_', 'n', 's', 0):
        return json_count(j, &e->sum.held_ns);
    case KEY8('p', 'r', 'e', '_', 'n', 's', 0, 0):
        return json_int(j, &e->sum.unwatched_ns);
    case KEY8('l', 's', 'e', '_', 'n', 's', 0, 0):
        return json_count(j, &e->looked_se);
    case KEY8('m', 'a', 'x', '_', 'n', 's', 0, 0):
        e->sum.has_max = true;
        return json_int(j, &e->sum.max_ns);
    case KEY8('t', 'i', 'm', 'e', 'd', 0, 0, 0):
        e->has_timed = true;
        return json_count(j, &e->timed);
    default:
        return json_skip(j);
    }
}

static int parse_entry(struct json *j, struct raw_entry *e)
{
    int err = json_expect(j, '{', "expected `{`");
    if (err)
        return err;
    json_space(j);
    if (j->at < j->end && *j->at == '}')
        return json_fail(j, "expected a function id");
    for (;;) {
        uint64_t key;
        if (entry_key(j, &key) || entry_value(j, key, e))
            return -EINVAL;
        if (j->at < j->end && *j->at == ',') {
            j->at++;
            json_space(j);
            continue;
        }
        json_space(j);
        if (j->at < j->end && *j->at == '}') {
            j->at++;
            return 0;
        }
        if (json_expect(j, ',', "expected `,` or `}`"))
            return -EINVAL;
        json_space(j);
    }
}

static int scratch_add(struct run_scratch *s, uint32_t fn, const struct tally *sum)
{
    if (s->slot[fn]) {
        tally_add(&s->entries[s->slot[fn] - 1].sum, sum);
        return 0;
    }
    if (VEC_ROOM(s->entries, s->count, s->cap) != 0)
        return -ENOMEM;
    s->entries[s->count] = (struct run_entry){.fn = fn, .sum = *sum};
    s->slot[fn] = (uint32_t)++s->count;
    return 0;
}

void fns_clear(struct run_scratch *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->slot[s->entries[i].fn] = 0;
    s->count = 0;
}

int fns_ready(struct run_scratch *s, size_t fns)
{
    if (s->slots >= fns && s->slot)
        return 0;
    free(s->slot);
    s->slot = calloc(fns + 1, sizeof(*s->slot));
    s->slots = fns;
    s->count = 0;
    return s->slot ? 0 : -ENOMEM;
}

void run_scratch_release(struct run_scratch *s)
{
    if (s->line)
        run_scratch_release(s->line);
    free(s->line);
    free(s->entries);
    free(s->slot);
    *s = (struct run_scratch){0};
}

/* The wait is summed. Lines without a CPU time have no known wait. */
static void settle_wait(struct raw_entry *e)
{
    if (e->sum.has_cpu && e->sum.self_ns > e->cpu_ns)
        e->sum.wait_ns =
            saturating_add(e->sum.self_ns, e->cpu_ns > -INT64_MAX ? -e->cpu_ns : INT64_MAX);
    if (e->sum.runq_ns > e->sum.wait_ns)
        e->sum.runq_ns = e->sum.wait_ns;
}

/* A line gives the longest call unless there was only one: then it is the total. */
static void settle_max(struct tally *sum)
{
    if (sum->has_max || sum->timed == 0)
        return;
    sum->has_max = sum->calls <= 1 && sum->timed == 1 && sum->has_total;
    sum->lacks_max = !sum->has_max;
    sum->max_ns = sum->total_ns;
}

static int read_fns(struct json *j, const struct run *run, struct run_scratch *scratch)
{
    bool first = true;
    int err = json_expect(j, '[', "expected `[`");
    while (err == 0 && (err = json_item(j, &first)) == 1) {
        struct raw_entry e = {.id = -1, .sum.seen = true};
        err = parse_entry(j, &e);
        if (err)
            return err;
        if (e.id < 0 || (uint64_t)e.id >= run->id_count)
            return json_fail(j, "expected the id of a function in the table");
        settle_wait(&e);
        if (e.has_raw && run->uncorrected)
            e.sum.self_ns = e.raw_ns;
        else if (e.has_raw)
            e.sum.probes_ns = saturating_add(e.raw_ns, -e.sum.self_ns);
        e.sum.self_var = (double)e.self_se * (double)e.self_se;
        e.sum.total_var = (double)e.total_se * (double)e.total_se;
        e.sum.looked_var = (double)e.looked_se * (double)e.looked_se;
        e.sum.timed = e.has_timed ? e.timed : e.sum.calls;
        settle_max(&e.sum);
        err = scratch_add(scratch, run->fn_of_id[e.id], &e.sum);
    }
    return err;
}

static int read_line(struct json *j, const struct run *run, struct run_scratch *scratch,
                     struct fns_head *head)
{
    bool first = true;
    struct json_text key;
    *head = (struct fns_head){-1, -1, -1, -1, false};
    int err = json_expect(j, '{', "expected `{`");
    while (err == 0 && (err = json_member(j, &first, &key)) == 1) {
        head->frame |= json_is(key, "frame");
        err = json_is(key, "fns")       ? read_fns(j, run, scratch)
              : json_is(key, "depth")   ? json_count(j, &head->depth)
              : json_is(key, "wall_ns") ? json_int(j, &head->wall_ns)
              : json_is(key, "cpu_ns")  ? json_count(j, &head->cpu_ns)
              : json_is(key, "runq_ns") ? json_count(j, &head->runq_ns)
                                        : json_skip(j);
    }
    err = err ? err : json_end(j);
    if (err == 0 && !run->uncorrected)
        estimates_settle(scratch);
    if (err == 0 && !run->uncorrected && head->frame && head->cpu_ns >= 0)
        waits_settle_frame(scratch, head->wall_ns, head->wall_ns - head->cpu_ns, head->runq_ns);
    return err;
}

/* The figures of one line are consistent only together, so each line is settled by itself. */
int fns_line(struct json *j, const struct run *run, struct run_scratch *scratch,
             struct fns_head *head)
{
    if (scratch->count == 0)
        return read_line(j, run, scratch, head);
    if (!scratch->line)
        scratch->line = calloc(1, sizeof(*scratch->line));
    struct run_scratch *line = scratch->line;
    int err = line ? fns_ready(line, scratch->slots) : -ENOMEM;
    if (err)
        return err;
    fns_clear(line);
    err = read_line(j, run, line, head);
    for (size_t i = 0; err == 0 && i < line->count; i++)
        err = scratch_add(scratch, line->entries[i].fn, &line->entries[i].sum);
    return err;
}

static int read_at(const struct run *run, uint64_t at, struct run_scratch *scratch,
                   struct fns_head *head)
{
    size_t left;
    const char *s = reader_text(run, at, &left);
    const char *newline = memchr(s, '\n', left);
    struct json j = {.at = s, .end = newline ? newline : s + left};
    return fns_line(&j, run, scratch, head);
}

/* Adds a call at the depth of the earlier ones. Deeper lines are parts of calls. */
static void add_call(struct fns_head *calls, const struct fns_head *call)
{
    if (!call->frame || call->depth != calls->depth || call->cpu_ns < 0 || call->wall_ns < 0)
        return;
    calls->wall_ns = saturating_add(calls->wall_ns, call->wall_ns);
    calls->cpu_ns = saturating_add(calls->cpu_ns, call->cpu_ns);
    if (call->runq_ns < 0 || calls->runq_ns < 0)
        calls->runq_ns = -1;
    else
        calls->runq_ns = saturating_add(calls->runq_ns, call->runq_ns);
}

int fns_frame(const struct run *run, const struct run_frame *frame, struct run_scratch *scratch,
              struct fns_head *calls)
{
    struct fns_head head = {.depth = -1};
    int err = fns_ready(scratch, run->fn_count);
    if (err)
        return err;
    fns_clear(scratch);
    err = read_at(run, frame->at, scratch, &head);
    *calls = (struct fns_head){.depth = head.depth};
    if (err == 0)
        add_call(calls, &head);
    const struct run_fold *fold = frame->fold ? &run->folds[frame->fold - 1] : NULL;
    for (size_t i = 0; err == 0 && fold && i < fold->count; i++) {
        err = read_at(run, fold->lines[i], scratch, &head);
        if (err == 0)
            add_call(calls, &head);
    }
    return err;
}

int run_frame_functions(const struct run *run, const struct run_frame *frame,
                        struct run_scratch *scratch)
{
    struct fns_head calls;
    return fns_frame(run, frame, scratch, &calls);
}

int64_t run_probes(const struct run *run)
{
    int64_t sum = 0;
    for (size_t i = 0; i < run->fn_count; i++)
        sum = saturating_add(sum, run->fns[i].sum.probes_ns);
    return sum > 0 ? sum : 0;
}
