/* The tables of a page, defined from tables.def. */
#include "tool/view/schema.h"

#define STORED_U8 .type = COLUMN_U8
#define STORED_U32 .type = COLUMN_U32
#define STORED_I64 .type = COLUMN_I64
#define STORED_F64 .type = COLUMN_F64
#define STORED_FITTED .type = COLUMN_I64, .fitted = true

#define TABLE(table) static const struct column_kind table##_kinds[] = {
#define COLUMN(column, stored, coded, kind)                                                        \
    {.name = #column, STORED_##stored, .code = COLUMN_##coded},
#define END                                                                                        \
    }                                                                                              \
    ;
#include "tool/view/tables.def"
#undef TABLE
#undef COLUMN
#undef END

#define TABLE(table) {#table, table##_kinds, SCHEMA_COLUMNS(table)},
#define COLUMN(column, stored, coded, kind)
#define END
const struct schema schema[SCHEMA_TABLES] = {
#include "tool/view/tables.def"
};
#undef TABLE
#undef COLUMN
#undef END
