/* Reads a recording again and again, and decides how often.
 *
 * The names found so far are kept from reading to reading. Looking up a new one can take long, but
 * happens once. So the cost of a reading is taken as the smaller one of the last two. */
#include "tool/profile/live.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool/profile/cpu.h"
#include "tool/profile/polls.h"
#include "tool/util/say.h"

/* Of a CPU: one over this for new samples and the heap, and the same for polls. Together less than
 * one hundredth, because the next reading of a recording that grows costs more than the last. */
static const double share = 250;
static const double most_after_first_s = 2; /* its cost contains that of names */

struct cost {
    double last_s, before_s; /* CPU time of the last two readings */
    unsigned readings;
    uint64_t at_ns; /* CLOCK_MONOTONIC */
};

struct live {
    char *base, *path; /* the first file; the one that is read */
    struct symbols *symbols;
    struct recording_seen seen;
    struct profile profile; /* the last reading; open if `is_open` */
    struct cpu cpu;
    bool is_open, has_cpu;
    uint64_t read_ns; /* the time of the last reading; 0: none */
    double live_bytes;
    struct live_before sites;
    struct live_picture polls; /* only the polls are filled in */
    struct cost cost, polls_cost;
};

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- cost ---- */

/* EXCEPT_S: of something else in that time. */
static void add_cost(struct cost *c, uint64_t since_cpu_ns, double except_s)
{
    c->before_s = c->last_s;
    c->last_s = (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - since_cpu_ns) / 1e9 - except_s;
    c->readings++;
    c->at_ns = now_ns(CLOCK_MONOTONIC);
}

static double seconds_to_wait(const struct cost *c)
{
    double cost = c->readings > 1 && c->before_s < c->last_s ? c->before_s : c->last_s;
    double wait = cost * share;
    return c->readings == 1 && wait > most_after_first_s ? most_after_first_s : wait;
}

double live_patience(const struct live *l, double least_s)
{
    double wait = l->cost.readings ? seconds_to_wait(&l->cost) : 0;
    return wait > least_s ? wait : least_s;
}

static bool are_polls_due(const struct live *l)
{
    const struct cost *c = &l->polls_cost;
    double passed = (double)(now_ns(CLOCK_MONOTONIC) - c->at_ns) / 1e9;
    /* After some readings nearly all names are known, and events only get more. */
    double wait = c->readings > 2 ? c->last_s * share : seconds_to_wait(c);
    return c->readings == 0 || passed >= wait;
}

/* ---- the file ---- */

struct live *live_new(const char *path)
{
    struct live *l = calloc(1, sizeof(*l));
    if (!l)
        return NULL;
    l->base = strdup(path);
    l->path = strdup(path);
    l->symbols = symbols_new();
    if (l->base && l->path && l->symbols)
        return l;
    live_free(l);
    return NULL;
}

static void close_last(struct live *l)
{
    if (l->has_cpu)
        cpu_release(&l->cpu);
    if (l->is_open)
        profile_close(&l->profile);
    l->has_cpu = l->is_open = false;
}

static void forget(struct live *l)
{
    recording_seen_release(&l->seen);
    map_release(&l->sites.of);
    free(l->sites.list);
    l->sites = (struct live_before){.count = 0};
    l->read_ns = 0;
}

void live_free(struct live *l)
{
    close_last(l);
    forget(l);
    live_picture_release(&l->polls);
    if (l->symbols)
        symbols_free(l->symbols);
    free(l->base);
    free(l->path);
    free(l);
}

const char *live_path(const struct live *l)
{
    return l->path;
}

/* A program that replaces itself by exec goes on in another file. */
static int find_newest(struct live *l)
{
    char *path = recording_latest(l->base);
    if (!path)
        return -ENOMEM;
    if (strcmp(path, l->path) == 0) {
        free(path);
        return 0;
    }
    close_last(l);
    forget(l);
    free(l->path);
    l->path = path;
    return 0;
}

/* ---- one reading ---- */

static void put_head(const struct live *l, struct live_picture *to, const struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    to->program = strings_puts(&to->texts, h->program);
    to->pid = h->pid;
    to->end = rec->end;
    to->status = rec->status;
    to->instruments = profile_instruments(rec);
    to->wall_ns = rec->duration_ns;
    to->live_bytes = rec->total.live_bytes;
    to->live_objects = rec->total.live_objects;
    recording_live_interval(rec, &rec->total, &to->live_low, &to->live_high);
    to->growth = to->span_s > 0 ? (to->live_bytes - l->live_bytes) / to->span_s : 0;
    to->lost = h->trace.samples_lost + h->trace.dropped_memory + h->trace.dropped_busy +
               h->stats.dropped_live + h->stats.dropped_stacks + h->stats.dropped_memory +
               h->stats.dropped_busy;
    to->given_up = h->samples_given_up + h->trace.recycled;
    to->has_waits = rec->total.off_samples > 0;
    to->all_cpu_ns = rec->total.cpu_ns;
}

