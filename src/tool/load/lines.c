/* First stage: finds the lines and the kind of each.
 *
 * Only the head of a line is read, up to its `fns`. The figures are read later, once it is known
 * what the line counts for. The text is split at line ends into one part per worker, and the
 * indexes of the parts are joined in order. Heads are parsed strictly, in any key order. To skip
 * the rest of a line unread, `fns` must be its last key. This is checked: the line must end in `]}`
 * with no `[` after the one that opens `fns`. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

enum { PART_BYTES = 4 << 20, FORGET_BYTES = 16 << 20 };

struct part {
    struct reader *r;
    uint64_t from, to;
    struct line *lines;
    size_t count, cap;
    uint64_t bad_count, bad_at;
    const char *bad_why;
    uint64_t saturated;
    int err;
};

static bool fns_is_last(const char *fns, const char *end)
{
    while (end > fns && (end[-1] == ' ' || end[-1] == '\r' || end[-1] == '\t'))
        end--;
    if (end - fns < 3 || *fns != '[' || end[-1] != '}' || end[-2] != ']')
        return false;
    return !memchr(fns + 1, '[', (size_t)(end - fns) - 1);
}

static int small(struct json *j, uint32_t *out)
{
    int64_t value;
    int err = json_count(j, &value);
    if (err == 0 && value >= RUN_NO_FN)
        return json_fail(j, "expected a number below 2^32");
    *out = (uint32_t)value;
    return err;
}

static int read_depth(struct json *j, struct line *l)
{
    uint32_t depth = 0;
    int err = small(j, &depth);
    l->depth = depth > UINT16_MAX ? UINT16_MAX : (uint16_t)depth;
    return err;
}

/* A tiny call can be a few ns below zero after correction for the cost of measuring it. */
static int read_wall(struct json *j, struct line *l)
{
    int err = json_int(j, &l->wall_ns);
    if (err == 0 && l->wall_ns < 0)
        l->wall_ns = 0;
    return err;
}

static int read_flag(struct json *j, struct line *l, enum line_kind kind)
{
    bool set = false;
    int err = json_bool(j, &set);
    if (set)
        l->kind = (uint8_t)kind;
    return err;
}

static int read_rare_key(struct json *j, struct json_text key, struct line *l)
{
    if (json_is(key, "outside"))
        return read_flag(j, l, LINE_OUTSIDE);
    if (json_is(key, "part"))
        return read_flag(j, l, LINE_PART);
    if (json_is(key, "end") || json_is(key, "recovered") || json_is(key, "sync"))
        return read_flag(j, l, LINE_CONTROL);
    if (json_is(key, "rest")) {
        bool rest = false;
        int err = json_bool(j, &rest);
        l->rest = rest;
        return err;
    }
    if (json_is(key, "merged_fn")) {
        l->kind = LINE_MERGED_FN;
        return json_count(j, &l->start_ns);
    }
    if (json_is(key, "demoted")) {
        l->kind = LINE_DEMOTED;
        return small(j, &l->root);
    }
    if (json_is(key, "functions_add"))
        l->kind = LINE_CONTROL;
    return json_skip(j);
}

/* Values of a head needed only until it is completely read. */
struct head {
    int64_t took_ns;
    bool thread_line;
};

/* Reads one key of a head. Returns 1 if the rest of the line need not be read. */
static int read_key(struct json *j, struct json_text key, struct line *l, struct head *h)
{
    if (json_is(key, "fns"))
        return fns_is_last(j->at, j->end) ? 1 : json_skip(j);
    if (json_is(key, "start_ns"))
        return l->kind == LINE_MERGED || l->kind == LINE_MERGED_FN ? json_skip(j)
                                                                   : json_int(j, &l->start_ns);
    if (json_is(key, "wall_ns"))
        return read_wall(j, l);
    if (json_is(key, "thread")) {
        h->thread_line = true;
        return small(j, &l->thread);
    }
    if (json_is(key, "took_ns"))
        return json_int(j, &h->took_ns);
    if (json_is(key, "over_ns"))
        return json_int(j, &l->over_ns);
    if (json_is(key, "depth"))
        return read_depth(j, l);
    if (json_is(key, "root"))
        return small(j, &l->root);
    if (json_is(key, "under"))
        return small(j, &l->under);
    if (json_is(key, "frame")) {
        l->kind = LINE_FRAME;
        return json_skip(j);
    }
    if (json_is(key, "merged")) {
        l->kind = LINE_MERGED;
        return json_count(j, &l->start_ns);
    }
    return read_rare_key(j, key, l);
}

static int read_head(struct json *j, struct line *l)
{
    bool first = true;
    struct head h = {.took_ns = 0};
    struct json_text key;
    int got = json_expect(j, '{', "expected `{`");
    while (got == 0) {
        int more = json_member(j, &first, &key);
        if (more < 0)
            return more;
        if (more == 0)
            break;
        got = read_key(j, key, l, &h);
    }
    if (got < 0)
        return got;
    if (l->kind == LINE_OTHER && h.thread_line)
        l->kind = LINE_CONTROL;
    if (l->wall_ns >= 0 && h.took_ns > l->wall_ns) {
        int64_t extra = h.took_ns - l->wall_ns;
        l->extra_ns = extra < UINT32_MAX ? (uint32_t)extra : UINT32_MAX;
    }
    return got == 1 ? 0 : json_end(j);
}

