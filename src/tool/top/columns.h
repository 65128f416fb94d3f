/* The tabs of `piano top`: their rows, columns and orders. */
#ifndef PIANO_TOOL_TOP_COLUMNS_H
#define PIANO_TOOL_TOP_COLUMNS_H

#include "tool/profile/live.h"
#include "tool/util/sheet.h"

enum tab { TAB_FUNCTIONS, TAB_HEAP, TAB_POLLS, TAB_THREADS, TABS };

/* A list of rows. The tab of polls has two: the longest, and with totals one row for a task. */
struct tab_rows {
    const struct live_picture *picture;
    enum tab tab;
    bool totals;     /* since the start, else since the last reading */
    uint32_t *order; /* numbers of the rows to show */
    size_t count;
};

extern const char *const tab_names[TABS];
/* Names of the orders, separated by blanks. */
const char *tab_orders(enum tab tab, bool totals);
/* Chooses the rows with FILTER in their text ("": all), sorted by order number BY. 0 or -ENOMEM. */
int tab_choose(struct tab_rows *r, const char *filter, size_t by);
void tab_release(struct tab_rows *r);
/* Row AT of the chosen ones, for `tab_columns`. */
const void *tab_row(const struct tab_rows *r, size_t at);
sheet_columns *tab_columns(const struct tab_rows *r);
/* The choice of row AT; its texts belong to the picture. */
struct live_choice tab_choice(const struct tab_rows *r, size_t at);

#endif
