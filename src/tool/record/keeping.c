/* Names of functions for all recordings of one `piano record`, by one symbolizer: processes of one program have the same files.
 *
 * A program may have debug information that takes a while to read. Until now the signals that end us were waited for, so that they went
 * to the program; it has ended, and they are ours. The first makes an end of this and of nothing else; the second is as if
 * we did not care, for whoever hangs in a file cannot look whether he is told to stop. The recordings are complete at any time. */
#include "tool/record/keeping.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "tool/report/keep.h"
#include "tool/symbol/symbol.h"
#include "tool/util/say.h"

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

enum { ENDINGS = sizeof ending / sizeof ending[0] };

static volatile sig_atomic_t is_told;

/* Once: whichever of them comes next ends us. */
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
    while (sigtimedwait(&set, NULL, &at_once) > 0) /* meant for the program */
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

/* A process that still runs may still write: another time, or never. */
static bool is_over(const struct recording *r)
{
    return r->over || (kill(r->pid, 0) != 0 && errno == ESRCH);
}

static void say_without(int err, bool is_one, size_t without)
{
    if (err == -EINTR)
        say("interrupted: the names of functions are not in the recording%s, and lost when the "
            "program is built again",
            is_one ? "" : "s");
    else if (err == -ENOSPC)
        say("no room for all names of functions in %s: they are lost when the program is built "
            "again",
            is_one ? "the recording" : "some of the recordings");
    else if (err != 0)
        say("the names of functions are not in %s: %s; they are lost when the program is built "
            "again",
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
    symbols_offline(symbols); /* nobody waits for a server here */
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
