/* Sheets. In JSON a column is written at once. The cells of a table row are collected first,
 * because the table may have another order. */
#include "tool/util/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/util/units.h"

static bool is_unknown(const struct sheet_column *c)
{
    return c->unknown || (c->kind == SHEET_TEXT && !c->text);
}

static void add_member(struct json_writer *w, const struct sheet_column *c)
{
    if (is_unknown(c))
        json_add_null(w, c->key);
    else if (c->kind == SHEET_TEXT)
        json_add_text(w, c->key, c->text);
    else if (c->kind == SHEET_FLAG)
        json_add_flag(w, c->key, c->count);
    else if (c->kind == SHEET_SHARE || c->kind == SHEET_REAL)
        json_add_real(w, c->key, c->kind == SHEET_REAL ? c->decimals : 6, c->real);
    else if (c->count)
        json_add_count(w, c->key, c->count);
    else
        json_add_number(w, c->key, c->number);
}

static const char *number_text(char *text, const struct sheet_column *c)
{
    int64_t number = c->count ? (int64_t)c->count : c->number;
    switch (c->kind) {
    case SHEET_TIME:
        return units_time(text, number);
    case SHEET_BYTES:
        return units_bytes(text, number);
    case SHEET_BYTES_SIGNED:
        return units_bytes_signed(text, number);
    case SHEET_SHARE:
        return units_percent(text, c->real);
    default:
        return units_count(text, number);
    }
}

/* Adds TEXT with its NUL, cut to MOST columns if that is not 0. */
static void put_cut(struct buf *b, const char *text, size_t most)
{
    size_t size = 4 * most + 8; /* up to 4 bytes per character */
    char *cut = most ? malloc(size) : NULL;
    if (cut)
        table_shorten(cut, size, text, most);
    buf_puts(b, cut ? cut : text);
    buf_putc(b, '\0');
    free(cut);
}

static void put_safe(struct buf *b, const char *text, size_t most)
{
    size_t size = strlen(text) * 8 + 1; /* the longest result of `say_safe` */
    char *safe = malloc(size);
    b->failed |= !safe;
    if (safe)
        put_cut(b, say_safe(safe, size, text), most);
    free(safe);
}

static void put_cell(struct buf *b, const struct sheet_column *c)
{
    char text[UNITS_LEN];
    if (c->shown || is_unknown(c)) {
        put_cut(b, c->shown ? c->shown : "-", c->most);
        return;
    }
    buf_puts(b, c->mark ? c->mark : "");
    if (c->kind == SHEET_TEXT)
        put_safe(b, c->text, c->most);
    else
        put_cut(b, number_text(text, c), 0);
}

void sheet_add(struct sheet *s, const struct sheet_column *c)
{
    if (s->json && c->key)
        add_member(s->json, c);
    if (!s->table || !c->title || s->count >= TABLE_COLUMNS)
        return;
    size_t at = s->count++;
    for (; at > 0 && s->cells[at - 1].column.place > c->place; at--)
        s->cells[at] = s->cells[at - 1];
    s->cells[at] = (struct sheet_cell){*c, s->texts.len};
    put_cell(&s->texts, c);
}

/* Collects the cells of ROW; the caller frees `texts`. */
static void collect(struct sheet *s, struct table *t, sheet_columns *columns, const void *ctx,
                    const void *row)
{
    s->json = NULL;
    s->table = t;
    s->count = 0;
    s->texts = (struct buf){0};
    columns(s, ctx, row);
    t->failed |= s->texts.failed;
}

void sheet_titles(struct table *t, sheet_columns *columns, const void *ctx, const void *row)
{
    struct sheet s;
    collect(&s, t, columns, ctx, row);
    for (size_t i = 0; i < s.count; i++) {
        const struct sheet_column *c = &s.cells[i].column;
        table_column(t, c->title, c->kind == SHEET_TEXT ? TABLE_LEFT : TABLE_RIGHT, c->optional);
    }
    buf_free(&s.texts);
}

void sheet_table(struct table *t, sheet_columns *columns, const void *ctx, const void *row)
{
    struct sheet s;
    if (t->column_count == 0)
        sheet_titles(t, columns, ctx, row);
    collect(&s, t, columns, ctx, row);
    for (size_t i = 0; i < s.count && !t->failed; i++)
        table_cell(t, s.texts.data + s.cells[i].at);
    buf_free(&s.texts);
}

void sheet_put(struct json_writer *w, sheet_columns *columns, const void *ctx, const void *row)
{
    struct sheet s;
    s.json = w;
    s.table = NULL;
    columns(&s, ctx, row);
}

void sheet_put_row(struct json_writer *w, sheet_columns *columns, const void *ctx, const void *row)
{
    json_add_row(w);
    sheet_put(w, columns, ctx, row);
    json_close(w);
}
