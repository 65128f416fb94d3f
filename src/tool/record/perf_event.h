/* Parsed records of perf events. */
#ifndef PIANO_TOOL_RECORD_PERF_EVENT_H
#define PIANO_TOOL_RECORD_PERF_EVENT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/unwind/walk.h"

/* The fields of every sample; with the kernel's frames also PERF_SAMPLE_CALLCHAIN. */
#define PERF_EVENT_SAMPLE                                                                          \
    (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |                   \
     PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

struct perf_event {
    uint32_t type; /* PERF_RECORD_... */
    uint16_t misc;
    uint32_t pid, tid, cpu;
    uint64_t time;
    uint32_t parent_pid, parent_tid; /* FORK */
    uint64_t lost;                   /* LOST, LOST_SAMPLES */
    uint64_t period;                 /* SAMPLE */
    const unsigned char *chain;      /* SAMPLE: addresses, 8 bytes each */
    size_t chain_count;
    bool has_regs; /* 64-bit program; without them the stack is useless */
    struct unwind_regs regs;
    struct unwind_memory memory;
    const char *name; /* COMM, MMAP2; NUL-terminated */
    uint64_t start, end, offset, inode;
};

/* The registers to request, for sample_regs_user. */
uint64_t perf_event_registers(void);

/* The time of the record at BYTES; 0 if it has none. SIZE is the size in its header. */
uint64_t perf_event_time(const unsigned char *bytes, size_t size);
/* Parses the record; pointers in *E refer to its bytes. false: invalid or not needed. */
bool perf_event_parse(const unsigned char *bytes, size_t size, bool has_chain,
                      struct perf_event *e);

#endif
