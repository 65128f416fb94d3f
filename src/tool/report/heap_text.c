/* The text of a heap report around its tables: the sums, the name of the file, and hints on what to
 * do if the figures are incomplete. */
#include "tool/report/heap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/util/paths.h"
#include "tool/util/program.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { COMMAND_WIDTH = 100, LEAST_WIDTH = 40, LEAST_UNEXPLAINED = 8 << 20 };

/* ---- the file ---- */

static void put_command(struct buf *b, const struct piano__rec_header *h)
{
    size_t len = sizeof(h->command) - 1;
    char safe[PIANO_REC_PATH];
    while (len > 0 && h->command[len - 1] == '\0')
        len--;
    for (size_t at = 0; at < len; at += strlen(h->command + at) + 1) {
        const char *word = h->command + at;
        bool plain = *word && !strpbrk(word, " \t\n'\"");
        buf_printf(b, plain ? "%s%s" : "%s'%s'", at ? " " : "", say_safe(safe, sizeof(safe), word));
    }
}

static void print_source(FILE *out, const struct recording *rec, const struct report_options *o)
{
    char path[1024], cut[1024];
    struct buf command = {0};
    put_command(&command, &rec->header);
    paths_short(path, sizeof(path), rec->path);
    fputs(path, out);
    if (command.data && command.len > 0 && !command.failed) {
        size_t used = table_width(path) + 3, width = o->width ? o->width : COMMAND_WIDTH;
        table_shorten(cut, sizeof(cut), command.data,
                      width > used + LEAST_WIDTH ? width - used : LEAST_WIDTH);
        fprintf(out, " | %s", cut);
    }
    fputc('\n', out);
    buf_free(&command);
}

/* ---- what the heap does not explain ---- */

uint64_t heap_resident(const struct recording *rec)
{
    uint64_t most = 0;
    for (size_t i = 0; i < rec->snapshot_count; i++)
        if (rec->snapshots[i].resident_bytes > most)
            most = rec->snapshots[i].resident_bytes;
    return most;
}

static void print_resident(FILE *out, const struct recording *rec)
{
    double resident = (double)heap_resident(rec), heap = rec->header.peak_bytes;
    char text[UNITS_LEN];
    if (rec->header.flags & PIANO_REC_HAS_MAPS || heap >= resident / 2 ||
        resident - heap < LEAST_UNEXPLAINED)
        return;
    fprintf(out, "%-13s %9s at most; the heap explains %.0f %% of it: try --maps when recording\n",
            "Resident", figure_bytes(text, resident), heap / resident * 100);
}

/* ---- stacks ---- */

static void print_cut_short(FILE *out, const struct piano__heap_stats *s)
{
    bool full = s->walked_full > s->walked_lost;
    fprintf(out,
            "%14ssums are right, but callers are missing in trees, and one site may be in several "
            "rows;\n%14s%s\n",
            "", "",
            full ? "these stacks are deeper than 128 frames: recursion"
                 : "build what is cut with -fasynchronous-unwind-tables or "
                   "-fno-omit-frame-pointer");
}

/* ---- the peak ---- */

bool heap_is_past_peak(const struct profile *heap)
{
    return heap->rec.total.live_bytes < heap->rec.header.peak_bytes / 2;
}

void heap_print_past_peak(FILE *out, const struct profile *heap, const struct heap_options *h,
                          const struct report_options *o)
{
    bool of_live = h->mode == HEAP_LEAKS || (h->mode == HEAP_TREE && h->by == FIGURE_LIVE);
    char text[UNITS_LEN];
    if (of_live && heap_is_past_peak(heap))
        report_dim(out, o->colour, "%s at the peak: piano report --peak%s",
                   figure_bytes(text, heap->rec.header.peak_bytes),
                   h->mode == HEAP_TREE ? ", or --tree --by peak" : "");
}

/* ---- wrappers ---- */

/* Prints BEFORE, FUNCTION and AFTER, unless FUNCTION is NULL. */
static void print_skipped(FILE *out, const struct report_options *o, const char *before,
                          const char *function, const char *after)
{
    char *name = function ? profile_safe_name(function, false) : NULL;
    if (name)
        report_dim(out, o->colour, "%s%s%s", before, name, after);
    free(name);
}

void heap_print_wrappers(FILE *out, const struct profile *heap, const struct report_options *o)
{
    print_skipped(out, o, "sites are the callers of ", heap->wrapper,
                  " and other wrappers: --no-skip shows the wrappers");
    print_skipped(out, o, "sites are in the program's own code, not in ", heap->library,
                  " and other functions of libraries: --no-skip shows those");
    for (size_t i = 0; i < heap->found.count; i++)
        print_skipped(out, o, "", heap->found.names[i],
                      " counts as a wrapper: many functions call it, for many sizes");
}

