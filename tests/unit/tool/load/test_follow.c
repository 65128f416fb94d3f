/* The reader of a growing recording: new data, once, in order; reused chunks; skipped events. */
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/load/follow.h"
#include "event_image.h"

/* A recording on disk that is written while it is followed. */
struct growing {
    struct image image;
    struct follow follow;
    int fd;
};

static void update(struct growing *g)
{
    assert_int_equal(pwrite(g->fd, g->image.bytes, g->image.len, 0), g->image.len);
}

static void start(struct growing *g)
{
    char *path = save(&g->image);
    g->fd = open(path, O_RDWR);
    assert_true(g->fd >= 0);
    assert_int_equal(follow_open(&g->follow, path, &error), 0);
    unlink(path);
}

static void finish(struct growing *g)
{
    follow_close(&g->follow);
    close(g->fd);
    free(g->image.bytes);
}

/* The marks of a step: their names as digits, a `|` where events are missing before. */
static const char *step(struct growing *g, size_t most)
{
    static char text[256];
    struct recording_event e;
    size_t len = 0;
    update(g);
    assert_int_equal(follow_step(&g->follow, most), 0);
    struct recording_walk *w = recording_walk_new(&g->follow.rec);
    assert_non_null(w);
    while (recording_walk_next(w, &e)) {
        assert_true(len + 4 < sizeof(text));
        if (e.after_gap)
            text[len++] = '|';
        text[len++] = e.code == PIANO_EVENT_MARK ? (char)('0' + e.mark.name) : '?';
    }
    recording_walk_free(w);
    text[len] = '\0';
    return text;
}

static void test_new_events_are_found_once(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *c = events(&g.image, 0, 11, 1000, 1000);
    start(&g);
    assert_string_equal(step(&g, 1 << 20), "");
    event(c, PIANO_EVENT_MARK, 10, 1, N(1));
    event(c, PIANO_EVENT_MARK, 10, 1, N(2));
    assert_string_equal(step(&g, 1 << 20), "12");
    assert_string_equal(step(&g, 1 << 20), "");
    event(c, PIANO_EVENT_THREAD, 0, 1, N(12));
    event(c, PIANO_EVENT_MARK, 10, 1, N(3));
    assert_string_equal(step(&g, 1 << 20), "3");
    assert_int_equal(g.follow.rec.events.track_count, 2);
    event(c, PIANO_EVENT_MARK, 7, 1, N(4));
    struct piano__chunk *other = events(&g.image, 1, 13, 1035, 1035);
    event(other, PIANO_EVENT_MARK, 0, 1, N(5));
    assert_string_equal(step(&g, 1 << 20), "54"); /* at 1035 and 1037: the ticks go on */
    assert_int_equal(g.follow.rec.events.last_ns, 1037);
    finish(&g);
}

static void test_events_of_the_future_wait(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *c = events(&g.image, 0, 11, 1000, 1000);
    event(c, PIANO_EVENT_MARK, 10, 1, N(1));
    event(c, PIANO_EVENT_MARK, N(1) << 60, 1, N(2));
    start(&g);
    assert_string_equal(step(&g, 1 << 20), "1");
    assert_string_equal(step(&g, 1 << 20), "");
    finish(&g);
}

static void test_reused_chunk_is_read_again(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *a = events(&g.image, 0, 11, 1000, 1000);
    struct piano__chunk *b = events(&g.image, 1, 11, 2000, 2000);
    b->previous = 1;
    event(a, PIANO_EVENT_MARK, 10, 1, N(1));
    event(b, PIANO_EVENT_MARK, 10, 1, N(2));
    start(&g);
    assert_string_equal(step(&g, 1 << 20), "12");
    *a = (struct piano__chunk){.type = PIANO_CHUNK_EVENTS, .ready = 1, .index = 2, .previous = 2};
    put(a, &(struct piano__events_head){11, 3000, 3000}, sizeof(struct piano__events_head));
    event(a, PIANO_EVENT_MARK, 10, 1, N(3));
    assert_string_equal(step(&g, 1 << 20), "3"); /* follows b, which was read */
    *b = (struct piano__chunk){.type = PIANO_CHUNK_EVENTS, .ready = 1, .index = 9, .previous = 9};
    put(b, &(struct piano__events_head){11, 9000, 9000}, sizeof(struct piano__events_head));
    event(b, PIANO_EVENT_MARK, 10, 1, N(4));
    assert_string_equal(step(&g, 1 << 20), "|4"); /* number 8 was reused before it was read */
    a->ready = 0;
    event(a, PIANO_EVENT_MARK, 10, 1, N(5));
    assert_string_equal(step(&g, 1 << 20), "");
    finish(&g);
}

