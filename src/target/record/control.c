/* See control.h. `piano record` sets these environment variables:
 *
 *   PIANO_RECORD      the recording to create
 *   PIANO_RECORD_PID  the process to record. It keeps its pid when it executes another program,
 *                     whose recording gets the next free suffix, .2 and so on
 *   PIANO_CHILDREN    1: also record every other process that inherits this, with -PID appended
 *                     to the name
 *   PIANO_FAMILY_MOST how many of these at a time
 *   PIANO_FAMILY_SIZE limit on the bytes of all of these together
 *   PIANO_HEAP        sample allocations, one in so many bytes
 *   PIANO_MAPS        1: also sample anonymous mappings
 *   PIANO_EVENTS      1: record workers, tasks, polls, parks
 *   PIANO_MAX_SIZE    limit on the size of the recording, in bytes
 *   PIANO_EVENTS_MAX  limit on the bytes of events; then new events replace the oldest
 *   PIANO_CPU         samples per second of each thread's CPU time; or `outside`: the tool samples
 *
 * If a program starts a recording itself, the recording is in the runs directory.
 *
 * `state` in the header is that of the heap sampler if it is used, else ACTIVE from the first event
 * or sample to the end. */
#include "target/record/control.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/attach.h"
#include "common/lines.h"
#include "target/python/codes.h"
#include "target/record/family.h"
#include "target/record/gate.h"
#include "target/record/modules.h"
#include "target/record/session.h"
#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/recording.h"
#include "target/sys/runs.h"

enum { MOST_IMAGES = 999 };

uint32_t piano__control_changing;

static bool is_child;   /* forked, without an exec since */
static bool is_refused; /* there are too many recordings of processes already */

/* In an attached process: what replaces the environment, as the tool sent it. Empty otherwise. */
static char settings[PIANO_ATTACH_SETTINGS];

static const char *setting(const char *name)
{
    size_t len = strlen(name);
    if (!*settings)
        return secure_getenv(name);
    for (const char *at = settings; *at; at += strlen(at) + 1)
        if (strncmp(at, name, len) == 0 && at[len] == '=')
            return at + len + 1;
    return NULL;
}

/* Links main/begin.c into static programs that use only events or CPU samples: the linker takes
 * from libpiano.a what is referenced, and a constructor is not. */
static void (*const begin)(void) __attribute__((used)) = piano__control_begin;

