/* The files that programs are mapped from: their call frame information and their build-ids. */
#ifndef PIANO_TOOL_UNWIND_CODE_H
#define PIANO_TOOL_UNWIND_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/cfi.h"

enum { CODE_SEGMENTS = 8, CODE_ID = 32 };

struct code_segment {
    uint64_t offset, address, size; /* offset in the file; address without the load bias */
};

/* A file, opened when first needed. Addresses are those in the file. */
struct code {
    char *path; /* as the process sees it */
    uint64_t inode;
    bool is_read; /* opening it was attempted */
    bool is_good; /* it is the right file and valid */
    uint64_t start, end, entry;
    struct code_segment segments[CODE_SEGMENTS]; /* segments with code */
    size_t segment_count;
    uint8_t build_id[CODE_ID];
    uint32_t build_id_len;
    struct piano__cfi cfi; /* size 0: no call frame information */
    unsigned char *tables; /* the bytes that `cfi` refers to */
    int fd;                /* -1: code bytes are not available */
};

struct codes {
    struct code **list;
    size_t count, capacity;
    size_t open;     /* descriptors in use */
    size_t max_open; /* limit; files beyond it have tables but no code bytes */
};

void codes_init(struct codes *c);
void codes_release(struct codes *c);

/* The file at PATH with INODE (0: any); NULL when out of memory. Does not open it. */
struct code *codes_get(struct codes *c, const char *path, uint64_t inode);
/* Reads the file as process PID sees it, on the first call. Returns whether it is good. */
bool codes_read(struct codes *c, struct code *code, pid_t pid);

/* Copies LEN bytes of code at file address AT; false when they are not available. */
bool code_bytes(const struct code *code, uint64_t at, void *to, size_t len);
/* The load bias: what a mapping at START, of the file from byte OFFSET on, adds to file
 * addresses. */
uint64_t code_bias(const struct code *code, uint64_t start, uint64_t offset);

#endif
