/* What the compiler wrappers noted down: units compiled and programs linked. */
#ifndef PIANO_TOOL_BUILD_RECORDS_H
#define PIANO_TOOL_BUILD_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum record_status { RECORD_INSTRUMENTED, RECORD_UNSELECTED, RECORD_SKIPPED };

struct record_fn {
    const char *name; /* qualified */
    const char *file; /* relative to the root where it is below it */
    unsigned line;
    enum record_status status;
    const char *reason; /* of a skipped one, else "" */
};

struct record_unit {
    char *path; /* the record itself */
    char *text; /* what the strings below point into */
    const char *source;
    const char *output;
    const char *note; /* why it was compiled untouched; NULL */
    struct record_fn *fns;
    size_t fn_count;
    struct timespec time; /* when it was written */
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

/* Reads STATE/units and STATE/links. Records that cannot be read are passed over, those of products
 * that are gone for good are removed. 0 or -ENOMEM. */
int records_load(struct records *r, const char *state);
void records_release(struct records *r);

/* The name without namespaces and classes. Points into NAME. */
const char *records_bare_name(const char *name);

#endif
