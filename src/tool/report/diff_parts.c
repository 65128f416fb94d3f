#include "tool/report/diff_parts.h"

#include <math.h>

#include "tool/profile/compare.h"
#include "tool/profile/profile.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

void diff_column(struct table *t, const char *what, const char *label, size_t width, int optional)
{
    char safe[64], cut[64], title[96];
    say_safe(safe, sizeof(safe), label);
    table_shorten(cut, sizeof(cut), safe, width);
    snprintf(title, sizeof(title), "%s%s%s", what ? what : "", what ? " " : "", cut);
    table_column(t, title, TABLE_RIGHT, optional);
}

void diff_percent_cell(struct table *t, const bool present[2], const double v[2])
{
    char text[UNITS_LEN];
    if (!present[0] || !present[1])
        table_cell(t, present[1] ? "new" : "gone");
    else
        table_cell(t, units_percent_signed(text, compare_percent(v) / 100.0));
}

void diff_count_cell(struct table *t, const uint64_t count[2])
{
    char first[UNITS_LEN], second[UNITS_LEN], pair[2 * UNITS_LEN + 4];
    snprintf(pair, sizeof(pair), "%s -> %s", units_count(first, (int64_t)count[0]),
             units_count(second, (int64_t)count[1]));
    table_cell(t, pair);
}

const char *diff_verdict(const double v[2], bool is_real, const char *more, const char *less)
{
    if (is_real)
        return v[1] > v[0] ? more : less;
    return v[0] < v[1] || v[0] > v[1] ? "noise" : "";
}

void diff_more(FILE *out, size_t shown, size_t count, const char *what,
               const struct report_options *o)
{
    if (shown < count && !o->top)
        report_dim(out, o->colour, "%zu more %s%s: --all", count - shown, what,
                   units_plural(count - shown));
}

void diff_total(FILE *out, const double v[2], const char *delta)
{
    char part[UNITS_LEN];
    fprintf(out, "| %s", delta);
    if (v[0] > 0)
        fprintf(out, " (%s)", units_percent_signed(part, (v[1] - v[0]) / v[0]));
}

void diff_put_pair(struct buf *b, const char *key, const double v[2])
{
    buf_printf(b, "\"%s\":[%lld,%lld],", key, (long long)figure_whole(v[0]),
               (long long)figure_whole(v[1]));
}

void diff_put_percent(struct buf *b, const char *key, double percent)
{
    if (isfinite(percent))
        buf_printf(b, "\"%s\":%.3f,", key, percent);
    else
        buf_printf(b, "\"%s\":null,", key);
}

void diff_put_flag(struct buf *b, const char *key, bool value)
{
    buf_printf(b, "\"%s\":%s,", key, value ? "true" : "false");
}

void diff_put_flags(struct buf *b, const char *key, const bool v[2])
{
    buf_printf(b, "\"%s\":[%s,%s],", key, v[0] ? "true" : "false", v[1] ? "true" : "false");
}

void diff_put_failed(struct buf *b, const char *const *keys, const bool *failed, size_t count)
{
    bool any = false;
    buf_puts(b, "\"failed_by\":[");
    for (size_t i = 0; i < count; i++)
        if (failed[i]) {
            buf_printf(b, "%s\"%s\"", any ? "," : "", keys[i]);
            any = true;
        }
    buf_puts(b, "],");
    diff_put_flag(b, "failed", any);
}
