/* Stacks in one line of text. */
#ifndef PIANO_TOOL_REPORT_STRETCH_H
#define PIANO_TOOL_REPORT_STRETCH_H

#include "tool/profile/stretch.h"
#include "tool/report/report.h"

/* "leaf < caller < ...": the innermost frames that fit into the line of O after INDENT columns,
 * or all frames with O->all. MEMORY omits the frames between a program and its malloc. FRAMES of
 * PROFILE_MAX_FRAMES. Malloc'd, or NULL. */
char *stretch_text(const struct profile *profile, uint32_t stack, const struct report_options *o,
                   size_t indent, bool memory, const struct symbol_frame **frames);

/* The same for COUNT frames, starting at FIRST; they fit. */
char *stretch_line(const struct symbol_frame *const *frames, size_t first, size_t count,
                   const struct report_options *o, size_t indent);
/* "all of it in function < caller ...", "91 % in ...". Malloc'd, or NULL. */
char *stretch_mostly_text(const struct stretch_mostly *m, const struct profile *profile,
                          const struct report_options *o, size_t indent,
                          const struct symbol_frame **frames);

#endif
