/* One sheet for each list, used for the screen, for lines and for JSON; docs/top.md explains the
 * columns and docs/json.md the keys. */
#include "tool/top/columns.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool/profile/profile.h"
#include "tool/util/order.h"

enum { NAME_MOST = 60 };

const char *const tab_names[TABS] = {"Functions", "Heap", "Polls", "Threads"};

/* ---- columns ---- */

/* A time since the last reading as a share of that time: 2.0 is two CPUs, or two threads. */
static void add_share(struct sheet *s, const struct tab_rows *r, const char *key, const char *title,
                      uint64_t ns, bool is_known)
{
    double span_ns = r->picture->span_s * 1e9;
    SHEET(s, SHARE, key, r->totals ? NULL : title, .real = span_ns > 0 ? (double)ns / span_ns : 0,
          .unknown = span_ns <= 0 || !is_known);
}

static void add_times(struct sheet *s, const struct tab_rows *r, const struct live_times *now,
                      const struct live_times *all)
{
    bool has_waits = r->picture->has_waits, has_cpu = r->picture->instruments & PROFILE_CPU;
    add_share(s, r, "cpu", "CPU", now->cpu_ns, has_cpu);
    add_share(s, r, "off_cpu", "Off CPU", now->off_ns, has_waits);
    SHEET(s, TIME, "self_ns", r->totals ? "CPU" : NULL, .count = all->cpu_ns, .unknown = !has_cpu);
    SHEET(s, TIME, "off_cpu_ns", r->totals ? "Off CPU" : NULL, .count = all->off_ns,
          .unknown = !has_waits);
}

static void function_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct tab_rows *r = ctx;
    const struct live_function *f = of;
    double all = r->picture->all_cpu_ns ? (double)r->picture->all_cpu_ns : 1;
    add_times(s, r, &f->now, &f->all);
    SHEET(s, SHARE, NULL, r->totals ? "%" : NULL, .real = (double)f->all.cpu_ns / all);
    add_share(s, r, "total", "Total", f->total_now_ns, true);
    SHEET(s, TIME, "total_ns", r->totals ? "Total" : NULL, .count = f->total_ns, .optional = -2);
    SHEET(s, COUNT, "samples", r->totals ? "Samples" : NULL, .count = f->samples, .optional = 1);
    SHEET(s, TEXT, "name", "Function", .text = f->function, .most = NAME_MOST);
    SHEET(s, TEXT, "module", "Module", .text = f->module, .most = NAME_MOST, .optional = -4);
}

static void site_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct tab_rows *r = ctx;
    const struct live_site *site = of;
    bool has_rates = r->picture->span_s > 0;
    SHEET(s, BYTES, "live_bytes", "Live", .number = figure_whole(site->live_bytes));
    SHEET(s, REAL, "live_objects", NULL, .real = site->live_objects, .decimals = 1);
    SHEET(s, BYTES_SIGNED, "growth_per_minute", r->totals ? NULL : "Growth/min",
          .number = figure_whole(site->growth * 60), .unknown = !has_rates);
    SHEET(s, BYTES, "allocated_per_second", r->totals ? NULL : "Alloc/s",
          .number = figure_whole(fmax(site->allocated, 0)), .unknown = !has_rates);
    SHEET(s, BYTES, "allocated_bytes", r->totals ? "Allocated" : NULL,
          .number = figure_whole(site->allocated_bytes));
    SHEET(s, TEXT, "trend", "Trend", .text = site->trend, .optional = 2);
    SHEET(s, TEXT, "name", "Site", .text = site->function, .most = NAME_MOST);
    SHEET(s, TEXT, "caller", "Called by", .text = site->caller, .most = NAME_MOST, .optional = -3);
    SHEET(s, TEXT, "file", NULL, .text = site->file);
    SHEET(s, COUNT, "line", NULL, .count = site->line, .unknown = !site->file);
    SHEET(s, FLAG, "mmap", NULL, .number = site->mmap);
}

