/* What a build did, told to the user. */
#ifndef PIANO_TOOL_BUILD_SUMMARY_H
#define PIANO_TOOL_BUILD_SUMMARY_H

#include <stddef.h>

#include "tool/build/driver.h"
#include "tool/build/records.h"

/* Did every pattern match something? Says which did not, with the nearest names, and returns an
 * exit status. */
int summary_check(const struct driver *d, const struct records *r);

/* "instrumented N functions in M files", the files, and the programs built, on stderr. */
void summary_show(const struct driver *d, const struct records *r);

/* `path:line: name (reason)` on stdout for what was asked for and left out; how
 * many lines that were. */
size_t summary_list_skipped(const struct driver *d, const struct records *r);

#endif
