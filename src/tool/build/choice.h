/* Which program of a build the user means. */
#ifndef PIANO_TOOL_BUILD_CHOICE_H
#define PIANO_TOOL_BUILD_CHOICE_H

#include <stdbool.h>
#include <stddef.h>

#include "tool/build/records.h"

/* One program. */
struct choice {
    char *path;         /* what a user would run */
    const char *output; /* what was linked; points into the records */
    int score;          /* by the current rule */
};

/* The programs with instrumented code. The rules could not distinguish the first FIT. The newest
 * comes first among these and among the others. If the user has chosen one of them before, it comes
 * first, and MEANT is 1; otherwise MEANT is FIT. */
struct choice_list {
    struct choice *items;
    size_t count;
    size_t fit;
    size_t meant;
    bool is_remembered; /* the user has chosen the first one before */
    char *mirror;       /* the tree that was built, to shorten paths; or NULL */
};

/* STATE is ROOT/.piano/build. R must outlive L. */
void choice_load(struct choice_list *l, const struct records *r, const char *state);
void choice_release(struct choice_list *l);

/* Used by `choice_load`: applies the choice that STATE holds, if it still fits. */
void choice_recall(struct choice_list *l, const char *state);
/* Keeps in STATE that the user chose the program CHOSEN, unless the rules alone decide. */
void choice_remember(const struct choice_list *l, const char *state, const char *chosen);

/* PATH relative to the tree that was built, a part of PATH; NULL if it is not below the tree. */
const char *choice_below(const struct choice_list *l, const char *path);

/* Does PROGRAM name the shared library OUTPUT? */
bool choice_uses_library(const char *program, const char *output);

/* A name for PATH that `piano run` accepts: its path below the tree, or its last component. Written
 * to TEXT, safe to print. */
const char *choice_name(char *text, size_t size, const struct choice_list *l, const char *path);

/* Asks on the terminal which of the first MEANT programs to run. Without a terminal or an answer,
 * prints what to type for COMMAND and returns NULL. */
const char *choice_ask(const struct choice_list *l, const char *command);

#endif
