/* Detects problems and describes them as text. The thresholds are in polls.h and docs/polls.md. */
#include "tool/profile/polls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/util/vec.h"

const char *const polls_flag_names[] = {"long-polls",   "late-wakes",  "starved-worker",
                                        "queue-growth", "task-growth", "blocking",
                                        "contention"};

enum { QUEUE_LEAST = 8, TASKS_LEAST = 16, BLOCKED_SHOWN = 5 };
static const double blocked_below = 0.5;    /* share on the CPU */
static const double contention_from = 0.25; /* share waiting for a CPU */

static struct polls_flag *add(struct polls_flags *f, enum polls_flag_kind kind)
{
    if (VEC_ROOM(f->list, f->count, f->cap) != 0)
        return NULL;
    f->list[f->count] = (struct polls_flag){.kind = kind};
    return &f->list[f->count++];
}

static const char *since_start(char *text, const struct polls *p, uint64_t at_ns)
{
    return units_time(text, at_ns > p->start_ns ? (int64_t)(at_ns - p->start_ns) : 0);
}

/* "epoll loop of main", or "read on worker 2". */
static const char *whose(char *text, size_t size, const struct polls *p, const struct poll *poll)
{
    const struct polls_group *g = &p->groups[poll->group];
    char name[120], thread[120];
    say_safe(name, sizeof(name), g->name);
    if (g->kind == POLLS_LOOP)
        snprintf(text, size, "%s", name);
    else
        snprintf(text, size, "%s on %s", name,
                 polls_thread_name(thread, sizeof(thread), p, poll->track));
    return text;
}

static int flag_long(struct polls_flags *f, const struct polls *p)
{
    if (p->long_polls == 0)
        return 0;
    struct polls_flag *flag = add(f, POLLS_FLAG_LONG);
    char who[260], duration[UNITS_LEN], at[UNITS_LEN], very[64] = "";
    if (!flag)
        return -ENOMEM;
    bool all = p->very_long == p->long_polls;
    flag->count = p->long_polls;
    if (p->very_long && !all)
        snprintf(very, sizeof(very), ", %llu of them more than 50ms",
                 (unsigned long long)p->very_long);
    int len = snprintf(flag->text, sizeof(flag->text), "%llu poll%s took more than %s%s",
                       (unsigned long long)p->long_polls, units_plural(p->long_polls),
                       all ? "50ms" : "10ms", very);
    if (p->longest_count == 0)
        return 0;
    const struct poll *worst = &p->longest[0];
    flag->worst_ns = (uint64_t)polls_duration(worst);
    flag->subject = p->groups[worst->group].name;
    snprintf(flag->text + len, sizeof(flag->text) - (size_t)len,
             "; the longest %s%s: %s, %s after the start", worst->open ? "at least " : "",
             units_time(duration, polls_duration(worst)), whose(who, sizeof(who), p, worst),
             since_start(at, p, worst->begin_ns));
    return 0;
}

static int flag_late(struct polls_flags *f, const struct polls *p)
{
    if (p->late == 0)
        return 0;
    struct polls_flag *flag = add(f, POLLS_FLAG_LATE);
    char name[120], late[UNITS_LEN], at[UNITS_LEN];
    if (!flag)
        return -ENOMEM;
    const struct polls_group *g = &p->groups[p->latest.group];
    flag->count = p->late;
    flag->worst_ns = p->latest_ns;
    flag->subject = g->name;
    snprintf(flag->text, sizeof(flag->text),
             "%llu of %llu woken polls began more than 5ms after the wake; the latest %s: %s, %s "
             "after the start",
             (unsigned long long)p->late, (unsigned long long)p->wake_count,
             units_time(late, (int64_t)p->latest_ns), say_safe(name, sizeof(name), g->name),
             since_start(at, p, p->latest.begin_ns));
    return 0;
}

static int flag_starved(struct polls_flags *f, const struct polls *p)
{
    if (p->is_partial)
        return 0;
    for (uint32_t i = 0; i < p->rec->events.track_count; i++) {
        const struct polls_track *t = &p->tracks[i];
        char thread[120], all[UNITS_LEN], worst[UNITS_LEN];
        if (t->starved_max_ns <= POLLS_STARVED_NS)
            continue;
        struct polls_flag *flag = add(f, POLLS_FLAG_STARVED);
        if (!flag)
            return -ENOMEM;
        flag->count = 1;
        flag->worst_ns = t->starved_max_ns;
        flag->subject = t->name;
        snprintf(flag->text, sizeof(flag->text),
                 "%s was parked for %s while work was queued, at most %s at a time",
                 polls_thread_name(thread, sizeof(thread), p, i),
                 units_time(all, (int64_t)t->starved_ns),
                 units_time(worst, (int64_t)t->starved_max_ns));
    }
    return 0;
}

