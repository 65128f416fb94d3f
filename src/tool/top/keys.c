/* The keys of the screen, as in htop where that has a key for it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/top/screen.h"
#include "tool/util/term.h"

enum { CTRL_C = 3, CTRL_Z = 0x1a, CTRL_L = 0x0c };

void screen_forget_choice(struct screen *s)
{
    free((char *)(uintptr_t)s->choice.name);
    free((char *)(uintptr_t)s->choice.other);
    s->choice = (struct live_choice){.kind = LIVE_NO_ROW};
}

int screen_rows(const struct screen *s, struct tab_rows *r)
{
    *r = (struct tab_rows){.picture = s->picture, .tab = (enum tab)s->tab, .totals = s->totals};
    return tab_choose(r, s->filter, s->order[s->tab][s->totals]);
}

/* Opens the detail of the current row. */
static void open_detail(struct screen *s)
{
    struct tab_rows r;
    if (!s->picture || s->tab >= TABS || screen_rows(s, &r) != 0)
        return;
    if (s->at[s->tab] < r.count) {
        struct live_choice c = tab_choice(&r, s->at[s->tab]);
        const struct live_poll *poll = tab_row(&r, s->at[s->tab]);
        screen_forget_choice(s);
        free(s->detail);
        s->detail = NULL;
        if (c.kind != LIVE_NO_ROW) {
            s->choice = c;
            s->choice.name = strdup(c.name);
            s->choice.other = c.other ? strdup(c.other) : NULL;
            s->wants_detail = true;
        } else if (!s->totals) { /* a poll has its stacks with it */
            s->detail = strdup(poll->stacks ? poll->stacks : "no sample was taken in this poll\n");
        }
        s->is_detail = c.kind != LIVE_NO_ROW || !s->totals;
    }
    tab_release(&r);
}

static void close_detail(struct screen *s)
{
    s->is_detail = s->wants_detail = false;
    screen_forget_choice(s);
    free(s->detail);
    s->detail = NULL;
}

static void type_filter(struct screen *s, int key)
{
    size_t len = strlen(s->filter);
    if (key == TERM_ENTER)
        s->is_typing = false;
    else if (key == TERM_ESCAPE) {
        s->is_typing = false;
        s->filter[0] = '\0';
    } else if (key == TERM_ERASE && len > 0)
        s->filter[len - 1] = '\0';
    else if (key >= ' ' && key < TERM_ERASE && len + 1 < FILTER_LEN) {
        s->filter[len] = (char)key;
        s->filter[len + 1] = '\0';
    }
    if (s->tab < TABS)
        s->at[s->tab] = 0;
}

static void sort_by_next(struct screen *s)
{
    if (s->tab >= TABS)
        return;
    size_t count = 1;
    for (const char *p = tab_orders((enum tab)s->tab, s->totals); (p = strchr(p, ' ')); p++)
        count++;
    size_t *order = &s->order[s->tab][s->totals];
    *order = (*order + 1) % count;
    s->at[s->tab] = 0;
}

static void open_tab(struct screen *s, int tab)
{
    close_detail(s);
    s->tab = tab;
}

/* Drawing limits the row to those that exist. */
static void move(struct screen *s, int key)
{
    size_t *at = &s->at[s->tab], page = s->rows > 8 ? s->rows - 8 : 1;
    switch (key) {
    case TERM_UP:
        *at -= *at > 0;
        break;
    case TERM_DOWN:
        *at += 1;
        break;
    case TERM_PAGE_UP:
        *at -= *at < page ? *at : page;
        break;
    case TERM_PAGE_DOWN:
        *at += page;
        break;
    case TERM_HOME:
        *at = 0;
        break;
    default:
        *at = SIZE_MAX / 2;
    }
}

static void press_letter(struct screen *s, int key)
{
    switch (key) {
    case 'q':
    case CTRL_C:
    case TERM_F10:
    case TERM_GONE:
        s->is_over = true;
        break;
    case CTRL_Z:
        term_suspend();
        break;
    case CTRL_L:
        term_resize(&s->rows, &s->columns);
        break;
    case ' ':
        s->is_paused = !s->is_paused;
        s->next_s = 0;
        break;
    case 't':
        s->totals = !s->totals;
        close_detail(s);
        break;
    case 's':
        sort_by_next(s);
        break;
    case '/':
        s->is_typing = true;
        break;
    case 'h':
    case '?':
        s->is_help = true;
        break;
    case TERM_ENTER:
        open_detail(s);
        break;
    case TERM_ESCAPE:
        if (!s->is_detail)
            s->filter[0] = '\0';
        close_detail(s);
        break;
    default:
        break;
    }
}

void screen_key(struct screen *s, int key)
{
    bool ends = key == CTRL_C || key == TERM_GONE;
    if (s->is_typing && !ends)
        type_filter(s, key);
    else if (s->is_help && !ends)
        s->is_help = false;
    else if (key >= '1' && key < '1' + SCREEN_TABS)
        open_tab(s, key - '1');
    else if (key >= TERM_F1 && key < TERM_F1 + SCREEN_TABS)
        open_tab(s, key - TERM_F1);
    else if (key == TERM_RIGHT || key == '\t')
        open_tab(s, (s->tab + 1) % SCREEN_TABS);
    else if (key == TERM_LEFT)
        open_tab(s, (s->tab + SCREEN_TABS - 1) % SCREEN_TABS);
    else if (key >= TERM_UP && key <= TERM_END)
        move(s, key);
    else
        press_letter(s, key);
}
