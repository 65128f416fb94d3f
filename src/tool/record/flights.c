/* A process that ends between two looks has its last red flags printed then. One that was too short
 * for a look has its red flags in the report. */
#include "tool/record/flights.h"

static struct recording *find(const struct recordings *r, pid_t pid, unsigned image)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->list[i].pid == pid && r->list[i].image == image)
            return &r->list[i];
    }
    return NULL;
}

static bool is_watched(const struct flights *f, const struct recording *one)
{
    for (size_t i = 0; i < f->count; i++) {
        if (f->list[i].pid == one->pid && f->list[i].image == one->image)
            return true;
    }
    return false;
}

static void close_ended(struct flights *f, const struct recordings *r, double now_s)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->count; i++) {
        struct recording *one = find(r, f->list[i].pid, f->list[i].image);
        if (one && recordings_is_at_work(one))
            f->list[kept++] = f->list[i];
        else
            flight_close(f->list[i].flight, now_s);
    }
    f->count = kept;
}

static void open_new(struct flights *f, const struct recordings *r, const struct flight_wish *wish)
{
    for (size_t i = 0; i < r->count && f->count < FLIGHTS_MOST; i++) {
        struct recording *one = &r->list[i];
        if (one->pid == r->program || is_watched(f, one) || !recordings_is_at_work(one))
            continue;
        char why[300];
        struct flight *flight = flight_open(one->path, wish, why, sizeof(why));
        if (flight)
            f->list[f->count++] = (struct flights_one){one->pid, one->image, flight};
    }
}

bool flights_step(struct flights *f, const struct recordings *r, const struct flight_wish *wish,
                  double now_s, struct piano__fired *fired)
{
    close_ended(f, r, now_s);
    open_new(f, r, wish);
    if (f->count == 0)
        return false;
    f->next = (f->next + 1) % f->count;
    return flight_step(f->list[f->next].flight, now_s, fired);
}

void flights_close(struct flights *f, double now_s)
{
    for (size_t i = 0; i < f->count; i++)
        flight_close(f->list[i].flight, now_s);
    *f = (struct flights){.count = 0};
}
