/* NDJSON lines of a run. The runtime and the recovery of a killed run's live image both write them
 * with this code. docs/run-format.md describes every line. */
#include "common/lines.h"

#include <string.h>

/* Two digits at a time: this takes most of the time of writing a frame, and most of the numbers are
 * small. */
char *piano__digits(char *at, int64_t value)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char digits[PIANO_DIGITS + PIANO_DIGITS];
    char *end = digits + PIANO_DIGITS;
    char *first = end;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    if ((uint64_t)value < 10) {
        *at = (char)('0' + value);
        return at + 1;
    }
    for (; rest >= 10; rest /= 100)
        memcpy(first -= 2, pairs + 2 * (rest % 100), 2);
    if (rest > 0)
        *--first = (char)('0' + rest);
    if (value < 0)
        *--first = '-';
    /* A copy of constant length compiles to a few moves. The next write overwrites the surplus. */
    memcpy(at, first, PIANO_DIGITS);
    return at + (end - first);
}

void piano__text_quote(struct piano__text *text, const char *s)
{
    static const char hex[] = "0123456789abcdef";
    piano__text_puts(text, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        char escaped[8] = {(char)c, 0};
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
        } else if (c < 0x20) {
            memcpy(escaped, "\\u00", 4);
            escaped[4] = hex[c >> 4];
            escaped[5] = hex[c & 15];
        }
        piano__text_puts(text, escaped);
    }
    piano__text_puts(text, "\"");
}

int64_t piano__ticks_ns(int64_t ticks, uint64_t ns_per_tick_32)
{
    return (int64_t)(((__int128)ticks * (__int128)ns_per_tick_32) >> 32);
}

/* `cpu_ns` may be negative: one checked call may stand for others in earlier lines. The sums are
 * right. */
static void put_self_cpu(struct piano__text *text, const struct piano__tally *tally,
                         int64_t self_ns)
{
    piano__text_field(text, "cpu_ns", self_ns - tally->off_ns);
    if (tally->runq_ns > 0)
        piano__text_field(text, "runq_ns", tally->runq_ns);
}

/* Writes the square root of VARIANCE, unless it is below one nanosecond. */
static void put_root(struct piano__text *text, const char *key, double variance,
                     uint64_t ns_per_tick_32)
{
    if (!(variance > 0 && variance < 1e36))
        return;
    int64_t ns = piano__ticks_ns((int64_t)__builtin_sqrt(variance), ns_per_tick_32);
    if (ns > 0)
        piano__text_field(text, key, ns);
}

void piano__line_tally(struct piano__text *text, uint32_t id, const struct piano__tally *tally,
                       uint64_t ns_per_tick_32)
{
    piano__text_puts(text, "{\"id\":");
    piano__text_int(text, id);
    piano__text_field(text, "calls", tally->calls);
    piano__text_field(text, "self_ns", piano__ticks_ns(tally->self, ns_per_tick_32));
    piano__text_field(text, "total_ns", piano__ticks_ns(tally->total, ns_per_tick_32));
    piano__text_field(text, "ac", (int64_t)tally->alloc_count);
    piano__text_field(text, "ab", (int64_t)tally->alloc_bytes);
    if (tally->free_count) {
        piano__text_field(text, "fc", (int64_t)tally->free_count);
        piano__text_field(text, "fb", (int64_t)tally->free_bytes);
    }
    if (tally->raw != tally->self)
        piano__text_field(text, "raw_ns", piano__ticks_ns(tally->raw, ns_per_tick_32));
    /* They differ also when a call was counted in one line and timed in a later one. */
    if (tally->timed != tally->calls)
        piano__text_field(text, "timed", tally->timed);
    put_root(text, "se_ns", tally->self_var, ns_per_tick_32);
    put_root(text, "tse_ns", tally->total_var, ns_per_tick_32);
    if (tally->looked)
        piano__text_field(text, "seen_ns", piano__ticks_ns(tally->looked, ns_per_tick_32));
    put_root(text, "lse_ns", tally->looked_var, ns_per_tick_32);
    if (tally->held)
        piano__text_field(text, "held_ns", piano__ticks_ns(tally->held, ns_per_tick_32));
    if (tally->unwatched)
        piano__text_field(text, "pre_ns", piano__ticks_ns(tally->unwatched, ns_per_tick_32));
    if (tally->calls != 1 && tally->longest > 0)
        piano__text_field(text, "max_ns", piano__ticks_ns(tally->longest, ns_per_tick_32));
    if (tally->checked > 0)
        put_self_cpu(text, tally, piano__ticks_ns(tally->self, ns_per_tick_32));
    piano__text_puts(text, "}");
}