static void poll_columns(struct sheet *s, const void *ctx, const void *of)
{
    (void)ctx;
    const struct live_poll *p = of;
    SHEET(s, TIME, "duration_ns", "Longest", .number = p->duration_ns);
    SHEET(s, TIME, "start_ns", "At", .count = p->at_ns);
    SHEET(s, SHARE, "on_cpu", "On CPU", .real = p->on_cpu, .unknown = p->on_cpu < 0);
    SHEET(s, FLAG, "open", NULL, .number = p->open);
    SHEET(s, TEXT, NULL, "State", .text = p->open ? "open" : "ended", .optional = 1);
    SHEET(s, TEXT, "thread", "Thread", .text = p->thread, .most = NAME_MOST, .optional = -3);
    SHEET(s, TEXT, "task", "Task", .text = p->name, .most = NAME_MOST);
}

static void group_columns(struct sheet *s, const void *ctx, const void *of)
{
    (void)ctx;
    const struct live_group *g = of;
    SHEET(s, COUNT, "polls", "Polls", .count = g->polls);
    SHEET(s, TIME, "p50_ns", "p50", .number = g->p50_ns);
    SHEET(s, TIME, "p99_ns", "p99", .number = g->p99_ns);
    SHEET(s, TIME, "max_ns", "Max", .count = g->max_ns);
    SHEET(s, TIME, "total_ns", "Total", .count = g->total_ns, .optional = 1);
    SHEET(s, SHARE, "on_cpu", "On CPU", .real = g->on_cpu, .unknown = g->on_cpu < 0);
    SHEET(s, COUNT, "long", "Long", .count = g->long_polls, .optional = 2);
    SHEET(s, TEXT, "name", "Task", .text = g->name, .most = NAME_MOST);
}

static void thread_columns(struct sheet *s, const void *ctx, const void *of)
{
    const struct live_thread *t = of;
    add_times(s, ctx, &t->now, &t->all);
    SHEET(s, COUNT, "tid", "Tid", .count = t->tid);
    SHEET(s, COUNT, "pid", "Process", .count = t->pid, .optional = 1);
    SHEET(s, TEXT, "name", "Thread", .text = *t->name ? t->name : NULL, .most = NAME_MOST);
}

/* ---- orders ---- */

typedef double order_value(const void *row);
#define VALUE(name, type, expression)                                                              \
    static double name(const void *of)                                                             \
    {                                                                                              \
        const struct type *row = of;                                                               \
        return (double)(expression);                                                               \
    }
VALUE(function_cpu, live_function, row->now.cpu_ns)
VALUE(function_off, live_function, row->now.off_ns)
VALUE(function_total, live_function, row->total_now_ns)
VALUE(function_all_cpu, live_function, row->all.cpu_ns)
VALUE(function_all_off, live_function, row->all.off_ns)
VALUE(function_all_total, live_function, row->total_ns)
VALUE(site_live, live_site, row->live_bytes)
VALUE(site_growth, live_site, row->growth)
VALUE(site_rate, live_site, row->allocated)
VALUE(site_allocated, live_site, row->allocated_bytes)
VALUE(poll_duration, live_poll, row->duration_ns)
VALUE(poll_time, live_poll, row->at_ns)
VALUE(group_total, live_group, row->total_ns)
VALUE(group_max, live_group, row->max_ns)
VALUE(group_polls, live_group, row->polls)
VALUE(thread_cpu, live_thread, row->now.cpu_ns)
VALUE(thread_off, live_thread, row->now.off_ns)
VALUE(thread_all_cpu, live_thread, row->all.cpu_ns)
VALUE(thread_all_off, live_thread, row->all.off_ns)

enum { ORDERS = 4 };

/* By tab, and whether totals are shown. */
static const struct list {
    const char *names;
    order_value *values[ORDERS];
    sheet_columns *columns;
    size_t size; /* of a row */
} lists[TABS][2] = {
    {{"cpu off total",
      {function_cpu, function_off, function_total},
      function_columns,
      sizeof(struct live_function)},
     {"cpu off total",
      {function_all_cpu, function_all_off, function_all_total},
      function_columns,
      sizeof(struct live_function)}},
    {{"live growth allocated",
      {site_live, site_growth, site_rate},
      site_columns,
      sizeof(struct live_site)},
     {"live allocated", {site_live, site_allocated}, site_columns, sizeof(struct live_site)}},
    {{"longest time", {poll_duration, poll_time}, poll_columns, sizeof(struct live_poll)},
     {"total max polls",
      {group_total, group_max, group_polls},
      group_columns,
      sizeof(struct live_group)}},
    {{"cpu off", {thread_cpu, thread_off}, thread_columns, sizeof(struct live_thread)},
     {"cpu off", {thread_all_cpu, thread_all_off}, thread_columns, sizeof(struct live_thread)}},
};

