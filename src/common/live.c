/* Reads the live image that `live.h` describes, of a run without a clean end.
 *
 * The tool calls this with a mapped `.live` file, whose bytes may be torn, stale or hostile. The
 * exiting thread of a program calls it with the blocks of threads that still run. It never writes
 * to the image.
 *
 * A program can be killed after it has appended some or all of its lines to the run file and before
 * it has updated the block. Then `flush_at` is the offset in the file from which on those lines may
 * be found. Lines found there are left out.
 *
 * Open calls are closed as if each had returned at the last time that the image contains, the
 * innermost first, with the same arithmetic as a real exit. An open frame does not become a frame
 * line: its numbers become part of the enclosing level. */
#include "common/lines.h"

#include <errno.h>
#include <string.h>

#include "common/offcpu.h"

struct view {
    const struct piano__live_header *header;
    const struct piano__thread *thread;
    const struct piano__head *heads;
    const struct piano__slot *slots;
    const struct piano__entry *entries;
    const char *text;
    const struct piano__merged *merged;
    int64_t end;                      /* ticks: open calls are closed at this time */
    const struct piano__offcpu *look; /* or NULL */
    struct piano__written written;
    uint32_t text_len, clearing; /* from one load of `commit` */
    void (*sink)(void *ctx, const char *text, size_t len);
    void *ctx;
};

static bool header_is_sane(const struct piano__live_header *h, size_t size)
{
    if (size < PIANO_LIVE_HEADER_BYTES || memcmp(h->magic, PIANO_LIVE_MAGIC, 8) != 0)
        return false;
    if (h->header_bytes != PIANO_LIVE_HEADER_BYTES ||
        h->thread_bytes != sizeof(struct piano__thread) ||
        h->head_bytes != sizeof(struct piano__head) ||
        h->slot_bytes != sizeof(struct piano__slot) ||
        h->entry_bytes != sizeof(struct piano__entry))
        return false;
    /* Slots and all that follows them are aligned only if the heads are a multiple of that. */
    if ((uint64_t)h->fn_capacity * sizeof(struct piano__head) % _Alignof(struct piano__slot) != 0 ||
        h->text_bytes % _Alignof(struct piano__merged) != 0)
        return false;
    uint64_t need =
        sizeof(struct piano__thread) +
        (uint64_t)h->fn_capacity * (sizeof(struct piano__head) + sizeof(struct piano__slot)) +
        (uint64_t)PIANO_MAX_DEPTH * sizeof(struct piano__entry) + h->text_bytes +
        sizeof(struct piano__merged);
    return h->block_bytes >= need && h->block_bytes % 4096 == 0;
}

static void send(const struct view *v, struct piano__text *text, const char *start)
{
    if (!text->full)
        v->sink(v->ctx, start, (size_t)(text->at - start));
}

static int32_t innermost_frame(const struct view *v)
{
    uint32_t depth = v->thread->depth < PIANO_MAX_DEPTH ? v->thread->depth : PIANO_MAX_DEPTH;
    for (uint32_t i = depth; i > 0; i--)
        if (v->entries[i - 1].flags & PIANO_ENTRY_FRAME)
            return (int32_t)(i - 1);
    return -1;
}

static void begin_part(struct piano__text *text, const struct view *v, int32_t depth)
{
    piano__text_puts(text, depth < 0 ? "{\"outside\":true" : "{\"part\":true");
    piano__text_field(text, "thread", v->thread->number);
    if (depth >= 0)
        piano__text_field(text, "depth", depth);
    piano__text_puts(text, ",\"fns\":[");
}

/* Sends one function per line, because there is no buffer for a long line. */
static void send_tally(const struct view *v, int32_t depth, uint32_t id,
                       const struct piano__tally *tally)
{
    char line[768];
    struct piano__text text = {line, line + sizeof line, false};
    begin_part(&text, v, depth);
    piano__line_tally(&text, id, tally, v->header->ns_per_tick_32);
    piano__text_puts(&text, "]}\n");
    send(v, &text, line);
}