static int put_functions(struct live *l, struct live_picture *to, struct run_error *error)
{
    struct cpu_flat now = {.rows = NULL}, all = {.rows = NULL};
    int err = cpu_make(&l->cpu, &l->profile, error);
    if (err)
        return err;
    l->has_cpu = true;
    bool is_whole = !l->profile.rec.seen;
    err = cpu_flat_all(&all, &l->cpu);
    if (err == 0 && !is_whole)
        err = cpu_flat_make(&now, &l->cpu, 0, 0);
    if (err == 0)
        err = live_functions(to, is_whole ? NULL : &now, &all);
    if (err == 0)
        err = live_threads(to, &l->cpu, is_whole ? NULL : &l->seen);
    to->cpu_ns = now.cpu_ns;
    cpu_flat_release(&now);
    cpu_flat_release(&all);
    return err;
}

/* Reads all events, if that is due or IS_LAST. */
static int put_polls(struct live *l, struct live_picture *to, bool is_last, struct run_error *error)
{
    struct profile p;
    struct polls polls;
    if (!(to->instruments & PROFILE_EVENTS))
        return 0;
    if (is_last || are_polls_due(l)) {
        uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
        int err = profile_peek(&p, l->path, error);
        if (err)
            return err;
        profile_share(&p, l->symbols);
        err = profile_read(&p, error);
        if (err)
            return err;
        err = polls_make(&polls, &p, LIVE_LONGEST, error);
        if (err == 0) {
            live_picture_release(&l->polls);
            l->polls.polls_at_ns = now_ns(CLOCK_MONOTONIC);
            err = live_polls(&l->polls, &polls);
            polls_release(&polls);
        }
        profile_close(&p);
        add_cost(&l->polls_cost, began, 0);
        if (err)
            return err;
    }
    return live_polls_again(to, &l->polls);
}

static int open_profile(struct live *l, struct run_error *error)
{
    close_last(l);
    int err = profile_peek(&l->profile, l->path, error);
    if (err)
        return err;
    bool is_over = l->profile.rec.end != RECORDING_RUNNING;
    l->seen.since_ns = l->read_ns;
    profile_share(&l->profile, l->symbols);
    err = profile_read_new(&l->profile, is_over ? NULL : &l->seen, error);
    l->is_open = err == 0;
    return err;
}

static int fill(struct live *l, struct live_picture *to, struct run_error *error)
{
    const struct recording *rec = &l->profile.rec;
    bool is_last = rec->end != RECORDING_RUNNING;
    put_head(l, to, rec);
    int err = put_functions(l, to, error);
    if (err == 0)
        err = profile_make_sites(&l->profile, NULL, error);
    if (err == 0)
        err = live_sites(to, &l->profile, &l->sites);
    if (err == 0)
        err = put_polls(l, to, is_last, error);
    return err;
}

int live_read(struct live *l, struct live_picture *to, struct run_error *error)
{
    uint64_t began = now_ns(CLOCK_THREAD_CPUTIME_ID);
    unsigned polls_read = l->polls_cost.readings;
    *to = (struct live_picture){.wall_ns = -1};
    *error = (struct run_error){.text = ""};
    int err = find_newest(l);
    if (err == 0 && recording_process(l->path) == 0) /* the program makes the file, then writes */
        return -EAGAIN;
    err = err ? err : open_profile(l, error);
    if (err)
        return err;
    uint64_t at = now_ns(CLOCK_MONOTONIC);
    bool has_rates = l->read_ns > 0 && l->profile.rec.seen;
    to->at_ns = at;
    to->span_s = has_rates && at > l->read_ns ? (double)(at - l->read_ns) / 1e9 : 0;
    err = fill(l, to, error);
    if (err && !error->text[0])
        snprintf(error->text, sizeof(error->text), "not enough memory");
    l->read_ns = at;
    l->live_bytes = to->live_bytes;
    bool has_read_polls = l->polls_cost.readings > polls_read;
    add_cost(&l->cost, began, has_read_polls ? l->polls_cost.last_s : 0);
    if (err)
        live_picture_release(to);
    return err;
}

char *live_detail(struct live *l, const struct live_choice *choice)
{
    return l->is_open && l->has_cpu ? live_detail_of(choice, &l->profile, &l->cpu) : NULL;
}

void live_picture_release(struct live_picture *p)
{
    free(p->functions);
    free(p->sites);
    free(p->threads);
    free(p->groups);
    free(p->longest);
    free(p->flags);
    strings_release(&p->texts);
    *p = (struct live_picture){.wall_ns = -1};
}
