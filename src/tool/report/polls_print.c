/* `piano report --polls`: problems, polls by task, the longest polls with their stacks, threads. */
#include "tool/report/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/util/table.h"
#include "tool/util/units.h"

enum { STACKS_SHOWN = 3, THREADS_SHOWN = 16, STACK_COLUMN = 24, MARGIN = 5 };

static const char *share_text(char *text, double share)
{
    return share < 0 ? "-" : units_percent(text, share);
}

/* ---- the answer ---- */

static void print_answer(FILE *out, const struct polls *p)
{
    const struct recording *rec = p->rec;
    heap_print_program(out, rec);
    fprintf(out, " | %llu event%s on %zu thread%s | %llu poll%s",
            (unsigned long long)rec->events.count, units_plural(rec->events.count),
            rec->events.track_count, units_plural(rec->events.track_count),
            (unsigned long long)p->polls, units_plural(p->polls));
    if (rec->cpu_samples)
        fprintf(out, " | %llu CPU sample%s", (unsigned long long)rec->cpu_samples,
                units_plural(rec->cpu_samples));
    if (rec->off_samples)
        fprintf(out, " | %llu switch%s", (unsigned long long)rec->off_samples,
                rec->off_samples == 1 ? "" : "es");
    fputc('\n', out);
}

static void print_flags(FILE *out, const struct polls_flags *flags, const struct report_options *o)
{
    report_heading(out, o->colour, "Red flags");
    if (flags->count == 0)
        fputs("none\n", out);
    for (size_t i = 0; i < flags->count; i++)
        fprintf(out, "%s!%s %s\n", o->colour ? "\x1b[31m" : "", o->colour ? "\x1b[0m" : "",
                flags->list[i].text);
}

/* ---- tasks ---- */

static void add_group(struct table *t, struct polls *p, struct polls_group *g)
{
    char text[UNITS_LEN];
    char *name = heap_name(g->name, false);
    table_cell(t, name ? name : "?");
    free(name);
    table_cell(t, units_count(text, (int64_t)g->polls));
    table_cell(t, units_time(text, samples_percentile(&g->durations, 0.50)));
    table_cell(t, units_time(text, samples_percentile(&g->durations, 0.99)));
    table_cell(t, units_time(text, (int64_t)g->max_ns));
    table_cell(t, units_time(text, (int64_t)g->total_ns));
    table_cell(t, share_text(text, polls_on_cpu(p, &g->time, g->total_ns)));
    table_cell(t, g->woken ? units_time(text, samples_percentile(&g->wakes, 0.99)) : "-");
}

static int print_groups(FILE *out, struct polls *p, const struct report_options *o)
{
    static const char *const titles[] = {"p50", "p99", "Max", "Total", "On CPU", "Wake p99"};
    struct table t = {.cells = NULL};
    size_t count = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    size_t top = o->all ? count : o->top ? o->top : REPORT_TOP, shown = count < top ? count : top;
    if (!sorted)
        return -ENOMEM;
    report_heading(out, o->colour, "Polls by task");
    if (count == 0)
        fputs("none: no thread told its polls, and none came back to a wait again and again\n",
              out);
    table_column(&t, "Task", TABLE_LEFT, 0);
    table_column(&t, "Polls", TABLE_RIGHT, 0);
    for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
        table_column(&t, titles[i], TABLE_RIGHT, i == 3 ? 1 : i == 5 ? 2 : 0);
    for (size_t i = 0; i < shown; i++)
        add_group(&t, p, &p->groups[sorted[i]]);
    int err = count ? table_print(&t, out, o->width, o->colour) : 0;
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more%s", count - shown, o->top ? "" : ": --all");
    table_release(&t);
    free(sorted);
    return err;
}

/* ---- the longest ---- */

/* Prints the function that most stacks have in common. */
static int print_mostly(FILE *out, const struct polls *p, const struct stretch_stack *list,
                        size_t count, const struct report_options *o,
                        const struct symbol_frame **frames)
{
    struct stretch_mostly m;
    int err = stretch_mostly(&m, p->profile, list, count, frames);
    if (err || !m.function)
        return err;
    char *text = stretch_mostly_text(&m, p->profile, o, MARGIN, frames);
    if (text)
        fprintf(out, "%*s%s\n", MARGIN, "", text);
    free(text);
    return text ? 0 : -ENOMEM;
}

