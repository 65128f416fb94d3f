/* Draws the screen: header, tabs, the table or the detail, the keys. Only changed lines are
 * written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/profile.h"
#include "tool/top/screen.h"
#include "tool/util/say.h"
#include "tool/util/term.h"
#include "tool/util/units.h"

enum { TITLE_LINES = 2, LINE_BYTES = 2048 };

static const char *const help[] = {
    "1 to 5, F1 to F5, left, right   the tabs",
    "up, down, page up, page down    choose a row",
    "Enter                           stacks of the row; of a thread, its functions",
    "Escape                          back; without a filter",
    "space                           pause, go on",
    "s                               sort by the next column",
    "t                               totals since the start, or rates since the last reading;",
    "                                for polls: by task, or the longest",
    "/                               show only rows with this text; Enter keeps it",
    "q, Ctrl-C, F10                  quit; ends the program if piano started it",
    "",
    "CPU is a share of one CPU since the last reading, Off CPU a share of one thread's time.",
    "A wait counts when it ends. Memory is an estimate from samples. - is unknown.",
    "",
    "Any key goes back.",
};

/* ---- the header ---- */

static void draw_head(const struct screen *s)
{
    struct buf first = {0}, second = {0};
    if (s->picture) {
        head_put(&first, &second, s->picture, &s->process);
        if (s->is_paused)
            buf_puts(&first, "  PAUSED");
    } else {
        buf_puts(&first, "waiting for the recording");
    }
    term_line(0, TERM_BOLD, first.failed || !first.data ? "" : first.data);
    term_line(1, TERM_PLAIN, second.failed || !second.data ? "" : second.data);
    buf_free(&first);
    buf_free(&second);
}

static void draw_tabs(const struct screen *s)
{
    struct buf b = {0};
    for (int i = 0; i < SCREEN_TABS; i++)
        buf_printf(&b, "%s%d %s%s ", s->tab == i ? "[" : " ", i + 1,
                   i < TABS ? tab_names[i] : "Output", s->tab == i ? "]" : " ");
    term_line(2, TERM_REVERSE, b.failed ? "" : b.data);
    buf_free(&b);
}

/* The word number AT of WORDS. */
static void put_word(struct buf *b, const char *words, size_t at)
{
    for (; at > 0 && strchr(words, ' '); at--)
        words = strchr(words, ' ') + 1;
    buf_put(b, words, strcspn(words, " "));
}

static void put_age(struct buf *b, const struct live_picture *p)
{
    char text[UNITS_LEN];
    uint64_t age = p->at_ns > p->polls_at_ns ? p->at_ns - p->polls_at_ns : 0;
    if (p->has_polls && age > 1500000000)
        buf_printf(b, ", read %s ago", units_time(text, (int64_t)age));
}

static void draw_state(const struct screen *s)
{
    struct buf b = {0};
    if (s->tab < TABS) {
        buf_puts(&b, s->tab == TAB_POLLS ? s->totals ? "by task" : "longest"
                     : s->totals         ? "since the start"
                                         : "since the last reading");
        if (s->picture && s->picture->span_s > 0 && !s->totals && s->tab != TAB_POLLS)
            buf_printf(&b, " (%.1f s)", s->picture->span_s);
        if (s->tab == TAB_POLLS && s->picture)
            put_age(&b, s->picture);
        buf_puts(&b, ", by ");
        put_word(&b, tab_orders((enum tab)s->tab, s->totals), s->order[s->tab][s->totals]);
        if (*s->filter || s->is_typing)
            buf_printf(&b, ", with /%s%s", s->filter, s->is_typing ? "_" : "");
    }
    term_line(3, TERM_DIM, b.failed || !b.data ? "" : b.data);
    buf_free(&b);
}

/* ---- the body: lines FROM to TO ---- */

static enum term_style style_of(const struct screen *s, size_t row, size_t at)
{
    return row == at && s->tab < TABS ? TERM_REVERSE : TERM_PLAIN;
}

/* Puts the lines of TEXT there: two for the titles, then rows, of which the first is FIRST. */
static void draw_table(const struct screen *s, char *text, size_t from, size_t to, size_t first)
{
    size_t n = 0;
    for (char *line = strtok(text, "\n"); line && from + n < to; line = strtok(NULL, "\n"), n++)
        term_line(from + n,
                  n < TITLE_LINES ? TERM_BOLD : style_of(s, first + n - TITLE_LINES, s->at[s->tab]),
                  line);
}