static void send_slots(const struct view *v)
{
    int32_t frame = innermost_frame(v);
    uint32_t count = v->header->fn_count;
    if (count > v->header->fn_capacity)
        count = v->header->fn_capacity;
    for (uint32_t id = 0; id < count; id++) {
        const struct piano__slot *slot = &v->slots[id];
        struct piano__tally now = slot->now, kept = slot->kept;
        int64_t pending = piano__head_pending(&v->heads[id]);
        if (v->thread->moving / 2 == id + 1) {
            pending = v->thread->moving % 2 ? pending : 0;
            now = v->thread->moving % 2 ? (struct piano__tally){0} : v->thread->moved;
            kept = v->thread->moving % 2 ? v->thread->moved : kept;
        }
        if (v->clearing & PIANO_CLEAR_NOW)
            now = (struct piano__tally){0};
        now.calls += pending;
        now.self += pending * piano__each_self(v->heads[id].each);
        now.raw += pending * piano__each_self(v->heads[id].each);
        now.total += pending * slot->total_price;
        if (!piano__tally_is_empty(&now))
            send_tally(v, frame, id, &now);
        if (!(v->clearing & PIANO_CLEAR_KEPT) && !piano__tally_is_empty(&kept))
            send_tally(v, v->thread->kept_depth, id, &kept);
    }
}

/* Adds the off-CPU time of the open call E, of TOTAL ticks, to TALLY. */
static void share_time_off(const struct view *v, const struct piano__entry *e,
                           struct piano__offcpu *sums, int64_t total, struct piano__tally *tally)
{
    uint64_t scale = v->header->ns_per_tick_32;
    const struct piano__offcpu *began =
        e - v->entries < (ptrdiff_t)v->thread->looked_depth ? &e->look : &v->thread->look;
    sums->tick = v->look->tick;
    sums->off = v->look->off;
    sums->runq = v->look->runq;
    struct piano__call call = {.elapsed = v->end - e->start,
                               .stale = e->start - began->tick,
                               .self = tally->self,
                               .total = total,
                               .weight = 1};
    piano__offcpu_share(sums, began, &call, scale, tally);
    tally->off_ns += e->piece_off;
    tally->runq_ns += e->piece_runq;
}

static void send_open_calls(const struct view *v)
{
    const struct piano__thread *t = v->thread;
    uint32_t depth = t->depth < PIANO_MAX_DEPTH ? t->depth : PIANO_MAX_DEPTH;
    int64_t attributed = t->attributed + piano__each_self(t->counted);
    int64_t overhead = t->overhead + piano__each_cost(t->counted);
    int64_t assigned = t->raw, correction = t->correction;
    double variance = t->variance;
    struct piano__offcpu sums = t->look;
    for (uint32_t i = depth; i > 0; i--) {
        const struct piano__entry *e = &v->entries[i - 1];
        if (e->slot >= v->header->fn_capacity || e->start > v->end)
            continue;
        int64_t over = overhead - e->overhead;
        int64_t total = v->end - e->start - (over >> 8);
        struct piano__tally tally = {0};
        tally.self = total - (attributed - e->attributed);
        if (!(e->flags & (PIANO_ENTRY_SAMPLED | PIANO_ENTRY_BELOW))) {
            tally.self -= correction - e->correction;
            tally.self_var = variance - e->variance;
            correction = e->correction;
            variance = e->variance;
        }
        tally.raw = tally.self + ((over - (assigned - e->raw)) >> 8);
        tally.total = v->slots[e->slot].open > 1 ? 0 : total;
        if (v->look)
            share_time_off(v, e, &sums, total, &tally);
        attributed = e->attributed + total;
        assigned = e->raw + over;
        send_tally(v, innermost_frame(v), e->slot, &tally);
    }
}

/* Checks every entry index in the image, which may be corrupt. */
static void send_merged(const struct view *v)
{
    /* Too large for a stack. Only one thread reads an image at a time. */
    static char line[PIANO_MERGED_WALLS * 24 + 1024];
    const struct piano__merged *m = v->merged;
    uint32_t fns = m->fn_count < PIANO_MERGED_FNS ? m->fn_count : PIANO_MERGED_FNS;
    for (uint32_t i = 0; i <= PIANO_MERGED_REST; i++) {
        struct piano__text text = {line, line + sizeof line, false};
        if (m->roots[i].frames == 0 || v->clearing == (PIANO_CLEAR_MERGED | i << 8))
            continue;
        piano__line_merged(&text, v->thread->number, m, i, v->header->ns_per_tick_32);
        send(v, &text, line);
    }
    for (uint32_t i = 0; i < fns; i++) {
        struct piano__text text = {line, line + sizeof line, false};
        if (m->fns[i].entry > PIANO_MERGED_REST || m->roots[m->fns[i].entry].frames == 0 ||
            v->clearing == (PIANO_CLEAR_MERGED_FN | i << 8))
            continue;
        piano__line_merged_fn(&text, v->thread->number, m, i);
        send(v, &text, line);
    }
}

/* Returns how many bytes of TEXT, in whole lines, the file has at AT. The last line of the file
 * counts as whole if only its newline is missing, because readers accept it. */
