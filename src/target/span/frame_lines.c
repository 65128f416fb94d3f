#include "target/span/frame_lines.h"

#include "target/span/run.h"

enum { TOOK_NS = 100 }; /* write both times of a frame only if they differ by this much */

static uint64_t scale(void)
{
    return piano__run.header->ns_per_tick_32;
}

static void put_tallies(struct piano__text *text, struct piano__thread *t, bool now, bool kept)
{
    bool first = true;
    for (uint32_t link = now ? t->now_list : 0; link; link = piano__slot_at(t, link)->next_now) {
        struct piano__slot *slot = piano__slot_at(t, link);
        struct piano__tally tally = slot->now;
        if (kept && slot->in_kept)
            piano__tally_add(&tally, &slot->kept);
        piano__text_puts(text, first ? "" : ",");
        piano__line_tally(text, link - 1, &tally, scale());
        first = false;
    }
    for (uint32_t link = kept ? t->kept_list : 0; link; link = piano__slot_at(t, link)->next_kept) {
        struct piano__slot *slot = piano__slot_at(t, link);
        if (now && slot->in_now)
            continue;
        piano__text_puts(text, first ? "" : ",");
        piano__line_tally(text, link - 1, &slot->kept, scale());
        first = false;
    }
    piano__text_puts(text, "]}\n");
}

void piano__put_frame(struct piano__text *text, struct piano__thread *t, const void *what)
{
    const struct piano__frame_line *f = what;
    piano__text_puts(text, "{\"frame\":");
    piano__text_int(text, (int64_t)f->number);
    piano__text_field(text, "thread", t->number);
    piano__text_field(text, "depth", f->depth);
    piano__text_field(text, "root", f->root);
    if (f->under >= 0)
        piano__text_field(text, "under", f->under);
    piano__text_field(text, "start_ns",
                      piano__ticks_ns(f->start - piano__run.header->start_ticks, scale()));
    piano__text_field(text, "wall_ns", piano__ticks_ns(f->wall, scale()));
    if (piano__ticks_ns(f->took - f->wall, scale()) >= TOOK_NS)
        piano__text_field(text, "took_ns", piano__ticks_ns(f->took, scale()));
    piano__text_field(text, "over_ns", piano__ticks_ns(f->over >> 8, scale()));
    if (f->onoff.cpu_ns >= 0)
        piano__text_field(text, "cpu_ns", f->onoff.cpu_ns);
    if (f->onoff.runq_ns >= 0)
        piano__text_field(text, "runq_ns", f->onoff.runq_ns);
    piano__text_puts(text, ",\"fns\":[");
    put_tallies(text, t, true, f->with_kept);
}

void piano__put_kept(struct piano__text *text, struct piano__thread *t, const void *what)
{
    (void)what;
    piano__text_puts(text, t->kept_depth < 0 ? "{\"outside\":true" : "{\"part\":true");
    piano__text_field(text, "thread", t->number);
    if (t->kept_depth >= 0)
        piano__text_field(text, "depth", t->kept_depth);
    piano__text_puts(text, ",\"fns\":[");
    put_tallies(text, t, false, true);
}

void piano__put_demoted(struct piano__text *text, struct piano__thread *t, const void *what)
{
    piano__text_puts(text, "{\"demoted\":");
    piano__text_int(text, piano__slot_id(t, what));
    piano__text_puts(text, "}\n");
}

void piano__put_thread(struct piano__text *text, struct piano__thread *t, const void *what)
{
    static const struct piano__offcpu nothing;
    int64_t end = *(const int64_t *)what;
    piano__line_thread(text, t, end < 0 ? &nothing : &t->look, piano__run.header, end);
}
