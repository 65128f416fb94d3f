/* A recording of a part of a process's life. It ends in two steps, because the hooks are taken out
 * in between. Its memory is released only when no thread uses it any more. If one does not leave in
 * time, the memory stays, and the next recording has to wait for that thread. */
#include "target/main/attached.h"

#include <errno.h>

#include "target/heap/heap.h"
#include "target/heap/hidden.h"
#include "target/heap/hooks.h"
#include "target/heap/pymalloc.h"
#include "target/record/control.h"
#include "target/record/gate.h"
#include "target/record/session.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"
#include "target/sys/recording.h"
#include "target/trace/events.h"

static bool has_ended; /* the recording is closed, but its memory may still be in use */

static void fail(struct piano__attach_answer *answer, enum piano__attach_failure failure, int err)
{
    answer->failure = failure;
    answer->err = err;
}

/* Releases what the previous recording has left. */
static bool is_free(void)
{
    if (has_ended)
        (void)piano__attached_stop();
    return !piano__recording.view.header;
}

void piano__attached_start(int fd, const struct piano__attach_order *order,
                           struct piano__attach_answer *answer)
{
    bool was_left = has_ended;
    if (!is_free()) {
        piano__file_close(fd);
        fail(answer, was_left ? PIANO_ATTACH_LINGERS : PIANO_ATTACH_BUSY, -EBUSY);
        return;
    }
    int err = piano__session_prepare() ? 0 : -ENOSYS;
    if (err == 0)
        err = piano__control_adopt(fd, order->path, order->settings);
    else
        piano__file_close(fd);
    if (err != 0) {
        fail(answer, PIANO_ATTACH_RECORDING, err);
        return;
    }
    uint64_t rate = piano__control_number("PIANO_HEAP");
    if (rate > 0 && piano__hidden_find().state == PIANO_OWN_HIDDEN)
        fail(answer, PIANO_ATTACH_HIDDEN, -ENOTSUP);
    else if (rate > 0 && (err = piano__heap_start(rate)) != 0)
        fail(answer, PIANO_ATTACH_HEAP, err);
    else if (piano__control_number("PIANO_EVENTS") == 1 &&
             (err = piano__events_start(piano__control_number("PIANO_EVENTS_MAX"))) != 0)
        fail(answer, PIANO_ATTACH_EVENTS, err);
}

void piano__attached_pause(void)
{
    struct piano__rec_header *h = piano__recording.view.header;
    if (!h || has_ended)
        return;
    piano__events_end();
    piano__pymalloc_detach();
    piano__gate_set(&piano__gate->sampling, 0);
    piano__gate_set(&piano__gate->following, 0);
    piano__gate_set(&piano__gate->events, 0);
    struct piano__clock_pair now = piano__clock_pair();
    h->trace.end_ticks = now.ticks;
    h->trace.end_mono_ns = now.mono_ns;
    h->end_mono_ns = now.mono_ns;
    has_ended = true;
}

bool piano__attached_stop(void)
{
    struct piano__rec_header *h = piano__recording.view.header;
    if (!h) { /* a forked child has given it up */
        has_ended = false;
        return true;
    }
    if (!piano__control_take_away())
        return false;
    /* Rule 5: a reader that sees ENDED also sees the end times. */
    __atomic_store_n(&h->state, PIANO_REC_ENDED, __ATOMIC_RELEASE);
    (void)piano__events_forget();
    (void)piano__heap_forget();
    piano__filter_forget();
    piano__control_forget(false);
    has_ended = false;
    return true;
}
