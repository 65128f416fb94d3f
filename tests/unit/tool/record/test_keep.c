/* Names appended to a recording: all of them or none, once, and never where they would do harm. The test makes the recording; its
 * only module is this program. */
#include <setjmp.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/load/recording.h"
#include "tool/record/append.h"
#include "tool/record/keep.h"
#include "tool/profile/kept.h"
#include "tool/symbol/symbol.h"
#include "temp.h"

enum { CHUNKS = 2, LEN = PIANO_REC_HEADER_BYTES + CHUNKS * PIANO_REC_CHUNK_BYTES };

static _Alignas(8) char image[LEN];
static char path[256], own[4096];
static uint64_t bias;
static struct run_error error;

__attribute__((noinline)) static int landmark(int x)
{
    return x * 7 + 1;
}

static int find_bias(struct dl_phdr_info *info, size_t size, void *ctx)
{
    (void)size;
    *(uint64_t *)ctx = info->dlpi_addr;
    return 1;
}

static char *chunk(int number, uint32_t type, uint64_t used)
{
    char *at = image + PIANO_REC_HEADER_BYTES + (size_t)number * PIANO_REC_CHUNK_BYTES;
    struct piano__chunk c = {.type = type, .ready = 1, .used = used};
    memcpy(at, &c, sizeof(c));
    return at + sizeof(c);
}

static struct piano__rec_header *header(void)
{
    return (struct piano__rec_header *)(void *)image;
}

static void write_image(void)
{
    int fd = open(path, O_WRONLY | O_TRUNC);
    assert_true(fd >= 0 && write(fd, image, LEN) == LEN);
    close(fd);
}

/* A stack in `landmark`. */
static int make_image(void **state)
{
    (void)state;
    uint64_t pc = (uintptr_t)landmark + 1;
    struct piano__module m = {
        .until = UINT32_MAX, .start = pc - 64, .end = pc + 4096, .bias = bias};
    struct piano__stack s = {.bytes = sizeof(s) + sizeof(pc), .id = 1, .depth = 1};
    memset(image, 0, LEN);
    *header() = (struct piano__rec_header){.version = PIANO_REC_VERSION,
                                           .header_bytes = PIANO_REC_HEADER_BYTES,
                                           .chunk_bytes = PIANO_REC_CHUNK_BYTES,
                                           .state = PIANO_REC_ENDED,
                                           .chunks = CHUNKS,
                                           .rate = 1};
    memcpy(image, PIANO_REC_MAGIC, 8);
    m.bytes = (uint32_t)((sizeof(m) + strlen(own) + 8) & ~(size_t)7);
    char *at = chunk(0, PIANO_CHUNK_MODULES, m.bytes);
    memcpy(at, &m, sizeof(m));
    memcpy(at + sizeof(m), own, strlen(own));
    at = chunk(1, PIANO_CHUNK_STACKS, s.bytes);
    memcpy(at, &s, sizeof(s));
    memcpy(at + sizeof(s), &pc, sizeof(pc));
    write_image();
    chmod(path, 0600);
    return 0;
}

static bool is_unchanged(void)
{
    static char now[LEN + 1];
    int fd = open(path, O_RDONLY);
    ssize_t got = read(fd, now, sizeof(now));
    close(fd);
    return got == LEN && memcmp(now, image, LEN) == 0;
}

static int keep(bool (*is_asked)(void))
{
    struct symbols *symbols = symbols_new();
    int err = keep_names(path, symbols, is_asked);
    symbols_free(symbols);
    return err;
}

static void names_are_appended_once(void **state)
{
    (void)state;
    struct recording rec;
    struct stat first, second;
    const struct piano__symbol_frame *frames;
    uint32_t texts;
    assert_int_equal(keep(NULL), 0);
    assert_int_equal(stat(path, &first), 0);
    assert_int_equal(first.st_size, LEN + PIANO_REC_CHUNK_BYTES);
    assert_int_equal(keep(NULL), 0);
    assert_int_equal(stat(path, &second), 0);
    assert_int_equal(first.st_size, second.st_size);
    assert_int_equal(recording_load(&rec, path, &error), 0);
    assert_int_equal(rec.gap_count, 0);
    assert_non_null(rec.symbols);
    uint32_t module = recording_symbol_module(rec.symbols, own, NULL, 0);
    assert_int_not_equal(module, 0);
    assert_int_equal(
        recording_symbol_frames(rec.symbols, module, (uintptr_t)landmark - bias, &frames, &texts),
        1);
    assert_string_equal(recording_symbol_text(rec.symbols, frames[0].function), "landmark");
    assert_int_equal(recording_symbol_frames(rec.symbols, module, 1, &frames, &texts), 0);
    assert_int_equal(recording_symbol_frames(rec.symbols, module + 1, 1, &frames, &texts), 0);
    assert_null(recording_symbol_text(rec.symbols, 999));
    recording_unload(&rec);
}

static bool yes(void)
{
    return true;
}

static void nothing_is_written_when_interrupted(void **state)
{
    (void)state;
    assert_int_equal(keep(yes), -EINTR);
    assert_true(is_unchanged());
}

static void nothing_is_written_when_the_recording_is_full(void **state)
{
    (void)state;
    header()->max_chunks = CHUNKS;
    write_image();
    assert_int_equal(keep(NULL), -ENOSPC);
    assert_true(is_unchanged());
}

/* The tool that holds the lock may be about to write to the same place. */
static void nothing_is_written_while_another_tool_holds_the_lock(void **state)
{
    (void)state;
    int fd = open(path, O_RDWR);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_int_equal(keep(NULL), -EWOULDBLOCK);
    close(fd);
    assert_true(is_unchanged());
    assert_int_equal(keep(NULL), 0);
}

static void nothing_is_written_without_names(void **state)
{
    (void)state;
    memset(image + PIANO_REC_HEADER_BYTES + sizeof(struct piano__chunk) +
               offsetof(struct piano__module, path),
           'x', strlen(own)); /* a missing file */
    write_image();
    assert_int_equal(keep(NULL), 0);
    assert_true(is_unchanged());
}

static void chunks_are_appended_only_after_the_last_one(void **state)
{
    static char data[PIANO_REC_CHUNK_BYTES];
    struct stat st;
    (void)state;
    assert_int_equal(append_chunks(path, CHUNKS - 1, data, 1), -EAGAIN);
    assert_int_equal(append_chunks(path, CHUNKS + 1, data, 1), -EBADMSG);
    assert_true(is_unchanged());
    assert_int_equal(append_chunks("/nowhere/file", CHUNKS, data, 1), -ENOENT);
    chmod(path, 0400);
    assert_int_not_equal(append_chunks(path, CHUNKS, data, 1), 0);
    assert_true(is_unchanged());
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(names_are_appended_once, make_image),
        cmocka_unit_test_setup(nothing_is_written_when_interrupted, make_image),
        cmocka_unit_test_setup(nothing_is_written_when_the_recording_is_full, make_image),
        cmocka_unit_test_setup(nothing_is_written_while_another_tool_holds_the_lock, make_image),
        cmocka_unit_test_setup(nothing_is_written_without_names, make_image),
        cmocka_unit_test_setup(chunks_are_appended_only_after_the_last_one, make_image),
    };
    int fd = mkstemp(temp_name(path, sizeof path, "piano-keep-XXXXXX"));
    ssize_t len = readlink("/proc/self/exe", own, sizeof(own) - 1);
    if (fd < 0 || len <= 0 || landmark(1) != 8)
        return 1;
    close(fd);
    dl_iterate_phdr(find_bias, &bias);
    int status = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return status;
}
