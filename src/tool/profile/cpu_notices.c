/* Notices about the CPU samples of a recording: missing data and truncated stacks. */
#include "tool/profile/python.h"
#include "tool/profile/notices.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

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

void cpu_notices(const struct cpu *c)
{
    const struct piano__trace *t = &c->rec->header.trace;
    profile_notice_reading(c->profile);
    if (c->rec->header.samples_given_up)
        say("%llu CPU samples and waits were overwritten by new ones: the recording begins later "
            "than the program",
            (unsigned long long)c->rec->header.samples_given_up);
    if (t->samples_lost)
        say("%llu CPU samples were lost: percentages refer to the rest",
            (unsigned long long)t->samples_lost);
    if (t->samples - t->samples_unwound > t->samples / CUT_SAID)
        say("%llu of %llu stacks are truncated: their outermost frames are missing, so the "
            "functions' totals are too small",
            (unsigned long long)(t->samples - t->samples_unwound), (unsigned long long)t->samples);
    if (t->threads_missed)
        say("%llu thread%s could not be sampled: no timer or perf event was available for %s",
            (unsigned long long)t->threads_missed, t->threads_missed == 1 ? "" : "s",
            t->threads_missed == 1 ? "it" : "them");
    if (!c->rec->has_cpu && t->samples_lost == 0)
        say("there is no CPU sample: the program used too little CPU time");
    notice_python(c->rec);
    profile_notice_symbols(c->profile);
}