static void test_oldest_events_are_skipped_if_there_are_too_many(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    start(&g);
    for (uint64_t n = 0; n < 3; n++) {
        struct piano__chunk *c = events(&g.image, n, 11 + n, 1000 * (n + 1), 1000 * (n + 1));
        c->previous = n;
        event(c, PIANO_EVENT_MARK, 10, 1, N(1) + n);
    }
    assert_string_equal(step(&g, 40), "|3");
    assert_true(g.follow.skipped > 50 && g.follow.skipped < 80);
    assert_string_equal(step(&g, 1 << 20), "");
    finish(&g);
}

static void test_names_arrive_before_their_events(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *names = chunk(&g.image, PIANO_CHUNK_NAMES, 0);
    put_name(names, 1, "one");
    start(&g);
    assert_string_equal(step(&g, 1 << 20), "");
    assert_string_equal(recording_name_of(&g.follow.rec, 1), "one");
    put_name(names, 2, "two");
    assert_string_equal(step(&g, 1 << 20), "");
    assert_string_equal(recording_name_of(&g.follow.rec, 1), "one");
    assert_string_equal(recording_name_of(&g.follow.rec, 2), "two");
    finish(&g);
}

/* Parts of a chunk of definitions are never skipped, and come first at the same time. */
static void test_definitions_are_followed(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *log = chunk(&g.image, PIANO_CHUNK_DEFINITIONS, 0);
    struct piano__chunk *part = (void *)((char *)(log + 1) + 3 * PIANO_DEFINITION_BYTES);
    *part = (struct piano__chunk){.type = PIANO_CHUNK_DEFINITIONS, .ready = 1, .index = 3};
    put(part, &(struct piano__events_head){11, 1000, 1000}, sizeof(struct piano__events_head));
    event(part, PIANO_EVENT_TASK_SPAWN, 10, 3, N(1), N(0), N(0));
    struct piano__chunk *c = events(&g.image, 0, 11, 1000, 1000);
    event(c, PIANO_EVENT_MARK, 10, 1, N(1));
    start(&g);
    assert_string_equal(step(&g, 1), "?1");
    event(part, PIANO_EVENT_TASK_END, 10, 1, N(1));
    assert_string_equal(step(&g, 1), "?");
    finish(&g);
}

static void test_damaged_chunk_does_no_harm(void **state)
{
    (void)state;
    struct growing g = {.image = image()};
    struct piano__chunk *c = events(&g.image, 0, 11, 1000, 1000);
    event(c, PIANO_EVENT_MARK, 10, 1, N(1));
    put(c, "\x0c\xff\x01", 3); /* longer than the data */
    struct piano__chunk *brief = chunk(&g.image, PIANO_CHUNK_EVENTS, 1);
    brief->used = 8;
    struct piano__chunk *full = events(&g.image, 2, 12, 1000, 1000);
    full->used = UINT64_MAX;
    start(&g);
    assert_string_equal(step(&g, 1 << 20), "1");
    assert_string_equal(step(&g, 1 << 20), "");
    assert_int_equal(ftruncate(g.fd, PIANO_REC_HEADER_BYTES), 0);
    assert_int_equal(follow_step(&g.follow, 1 << 20), -ESTALE);
    finish(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_new_events_are_found_once),
        cmocka_unit_test(test_events_of_the_future_wait),
        cmocka_unit_test(test_reused_chunk_is_read_again),
        cmocka_unit_test(test_oldest_events_are_skipped_if_there_are_too_many),
        cmocka_unit_test(test_names_arrive_before_their_events),
        cmocka_unit_test(test_definitions_are_followed),
        cmocka_unit_test(test_damaged_chunk_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
