/* How a project is built. */
#ifndef PIANO_TOOL_BUILD_DETECT_H
#define PIANO_TOOL_BUILD_DETECT_H

#include <stdbool.h>

enum detect_kind {
    DETECT_CMAKE,
    DETECT_MESON,
    DETECT_CARGO,
    DETECT_MAKE,
    DETECT_CONFIGURE,
    DETECT_COMMAND
};

struct detect {
    enum detect_kind kind;
    char *dir; /* directory of its build file, absolute, in the user's tree */
};

/* Finds the build for a user in CWD, which is at or below ROOT. Returns 0 or negative errno:
 * -ENOENT when there is no build file, -ENOPKG when its tool is not installed; *MISSING is then the
 * name of the tool. */
int detect_build(struct detect *d, const char *root, const char *cwd, const char **missing);

/* The names of build files, for messages. */
const char *detect_names(void);

/* Is PATH a build directory of CMake or Meson that the user made? */
bool detect_is_build_dir(const char *path);
/* Does DIR hold the sources of a configure script, but no configure? */
bool detect_wants_autoreconf(const char *dir);

#endif
