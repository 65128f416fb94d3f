/* Notices about the events of a recording: missing data and rough clocks. */
#include "tool/profile/notices.h"
#include "tool/util/say.h"

void polls_notices(const struct polls *p)
{
    const struct recording *rec = p->rec;
    const struct piano__trace *t = &rec->header.trace;
    const struct {
        uint64_t count;
        const char *text;
    } drops[] = {
        {t->dropped_memory, "events had no room: no memory, a full disk, the file gone"},
        {t->dropped_busy, "events from signal handlers that interrupted another event are missing"},
        {t->dropped_names, "names did not fit: their tasks and queues are shown without a name"},
        {t->recycled, "chunks of old events were overwritten by new ones: the events begin later "
                      "than the program"},
        {t->recycled ? t->definitions_in_ring : 0,
         "spawns and ends of tasks had no room in their log, and may have been overwritten too: "
         "tasks without a name are of these"},
        {p->cut, "polls have no end: later events of their threads were overwritten or dropped; "
                 "they are in no figure"},
        {rec->events.unknown, "events are of kinds this piano does not know"},
        {rec->events.bad, "events have fields that could not be read"},
        {t->recycled ? 0 : p->stray_ends, "polls ended that had not begun"},
        {t->recycled ? p->stray_ends : 0, "polls have no begin: it was overwritten; they are in no "
                                          "figure"},
        {p->too_deep, "polls never ended"},
        {p->untracked, "events belong to tasks or queues beyond the limit"},
    };
    profile_notice_reading(p->profile);
    profile_notice_samples(p->profile);
    for (size_t i = 0; i < sizeof(drops) / sizeof(*drops); i++)
        if (drops[i].count > 0)
            say("%llu %s", (unsigned long long)drops[i].count, drops[i].text);
    if (rec->events.clock.rough)
        say("the clock of the events could be set at the start only: times are rough");
}
