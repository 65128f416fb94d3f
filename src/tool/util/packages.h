/* Which command installs something here: only packages that this system has are advised. */
#ifndef PIANO_TOOL_UTIL_PACKAGES_H
#define PIANO_TOOL_UTIL_PACKAGES_H

#include <stddef.h>

struct package {
    const char *
        debian; /* an extended regular expression for the whole name; of several the newest counts */
    const char *fedora, *arch;
};

/* " (apt-get install libclang1-19)", or "" when this system's package manager is not known or has no
 * such package. Returns OUT. */
const char *packages_advice(char *out, size_t size, const struct package *p);

#endif
