/* Notices about a heap recording: missing data, drops during recording, and the accuracy of the
 * figures. Each is one line on stderr, printed only if it applies. */
#include "tool/profile/notices.h"

#include <stdlib.h>
#include <string.h>

#include "tool/load/own.h"
#include "tool/profile/jitted.h"
#include "tool/profile/python.h"
#include "tool/util/order.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static const double matters = 0.05; /* minimum share of bytes of a nameless module */

enum { FEW_SAMPLES = 100, GAPS_SHOWN = 5, COMPLAINTS_SHOWN = 5, COMPARABLE = 1 << 20 };

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

/* Sums in the header cover all stacks. The part that the stacks in the file do not account for
 * is missing. */
static void notice_shortfall(const struct recording *rec)
{
    char lost[UNITS_LEN], all[UNITS_LEN];
    double short_by = rec->header.allocated_bytes - rec->total.allocated_bytes;
    if (rec->gap_count == 0 || short_by <= rec->header.allocated_bytes / COMPARABLE)
        return;
    say("%s of %s allocated are in missing parts of the file; the figures below leave them out",
        figure_bytes(lost, short_by), figure_bytes(all, rec->header.allocated_bytes));
}

/* What made `piano record` take a snapshot or end the recording: the last four times. */
static void notice_fired(const struct piano__rec_header *h)
{
    const size_t room = sizeof(h->fires) / sizeof(*h->fires);
    char at[UNITS_LEN], what[200], value[UNITS_LEN];
    for (uint64_t i = h->fired > room ? h->fired - room : 0; i < h->fired; i++) {
        const struct piano__fired *f = &h->fires[i % room];
        bool is_growth = f->kind == PIANO_FIRED_GROWTH;
        uint64_t since = f->at_ns > h->start_mono_ns ? f->at_ns - h->start_mono_ns : 0;
        if (is_growth)
            units_percent(value, (double)f->value / 1000);
        else
            units_time(value, (int64_t)f->value);
        say("after %s: %s%s%s%s%s", units_time(at, (int64_t)since),
            is_growth ? "the heap grew by " : "a poll took ", value, *f->what ? " (" : "",
            *f->what ? say_safe(what, sizeof(what), f->what) : "", *f->what ? ")" : "");
        if (f->action == PIANO_FIRED_END)
            say("the recording ends there: --on-%s, although the program went on",
                is_growth ? "growth" : "long-poll");
    }
}

void profile_notice_reading(struct profile *p)
{
    const struct recording *rec = &p->rec;
    if (p->said.reading)
        return;
    p->said.reading = true;
    char path[512];
    say_safe(path, sizeof(path), rec->path);
    if (rec->foreign)
        say("%s belongs to another user", path);
    notice_fired(&rec->header);
    notice_gaps(rec, path);
    notice_shortfall(rec);
    if (rec->bad_numbers)
        say("%s is damaged: %llu number%s cannot be right and count%s as 0 (the first near byte "
            "%llu)",
            path, (unsigned long long)rec->bad_numbers, units_plural(rec->bad_numbers),
            rec->bad_numbers == 1 ? "s" : "", (unsigned long long)rec->bad_number_at);
    if (rec->unknown_chunks)
        say("%s: %llu chunk%s of a kind this piano does not know", path,
            (unsigned long long)rec->unknown_chunks, units_plural(rec->unknown_chunks));
    if (rec->header.trace.cpu_error)
        say("%s has no CPU samples, although they were asked for: %s", path,
            strerror((int)rec->header.trace.cpu_error));
    if (rec->orphans)
        say("%s: the stacks of %llu sample%s are not in the file", path,
            (unsigned long long)rec->orphans, units_plural(rec->orphans));
}

void heap_notice_losses(const struct profile *p)
{
    const struct piano__heap_stats *s = &p->rec.header.stats;
    const struct {
        uint64_t count;
        const char *text;
    } drops[] = {
        {s->dropped_memory,
         "times there was no room to record: no memory, a full disk, the file gone"},
        {s->dropped_live, "samples were not followed because the table of live blocks was full: "
                          "their memory counts neither as live nor as freed"},
        {s->dropped_stacks, "samples have no stack: the table of stacks was full"},
        {s->dropped_busy,
         "allocations were not sampled: a signal handler made them while a sample was taken"},
        {s->stale, "sampled blocks were freed in a way that could not be seen"},
        {s->map_partial, "times a part of a mapping was unmapped: not followed"},
    };
    for (size_t i = 0; i < sizeof(drops) / sizeof(*drops); i++)
        if (drops[i].count > 0)
            say("%llu %s", (unsigned long long)drops[i].count, drops[i].text);
}

/* JIT code has no names: says why, if the runtime left a file with names. */
static void notice_jitted(struct profile *p)
{
    const char *why = p->jitted ? jitted_complaint(p->jitted) : NULL;
    for (size_t i = 0; why && i < p->pc_count && !p->said.jitted; i++) {
        p->said.jitted = jitted_is_unnamed(p->pcs[i].frames);
        if (p->said.jitted)
            say("no names for JIT code: %s", why);
    }
}

void profile_notice_symbols(struct profile *p)
{
    const struct symbol_complaint *list = NULL;
    size_t count = symbols_complaints(p->symbols, &list), first = p->said.complaints;
    char module[300], reason[200];
    for (size_t i = first; i < count && i < first + COMPLAINTS_SHOWN; i++)
        say("no names for %s: %s", say_safe(module, sizeof(module), list[i].module),
            say_safe(reason, sizeof(reason), list[i].reason));
    if (count > first + COMPLAINTS_SHOWN)
        say("and no names for %zu more modules", count - first - COMPLAINTS_SHOWN);
    p->said.complaints = count;
    notice_jitted(p);
}

