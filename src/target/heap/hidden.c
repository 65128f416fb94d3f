#include "target/heap/hidden.h"

#include "target/record/control.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"

struct piano__own piano__hidden_find(void)
{
    if (piano__alloc_own)
        return piano__alloc_own();
    return (struct piano__own){.state = PIANO_OWN_UNKNOWN};
}

void piano__hidden_note(const struct piano__own *own)
{
    struct piano__heap_stats *s = &piano__recording.view.header->stats;
    s->own_state = own->state;
    s->own_kind = own->kind;
    s->own_reason = own->reason;
}

void piano__hidden_record(uint64_t rate)
{
    struct piano__own own = piano__hidden_find();
    if (own.state != PIANO_OWN_HIDDEN || !piano__lock_try(&piano__control_changing))
        return;
    if (piano__control_open() == 0) {
        piano__hidden_note(&own);
        piano__recording.view.header->rate = rate;
        piano__control_started(PIANO_REC_HAS_HEAP);
    }
    piano__lock_release(&piano__control_changing);
}
