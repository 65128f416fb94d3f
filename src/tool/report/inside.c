/* Describes a frame with data from the recording of the same process. The frame gives a thread
 * and a range of CLOCK_MONOTONIC. Samples, times off the CPU and allocations of that thread in
 * that range belong to the frame.
 *
 * CPU samples are sparse (99 per second), so a short frame usually has none. Times off the CPU
 * are complete from 0.1 ms on. Birth times are known for sampled blocks that are still alive. */
#include "tool/report/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/load/companion.h"
#include "tool/report/heap.h"
#include "tool/report/stretch.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { WORST_SHOWN = 5, STACKS_SHOWN = 3, STACK_COLUMN = 24, ROOT_WIDTH = 60 };

struct inside {
    const struct run *run;
    struct profile profile;
    struct recording_block *blocks;
    size_t block_count;
    unsigned instruments; /* enum overview_instrument */
    bool exact;           /* times off the CPU are recorded */
    const struct symbol_frame **frames;
};

/* Stacks of one frame, with their sums. */
struct found {
    struct companion_span span;
    struct stretch_stack *cpu, *off, *live;
    size_t cpu_count, off_count, live_count;
    uint64_t cpu_samples, cpu_ns, off_ns, preempted_ns, blocks;
    double bytes;
};

struct inside *inside_open(const struct run *run)
{
    struct run_error error;
    struct inside *in = run->companion ? calloc(1, sizeof(*in)) : NULL;
    if (!in)
        return NULL;
    if (run->pair_count == 0) {
        say("the run has no clock sync: its frames cannot be joined with the recording");
        free(in);
        return NULL;
    }
    if (profile_open(&in->profile, run->companion, &error) != 0) {
        say("%s", error.text);
        free(in);
        return NULL;
    }
    in->run = run;
    in->instruments = in->profile.instruments;
    in->exact = in->profile.rec.has_off;
    in->frames = calloc(PROFILE_MAX_FRAMES, sizeof(*in->frames));
    if (!in->frames || recording_blocks(&in->profile.rec, &in->blocks, &in->block_count) != 0) {
        inside_close(in);
        return NULL;
    }
    return in;
}

void inside_close(struct inside *in)
{
    if (!in)
        return;
    profile_close(&in->profile);
    free(in->blocks);
    free(in->frames);
    free(in);
}

static bool find(struct inside *in, const struct run_frame *frame, struct found *f)
{
    uint64_t end_ns = in->profile.rec.end_ns;
    *f = (struct found){.cpu = NULL};
    if (!companion_frame(in->run, frame, &f->span))
        return false;
    f->cpu = stretch_stacks(&in->profile, &f->span, end_ns, PIANO_SAMPLE_CPU, &f->cpu_count);
    f->off = stretch_stacks(&in->profile, &f->span, end_ns, PIANO_SAMPLE_OFF, &f->off_count);
    f->live = stretch_blocks(&in->profile, &f->span, in->blocks, in->block_count, &f->live_count);
    for (size_t i = 0; i < f->cpu_count; i++) {
        f->cpu_samples += f->cpu[i].samples;
        f->cpu_ns += f->cpu[i].ns;
    }
    for (size_t i = 0; i < f->off_count; i++) {
        f->off_ns += f->off[i].ns;
        f->preempted_ns += f->off[i].preempted ? f->off[i].ns : 0;
    }
    for (size_t i = 0; i < f->live_count; i++) {
        f->blocks += f->live[i].samples;
        f->bytes += f->live[i].bytes;
    }
    return true;
}

static void release(struct found *f)
{
    free(f->cpu);
    free(f->off);
    free(f->live);
}

/* ---- in words ---- */

/* Prints WHAT as the first part of the line, then the stack. */
static int print_stack(FILE *out, struct inside *in, const char *what, uint32_t stack, bool memory,
                       const struct report_options *o)
{
    char *text = stretch_text(&in->profile, stack, o, STACK_COLUMN, memory, in->frames);
    if (!text)
        return -ENOMEM;
    fprintf(out, "     %-18s %s\n", what, text);
    free(text);
    return 0;
}

enum kind { ON_CPU, OFF_CPU, LIVE };

static int print_stacks(FILE *out, struct inside *in, enum kind kind,
                        const struct stretch_stack *list, size_t count,
                        const struct report_options *o)
{
    size_t shown = o->all || count < STACKS_SHOWN ? count : STACKS_SHOWN;
    int err = 0;
    for (size_t i = 0; i < shown && err == 0; i++) {
        char what[80], text[UNITS_LEN];
        if (kind == ON_CPU)
            snprintf(what, sizeof(what), "CPU  %4llu sample%s", (unsigned long long)list[i].samples,
                     units_plural(list[i].samples));
        else if (kind == OFF_CPU)
            snprintf(what, sizeof(what), "%s %8s", list[i].preempted ? "wait" : "off ",
                     units_time(text, (int64_t)list[i].ns));
        else
            snprintf(what, sizeof(what), "live %8s", figure_bytes(text, list[i].bytes));
        err = print_stack(out, in, what, list[i].stack, kind == LIVE, o);
    }
    if (err == 0 && shown < count)
        fprintf(out, "          (%zu more stack%s)\n", count - shown, units_plural(count - shown));
    return err;
}

