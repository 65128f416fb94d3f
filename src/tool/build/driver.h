/* One `piano build`, from detecting the build to the records it leaves. */
#ifndef PIANO_TOOL_BUILD_DRIVER_H
#define PIANO_TOOL_BUILD_DRIVER_H

#include <stdbool.h>

#include "tool/build/detect.h"
#include "tool/build/selection.h"

struct driver {
    struct selection selection;  /* the user's choice; `driver_build` sets the paths in it */
    char *const *command;        /* the build command, NULL: detect the build */
    int jobs;                    /* 0: one per processor */
    bool verbose;                /* the build's own output goes to stderr, not to the log */
    struct selection_list cargo; /* flags for cargo */

    /* filled in by driver_build, and valid until driver_release: */
    char *root;
    char *cwd;
    char *state; /* ROOT/.piano/build */
    char *log;
    struct detect detect;
    unsigned above;   /* see struct mirror */
    bool has_cargo;   /* Rust files have guards */
    double started_s; /* CLOCK_REALTIME */
};

/* Builds, and prints errors. Exit status: 0, 1, 2, or 130 when interrupted. */
int driver_build(struct driver *d);
void driver_release(struct driver *d);

#endif