void heap_put_callers(struct sheet *s, const struct profile *heap, uint32_t stack)
{
    const char *callers[HEAP_CALLERS];
    if (!s->json)
        return;
    size_t count = heap_callers(heap, stack, callers);
    json_add_array(s->json, "callers");
    for (size_t i = 0; i < count; i++)
        json_add_text(s->json, NULL, callers[i]);
    json_close(s->json);
}

/* ---- places ---- */

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
                                                        : "no exit record (killed?)",
              out);
    }
}

static const char *range_end_text(char *text, const struct recording *rec, uint64_t at_ns)
{
    uint64_t end = rec->end_ns < at_ns ? rec->end_ns : at_ns;
    return units_time(text, (int64_t)(end - rec->header.start_mono_ns));
}

void heap_print_program(FILE *out, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    char safe[PIANO_REC_PATH], text[UNITS_LEN], name[PIANO_REC_PATH];
    char from[UNITS_LEN], to[UNITS_LEN];
    const struct recording_process *leader = recording_leader(rec);
    program_called(name, sizeof(name), h->program, h->command);
    if (leader)
        snprintf(name, sizeof(name), "%s", leader->name);
    fprintf(out, "%s (pid %u)", *name ? say_safe(safe, sizeof(safe), name) : "-",
            leader ? leader->pid : h->pid);
    if (leader)
        fprintf(out, " and %zu more process%s", rec->process_count - 1,
                rec->process_count == 2 ? "" : "es");
    fputs(" | ", out);
    if (rec->duration_ns >= 0)
        fprintf(out, "%s%s | ", rec->duration_atleast ? "at least " : "",
                units_time(text, rec->duration_ns));
    print_end(out, rec);
    if (rec->range.given)
        fprintf(out, " | from %s to %s", range_end_text(from, rec, rec->range.from_ns),
                range_end_text(to, rec, rec->range.to_ns));
}

static void print_program(FILE *out, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    char text[UNITS_LEN], most[UNITS_LEN];
    heap_print_program(out, rec);
    if (rec->rate_low < rec->rate_high)
        fprintf(out, " | a sample every %s to %s, as it was changed",
                units_bytes(text, figure_whole((double)rec->rate_low)),
                units_bytes(most, figure_whole((double)rec->rate_high)));
    else if (h->rate > 1)
        fprintf(out, " | a sample every %s", units_bytes(text, figure_whole((double)h->rate)));
    else
        fputs(" | every allocation", out);
    fprintf(out, " | %llu sample%s\n", (unsigned long long)rec->total.samples,
            rec->total.samples == 1 ? "" : "s");
}

static void print_sum(FILE *out, const char *title, double bytes, double objects)
{
    char text[UNITS_LEN];
    fprintf(out, "%-13s %9s in %lld object%s", title, figure_bytes(text, bytes),
            (long long)figure_whole(objects), figure_whole(objects) == 1 ? "" : "s");
}

static void print_interval(FILE *out, double low, double high)
{
    char a[UNITS_LEN], b[UNITS_LEN];
    fprintf(out, ", 95 %%: %s to %s", figure_bytes(a, low), figure_bytes(b, high));
}

double heap_cut_share(const struct piano__heap_stats *s)
{
    return ((double)s->walked_lost + (double)s->walked_full) / (double)s->walked;
}

const char *heap_confidence(const struct piano__heap_stats *s)
{
    double cut = heap_cut_share(s);
    return cut < 0.05 ? "high" : cut <= 0.20 ? "medium" : "low";
}

static void print_health(FILE *out, const struct piano__heap_stats *s)
{
    char text[UNITS_LEN];
    if (s->walked == 0)
        return;
    fprintf(out, "%-13s %9s cut short (confidence %s), %.1f frames deep on average\n", "Stacks",
            units_percent(text, heap_cut_share(s)), heap_confidence(s),
            (double)s->walked_frames / (double)s->walked);
    if (heap_cut_share(s) >= 0.05)
        print_cut_short(out, s);
}

void heap_print_answer(FILE *out, const struct profile *heap, const struct report_options *o)
{
    const struct recording *rec = &heap->rec;
    const struct recording_sum *all = &rec->total;
    const struct piano__rec_header *h = &rec->header;
    double low, high;
    char text[UNITS_LEN];
    print_program(out, rec);
    print_source(out, rec, o);
    if (rec->range.given) /* the sums are those of the whole recording */
        return;
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
        fputs(": not known to be live or freed\n", out);
    }
    if (!recording_is_one_heap(rec)) {
        fprintf(out, "%-13s %9s of several processes; of one: --process NAME|PID\n", "Peak", "-");
        print_health(out, &h->stats);
        return;
    }
    print_sum(out, "Peak", h->peak_bytes, h->peak_objects);
    recording_whole_peak_interval(rec, &low, &high);
    if (rec->rate_high > 1)
        print_interval(out, low, high);
    if (h->peak_ns >= h->start_mono_ns && h->peak_bytes > 0)
        fprintf(out, ", after %s", units_time(text, (int64_t)(h->peak_ns - h->start_mono_ns)));
    fputc('\n', out);
    print_resident(out, rec);
    print_health(out, &h->stats);
}
