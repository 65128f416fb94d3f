/* Finds the function bodies in a preprocessed text. */
#ifndef PIANO_TOOL_BUILD_ANALYSE_H
#define PIANO_TOOL_BUILD_ANALYSE_H

#include <stdbool.h>
#include <stddef.h>

struct place;

/* One function definition of the project. */
struct analyse_fn {
    char *bare;      /* parse_node */
    char *qualified; /* Parser::parse_node */
    char *file;      /* result of `place_of` */
    unsigned line;   /* of its name */
    char *marker;    /* file name at the brace, from the text's line markers */
    unsigned brace_line;
    size_t brace;     /* offset of the `{` that opens the body */
    size_t end;       /* offset after the `}` */
    const char *skip; /* why it must not be instrumented, or NULL */
    bool chosen;
};

struct analyse {
    struct analyse_fn *fns; /* sorted by offset */
    size_t count;
    bool uses_ifunc;   /* then every function is skipped */
    char *first_error; /* where libclang may have missed a function, and why; or NULL */
};

struct analyse_source {
    const char *text;
    size_t len;
    bool cxx;
    const char *std; /* value of -std=, or NULL */
    bool clang;      /* use the defaults of clang, not gcc */
    const struct place *place;
};

/* Returns 0 or negative errno (-EIO: libclang failed; -ENOENT: no libclang). The caller releases A
 * in any case. */
int analyse_run(struct analyse *a, const struct analyse_source *source);
void analyse_release(struct analyse *a);

#endif
