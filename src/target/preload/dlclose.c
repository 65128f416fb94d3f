/* After a library is unloaded, its addresses may get another meaning. So everything learned about
 * them is discarded, and stacks get new numbers. */
#include <dlfcn.h>

#include "target/cpu/cpu.h"
#include "target/preload/next.h"
#include "target/record/modules.h"
#include "target/unwind/module.h"
#include "target/unwind/walk.h"

__attribute__((visibility("default"))) int dlclose(void *handle)
{
    static int (*next)(void *);
    if (!next)
        piano__next_find(&next, "dlclose");
    piano__module_unload_begins();
    int result = next(handle);
    piano__module_unload_ended();
    piano__walk_forget();
    piano__modules_unloaded();
    piano__cpu_unloaded();
    return result;
}
