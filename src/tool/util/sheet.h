/* Sheets: rows whose columns are declared once, for the table in the terminal and for JSON.
 *
 * A sheet is a function that declares each column of a row with `SHEET`. The order of declarations
 * is the order in JSON. The same function makes the titles and cells of a table:
 *
 *     static void columns(struct sheet *s, const void *ctx, const void *of)
 *     {
 *         const struct cpu_row *row = of;
 *         SHEET(s, TEXT, "name", "Function", .text = row->function);
 *         SHEET(s, TIME, "self_ns", "Self", .count = row->self_ns);
 *         SHEET(s, COUNT, "samples", NULL, .count = row->self_samples);
 *     }
 *
 * Members that are no column, such as nested objects, go to `s->json` if that is not NULL. */
#ifndef PIANO_TOOL_UTIL_SHEET_H
#define PIANO_TOOL_UTIL_SHEET_H

#include "tool/util/json_writer.h"
#include "tool/util/table.h"

/* How a value is shown. Text stands left in a table, numbers right. */
enum sheet_kind {
    SHEET_TEXT,
    SHEET_TIME, /* nanoseconds */
    SHEET_BYTES,
    SHEET_BYTES_SIGNED,
    SHEET_COUNT,
    SHEET_SHARE, /* 0.125: 12.5% in a table */
    SHEET_REAL,  /* with `decimals` */
    SHEET_FLAG,
};

struct sheet_column {
    enum sheet_kind kind;
    const char *key;   /* NULL: not in JSON */
    const char *title; /* NULL: not in the table. Must not depend on the row. */
    int optional;      /* when a narrow table drops it: see table.h */
    int place;         /* columns with a higher one are further right in the table */
    size_t most;       /* text is cut to this width in the table; 0: no limit */

    /* The value: one of these, according to the kind. */
    const char *text; /* NULL: unknown. Made safe to show in the table. */
    int64_t number;
    uint64_t count;
    double real;
    int decimals;      /* of a `real` in JSON */
    bool unknown;      /* null in JSON, `-` in the table */
    const char *mark;  /* before the value in the table, such as "~" */
    const char *shown; /* instead of the value in the table, unchanged; NULL: the value */
};

struct sheet {
    struct json_writer *json; /* NULL: the row is for a table */
    struct table *table;      /* NULL: the row is for JSON */
    struct sheet_cell {
        struct sheet_column column;
        size_t at; /* offset of its text */
    } cells[TABLE_COLUMNS];
    size_t count;
    struct buf texts; /* of the cells */
};

/* Declares the columns of OF, a row, with SHEET. */
typedef void sheet_columns(struct sheet *s, const void *ctx, const void *of);

#define SHEET(s, kind_, key_, title_, ...)                                                         \
    sheet_add(s, &(const struct sheet_column){                                                     \
                     .kind = SHEET_##kind_, .key = (key_), .title = (title_), __VA_ARGS__})
void sheet_add(struct sheet *s, const struct sheet_column *c);

/* Adds a row to T. The first one also makes the titles; `sheet_titles` makes them before. */
void sheet_table(struct table *t, sheet_columns *columns, const void *ctx, const void *row);
void sheet_titles(struct table *t, sheet_columns *columns, const void *ctx, const void *row);
/* Adds the members of a row to the object that is open. */
void sheet_put(struct json_writer *w, sheet_columns *columns, const void *ctx, const void *row);
/* The same in an object on a line of its own. */
void sheet_put_row(struct json_writer *w, sheet_columns *columns, const void *ctx, const void *row);

#endif
