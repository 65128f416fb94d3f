/* Notices about a run: missing, truncated, recovered or approximate data. Each is one line on
 * stderr, printed only if it applies. */
#include "tool/profile/functions.h"
#include "tool/profile/notices.h"

#include <stdlib.h>

#include "tool/util/say.h"
#include "tool/util/units.h"

enum { WATCHED_NS = 100 * 1000 * 1000 };

static const char *const drop_texts[RUN_DROP_KINDS] = {
    "frames are missing: the run file could not be written",
    "threads were not measured: no room for them",
    "functions were not measured: beyond the capacity",
    "calls were too deep to be timed: counted only",
    "", /* writes: reported earlier */
    "calls from signal handlers were not measured: they interrupted piano",
    "allocator in the executable cannot be seen: allocations are not known",
};

static void notice_reading(const struct run *run)
{
    int64_t failed = run->dropped[RUN_DROP_WRITE];
    if (failed > 0)
        say("%lld write%s to the run file failed (disk full?): what follows is incomplete",
            (long long)failed, units_plural((uint64_t)failed));
    if (run->recovered)
        say("the program did not exit cleanly (or is still running): recovered what it left "
            "behind");
    else if (run->by_piano && !run->ended)
        say("the program did not exit cleanly (or is still running): the last moments may be "
            "missing");
    char path[512];
    say_safe(path, sizeof(path), run->path);
    if (run->foreign)
        say("%s belongs to another user", path);
    if (run->truncated)
        say("%s: the last line is not whole and was left out", path);
    if (run->bad_lines)
        say("%s: %llu line%s could not be read (line %llu: %s)", path,
            (unsigned long long)run->bad_lines, units_plural(run->bad_lines),
            (unsigned long long)run->bad_first, run->bad_why ? run->bad_why : "");
    if (run->saturated)
        say("%s: %llu number%s too large and cut to the largest that fits", path,
            (unsigned long long)run->saturated, run->saturated == 1 ? " was" : "s were");
}

/* The watcher looks at threads while functions are sampled. In a run longer than WATCHED_NS it
 * must have seen something. */
static void notice_estimates(const struct run *run)
{
    bool sampled = false, busy = run_busy_percent(run) > 0; /* the watcher waited too */
    int64_t looked = 0;
    for (uint32_t i = 0; i < run->fn_count; i++) {
        const struct tally *sum = &run->fns[i].sum;
        sampled |= run_is_sampled(run, i, sum);
        looked = saturating_add(looked, sum->looked_ns);
        char *name = sum->disputed && !busy ? run_fn_name(run, i) : NULL;
        if (name)
            say("%s: its samples and the watcher disagree; see docs/timing.md", name);
        free(name);
    }
    if (sampled && looked == 0 && run->by_piano && run->wall_ns > WATCHED_NS)
        say("no watcher ran: the time of a long call that was counted but not timed is in its "
            "caller");
}

void run_notices(const struct run *run, bool per_frame)
{
    notice_reading(run);
    notice_estimates(run);
    for (int k = 0; k < RUN_DROP_KINDS; k++)
        if (run->dropped[k] > 0 && k != RUN_DROP_WRITE)
            say("%lld %s", (long long)run->dropped[k], drop_texts[k]);
    bool known = run->merged_selves && run->unlisted == 0;
    if (per_frame && run->all.merged > 0)
        say("%lld of %lld frames are kept as sums: not listed, %s", (long long)run->all.merged,
            (long long)run->all.count,
            known                ? "in p50, p99 of functions to within 6 %"
            : run->merged_selves ? "in p50, p99 of a part of the functions"
                                 : "not in p50, p99 of functions");
    if (run->wall_estimated)
        say("frames without a wall time in the file: the sum of their functions is used");
}
