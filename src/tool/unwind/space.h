/* Address spaces of the sampled processes: which file is mapped where. */
#ifndef PIANO_TOOL_UNWIND_SPACE_H
#define PIANO_TOOL_UNWIND_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tool/unwind/code.h"

/* A mapping with code in it. */
struct mapping {
    uint64_t start, end;
    uint64_t offset;   /* in the file */
    struct code *code; /* NULL: no file */
    uint64_t bias;     /* set once the file was read */
    bool is_ready;     /* reading the file was attempted */
    bool is_told;      /* already in the recording, for this generation of the space */
};

/* The address space of one process; fork copies it, exec empties it. Each state of a space has a
 * number, its generation. All spaces draw generations from one counter, so a generation
 * distinguishes equal addresses in two processes. Two processes share a generation as long as
 * neither changes. */
struct space {
    struct mapping *list; /* sorted by start, no overlaps */
    size_t count, capacity;
    uint32_t generation;
    bool is_shared; /* another space may have this generation */
    pid_t pid;
};

/* Generations start at SPACE_FIRST_GENERATION. The recorded program itself uses lower numbers. */
enum { SPACE_MAX_MAPPINGS = 65536 };
#define SPACE_FIRST_GENERATION 0x80000000u

void space_init(struct space *s, pid_t pid, uint32_t *generations);
void space_release(struct space *s);

/* Exec: removes all mappings. */
void space_clear(struct space *s, uint32_t *generations);
/* Fork; TO is uninitialised. false: out of memory, and TO is empty. */
bool space_copy(struct space *to, struct space *from, pid_t pid, uint32_t *generations);
/* Maps CODE (or NULL) from START to END and replaces what was mapped there. */
void space_map(struct space *s, uint64_t start, uint64_t end, uint64_t offset, struct code *code,
               uint32_t *generations);

/* The mapping around PC, with its file read; or NULL. */
struct mapping *space_find(struct space *s, struct codes *codes, uint64_t pc);

#endif
