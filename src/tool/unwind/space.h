/* Address spaces of the processes that are sampled: which file is mapped where. */
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
    uint64_t offset;   /* of the file */
    struct code *code; /* NULL: no file has it */
    uint64_t bias;     /* known when the file was read */
    bool is_ready;     /* the file was tried */
    bool is_told;      /* the recording knows it, in this generation of the space */
};

/* A space is of one process; copied by fork, emptied by exec. What it was like at some time has a number, its generation:
 * all spaces draw from one count, so the same address in two processes is told apart by it. Two processes may have
 * one generation as long as neither changes. */
struct space {
    struct mapping *list; /* by start, without overlaps */
    size_t count, capacity;
    uint32_t generation;
    bool is_shared; /* another space may have the same generation */
    pid_t pid;
};

/* Draws the next generation, from FIRST_GENERATION on: those below are the program's own. */
enum { SPACE_MAX_MAPPINGS = 65536 };
#define SPACE_FIRST_GENERATION 0x80000000u

void space_init(struct space *s, pid_t pid, uint32_t *generations);
void space_release(struct space *s);

/* Exec: nothing is as it was. */
void space_clear(struct space *s, uint32_t *generations);
/* Fork; TO is uninitialised. false: out of memory, and it is empty. */
bool space_copy(struct space *to, struct space *from, pid_t pid, uint32_t *generations);
/* CODE (or NULL) is mapped from START to END; whatever was there is gone. */
void space_map(struct space *s, uint64_t start, uint64_t end, uint64_t offset, struct code *code,
               uint32_t *generations);

/* The mapping around PC, its file read; or NULL. */
struct mapping *space_find(struct space *s, struct codes *codes, uint64_t pc);

#endif
