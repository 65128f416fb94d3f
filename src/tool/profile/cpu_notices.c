/* Notices about the CPU samples of a recording: missing data and truncated stacks. */
#include "tool/profile/python.h"
#include "tool/profile/notices.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { SECOND = 1000000000 };
enum { CUT_SAID = 20 }; /* report truncated stacks if more than one in CUT_SAID is */

/* perf sees the native frames of the interpreter, not the Python functions. */
static void notice_python(const struct recording *rec)
{
    bool python = false;
    for (size_t i = 0; i < rec->module_count && !python; i++) {
        const struct symbol_frame frame = {.module = paths_base(rec->modules[i].path)};
        python = python_is_interpreter(&frame);
    }
    if (python && rec->cpu_samples > 0 && rec->header.trace.cpu_source != PIANO_CPU_TIMERS)
        say("these stacks have no Python functions: `piano record` must start the interpreter "
            "itself (no --pid, --kernel or shim; use the path in sys.executable)");
}

static void notice_stacks(const struct recording *rec)
{
    const struct piano__trace *t = &rec->header.trace;
    const struct recording_sum *none = &rec->stacks[0].sum;
    uint64_t without = t->samples - t->samples_unwound;
    uint64_t cut = without > none->cpu_samples ? without - none->cpu_samples : 0;
    char time[UNITS_LEN];
    if (cut > t->samples / CUT_SAID)
        say("%llu of %llu stacks are truncated: their outermost frames are missing, so the "
            "functions' totals are too small",
            (unsigned long long)cut, (unsigned long long)t->samples);
    if (none->cpu_ns > rec->total.cpu_ns / CUT_SAID)
        say("%s of CPU time has no stack: threads ended before their first sample, or there was no "
            "room for the stacks",
            units_time(time, (int64_t)none->cpu_ns));
}

/* If more is missing than one sample, the header of the report says how much. */
static void notice_no_sample(const struct piano__trace *t)
{
    char used[UNITS_LEN], period[UNITS_LEN];
    if (t->kernel_ns > 0 && t->cpu_hz > 0)
        say("there is no CPU sample: the program used %s of CPU time, and there is a sample every "
            "%s",
            units_time(used, (int64_t)t->kernel_ns),
            units_time(period, (int64_t)(SECOND / t->cpu_hz)));
    else
        say("there is no CPU sample: the program used too little CPU time");
}

void profile_notice_samples(struct profile *p)
{
    const struct piano__rec_header *h = &p->rec.header;
    if (p->said.samples)
        return;
    p->said.samples = true;
    if (h->samples_given_up)
        say("%llu CPU samples and waits were overwritten by new ones: the recording begins later "
            "than the program",
            (unsigned long long)h->samples_given_up);
    if (h->trace.samples_lost)
        say("%llu CPU samples were lost: percentages refer to the rest",
            (unsigned long long)h->trace.samples_lost);
    if (h->trace.threads_missed)
        say("%llu thread%s could not be sampled: no timer or perf event was available for %s",
            (unsigned long long)h->trace.threads_missed, units_plural(h->trace.threads_missed),
            h->trace.threads_missed == 1 ? "it" : "them");
}

void cpu_notices(const struct cpu *c)
{
    const struct piano__trace *t = &c->rec->header.trace;
    profile_notice_reading(c->profile);
    profile_notice_samples(c->profile);
    notice_stacks(c->rec);
    if (c->rec->cpu_samples == 0 && t->samples_lost == 0 && t->cpu_error == 0)
        notice_no_sample(t);
    notice_python(c->rec);
    profile_notice_symbols(c->profile);
}
