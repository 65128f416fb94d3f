/* The work after the program has ended. The recording is already complete except for the exit
 * status, which only the parent process knows. Then the files get their names, and one line is
 * printed for each: estimates from the header, and what could not be recorded and why. Finally the
 * names of functions are written into the recordings, before the program is rebuilt. */
#include "tool/record/finish.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/load/companion.h"
#include "tool/load/coverage.h"
#include "tool/load/own.h"
#include "tool/record/ending.h"
#include "tool/record/keeping.h"
#include "tool/record/names.h"
#include "tool/record/stripped.h"
#include "tool/record/survivors.h"
#include "tool/record/tally.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { MAX_SHOWN = 3, MAX_RECYCLED = 1 << 30, COVERED_LEN = 80, SECOND = 1000000000 };

static const char *estimate(char *text, double bytes)
{
    return units_bytes(text, isfinite(bytes) && bytes > 0 && bytes < 1e18 ? (int64_t)bytes : 0);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static void put_heap(struct buf *b, const struct piano__rec_header *h)
{
    char live[UNITS_LEN];
    char peak[UNITS_LEN];
    const struct piano__heap_stats *s = &h->stats;
    uint64_t lost = s->dropped_live + s->dropped_stacks;
    buf_printf(b, "%" PRIu64 " sample%s, %s live at the end, %s at the peak", s->samples,
               plural(s->samples), estimate(live, h->live_bytes), estimate(peak, h->peak_bytes));
    if (lost > 0)
        buf_printf(b, "; %" PRIu64 " not kept: tables full", lost);
    if (s->dropped_memory > 0)
        buf_printf(b, "; %" PRIu64 " not kept: no memory, or the disk is full, or the recording",
                   s->dropped_memory);
    if (s->dropped_busy > 0)
        buf_printf(b, "; %" PRIu64 " missed in signal handlers", s->dropped_busy);
    if (s->stale > 0)
        buf_printf(b, "; %" PRIu64 " freed unseen", s->stale);
    if (s->map_partial > 0)
        buf_printf(b, "; %" PRIu64 " mappings unmapped in part", s->map_partial);
}

/* What all CPU samples lack, for the summary line. */
static const char *limits;

void finish_limits(const char *words)
{
    limits = words;
}

/* How much of the time the events cover. A program that did not end by itself ended just now. */
static void put_covers(struct buf *b, const struct piano__rec_header *h)
{
    char kept[UNITS_LEN], all[UNITS_LEN];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t end = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint64_t from = h->trace.overwritten_ns;
    end = h->end_mono_ns > 0 && h->end_mono_ns < end ? h->end_mono_ns : end;
    if (from > h->start_mono_ns && from < end)
        buf_printf(b, ": they cover the last %s of %s", units_time(kept, (int64_t)(end - from)),
                   units_time(all, (int64_t)(end - h->start_mono_ns)));
}

static void put_trace(struct buf *b, const struct piano__rec_header *h)
{
    static const char *const sources[] = {"", "cpu-clock", "cycles", "timers"};
    const struct piano__trace *t = &h->trace;
    char size[UNITS_LEN];
    if (t->cpu_error > 0) {
        const char *hint;
        buf_printf(b, "%sno CPU samples: %s", b->len ? "; " : "",
                   perf_why(-(int)t->cpu_error, &hint));
    } else if (h->flags & PIANO_REC_HAS_CPU) {
        char covered[COVERED_LEN];
        const char *source = sources[t->cpu_source < 4 ? t->cpu_source : 0];
        buf_printf(b, "%s%" PRIu64 " CPU sample%s (%s, %" PRIu64 " Hz%s%s)", b->len ? "; " : "",
                   t->samples, plural(t->samples), source, t->cpu_hz, limits ? ", " : "",
                   limits ? limits : "");
        if (t->samples_lost > 0)
            buf_printf(b, ", %" PRIu64 " lost", t->samples_lost);
        if (h->samples_given_up > 0)
            buf_printf(b, ", the oldest given up (%" PRIu64 " with waits)", h->samples_given_up);
        if (*coverage_text(covered, sizeof covered, t))
            buf_printf(b, ", %s", covered);
    }
    if (h->flags & PIANO_REC_HAS_EVENTS) {
        uint64_t lost = t->dropped_memory + t->dropped_busy;
        buf_printf(b, "%s%" PRIu64 " event%s", b->len ? "; " : "", t->events, plural(t->events));
        if (lost > 0)
            buf_printf(b, ", %" PRIu64 " not kept", lost);
        if (t->recycled > 0)
            buf_printf(
                b, ", the oldest given up (%s)",
                units_bytes(size, (int64_t)(t->recycled % MAX_RECYCLED) * PIANO_REC_CHUNK_BYTES));
        put_covers(b, h);
    }
}

static bool is_empty(const struct piano__rec_header *h)
{
    return h->stats.samples == 0 && h->trace.samples == 0 && h->trace.events == 0;
}

/* The last component of the program's path, a field of PIANO_REC_PATH bytes that may not be
 * terminated. */
static const char *program_name(char *text, size_t size, const struct piano__rec_header *h)
{
    char path[PIANO_REC_PATH + 1] = "";
    memcpy(path, h->program, sizeof h->program);
    const char *slash = strrchr(path, '/');
    return say_safe(text, size, slash ? slash + 1 : path);
}

static void say_one(const struct recording *one, bool is_asked)
{
    struct piano__rec_header h;
    char path[PATH_MAX];
    char name[NAME_MAX], hidden[OWN_NOTICE];
    struct buf b = {0};
    if (recordings_header(one->path, &h) != 0)
        return;
    if (own_is_hidden(&h))
        buf_printf(&b, "heap unknown");
    else if (h.flags & PIANO_REC_HAS_HEAP)
        put_heap(&b, &h);
    put_trace(&b, &h);
    paths_short(path, sizeof path, one->path);
    const char *figures = b.len && !b.failed ? b.data : "nothing";
    if (is_asked)
        say("recording: %s (%s)", path, figures);
    else
        say("also: %s (%s, process %d: %s)", path, program_name(name, sizeof name, &h),
            (int)one->pid, figures);
    if (own_is_hidden(&h))
        say("%s", own_notice(hidden, &h));
    buf_free(&b);
}

/* Prints a few recordings one by one; of many, only their number and the one with the highest heap
 * peak. Returns their number. */
static size_t say_others(const struct recordings *r, const struct recording *main_one)
{
    const struct recording *largest = NULL;
    double most = -1;
    size_t count = r->count - (main_one != NULL);
    for (size_t i = 0; i < r->count; i++) {
        struct piano__rec_header h;
        if (&r->list[i] == main_one || recordings_header(r->list[i].path, &h) != 0)
            continue;
        if (count <= MAX_SHOWN)
            say_one(&r->list[i], false);
        double size = isfinite(h.peak_bytes) ? h.peak_bytes : 0;
        if (size > most) {
            most = size;
            largest = &r->list[i];
        }
    }
    if (count > MAX_SHOWN && largest) {
        say("and %zu recordings of other processes beside it; the largest:", count);
        say_one(largest, false);
    }
    return count;
}

/* The recording that the user asked for, or NULL. */
static const struct recording *asked_for(const struct recordings *r)
{
    const struct recording *found = NULL;
    for (size_t i = 0; i < r->count && r->list[i].pid == r->program; i++)
        found = &r->list[i];
    return found;
}

/* A program that becomes a daemon leaves its work to a process that it starts. */
static void say_survivors(const struct record *r, const struct survivors *s)
{
    char safe[PATH_MAX];
    if (s->count == 0)
        return;
    say("%s has ended, but %zu process%s that it started still run%s (%s%d): %s",
        say_safe(safe, sizeof safe, r->words[0]), s->count, s->count == 1 ? "" : "es",
        s->count == 1 ? "s" : "", s->count == 1 ? "" : "the first: ", (int)s->first,
        r->children ? "CPU samples end here, other recordings continue"
                    : "what happens there from now on is not recorded");
    if (!r->children)
        say("to record a daemon: start it in the foreground, or attach with piano record --pid %d",
            (int)s->first);
}

/* Processes beyond the limits are not recorded. */
static void say_refused(const struct record *r, const struct recordings *recordings)
{
    const struct piano__rec_family *f = recordings->header ? &recordings->header->family : NULL;
    char size[UNITS_LEN];
    if (!f || f->most == 0)
        return;
    if (f->refused > 0)
        say("%" PRIu64 " more process%s not recorded: there were %zu recordings of others already; "
            "--max-processes changes that",
            f->refused, f->refused == 1 ? " was" : "es were", r->most_processes);
    if (f->chunks <= 0)
        say("the recordings of other processes reached %s together, and lack what came later; "
            "--max-total changes that",
            units_bytes(size, (int64_t)r->family_bytes));
}

static void say_nothing_recorded(const struct record *r, const struct recordings *recordings)
{
    char safe[PATH_MAX];
    char path[PATH_MAX];
    struct stat st;
    say_safe(safe, sizeof safe, r->words[0]);
    paths_short(path, sizeof path, recordings->path);
    if (lstat(recordings->path, &st) == 0)
        say_error(NULL, "%s ended before its recording %s started", safe, path);
    else
        say_error("piano doctor; no program between them may clear its environment",
                  "%s left no recording: libpiano.so was not loaded into it, or could not write %s",
                  safe, path);
}

/* The program ended by itself but not through exit: `env -i PROGRAM` is env until it becomes a
 * program without our library. */
static bool may_have_changed(const struct piano__rec_header *h, int status)
{
    return h->state == PIANO_REC_ACTIVE && WIFEXITED(status);
}

static void say_nothing_allocated(const struct record *r, const struct piano__trace *t)
{
    enum { FINE_RATE = 1024 };
    char rate[UNITS_LEN];
    const char *others = r->children ? "" : ", or --children if its child processes do the work";
    const char *idle = r->cpu && t->cpu_error == 0 ? " and took little CPU time" : "";
    if (r->heap_rate == 1)
        say("nothing was sampled: the program allocated nothing%s%s", idle, others);
    else
        say("nothing was sampled: the program allocated little compared with the rate of %s%s; "
            "try --heap=%s%s%s",
            units_bytes(rate, (int64_t)r->heap_rate), idle, r->heap_rate > FINE_RATE ? "1K" : "1",
            r->cpu ? " --cpu=999" : "", others);
}

/* Of a program that used little CPU time: any other has samples, or the last line says what they
 * cover. */
static void say_no_cpu_sample(const struct piano__trace *t)
{
    char used[UNITS_LEN], period[UNITS_LEN];
    if (t->kernel_ns == 0 || t->cpu_hz == 0)
        say("nothing was sampled; try --cpu=999");
    else
        say("nothing was sampled: the program used %s of CPU time, and there is a sample every %s; "
            "try --cpu=999",
            units_time(used, (int64_t)t->kernel_ns),
            units_time(period, (int64_t)(SECOND / t->cpu_hz)));
}

static void say_nothing_sampled(const struct record *r, const struct piano__rec_header *h,
                                int status)
{
    char name[NAME_MAX];
    if (own_is_hidden(h))
        return; /* that was said */
    if (h->trace.samples_lost > 0)
        say("nothing was sampled: %s blocks the sampling signal, has its own handler for it (as Go "
            "programs do), or executed another program",
            program_name(name, sizeof name, h));
    else if (may_have_changed(h, status))
        say("nothing was sampled: if %s executed another program, that one cannot be recorded "
            "(statically linked, or started without LD_PRELOAD)",
            program_name(name, sizeof name, h));
    else if (!r->heap && !r->cpu)
        say("there were no events: no thread waited in a call that is known to wait, and the "
            "program reported nothing through piano.h%s",
            r->children ? "" : "; --children if others do its work");
    else if (h->trace.cpu_error > 0 && !r->heap)
        say("nothing was sampled: no CPU samples could be taken");
    else if (!r->heap)
        say_no_cpu_sample(&h->trace);
    else
        say_nothing_allocated(r, &h->trace);
}

/* OTHERS: number of other recordings. RUN: path of the run file of an instrumented program, or
 * NULL. */
static void say_next(const struct record *r, const struct recording *main_one, int status,
                     size_t others, const char *run)
{
    struct piano__rec_header h;
    char path[PATH_MAX];
    if (recordings_header(main_one->path, &h) != 0)
        return;
    if (is_empty(&h) && others == 0)
        say_nothing_sampled(r, &h, status);
    else if (run)
        say("next: piano report --frames, and piano report %s",
            paths_short(path, sizeof path, main_one->path));
    else if (r->output)
        say("next: piano report %s", paths_short(path, sizeof path, main_one->path));
    else
        say("next: piano report");
}

/* Reports what could not be recorded, by cause. */
static void say_missed(const struct sampler *cpu)
{
    if (cpu->journal.dropped > 0)
        say("%" PRIu64 " sample%s had no room in the recording, or on the disk",
            cpu->journal.dropped, plural(cpu->journal.dropped));
    if (cpu->away_blind > 0 && !cpu->wish.without_switches)
        say("%" PRIu64 " of %" PRIu64
            " waits have no stack: threads left their CPUs more often than "
            "stacks can be taken",
            cpu->away_blind, cpu->away);
}

/* Marks a recording that the tool created as ended; no other process does. */
static void end_recording(struct sampler *cpu, bool is_over)
{
    struct timespec now;
    struct piano__rec_header *h = cpu->journal.view.base.header;
    if (!cpu->is_owner || !h || !is_over)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    h->end_mono_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    h->state = PIANO_REC_ENDED;
}

void finish_attached(const struct record *r, struct recordings *recordings, struct sampler *cpu,
                     const struct watch *w)
{
    char path[PATH_MAX];
    struct piano__rec_header h = {0};
    struct recording one = {.path = recordings->path, .pid = r->pid, .image = 1, .over = true};
    if (cpu)
        end_recording(cpu, true);
    ending_write_attached(one.path, cpu, w, r->cpu_err);
    say_one(&one, true);
    if (cpu)
        say_missed(cpu);
    keeping_names(&one, 1);
    if (recordings_header(one.path, &h) != 0 || is_empty(&h))
        say(h.flags & PIANO_REC_ATTACHED
                ? "nothing was recorded: the process neither allocated much nor used much CPU time"
                : "nothing was sampled: the process used almost no CPU time");
    else if (r->output)
        say("next: piano report %s", paths_short(path, sizeof path, one.path));
    else
        say("next: piano report");
}

void finish(const struct record *r, struct recordings *recordings, struct sampler *cpu,
            const struct watch *w, int cpu_err)
{
    int status = w->status;
    char path[PATH_MAX];
    if (cpu)
        end_recording(cpu, WIFEXITED(status));
    recordings_find(recordings);
    recordings_forget_deleted(recordings);
    tally_events(recordings);
    if (r->cpu_inside)
        tally_samples(recordings, w->cpu_ns);
    stripped_look(recordings);
    stripped_say_dropped(recordings);
    names_settle(recordings);
    size_t empty = recordings->dropped + names_drop_empty(recordings);
    if (recordings->header)
        empty += recordings->header->family.emptied;
    const struct recording *main_one = asked_for(recordings);
    if (!main_one) {
        say_nothing_recorded(r, recordings);
    } else {
        ending_write(recordings, main_one, r, cpu, w, cpu_err);
        say_one(main_one, true);
    }
    ending_write_others(recordings, cpu);
    size_t others = say_others(recordings, main_one);
    say_refused(r, recordings);
    const struct survivors left = survivors_find(recordings, cpu);
    say_survivors(r, &left);
    if (empty > 0)
        say("%zu process%s in which nothing was sampled: no recording is kept of %s", empty,
            empty == 1 ? "" : "es", empty == 1 ? "it" : "them");
    if (cpu)
        say_missed(cpu);
    if (recordings->refused > 0)
        say("%" PRIu64 " snapshot%s not taken: no room left for them in the recording",
            recordings->refused, recordings->refused == 1 ? " was" : "s were");
    keeping_names(recordings->list, recordings->count);
    char *run = main_one ? companion_find(main_one->path) : NULL;
    if (run)
        say("its functions and frames: %s", paths_short(path, sizeof path, run));
    if (main_one)
        say_next(r, main_one, status, others, run);
    free(run);
}
