/* Names of code that a program makes while it runs (JIT), as its runtime tells them to perf: in a
 * map of names (/tmp/perf-PID.map) or a dump with times and lines (jit-PID.dump).
 *
 * Both files are written by the profiled program, and anyone can create a file of that name in
 * /tmp. Nothing in them is trusted. */
#ifndef PIANO_TOOL_SYMBOL_JIT_H
#define PIANO_TOOL_SYMBOL_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tool/symbol/strings.h"

#define JIT_ALWAYS UINT64_MAX

/* A function at an address, from SINCE until before UNTIL (CLOCK_MONOTONIC). */
struct jit_code {
    uint64_t start, end;
    uint64_t since, until;           /* 0 and JIT_ALWAYS: at any time */
    uint64_t reach;                  /* highest `end` of this and all earlier ones in the list */
    uint32_t order;                  /* of two that overlap, the later one counts */
    const char *name;                /* in `strings` */
    const char *file;                /* or NULL */
    uint32_t line;                   /* 0: unknown */
    uint32_t first_line, line_count; /* in `lines`, by address */
};

struct jit_line {
    uint64_t offset; /* from the start of the function */
    const char *file;
    uint32_t line;
};

/* The names of one process. */
struct jit_names {
    struct strings *strings; /* not owned */
    struct jit_code *list;   /* by start, then order, after `jit_sort` */
    size_t count, cap;
    struct jit_line *lines;
    size_t line_count, line_cap;
    bool is_cut; /* there was more than is read */
};

/* Opens PATH for reading: only a regular file of one of the COUNT users OWNERS, without following a
 * link or waiting. ROOT: a directory that PATH is inside of, or -1. Returns a descriptor or
 * negative errno: -EPERM for the file of another user, -ENODEV for what is no regular file. */
int jit_open(int root, const char *path, const unsigned *owners, size_t count);

/* Each adds what FD holds. 0, -ENOMEM, or -EBADMSG for a file of another kind. */
int jit_read_map(struct jit_names *j, int fd);
int jit_read_dump(struct jit_names *j, int fd);

/* Call this after the last of them and before the first `jit_find`. */
void jit_sort(struct jit_names *j);
/* Fills in up to MOST functions that were at PC at some time, those first that count. Returns their
 * number. */
size_t jit_find(const struct jit_names *j, uint64_t pc, const struct jit_code **found, size_t most);
/* The file and line at PC in CODE. */
void jit_place(const struct jit_names *j, const struct jit_code *code, uint64_t pc,
               const char **file, uint32_t *line);
void jit_release(struct jit_names *j);

#endif
