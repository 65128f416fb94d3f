/* Records the heap and the events of a process that runs already, through libpiano.so in it. */
#ifndef PIANO_TOOL_ATTACH_ATTACH_H
#define PIANO_TOOL_ATTACH_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/attach/proc.h"

struct attach {
    pid_t pid;
    int socket;         /* -1: not attached */
    int64_t stood_ns;   /* how long threads stood still, one at a time */
    int64_t longest_ns; /* the longest of that at once */
    unsigned stops;
    struct attach_failure failure;
};

/* What to record. Zero: not that. */
struct attach_wish {
    uint64_t heap_rate;
    bool maps;
    bool events;
    bool cpu; /* sampled from outside, into the same recording */
    uint64_t max_bytes, max_event_bytes;
};

/* Loads LIBRARY into process PID, or finds the one that is loaded. WITH_HEAP: to record its heap,
 * which is refused if that cannot be seen. Returns whether it worked; `failure` says why not. */
bool attach_open(struct attach *a, pid_t pid, const char *library, bool with_heap);
/* Begins the recording FD, for which PATH is the name. */
bool attach_start(struct attach *a, int fd, const char *path, const struct attach_wish *wish);
/* Ends it. Returns whether the process has confirmed that. *LINGERS: a thread of it has not left
 * the recording yet. */
bool attach_stop(struct attach *a, bool *lingers);
/* Without `attach_stop`, the process ends the recording itself. */
void attach_close(struct attach *a);

#endif
