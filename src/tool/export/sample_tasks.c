/* Polls are reported when they end, so an inner poll comes before the poll around it: the first one
 * that contains a sample is the innermost. */
#include "tool/export/sample_tasks.h"

#include <errno.h>
#include <stdlib.h>

static void on_poll(void *ctx, const struct polls *p, const struct poll *poll)
{
    uint32_t *tasks = ctx;
    size_t end;
    if (p->groups[poll->group].kind == POLLS_LOOP)
        return; /* a turn of a loop is not a task */
    size_t i = recording_samples_of(p->rec, p->tracks[poll->track].tid, poll->begin_ns, &end);
    for (; i < end && p->rec->samples[i].at_ns < poll->end_ns; i++)
        if (tasks[i] == 0)
            tasks[i] = poll->group + 1;
}

int sample_tasks(struct polls *p, uint32_t **tasks)
{
    *tasks = NULL;
    if (p->rec->events.count == 0 || p->rec->sample_count == 0)
        return 0;
    *tasks = calloc(p->rec->sample_count, sizeof(**tasks));
    if (!*tasks)
        return -ENOMEM;
    const struct polls_listener listener = {.poll = on_poll, .ctx = *tasks};
    int err = polls_go(p, &listener);
    if (err) {
        free(*tasks);
        *tasks = NULL;
    }
    return err;
}
