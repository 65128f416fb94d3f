/* The tables of a page, declared from tables.def. */
#ifndef PIANO_TOOL_VIEW_SCHEMA_H
#define PIANO_TOOL_VIEW_SCHEMA_H

#include "tool/view/column.h"

#define TABLE(table) SCHEMA_##table,
#define COLUMN(name, stored, coded, kind)
#define END
enum schema_table {
#include "tool/view/tables.def"
    SCHEMA_TABLES
};
#undef TABLE
#undef COLUMN
#undef END

/* One byte per column, so that the size of the struct is the number of columns. */
#define TABLE(table) struct schema_##table {
#define COLUMN(name, stored, coded, kind) char name;
#define END                                                                                        \
    }                                                                                              \
    ;
#include "tool/view/tables.def"
#undef TABLE
#undef COLUMN
#undef END

#define SCHEMA_COLUMNS(table) sizeof(struct schema_##table)

/* Code that writes rows of TABLE states here how many columns it writes. A column that is added to
 * tables.def and not to that code does not compile. */
#define SCHEMA_WRITES(table, count)                                                                \
    _Static_assert(SCHEMA_COLUMNS(table) == (count),                                               \
                   "the columns of " #table " in tables.def differ from those written here")

struct schema {
    const char *name;
    const struct column_kind *kinds;
    size_t count;
};

extern const struct schema schema[SCHEMA_TABLES];

#endif
