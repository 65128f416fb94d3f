/* Text tables: columns as wide as their cells, titles above a rule, two spaces between columns.
 *
 * A table wider than allowed first loses its optional columns. Then text columns are shortened in
 * the middle, the widest first, down to a minimum. Then the columns with a negative `optional` are
 * dropped. */
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
    int optional; /* 0: always shown. Positive: dropped before text is shortened, the highest first.
                   * Negative: dropped after that, the lowest first. */
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
/* Adds the next cell; rows start automatically. Copies the text unchanged, so make it safe
 * first. */
void table_cell(struct table *t, const char *text);
/* Prints the rows so far (and the titles the first time) and frees them. Widths are kept, so a long
 * table can be printed in parts. WIDTH 0: no limit. Returns 0 or -ENOMEM. */
int table_print(struct table *t, FILE *out, size_t width, bool colour);
void table_release(struct table *t);

/* Terminal columns that S needs (UTF-8, including wide and combining characters). */
size_t table_width(const char *s);
/* S cut in the middle with `…` to at most WIDTH columns. */
void table_shorten(char *dst, size_t size, const char *s, size_t width);
/* The maximum width: COLUMNS if set (shells do not export it by default), else the width of the
 * terminal OUT, or 80 if it is unknown; 0 (no limit) when OUT is not a terminal. */
size_t table_terminal(FILE *out);

#endif
