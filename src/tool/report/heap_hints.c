/* Lines around the figures of a heap report: the name of the file, and hints on what to do if
 * the figures are incomplete. */
#include "tool/report/heap.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/paths.h"
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

void heap_print_source(FILE *out, const struct recording *rec, const struct report_options *o)
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

void heap_print_resident(FILE *out, const struct recording *rec)
{
    double resident = (double)heap_resident(rec), heap = rec->header.peak_bytes;
    char text[UNITS_LEN];
    if (rec->header.flags & PIANO_REC_HAS_MAPS || heap >= resident / 2 ||
        resident - heap < LEAST_UNEXPLAINED)
        return;
    fprintf(out, "%-13s %9s at most; the heap explains %.0f %% of it: try --maps when recording\n",
            "Resident", heap_bytes(text, resident), heap / resident * 100);
}

/* ---- stacks ---- */

void heap_print_cut_short(FILE *out, const struct piano__heap_stats *s)
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
    bool of_live = h->mode == HEAP_LEAKS || (h->mode == HEAP_TREE && h->by == HEAP_LIVE);
    char text[UNITS_LEN];
    if (of_live && heap_is_past_peak(heap))
        report_dim(out, o->colour, "%s at the peak: piano report --peak%s",
                   heap_bytes(text, heap->rec.header.peak_bytes),
                   h->mode == HEAP_TREE ? ", or --tree --by peak" : "");
}

/* ---- wrappers ---- */

void heap_print_wrappers(FILE *out, const struct profile *heap, const struct report_options *o)
{
    char *name = heap->wrapper ? heap_name(heap->wrapper, false) : NULL;
    if (name)
        report_dim(out, o->colour,
                   "sites are who called %s and other wrappers: --no-skip shows them", name);
    free(name);
}
