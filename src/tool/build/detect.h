/* How a project is built. */
#ifndef PIANO_TOOL_BUILD_DETECT_H
#define PIANO_TOOL_BUILD_DETECT_H

#include <stdbool.h>

enum detect_kind { DETECT_CMAKE, DETECT_MESON, DETECT_MAKE, DETECT_CONFIGURE, DETECT_COMMAND };

struct detect {
    enum detect_kind kind;
    char *dir; /* where its build file lies, absolute, in the user's tree */
};

/* Finds the build for somebody working in CWD, which lies at or below ROOT. 0 or negative errno:
 * -ENOENT when there is no build file, -ENOPKG when there is one but not its tool, whose name is
 * then in *MISSING. */
int detect_build(struct detect *d, const char *root, const char *cwd, const char **missing);

/* The names looked for, for messages. */
const char *detect_names(void);

/* Is PATH the build directory of CMake or Meson, made by the user? */
bool detect_is_build_dir(const char *path);
/* Does DIR hold the sources of a configure script, but no configure? */
bool detect_wants_autoreconf(const char *dir);

#endif
