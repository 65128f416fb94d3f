/* What the files firefox*.c share. */
#ifndef PIANO_TOOL_EXPORT_FIREFOX_H
#define PIANO_TOOL_EXPORT_FIREFOX_H

#include "tool/export/firefox_markers.h"
#include "tool/util/json_writer.h"

enum firefox_category { FIREFOX_OTHER, FIREFOX_NATIVE, FIREFOX_PYTHON };
extern const char *const firefox_marker_types[MARKER_KINDS];

void firefox_put_meta(struct json_writer *j, const struct export_source *s);
/* START_NS is time 0. */
void firefox_put_counters(struct json_writer *j, const struct export_source *s, uint64_t start_ns);

#endif
