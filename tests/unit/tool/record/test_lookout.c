/* Watching a recording: what cannot be opened now is tried again. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/record/lookout.h"
#include "temp.h"

enum { PROGRAM = 77, STARTED = 1000 };

/* A recording without chunks, at *PATH. */
static void make_recording(char **path)
{
    char name[256];
    static struct {
        struct piano__rec_header h;
        char rest[PIANO_REC_HEADER_BYTES - sizeof(struct piano__rec_header)];
    } file = {.h = {.magic = PIANO_REC_MAGIC,
                    .version = PIANO_REC_VERSION,
                    .header_bytes = PIANO_REC_HEADER_BYTES,
                    .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                    .pid = PROGRAM,
                    .start_mono_ns = STARTED}};
    temp_name(name, sizeof name, "piano-test-XXXXXX");
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, &file, sizeof file), sizeof file);
    close(fd);
    *path = strdup(name);
    assert_non_null(*path);
}

/* Lets this process open so many more files; a negative number: as many as before. */
static void limit_files(int more)
{
    static struct rlimit before;
    struct rlimit limit;
    if (more < 0) {
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        return;
    }
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = dup(STDERR_FILENO);
    assert_true(fd >= 0);
    close(fd);
    limit = (struct rlimit){(rlim_t)fd + (rlim_t)more, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void recording_that_cannot_be_opened_is_opened_later(void **state)
{
    (void)state;
    char *path;
    struct recordings recordings;
    struct lookout l;
    const struct record r = {.events = true, .flight = {.watch = true}};
    make_recording(&path);
    recordings_init(&recordings, path, PROGRAM, false, STARTED);
    lookout_start(&l, &r, 1);
    limit_files(1);
    assert_false(lookout_step(&l, &recordings, NULL, 1));
    limit_files(-1);
    assert_null(l.flight);
    assert_non_null(l.unwatched);
    assert_non_null(strstr(l.unwatched, "Too many open files"));
    assert_false(lookout_step(&l, &recordings, NULL, 2));
    assert_non_null(l.flight);
    assert_null(l.unwatched);
    lookout_stop(&l, &recordings);
    assert_null(l.flight);
    unlink(path);
    recordings_release(&recordings);
}

static void next_step_is_due_when_something_is_asked_for(void **state)
{
    (void)state;
    struct lookout l;
    const struct record nothing = {.heap = true}, events = {.events = true},
                        watched = {.events = true, .flight = {.watch = true}};
    lookout_start(&l, &nothing, 10);
    assert_true(lookout_due(&l, 99) == 99);
    lookout_start(&l, &events, 10);
    assert_true(lookout_due(&l, 99) > 10 && lookout_due(&l, 99) < 11);
    lookout_start(&l, &watched, 10);
    assert_true(lookout_due(&l, 99) == 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recording_that_cannot_be_opened_is_opened_later),
        cmocka_unit_test(next_step_is_due_when_something_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
