/* The functions that the user asked for, and the paths of the build's state. `piano build` writes
 * it to the state directory as text, and every compiler wrapper reads it. */
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
    char *runs;   /* where the built program writes its runs */
    char *lib;    /* directory of libpiano */
    char *frame;  /* function whose calls are frames; NULL: detected at run time */
    bool exact;   /* `fns` are whole names, not substrings */
    struct selection_list fns;
    struct selection_list files;
    struct selection_list dirs;
    struct selection_list skips;
};

/* Returns 0 or negative errno; -EINVAL for a line that is not `key value`. Ignores unknown keys, so
 * that an older tool can read a newer file. The caller releases S in any case. */
int selection_load(struct selection *s, const char *path);
/* Returns 0 or negative errno; -EINVAL when a value contains a newline. */
int selection_save(const struct selection *s, const char *path);
void selection_release(struct selection *s);

/* Appends a copy. Returns 0 or -ENOMEM. */
int selection_add(struct selection_list *list, const char *value);

/* Should this function be instrumented? QUALIFIED may equal BARE (C). FILE is relative to the root,
 * or absolute (the prefix of the root or the mirror is removed). The caller must check whether FILE
 * is a system header. */
bool selection_wants(const struct selection *s, const char *bare, const char *qualified,
                     const char *file);
/* Is this the function named by `--frame`? */
bool selection_is_frame(const struct selection *s, const char *bare, const char *qualified);
/* PATH without the prefix of the root or the mirror, as in reports. Points into PATH. */
const char *selection_relative(const struct selection *s, const char *path);

#endif
