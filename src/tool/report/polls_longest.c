/* The longest polls of `piano report --polls`, with their stacks and causes. */
#include "tool/report/polls.h"

#include <errno.h>
#include <stdlib.h>

#include "tool/util/units.h"

enum { STACKS_SHOWN = 3, STACK_COLUMN = 24, MARGIN = 5 };

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
        fprintf(out, "     the wait before it returned %llu\n",
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
    char *name = profile_safe_name(p->groups[poll->waker_group].name, false);
    fprintf(out, "by %s on %s\n", name ? name : "?", thread);
    free(name);
}

static int print_poll(FILE *out, struct polls *p, size_t number, const struct report_options *o,
                      const struct symbol_frame **frames)
{
    const struct poll *poll = &p->longest[number];
    const struct polls_group *g = &p->groups[poll->group];
    char duration[UNITS_LEN], at[UNITS_LEN], share[UNITS_LEN], thread[200];
    char *name = profile_safe_name(g->name, false);
    if (!name)
        return -ENOMEM;
    double on_cpu = polls_on_cpu(p, &poll->time, (uint64_t)polls_duration(poll));
    uint64_t since = poll->begin_ns > p->start_ns ? poll->begin_ns - p->start_ns : 0;
    fprintf(out, "%3zu. %s%s at %s: %s", number + 1, poll->open ? "at least " : "",
            units_time(duration, polls_duration(poll)), units_time(at, (int64_t)since), name);
    free(name);
    if (g->kind != POLLS_LOOP)
        fprintf(out, " (task %llu) on %s", (unsigned long long)recording_own_id(p->rec, poll->task),
                polls_thread_name(thread, sizeof(thread), p, poll->track));
    fprintf(out, " | on the CPU %s", on_cpu < 0 ? "-" : units_percent(share, on_cpu));
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

int polls_print_longest(FILE *out, struct polls *p, const struct report_options *o)
{
    const struct symbol_frame **frames = calloc(PROFILE_MAX_FRAMES, sizeof(*frames));
    int err = frames ? 0 : -ENOMEM;
    if (p->longest_count)
        report_heading(out, o->colour, "Longest polls");
    for (size_t i = 0; i < p->longest_count && err == 0; i++)
        err = print_poll(out, p, i, o, frames);
    if (err == 0 && p->exact && p->longest_count)
        report_dim(out, o->colour, "off: blocked there; wait: ready to run, but no CPU was free");
    free(frames);
    return err;
}

/* ---- JSON ---- */

static void put_mostly(struct json_writer *w, const struct polls *p,
                       const struct stretch_stack *list, size_t count,
                       const struct symbol_frame **frames)
{
    struct stretch_mostly m;
    json_keep_error(w, stretch_mostly(&m, p->profile, list, count, frames));
    if (!m.function) {
        json_add_null(w, "mostly");
        return;
    }
    json_add_object(w, "mostly");
    json_add_text(w, "function", m.function);
    json_add_count(w, "samples", m.samples);
    json_add_real(w, "share", 6, (double)m.samples / (double)m.all);
    json_close(w);
}

static void put_stacks(struct json_writer *w, struct polls *p, const struct poll *poll,
                       unsigned kind, const struct symbol_frame **frames)
{
    bool on_cpu = kind == PIANO_SAMPLE_CPU;
    size_t count = 0;
    struct stretch_stack *list = polls_stacks(p, poll, kind, &count);
    json_add_array(w, on_cpu ? "stacks" : "blocked");
    for (size_t i = 0; i < count; i++) {
        json_add_object(w, NULL);
        json_add_count(w, "samples", list[i].samples);
        json_add_count(w, on_cpu ? "cpu_ns" : "off_cpu_ns", list[i].ns);
        if (!on_cpu)
            json_add_flag(w, "preempted", list[i].preempted);
        report_put_stack(w, p->profile, list[i].stack, frames);
        json_close(w);
    }
    json_close(w);
    if (on_cpu)
        put_mostly(w, p, list, count, frames);
    free(list);
}

static void put_cause(struct sheet *s, const struct polls *p, const struct poll *poll)
{
    struct json_writer *w = s->json;
    if (!poll->woken && !poll->spawned) {
        json_add_null(w, "cause");
        return;
    }
    bool named = poll->waker_group != POLLS_NO_GROUP;
    json_add_object(w, "cause");
    json_add_text(w, "kind", poll->woken ? "wake" : "spawn");
    polls_put_moment(w, "at_ns", p, poll->cause_ns);
    json_add_count(w, "late_ns", poll->begin_ns - poll->cause_ns);
    polls_thread_columns(s, p, poll->waker_track, "thread", NULL);
    json_add_text(w, "task", named ? p->groups[poll->waker_group].name : NULL);
    json_close(w);
}

struct view {
    struct polls *polls;
    const struct symbol_frame **frames; /* PROFILE_MAX_FRAMES */
};

/* The columns of a poll, which are in no table. */
static void columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct view *v = ctx;
    const struct poll *poll = of;
    const struct polls_group *g = &v->polls->groups[poll->group];
    uint64_t duration = (uint64_t)polls_duration(poll);
    polls_put_moment(s->json, "start_ns", v->polls, poll->begin_ns);
    SHEET(s, TIME, "duration_ns", NULL, .count = duration);
    polls_thread_columns(s, v->polls, poll->track, "thread", NULL);
    SHEET(s, TEXT, "task", NULL, .text = g->name);
    SHEET(s, COUNT, "task_id", NULL, .count = recording_own_id(v->polls->rec, poll->task),
          .unknown = g->kind == POLLS_LOOP);
    SHEET(s, FLAG, "open", NULL, .count = poll->open);
    SHEET(s, COUNT, "depth", NULL, .count = poll->depth);
    SHEET(s, COUNT, "wait_returned", NULL, .count = poll->returned - 1,
          .unknown = poll->returned == 0);
    polls_time_columns(s, v->polls, &poll->time, duration, NULL);
    put_stacks(s->json, v->polls, poll, PIANO_SAMPLE_CPU, v->frames);
    put_stacks(s->json, v->polls, poll, PIANO_SAMPLE_OFF, v->frames);
    put_cause(s, v->polls, poll);
}

void polls_put_longest(struct json_writer *w, struct polls *p)
{
    const struct view v = {p, calloc(PROFILE_MAX_FRAMES, sizeof(*v.frames))};
    json_keep_error(w, v.frames ? 0 : -ENOMEM);
    json_line(w);
    json_add_array(w, "longest");
    for (size_t i = 0; i < p->longest_count && w->err == 0; i++)
        sheet_put_row(w, columns, &v, &p->longest[i]);
    json_close(w);
    free(v.frames);
}