static void put_thread_cpu(struct piano__text *text, const struct piano__thread *thread,
                           const struct piano__offcpu *look, uint64_t scale)
{
    int64_t span_ns = piano__ticks_ns(look->tick - thread->born, scale);
    if (look->tick == 0 || span_ns <= 0)
        return;
    int64_t off = look->off + thread->off_skipped;
    piano__text_field(text, "cpu_wall_ns", span_ns);
    piano__text_field(text, "cpu_ns", off < span_ns ? span_ns - off : 0);
    if (look->runq >= 0)
        piano__text_field(text, "runq_ns", look->runq + thread->runq_skipped);
}

void piano__line_thread(struct piano__text *text, const struct piano__thread *thread,
                        const struct piano__offcpu *look, const struct piano__live_header *header,
                        int64_t end_tick)
{
    char name[PIANO_NAME_BYTES];
    memcpy(name, thread->name, sizeof name);
    name[sizeof name - 1] = '\0';
    uint64_t scale = header->ns_per_tick_32;
    piano__text_puts(text, "{\"thread\":");
    piano__text_int(text, thread->number);
    piano__text_field(text, "tid", thread->tid);
    piano__text_puts(text, ",\"name\":");
    piano__text_quote(text, name);
    piano__text_field(text, "start_ns", piano__ticks_ns(thread->born - header->start_ticks, scale));
    if (thread->parent_thread) {
        piano__text_field(text, "parent_thread", thread->parent_thread);
        if (thread->parent_fn >= 0)
            piano__text_field(text, "parent_fn", thread->parent_fn);
    }
    if (end_tick >= 0)
        piano__text_field(text, "end_ns", piano__ticks_ns(end_tick - header->start_ticks, scale));
    put_thread_cpu(text, thread, look ? look : &thread->look, scale);
    piano__text_puts(text, "}\n");
}

/* Writes which frames these are: thread, level and root, or all other roots. */
static void put_which(struct piano__text *text, uint32_t thread, const struct piano__merged *merged,
                      uint32_t entry)
{
    const struct piano__merged_root *r = &merged->roots[entry];
    piano__text_field(text, "thread", thread);
    piano__text_field(text, "depth", r->depth);
    if (entry == PIANO_MERGED_REST)
        piano__text_puts(text, ",\"rest\":true");
    else
        piano__text_field(text, "root", r->root);
    if (r->under >= 0)
        piano__text_field(text, "under", r->under);
}

/* Writes `[bucket,count]`, preceded by a comma unless it is the FIRST. */
static void put_bucket(struct piano__text *text, bool *first, unsigned bucket, uint32_t count)
{
    if (count == 0)
        return;
    piano__text_puts(text, *first ? "[" : ",[");
    piano__text_int(text, bucket);
    piano__text_puts(text, ",");
    piano__text_int(text, count);
    piano__text_puts(text, "]");
    *first = false;
}