/* A trend of queues and tasks needs the whole recording. */
static int flag_queues(struct polls_flags *f, const struct polls *p)
{
    if (p->is_live)
        return 0;
    for (size_t i = 0; i < p->series[POLLS_QUEUES].count; i++) {
        const struct polls_series *s = &p->series[POLLS_QUEUES].list[i];
        if (!polls_series_grows(s, QUEUE_LEAST))
            continue;
        struct polls_flag *flag = add(f, POLLS_FLAG_QUEUE);
        if (!flag)
            return -ENOMEM;
        flag->count = (uint64_t)s->value;
        snprintf(flag->text, sizeof(flag->text),
                 "queue %llu grows: %.1f deep in the first quarter, %.1f, %.1f, %.1f in the last; "
                 "%lld at the end, %lld at most",
                 (unsigned long long)recording_own_id(p->rec, s->key), polls_series_mean(s, 0),
                 polls_series_mean(s, 1), polls_series_mean(s, 2), polls_series_mean(s, 3),
                 (long long)s->value, (long long)s->max);
    }
    return 0;
}

static int flag_tasks(struct polls_flags *f, const struct polls *p)
{
    const struct polls_series *s = &p->alive;
    const struct polls_group *most = NULL;
    if (s->count == 0 || p->is_live || !p->alive_known || !polls_series_grows(s, TASKS_LEAST))
        return 0;
    for (size_t i = 0; i < p->group_count; i++) {
        const struct polls_group *g = &p->groups[i];
        if (!most || g->spawned - g->ended > most->spawned - most->ended)
            most = g;
    }
    struct polls_flag *flag = add(f, POLLS_FLAG_TASKS);
    char name[120];
    if (!flag || !most)
        return -ENOMEM;
    flag->count = (uint64_t)s->value;
    flag->subject = most->name;
    snprintf(
        flag->text, sizeof(flag->text),
        "tasks are spawned and not ended: %.1f alive in the first quarter, %.1f, %.1f, %.1f in "
        "the last; %lld at the end, %llu of them %s",
        polls_series_mean(s, 0), polls_series_mean(s, 1), polls_series_mean(s, 2),
        polls_series_mean(s, 3), (long long)s->value,
        (unsigned long long)(most->spawned - most->ended),
        say_safe(name, sizeof(name), most->name));
    return 0;
}

/* Polls that are mostly off the CPU, and not because of other threads. Without times off the
 * CPU, only the time in parking calls is known. */
static bool is_blocked(const struct polls *p, const struct polls_group *g)
{
    uint64_t blocked = polls_blocked(p, &g->time);
    if (blocked < POLLS_BLOCKED_NS || g->total_ns == 0)
        return false;
    double on = polls_on_cpu(p, &g->time, g->total_ns);
    if (p->exact)
        return on < blocked_below && (double)blocked > (double)g->total_ns * blocked_below;
    return (double)blocked > (double)g->total_ns * blocked_below;
}

static int flag_blocked(struct polls_flags *f, const struct polls *p)
{
    size_t count = 0, shown = 0;
    uint32_t *sorted = polls_sorted(p, &count);
    int err = sorted ? 0 : -ENOMEM;
    for (size_t i = 0; i < count && err == 0 && shown < BLOCKED_SHOWN; i++) {
        const struct polls_group *g = &p->groups[sorted[i]];
        char name[120], blocked[UNITS_LEN], total[UNITS_LEN], share[UNITS_LEN];
        if (!is_blocked(p, g))
            continue;
        struct polls_flag *flag = add(f, POLLS_FLAG_BLOCKED);
        err = flag ? 0 : -ENOMEM;
        if (err)
            break;
        shown++;
        flag->count = g->polls;
        flag->worst_ns = polls_blocked(p, &g->time);
        flag->subject = g->name;
        double on = polls_on_cpu(p, &g->time, g->total_ns);
        snprintf(flag->text, sizeof(flag->text),
                 "%s blocks: %s of %s in its polls was spent waiting (on the CPU: %s)",
                 say_safe(name, sizeof(name), g->name),
                 units_time(blocked, (int64_t)flag->worst_ns),
                 units_time(total, (int64_t)g->total_ns), on < 0 ? "-" : units_percent(share, on));
    }
    free(sorted);
    return err;
}

/* Polls that had to wait for a CPU, because other threads or programs used all of them. */
static int flag_contention(struct polls_flags *f, const struct polls *p)
{
    uint64_t waited = 0, total = 0;
    for (size_t i = 0; i < p->rec->events.track_count; i++) {
        waited += p->tracks[i].busy_time.preempted_ns;
        total += p->tracks[i].busy_ns;
    }
    if (waited < POLLS_BLOCKED_NS || (double)waited < (double)total * contention_from)
        return 0;
    struct polls_flag *flag = add(f, POLLS_FLAG_CONTENTION);
    char text[UNITS_LEN], all[UNITS_LEN];
    if (!flag)
        return -ENOMEM;
    flag->count = p->polls;
    flag->worst_ns = waited;
    snprintf(flag->text, sizeof(flag->text),
             "polls waited for a CPU: %s of their %s, while others ran",
             units_time(text, (int64_t)waited), units_time(all, (int64_t)total));
    return 0;
}

int polls_flags_make(struct polls_flags *f, const struct polls *p)
{
    *f = (struct polls_flags){.list = NULL};
    int err = flag_long(f, p);
    err = err ? err : flag_late(f, p);
    err = err ? err : flag_starved(f, p);
    err = err ? err : flag_queues(f, p);
    err = err ? err : flag_tasks(f, p);
    err = err ? err : flag_blocked(f, p);
    return err ? err : flag_contention(f, p);
}

void polls_flags_release(struct polls_flags *f)
{
    free(f->list);
    *f = (struct polls_flags){.list = NULL};
}
