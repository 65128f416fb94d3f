/* Reports what a build did. */
#ifndef PIANO_TOOL_BUILD_SUMMARY_H
#define PIANO_TOOL_BUILD_SUMMARY_H

#include <stddef.h>

#include "tool/build/driver.h"
#include "tool/build/records.h"

/* Did every pattern match something? Prints those that did not, with the nearest names. Returns an
 * exit status. */
int summary_check(const struct driver *d, const struct records *r);

/* Prints "instrumented N functions in M files", the files, and the programs built, on stderr. */
void summary_show(const struct driver *d, const struct records *r);

/* Prints `path:line: name (reason)` on stdout for functions that were asked for but omitted.
 * Returns the number of lines. */
size_t summary_list_skipped(const struct driver *d, const struct records *r);

#endif
