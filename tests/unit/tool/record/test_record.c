/* The tool's side of a recording: when snapshots are due, and that no file makes the tool write more
 * than allowed, or to a wrong place. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/record/series.h"
#include "tool/record/view.h"
#include "temp.h"

static void the_interval_doubles(void **state)
{
    (void)state;
    struct series s;
    unsigned taken = 0;
    series_start(&s, -1, 1000);
    assert_false(series_is_due(&s, 1000.05));
    while (s.due_s < 1000 + 86400) {
        assert_true(series_is_due(&s, s.due_s));
        series_advance(&s, s.due_s, 100);
        taken++;
        if (taken == SERIES_PER_STEP - 1)
            assert_true(s.interval_s == 0.1);
        if (taken == SERIES_PER_STEP)
            assert_true(s.interval_s == 0.2);
    }
    assert_in_range(taken, 400, 500); /* 32 for each doubling of 0.1 s to a day */
}

static void interval_doubles_sooner_for_large_snapshots(void **state)
{
    (void)state;
    struct series s;
    uint64_t bytes = 0;
    series_start(&s, -1, 0);
    while (s.due_s < 7 * 86400) {
        series_advance(&s, s.due_s, 3 << 20);
        bytes += 3 << 20;
    }
    assert_true(bytes < (uint64_t)256 << 20);
}

static void a_fixed_interval_stays(void **state)
{
    (void)state;
    struct series s;
    series_start(&s, 0.5, 10);
    for (int i = 0; i < 1000; i++)
        series_advance(&s, s.due_s, 1 << 20);
    assert_true(s.interval_s == 0.5 && s.due_s == 10 + 0.5 * 1001);
    series_advance(&s, 1e6, 0); /* the machine slept: one snapshot, not several */
    assert_true(s.due_s == 1e6 + 0.5);
    series_start(&s, 0, 10);
    assert_false(series_is_due(&s, 1e9));
}

/* A recording with STACKS stacks, in a file without a name. */
static int make_recording(int stacks)
{
    char name[256];
    temp_name(name, sizeof name, "piano-test-XXXXXX");
    int fd = mkostemp(name, O_CLOEXEC);
    assert_true(fd >= 0);
    unlink(name);
    struct piano__rec_header h = {.magic = PIANO_REC_MAGIC,
                                  .version = PIANO_REC_VERSION,
                                  .header_bytes = PIANO_REC_HEADER_BYTES,
                                  .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                                  .pid = 77};
    uint64_t chunks = (uint64_t)(stacks + PIANO_TOTALS_PER_CHUNK - 1) / PIANO_TOTALS_PER_CHUNK;
    h.chunks = chunks;
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    assert_int_equal(
        posix_fallocate(fd, 0, (off_t)(PIANO_REC_HEADER_BYTES + chunks * PIANO_REC_CHUNK_BYTES)),
        0);
    for (uint64_t n = 0; n < chunks; n++) {
        static struct {
            struct piano__chunk head;
            struct piano__totals totals[PIANO_TOTALS_PER_CHUNK];
        } c;
        memset(&c, 0, sizeof c);
        c.head.type = PIANO_CHUNK_TOTALS;
        c.head.ready = 1;
        c.head.index = n;
        for (int i = 0; i < PIANO_TOTALS_PER_CHUNK && stacks > 0; i++, stacks--)
            c.totals[i].samples = 1;
        off_t at = (off_t)(PIANO_REC_HEADER_BYTES + n * PIANO_REC_CHUNK_BYTES);
        assert_int_equal(pwrite(fd, &c, sizeof c, at), sizeof c);
    }
    return fd;
}

static off_t size_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

/* One thread, because TSan has nothing to find in more threads, and needs seven seconds for them. */
#ifdef __SANITIZE_THREAD__
enum { SNAPSHOTS = 30000 };
#else
enum { SNAPSHOTS = 300000 };
#endif

static void hundreds_of_thousands_of_snapshots_are_small(void **state)
{
    (void)state;
    struct view v;
    int fd = make_recording(3);
    int again = dup(fd);
    assert_int_equal(view_open_fd(&v, fd), 0);
    for (int i = 1; i <= SNAPSHOTS; i++)
        assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 4096), i);
    uint64_t used = v.snapshot_chunks;
    view_close(&v);
    /* New processes continue where the last one stopped. */
    for (int i = 1; i <= 50; i++) {
        assert_int_equal(view_open_fd(&v, dup(again)), 0);
        assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0), SNAPSHOTS + i);
        assert_in_range(v.snapshot_chunks, used, used + 1);
        view_close(&v);
    }
    assert_true(size_of(again) < 80 << 20);
    close(again);
}

