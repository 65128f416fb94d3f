/* Pieces that all comparisons print alike. */
#ifndef PIANO_TOOL_REPORT_DIFF_PARTS_H
#define PIANO_TOOL_REPORT_DIFF_PARTS_H

#include "tool/report/report.h"
#include "tool/util/buf.h"
#include "tool/util/table.h"

/* A column of one side: "WHAT LABEL"; WHAT may be NULL. The label is cut to WIDTH columns. */
void diff_column(struct table *t, const char *what, const char *label, size_t width, int optional);
/* The change in percent, or "new", "gone". */
void diff_percent_cell(struct table *t, const bool present[2], const double v[2]);
/* "12 -> 13" */
void diff_count_cell(struct table *t, const uint64_t count[2]);
/* MORE or LESS if the change IS_REAL, "noise" if not, nothing without a change. */
const char *diff_verdict(const double v[2], bool is_real, const char *more, const char *less);
/* "N more WHATs: --all" */
void diff_more(FILE *out, size_t shown, size_t count, const char *what,
               const struct report_options *o);
/* "| +1.2ms (+3.4%)": DELTA, then the change in percent if it is finite. */
void diff_total(FILE *out, const double v[2], const char *delta);

/* Members of a JSON object, each followed by a comma. */
void diff_put_pair(struct buf *b, const char *key, const double v[2]); /* whole numbers */
void diff_put_percent(struct buf *b, const char *key, double percent); /* null: infinite */
void diff_put_flag(struct buf *b, const char *key, bool value);
void diff_put_flags(struct buf *b, const char *key, const bool v[2]);
/* "failed_by" and "failed": which of the figures KEYS failed. */
void diff_put_failed(struct buf *b, const char *const *keys, const bool *failed, size_t count);

#endif
