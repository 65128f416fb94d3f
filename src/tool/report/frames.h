/* `piano report --frames`: declarations shared by its files. */
#ifndef PIANO_TOOL_REPORT_FRAMES_H
#define PIANO_TOOL_REPORT_FRAMES_H

#include "tool/report/report.h"

/* Numbers of the WORST frames of the run, worst first, by wall time, or by CPU time if requested
 * and known. Malloc'd; free it on failure too. 0 or -ENOMEM. */
int frames_worst(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                 size_t *count);
/* The same frames with the frame before and after each, in order, into *OUT. */
int frames_choose(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                  size_t *count);

/* Data from the recording of the same process about the frames of RUN. NULL if there is none or
 * it cannot be read (a message says so). */
struct inside;
struct inside *inside_open(const struct run *run);
void inside_close(struct inside *in);
/* Describes the worst frames as text. 0 or negative errno. */
int inside_print(FILE *out, struct inside *in, const struct report_options *o);
/* Adds the member "inside" of a frame; null if there is no data for it. IN may be NULL. */
void inside_put(struct json_writer *w, struct inside *in, const struct run_frame *frame);

#endif