static void snapshots_stop_at_the_limit_of_chunks(void **state)
{
    (void)state;
    struct view v;
    int fd = make_recording(3000); /* two chunks for each snapshot */
    assert_int_equal(view_open_fd(&v, fd), 0);
    v.max_snapshot_chunks = 16;
    int taken = 0;
    while (view_snapshot(&v, PIANO_SNAPSHOT_TIMER, 0) > 0)
        taken++;
    assert_in_range(taken, 5, 8);
    assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0), -ENOSPC);
    assert_int_equal(v.snapshot_chunks, 16);
    off_t size = size_of(fd);
    for (int i = 0; i < 100; i++)
        assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0), -ENOSPC);
    assert_int_equal(size_of(fd), size);
    view_close(&v);
}

static void snapshot_is_refused_while_another_tool_holds_the_lock(void **state)
{
    (void)state;
    struct view v;
    char path[64];
    int fd = make_recording(3);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int other = open(path, O_RDWR | O_CLOEXEC); /* a lock belongs to an open file */
    assert_int_equal(view_open_fd(&v, fd), 0);
    assert_int_equal(flock(other, LOCK_EX), 0);
    assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_TIMER, 0), -EAGAIN);
    assert_int_equal(flock(other, LOCK_UN), 0);
    assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_TIMER, 0), 1);
    close(other);
    view_close(&v);
}

static void what_is_not_a_recording_is_refused(void **state)
{
    (void)state;
    struct view v;
    struct piano__rec_header h;
    int fd = make_recording(3);
    assert_int_equal(pread(fd, &h, sizeof h, 0), sizeof h);
    h.version = PIANO_REC_VERSION + 1;
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    assert_int_equal(view_open_fd(&v, dup(fd)), -EPROTO);
    h.magic[0] = 'x';
    assert_int_equal(pwrite(fd, &h, sizeof h, 0), sizeof h);
    assert_int_equal(view_open_fd(&v, dup(fd)), -EBADMSG);
    assert_int_equal(ftruncate(fd, 100), 0);
    assert_int_equal(view_open_fd(&v, dup(fd)), -EBADMSG);
    assert_int_equal(view_open_fd(&v, open("/", O_RDONLY | O_CLOEXEC)), -EBADMSG);
    assert_int_equal(view_open(&v, "/no/such/file"), -ENOENT);
    close(fd);
}

/* Counts that contradict the file, chunks that are truncated or claim to be full: no crash, no hang. */
static void odd_files_do_not_crash_the_tool(void **state)
{
    (void)state;
    struct view v;
    int fd = make_recording(300);
    int again = dup(fd);
    assert_int_equal(view_open_fd(&v, fd), 0);
    uint64_t chunks = v.base.header->chunks;
    v.base.header->chunks = UINT64_MAX;
    assert_int_equal(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0), -EBADMSG);
    v.base.header->chunks = chunks + 1000; /* claimed, but missing */
    assert_true(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0) > 0);
    view_close(&v);

    /* The chunk with our snapshots claims to be fuller than possible: nothing is written to it. */
    assert_int_equal(view_open_fd(&v, again), 0);
    assert_true(view_snapshot(&v, PIANO_SNAPSHOT_ASKED, 0) > 0);
    uint64_t before = v.snapshot_chunks;
    v.base.log->used = UINT64_MAX - 7;
    struct view w;
    assert_int_equal(view_open_fd(&w, dup(again)), 0);
    assert_true(view_snapshot(&w, PIANO_SNAPSHOT_ASKED, 0) > 0);
    assert_int_equal(w.snapshot_chunks, before + 1);
    view_close(&w);
    view_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_doubles),
        cmocka_unit_test(interval_doubles_sooner_for_large_snapshots),
        cmocka_unit_test(a_fixed_interval_stays),
        cmocka_unit_test(hundreds_of_thousands_of_snapshots_are_small),
        cmocka_unit_test(snapshots_stop_at_the_limit_of_chunks),
        cmocka_unit_test(snapshot_is_refused_while_another_tool_holds_the_lock),
        cmocka_unit_test(what_is_not_a_recording_is_refused),
        cmocka_unit_test(odd_files_do_not_crash_the_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
