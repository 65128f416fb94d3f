/* Pieces that all comparisons print alike. A column is declared once (util/sheet.h), for the table
 * and for JSON. */
#ifndef PIANO_TOOL_REPORT_DIFF_PARTS_H
#define PIANO_TOOL_REPORT_DIFF_PARTS_H

#include "tool/report/report.h"
#include "tool/util/sheet.h"

/* The titles of a figure's columns: "WHAT LABEL" for each side, or LABEL if WHAT is NULL. The labels
 * are cut to WIDTH columns. */
struct diff_titles {
    char text[2][96];
};
void diff_titles(struct diff_titles *t, const char *what, const char *const labels[2],
                 size_t width);

/* A figure of both sides: two columns of the table, and an array of two whole numbers in JSON. */
struct diff_pair {
    enum sheet_kind kind;
    const char *key; /* NULL: not in JSON */
    const struct diff_titles *titles;
    int optional, place;
    const double *value;
    const bool *present; /* the table has `-` for a side without it */
    bool is_known; /* JSON has the values of all sides; otherwise null where the table has `-` */
};
void diff_add_pair(struct sheet *s, const struct diff_pair *p);
/* The change of a figure, which JSON does not have. */
void diff_add_delta(struct sheet *s, enum sheet_kind kind, const char *title, int optional,
                    const double value[2]);
/* The change in percent, or "new", "gone" in the table. JSON has PERCENT, null if infinite. */
void diff_add_percent(struct sheet *s, const char *key, double percent, int optional,
                      const bool present[2], const double value[2]);
/* "12 -> 13" */
void diff_add_counts(struct sheet *s, const char *key, const char *title, int optional, int place,
                     const uint64_t count[2]);
/* A column with the word of `diff_verdict`; JSON has whether the change IS_REAL. */
void diff_add_verdict(struct sheet *s, const char *key, bool is_real, int optional,
                      const char *word);
/* MORE or LESS if the change IS_REAL, "noise" if not, nothing without a change. */
const char *diff_verdict(const double v[2], bool is_real, const char *more, const char *less);

/* Members of JSON. They do nothing if W is NULL, which it is for a row of the table. */
void diff_put_pair(struct json_writer *w, const char *key, const double v[2]); /* whole numbers */
void diff_put_percent(struct json_writer *w, const char *key, double percent); /* null: infinite */
void diff_put_flags(struct json_writer *w, const char *key, const bool v[2]);
/* "failed_by" and "failed": which of the figures KEYS failed. */
void diff_put_failed(struct json_writer *w, const char *const *keys, const bool *failed,
                     size_t count);

/* The first rows of a table: all with --all, otherwise --top or REPORT_TOP. */
size_t diff_shown(size_t count, const struct report_options *o);
/* Prints T and frees it. 0 or -ENOMEM. */
int diff_print_table(FILE *out, struct table *t, const struct report_options *o);
/* "N more WHATs: --all" */
void diff_more(FILE *out, size_t shown, size_t count, const char *what,
               const struct report_options *o);
/* "| +1.2ms (+3.4%)": DELTA, then the change in percent if it is finite. */
void diff_total(FILE *out, const double v[2], const char *delta);

#endif
