/* Polls from events: which task they belong to, and how many may be open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/report/polls.h"
#include "event_image.h"

static void test_task_ids_of_64_bits_are_told_apart(void **state)
{
    (void)state;
    struct image i = image();
    struct profile profile;
    struct polls p;
    struct piano__chunk *names = chunk(&i, PIANO_CHUNK_NAMES, 0);
    put_name(names, 1, "task");
    struct piano__chunk *c = events(&i, 0, 11, 1000 * N(MS), 1000 * N(MS));
    static const uint64_t ids[] = {0, 1, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1, (uint64_t)1 << 63};
    for (int n = 0; n < 6; n++)
        event(c, PIANO_EVENT_TASK_SPAWN, 0, 3, ids[n], N(1), N(0));
    for (int n = 0; n < 6; n++) {
        event(c, PIANO_EVENT_WAKE, N(MS), 1, ids[n]);
        event(c, PIANO_EVENT_POLL_BEGIN, N(MS) * (unsigned)(n + 1), 2, ids[n], N(0));
        event(c, PIANO_EVENT_POLL_END, N(MS), 0);
        event(c, PIANO_EVENT_TASK_END, 0, 1, ids[n]);
    }
    char *path = save(&i);
    assert_int_equal(profile_open(&profile, path, &error), 0);
    assert_int_equal(polls_make(&p, &profile, 10, &error), 0);
    unlink(path);
    free(i.bytes);
    assert_int_equal(p.polls, 6);
    assert_int_equal(p.group_count, 1);
    assert_int_equal(p.groups[0].spawned, 6);
    assert_int_equal(p.groups[0].ended, 6);
    assert_int_equal(p.alive.value, 0);
    assert_int_equal(p.alive.max, 6);
    assert_int_equal(p.task_count, 0);
    assert_int_equal(p.latest_ns, 6 * MS);
    assert_true(p.latest.task == ids[5]);
    assert_int_equal(p.late, 1);
    polls_release(&p);
    profile_close(&profile);
}

static void test_open_polls_are_limited_when_ends_are_lost(void **state)
{
    (void)state;
    struct image i = image();
    struct profile profile;
    struct polls p;
    struct piano__chunk *c = events(&i, 0, 11, 1000 * N(MS), 1000 * N(MS));
    for (int n = 0; n < 500; n++)
        event(c, PIANO_EVENT_POLL_BEGIN, 1, 2, N(n), N(0));
    char *path = save(&i);
    assert_int_equal(profile_open(&profile, path, &error), 0);
    assert_int_equal(polls_make(&p, &profile, 10, &error), 0);
    unlink(path);
    free(i.bytes);
    assert_int_equal(p.too_deep, 500 - POLLS_MAX_DEPTH);
    assert_int_equal(p.open, POLLS_MAX_DEPTH);
    polls_release(&p);
    profile_close(&profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_ids_of_64_bits_are_told_apart),
        cmocka_unit_test(test_open_polls_are_limited_when_ends_are_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
