/* When a library goes, its addresses may mean something else tomorrow: what was learned about them is forgotten, and
 * stacks are numbered anew. */
#include <dlfcn.h>
#include <string.h>

#include "target/cpu/cpu.h"
#include "target/record/modules.h"
#include "target/unwind/walk.h"

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    static int (*next)(void *);
    if (!next) {
        void *found = dlsym(RTLD_NEXT, "dlclose");
        memcpy(&next, &found, sizeof found);
    }
    int result = next(handle);
    piano__walk_forget();
    piano__modules_unloaded();
    piano__cpu_unloaded();
    return result;
}