static int keep(struct part *p, const struct line *l)
{
    if (VEC_ROOM(p->lines, p->count, p->cap) != 0)
        return -ENOMEM;
    p->lines[p->count++] = *l;
    return 0;
}

static void note_bad(struct part *p, uint64_t at, const char *why)
{
    if (p->bad_count++ == 0) {
        p->bad_at = at;
        p->bad_why = why;
    }
}

static bool blank(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r')
            return false;
    return true;
}

static int read_line(struct part *p, uint64_t at, const char *s, size_t len)
{
    struct line l = {.at = at,
                     .start_ns = INT64_MIN,
                     .wall_ns = -1,
                     .over_ns = -1,
                     .root = RUN_NO_FN,
                     .under = RUN_NO_FN};
    if (blank(s, len))
        return 0;
    if (len >= UINT32_MAX) {
        note_bad(p, at, "expected a line below 4 GB");
        return 0;
    }
    l.len = (uint32_t)len;
    struct json j = {.at = s, .end = s + len};
    if (read_head(&j, &l)) {
        note_bad(p, at + (uint64_t)(j.at - s), j.problem);
        return 0;
    }
    p->saturated += j.saturated;
    return l.kind == LINE_OTHER ? 0 : keep(p, &l);
}

static void read_part(void *ctx, size_t i)
{
    struct part *p = (struct part *)ctx + i;
    uint64_t at = p->from, forgotten = p->from;
    while (at < p->to && p->err == 0) {
        size_t left;
        const char *s = reader_text(p->r->run, at, &left);
        if (left > p->to - at)
            left = p->to - at;
        const char *newline = memchr(s, '\n', left);
        size_t len = newline ? (size_t)(newline - s) : left;
        p->err = read_line(p, at, s, len);
        at += len + (newline != NULL);
        if (at - forgotten > FORGET_BYTES) {
            reader_forget(p->r->run, forgotten, at);
            forgotten = at;
        }
    }
    reader_forget(p->r->run, forgotten, p->to);
}

/* Removes an incomplete last line from the text. Complete means valid JSON, with or without
 * newline. */
static void cut_tail(struct run *run)
{
    size_t end = run->map_len;
    while (end > 0 && (run->map[end - 1] == '\n' || run->map[end - 1] == '\r'))
        end--;
    const char *newline = end ? memrchr(run->map, '\n', end) : NULL;
    size_t from = newline ? (size_t)(newline - run->map) + 1 : 0;
    if (from == 0)
        return; /* the header: its parser reports it */
    struct json j = {.at = run->map + from, .end = run->map + end};
    if (json_skip(&j) == 0 && json_end(&j) == 0)
        return;
    run->truncated = true;
    run->text_len = from;
}

/* Returns the first line start at or after AT. */
static uint64_t line_start(const struct run *run, uint64_t at)
{
    size_t left;
    if (at >= run->text_len)
        return at;
    const char *s = reader_text(run, at, &left);
    const char *newline = memchr(s, '\n', run->text_len - at);
    return newline ? at + (uint64_t)(newline - s) + 1 : run->text_len;
}

static int join(struct reader *r, struct part *parts, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += parts[i].count;
    /* The first part grows in place and becomes the index, which avoids a second copy. */
    struct line *all = realloc(parts[0].lines, (total ? total : 1) * sizeof(*all));
    if (!all)
        return -ENOMEM;
    parts[0].lines = NULL;
    size_t at = parts[0].count;
    for (size_t i = 1; i < count; i++) {
        if (parts[i].count)
            memcpy(all + at, parts[i].lines, parts[i].count * sizeof(*all));
        at += parts[i].count;
        free(parts[i].lines);
        parts[i].lines = NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].bad_count)
            reader_bad(r, parts[i].bad_at, parts[i].bad_why);
        r->bad_count += parts[i].bad_count ? parts[i].bad_count - 1 : 0;
        r->saturated += parts[i].saturated;
    }
    r->lines = all;
    r->line_count = total;
    return 0;
}

int lines_index(struct reader *r, uint64_t from)
{
    struct run *run = r->run;
    run->text_len = run->map_len;
    cut_tail(run);
    uint64_t end = run->text_len;
    if (from > end)
        from = end;
    size_t count = (end - from) / PART_BYTES + 1;
    if (count > r->workers)
        count = r->workers;
    struct part *parts = calloc(count + 1, sizeof(*parts));
    if (!parts)
        return -ENOMEM;
    uint64_t at = from;
    for (size_t i = 0; i < count; i++) {
        uint64_t to = i + 1 == count ? end : line_start(run, from + (end - from) / count * (i + 1));
        parts[i] = (struct part){.r = r, .from = at, .to = to < at ? at : to};
        at = parts[i].to;
    }
    /* The few recovered lines form a last part, at offsets beyond the file. */
    parts[count] = (struct part){.r = r, .from = run->map_len, .to = run->map_len + run->live.len};
    reader_parallel(count + 1, read_part, parts);
    int err = 0;
    for (size_t i = 0; i <= count; i++)
        err = err ? err : parts[i].err;
    if (err == 0)
        err = join(r, parts, count + 1);
    for (size_t i = 0; i <= count; i++)
        free(parts[i].lines);
    free(parts);
    return err;
}
