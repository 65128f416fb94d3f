/* The reports of the polls of a recording. */
#ifndef PIANO_TOOL_REPORT_POLLS_H
#define PIANO_TOOL_REPORT_POLLS_H

#include "tool/profile/polls.h"
#include "tool/report/heap.h"
#include "tool/report/stretch.h"
#include "tool/util/sheet.h"

int polls_report(FILE *out, struct polls *p, const struct report_options *o);
int polls_report_json(FILE *out, struct polls *p, const struct report_options *o);

/* ---- pieces ---- */

/* Prints how much of the time the events cover, if old ones were overwritten. */
void polls_print_covers(FILE *out, const struct polls *p);
int polls_print_longest(FILE *out, struct polls *p, const struct report_options *o);
void polls_put_longest(struct json_writer *w, struct polls *p);
/* AT_NS of CLOCK_MONOTONIC as time since the start; null if it is before. */
void polls_put_moment(struct json_writer *w, const char *key, const struct polls *p,
                      uint64_t at_ns);
/* The name of a thread under KEY and TITLE, its tid and worker. */
void polls_thread_columns(struct sheet *s, const struct polls *p, uint32_t track, const char *key,
                          const char *title);
/* Where TOTAL_NS went; TITLE is that of the share on the CPU. */
void polls_time_columns(struct sheet *s, const struct polls *p, const struct polls_time *time,
                        uint64_t total_ns, const char *title);

#endif