static int print_stacks(FILE *out, struct polls *p, const struct poll *poll, unsigned kind,
                        const struct report_options *o, const struct symbol_frame **frames)
{
    size_t count = 0;
    struct stretch_stack *list = polls_stacks(p, poll, kind, &count);
    size_t shown = o->all || count < STACKS_SHOWN ? count : STACKS_SHOWN;
    int err = 0;
    for (size_t i = 0; i < shown && err == 0; i++) {
        char text[UNITS_LEN];
        char *stack = stretch_text(p->profile, list[i].stack, o, STACK_COLUMN, false, frames);
        err = stack ? 0 : -ENOMEM;
        if (err == 0 && kind == PIANO_SAMPLE_CPU)
            fprintf(out, "     CPU  %4llu sample%s  %s\n", (unsigned long long)list[i].samples,
                    list[i].samples == 1 ? " " : "s", stack);
        else if (err == 0)
            fprintf(out, "     %s %8s      %s\n", list[i].preempted ? "wait" : "off ",
                    units_time(text, (int64_t)list[i].ns), stack);
        free(stack);
    }
    if (err == 0 && shown < count)
        fprintf(out, "          (%zu more stack%s)\n", count - shown, units_plural(count - shown));
    if (err == 0 && kind == PIANO_SAMPLE_CPU && count > 1)
        err = print_mostly(out, p, list, count, o, frames);
    free(list);
    return err;
}

static void print_cause(FILE *out, const struct polls *p, const struct poll *poll)
{
    char late[UNITS_LEN], thread[200];
    if (poll->returned > 1)
        fprintf(out, "     the wait before it came back with %llu\n",
                (unsigned long long)poll->returned - 1);
    else if (poll->returned == 1)
        fputs("     the wait before it ended by its timeout\n", out);
    if (!poll->woken && !poll->spawned)
        return;
    fprintf(out, "     %s %s before it began, ", poll->woken ? "woken" : "spawned",
            units_time(late, (int64_t)(poll->begin_ns - poll->cause_ns)));
    polls_thread_name(thread, sizeof(thread), p, poll->waker_track);
    if (poll->waker_group == POLLS_NO_GROUP) {
        fprintf(out, "by %s\n", thread);
        return;
    }
    char *name = heap_name(p->groups[poll->waker_group].name, false);
    fprintf(out, "by %s on %s\n", name ? name : "?", thread);
    free(name);
}

static int print_poll(FILE *out, struct polls *p, size_t number, const struct report_options *o,
                      const struct symbol_frame **frames)
{
    const struct poll *poll = &p->longest[number];
    const struct polls_group *g = &p->groups[poll->group];
    char duration[UNITS_LEN], at[UNITS_LEN], share[UNITS_LEN], thread[200];
    char *name = heap_name(g->name, false);
    if (!name)
        return -ENOMEM;
    uint64_t since = poll->begin_ns > p->start_ns ? poll->begin_ns - p->start_ns : 0;
    fprintf(out, "%3zu. %s%s at %s: %s", number + 1, poll->open ? "at least " : "",
            units_time(duration, polls_duration(poll)), units_time(at, (int64_t)since), name);
    free(name);
    if (g->kind != POLLS_LOOP)
        fprintf(out, " (task %llu) on %s", (unsigned long long)poll->task,
                polls_thread_name(thread, sizeof(thread), p, poll->track));
    fprintf(out, " | on the CPU %s",
            share_text(share, polls_on_cpu(p, &poll->time, (uint64_t)polls_duration(poll))));
    if (poll->time.preempted_ns)
        fprintf(out, ", %s waiting for one", units_time(share, (int64_t)poll->time.preempted_ns));
    if (poll->time.waited_ns)
        fprintf(out, ", %s in calls that wait%s", units_time(share, (int64_t)poll->time.waited_ns),
                poll->time.preempted_ns ? " (some of it both)" : "");
    if (poll->depth)
        fprintf(out, " | in another poll");
    fputs(poll->open ? " | not over\n" : "\n", out);
    int err = print_stacks(out, p, poll, PIANO_SAMPLE_CPU, o, frames);
    if (err == 0)
        err = print_stacks(out, p, poll, PIANO_SAMPLE_OFF, o, frames);
    print_cause(out, p, poll);
    return err;
}