static void print_head(FILE *out, const struct inside *in, size_t index, const struct found *f)
{
    const struct run_frame *frame = &in->run->frames[index];
    const struct run_thread *thread = run_thread_find(in->run, frame->thread);
    char text[UNITS_LEN], safe[40], cut[4 * ROOT_WIDTH + 8] = "";
    char *root = frame->root == RUN_NO_ROOT ? NULL : run_fn_name(in->run, frame->root);
    if (root)
        table_shorten(cut, sizeof(cut), root, ROOT_WIDTH);
    fprintf(out, "Frame %zu%s%s: %s", index + 1,
            !root         ? ""
            : frame->turn ? ", turn from "
                          : " of ",
            cut, units_time(text, frame->wall_ns));
    free(root);
    if ((double)(f->span.end_ns - f->span.begin_ns) > 1.1 * (double)frame->wall_ns)
        fprintf(out, " (%s with the cost of measuring)",
                units_time(text, (int64_t)(f->span.end_ns - f->span.begin_ns)));
    fprintf(out, " at %s on thread %u", units_time(text, frame->start_ns), frame->thread);
    if (thread && thread->name && *thread->name)
        fprintf(out, " %s", say_safe(safe, sizeof(safe), thread->name));
    if (in->exact)
        fprintf(out, " | off the CPU %s", units_time(text, (int64_t)f->off_ns));
    if (f->preempted_ns)
        fprintf(out, ", %s of it waiting for one", units_time(text, (int64_t)f->preempted_ns));
    if (in->instruments & PROFILE_CPU)
        fprintf(out, " | %llu CPU sample%s", (unsigned long long)f->cpu_samples,
                units_plural(f->cpu_samples));
    if (f->blocks)
        fprintf(out, " | %s allocated in it are alive (%llu sampled block%s)",
                figure_bytes(text, f->bytes), (unsigned long long)f->blocks,
                units_plural(f->blocks));
    fputc('\n', out);
}

int inside_print(FILE *out, struct inside *in, const struct report_options *o)
{
    size_t *list = NULL, count = 0;
    char safe[300];
    int err = frames_worst(in->run, o->top ? o->top : WORST_SHOWN, o->rank, &list, &count);
    fprintf(out, "\n%sInside the worst frames%s, by the recording %s\n", o->colour ? "\x1b[1m" : "",
            o->colour ? "\x1b[0m" : "",
            say_safe(safe, sizeof(safe), paths_base(in->run->companion)));
    for (size_t i = 0; i < count && err == 0; i++) {
        struct found f;
        if (!find(in, &in->run->frames[list[i]], &f))
            continue;
        print_head(out, in, list[i], &f);
        err = print_stacks(out, in, ON_CPU, f.cpu, f.cpu_count, o);
        if (err == 0)
            err = print_stacks(out, in, OFF_CPU, f.off, f.off_count, o);
        if (err == 0)
            err = print_stacks(out, in, LIVE, f.live, f.live_count, o);
        release(&f);
    }
    say_progress_done();
    free(list);
    return err;
}

/* ---- JSON ---- */

static void put_stacks(struct json_writer *w, struct inside *in, const char *key, enum kind kind,
                       const struct stretch_stack *list, size_t count)
{
    json_add_array(w, key);
    for (size_t i = 0; i < count; i++) {
        const struct stretch_stack *s = &list[i];
        json_add_object(w, NULL);
        json_add_count(w, kind == LIVE ? "blocks" : "samples", s->samples);
        if (kind == LIVE) {
            json_add_number(w, "bytes", figure_whole(s->bytes));
            json_add_number(w, "objects", figure_whole(s->objects));
        } else {
            json_add_count(w, kind == ON_CPU ? "cpu_ns" : "off_cpu_ns", s->ns);
        }
        if (kind == OFF_CPU)
            json_add_flag(w, "preempted", s->preempted);
        report_put_stack(w, &in->profile, s->stack, in->frames);
        json_close(w);
    }
    json_close(w);
}

void inside_put(struct json_writer *w, struct inside *in, const struct run_frame *frame)
{
    struct found f;
    if (!in || !find(in, frame, &f)) {
        json_add_null(w, "inside");
        return;
    }
    bool cpu = in->instruments & PROFILE_CPU, heap = in->instruments & PROFILE_HEAP;
    json_add_object(w, "inside");
    json_add_count(w, "tid", f.span.tid);
    json_add_count(w, "begin_mono_ns", f.span.begin_ns);
    json_add_count(w, "end_mono_ns", f.span.end_ns);
    json_add_known_count(w, "cpu_samples", cpu, f.cpu_samples);
    json_add_known_count(w, "cpu_ns", cpu, f.cpu_ns);
    json_add_known_count(w, "off_cpu_ns", in->exact, f.off_ns);
    json_add_known_count(w, "run_queue_ns", in->exact, f.preempted_ns);
    json_add_known_count(w, "live_blocks", heap, f.blocks);
    json_add_known_count(w, "live_bytes", heap, (uint64_t)figure_whole(f.bytes));
    put_stacks(w, in, "stacks", ON_CPU, f.cpu, f.cpu_count);
    put_stacks(w, in, "blocked", OFF_CPU, f.off, f.off_count);
    put_stacks(w, in, "live", LIVE, f.live, f.live_count);
    json_close(w);
    release(&f);
}
