/* The functions of a file, each with a number. As in `piano report`, a function is a name in a
 * module, whatever the line of a sample, so totals by function agree. */
#ifndef PIANO_TOOL_EXPORT_FUNCTIONS_H
#define PIANO_TOOL_EXPORT_FUNCTIONS_H

#include "tool/symbol/symbol.h"
#include "tool/util/map.h"

struct export_functions {
    const struct symbol_frame **list; /* the first frame of each */
    size_t count, cap;
    struct map index; /* by a hash of the pointers: equal strings are one pointer */
};

/* The number of FRAME's function, or -ENOMEM. */
int64_t export_function(struct export_functions *f, const struct symbol_frame *frame);
void export_functions_release(struct export_functions *f);

#endif
