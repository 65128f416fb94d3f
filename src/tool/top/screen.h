/* The state of the full screen, shared by its loop, its keys and its drawing. */
#ifndef PIANO_TOOL_TOP_SCREEN_H
#define PIANO_TOOL_TOP_SCREEN_H

#include "tool/top/columns.h"
#include "tool/top/head.h"
#include "tool/top/captured.h"
#include "tool/top/reader.h"
#include "tool/top/top.h"

enum { SCREEN_OUTPUT = TABS, SCREEN_TABS, FILTER_LEN = 64 };

struct screen {
    const struct top *top;
    struct recorder *recorder;
    struct reader *reader;
    struct captured captured;
    int keys, signals, answers; /* descriptors */
    size_t rows, columns;       /* of the terminal */
    double next_s, end_s;       /* of the next reading; when we end */
    bool is_over, is_last;      /* IS_LAST: the picture is of the end */
    int status;
    struct run_error error;

    struct live_picture *picture; /* NULL: none yet */
    struct head_process process;

    int tab; /* enum tab, or SCREEN_OUTPUT */
    bool totals, is_paused, is_help, is_typing;
    size_t order[TABS][2]; /* number of the order of each list */
    size_t at[SCREEN_TABS], top_row[SCREEN_TABS];
    char filter[FILTER_LEN];
    bool is_detail, wants_detail;
    struct live_choice choice; /* its texts are malloc'd */
    char *detail;              /* lines; NULL: none */
};

void screen_key(struct screen *s, int key);
void screen_draw(struct screen *s);
void screen_forget_choice(struct screen *s);
/* Lists the rows of the current tab, which is not that of the output. 0 or -ENOMEM. */
int screen_rows(const struct screen *s, struct tab_rows *r);

#endif
