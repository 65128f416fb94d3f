/* Finds the command that installs a package on this system. With apt, it names only packages that
 * exist. */
#ifndef PIANO_TOOL_UTIL_PACKAGES_H
#define PIANO_TOOL_UTIL_PACKAGES_H

#include <stddef.h>

struct package {
    const char *debian; /* regular expression for the whole name; the highest version wins */
    const char *fedora, *arch;
};

/* Writes " (apt-get install libclang1-19)" or the like to OUT, advice to run apt-get update when
 * apt has no such package, or "" for an unknown package manager. Returns OUT. */
const char *packages_advice(char *out, size_t size, const struct package *p);

#endif