const char *tab_orders(enum tab tab, bool totals)
{
    return lists[tab][totals].names;
}

sheet_columns *tab_columns(const struct tab_rows *r)
{
    return lists[r->tab][r->totals].columns;
}

/* ---- rows ---- */

static const void *rows_of(const struct tab_rows *r, size_t *count)
{
    const struct live_picture *p = r->picture;
    switch (r->tab) {
    case TAB_FUNCTIONS:
        *count = p->function_count;
        return p->functions;
    case TAB_HEAP:
        *count = p->site_count;
        return p->sites;
    case TAB_POLLS:
        *count = r->totals ? p->group_count : p->longest_count;
        return r->totals ? (const void *)p->groups : p->longest;
    default:
        *count = p->thread_count;
        return p->threads;
    }
}

static const void *row_at(const struct tab_rows *r, uint32_t at)
{
    size_t count;
    return (const char *)rows_of(r, &count) + at * lists[r->tab][r->totals].size;
}

const void *tab_row(const struct tab_rows *r, size_t at)
{
    return row_at(r, r->order[at]);
}

static bool has(const char *text, const char *filter)
{
    return text && strcasestr(text, filter);
}

static bool matches(const struct tab_rows *r, const void *row, const char *filter)
{
    const struct live_function *f = row;
    const struct live_site *s = row;
    const struct live_poll *p = row;
    const struct live_group *g = row;
    const struct live_thread *t = row;
    if (!*filter)
        return true;
    switch (r->tab) {
    case TAB_FUNCTIONS:
        return has(f->function, filter) || has(f->module, filter);
    case TAB_HEAP:
        return has(s->function, filter) || has(s->caller, filter);
    case TAB_POLLS:
        return r->totals ? has(g->name, filter) : has(p->name, filter) || has(p->thread, filter);
    default:
        return has(t->name, filter);
    }
}

int tab_choose(struct tab_rows *r, const char *filter, size_t by)
{
    size_t all, count = 0;
    (void)rows_of(r, &all);
    struct order_ranked *list = calloc(all + 1, sizeof(*list));
    r->order = calloc(all + 1, sizeof(*r->order));
    r->count = 0;
    if (!list || !r->order) {
        free(list);
        return -ENOMEM;
    }
    order_value *value = lists[r->tab][r->totals].values[by < ORDERS ? by : 0];
    for (uint32_t i = 0; i < all; i++)
        if (matches(r, row_at(r, i), filter))
            list[count++] = (struct order_ranked){value ? value(row_at(r, i)) : 0, i};
    qsort(list, count, sizeof(*list), order_ranked);
    for (size_t i = 0; i < count; i++)
        r->order[i] = list[i].index;
    r->count = count;
    free(list);
    return 0;
}

void tab_release(struct tab_rows *r)
{
    free(r->order);
    r->order = NULL;
    r->count = 0;
}

struct live_choice tab_choice(const struct tab_rows *r, size_t at)
{
    const void *row = tab_row(r, at);
    const struct live_function *f = row;
    const struct live_site *s = row;
    const struct live_thread *t = row;
    if (r->tab == TAB_FUNCTIONS)
        return (struct live_choice){.kind = LIVE_FUNCTION, .name = f->function, .other = f->module};
    if (r->tab == TAB_HEAP)
        return (struct live_choice){
            .kind = LIVE_SITE, .name = s->function, .other = s->caller, .line = s->line};
    if (r->tab == TAB_THREADS)
        return (struct live_choice){.kind = LIVE_THREAD, .name = t->name, .tid = t->tid};
    return (struct live_choice){.kind = LIVE_NO_ROW};
}
