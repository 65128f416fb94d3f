/* Writes the names of functions into all recordings of one `piano record`, with one symbolizer,
 * because processes of one program use the same files.
 *
 * Reading debug information can take a while. So far the signals that would end us were blocked and
 * passed to the program. The program has ended, so now they are meant for us. The first signal
 * stops only this step. The second has its default action, because code that blocks while reading a
 * file cannot check for the first. The recordings are complete at any time. */
#include "tool/record/keeping.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "tool/record/keep.h"
#include "tool/symbol/symbol.h"
#include "tool/util/say.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDINGS = sizeof ending / sizeof ending[0] };

static volatile sig_atomic_t is_told;

/* Called once: the next signal has its default action. */
static void hear(int number)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    (void)number;
    is_told = 1;
    for (size_t i = 0; i < ENDINGS; i++) {
        struct sigaction now;
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler == hear)
            sigaction(ending[i], &plain, NULL);
    }
}

static bool is_told_to_end(void)
{
    return is_told != 0;
}

struct attention {
    struct sigaction before[ENDINGS];
    sigset_t mask;
};

static void pay_attention(struct attention *a)
{
    const struct timespec at_once = {0};
    const struct sigaction once = {.sa_handler = hear};
    sigset_t set;
    is_told = 0;
    sigemptyset(&set);
    for (size_t i = 0; i < ENDINGS; i++) {
        sigaction(ending[i], NULL, &a->before[i]);
        if (a->before[i].sa_handler != SIG_IGN)
            sigaddset(&set, ending[i]);
    }
    while (sigtimedwait(&set, NULL, &at_once) > 0) /* these were meant for the program */
        continue;
    for (size_t i = 0; i < ENDINGS; i++) {
        if (sigismember(&set, ending[i]))
            sigaction(ending[i], &once, NULL);
    }
    sigprocmask(SIG_UNBLOCK, &set, &a->mask);
}

static void end_attention(const struct attention *a)
{
    sigprocmask(SIG_SETMASK, &a->mask, NULL);
    for (size_t i = 0; i < ENDINGS; i++)
        sigaction(ending[i], &a->before[i], NULL);
}

static void show_progress(void *ctx, const char *what)
{
    (void)ctx;
    say_progress("%s", what);
}

/* A process that still runs may still write to its recording: skip it. */
static bool is_over(const struct recording *r)
{
    return r->over || (kill(r->pid, 0) != 0 && errno == ESRCH);
}

static void say_without(int err, bool is_one, size_t without)
{
    if (err == -EINTR)
        say("interrupted: function names are not stored in the recording%s; they are lost if the "
            "program is rebuilt",
            is_one ? "" : "s");
    else if (err == -ENOSPC)
        say("no room for all function names in %s: they are lost if the program is rebuilt",
            is_one ? "the recording" : "some of the recordings");
    else if (err != 0)
        say("function names are not stored in %s: %s; they are lost if the program is rebuilt",
            is_one         ? "the recording"
            : without == 1 ? "a recording"
                           : "some of the recordings",
            strerror(-err));
}

void keeping_names(const struct recording *list, size_t count)
{
    struct attention attention;
    struct symbols *symbols = symbols_new();
    int err = 0, first = 0;
    size_t without = 0;
    if (!symbols)
        return;
    symbols_offline(symbols); /* do not wait for a server here */
    symbols_progress(symbols, show_progress, NULL);
    pay_attention(&attention);
    for (size_t i = 0; i < count && err != -ENOMEM && err != -EINTR; i++) {
        err = is_over(&list[i]) ? keep_names(list[i].path, symbols, is_told_to_end) : 0;
        without += err != 0;
        first = first && err != -EINTR ? first : err;
    }
    end_attention(&attention);
    symbols_free(symbols);
    say_without(first, count == 1, without);
}
