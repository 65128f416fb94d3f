/* Tables of text: columns as wide as their cells, titles above a rule, two spaces between.
 *
 * When the table is wider than it may be, columns that are merely nice go first; then columns of
 * text are shortened in the middle, the widest first, as far as they stay readable; then go those
 * that can be done without. */
#ifndef PIANO_TOOL_UTIL_TABLE_H
#define PIANO_TOOL_UTIL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 32 };
enum table_align { TABLE_LEFT, TABLE_RIGHT };

struct table_column {
    char *title;
    enum table_align align;
    int optional; /* 0: always there. Above: goes before text is shortened, the highest first.
                   * Below: goes after that, the lowest first. */
    size_t width;
    bool gone;
};

struct table {
    struct table_column columns[TABLE_COLUMNS];
    size_t column_count;
    char **cells; /* row by row */
    size_t cell_count, cell_cap;
    bool titled; /* the titles have been printed */
    bool failed; /* out of memory */
};

void table_column(struct table *t, const char *title, enum table_align align, int optional);
/* The next cell; rows begin by themselves. The text is copied as it is: make it safe before. */
void table_cell(struct table *t, const char *text);
/* Prints what there is (titles the first time) and forgets the rows; widths stay, so a long table
 * can be printed in parts. WIDTH 0 means no limit. 0 or -ENOMEM. */
int table_print(struct table *t, FILE *out, size_t width, bool colour);
void table_release(struct table *t);

/* Columns a terminal needs for S (UTF-8; wide and combining characters known). */
size_t table_width(const char *s);
/* S cut in the middle with `…` to at most WIDTH columns. */
void table_shorten(char *dst, size_t size, const char *s, size_t width);
/* Width to keep to: COLUMNS if set (shells do not pass it on by themselves), else that of the terminal behind OUT, 80
 * if it does not say; 0 (no limit) when OUT is not a terminal. */
size_t table_terminal(FILE *out);

#endif
