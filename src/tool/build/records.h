/* The records of the compiler wrappers: compiled units and linked programs. */
#ifndef PIANO_TOOL_BUILD_RECORDS_H
#define PIANO_TOOL_BUILD_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum record_status { RECORD_INSTRUMENTED, RECORD_UNSELECTED, RECORD_SKIPPED };

struct record_fn {
    const char *name; /* qualified */
    const char *file; /* relative to the root if it is below the root */
    unsigned line;
    enum record_status status;
    const char *reason; /* why it was skipped, else "" */
};

struct record_unit {
    char *path; /* of the record itself */
    char *text; /* the strings below point into it */
    const char *source;
    const char *output;
    const char *note;  /* why it was compiled untouched, or NULL */
    const char *words; /* of a unit that was not searched, see search.h; or NULL */
    struct record_fn *fns;
    size_t fn_count;
    struct timespec time; /* when the record was written */
};

struct record_link {
    char *path;
    char *text;
    const char *output;
    bool shared;
    struct timespec time; /* of the output */
};

struct records {
    struct record_unit *units;
    size_t unit_count;
    struct record_link *links; /* newest first */
    size_t link_count;
};

/* Reads STATE/units and STATE/links. Ignores records that cannot be read, and removes those whose
 * products no longer exist. Returns 0 or -ENOMEM. */
int records_load(struct records *r, const char *state);
void records_release(struct records *r);

/* The name without namespaces and classes. Points into NAME. */
const char *records_bare_name(const char *name);

#endif
