/* A stack in one line, innermost function first.
 *
 * Two places matter to the reader: where the thread was, and the first function of the program
 * itself. Between them is plumbing (`profile_is_plumbing`: the C library, internals of libstdc++),
 * a dozen frames for a C++ mutex. Of each run of plumbing, the line shows the frame that the
 * program called, and for the innermost run also the leaf. The rest is "...".
 *
 * The line is as wide as the terminal. Names are truncated in the middle, all to the same
 * maximum width. Before they become too short to distinguish, the outermost frames are dropped,
 * but never the first function of the program itself. */
#include "tool/report/stretch.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/table.h"

enum {
    FRAMES_SHOWN = 8,
    PIPE_WIDTH = 160,  /* if the line width is unknown */
    LEAST_LINE = 40,   /* minimum width of a stack, even on a narrow terminal */
    LEGIBLE_NAME = 20, /* frames are dropped before names get shorter than this */
    LEAST_NAME = 6,
};

static const char gap[] = "...", between[] = " < ";

struct line {
    char *names[FRAMES_SHOWN]; /* NULL: a gap */
    size_t count, needed;      /* NEEDED: up to the first function of the program */
    bool more;                 /* frames after the last one were left out */
};

bool stretch_is_passed(const struct symbol_frame *frame)
{
    return profile_is_plumbing(frame) || strncmp(frame->function, "__gthread", 9) == 0;
}

static void add(struct line *l, const struct symbol_frame *frame)
{
    if (l->count < FRAMES_SHOWN)
        l->names[l->count++] = frame ? profile_safe_name(frame->function, false) : NULL;
}

/* Chooses the frames to show, starting at FIRST. */
static void choose(struct line *l, const struct symbol_frame *const *frames, size_t first,
                   size_t count)
{
    for (size_t at = first, run; at < count && l->count < FRAMES_SHOWN; at += run) {
        for (run = 0; at + run < count && stretch_is_passed(frames[at + run]); run++)
            ;
        if (run == 0) {
            add(l, frames[at]);
            l->needed = l->needed ? l->needed : l->count;
            run = 1;
            l->more = at + run < count;
        } else if (at + run == count && at > first) { /* the start frames of the thread */
            l->more = true;
        } else {
            size_t leaf = at == first ? 1 : 0;
            if (leaf)
                add(l, frames[at]);
            if (run > leaf + 1)
                add(l, NULL);
            if (run > leaf)
                add(l, frames[at + run - 1]);
            l->more = at + run < count;
        }
    }
    if (l->needed == 0)
        l->needed = l->count < 3 ? l->count : 3;
}

/* Width of the first COUNT names, each limited to CAP. */
static size_t width_of(const struct line *l, size_t count, size_t cap)
{
    size_t width = 0;
    for (size_t i = 0; i < count; i++) {
        size_t own = l->names[i] ? table_width(l->names[i]) : strlen(gap);
        width += (own < cap || !l->names[i] ? own : cap) + (i ? strlen(between) : 0);
    }
    return width + (l->more || count < l->count ? strlen(between) + strlen(gap) : 0);
}

/* Largest width of a name so that COUNT fit into WIDTH; LEAST if they do not. */
static size_t cap_of(const struct line *l, size_t count, size_t width, size_t least)
{
    size_t cap = width > least ? width : least;
    while (cap > least && width_of(l, count, cap) > width)
        cap--;
    return cap;
}

static void print(struct buf *b, const struct line *l, size_t count, size_t cap)
{
    size_t size = 4 * cap + 8; /* up to 4 bytes per character */
    char *cut = malloc(size);
    if (!cut)
        b->failed = true;
    for (size_t i = 0; cut && i < count; i++) {
        if (l->names[i])
            table_shorten(cut, size, l->names[i], cap);
        buf_printf(b, "%s%s", i ? between : "", l->names[i] ? cut : gap);
    }
    if (l->more || count < l->count)
        buf_printf(b, "%s%s", between, gap);
    free(cut);
}

static void put_line(struct buf *b, const struct symbol_frame *const *frames, size_t first,
                     size_t count, size_t width)
{
    struct line l = {.count = 0};
    choose(&l, frames, first, count);
    size_t shown = l.count, cap = cap_of(&l, shown, width, LEGIBLE_NAME);
    while (shown > l.needed && width_of(&l, shown, cap) > width)
        cap = cap_of(&l, --shown, width, LEGIBLE_NAME);
    if (width_of(&l, shown, cap) > width)
        cap = cap_of(&l, shown, width, LEAST_NAME);
    while (shown > 1 && shown < l.count && !l.names[shown - 1]) /* no gap before a gap */
        shown--;
    print(b, &l, shown, cap);
    for (size_t i = 0; i < l.count; i++)
        free(l.names[i]);
}

static void put_all(struct buf *b, const struct symbol_frame *const *frames, size_t first,
                    size_t count)
{
    for (size_t i = first; i < count; i++) {
        char *name = profile_safe_name(frames[i]->function, false);
        buf_printf(b, "%s%s", i > first ? between : "", name ? name : "?");
        free(name);
    }
}

static size_t room(const struct report_options *o, size_t indent)
{
    size_t width = o->width ? o->width : PIPE_WIDTH;
    return width > indent + LEAST_LINE ? width - indent : LEAST_LINE;
}

static char *finish(struct buf *b)
{
    buf_puts(b, "");
    if (b->failed) {
        buf_free(b);
        return NULL;
    }
    return b->data;
}

char *stretch_line(const struct symbol_frame *const *frames, size_t first, size_t count,
                   const struct report_options *o, size_t indent)
{
    struct buf b = {0};
    put_line(&b, frames, first, count, room(o, indent));
    return finish(&b);
}

char *stretch_text(const struct profile *profile, uint32_t stack, const struct report_options *o,
                   size_t indent, bool memory, const struct symbol_frame **frames)
{
    size_t count = profile_frames(profile, stack, frames), first = 0;
    while (memory && first + 1 < count && profile_is_plumbing(frames[first]))
        first++;
    if (!o->all)
        return stretch_line(frames, first, count, o, indent);
    struct buf b = {0};
    put_all(&b, frames, first, count);
    return finish(&b);
}

char *stretch_mostly_text(const struct stretch_mostly *m, const struct profile *profile,
                          const struct report_options *o, size_t indent,
                          const struct symbol_frame **frames)
{
    struct buf b = {0};
    size_t count = profile_frames(profile, m->stack, frames);
    if (m->samples == m->all)
        buf_puts(&b, "all of it in ");
    else
        buf_printf(&b, "%.0f %% in ", (double)m->samples / (double)m->all * 100);
    char *line = stretch_line(frames, m->frame, count, o, indent + b.len);
    buf_puts(&b, line ? line : "");
    b.failed |= !line;
    free(line);
    if (b.failed) {
        buf_free(&b);
        return NULL;
    }
    return b.data;
}
