/* The JSON writer. Reports write millions of small members, so numbers and keys are put together
 * here, not by printf. */
#include "tool/util/json_writer.h"

#include <errno.h>
#include <string.h>

#include "tool/util/json.h"

/* Writes what comes before a value: comma, newline and key. */
static void begin(struct json_writer *w, const char *key)
{
    if (w->filled)
        buf_putc(&w->text, ',');
    if (w->line)
        buf_putc(&w->text, '\n');
    w->filled = true;
    w->line = false;
    if (key) {
        buf_putc(&w->text, '"');
        buf_puts(&w->text, key);
        buf_put(&w->text, "\":", 2);
    }
}

static void open_with(struct json_writer *w, const char *key, const char *brackets)
{
    begin(w, key);
    buf_putc(&w->text, brackets[0]);
    buf_putc(&w->open, brackets[1]);
    w->filled = false;
}

void json_add_object(struct json_writer *w, const char *key)
{
    open_with(w, key, "{}");
}

void json_add_array(struct json_writer *w, const char *key)
{
    open_with(w, key, "[]");
}

void json_keep_error(struct json_writer *w, int err)
{
    if (w->err == 0)
        w->err = err;
}

static void flush(struct json_writer *w, bool last)
{
    if (w->text.failed || w->open.failed)
        json_keep_error(w, -ENOMEM);
    if (w->out && w->err == 0)
        w->err = buf_flush(&w->text, w->out, last);
}

void json_close(struct json_writer *w)
{
    if (w->line)
        buf_putc(&w->text, '\n');
    if (w->open.len > 0)
        buf_putc(&w->text, w->open.data[--w->open.len]);
    w->filled = true;
    w->line = false;
    flush(w, false);
}

void json_line(struct json_writer *w)
{
    w->line = true;
}

void json_add_row(struct json_writer *w)
{
    json_line(w);
    json_add_object(w, NULL);
}

void json_add_text(struct json_writer *w, const char *key, const char *text)
{
    begin(w, key);
    if (text)
        json_put_string(&w->text, text);
    else
        buf_puts(&w->text, "null");
}

static void put_digits(struct buf *b, bool negative, uint64_t value)
{
    char digits[24], *p = digits + sizeof(digits);
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    if (negative)
        *--p = '-';
    buf_put(b, p, (size_t)(digits + sizeof(digits) - p));
}

void json_add_number(struct json_writer *w, const char *key, int64_t value)
{
    begin(w, key);
    put_digits(&w->text, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void json_add_count(struct json_writer *w, const char *key, uint64_t value)
{
    begin(w, key);
    put_digits(&w->text, false, value);
}

void json_add_real(struct json_writer *w, const char *key, int decimals, double value)
{
    begin(w, key);
    buf_printf(&w->text, "%.*f", decimals, value);
}

void json_add_flag(struct json_writer *w, const char *key, bool value)
{
    begin(w, key);
    buf_puts(&w->text, value ? "true" : "false");
}

void json_add_null(struct json_writer *w, const char *key)
{
    json_add_text(w, key, NULL);
}

void json_add_known(struct json_writer *w, const char *key, bool known, int64_t value)
{
    if (known)
        json_add_number(w, key, value);
    else
        json_add_null(w, key);
}

void json_add_known_count(struct json_writer *w, const char *key, bool known, uint64_t value)
{
    if (known)
        json_add_count(w, key, value);
    else
        json_add_null(w, key);
}

void json_add_range(struct json_writer *w, const char *key, int64_t from, int64_t to)
{
    json_add_array(w, key);
    json_add_number(w, NULL, from);
    json_add_number(w, NULL, to);
    json_close(w);
}

void json_add_raw(struct json_writer *w, const char *key, const char *text, size_t len)
{
    begin(w, key);
    buf_put(&w->text, text, len);
}

void json_release(struct json_writer *w)
{
    buf_free(&w->text);
    buf_free(&w->open);
}

int json_finish(struct json_writer *w)
{
    while (w->open.len > 0)
        json_close(w);
    buf_putc(&w->text, '\n');
    flush(w, true);
    json_release(w);
    return w->err;
}

void json_finish_in(struct json_writer *w, struct buf *b)
{
    while (w->open.len > 0)
        json_close(w);
    flush(w, true);
    if (w->text.len)
        buf_put(b, w->text.data, w->text.len);
    b->failed |= w->err != 0;
    json_release(w);
}