static char *print_rows(const struct screen *s, const struct tab_rows *r, size_t first,
                        size_t count)
{
    struct table t = {.cells = NULL};
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    for (size_t i = first; i < first + count && i < r->count; i++)
        sheet_table(&t, tab_columns(r), r, tab_row(r, i));
    if (out && t.column_count)
        (void)table_print(&t, out, s->columns, false);
    if (out)
        fclose(out);
    table_release(&t);
    return text;
}

static const char *nothing(const struct screen *s)
{
    static const unsigned needed[TABS] = {PROFILE_CPU, PROFILE_HEAP, PROFILE_EVENTS, 0};
    const struct live_picture *p = s->picture;
    if (!p)
        return "";
    if (needed[s->tab] && !(p->instruments & needed[s->tab]))
        return "-  this recording has no such samples";
    return *s->filter ? "no row has this text" : "nothing so far";
}

static void draw_rows(struct screen *s, size_t from, size_t to)
{
    struct tab_rows r;
    size_t room = to > from + TITLE_LINES ? to - from - TITLE_LINES : 0, *at = &s->at[s->tab];
    if (!s->picture || screen_rows(s, &r) != 0) {
        term_line(from, TERM_DIM, nothing(s));
        return;
    }
    *at = r.count == 0 ? 0 : *at < r.count ? *at : r.count - 1;
    size_t *first = &s->top_row[s->tab];
    *first = *at < *first ? *at : room && *at >= *first + room ? *at - room + 1 : *first;
    char *text = r.count ? print_rows(s, &r, *first, room) : NULL;
    if (text)
        draw_table(s, text, from, to, *first);
    else
        term_line(from, TERM_DIM, nothing(s));
    free(text);
    tab_release(&r);
}

static size_t draw_flags(const struct screen *s, size_t from, size_t to)
{
    char text[LINE_BYTES];
    size_t most = (to - from) / 3;
    const struct live_picture *p = s->picture;
    for (size_t i = 0; p && i < p->flag_count && i < most; i++, from++) {
        snprintf(text, sizeof(text), "! %s", p->flags[i]);
        term_line(from, TERM_RED, text);
    }
    if (p && p->has_polls && p->flag_count == 0)
        term_line(from++, TERM_DIM, "no red flags");
    return from;
}

static void draw_detail(const struct screen *s, size_t from, size_t to)
{
    char line[LINE_BYTES], safe[LINE_BYTES];
    const char *at = s->detail ? s->detail : "looking\n";
    if (s->choice.name)
        term_line(from++, TERM_BOLD, say_safe(safe, sizeof(safe), s->choice.name));
    for (; *at && from < to; from++) {
        size_t len = strcspn(at, "\n"), cut = len < sizeof(line) - 1 ? len : sizeof(line) - 1;
        memcpy(line, at, cut);
        line[cut] = '\0';
        term_line(from, TERM_PLAIN, say_safe(safe, sizeof(safe), line));
        at += len + (at[len] == '\n');
    }
}

static void draw_output(const struct screen *s, size_t from, size_t to)
{
    char safe[LINE_BYTES];
    if (s->recorder->pid == 0)
        term_line(from, TERM_DIM, "piano did not start this program, so its output is elsewhere");
    else if (s->captured.len == 0)
        term_line(from, TERM_DIM, "the program has printed nothing");
    for (size_t i = 0; i < to - from; i++) {
        const char *line = captured_line(&s->captured, to - from - 1 - i, safe, sizeof(safe));
        if (line)
            term_line(from + i, TERM_PLAIN, line);
    }
}

void screen_draw(struct screen *s)
{
    size_t from = 4, to = s->rows > 5 ? s->rows - 1 : s->rows;
    draw_head(s);
    draw_tabs(s);
    draw_state(s);
    if (s->is_help)
        for (size_t i = 0; i < sizeof(help) / sizeof(*help) && from + i < to; i++)
            term_line(from + i, TERM_PLAIN, help[i]);
    else if (s->is_detail)
        draw_detail(s, from, to);
    else if (s->tab == SCREEN_OUTPUT)
        draw_output(s, from, to);
    else
        draw_rows(s, s->tab == TAB_POLLS ? draw_flags(s, from, to) : from, to);
    term_line(s->rows - 1, TERM_DIM,
              "q quit  space pause  s sort  t totals  / filter  Enter stacks  h help");
    if (!term_draw())
        s->is_over = true;
}
