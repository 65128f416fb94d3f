/* How much of the CPU time that the kernel counted the samples of a recording represent. */
#ifndef PIANO_TOOL_LOAD_COVERAGE_H
#define PIANO_TOOL_LOAD_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"

struct coverage {
    bool is_known; /* the kernel's CPU time is known */
    uint64_t kernel_ns, sampled_ns;
    double share;  /* sampled of the kernel's */
    bool is_short; /* samples are missing: the difference is not chance */
};

struct coverage coverage_of(const struct piano__trace *t);
/* "samples cover 6.0% of 810.0ms" into TEXT of SIZE bytes; empty if nothing is missing. Returns
 * TEXT. */
const char *coverage_text(char *text, size_t size, const struct piano__trace *t);

#endif
