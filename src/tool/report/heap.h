/* The reports of the heap of a recording. */
#ifndef PIANO_TOOL_REPORT_HEAP_H
#define PIANO_TOOL_REPORT_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tool/profile/growth.h"
#include "tool/profile/notices.h"
#include "tool/profile/profile.h"
#include "tool/report/report.h"
#include "tool/util/json_writer.h"
#include "tool/util/sheet.h"

enum heap_mode { HEAP_SUMMARY, HEAP_TREE, HEAP_LEAKS, HEAP_GROWTH, HEAP_AT_PEAK };

struct heap_options {
    enum heap_mode mode;
    enum figure by;
    bool by_given;                    /* given by the user, not the default */
    long from, to;                    /* numbers of snapshots, GROWTH_TO_END or GROWTH_NOT_GIVEN */
    const struct heap_growth *growth; /* for HEAP_GROWTH */
};

/* Each returns 0 or negative errno. */
int heap_report(FILE *out, const struct profile *heap, const struct heap_options *h,
                const struct report_options *o);
int heap_report_json(FILE *out, const struct profile *heap, const struct heap_options *h,
                     const struct report_options *o);

/* If the figures are not known (load/own.h). */
int heap_report_hidden(FILE *out, const struct recording *rec);
int heap_report_hidden_json(FILE *out, const struct recording *rec);

/* ---- pieces ---- */

/* "file.c:12", the path shortened for a table; "-" if unknown. */
const char *heap_place(char *text, size_t size, const char *file, unsigned line);

/* Members of the JSON report of any recording, each on a line of its own. */
void report_put_recording(struct json_writer *w, const struct recording *rec); /* "run" */
void report_put_missing(struct json_writer *w, const struct recording *rec);
void report_put_tree(struct json_writer *w, const struct profile *p, enum figure by);
/* The source of the CPU samples, and its frequency. */
void report_put_source(struct json_writer *w, const struct recording *rec);
/* The kernel's CPU time, and how much of it the samples represent. */
void report_put_coverage(struct json_writer *w, const struct piano__trace *t);
/* "stack":[...] of a named stack; FRAMES of PROFILE_MAX_FRAMES. */
void report_put_stack(struct json_writer *w, const struct profile *p, uint32_t stack,
                      const struct symbol_frame **frames);

/* "program (pid 4711) | 2.4s | exit status 0" */
void heap_print_program(FILE *out, const struct recording *rec);

/* What was recorded, the sums, and how much of the stacks is known. */
void heap_print_answer(FILE *out, const struct profile *heap, const struct report_options *o);
/* The largest resident size of all snapshots; 0: unknown. */
uint64_t heap_resident(const struct recording *rec);
/* The share of stacks that are cut short, and what follows from it: "high", "medium" or "low". */
double heap_cut_share(const struct piano__heap_stats *s);
const char *heap_confidence(const struct piano__heap_stats *s);
/* Whether less than half of the peak is live at the end. */
bool heap_is_past_peak(const struct profile *heap);
/* If so, prints the size of the peak and the command that shows it; for reports of live memory. */
void heap_print_past_peak(FILE *out, const struct profile *heap, const struct heap_options *h,
                          const struct report_options *o);
/* The member "callers" of a site: those in STACK, as the column "Called by" shows them. */
void heap_put_callers(struct sheet *s, const struct profile *heap, uint32_t stack);
/* Prints what was skipped to find the sites. */
void heap_print_wrappers(FILE *out, const struct profile *heap, const struct report_options *o);

int heap_print_tree(FILE *out, const struct profile *heap, enum figure by,
                    const struct report_options *o);
int heap_print_leaks(FILE *out, const struct profile *heap, const struct report_options *o);
int heap_print_growth(FILE *out, const struct profile *heap, const struct heap_growth *g,
                      const struct report_options *o);
/* The member "growth". */
void heap_add_growth(struct json_writer *w, const struct profile *heap,
                     const struct heap_growth *g);

#endif
