/* The data of a page: tables of columns, packed into blocks; docs/page-format.md. */
#ifndef PIANO_TOOL_VIEW_PACK_H
#define PIANO_TOOL_VIEW_PACK_H

#include "tool/util/json_writer.h"
#include "tool/view/column.h"
#include "tool/view/schema.h"

#define PACK_NONE UINT32_MAX /* no index */

/* Those of tables.def, and `strings`, `b_functions` and `report`. */
enum { PACK_TABLES = SCHEMA_TABLES + 3 };

struct pack_table {
    const char *name; /* must stay valid */
    size_t rows;      /* set when packed */
    bool json;        /* one text column, without a length before it */
    struct pack_place {
        uint32_t block;
        size_t at, bytes;
    } * places; /* one per column; set when packed */
    size_t column_count;
    struct column columns[];
};

/* Bytes that are compressed separately. */
struct pack_block {
    char name[64];
    unsigned char *data;
    size_t bytes, raw_bytes;
    bool deflated;
};

struct pack {
    struct pack_table *tables[PACK_TABLES];
    size_t table_count;
    struct pack_block *blocks;
    size_t block_count;
    bool failed; /* out of memory */
};

/* Adds an empty table of tables.def; NULL: `failed`. */
struct pack_table *pack_add(struct pack *p, enum schema_table table);
/* Adds another table with the COUNT columns KINDS; NULL: `failed`. */
struct pack_table *pack_table(struct pack *p, const char *name, const struct column_kind *kinds,
                              size_t count);
/* Adds a table that consists of a JSON text. Takes ownership of it. */
void pack_json(struct pack *p, const char *name, struct buf *text);

/* Encodes and compresses all tables, on all processors; the columns are empty afterwards. Returns 0
 * or negative errno. */
int pack_finish(struct pack *p);
/* Writes `"tables":{...},"blocks":[...]`. */
void pack_put_meta(struct json_writer *w, const struct pack *p);
/* Bytes of all blocks in the page. */
size_t pack_bytes(const struct pack *p);
void pack_release(struct pack *p);

#endif
