/* Limits of events and their names: the requested size, a full disk, the table of names. Runs under ASan, UBSan and
 * TSan. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "event_file.h"
#include "piano.h"
#include "target/sys/clock.h"
#include "target/trace/buffers.h"
#include "target/trace/names.h"

/* The last events are there, without a gap, in as many chunks as requested. */
static void test_oldest_events_are_overwritten_at_the_size_limit(void **state)
{
    (void)state;
    enum { MANY = 200000, CHUNKS = 4 };
    begin_with(CHUNKS * PIANO_REC_CHUNK_BYTES);
    for (uint64_t i = 0; i < MANY; i++)
        piano_queue_depth(5, i);
    struct file f = read_events();
    assert_int_equal(f.chunks, CHUNKS);
    assert_int_equal(count_in_order(&f, (uint32_t)getpid(), MANY - f.count), f.count);
    assert_true(f.count > (CHUNKS - 1) * (PIANO_REC_PAYLOAD / 12));
    assert_true(f.count < MANY);
    assert_int_equal(header()->trace.events, MANY);
    assert_true(header()->trace.recycled > 0);
    release(&f);
}

static size_t count_code(const struct file *f, enum piano__event_code code)
{
    size_t found = 0;
    for (size_t i = 0; i < f->count; i++)
        found += f->events[i].code == code;
    return found;
}

/* Spawns are there although the events after them were overwritten many times. */
static void test_definitions_are_not_overwritten(void **state)
{
    (void)state;
    enum { TASKS = 2000, MANY = 400000, CHUNKS = 8 };
    begin_with(CHUNKS * PIANO_REC_CHUNK_BYTES);
    piano_worker_start(3, "worker");
    for (uint64_t i = 0; i < TASKS; i++)
        piano_task_spawn(i, "task", "here.c:1");
    for (uint64_t i = 0; i < MANY; i++)
        piano_queue_depth(5, i);
    struct file f = read_events();
    const struct piano__trace *t = &header()->trace;
    assert_int_equal(f.chunks, CHUNKS);
    assert_int_equal(count_code(&f, PIANO_EVENT_WORKER_START), 1);
    assert_int_equal(count_code(&f, PIANO_EVENT_TASK_SPAWN), TASKS);
    assert_int_equal(t->events, MANY + TASKS + 1);
    assert_true(t->recycled > CHUNKS && t->overwritten > 0);
    assert_int_equal(t->overwritten + f.count, t->events);
    assert_int_equal(t->definitions_in_ring, 0);
    assert_int_equal(t->ring_most, CHUNKS);
    assert_int_equal(t->ring_chunks, CHUNKS);
    release(&f);
}

/* All events before the time in the header are overwritten, and none after it. */
static void test_header_tells_since_when_events_are_complete(void **state)
{
    (void)state;
    enum { MANY = 300000, CHUNKS = 4 };
    begin_with(CHUNKS * PIANO_REC_CHUNK_BYTES);
    for (uint64_t i = 0; i < MANY; i++)
        piano_queue_depth(5, i);
    struct file f = read_events();
    const struct piano__rec_header *h = header();
    const struct piano__clock_pair now = piano__clock_pair();
    double rate =
        (double)(now.mono_ns - h->start_mono_ns) / (double)(now.ticks - h->trace.start_ticks);
    double first = (double)(f.events[0].ticks - h->trace.start_ticks) * rate;
    double overwritten = (double)(h->trace.overwritten_ns - h->start_mono_ns);
    double slack = (double)(now.mono_ns - h->start_mono_ns) * 0.02;
    assert_true(overwritten <= first + slack && overwritten >= first - slack);
    release(&f);
}

/* The log has an eighth of the room. What does not fit is in the ring. */
static void test_definitions_beyond_their_log_go_to_the_ring(void **state)
{
    (void)state;
    enum { TASKS = 30000, CHUNKS = 4 };
    begin_with(CHUNKS * PIANO_REC_CHUNK_BYTES);
    for (uint64_t i = 0; i < TASKS; i++)
        piano_task_spawn(i, "task", "here.c:1");
    struct file f = read_events();
    const struct piano__trace *t = &header()->trace;
    assert_int_equal(t->overwritten + f.count, TASKS);
    assert_true(t->definitions_in_ring > TASKS / 2 && t->definitions_in_ring < TASKS);
    assert_int_equal(f.events[0].fields[0], 0);
    assert_int_equal(f.events[f.count - 1].fields[0], TASKS - 1);
    assert_int_equal(t->dropped_memory, 0);
    release(&f);
}

enum { SPAWNERS = 12, SPAWNS = 1500 };

struct spawner {
    pthread_t thread;
    uint64_t first; /* of its tasks */
    uint32_t tid;
};

