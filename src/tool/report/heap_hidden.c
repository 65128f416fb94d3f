/* The heap report of a recording whose figures are not known, because the program has an allocator
 * of its own that piano cannot see. The recording may contain samples of another allocator, which
 * would be misleading. */
#include "tool/report/heap.h"

#include "tool/load/own.h"

int heap_report_hidden(FILE *out, const struct recording *rec)
{
    static const char *const titles[] = {"Live at exit", "Allocated", "Freed", "Peak"};
    char text[OWN_NOTICE];
    heap_print_program(out, rec);
    fprintf(out, "\n%s\n\n", own_notice(text, &rec->header));
    for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
        fprintf(out, "%-13s %9s\n", titles[i], "-");
    return 0;
}

int heap_report_hidden_json(FILE *out, const struct recording *rec)
{
    static const char *const figures[] = {"live_bytes",
                                          "live_bytes_ci95",
                                          "live_objects",
                                          "allocated_bytes",
                                          "allocated_bytes_ci95",
                                          "allocated_objects",
                                          "freed_bytes",
                                          "untracked_bytes",
                                          "freed_objects",
                                          "churn_bytes",
                                          "samples",
                                          "freed_samples",
                                          "live_samples",
                                          "size_min",
                                          "size_max",
                                          "oldest_ns",
                                          "newest_ns",
                                          "median_lifetime_ns",
                                          "lifetimes",
                                          "peak_bytes",
                                          "peak_objects",
                                          "peak_at_ns",
                                          "stack_health",
                                          "dropped"};
    static const char *const lists[] = {"sites", "places", "snapshots"};
    struct json_writer w = {.out = out};
    json_add_object(&w, NULL);
    for (size_t i = 0; i < sizeof(figures) / sizeof(*figures); i++)
        json_add_null(&w, figures[i]);
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
        json_add_array(&w, lists[i]);
        json_close(&w);
    }
    report_put_recording(&w, rec);
    return json_finish(&w);
}
