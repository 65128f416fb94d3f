/* `piano cc-wrap COMPILER ARGS...`: replaces a compiler that a build calls. Not for users: the
 * library preloaded into build commands starts it. */
#include "tool/cli/commands.h"

#include "tool/build/wrap.h"
#include "tool/util/say.h"

int cmd_cc_wrap(int argc, char **argv)
{
    if (argc < 2)
        return say_usage("cc-wrap", "no compiler is given");
    return wrap_run(argc - 1, argv + 1);
}