static size_t length_at(struct piano__written file, size_t at, const char *text, size_t len)
{
    size_t same = 0, whole = 0;
    for (; same < len && at + same < file.len && file.data[at + same] == text[same]; same++)
        if (text[same] == '\n')
            whole = same + 1;
    return at + same == file.len && same < len && text[same] == '\n' ? same + 1 : whole;
}

/* Returns how many bytes of TEXT, in whole lines, the file has anywhere after FROM. The lines
 * contain their thread's number, and the thread wrote no others there. */
static size_t length_written(struct piano__written file, uint64_t from, const char *text,
                             size_t len)
{
    const char *newline = memchr(text, '\n', len);
    size_t most = 0;
    while (newline && from < file.len && most < len) {
        const char *found =
            memmem(file.data + from, file.len - from, text, (size_t)(newline - text));
        if (!found)
            break;
        size_t at = (size_t)(found - file.data);
        size_t whole = length_at(file, at, text, len);
        most = whole > most ? whole : most;
        from = at + (whole > 0 ? whole : 1);
    }
    return most;
}

static void send_text(const struct view *v)
{
    size_t len = v->text_len, from = 0;
    uint64_t flush_at = v->thread->flush_at;
    if (len == 0 || len > v->header->text_bytes)
        return;
    if (flush_at > 0 && v->written.data)
        from = length_written(v->written, flush_at - 1, v->text, len);
    if (from < len)
        v->sink(v->ctx, v->text + from, len - from);
}

static void send_thread(struct view v, const void *block)
{
    const struct piano__live_header *header = v.header;
    const char *at = block;
    v.thread = block;
    v.heads = (const struct piano__head *)(at + sizeof(struct piano__thread));
    v.slots = (const struct piano__slot *)(v.heads + header->fn_capacity);
    v.entries = (const struct piano__entry *)(v.slots + header->fn_capacity);
    v.text = (const char *)(v.entries + PIANO_MAX_DEPTH);
    v.merged = (const struct piano__merged *)(v.text + header->text_bytes);
    /* Pairs with the release in piano__thread_attach(): a block in state RUNNING is set up. */
    if (__atomic_load_n(&v.thread->state, __ATOMIC_ACQUIRE) != PIANO_THREAD_RUNNING)
        return;
    /* Pairs with the release in piano__commit_line(): the text below `text_len` is complete. */
    uint64_t commit = __atomic_load_n(&v.thread->commit, __ATOMIC_ACQUIRE);
    v.text_len = (uint32_t)commit;
    v.clearing = (uint32_t)(commit >> 32);
    send_text(&v);
    char line[512];
    struct piano__text text = {line, line + sizeof line, false};
    piano__line_thread(&text, v.thread, v.look, header, -1);
    send(&v, &text, line);
    send_merged(&v);
    send_slots(&v);
    send_open_calls(&v);
}

void piano__live_thread(const struct piano__live_header *header, const void *block, int64_t end,
                        const struct piano__offcpu *look,
                        void (*sink)(void *ctx, const char *text, size_t len), void *ctx)
{
    send_thread((struct view){.header = header, .end = end, .look = look, .sink = sink, .ctx = ctx},
                block);
}

static void send_dropped(const struct piano__live_header *h,
                         void (*sink)(void *ctx, const char *text, size_t len), void *ctx)
{
    char line[512];
    struct piano__text text = {line, line + sizeof line, false};
    piano__line_dropped(&text, "{\"recovered\":true", &h->dropped);
    if (!text.full)
        sink(ctx, line, (size_t)(text.at - line));
}

int piano__live_lines(const void *image, size_t size, struct piano__written written,
                      void (*sink)(void *ctx, const char *text, size_t len), void *ctx)
{
    const struct piano__live_header *header = image;
    if (!header_is_sane(header, size))
        return -EINVAL;
    uint64_t room = (size - PIANO_LIVE_HEADER_BYTES) / header->block_bytes;
    uint64_t count = header->block_count < room ? header->block_count : room;
    const char *first = (const char *)image + PIANO_LIVE_HEADER_BYTES;
    int64_t end = header->start_ticks;
    for (uint64_t i = 0; i < count; i++) {
        const struct piano__thread *t = (const void *)(first + i * header->block_bytes);
        if (t->last_tick > end)
            end = t->last_tick;
    }
    const struct view v = {
        .header = header, .end = end, .written = written, .sink = sink, .ctx = ctx};
    for (uint64_t i = 0; i < count; i++)
        send_thread(v, first + i * header->block_bytes);
    send_dropped(header, sink, ctx);
    return 0;
}