uint64_t piano__control_number(const char *name)
{
    const char *text = setting(name);
    uint64_t value = 0;
    for (; text && *text >= '0' && *text <= '9' && value < UINT64_MAX / 16; text++)
        value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

bool piano__control_is_for_us(void)
{
    return *settings || piano__control_number("PIANO_RECORD_PID") == (uint64_t)getpid() ||
           piano__control_number("PIANO_CHILDREN") == 1;
}

static void put_stem(struct piano__text *text, const char *asked)
{
    if (asked) {
        piano__text_puts(text, asked);
        if (piano__control_number("PIANO_RECORD_PID") != (uint64_t)getpid()) {
            piano__text_puts(text, "-");
            piano__text_int(text, getpid());
        }
        return;
    }
    const char *dir = piano__runs_dir();
    if (!dir)
        dir = ".piano/runs";
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    (void)piano__file_make_dirs(dir);
    piano__text_puts(text, dir);
    piano__text_puts(text, "/");
    piano__text_int(text, now.tv_sec * 1000 + now.tv_nsec / 1000000);
    piano__text_puts(text, "-");
    piano__text_int(text, getpid());
    piano__text_puts(text, ".rec");
}

/* Returns the number of the image, from 1, or a negative errno. */
static int create(void)
{
    static char path[PATH_MAX];
    const char *asked = piano__control_is_for_us() ? secure_getenv("PIANO_RECORD") : NULL;
    int err = -EEXIST;
    for (int image = 1; image <= MOST_IMAGES && err == -EEXIST; image++) {
        struct piano__text text = {path, path + sizeof path - 1, false};
        put_stem(&text, asked);
        if (image > 1) {
            piano__text_puts(&text, ".");
            piano__text_int(&text, image);
        }
        *text.at = '\0';
        if (text.full)
            return -ENAMETOOLONG;
        err = piano__recording_create(path);
        if (err == 0)
            return image;
    }
    return err;
}

static void set_flags(uint32_t flags)
{
    /* An atomic OR, because the tool sets flags of its own. Relaxed: the flags publish no other
     * data. */
    __atomic_fetch_or(&piano__recording.view.header->flags, flags, __ATOMIC_RELAXED);
}

int piano__control_adopt(int fd, const char *path, const char *text)
{
    if (piano__recording.view.header)
        return -EALREADY;
    if (!piano__gate_make())
        return -ENOMEM;
    int err = piano__recording_adopt(fd, path);
    if (err != 0)
        return err;
    memcpy(settings, text, sizeof settings - 2);
    piano__gate_set(&piano__gate->recording, 1);
    return 0;
}

/* A thread that is late reads the memory of the recording only while the gate is open. */
bool piano__control_take_away(void)
{
    piano__gate_set(&piano__gate->recording, 0);
    settings[0] = '\0';
    if (!piano__session_wait())
        return false;
    piano__session_next();
    return true;
}

/* Creates the recording of a process that the program, or one of its children, has started. */
static int create_further(void)
{
    if (is_refused)
        return -EUSERS;
    is_refused = !piano__family_enter(secure_getenv("PIANO_RECORD"));
    if (is_refused)
        return -EUSERS;
    int image = create();
    piano__family_entered(image > 0 ? image : 0);
    return image;
}

static int create_any(void)
{
    const char *asked = piano__control_is_for_us() ? secure_getenv("PIANO_RECORD") : NULL;
    bool is_program = piano__control_number("PIANO_RECORD_PID") == (uint64_t)getpid();
    if (asked && !is_program)
        return create_further();
    int image = create();
    if (image > 0 && asked)
        piano__family_begin((uint32_t)piano__control_number("PIANO_FAMILY_MOST"),
                            piano__control_number("PIANO_FAMILY_SIZE"));
    return image;
}

int piano__control_open(void)
{
    if (piano__recording.view.header)
        return 0;
    if (!piano__gate_make())
        return -ENOMEM;
    int image = create_any();
    if (image < 0)
        return image;
    piano__recording.view.header->max_chunks =
        piano__rec_chunks_in(piano__control_number("PIANO_MAX_SIZE"));
    if (is_child)
        set_flags(PIANO_REC_CHILD);
    piano__gate_set(&piano__gate->recording, 1);
    return 0;
}

/* Changes `state` only from STARTING: the heap sampler, which may have been stopped, sets it
 * otherwise. Relaxed: the gate publishes the tables. */
void piano__control_started(uint32_t flags)
{
    uint32_t starting = PIANO_REC_STARTING;
    set_flags(flags);
    __atomic_compare_exchange_n(&piano__recording.view.header->state, &starting, PIANO_REC_ACTIVE,
                                false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

bool piano__control_is_ended(void)
{
    const struct piano__rec_header *h = piano__recording.view.header;
    /* Relaxed: it is set once, and orders no other data. */
    return h && __atomic_load_n(&h->ended_ns, __ATOMIC_RELAXED) != 0;
}

bool piano__control_is_sampled(void)
{
    const char *cpu = setting("PIANO_CPU");
    return cpu && strcmp(cpu, "outside") == 0 && piano__control_is_for_us();
}

void piano__control_abandon(void)
{
    const struct piano__rec_header *h = piano__recording.view.header;
    if (!h || h->flags & (PIANO_REC_HAS_HEAP | PIANO_REC_HAS_EVENTS | PIANO_REC_HAS_CPU))
        return;
    piano__gate_shut();
    piano__modules_forget();
    piano__python_forget();
    piano__recording_discard();
}

void piano__control_forked(void)
{
    piano__control_changing = 0;
    settings[0] = '\0';
    piano__lock_forget();
    piano__gate_shut();
    is_child = true;
    is_refused = false;
}

void piano__control_forget(bool is_in_use)
{
    if (is_in_use) {
        piano__recording_blank();
        return;
    }
    piano__modules_forget();
    piano__python_forget();
    piano__recording_forget();
}
