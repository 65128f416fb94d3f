/* What happened at a time on a thread, for the Firefox Profiler: polls, parks, marks, times off the
 * CPU and frames, as a list in order of threads and time. */
#ifndef PIANO_TOOL_EXPORT_FIREFOX_MARKERS_H
#define PIANO_TOOL_EXPORT_FIREFOX_MARKERS_H

#include "tool/export/export.h"

enum marker_kind {
    MARKER_POLL,
    MARKER_PARK,
    MARKER_MARK,
    MARKER_BLOCKED,
    MARKER_PREEMPTED,
    MARKER_FRAME,
    MARKER_KINDS
};
/* More would be a file that no browser opens: the rest is left out with a notice. */
enum { MARKERS_MOST = 1 << 20 };

struct marker {
    uint32_t pid, tid;
    enum marker_kind kind;
    const char *name; /* not yet safe to show */
    uint64_t begin_ns, end_ns;
    uint64_t number; /* of the task or the frame */
    uint32_t stack;  /* of times off the CPU */
    bool spike;
};

struct markers {
    struct marker *list;
    size_t count, cap;
    uint64_t left_out;
    uint64_t start_ns; /* time 0 */
    int err;
};

/* Runs the pass over the polls of S. 0 or negative errno; release M in any case. */
int markers_make(struct markers *m, const struct export_source *s);
void markers_release(struct markers *m);
/* The first marker of a thread; *END is the index after its last. */
size_t markers_of(const struct markers *m, uint32_t pid, uint32_t tid, size_t *end);

#endif
