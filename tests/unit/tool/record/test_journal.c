/* Samples on their way into recordings: kept until there is a file, moved while they are few, and never written over
 * chunks of other writers. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/record/create.h"
#include "tool/record/journal.h"
#include "temp.h"

static char dir[256];
static char path[2][300];

static int make_files(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%d.rec", dir, i);
        unlink(path[i]);
        assert_int_equal(create_recording(path[i], getpid(), 1000, 0, PIANO_REC_HAS_CPU), 0);
        assert_int_equal(create_recording(path[i], getpid(), 1000, 0, PIANO_REC_HAS_CPU), -EEXIST);
    }
    return 0;
}

/* The whole file. */
static char *read_file(const char *name, size_t *size)
{
    struct stat st = {0};
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    *size = (size_t)st.st_size;
    char *data = malloc(*size + 1);
    assert_true(read(fd, data, *size) == (ssize_t)*size);
    close(fd);
    return data;
}

/* Counts the records of TYPE; copies the first to RECORD, if that is not NULL. */
static size_t count_records(const char *name, uint32_t type, void *record, size_t bytes)
{
    size_t size;
    size_t count = 0;
    char *data = read_file(name, &size);
    const struct piano__rec_header *h = (const void *)data;
    for (uint64_t n = 0; n < h->chunks; n++) {
        const char *at = data + PIANO_REC_HEADER_BYTES + n * PIANO_REC_CHUNK_BYTES;
        const struct piano__chunk *c = (const void *)at;
        if (c->type != type || !c->ready)
            continue;
        for (uint64_t done = 0; done < c->used; count++) {
            uint32_t len;
            memcpy(&len, at + sizeof *c + done, sizeof len);
            assert_true(len > 0 && len % 8 == 0 && len <= c->used - done);
            if (count == 0 && record)
                memcpy(record, at + sizeof *c + done, bytes);
            done += len;
        }
    }
    free(data);
    return count;
}

static void put_sample(struct journal *j, uint64_t at_ns, uint32_t stack)
{
    const struct piano__sample s = {
        .bytes = sizeof s, .kind = PIANO_SAMPLE_CPU, .tid = 5, .at_ns = at_ns, .stack = stack};
    journal_sample(j, &s);
    j->trace.samples++;
}

static struct unwind_stack make_stack(uint64_t pc)
{
    return (struct unwind_stack){.depth = 2, .pcs = {pc, pc + 1}};
}

static void samples_are_held_until_there_is_a_file(void **state)
{
    (void)state;
    struct journal j;
    struct piano__sample first;
    journal_init(&j);
    struct unwind_stack a = make_stack(4096);
    struct unwind_stack b = make_stack(8192);
    uint32_t one = journal_stack(&j, 7, &a);
    assert_true(one & PIANO_TOOL_STACK);
    assert_int_equal(journal_stack(&j, 7, &a), one);
    assert_int_not_equal(journal_stack(&j, 8, &a), one); /* another time, another place */
    assert_int_not_equal(journal_stack(&j, 7, &b), one);
    journal_thread(&j, 4, 5, 1, "a name that is too long for it");
    put_sample(&j, 77, one);
    journal_flush(&j);
    assert_int_equal(journal_move(&j, "/nowhere/at/all"), -ENOENT);
    assert_int_equal(journal_move(&j, path[0]), 0);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_STACKS, NULL, 0), 3);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_THREADS, NULL, 0), 1);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, &first, sizeof first), 1);
    assert_true(first.at_ns == 77 && first.stack == one);
    journal_release(&j);
}

static void few_samples_move_to_the_next_recording(void **state)
{
    (void)state;
    struct journal j;
    size_t size;
    journal_init(&j);
    struct unwind_stack a = make_stack(4096);
    put_sample(&j, 1, journal_stack(&j, 7, &a));
    assert_int_equal(journal_move(&j, path[0]), 0);
    put_sample(&j, 2, 0);
    journal_flush(&j);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0), 2);
    assert_int_equal(journal_move(&j, path[1]), 0);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0), 0);
    assert_int_equal(count_records(path[1], PIANO_CHUNK_SAMPLES, NULL, 0), 2);
    assert_int_equal(count_records(path[1], PIANO_CHUNK_STACKS, NULL, 0), 1);
    char *old = read_file(path[0], &size);
    assert_int_equal(((struct piano__rec_header *)(void *)old)->trace.samples, 0);
    free(old);
    journal_release(&j);
}

static void many_samples_stay_in_their_recording(void **state)
{
    (void)state;
    enum { MANY = 5000 };
    struct journal j;
    size_t size;
    journal_init(&j);
    assert_int_equal(journal_move(&j, path[0]), 0);
    for (int i = 0; i < MANY; i++) {
        put_sample(&j, 1, 0);
        if (i % 100 == 0)
            journal_flush(&j);
    }
    journal_flush(&j);
    assert_int_equal(journal_move(&j, path[1]), 0);
    put_sample(&j, 2, 0);
    journal_flush(&j);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0), MANY);
    assert_int_equal(count_records(path[1], PIANO_CHUNK_SAMPLES, NULL, 0), 1);
    char *new = read_file(path[1], &size);
    assert_int_equal(((struct piano__rec_header *)(void *)new)->trace.samples, 1);
    free(new);
    journal_release(&j);
}

