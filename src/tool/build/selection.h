/* Which functions the user asked for, and where the build's state lies. Written by `piano build`
 * to the state directory as text, read by every compiler wrapper. */
#ifndef PIANO_TOOL_BUILD_SELECTION_H
#define PIANO_TOOL_BUILD_SELECTION_H

#include <stdbool.h>
#include <stddef.h>

/* A list of owned strings. */
struct selection_list {
    char **items;
    size_t count;
};

struct selection {
    char *root;   /* the project, absolute, without a trailing slash */
    char *mirror; /* the copy of the project that is built, absolute */
    char *runs;   /* where the built program leaves its runs */
    char *lib;    /* directory of libpiano */
    char *frame;  /* name of the function whose calls are frames; NULL = found at run time */
    bool exact;   /* `fns` are whole names, not substrings */
    struct selection_list fns;
    struct selection_list files;
    struct selection_list dirs;
    struct selection_list skips;
};

/* 0 or negative errno; -EINVAL for a line that is not `key value`. Unknown keys are skipped, so an
 * older tool reads a newer file. The caller releases S in any case. */
int selection_load(struct selection *s, const char *path);
/* 0 or negative errno; -EINVAL when a value holds a newline. */
int selection_save(const struct selection *s, const char *path);
void selection_release(struct selection *s);

/* Appends a copy; 0 or -ENOMEM. */
int selection_add(struct selection_list *list, const char *value);

/* Is this function to be instrumented? QUALIFIED may equal BARE (C). FILE is relative to the root,
 * or absolute (the root's and the mirror's prefix are taken off). Whether FILE is a system header
 * is the caller's to know. */
bool selection_wants(const struct selection *s, const char *bare, const char *qualified,
                     const char *file);
/* Is this the function named by `--frame`? */
bool selection_is_frame(const struct selection *s, const char *bare, const char *qualified);
/* PATH without the root's or mirror's prefix: what stands in reports. Points into PATH. */
const char *selection_relative(const struct selection *s, const char *path);

#endif
