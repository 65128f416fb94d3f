/* `piano report --heap`: a summary in a few lines, then sites by live, allocated and short-lived
 * memory. */
#include "tool/report/heap.h"
#include "tool/util/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { HEAP_TOP = 10, SOON_BUCKET = 10 };

/* ---- the answer ---- */

static void print_end(FILE *out, const struct recording *rec)
{
    switch (rec->end) {
    case RECORDING_RUNNING:
        fputs("still running", out);
        break;
    case RECORDING_KILLED:
        fprintf(out, "ended by signal %d (%s)", rec->status, strsignal(rec->status));
        break;
    case RECORDING_EXITED:
        if (rec->status >= 0)
            fprintf(out, "exit status %d", rec->status);
        else
            fputs("ended", out);
        break;
    default:
        fputs(rec->header.state == PIANO_REC_TERMINATED ? "shut down by the program"
                                                        : "gone without a word (killed?)",
              out);
    }
}

void heap_print_program(FILE *out, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    char safe[PIANO_REC_PATH], text[UNITS_LEN], name[PIANO_REC_PATH];
    program_called(name, sizeof(name), h->program, h->command);
    fprintf(out, "%s (pid %u) | ", *name ? say_safe(safe, sizeof(safe), name) : "-", h->pid);
    if (rec->duration_ns >= 0)
        fprintf(out, "%s%s | ", rec->duration_atleast ? "at least " : "",
                units_time(text, rec->duration_ns));
    print_end(out, rec);
}

static void print_program(FILE *out, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    char text[UNITS_LEN], most[UNITS_LEN];
    heap_print_program(out, rec);
    if (rec->rate_low < rec->rate_high)
        fprintf(out, " | a sample every %s to %s, as it was changed",
                units_bytes(text, heap_whole((double)rec->rate_low)),
                units_bytes(most, heap_whole((double)rec->rate_high)));
    else if (h->rate > 1)
        fprintf(out, " | a sample every %s", units_bytes(text, heap_whole((double)h->rate)));
    else
        fputs(" | every allocation", out);
    fprintf(out, " | %llu sample%s\n", (unsigned long long)rec->total.samples,
            rec->total.samples == 1 ? "" : "s");
}

static void print_sum(FILE *out, const char *title, double bytes, double objects)
{
    char text[UNITS_LEN];
    fprintf(out, "%-13s %9s in %lld object%s", title, heap_bytes(text, bytes),
            (long long)heap_whole(objects), heap_whole(objects) == 1 ? "" : "s");
}

static void print_interval(FILE *out, double low, double high)
{
    char a[UNITS_LEN], b[UNITS_LEN];
    fprintf(out, ", 95 %%: %s to %s", heap_bytes(a, low), heap_bytes(b, high));
}

static void print_health(FILE *out, const struct piano__heap_stats *s)
{
    char text[UNITS_LEN];
    if (s->walked == 0)
        return;
    double cut = ((double)s->walked_lost + (double)s->walked_full) / (double)s->walked;
    fprintf(out, "%-13s %9s cut short (confidence %s), %.1f frames deep on average\n", "Stacks",
            units_percent(text, cut),
            cut < 0.05    ? "high"
            : cut <= 0.20 ? "medium"
                          : "low",
            (double)s->walked_frames / (double)s->walked);
    if (cut >= 0.05)
        heap_print_cut_short(out, s);
}

static void print_answer(FILE *out, const struct profile *heap, const struct report_options *o)
{
    const struct recording *rec = &heap->rec;
    const struct recording_sum *all = &rec->total;
    const struct piano__rec_header *h = &rec->header;
    double low, high;
    char text[UNITS_LEN];
    print_program(out, rec);
    heap_print_source(out, rec, o);
    fputc('\n', out);
    print_sum(out, rec->end == RECORDING_RUNNING ? "Live now" : "Live at exit", all->live_bytes,
              all->live_objects);
    recording_live_interval(rec, all, &low, &high);
    if (rec->rate_high > 1)
        print_interval(out, low, high);
    fputc('\n', out);
    print_sum(out, "Allocated", all->allocated_bytes, all->allocated_objects);
    recording_allocated_interval(rec, all, &low, &high);
    if (rec->rate_high > 1)
        print_interval(out, low, high);
    fputc('\n', out);
    print_sum(out, "Freed", all->freed_bytes, all->freed_objects);
    fputc('\n', out);
    if (all->untracked_bytes > 0) {
        print_sum(out, "Not followed", all->untracked_bytes, all->untracked_objects);
        fputs(": live or freed, nobody knows\n", out);
    }
    print_sum(out, "Peak", h->peak_bytes, h->peak_objects);
    if (h->peak_ns >= h->start_mono_ns && h->peak_bytes > 0)
        fprintf(out, ", after %s", units_time(text, (int64_t)(h->peak_ns - h->start_mono_ns)));
    fputc('\n', out);
    heap_print_resident(out, rec);
    print_health(out, &h->stats);
}

