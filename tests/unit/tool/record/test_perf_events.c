/* Records of perf events: valid ones are read, hostile ones are rejected, rings wrap around. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tool/record/perf_event.h"
#include "tool/record/perf_ring.h"

/* A record under construction. */
struct made {
    unsigned char bytes[70000];
    size_t size;
};

static void put(struct made *m, const void *bytes, size_t size)
{
    assert_true(m->size + size <= sizeof m->bytes);
    memcpy(m->bytes + m->size, bytes, size);
    m->size += size;
}

static void put32(struct made *m, uint32_t value)
{
    put(m, &value, sizeof value);
}

static void put64(struct made *m, uint64_t value)
{
    put(m, &value, sizeof value);
}

static void begin(struct made *m, uint32_t type, uint16_t misc)
{
    const struct perf_event_header h = {.type = type, .misc = misc};
    m->size = 0;
    put(m, &h, sizeof h);
}

static void end(struct made *m)
{
    uint16_t size = (uint16_t)m->size;
    memcpy(m->bytes + offsetof(struct perf_event_header, size), &size, sizeof size);
}

static void put_identity(struct made *m, uint32_t pid, uint32_t tid, uint64_t time, uint32_t cpu)
{
    put32(m, pid);
    put32(m, tid);
    put64(m, time);
    put32(m, cpu);
    put32(m, 0);
    end(m);
}

/* A sample with STACK bytes of stack, CHAIN addresses of the kernel, and registers with the value 1000 + their bit. */
static void make_sample(struct made *m, uint64_t time, size_t stack, size_t chain, uint64_t copied)
{
    uint64_t mask = perf_event_registers();
    begin(m, PERF_RECORD_SAMPLE, 0);
    put32(m, 7);
    put32(m, 8);
    put64(m, time);
    put32(m, 1);
    put32(m, 0);
    put64(m, 10101010);
    if (chain) {
        put64(m, chain);
        for (size_t i = 0; i < chain; i++)
            put64(m, UINT64_C(0xffffffff81000000) + i);
    }
    put64(m, PERF_SAMPLE_REGS_ABI_64);
    for (unsigned bit = 0; bit < 64; bit++) {
        if (mask >> bit & 1)
            put64(m, 1000 + bit);
    }
    put64(m, stack);
    for (size_t i = 0; i < stack / 8; i++)
        put64(m, i);
    if (stack)
        put64(m, copied);
    end(m);
}

static void whole_sample_is_read(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    make_sample(&m, 12345, 256, 3, 128);
    assert_int_equal(perf_event_time(m.bytes, m.size), 12345);
    assert_true(perf_event_parse(m.bytes, m.size, true, &e));
    assert_true(e.pid == 7 && e.tid == 8 && e.time == 12345 && e.cpu == 1 && e.period == 10101010);
    assert_true(e.has_regs && e.chain_count == 3);
    for (size_t i = 0; i < UNWIND_REGISTERS; i++)
        assert_int_equal(e.regs.general[i], 1000 + unwind_perf_order[i]);
    assert_int_equal(e.regs.pc, 1000 + unwind_perf_order[UNWIND_REGISTERS]);
    assert_int_equal(e.memory.start, e.regs.general[UNWIND_SP]);
    assert_int_equal(e.memory.size, 128);
    assert_int_equal(e.memory.bytes[8], 1);
}

static void copied_stack_is_limited_to_the_record(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    make_sample(&m, 1, 64, 0, UINT64_MAX);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_int_equal(e.memory.size, 64);
}

static void a_thread_without_registers(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    begin(&m, PERF_RECORD_SAMPLE, 0);
    for (int i = 0; i < 4; i++)
        put64(&m, 5);
    put64(&m, PERF_SAMPLE_REGS_ABI_NONE);
    put64(&m, 0);
    end(&m);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_false(e.has_regs);
    assert_int_equal(e.memory.size, 0);
}

/* Every length that is too short, in memory that ends there, so that a sanitizer detects reads after it. */
static void short_records_are_refused(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    make_sample(&m, 1, 64, 3, 64);
    for (size_t size = 0; size < m.size; size++) {
        unsigned char *exact = malloc(size + 1);
        memcpy(exact, m.bytes, size);
        assert_false(perf_event_parse(exact, size, true, &e));
        (void)perf_event_time(exact, size);
        free(exact);
    }
}

static void records_with_wrong_lengths_are_refused(void **state)
{
    (void)state;
    const size_t chain_at = 8 + 32;
    const size_t stack_at = chain_at + 8 + 24 + 8 + 8 * (size_t)(UNWIND_REGISTERS + 1);
    const uint64_t lies[] = {UINT64_MAX, UINT64_MAX / 8, 1 << 20, (uint64_t)1 << 63, 65};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct made m;
        struct perf_event e;
        make_sample(&m, 1, 64, 3, 64);
        memcpy(m.bytes + chain_at, &lies[i], sizeof lies[i]);
        assert_false(perf_event_parse(m.bytes, m.size, true, &e));
        make_sample(&m, 1, 64, 3, 64);
        memcpy(m.bytes + stack_at, &lies[i], sizeof lies[i]);
        assert_false(perf_event_parse(m.bytes, m.size, true, &e));
    }
}

