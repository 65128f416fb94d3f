/* Lines instead of a screen: one block for each reading. For pipes, files and dumb terminals. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "tool/profile/profile.h"
#include "tool/top/columns.h"
#include "tool/top/head.h"
#include "tool/top/top.h"
#include "tool/util/say.h"

enum { BLOCK_ROWS = 5, START_MS = 20 };

struct stream {
    const struct top *top;
    struct live *live;
    struct recorder *recorder;
    struct head_process process;
    int signals;
    bool is_over, was_shown;
};

/* ---- a block ---- */

static int put_table(FILE *out, const struct live_picture *p, enum tab tab)
{
    struct tab_rows r = {.picture = p, .tab = tab, .totals = p->span_s <= 0 && tab != TAB_POLLS};
    struct table t = {.cells = NULL};
    int err = tab_choose(&r, "", 0);
    for (size_t i = 0; i < r.count && i < BLOCK_ROWS && err == 0; i++)
        sheet_table(&t, tab_columns(&r), &r, tab_row(&r, i));
    if (err == 0 && r.count > 0) {
        fputc('\n', out);
        err = table_print(&t, out, table_terminal(out), say_colour(out));
    }
    table_release(&t);
    tab_release(&r);
    return err;
}

static int put_block(const struct stream *s, const struct live_picture *p)
{
    struct buf first = {0}, second = {0};
    head_put(&first, &second, p, &s->process);
    int err = first.failed || second.failed ? -ENOMEM : 0;
    if (err == 0)
        printf("%s%s\n%s\n", s->was_shown ? "\n" : "", first.data, second.data);
    for (size_t i = 0; i < p->flag_count; i++)
        printf("! %s\n", p->flags[i]);
    for (int tab = 0; tab < TABS && err == 0; tab++)
        err = put_table(stdout, p, (enum tab)tab);
    buf_free(&first);
    buf_free(&second);
    return err;
}

static void put_list(struct json_writer *w, const struct live_picture *p, const char *key,
                     enum tab tab, bool totals, bool is_known)
{
    struct tab_rows r = {.picture = p, .tab = tab, .totals = totals};
    if (!is_known) {
        json_add_null(w, key);
        return;
    }
    json_keep_error(w, tab_choose(&r, "", 0));
    json_add_array(w, key);
    for (size_t i = 0; i < r.count; i++) {
        json_add_object(w, NULL);
        sheet_put(w, tab_columns(&r), &r, tab_row(&r, i));
        json_close(w);
    }
    json_close(w);
    tab_release(&r);
}

/* One object on one line. */
static int put_json(const struct stream *s, const struct live_picture *p)
{
    struct json_writer w = {.out = stdout};
    json_add_object(&w, NULL);
    head_put_json(&w, p, &s->process);
    put_list(&w, p, "functions", TAB_FUNCTIONS, true, p->instruments & PROFILE_CPU);
    put_list(&w, p, "places", TAB_HEAP, true, p->instruments & PROFILE_HEAP);
    put_list(&w, p, "longest", TAB_POLLS, false, p->has_polls);
    put_list(&w, p, "tasks", TAB_POLLS, true, p->has_polls);
    put_list(&w, p, "threads", TAB_THREADS, true, true);
    if (p->has_polls)
        json_add_array(&w, "flags");
    else
        json_add_null(&w, "flags");
    for (size_t i = 0; p->has_polls && i < p->flag_count; i++)
        json_add_text(&w, NULL, p->flags[i]);
    if (p->has_polls)
        json_close(&w);
    return json_finish(&w);
}

/* ---- the loop ---- */

static int show(struct stream *s, const struct live_picture *p)
{
    head_look(&s->process, p);
    int err = s->top->json ? put_json(s, p) : put_block(s, p);
    s->was_shown = true;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        s->is_over = true; /* the reader has gone, as `head` does */
        return errno == EPIPE ? 0 : -EIO;
    }
    return err;
}

/* One reading. The last one waits for the recorder, which stores names and the exit status. */
static int step(struct stream *s)
{
    struct live_picture p;
    struct run_error error;
    recorder_look(s->recorder);
    bool recorder_is_over = s->recorder->pid == 0 || s->recorder->is_over;
    int err = live_read(s->live, &p, &error);
    if (err == -EAGAIN && !recorder_is_over)
        return 0;
    if (err) {
        s->is_over = true;
        return say_error(error.hint[0] ? error.hint : NULL, "%s", error.text);
    }
    bool has_ended = p.end != RECORDING_RUNNING;
    if (!has_ended || recorder_is_over)
        err = show(s, &p);
    s->is_over |= has_ended && recorder_is_over;
    live_picture_release(&p);
    return err ? say_error(NULL, "cannot write: %s", strerror(-err)) : EXIT_DONE;
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Waits for the next reading. A signal ends the recording that we started, and otherwise us; SIGINT
 * from the terminal reaches the program itself. */
static void wait_for_next(struct stream *s, double until_s)
{
    struct signalfd_siginfo info;
    struct pollfd fds[2] = {{.fd = s->signals, .events = POLLIN},
                            {.fd = STDOUT_FILENO, .events = 0}};
    while (!s->is_over) {
        double left = until_s - now_s();
        if (left <= 0 || (poll(fds, 2, (int)(left * 1000) + 1) == 0))
            return;
        if (fds[1].revents & (POLLERR | POLLNVAL))
            s->is_over = true;
        if (read(s->signals, &info, sizeof(info)) != (ssize_t)sizeof(info))
            continue;
        if (info.ssi_signo == SIGCHLD)
            return; /* the recorder has ended: there is no more to wait for */
        if (s->recorder->pid == 0 || s->recorder->is_over)
            s->is_over = true;
        else if (info.ssi_code != SI_KERNEL)
            recorder_end(s->recorder);
    }
}

int stream_run(const struct top *t, struct live *l, struct recorder *r)
{
    struct stream s = {.top = t, .live = l, .recorder = r};
    sigset_t set;
    double end = t->path && t->record.duration_s > 0 ? now_s() + t->record.duration_s : 0;
    int status = EXIT_DONE;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    s.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    while (!s.is_over && status == EXIT_DONE) {
        double began = now_s(),
               wait = s.was_shown ? live_patience(l, t->interval_s) : START_MS / 1e3;
        status = step(&s);
        wait = s.was_shown ? live_patience(l, t->interval_s) : wait;
        if (end > 0 && began + wait > end) {
            s.is_over |= now_s() >= end;
            wait = end - began;
        }
        if (status == EXIT_DONE)
            wait_for_next(&s, began + wait);
    }
    if (s.signals >= 0)
        close(s.signals);
    return status;
}
