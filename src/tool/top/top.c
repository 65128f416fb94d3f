/* `piano top`: starts a recording if it has to, and shows it on a screen or as lines. */
#include "tool/top/top.h"

#include <stdlib.h>
#include <unistd.h>

#include "tool/profile/live.h"
#include "tool/util/say.h"
#include "tool/util/term.h"

static int show(const struct top *t, struct recorder *r, bool is_screen)
{
    struct live *l = live_new(t->path ? t->path : r->path);
    if (!l)
        return say_error(NULL, "out of memory");
    int status = is_screen ? screen_run(t, l, r) : stream_run(t, l, r);
    live_free(l);
    return status;
}

int top_run(const struct top *t)
{
    struct recorder r = {.output = -1};
    bool is_screen = !t->json && term_possible(STDIN_FILENO);
    if (!t->path) {
        int status = recorder_start(&r, t, is_screen);
        if (!r.path)
            return status;
    }
    int status = show(t, &r, is_screen);
    bool was_asked = recorder_end(&r);
    recorder_wait(&r);
    free(r.path);
    return status != EXIT_DONE || was_asked ? status : r.status;
}
