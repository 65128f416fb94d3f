/* Handles one request at a time. The thread owns the reading; the screen owns the answers. */
#include "tool/top/reader.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct reader {
    struct live *live;
    double interval_s;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int fd;
    /* Under the lock. */
    bool is_asked, is_over, wants_picture, has_answer;
    struct live_choice choice; /* its texts are ours */
    struct reader_answer answer;
};

static void forget_choice(struct reader *r)
{
    free((char *)(uintptr_t)r->choice.name);
    free((char *)(uintptr_t)r->choice.other);
    r->choice = (struct live_choice){.kind = LIVE_NO_ROW};
}

static struct reader_answer make_answer(struct reader *r, bool picture)
{
    struct reader_answer a = {.picture = picture ? calloc(1, sizeof(*a.picture)) : NULL};
    if (picture)
        a.err = a.picture ? live_read(r->live, a.picture, &a.error) : -ENOMEM;
    if (a.err) {
        free(a.picture);
        a.picture = NULL;
    } else {
        a.detail = live_detail(r->live, &r->choice);
    }
    a.patience_s = live_patience(r->live, r->interval_s);
    return a;
}

static void *work(void *reader)
{
    struct reader *r = reader;
    const uint64_t one = 1;
    pthread_mutex_lock(&r->lock);
    while (!r->is_over) {
        if (!r->is_asked) {
            pthread_cond_wait(&r->changed, &r->lock);
            continue;
        }
        bool picture = r->wants_picture;
        pthread_mutex_unlock(&r->lock);
        struct reader_answer a = make_answer(r, picture);
        pthread_mutex_lock(&r->lock);
        r->answer = a;
        r->has_answer = true;
        r->is_asked = false;
        if (write(r->fd, &one, sizeof(one)) < 0) /* cannot be full */
            r->is_over = true;
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct reader *reader_start(struct live *l, double interval_s, int *fd)
{
    struct reader *r = calloc(1, sizeof(*r));
    sigset_t all, old;
    if (!r)
        return NULL;
    r->live = l;
    r->interval_s = interval_s;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    r->fd = *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = r->fd >= 0 ? pthread_create(&r->thread, NULL, work, r) : EMFILE;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (err == 0)
        return r;
    if (r->fd >= 0)
        close(r->fd);
    free(r);
    return NULL;
}

static void release_answer(struct reader_answer *a)
{
    if (a->picture)
        live_picture_release(a->picture);
    free(a->picture);
    free(a->detail);
}

void reader_stop(struct reader *r)
{
    pthread_mutex_lock(&r->lock);
    r->is_over = true;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    if (r->has_answer)
        release_answer(&r->answer);
    forget_choice(r);
    pthread_cond_destroy(&r->changed);
    pthread_mutex_destroy(&r->lock);
    close(r->fd);
    free(r);
}

bool reader_ask(struct reader *r, bool picture, const struct live_choice *choice)
{
    pthread_mutex_lock(&r->lock);
    bool is_free = !r->is_asked && !r->has_answer;
    if (is_free) {
        forget_choice(r);
        r->choice = *choice;
        r->choice.name = choice->name ? strdup(choice->name) : NULL;
        r->choice.other = choice->other ? strdup(choice->other) : NULL;
        if (!r->choice.name)
            r->choice.kind = LIVE_NO_ROW;
        r->wants_picture = picture;
        r->is_asked = true;
        pthread_cond_signal(&r->changed);
    }
    pthread_mutex_unlock(&r->lock);
    return is_free;
}

bool reader_answer(struct reader *r, struct reader_answer *to)
{
    uint64_t count;
    pthread_mutex_lock(&r->lock);
    bool has = r->has_answer;
    if (has && read(r->fd, &count, sizeof(count)) < 0)
        count = 0; /* it was read before */
    if (has)
        *to = r->answer;
    r->has_answer = false;
    pthread_mutex_unlock(&r->lock);
    return has;
}
