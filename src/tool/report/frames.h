/* `piano report --frames`: what its parts share. */
#ifndef PIANO_TOOL_REPORT_FRAMES_H
#define PIANO_TOOL_REPORT_FRAMES_H

#include "tool/report/report.h"
#include "tool/util/buf.h"

/* The WORST frames by wall time, or CPU time where it is asked for and known, by number in the run, the worst first; malloc'd, to be freed on failure too. 0 or -ENOMEM. */
int frames_worst(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                 size_t *count);
/* The same with the frame before and after each, in order, into *OUT. */
int frames_choose(const struct run *run, size_t worst, enum report_rank rank, size_t **out,
                  size_t *count);

/* What the recording of the same process knows of the frames of RUN; NULL when there is none, or none that can be read
 * (said). */
struct inside;
struct inside *inside_open(const struct run *run);
void inside_close(struct inside *in);
/* Of the worst frames, in words. 0 or negative errno. */
int inside_print(FILE *out, struct inside *in, const struct report_options *o);
/* Of one frame, as JSON; null when nothing can be known. IN may be NULL. */
void inside_put(struct buf *b, struct inside *in, const struct run_frame *frame);

#endif
