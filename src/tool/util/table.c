/* Text tables. Cells are collected, measured, then printed. The layout is decided when the first
 * rows are printed and does not change afterwards.
 *
 * Widths do not come from wcwidth of the C library, which depends on the locale: with LC_ALL=C, as
 * over ssh, the columns would not line up. */
#include "tool/util/table.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tool/util/vec.h"

enum { GAP = 2, FIRST_MIN = 16, TEXT_MIN = 12 };

/* Returns the character at *S and advances *S. Each invalid byte counts as one character. */
static uint32_t next_char(const char **s)
{
    const unsigned char *p = (const unsigned char *)*s;
    size_t more = p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : p[0] >= 0xc0 ? 1 : 0;
    uint32_t c = more ? p[0] & (0x3fu >> more) : p[0];
    for (size_t i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            *s += 1;
            return p[0];
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    *s += more + 1;
    return c;
}

static size_t char_width(uint32_t c)
{
    static const struct {
        uint32_t from, to;
        size_t width;
    } odd[] = {
        {0x300, 0x36f, 0},   {0x1ab0, 0x1aff, 0},   {0x1100, 0x115f, 2},   {0x20d0, 0x20ff, 0},
        {0x2e80, 0x303e, 2}, {0x3041, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},   {0xf900, 0xfaff, 2},
        {0xfe00, 0xfe0f, 0}, {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},
        {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        if (c >= odd[i].from && c <= odd[i].to)
            return odd[i].width;
    return 1;
}

size_t table_width(const char *s)
{
    size_t width = 0;
    while (*s)
        width += (unsigned char)*s < 0x80 ? (s++, 1) : char_width(next_char(&s));
    return width;
}

/* Bytes of S that fill at most WIDTH columns. */
static size_t head_bytes(const char *s, size_t width)
{
    const char *p = s;
    size_t used = 0;
    while (*p) {
        const char *next = p;
        used += char_width(next_char(&next));
        if (used > width)
            break;
        p = next;
    }
    return (size_t)(p - s);
}

void table_shorten(char *dst, size_t size, const char *s, size_t width)
{
    size_t full = table_width(s);
    if (full <= width || width < 3) {
        snprintf(dst, size, "%.*s", (int)head_bytes(s, width < 3 ? width : full), s);
        return;
    }
    size_t head = head_bytes(s, (width - 1) / 2);
    size_t left = full - (width - 1 - (width - 1) / 2);
    const char *tail = s + head_bytes(s, left);
    while (table_width(tail) > width - 1 - (width - 1) / 2)
        next_char(&tail);
    snprintf(dst, size, "%.*s…%s", (int)head, s, tail);
}

size_t table_terminal(FILE *out)
{
    struct winsize size;
    const char *set = getenv("COLUMNS");
    long columns = set ? strtol(set, NULL, 10) : 0;
    if (columns >= 20 && columns <= 10000)
        return (size_t)columns;
    if (isatty(fileno(out)) != 1)
        return 0;
    if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
        return size.ws_col;
    return 80;
}

void table_column(struct table *t, const char *title, enum table_align align, int optional)
{
    if (t->column_count >= TABLE_COLUMNS)
        return;
    char *copy = strdup(title);
    t->failed |= !copy;
    t->columns[t->column_count++] = (struct table_column){
        .title = copy, .align = align, .optional = optional, .width = table_width(title)};
}

void table_cell(struct table *t, const char *text)
{
    char *copy = VEC_ROOM(t->cells, t->cell_count, t->cell_cap) == 0 ? strdup(text) : NULL;
    if (!copy) {
        t->failed = true;
        return;
    }
    size_t width = table_width(text);
    struct table_column *c = &t->columns[t->cell_count % t->column_count];
    if (width > c->width && !t->titled)
        c->width = width;
    t->cells[t->cell_count++] = copy;
}

static size_t total_width(const struct table *t)
{
    size_t total = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].gone && t->columns[i].width > 0)
            total += t->columns[i].width + (total ? GAP : 0);
    return total;
}

/* The next column to drop: with SIGN 1 the highest `optional` above 0, with -1 the lowest below
 * 0. */
static struct table_column *most_optional(struct table *t, int sign)
{
    struct table_column *best = NULL;
    for (size_t i = 0; i < t->column_count; i++) {
        struct table_column *c = &t->columns[i];
        if (!c->gone && c->optional * sign > (best ? best->optional * sign : 0))
            best = c;
    }
    return best;
}

static void drop_columns(struct table *t, size_t width, int sign)
{
    struct table_column *c;
    while (total_width(t) > width && (c = most_optional(t, sign)))
        c->gone = true;
}

/* The widest text column that can still be shortened. */
static struct table_column *widest_text(struct table *t)
{
    struct table_column *best = NULL;
    for (size_t i = 0; i < t->column_count; i++) {
        struct table_column *c = &t->columns[i];
        size_t least = i == 0 ? FIRST_MIN : TEXT_MIN;
        if (!c->gone && c->align == TABLE_LEFT && c->width > least &&
            (!best || c->width > best->width))
            best = c;
    }
    return best;
}

static void fit(struct table *t, size_t width)
{
    struct table_column *c;
    if (width == 0)
        return;
    drop_columns(t, width, 1);
    while (total_width(t) > width && (c = widest_text(t)))
        c->width--;
    drop_columns(t, width, -1);
}

static void put_spaces(FILE *out, size_t count)
{
    while (count-- > 0)
        fputc(' ', out);
}

/* OWED is the number of spaces to print before the next cell; it avoids trailing spaces. */
static void print_cell(FILE *out, const struct table_column *c, const char *text, size_t *owed)
{
    char cut[1024];
    size_t width = table_width(text);
    if (width > c->width && c->align == TABLE_LEFT && c->width >= 3) {
        table_shorten(cut, sizeof(cut), text, c->width);
        text = cut;
        width = table_width(cut);
    }
    size_t pad = width < c->width ? c->width - width : 0;
    size_t before = c->align == TABLE_RIGHT ? pad : 0;
    if (width > 0) {
        put_spaces(out, *owed + before);
        fputs(text, out);
        *owed = pad - before + GAP;
    } else if (c->width > 0) { /* a column with only empty cells takes no space */
        *owed += c->width + GAP;
    }
}

static void print_row(const struct table *t, FILE *out, char *const *cells)
{
    size_t owed = 0;
    for (size_t i = 0; i < t->column_count; i++)
        if (!t->columns[i].gone)
            print_cell(out, &t->columns[i], cells ? cells[i] : t->columns[i].title, &owed);
    fputc('\n', out);
}

static void print_titles(struct table *t, FILE *out, size_t width, bool colour)
{
    fit(t, width);
    t->titled = true;
    fputs(colour ? "\x1b[1m" : "", out);
    print_row(t, out, NULL);
    fputs(colour ? "\x1b[0m\x1b[2m" : "", out);
    for (size_t i = total_width(t); i > 0; i--)
        fputc('-', out);
    fputs(colour ? "\x1b[0m\n" : "\n", out);
}

int table_print(struct table *t, FILE *out, size_t width, bool colour)
{
    if (t->failed)
        return -ENOMEM;
    if (!t->titled)
        print_titles(t, out, width, colour);
    for (size_t i = 0; i + t->column_count <= t->cell_count; i += t->column_count)
        print_row(t, out, t->cells + i);
    for (size_t i = 0; i < t->cell_count; i++)
        free(t->cells[i]);
    t->cell_count = 0;
    return 0;
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->cell_count; i++)
        free(t->cells[i]);
    for (size_t i = 0; i < t->column_count; i++)
        free(t->columns[i].title);
    free(t->cells);
    *t = (struct table){.cells = NULL};
}
