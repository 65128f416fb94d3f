/* A range of time, as --from and --to give it. One parser and one filter for all commands.
 *
 * The rules, which docs/report.md explains: a moment (a CPU sample, an event, a frame) belongs to
 * the range if it is in it. A poll belongs to it if it begins in it, and then counts as a whole. A
 * wait counts with the part that is in it. */
#ifndef PIANO_TOOL_LOAD_RANGE_H
#define PIANO_TOOL_LOAD_RANGE_H

#include <stdbool.h>
#include <stdint.h>

/* One end: a time since the start, or, if it is negative, before the end. */
struct range_end {
    bool given;
    bool from_end;
    bool is_number; /* a whole number without unit: with --growth, that of a snapshot */
    bool is_last;   /* `end` */
    int64_t ns;     /* since the start, or before the end; not negative */
};

/* As asked for. */
struct range_asked {
    struct range_end from, to;
};

/* CLOCK_MONOTONIC; TO is exclusive. */
struct range {
    bool given;
    uint64_t from_ns, to_ns;
};

/* Parses "12.5", "10s", "250ms", "-2s", "end". Returns false if TEXT is no time. */
bool range_parse(const char *text, struct range_end *end);

struct run_error;
/* Places ASKED in a recording or run PATH from START_NS to END_NS. 0, or -ERANGE with ERROR filled
 * if nothing of the range is in it. */
int range_resolve(struct range *r, const struct range_asked *asked, uint64_t start_ns,
                  uint64_t end_ns, const char *path, struct run_error *error);

/* Whether AT_NS is in R; true if there is no range. */
bool range_has(const struct range *r, uint64_t at_ns);
/* Cuts FROM to TO at the ends of R. Returns false if nothing is left. */
bool range_clip(const struct range *r, uint64_t *from_ns, uint64_t *to_ns);

#endif
