/* The full screen: tabs, rows, keys. It never waits for a reading, which a thread does. */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tool/top/columns.h"
#include "tool/top/head.h"
#include "tool/top/captured.h"
#include "tool/top/reader.h"
#include "tool/top/screen.h"
#include "tool/top/top.h"
#include "tool/util/say.h"
#include "tool/util/term.h"
#include "tool/util/units.h"

enum { HEAD_LINES = 4, RETRY_MS = 50 };

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- readings ---- */

static void ask(struct screen *s, bool picture)
{
    static const struct live_choice none = {.kind = LIVE_NO_ROW};
    const struct live_choice *choice = s->is_detail ? &s->choice : &none;
    if (reader_ask(s->reader, picture, choice)) {
        s->wants_detail = false;
        s->next_s = INFINITY; /* until the answer */
    }
}

static void take_answer(struct screen *s)
{
    struct reader_answer a;
    if (!reader_answer(s->reader, &a))
        return;
    if (a.err && a.err != -EAGAIN) {
        s->status = EXIT_FAILED;
        s->error = a.error;
        s->is_over = true;
    }
    if (a.picture) {
        if (s->picture) {
            live_picture_release(s->picture);
            free(s->picture);
        }
        s->picture = a.picture;
        head_look(&s->process, s->picture);
    }
    free(s->detail);
    s->detail = a.detail;
    s->next_s = now_s() + (s->picture ? a.patience_s : RETRY_MS / 1e3);
    bool recorder_is_over = s->recorder->pid == 0 || s->recorder->is_over;
    s->is_last = s->picture && s->picture->end != RECORDING_RUNNING && recorder_is_over;
    if (a.err == -EAGAIN && recorder_is_over)
        s->is_over = true; /* nothing was recorded; the recorder said why */
}

/* ---- signals and the loop ---- */

static void take_signal(struct screen *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH || info.ssi_signo == SIGCONT)
            term_resize(&s->rows, &s->columns);
        else if (info.ssi_signo == SIGCHLD)
            recorder_look(s->recorder);
        else
            s->is_over = true;
    }
    if (s->recorder->is_over && !s->is_last)
        s->next_s = fmin(s->next_s, now_s()); /* names and the exit status are there */
}

static int patience_ms(const struct screen *s)
{
    double until = fmin(s->next_s, s->end_s), left = until - now_s();
    if (s->is_last || (s->is_paused && s->picture))
        left = s->end_s - now_s();
    return left > 3600 ? 3600000 : left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void step(struct screen *s)
{
    struct pollfd fds[] = {{.fd = s->keys, .events = POLLIN},
                           {.fd = s->signals, .events = POLLIN},
                           {.fd = s->answers, .events = POLLIN},
                           {.fd = s->captured.fd, .events = POLLIN}};
    screen_draw(s);
    if (poll(fds, sizeof(fds) / sizeof(*fds), patience_ms(s)) < 0 && errno != EINTR)
        s->is_over = true;
    if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        s->is_over = true;
    if (fds[1].revents)
        take_signal(s);
    if (fds[3].revents)
        captured_read(&s->captured);
    if (fds[2].revents)
        take_answer(s);
    for (int key; !s->is_over && (key = term_key()) != TERM_NONE;)
        screen_key(s, key);
    double now = now_s();
    if (now >= s->end_s)
        s->is_over = true;
    if (s->wants_detail)
        ask(s, false);
    else if (now >= s->next_s && !s->is_last && !(s->is_paused && s->picture))
        ask(s, true);
}

static int open_signals(void)
{
    static const int list[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD, SIGWINCH, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(list) / sizeof(*list); i++)
        sigaddset(&set, list[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Notices would be written over the screen. Reports print them. */
static bool swallow(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
    return false;
}

static void release(struct screen *s)
{
    if (s->reader)
        reader_stop(s->reader);
    if (s->picture)
        live_picture_release(s->picture);
    free(s->picture);
    free(s->detail);
    screen_forget_choice(s);
    if (s->signals >= 0)
        close(s->signals);
}

int screen_run(const struct top *t, struct live *l, struct recorder *r)
{
    struct screen s = {.top = t,
                       .recorder = r,
                       .end_s = INFINITY,
                       .keys = STDIN_FILENO,
                       .captured = {.fd = r->output}};
    if (t->path && t->record.duration_s > 0)
        s.end_s = now_s() + t->record.duration_s;
    signal(SIGPIPE, SIG_IGN);
    say_listen(swallow, NULL);
    say_progress_never(true);
    s.signals = open_signals();
    s.reader = reader_start(l, t->interval_s, &s.answers);
    int err = s.reader && s.signals >= 0 ? term_open(s.keys) : -ENOMEM;
    if (err == 0)
        term_resize(&s.rows, &s.columns);
    while (err == 0 && !s.is_over)
        step(&s);
    term_close();
    say_listen(NULL, NULL);
    say_progress_never(false);
    if (err)
        s.status = say_error("piano top ... | cat", "cannot use this terminal: %s", strerror(-err));
    else if (s.status != EXIT_DONE)
        say_error(s.error.hint[0] ? s.error.hint : NULL, "%s", s.error.text);
    captured_say_last(&s.captured);
    release(&s);
    return s.status;
}