static void *spawn_many(void *of)
{
    struct spawner *s = of;
    s->tid = (uint32_t)syscall(SYS_gettid);
    piano_worker_start(s->first, "spawner");
    for (uint64_t i = 0; i < SPAWNS; i++) {
        piano_task_spawn(s->first + i, "task", "here.c:1");
        piano_queue_depth(5, i);
    }
    piano_worker_stop();
    return NULL;
}

/* Several threads share a chunk of definitions; later ones continue in the parts of those that ended. */
static void test_definitions_of_threads_do_not_mix(void **state)
{
    (void)state;
    struct spawner all[2 * SPAWNERS];
    begin_with((uint64_t)128 * PIANO_REC_CHUNK_BYTES);
    for (int i = 0; i < 2 * SPAWNERS; i++) {
        all[i].first = (uint64_t)(i + 1) * 1000000;
        assert_int_equal(pthread_create(&all[i].thread, NULL, spawn_many, &all[i]), 0);
        if (i >= SPAWNERS)
            pthread_join(all[i - SPAWNERS].thread, NULL);
    }
    for (int i = SPAWNERS; i < 2 * SPAWNERS; i++)
        pthread_join(all[i].thread, NULL);
    struct file f = read_events();
    assert_int_equal(header()->trace.definitions_in_ring, 0);
    for (int k = 0; k < 2 * SPAWNERS; k++) {
        uint64_t next = all[k].first;
        for (size_t i = 0; i < f.count; i++)
            if (f.events[i].tid == all[k].tid && f.events[i].code == PIANO_EVENT_TASK_SPAWN)
                assert_int_equal(f.events[i].fields[0], next++);
        assert_int_equal(next, all[k].first + SPAWNS);
    }
    assert_int_equal(count_code(&f, PIANO_EVENT_WORKER_START), 2 * SPAWNERS);
    assert_int_equal(count_code(&f, PIANO_EVENT_WORKER_STOP), 2 * SPAWNERS);
    release(&f);
}

/* Number INDEX of the chunks of events. */
static struct piano__chunk *events_chunk(uint64_t index)
{
    struct piano__chunk *found = NULL;
    for (uint64_t n = 0; n < header()->chunks; n++) {
        struct piano__chunk *c = piano__recording.view.chunk(&piano__recording.view, n);
        if (c && c->type == PIANO_CHUNK_EVENTS && c->index == index)
            found = c;
    }
    assert_non_null(found);
    return found;
}

/* A thread that fills its chunk finds the next one mapped, and zeroes the rest after what it wrote. */
static void test_next_chunk_is_prefaulted_and_zeroed(void **state)
{
    (void)state;
    enum { PAGE = 4096, PAGES = PIANO_REC_CHUNK_BYTES / PAGE };
    unsigned char in_memory[PAGES];
    for (uint64_t i = 0; header()->trace.events == 0; i++) /* counted when a chunk is full */
        piano_queue_depth(5, i);
    struct piano__chunk *second = events_chunk(1);
    assert_int_equal(mincore(second, PIANO_REC_CHUNK_BYTES, in_memory), 0);
    for (int i = 0; i < PAGES; i++)
        assert_true(in_memory[i] & 1);
    const char *payload = (const char *)(second + 1);
    for (uint64_t at = second->used + PIANO_EVENT_ROOM; at < PIANO_REC_PAYLOAD; at++)
        assert_int_equal(payload[at], 0);
    struct file f = read_events();
    assert_int_equal(count_in_order(&f, (uint32_t)getpid(), 0), f.count);
    release(&f);
}

static uint32_t tid_of_other;

static void *write_many(void *count)
{
    tid_of_other = (uint32_t)syscall(SYS_gettid);
    for (uint64_t i = 0; i < *(uint64_t *)count; i++)
        piano_queue_depth(5, i);
    return NULL;
}

/* The first thread does not keep all the room. */
static void test_late_thread_takes_chunks_of_the_first(void **state)
{
    (void)state;
    enum { CHUNKS = 6 };
    uint64_t many = 200000;
    begin_with(CHUNKS * PIANO_REC_CHUNK_BYTES);
    for (uint64_t i = 0; i < many; i++)
        piano_queue_depth(5, i);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_many, &many), 0);
    pthread_join(thread, NULL);
    struct file f = read_events();
    size_t theirs = 0;
    for (size_t i = 0; i < f.count; i++)
        theirs += f.events[i].tid == tid_of_other && f.events[i].code == PIANO_EVENT_QUEUE;
    assert_true(theirs > 3 * (PIANO_REC_PAYLOAD / 12));
    assert_int_equal(count_in_order(&f, tid_of_other, many - theirs), theirs);
    assert_true(f.chunks <= CHUNKS + 1); /* the late thread's first, when all others were in use */
    release(&f);
}

