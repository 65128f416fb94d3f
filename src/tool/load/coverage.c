/* Samples are drawn at random, so their sum differs from the kernel's CPU time even if none is
 * missing. Samples of weight w that represent s have a standard deviation of at most sqrt(s w). A
 * difference of more than three of them, plus what a program may use before its first sample, is
 * not chance. The samples may represent more than the kernel's time: that does not include
 * processes that nothing has waited for. */
#include "tool/load/coverage.h"

#include <math.h>
#include <stdio.h>

#include "tool/util/units.h"

static const double second = 1e9, deviations = 3, unseen = 4, start_ns = 20e6;

struct coverage coverage_of(const struct piano__trace *t)
{
    struct coverage c = {.is_known = t->kernel_ns > 0 && t->cpu_hz > 0,
                         .kernel_ns = t->kernel_ns,
                         .sampled_ns = t->sampled_ns};
    if (!c.is_known)
        return c;
    double sampled = (double)t->sampled_ns, kernel = (double)t->kernel_ns;
    double weight = second / (double)t->cpu_hz;
    if (t->samples > 0)
        weight = fmax(weight, sampled / (double)t->samples);
    c.share = sampled / kernel;
    c.is_short =
        kernel > sampled + deviations * sqrt(sampled * weight) + unseen * weight + start_ns;
    return c;
}

const char *coverage_text(char *text, size_t size, const struct piano__trace *t)
{
    struct coverage c = coverage_of(t);
    char share[UNITS_LEN], time[UNITS_LEN];
    text[0] = '\0';
    if (c.is_short)
        snprintf(text, size, "samples cover %s of %s", units_percent(share, c.share),
                 units_time(time, (int64_t)c.kernel_ns));
    return text;
}
