/* What the reader of a heap report has to know besides its numbers: what is missing in the file, what was
 * dropped while recording, how far the figures can be trusted. On stderr, a line each, only with reason. */
#include "tool/report/heap.h"

#include <string.h>

#include "tool/util/say.h"
#include "tool/util/units.h"

enum { FEW_SAMPLES = 100, GAPS_SHOWN = 5, COMPLAINTS_SHOWN = 5, COMPARABLE = 1 << 20 };

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void notice_gaps(const struct recording *rec, const char *path)
{
    size_t shown = rec->gap_count < GAPS_SHOWN ? rec->gap_count : GAPS_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const struct recording_gap *g = &rec->gaps[i];
        if (g->to > 0)
            say("%s: bytes %llu to %llu: %s", path, (unsigned long long)g->from,
                (unsigned long long)g->to - 1, g->what);
        else
            say("%s: byte %llu: %s", path, (unsigned long long)g->from, g->what);
    }
    if (rec->gap_count > shown)
        say("%s: and %zu more places that could not be read", path, rec->gap_count - shown);
}

/* Sums in the header are of all stacks: what the stacks in the file do not make up is missing. */
static void notice_shortfall(const struct recording *rec)
{
    char lost[UNITS_LEN], all[UNITS_LEN];
    double short_by = rec->header.allocated_bytes - rec->total.allocated_bytes;
    if (rec->gap_count == 0 || short_by <= rec->header.allocated_bytes / COMPARABLE)
        return;
    say("%s of %s allocated are of parts that are missing; the figures below are without them",
        heap_bytes(lost, short_by), heap_bytes(all, rec->header.allocated_bytes));
}

static void notice_reading(const struct recording *rec)
{
    char path[512];
    say_safe(path, sizeof(path), rec->path);
    if (rec->foreign)
        say("%s belongs to another user", path);
    notice_gaps(rec, path);
    notice_shortfall(rec);
    if (rec->bad_numbers)
        say("%s: %llu number%s no sums and count as 0 (the first near byte %llu)", path,
            (unsigned long long)rec->bad_numbers, rec->bad_numbers == 1 ? " is" : "s are",
            (unsigned long long)rec->bad_number_at);
    if (rec->unknown_chunks)
        say("%s: %llu chunk%s of a kind this piano does not know", path,
            (unsigned long long)rec->unknown_chunks, plural(rec->unknown_chunks));
    if (rec->orphans)
        say("%s: the stacks of %llu sample%s are not in the file", path,
            (unsigned long long)rec->orphans, plural(rec->orphans));
}

static void notice_dropped(const struct piano__heap_stats *s)
{
    const struct {
        uint64_t count;
        const char *text;
    } drops[] = {
        {s->dropped_memory,
         "times there was no room to record: no memory, a full disk, the file gone"},
        {s->dropped_live,
         "samples are counted but not followed, the table of live blocks was full: "
         "they count as live for good"},
        {s->dropped_stacks, "samples have no stack: the table of stacks was full"},
        {s->dropped_busy, "allocations were not sampled: they came from a signal handler in the "
                          "middle of a sample"},
        {s->stale, "sampled blocks were freed in a way that could not be seen"},
        {s->map_partial, "times a part of a mapping was unmapped: not followed"},
    };
    for (size_t i = 0; i < sizeof(drops) / sizeof(*drops); i++)
        if (drops[i].count > 0)
            say("%llu %s", (unsigned long long)drops[i].count, drops[i].text);
}

static void notice_symbols(const struct heap *heap)
{
    const struct symbol_complaint *list = NULL;
    size_t count = symbols_complaints(heap->symbols, &list);
    char module[300], reason[200];
    for (size_t i = 0; i < count && i < COMPLAINTS_SHOWN; i++)
        say("no names for %s: %s", say_safe(module, sizeof(module), list[i].module),
            say_safe(reason, sizeof(reason), list[i].reason));
    if (count > COMPLAINTS_SHOWN)
        say("and no names for %zu more modules", count - COMPLAINTS_SHOWN);
}

/* An eighth of RATE, as `piano record --heap=` takes it. */
static const char *finer(char *text, size_t size, uint64_t rate)
{
    uint64_t less = rate > 8 ? rate / 8 : 1;
    if (less % 1024 == 0)
        snprintf(text, size, "%lluK", (unsigned long long)less / 1024);
    else
        snprintf(text, size, "%llu", (unsigned long long)less);
    return text;
}

void heap_notices(const struct heap *heap)
{
    const struct recording *rec = &heap->rec;
    uint64_t live = rec->total.live_samples;
    char rate[32];
    notice_reading(rec);
    notice_dropped(&rec->header.stats);
    notice_symbols(heap);
    if (rec->header.rate > 1 && live > 0 && live < FEW_SAMPLES)
        say("only %llu sampled block%s live: the figures of single sites are rough; "
            "`piano record --heap=%s` takes more samples",
            (unsigned long long)live, live == 1 ? " is" : "s are",
            finer(rate, sizeof(rate), rec->header.rate));
}
