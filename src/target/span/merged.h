/* Frames without their own line: what is kept of them (common/merged.h), and how it is written. */
#ifndef PIANO_TARGET_SPAN_MERGED_H
#define PIANO_TARGET_SPAN_MERGED_H

#include "common/merged.h"
#include "target/span/onoff.h"
#include "target/span/thread.h"

struct piano__merged *piano__merged_of(struct piano__thread *t);

/* Returns the entry for frames of ROOT at DEPTH under UNDER, or the shared last entry if there is
 * no room. MAY_WRITE allows writing out an idle entry to make room. */
struct piano__merged_root *piano__merged_entry(struct piano__thread *t, uint32_t root,
                                               int32_t depth, int32_t under, bool may_write,
                                               int64_t now);
/* Adds a frame of WALL ticks. */
void piano__merged_add(struct piano__thread *t, struct piano__merged_root *entry, int64_t wall,
                       int64_t now);
/* Adds the CPU time of that frame if known. */
void piano__merged_onoff(struct piano__merged_root *entry, int64_t wall, struct piano__onoff onoff);
/* Adds the self time (ns) of function ID in a frame of ENTRY. */
void piano__merged_self(struct piano__thread *t, struct piano__merged_root *entry, uint32_t id,
                        int64_t self_ns, int64_t now);
/* Writes the lines of all entries. */
void piano__merged_write(struct piano__thread *t, int64_t now);
/* Finishes clearing what a line has committed (repair.c). CLEARING is as in live.h. */
void piano__merged_repair(struct piano__thread *t, uint32_t clearing);
/* Removes all entries without writing them. */
void piano__merged_clear(struct piano__thread *t);

#endif