static void mappings_names_and_tasks(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    begin(&m, PERF_RECORD_MMAP2, 0);
    put32(&m, 7);
    put32(&m, 8);
    put64(&m, 0x400000);
    put64(&m, 0x1000);
    put64(&m, 0x2000);
    put64(&m, 0);
    put64(&m, 99);
    put64(&m, 0);
    put64(&m, 0);
    put(&m, "/bin/x\0\0", 8);
    put_identity(&m, 7, 8, 555, 2);
    assert_int_equal(perf_event_time(m.bytes, m.size), 555);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_string_equal(e.name, "/bin/x");
    assert_true(e.start == 0x400000 && e.end == 0x401000 && e.offset == 0x2000 && e.inode == 99);

    m.size -= 24 + 8;
    put(&m, "/bin/xyz", 8); /* no end */
    put_identity(&m, 7, 8, 555, 2);
    assert_false(perf_event_parse(m.bytes, m.size, false, &e));

    begin(&m, PERF_RECORD_FORK, 0);
    put32(&m, 10);
    put32(&m, 7);
    put32(&m, 11);
    put32(&m, 8);
    put64(&m, 556);
    put_identity(&m, 7, 8, 556, 2);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_true(e.pid == 10 && e.parent_pid == 7 && e.tid == 11 && e.parent_tid == 8);

    begin(&m, PERF_RECORD_LOST, 0);
    put64(&m, 1);
    put64(&m, 42);
    put_identity(&m, 7, 8, 557, 2);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_int_equal(e.lost, 42);

    begin(&m, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT);
    put_identity(&m, 7, 8, 558, 3);
    assert_true(perf_event_parse(m.bytes, m.size, false, &e));
    assert_true(e.misc & PERF_RECORD_MISC_SWITCH_OUT && e.tid == 8 && e.cpu == 3);

    begin(&m, 9999, 0);
    put_identity(&m, 7, 8, 559, 3);
    assert_false(perf_event_parse(m.bytes, m.size, false, &e));
}

static void a_mapping_round_the_end_of_memory(void **state)
{
    (void)state;
    struct made m;
    struct perf_event e;
    begin(&m, PERF_RECORD_MMAP2, 0);
    put64(&m, 0);
    put64(&m, UINT64_MAX - 10);
    put64(&m, 100);
    for (int i = 0; i < 5; i++)
        put64(&m, 0);
    put(&m, "/x\0\0\0\0\0\0", 8);
    put_identity(&m, 1, 1, 1, 0);
    assert_false(perf_event_parse(m.bytes, m.size, false, &e));
}

/* A ring in plain memory. */
enum { RING = 4096 };
struct ring {
    struct perf_event_mmap_page page;
    unsigned char data[RING];
    unsigned char joined[PERF_RECORD_MOST];
    struct perf_ring r;
};

static void ring_init(struct ring *ring)
{
    memset(ring, 0, sizeof *ring);
    ring->r = (struct perf_ring){
        .page = &ring->page, .data = ring->data, .size = RING, .joined = ring->joined};
}

static void ring_put(struct ring *ring, const struct made *m)
{
    for (size_t i = 0; i < m->size; i++)
        ring->data[(ring->page.data_head + i) % RING] = m->bytes[i];
    ring->page.data_head += m->size;
}

static void ring_buffer_wraps_around(void **state)
{
    (void)state;
    static struct ring ring;
    struct made m;
    uint64_t written = 0;
    uint64_t seen = 0;
    ring_init(&ring);
    for (int round = 0; round < 1000; round++) {
        while (ring.page.data_head - ring.page.data_tail < RING - 800) {
            written++;
            make_sample(&m, written, written % 7 * 8, written % 3, written % 7 * 8);
            ring_put(&ring, &m);
        }
        perf_ring_look(&ring.r);
        size_t size;
        const unsigned char *at;
        while ((at = perf_ring_peek(&ring.r, &size))) {
            struct perf_event e;
            seen++;
            assert_true(perf_event_parse(at, size, seen % 3 > 0, &e));
            assert_int_equal(e.time, seen);
            perf_ring_next(&ring.r, size);
            perf_ring_give_back(&ring.r);
        }
        assert_int_equal(seen, written);
        assert_int_equal(ring.page.data_tail, ring.page.data_head);
    }
    assert_int_equal(ring.r.bad, 0);
}

static void ring_buffer_of_garbage_is_abandoned(void **state)
{
    (void)state;
    static struct ring ring;
    struct made m;
    size_t size;
    const uint16_t lies[] = {0, 7, 65535};
    for (size_t i = 0; i < 3; i++) {
        ring_init(&ring);
        make_sample(&m, 1, 64, 0, 64);
        memcpy(m.bytes + offsetof(struct perf_event_header, size), &lies[i], sizeof lies[i]);
        ring_put(&ring, &m);
        perf_ring_look(&ring.r);
        assert_null(perf_ring_peek(&ring.r, &size));
        assert_int_equal(ring.r.bad, m.size);
        make_sample(&m, 2, 64, 0, 64); /* and later records are read again */
        ring_put(&ring, &m);
        perf_ring_look(&ring.r);
        assert_non_null(perf_ring_peek(&ring.r, &size));
    }
    ring_init(&ring);
    ring.page.data_head = 10 * RING; /* more than it can hold */
    perf_ring_look(&ring.r);
    assert_null(perf_ring_peek(&ring.r, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_sample_is_read),
        cmocka_unit_test(copied_stack_is_limited_to_the_record),
        cmocka_unit_test(a_thread_without_registers),
        cmocka_unit_test(short_records_are_refused),
        cmocka_unit_test(records_with_wrong_lengths_are_refused),
        cmocka_unit_test(mappings_names_and_tasks),
        cmocka_unit_test(a_mapping_round_the_end_of_memory),
        cmocka_unit_test(ring_buffer_wraps_around),
        cmocka_unit_test(ring_buffer_of_garbage_is_abandoned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