/* ---- modules without names ---- */

/* Counts for one module name. */
struct nameless {
    const char *module;
    size_t pcs, unnamed; /* addresses in it */
    double bytes;        /* of stacks with an unnamed address */
};

static bool is_unnamed(const struct symbol_frame *f)
{
    size_t len = strlen(f->module);
    return strncmp(f->function, f->module, len) == 0 && strncmp(f->function + len, "+0x", 3) == 0;
}

static bool is_complained_of(const struct profile *p, const char *module)
{
    const struct symbol_complaint *list = NULL;
    size_t count = symbols_complaints(p->symbols, &list);
    for (size_t i = 0; i < count; i++)
        if (strcmp(paths_base(list[i].module), module) == 0)
            return true;
    return false;
}

/* Finds or adds the entry for MODULE; NULL: the list is full. Strings are shared. */
static struct nameless *nameless_of(struct nameless *list, size_t *count, size_t cap,
                                    const char *module)
{
    for (size_t i = 0; i < *count; i++)
        if (list[i].module == module)
            return &list[i];
    if (*count == cap)
        return NULL;
    list[*count] = (struct nameless){.module = module};
    return &list[(*count)++];
}

/* A stack counts once per module, however many frames it has there. */
static void add_stack_bytes(const struct profile *p, uint32_t stack, struct nameless *list,
                            size_t *count, size_t cap, uint32_t *last_stack)
{
    const struct profile_stack *s = &p->stacks[stack];
    for (uint32_t k = 0; k < s->depth; k++) {
        const struct profile_pc *pc = &p->pcs[s->pcs[k]];
        const struct symbol_frame *f = &pc->frames[pc->count - 1];
        struct nameless *n = is_unnamed(f) ? nameless_of(list, count, cap, f->module) : NULL;
        if (n && last_stack[n - list] != stack + 1) {
            last_stack[n - list] = stack + 1;
            n->bytes += p->rec.stacks[stack].sum.allocated_bytes;
        }
    }
}

static int compare_nameless(const void *a, const void *b)
{
    const struct nameless *x = a, *y = b;
    return ORDER(y->bytes, x->bytes);
}

static void notice_nameless(const struct profile *p)
{
    enum { MODULES = 64 };
    struct nameless list[MODULES];
    uint32_t last_stack[MODULES] = {0};
    double all = p->rec.total.allocated_bytes;
    size_t count = 0, shown = 0;
    char safe[300];
    for (size_t i = 0; i < p->pc_count; i++) {
        const struct symbol_frame *f = &p->pcs[i].frames[p->pcs[i].count - 1];
        struct nameless *n = nameless_of(list, &count, MODULES, f->module);
        if (n) {
            n->pcs++;
            n->unnamed += is_unnamed(f);
        }
    }
    for (uint32_t i = 0; i < p->rec.stack_count; i++)
        if (profile_has_site(p, i))
            add_stack_bytes(p, i, list, &count, MODULES, last_stack);
    qsort(list, count, sizeof(*list), compare_nameless);
    for (size_t i = 0; i < count && shown < COMPLAINTS_SHOWN; i++) {
        const struct symbol_frame of = {.function = "", .module = list[i].module};
        if (list[i].bytes < all * matters || list[i].unnamed * 3 < list[i].pcs ||
            profile_is_plumbing(&of) || (p->rec.code_count > 0 && python_is_interpreter(&of)) ||
            is_complained_of(p, list[i].module))
            continue;
        say("no symbols for %s (%.0f %% of the bytes): install its debug symbols%s",
            say_safe(safe, sizeof(safe), list[i].module), list[i].bytes / all * 100,
            getenv("DEBUGINFOD_URLS") ? "" : ", or set DEBUGINFOD_URLS");
        shown++;
    }
}

/* An eighth of RATE, in the syntax of `piano record --heap=`. */
static const char *finer(char *text, size_t size, uint64_t rate)
{
    uint64_t less = rate > 8 ? rate / 8 : 1;
    if (less % 1024 == 0)
        snprintf(text, size, "%lluK", (unsigned long long)less / 1024);
    else
        snprintf(text, size, "%llu", (unsigned long long)less);
    return text;
}

void heap_notice_hidden(const struct profile *p)
{
    char text[OWN_NOTICE];
    if (own_is_hidden(&p->rec.header))
        say("%s", own_notice(text, &p->rec.header));
}

void heap_notices(struct profile *p)
{
    const struct recording *rec = &p->rec;
    uint64_t live = rec->total.live_samples;
    unsigned kinds = p->instruments; /* for the suggested command */
    char rate[32];
    profile_notice_reading(p);
    if (rec->header.flags & PIANO_REC_ATTACHED)
        say("the process ran already when this recording began: what it allocated before is in no "
            "figure, and live memory is what it has allocated since and not freed");
    heap_notice_losses(p);
    profile_notice_symbols(p);
    if (rec->total.allocated_bytes > 0)
        notice_nameless(p);
    if (rec->header.rate > 1 && live > 0 && live < FEW_SAMPLES)
        say("only %llu sampled block%s live: the figures of single sites are rough; "
            "`piano record --heap=%s%s%s` takes more samples",
            (unsigned long long)live, live == 1 ? " is" : "s are",
            finer(rate, sizeof(rate), rec->header.rate), kinds & PROFILE_CPU ? " --cpu" : "",
            kinds & PROFILE_EVENTS ? " --events" : "");
}