static void held_samples_beyond_the_limit_are_counted_as_lost(void **state)
{
    (void)state;
    struct journal j;
    journal_init(&j);
    for (int i = 0; i < JOURNAL_HELD + 10; i++)
        put_sample(&j, 1, 0);
    assert_int_equal(j.dropped, 10);
    assert_int_equal(journal_move(&j, path[0]), 0);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0), JOURNAL_HELD);
    assert_int_equal(j.view.base.header->trace.samples_lost, 10);
    journal_release(&j);
}

/* The program can write to its recording too. */
static void chunk_with_wrong_length_is_not_written_to(void **state)
{
    (void)state;
    struct journal j;
    const uint64_t lies[] = {UINT64_MAX, PIANO_REC_PAYLOAD + 8, 3};
    journal_init(&j);
    assert_int_equal(journal_move(&j, path[0]), 0);
    for (size_t i = 0; i < 3; i++) {
        put_sample(&j, i, 0);
        journal_flush(&j);
        j.logs[PIANO_CHUNK_SAMPLES].chunk->used = lies[i];
    }
    put_sample(&j, 9, 0);
    journal_flush(&j);
    assert_int_equal(count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0), 4);
    j.view.base.header->chunks =
        UINT64_MAX; /* no more room: the old ones are dropped, and counted */
    for (int i = 0; i < 3000; i++)
        put_sample(&j, 9, 0);
    journal_flush(&j);
    assert_true(j.given_up > 0 && j.dropped == 0);
    struct unwind_stack a = make_stack(4096);
    journal_stack(&j, 7, &a); /* stacks cannot be dropped, because samples refer to them */
    journal_flush(&j);
    assert_int_equal(j.stacks.written, 0);
    assert_int_equal(ftruncate(j.view.fd, PIANO_REC_HEADER_BYTES), 0);
    for (int i = 0; i < 3000; i++)
        put_sample(&j, 9, 0);
    munmap(j.logs[PIANO_CHUNK_SAMPLES].chunk, PIANO_REC_CHUNK_BYTES);
    j.logs[PIANO_CHUNK_SAMPLES].chunk = NULL;
    journal_flush(&j);
    assert_int_equal(j.dropped, 3000);
    journal_release(&j);
}

/* In a file of limited size the newest samples are kept, in their share of it. */
static void newest_samples_are_kept_in_a_limited_file(void **state)
{
    (void)state;
    enum { CHUNKS = 16, SHARE = CHUNKS / 4 * 3, MANY = 40000 };
    const size_t per_chunk = PIANO_REC_PAYLOAD / sizeof(struct piano__sample);
    struct journal j;
    struct piano__sample s;
    size_t size;
    uint64_t oldest = UINT64_MAX, newest = 0;
    unlink(path[0]);
    assert_int_equal(
        create_recording(path[0], getpid(), 1000, (CHUNKS + 1) << 16, PIANO_REC_HAS_CPU), 0);
    journal_init(&j);
    assert_int_equal(journal_move(&j, path[0]), 0);
    for (uint64_t i = 1; i <= MANY; i++) {
        put_sample(&j, i, 0);
        if (i % 1000 == 0)
            journal_flush(&j);
    }
    journal_flush(&j);
    assert_int_equal(j.dropped, 0);
    size_t kept = count_records(path[0], PIANO_CHUNK_SAMPLES, NULL, 0);
    assert_int_equal(kept + j.given_up, MANY);
    assert_in_range(kept, (SHARE - 1) * per_chunk, SHARE * per_chunk);
    char *data = read_file(path[0], &size);
    const struct piano__rec_header *h = (const void *)data;
    assert_true(size <= (CHUNKS + 1) << 16 && h->samples_given_up == j.given_up);
    for (uint64_t n = 0; n < h->chunks; n++) {
        const char *at = data + PIANO_REC_HEADER_BYTES + n * PIANO_REC_CHUNK_BYTES;
        const struct piano__chunk *c = (const void *)at;
        for (uint64_t done = 0; c->type == PIANO_CHUNK_SAMPLES && done < c->used;
             done += sizeof s) {
            memcpy(&s, at + sizeof *c + done, sizeof s);
            oldest = s.at_ns < oldest ? s.at_ns : oldest;
            newest = s.at_ns > newest ? s.at_ns : newest;
        }
    }
    assert_int_equal(newest, MANY);
    assert_int_equal(oldest, MANY - kept + 1); /* and so none in between is missing */
    free(data);
    journal_release(&j);
}

static int remove_files(void **state)
{
    (void)state;
    unlink(path[0]);
    unlink(path[1]);
    rmdir(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(samples_are_held_until_there_is_a_file, make_files),
        cmocka_unit_test_setup(few_samples_move_to_the_next_recording, make_files),
        cmocka_unit_test_setup(many_samples_stay_in_their_recording, make_files),
        cmocka_unit_test_setup(held_samples_beyond_the_limit_are_counted_as_lost, make_files),
        cmocka_unit_test_setup(chunk_with_wrong_length_is_not_written_to, make_files),
        cmocka_unit_test_setup(newest_samples_are_kept_in_a_limited_file, make_files),
    };
    if (!mkdtemp(temp_name(dir, sizeof dir, "piano-test-XXXXXX")))
        return 1;
    return cmocka_run_group_tests(tests, NULL, remove_files);
}