/* ---- sites ---- */

const char *heap_place(char *text, size_t size, const char *file, unsigned line)
{
    static char here[4096];
    char safe[600], number[16] = "";
    if (!file || !*file) {
        snprintf(text, size, "-");
        return text;
    }
    if (!*here && !getcwd(here, sizeof(here)))
        snprintf(here, sizeof(here), "/");
    size_t len = strlen(here);
    const char *shown = file;
    if (strncmp(file, here, len) == 0 && file[len] == '/') {
        shown = file + len + 1;
    } else if (file[0] == '/') { /* outside the current directory: show the last two parts */
        const char *last = strrchr(file, '/');
        while (last > file && last[-1] != '/')
            last--;
        shown = last > file ? last : file + 1;
    }
    if (line > 0)
        snprintf(number, sizeof(number), ":%u", line);
    snprintf(text, size, "%s%s", say_safe(safe, sizeof(safe), shown), number);
    return text;
}

static void add_titles(struct table *t, enum heap_by by)
{
    static const char *const first[HEAP_BYS] = {"Live", "Allocated", "At peak", "Churn"};
    table_column(t, "Site", TABLE_LEFT, 0);
    table_column(t, first[by], TABLE_RIGHT, 0);
    table_column(t, "%", TABLE_RIGHT, 2);
    if (by != HEAP_CHURN)
        table_column(t, "+-", TABLE_RIGHT, 3);
    if (by == HEAP_CHURN) {
        table_column(t, "Freed", TABLE_RIGHT, -4);
        table_column(t, "<1ms", TABLE_RIGHT, 0);
        table_column(t, "Median life", TABLE_RIGHT, -1);
    } else {
        table_column(t, "Objects", TABLE_RIGHT, -4);
        table_column(t, by == HEAP_LIVE ? "Allocated" : "Live", TABLE_RIGHT, -5);
    }
    table_column(t, "Place", TABLE_LEFT, -3);
    table_column(t, "Called by", TABLE_LEFT, -2);
}

static void half_width_cell(struct table *t, const struct recording *rec,
                            const struct recording_sum *sum, enum heap_by by)
{
    double low, high, value = heap_figure(sum, by);
    char text[UNITS_LEN];
    if (by == HEAP_LIVE)
        recording_live_interval(rec, sum, &low, &high);
    else if (by == HEAP_PEAK)
        recording_peak_interval(rec, sum, &low, &high);
    else
        recording_allocated_interval(rec, sum, &low, &high);
    table_cell(t, high - value > 0 ? heap_bytes(text, high - value) : "");
}

static void figure_cells(struct table *t, const struct recording *rec,
                         const struct recording_sum *sum, enum heap_by by, double all)
{
    char text[UNITS_LEN];
    double value = heap_figure(sum, by);
    table_cell(t, heap_bytes(text, value));
    table_cell(t, units_percent(text, all > 0 ? value / all : 0));
    if (by != HEAP_CHURN)
        half_width_cell(t, rec, sum, by);
    if (by == HEAP_CHURN) {
        uint64_t freed = recording_freed_within(sum, PIANO_LIFETIMES - 1);
        table_cell(t, heap_bytes(text, sum->freed_bytes));
        table_cell(t, units_percent(text, (double)recording_freed_within(sum, SOON_BUCKET) /
                                              (double)(freed ? freed : 1)));
        int64_t median = recording_median_life(sum);
        table_cell(t, median >= 0 ? units_time(text, median) : "-");
        return;
    }
    double objects = by == HEAP_LIVE        ? sum->live_objects
                     : by == HEAP_ALLOCATED ? sum->allocated_objects
                                            : sum->peak_objects;
    table_cell(t, units_count(text, heap_whole(objects)));
    table_cell(t, heap_bytes(text, by == HEAP_LIVE ? sum->allocated_bytes : sum->live_bytes));
}

