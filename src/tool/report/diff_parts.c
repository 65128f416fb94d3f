#include "tool/report/diff_parts.h"

#include <math.h>

#include "tool/profile/compare.h"
#include "tool/profile/profile.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

void diff_titles(struct diff_titles *t, const char *what, const char *const labels[2], size_t width)
{
    char safe[64], cut[64];
    for (int s = 0; s < 2; s++) {
        say_safe(safe, sizeof(safe), labels[s]);
        table_shorten(cut, sizeof(cut), safe, width);
        snprintf(t->text[s], sizeof(t->text[s]), "%s%s%s", what ? what : "", what ? " " : "", cut);
    }
}

static void put_known(struct json_writer *w, const struct diff_pair *p)
{
    json_add_array(w, p->key);
    for (int s = 0; s < 2; s++)
        json_add_known(w, NULL, p->is_known || p->present[s], figure_whole(p->value[s]));
    json_close(w);
}

void diff_add_pair(struct sheet *s, const struct diff_pair *p)
{
    if (s->json && p->key)
        put_known(s->json, p);
    for (int side = 0; side < 2; side++)
        sheet_add(s, &(const struct sheet_column){.kind = p->kind,
                                                  .title = p->titles->text[side],
                                                  .optional = p->optional,
                                                  .place = p->place,
                                                  .number = figure_whole(p->value[side]),
                                                  .unknown = !p->present[side]});
}

void diff_add_delta(struct sheet *s, enum sheet_kind kind, const char *title, int optional,
                    const double value[2])
{
    char text[UNITS_LEN];
    int64_t delta = figure_whole(value[1] - value[0]);
    if (kind == SHEET_TIME)
        units_time_signed(text, delta);
    else
        units_bytes_signed(text, delta);
    sheet_add(s, &(const struct sheet_column){
                     .kind = kind, .title = title, .optional = optional, .shown = text});
}

void diff_add_percent(struct sheet *s, const char *key, double percent, int optional,
                      const bool present[2], const double value[2])
{
    char text[UNITS_LEN];
    bool both = present[0] && present[1];
    diff_put_percent(s->json, key, percent);
    SHEET(s, SHARE, NULL, "%", .optional = optional,
          .shown = both         ? units_percent_signed(text, compare_percent(value) / 100.0)
                   : present[1] ? "new"
                                : "gone");
}

void diff_add_counts(struct sheet *s, const char *key, const char *title, int optional, int place,
                     const uint64_t count[2])
{
    char first[UNITS_LEN], second[UNITS_LEN], pair[2 * UNITS_LEN + 4];
    if (s->json) {
        json_add_array(s->json, key);
        json_add_count(s->json, NULL, count[0]);
        json_add_count(s->json, NULL, count[1]);
        json_close(s->json);
    }
    snprintf(pair, sizeof(pair), "%s -> %s", units_count(first, (int64_t)count[0]),
             units_count(second, (int64_t)count[1]));
    SHEET(s, COUNT, NULL, title, .optional = optional, .place = place, .shown = pair);
}

void diff_add_verdict(struct sheet *s, const char *key, bool is_real, int optional,
                      const char *word)
{
    if (s->json)
        json_add_flag(s->json, key, is_real);
    SHEET(s, TEXT, NULL, "", .optional = optional, .shown = word);
}

const char *diff_verdict(const double v[2], bool is_real, const char *more, const char *less)
{
    if (is_real)
        return v[1] > v[0] ? more : less;
    return v[0] < v[1] || v[0] > v[1] ? "noise" : "";
}

void diff_put_pair(struct json_writer *w, const char *key, const double v[2])
{
    if (w)
        json_add_range(w, key, figure_whole(v[0]), figure_whole(v[1]));
}

void diff_put_percent(struct json_writer *w, const char *key, double percent)
{
    if (w && isfinite(percent))
        json_add_real(w, key, 3, percent);
    else if (w)
        json_add_null(w, key);
}

void diff_put_flags(struct json_writer *w, const char *key, const bool v[2])
{
    if (!w)
        return;
    json_add_array(w, key);
    json_add_flag(w, NULL, v[0]);
    json_add_flag(w, NULL, v[1]);
    json_close(w);
}

void diff_put_failed(struct json_writer *w, const char *const *keys, const bool *failed,
                     size_t count)
{
    bool any = false;
    if (!w)
        return;
    json_add_array(w, "failed_by");
    for (size_t i = 0; i < count; i++) {
        if (failed[i])
            json_add_text(w, NULL, keys[i]);
        any |= failed[i];
    }
    json_close(w);
    json_add_flag(w, "failed", any);
}

size_t diff_shown(size_t count, const struct report_options *o)
{
    size_t top = o->all ? count : o->top ? o->top : REPORT_TOP;
    return count < top ? count : top;
}

int diff_print_table(FILE *out, struct table *t, const struct report_options *o)
{
    int err = table_print(t, out, o->width, o->colour);
    table_release(t);
    return err;
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
