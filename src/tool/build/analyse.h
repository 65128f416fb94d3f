/* Finding the function bodies in a preprocessed text. */
#ifndef PIANO_TOOL_BUILD_ANALYSE_H
#define PIANO_TOOL_BUILD_ANALYSE_H

#include <stdbool.h>
#include <stddef.h>

struct place;

/* One function definition of the project. */
struct analyse_fn {
    char *bare;      /* parse_node */
    char *qualified; /* Parser::parse_node */
    char *file;      /* as `place_of` says */
    unsigned line;   /* of its name */
    char *marker;    /* file name in force at the brace, as in the text's line markers */
    unsigned brace_line;
    size_t brace;     /* offset of the `{` that opens the body */
    size_t end;       /* offset behind the `}` */
    const char *skip; /* why it must not be instrumented, or NULL */
    bool chosen;
};

struct analyse {
    struct analyse_fn *fns; /* by offset */
    size_t count;
    bool uses_ifunc;   /* then every function is skipped */
    char *first_error; /* where libclang may have overlooked a function, and why; or NULL */
};

struct analyse_source {
    const char *text;
    size_t len;
    bool cxx;
    const char *std; /* value of -std=, or NULL */
    bool clang;      /* which defaults hold: clang's or gcc's */
    const struct place *place;
};

/* 0 or negative errno (-EIO: libclang gave up; -ENOENT: there is none). The caller releases A in any case. */
int analyse_run(struct analyse *a, const struct analyse_source *source);
void analyse_release(struct analyse *a);

#endif