static int print_longest(FILE *out, struct polls *p, const struct report_options *o)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    int err = frames ? 0 : -ENOMEM;
    if (p->longest_count)
        report_heading(out, o->colour, "Longest polls");
    for (size_t i = 0; i < p->longest_count && err == 0; i++)
        err = print_poll(out, p, i, o, frames);
    if (err == 0 && p->exact && p->longest_count)
        report_dim(out, o->colour, "off: blocked there; wait: it could go on, and no CPU was free");
    free(frames);
    return err;
}

/* ---- threads ---- */

struct ranked {
    uint64_t busy_ns;
    uint32_t track;
};

static int compare(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->busy_ns != y->busy_ns)
        return x->busy_ns > y->busy_ns ? -1 : 1;
    return (x->track > y->track) - (x->track < y->track);
}

static void add_thread(struct table *t, const struct polls *p, uint32_t track)
{
    const struct polls_track *k = &p->tracks[track];
    char text[200];
    table_cell(t, polls_thread_name(text, sizeof(text), p, track));
    table_cell(t, units_count(text, k->tid));
    table_cell(t, units_count(text, (int64_t)k->polls));
    table_cell(t, units_time(text, (int64_t)k->busy_ns));
    table_cell(t, units_count(text, (int64_t)k->parks));
    table_cell(t, units_time(text, (int64_t)k->parked_ns));
    table_cell(t, p->exact ? units_time(text, (int64_t)k->park_cpu_ns) : "-");
    table_cell(t, p->exact ? units_time(text, (int64_t)k->park_time.preempted_ns) : "-");
}

/* Prints what the threads were parked for, if there is more than one kind. */
static void print_parked_by(FILE *out, const struct polls *p, const struct report_options *o)
{
    char text[256] = "", time[UNITS_LEN];
    size_t used = 0, kinds = 0;
    for (size_t kind = 0; kind < PIANO_PARKS; kind++) {
        uint64_t ns = 0;
        for (uint32_t i = 0; i < p->rec->events.track_count; i++)
            ns += p->tracks[i].parked_by[kind];
        if (ns > 0 && used < sizeof(text))
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", kinds++ ? ", " : "",
                                 polls_park_names[kind], units_time(time, (int64_t)ns));
    }
    if (kinds > 1)
        report_dim(out, o->colour, "parked, all threads: %s", text);
}

static int print_threads(FILE *out, const struct polls *p, const struct report_options *o)
{
    static const char *const titles[] = {"Tid",    "Polls",        "In polls", "Parks",
                                         "Parked", "CPU in parks", "Run queue"};
    size_t count = p->rec->events.track_count;
    struct ranked *list = calloc(count + 1, sizeof(*list));
    size_t shown = o->all || count < THREADS_SHOWN ? count : THREADS_SHOWN;
    struct table t = {.cells = NULL};
    if (!list)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        list[i] = (struct ranked){p->tracks[i].busy_ns, i};
    if (count)
        qsort(list, count, sizeof(*list), compare);
    report_heading(out, o->colour, "Threads");
    table_column(&t, "Thread", TABLE_LEFT, 0);
    for (size_t i = 0; i < sizeof(titles) / sizeof(*titles); i++)
        table_column(&t, titles[i], TABLE_RIGHT, i == 0 ? 3 : i > 4 ? 2 : 0);
    for (size_t i = 0; i < shown; i++)
        add_thread(&t, p, list[i].track);
    int err = count ? table_print(&t, out, o->width, o->colour) : 0;
    if (err == 0 && shown < count)
        report_dim(out, o->colour, "%zu more threads: --all", count - shown);
    if (err == 0)
        print_parked_by(out, p, o);
    table_release(&t);
    free(list);
    return err;
}

int polls_report(FILE *out, struct polls *p, const struct report_options *o)
{
    struct polls_flags flags;
    int err = polls_flags_make(&flags, p);
    if (err == 0) {
        print_answer(out, p);
        print_flags(out, &flags, o);
        err = print_groups(out, p, o);
    }
    if (err == 0)
        err = print_longest(out, p, o);
    if (err == 0)
        err = print_threads(out, p, o);
    polls_flags_release(&flags);
    say_progress_done();
    return err;
}

/* ---- notices ---- */
