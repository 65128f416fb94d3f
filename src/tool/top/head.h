/* The header of `piano top`: the facts about the whole program. */
#ifndef PIANO_TOOL_TOP_HEAD_H
#define PIANO_TOOL_TOP_HEAD_H

#include "tool/profile/live.h"
#include "tool/util/buf.h"
#include "tool/util/json_writer.h"

/* CPU time and threads of the process, from the kernel. */
struct head_process {
    uint64_t cpu_ns, at_ns; /* of the last look */
    double cpu;             /* CPUs used since the look before; negative: unknown */
    size_t threads;         /* 0: unknown */
};

void head_look(struct head_process *h, const struct live_picture *p);
/* Writes the two lines of the header, safe to show. */
void head_put(struct buf *first, struct buf *second, const struct live_picture *p,
              const struct head_process *h);
/* Adds the members of the header. */
void head_put_json(struct json_writer *w, const struct live_picture *p,
                   const struct head_process *h);

#endif
