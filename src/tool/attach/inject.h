/* Starts a thread in a running process that loads libpiano.so. */
#ifndef PIANO_TOOL_ATTACH_INJECT_H
#define PIANO_TOOL_ATTACH_INJECT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/attach/proc.h"

struct injection {
    pid_t pid;
    const char *library; /* the file to load */
    bool with_heap;      /* to record the heap */
    int socket;          /* to the new thread; -1: none */
    int64_t stood_ns;    /* how long a thread of the process stood still, in all */
    int64_t longest_ns;  /* the longest of that at once */
    unsigned stops;      /* how often one was stopped */
    struct attach_failure failure;
};

/* Returns whether it worked; `failure` says why not. */
bool inject(struct injection *in);

#endif
