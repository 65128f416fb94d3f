/* The files that programs are mapped from: where their call frame information is, and what tells one from another. */
#ifndef PIANO_TOOL_UNWIND_CODE_H
#define PIANO_TOOL_UNWIND_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cfi.h"

enum { CODE_SEGMENTS = 8, CODE_ID = 32 };

struct code_segment {
    uint64_t offset, address, size; /* in the file; by the file's own addresses */
};

/* A file, opened when it is first needed. Addresses are the file's own. */
struct code {
    char *path; /* as the process names it */
    uint64_t inode;
    bool is_read; /* it was tried */
    bool is_good; /* it is the file, and makes sense */
    uint64_t start, end, entry;
    struct code_segment segments[CODE_SEGMENTS]; /* those with code */
    size_t segment_count;
    uint8_t build_id[CODE_ID];
    uint32_t build_id_len;
    struct piano__cfi cfi; /* size 0: none */
    unsigned char *tables; /* what `cfi` reads */
    int fd;                /* -1: the code cannot be read */
};

struct codes {
    struct code **list;
    size_t count, capacity;
    size_t open;     /* descriptors held */
    size_t max_open; /* of them at most; without one, code cannot be looked at, but tables can */
};

void codes_init(struct codes *c);
void codes_release(struct codes *c);

/* The file at PATH with that inode (0: any); NULL when out of memory. Not opened yet. */
struct code *codes_get(struct codes *c, const char *path, uint64_t inode);
/* Reads it, as process PID sees it, unless that was done; is it good? */
bool codes_read(struct codes *c, struct code *code, pid_t pid);

/* Copies LEN bytes of code at the file's address AT; false when they cannot be had. */
bool code_bytes(const struct code *code, uint64_t at, void *to, size_t len);
/* What a mapping of the file at START, which begins with the byte OFFSET of the file, adds to its addresses. */
uint64_t code_bias(const struct code *code, uint64_t start, uint64_t offset);

#endif
