/* See runs.h. */
#include "target/sys/runs.h"

#include <stdlib.h>

const char *piano__runs_built_in;

const char *piano__runs_dir(void)
{
    const char *dir = secure_getenv("PIANO_RUNS_DIR");
    return dir && *dir ? dir : piano__runs_built_in;
}