void piano__line_merged(struct piano__text *text, uint32_t thread,
                        const struct piano__merged *merged, uint32_t entry, uint64_t ns_per_tick_32)
{
    const struct piano__merged_root *r = &merged->roots[entry];
    bool first = true;
    piano__text_puts(text, "{\"merged\":");
    piano__text_int(text, (int64_t)r->frames);
    put_which(text, thread, merged, entry);
    piano__text_field(text, "wall_ns", piano__ticks_ns(r->wall, ns_per_tick_32));
    piano__text_field(text, "wall_max_ns", piano__ticks_ns(r->max, ns_per_tick_32));
    if (r->unlisted)
        piano__text_field(text, "unlisted", r->unlisted);
    if (r->looked > 0) {
        piano__text_field(text, "cpu_frames", (int64_t)r->looked);
        piano__text_field(text, "cpu_wall_ns", r->looked_wall);
        piano__text_field(text, "cpu_ns", r->cpu);
        if (r->runq >= 0)
            piano__text_field(text, "runq_ns", r->runq);
    }
    piano__text_puts(text, ",\"hist\":[");
    for (unsigned i = 0; i < PIANO_MERGED_WALLS; i++)
        put_bucket(text, &first, i, merged->walls[entry][i]);
    piano__text_puts(text, "],\"fns\":[]}\n");
}

void piano__line_merged_fn(struct piano__text *text, uint32_t thread,
                           const struct piano__merged *merged, uint32_t fn)
{
    const struct piano__merged_fn *f = &merged->fns[fn];
    bool first = true;
    piano__text_puts(text, "{\"merged_fn\":");
    piano__text_int(text, f->id);
    put_which(text, thread, merged, f->entry);
    piano__text_puts(text, ",\"hist\":[");
    for (unsigned i = 0; i < PIANO_MERGED_BUCKETS; i++)
        put_bucket(text, &first, i, f->counts[i]);
    piano__text_puts(text, "]}\n");
}

void piano__line_dropped(struct piano__text *text, const char *head,
                         const struct piano__dropped *dropped)
{
    piano__text_puts(text, head);
    piano__text_puts(text, ",\"dropped\":{\"frames\":");
    piano__text_int(text, (int64_t)dropped->frames);
    piano__text_field(text, "threads", (int64_t)dropped->threads);
    piano__text_field(text, "functions", (int64_t)dropped->functions);
    piano__text_field(text, "depth", (int64_t)dropped->depth);
    piano__text_field(text, "write", (int64_t)dropped->write);
    piano__text_field(text, "busy", (int64_t)dropped->busy);
    piano__text_field(text, "allocators", (int64_t)dropped->allocators);
    piano__text_puts(text, "}}\n");
}

bool piano__tally_is_empty(const struct piano__tally *t)
{
    bool has_time = t->self || t->total || t->raw || t->looked || t->unwatched || t->longest;
    bool has_blocks = t->alloc_count || t->alloc_bytes || t->free_count || t->free_bytes;
    return !t->calls && !t->timed && !has_time && !has_blocks && !(t->self_var > 0) &&
           !(t->total_var > 0) && !(t->looked_var > 0) && !t->checked && !t->off_ns && !t->runq_ns;
}

void piano__tally_add(struct piano__tally *a, const struct piano__tally *b)
{
    a->calls += b->calls;
    a->self += b->self;
    a->total += b->total;
    a->raw += b->raw;
    a->timed += b->timed;
    a->self_var += b->self_var;
    a->total_var += b->total_var;
    a->looked += b->looked;
    a->looked_var += b->looked_var;
    a->held += b->held;
    a->unwatched += b->unwatched;
    a->longest = b->longest > a->longest ? b->longest : a->longest;
    a->alloc_count += b->alloc_count;
    a->alloc_bytes += b->alloc_bytes;
    a->free_count += b->free_count;
    a->free_bytes += b->free_bytes;
    a->off_ns += b->off_ns;
    a->runq_ns += b->runq_ns;
    a->checked += b->checked;
}

size_t piano__line_bound(uint32_t count)
{
    /* Nineteen fields of at most 20 digits, and their keys. A merged line needs 24 bytes per
     * bucket. */
    return 600 * (size_t)count + 24 * (size_t)PIANO_HIST_BUCKETS + 1024;
}
