/* Maps the file names in a preprocessed text to the files of the project. */
#ifndef PIANO_TOOL_BUILD_PLACE_H
#define PIANO_TOOL_BUILD_PLACE_H

#include <stdbool.h>

struct selection;

struct place {
    const struct selection *selection;
    char *cwd;
    char *source; /* `place_of` the source that is compiled */
};

/* SOURCE as on the command line. Returns 0 or -ENOMEM; the caller releases P in any case. */
int place_init(struct place *p, const struct selection *selection, const char *source);
void place_release(struct place *p);

/* NAME (relative to the working directory, or absolute) as a path relative to the project root if
 * it is below the root or the mirror, else absolute. The caller frees; NULL when out of memory. */
char *place_of(const struct place *p, const char *name);

/* Does FILE, a result of `place_of`, belong to the project? Everything below its root does, and so
 * does the source that is being compiled, wherever it is. */
bool place_is_own(const struct place *p, const char *file);

#endif
