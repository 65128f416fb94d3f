/* `piano cc-wrap COMPILER ARGS...`: what a compiler called by a build becomes. Not for people: the
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
