/* Private to levels.c and its tables. */
#ifndef PIANO_TOOL_LOAD_LEVELS_H
#define PIANO_TOOL_LOAD_LEVELS_H

#include "tool/load/reader.h"

/* Calls of one root by one caller at one depth of one thread, or all repeated calls of a caller. */
struct cell {
    uint64_t place; /* thread << 16 | depth */
    uint32_t under; /* rows, or RUN_NO_FN */
    uint32_t root;
    int64_t calls;
    int64_t wall_ns;
    bool certain; /* frames regardless of their time */
};

struct cells {
    struct cell *list;
    size_t count;
    struct map known; /* from the hash of place, caller and root to an index in `list` */
};

struct pending {
    uint64_t at;
    int64_t start_ns;
};

struct lane { /* a thread */
    uint32_t number;
    uint32_t level; /* UINT32_MAX: no frames */
    uint32_t under; /* the caller whose callees are the frames */
    int64_t under_wall;
    int64_t outer_ns, inner_ns; /* wall time of its lines at depth 0 and 1 */
    int64_t self_ns;            /* sum over its functions, when `open` */
    bool open;                  /* no line holds all of its time */
    bool untimed;               /* lines without a wall time */
    struct pending *pending;
    size_t count, cap;
    size_t *lines; /* all lines of the thread that turns.c may need */
    size_t line_count, line_cap;
};

struct levels {
    struct reader *r;
    struct cells cells;
    struct lane *lanes;
    size_t lane_count;
    struct map known; /* from the number of a thread to its index in `lanes` */
    bool *frame_root; /* per function row: matches the name given by --frame; NULL: no --frame */
    int tries;
    size_t *demoted_until; /* per row: lines before this one are not frames */
};

/* Return the thread of this number, and the cell of KEY's place, caller and root, creating it if
 * needed. NULL: out of memory. */
struct lane *levels_lane(struct levels *v, uint32_t number);
struct cell *levels_cell(struct cells *t, const struct cell *key);
void levels_release(struct cells *t);

#endif