static int add_row(struct table *t, const struct profile *heap, const struct heap_site *site,
                   enum heap_by by, double all)
{
    char place[700];
    char *name = heap_name(site->function, site->mmap), *callers = heap_callers(heap, site);
    int err = name && callers ? 0 : -ENOMEM;
    if (err == 0) {
        table_cell(t, name);
        figure_cells(t, &heap->rec, &site->sum, by, all);
        table_cell(t, heap_place(place, sizeof(place), site->file, site->line));
        table_cell(t, callers);
    }
    free(name);
    free(callers);
    return err;
}

static void print_heading(FILE *out, enum heap_by by, const struct recording *rec,
                          const struct report_options *o)
{
    const char *texts[HEAP_BYS] = {
        rec->end == RECORDING_RUNNING ? "Who holds memory now" : "Who held memory at the end",
        "Who asked for memory, over the whole run", "Who held memory at the peak",
        "Who asked for memory and freed it within about 1 ms"};
    report_heading(out, o->colour, texts[by]);
}

static int print_table(FILE *out, const struct profile *heap, enum heap_by by,
                       const struct report_options *o)
{
    struct table t = {.cells = NULL};
    size_t count = 0;
    uint32_t *sites = heap_sorted(heap, by, &count);
    size_t top = o->all ? count : o->top ? o->top : HEAP_TOP, shown = count < top ? count : top;
    double all = 0, rest = 0;
    char text[UNITS_LEN];
    int err = sites ? 0 : -ENOMEM;
    for (size_t i = 0; i < heap->site_count; i++)
        all += heap_figure(&heap->sites[i].sum, by);
    print_heading(out, by, &heap->rec, o);
    if (err == 0 && count == 0) {
        fputs("nobody, as far as was sampled\n", out);
        free(sites);
        return 0;
    }
    add_titles(&t, by);
    for (size_t i = 0; i < shown && err == 0; i++)
        err = add_row(&t, heap, &heap->sites[sites[i]], by, all);
    for (size_t i = shown; err == 0 && i < count; i++)
        rest += heap_figure(&heap->sites[sites[i]].sum, by);
    if (err == 0)
        err = table_print(&t, out, o->width, o->colour);
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more site%s with %s%s", count - shown,
                   count - shown == 1 ? "" : "s", heap_bytes(text, rest), o->top ? "" : ": --all");
    table_release(&t);
    free(sites);
    return err;
}

static int print_tables(FILE *out, const struct profile *heap, const struct heap_options *h,
                        const struct report_options *o)
{
    static const enum heap_by usual[] = {HEAP_LIVE, HEAP_ALLOCATED, HEAP_CHURN};
    if (h->mode == HEAP_AT_PEAK)
        return print_table(out, heap, HEAP_PEAK, o);
    int err = 0;
    if (!h->by_given && h->by == HEAP_LIVE && heap_is_past_peak(heap))
        err = print_table(out, heap, HEAP_PEAK, o);
    if (err == 0)
        err = print_table(out, heap, h->by, o);
    for (size_t i = 0; i < 3 && err == 0; i++)
        if (usual[i] != h->by)
            err = print_table(out, heap, usual[i], o);
    return err;
}

int heap_report(FILE *out, const struct profile *heap, const struct heap_options *h,
                const struct report_options *o)
{
    int err = 0;
    print_answer(out, heap, o);
    switch (h->mode) {
    case HEAP_TREE:
        err = heap_print_tree(out, heap, h->by, o);
        break;
    case HEAP_LEAKS:
        err = heap_print_leaks(out, heap, o);
        break;
    case HEAP_GROWTH:
        err = heap_print_growth(out, heap, h->growth, o);
        break;
    default:
        err = print_tables(out, heap, h, o);
    }
    if (err == 0) {
        heap_print_past_peak(out, heap, h, o);
        if (h->mode != HEAP_TREE && h->mode != HEAP_LEAKS)
            heap_print_wrappers(out, heap, o);
    }
    return err;
}