static void test_equal_names_get_the_same_number(void **state)
{
    (void)state;
    char a[] = "same", b[] = "same", buffer[16] = "first";
    uint32_t same = piano__events_name(a);
    assert_int_not_equal(same, 0);
    assert_int_equal(piano__events_name(b), same);
    assert_int_equal(piano__events_name(a), same);
    uint32_t first = piano__events_name(buffer);
    strcpy(buffer, "second");
    uint32_t second = piano__events_name(buffer);
    assert_int_not_equal(first, second);
    strcpy(buffer, "secon");
    assert_int_not_equal(piano__events_name(buffer), second);
    strcpy(buffer, "");
    assert_int_not_equal(piano__events_name(buffer), 0);
    assert_int_equal(piano__events_name(NULL), 0);
    assert_int_equal(header()->trace.dropped_names, 0);
}

static void test_long_names_are_cut(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'n', sizeof text);
    text[sizeof text - 1] = '\0';
    text[PIANO_NAME_BYTES - 1] = '\xc3'; /* a character across the cut */
    text[PIANO_NAME_BYTES] = '\xa9';
    uint32_t id = piano__events_name(text);
    assert_int_equal(piano__events_name(text), id);
    text[2000] = '!';
    assert_int_equal(piano__events_name(text), id);
    text[3] = '!';
    assert_int_not_equal(piano__events_name(text), id);
    struct file f = read_events();
    assert_int_equal(strlen(name_of(&f, id)), PIANO_NAME_BYTES - 1);
    release(&f);
}

static void test_names_beyond_the_table(void **state)
{
    (void)state;
    char text[32];
    for (int i = 0; i < PIANO_NAMES + 10; i++) {
        snprintf(text, sizeof text, "%d", i);
        piano_mark(text);
    }
    struct file f = read_events();
    assert_int_equal(f.count, PIANO_NAMES + 10);
    assert_int_equal(f.events[f.count - 11].fields[0], PIANO_NAMES);
    for (int i = 1; i <= 10; i++)
        assert_int_equal(f.events[f.count - (size_t)i].fields[0], 0);
    assert_int_equal(header()->trace.dropped_names, 10);
    assert_string_equal(name_of(&f, PIANO_NAMES), "16383");
    release(&f);
}

static struct rlimit limit_chunks(rlim_t chunks)
{
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = PIANO_REC_HEADER_BYTES + chunks * PIANO_REC_CHUNK_BYTES;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    return old;
}

/* A thread that gets no chunk. */
static void test_events_without_room_are_counted(void **state)
{
    (void)state;
    uint64_t few = 5;
    pthread_t thread;
    struct rlimit old = limit_chunks(header()->chunks);
    assert_int_equal(pthread_create(&thread, NULL, write_many, &few), 0);
    pthread_join(thread, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    piano_mark("there is room left in this one");
    struct file f = read_events();
    assert_int_equal(f.count, 1);
    assert_int_equal(header()->trace.dropped_memory, few);
    release(&f);
}

/* No more chunks, far below the requested size: the newest events are kept nevertheless. */
static void test_a_full_disk_keeps_the_newest(void **state)
{
    (void)state;
    enum { MANY = 50000 };
    struct rlimit old = limit_chunks(header()->chunks + 1);
    for (uint64_t i = 0; i < MANY; i++)
        piano_queue_depth(5, i);
    setrlimit(RLIMIT_FSIZE, &old);
    struct file f = read_events();
    assert_int_equal(f.chunks, 2);
    assert_int_equal(count_in_order(&f, (uint32_t)getpid(), MANY - f.count), f.count);
    assert_true(header()->trace.recycled > 0);
    assert_int_equal(header()->trace.dropped_memory, 0);
    release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_oldest_events_are_overwritten_at_the_size_limit, end),
        cmocka_unit_test_teardown(test_definitions_are_not_overwritten, end),
        cmocka_unit_test_teardown(test_header_tells_since_when_events_are_complete, end),
        cmocka_unit_test_teardown(test_definitions_beyond_their_log_go_to_the_ring, end),
        cmocka_unit_test_teardown(test_definitions_of_threads_do_not_mix, end),
        cmocka_unit_test_teardown(test_late_thread_takes_chunks_of_the_first, end),
        cmocka_unit_test_setup_teardown(test_next_chunk_is_prefaulted_and_zeroed, begin, end),
        cmocka_unit_test_setup_teardown(test_equal_names_get_the_same_number, begin, end),
        cmocka_unit_test_setup_teardown(test_long_names_are_cut, begin, end),
        cmocka_unit_test_setup_teardown(test_names_beyond_the_table, begin, end),
        cmocka_unit_test_setup_teardown(test_events_without_room_are_counted, begin, end),
        cmocka_unit_test_setup_teardown(test_a_full_disk_keeps_the_newest, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
