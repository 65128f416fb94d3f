/* What is left to do when the program has ended. The recording is complete without us: only how the program ended
 * is not in it, which nobody but its parent knows. Then the files get their names, and the user a line on each:
 * estimates as they stand in the header, and whatever could not be recorded, by its cause. */
#include "tool/record/finish.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tool/record/names.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum { MAX_SHOWN = 20 };

static void write_status(const char *path, int status)
{
    uint64_t value = 1 + (uint64_t)(unsigned)status;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    if (pwrite(fd, &value, sizeof value, offsetof(struct piano__rec_header, exit_status)) < 0)
        say("the exit status could not be written into the recording");
    close(fd);
}

/* PATH from the working directory, where it lies below it, fit to be shown. */
static const char *short_path(char *text, size_t size, const char *path)
{
    char cwd[PATH_MAX];
    size_t len = getcwd(cwd, sizeof cwd) ? strlen(cwd) : 0;
    bool below = len > 1 && strncmp(path, cwd, len) == 0 && path[len] == '/';
    return say_safe(text, size, below ? path + len + 1 : path);
}

static const char *estimate(char *text, double bytes)
{
    return units_bytes(text, isfinite(bytes) && bytes > 0 && bytes < 1e18 ? (int64_t)bytes : 0);
}

static void put_figures(struct buf *b, const struct piano__rec_header *h)
{
    char live[UNITS_LEN];
    char peak[UNITS_LEN];
    const struct piano__heap_stats *s = &h->stats;
    uint64_t lost = s->dropped_live + s->dropped_stacks;
    buf_printf(b, "%" PRIu64 " sample%s, %s live at the end, %s at the peak", s->samples,
               s->samples == 1 ? "" : "s", estimate(live, h->live_bytes),
               estimate(peak, h->peak_bytes));
    if (lost > 0)
        buf_printf(b, "; %" PRIu64 " not kept: tables full", lost);
    if (s->dropped_memory > 0)
        buf_printf(b, "; %" PRIu64 " not kept: no memory, or the disk is full", s->dropped_memory);
    if (s->dropped_busy > 0)
        buf_printf(b, "; %" PRIu64 " missed in signal handlers", s->dropped_busy);
}

/* The last part of the path of the program, which is 1024 bytes of anything. */
static const char *program_name(char *text, size_t size, const struct piano__rec_header *h)
{
    char path[PIANO_REC_PATH + 1] = "";
    memcpy(path, h->program, sizeof h->program);
    const char *slash = strrchr(path, '/');
    return say_safe(text, size, slash ? slash + 1 : path);
}

static void say_one(const struct recording *one, bool is_asked)
{
    struct piano__rec_header h;
    char path[PATH_MAX];
    char name[NAME_MAX];
    struct buf b = {0};
    if (recordings_header(one->path, &h) != 0)
        return;
    buf_printf(&b, "%s: %s (", is_asked ? "recording" : "also",
               short_path(path, sizeof path, one->path));
    if (!is_asked)
        buf_printf(&b, "%s, process %d: ", program_name(name, sizeof name, &h), (int)one->pid);
    put_figures(&b, &h);
    if (!b.failed)
        say("%s)", b.data);
    buf_free(&b);
}

/* The recording the user asked for, or NULL. */
static const struct recording *asked_for(const struct recordings *r)
{
    const struct recording *found = NULL;
    for (size_t i = 0; i < r->count && r->list[i].pid == r->program; i++)
        found = &r->list[i];
    return found;
}

static void say_nothing_recorded(const struct record *r, const struct recordings *recordings)
{
    char safe[PATH_MAX];
    char path[PATH_MAX];
    struct stat st;
    say_safe(safe, sizeof safe, r->words[0]);
    short_path(path, sizeof path, recordings->path);
    if (lstat(recordings->path, &st) == 0)
        say_error(NULL, "%s ended before its recording %s was begun", safe, path);
    else
        say_error("piano doctor; a program that clears its environment must not be in between",
                  "%s left no recording: libpiano.so was not loaded into it, or could not write "
                  "%s",
                  safe, path);
}

/* A program that ended by itself, but not through exit: `env -i PROGRAM` is env until it is a program without us. */
static bool may_have_changed(const struct piano__rec_header *h, int status)
{
    return h->state == PIANO_REC_ACTIVE && WIFEXITED(status);
}

static void say_nothing_sampled(const struct record *r, const struct piano__rec_header *h,
                                int status)
{
    char name[NAME_MAX];
    char rate[UNITS_LEN];
    if (may_have_changed(h, status))
        say("nothing was sampled: if %s became another program, that one cannot be recorded "
            "(statically linked, or started without LD_PRELOAD)",
            program_name(name, sizeof name, h));
    else
        say("nothing was sampled: the program allocated little beside the rate of %s; try "
            "--heap=1K%s",
            units_bytes(rate, (int64_t)r->heap_rate),
            r->children ? "" : ", or --children if others do its work");
}

/* OTHERS: how many more there are to look at. */
static void say_next(const struct record *r, const struct recording *main_one, int status,
                     size_t others)
{
    struct piano__rec_header h;
    char path[PATH_MAX];
    if (recordings_header(main_one->path, &h) != 0)
        return;
    if (h.stats.samples == 0 && others > 0)
        say("next: piano report FILE, for one that was sampled");
    else if (h.stats.samples == 0)
        say_nothing_sampled(r, &h, status);
    else if (r->output)
        say("next: piano report %s", short_path(path, sizeof path, main_one->path));
    else
        say("next: piano report");
}

void finish(const struct record *r, struct recordings *recordings, int status)
{
    recordings_find(recordings);
    names_settle(recordings);
    const struct recording *main_one = asked_for(recordings);
    if (!main_one) {
        say_nothing_recorded(r, recordings);
    } else {
        write_status(main_one->path, status);
        say_one(main_one, true);
    }
    size_t shown = 0;
    for (size_t i = 0; i < recordings->count; i++) {
        if (&recordings->list[i] == main_one)
            continue;
        if (shown++ < MAX_SHOWN)
            say_one(&recordings->list[i], false);
    }
    if (shown > MAX_SHOWN)
        say("and %zu more beside it", shown - MAX_SHOWN);
    if (recordings->refused > 0)
        say("%" PRIu64 " snapshot%s not taken: no room left for them in the recording",
            recordings->refused, recordings->refused == 1 ? " was" : "s were");
    if (main_one)
        say_next(r, main_one, status, shown);
}
