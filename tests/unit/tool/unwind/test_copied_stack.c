/* Walks over copied stacks: they agree with libgcc's walk in the program at the same time, and read nothing
 * outside of the copy for any bytes and registers. */
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "emulated.h"
#include "tool/unwind/walk.h"
#include "temp.h"

enum { COPY = 32 * 1024, MOST = 200 };

/* One state of this thread: its registers, a copy of its stack, and libgcc's walk. */
struct moment {
    struct unwind_regs regs;
    unsigned char *bytes;
    size_t size;
    void *expected[MOST];
    int depth;
};

static struct moment now;

static uintptr_t stack_end(void)
{
    pthread_attr_t attr;
    void *low;
    size_t size;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attr), 0);
    pthread_attr_getstack(&attr, &low, &size);
    pthread_attr_destroy(&attr);
    return (uintptr_t)low + size;
}

/* All of a stack, including parts that a sanitizer forbids. */
static __attribute__((noinline, no_sanitize("address"))) void
copy_stack(unsigned char *to, uintptr_t from, size_t size)
{
    const volatile unsigned char *at = (const volatile unsigned char *)from;
    for (size_t i = 0; i < size; i++)
        to[i] = at[i];
}

static __attribute__((noinline)) void take_moment(void)
{
    ucontext_t context;
    assert_int_equal(getcontext(&context), 0);
    const char *saved = (const char *)&context;
    memcpy(&now.regs.pc, saved + piano__machine_saved(UNWIND_REGISTERS), 8);
    for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
        memcpy(&now.regs.general[i], saved + piano__machine_saved(i), 8);
    uintptr_t sp = now.regs.general[UNWIND_SP];
    size_t there = stack_end() - sp;
    now.size = there < COPY ? there : COPY;
    free(now.bytes);
    now.bytes = malloc(now.size); /* exact size, so that a sanitizer detects reads after it */
    copy_stack(now.bytes, sp, now.size);
    now.depth = backtrace(now.expected, MOST);
    while (now.depth > 1 && now.expected[1] != __builtin_return_address(0)) {
        now.depth--; /* a sanitizer's backtrace function comes first */
        memmove(now.expected, now.expected + 1, (size_t)now.depth * sizeof now.expected[0]);
    }
}

/* The address space of this process. */
static void read_own(struct space *s, struct codes *codes, uint32_t *generations)
{
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "re");
    assert_non_null(f);
    space_init(s, getpid(), generations);
    while (fgets(line, sizeof line, f)) {
        unsigned long start;
        unsigned long end;
        unsigned long offset;
        unsigned long inode;
        char rights[8];
        char path[2048] = "";
        if (sscanf(line, "%lx-%lx %7s %lx %*s %lu %2047s", &start, &end, rights, &offset, &inode,
                   path) < 5 ||
            rights[2] != 'x')
            continue;
        struct code *code =
            path[0] == '/' || strcmp(path, "[vdso]") == 0 ? codes_get(codes, path, inode) : NULL;
        space_map(s, start, end, offset, code, generations);
    }
    fclose(f);
}

static void walk_now(size_t size, struct unwind_stack *out)
{
    static uint32_t generations = SPACE_FIRST_GENERATION;
    struct unwinder *u = unwinder_new();
    struct space s;
    assert_non_null(u);
    read_own(&s, unwinder_codes(u), &generations);
    const struct unwind_memory memory = {now.bytes, now.regs.general[UNWIND_SP], size};
    out->depth = out->flags = 0;
    unwind(u, &s, &now.regs, &memory, out);
    space_release(&s);
    unwinder_free(u);
}

/* The first frame is take_moment, at slightly different instructions. Interrupted code has 1 more in our walk. */
static void assert_as_libgcc(const struct unwind_stack *s)
{
    assert_int_equal(s->flags, 0);
    assert_int_equal(s->depth, now.depth);
    for (int i = 1; i < now.depth; i++)
        assert_in_range(s->pcs[i] - (uintptr_t)now.expected[i], 0, 1);
}

static volatile int sink;

static __attribute__((noinline)) void descend(int depth)
{
    volatile char room[32];
    room[depth % 32] = 1;
    if (depth == 0)
        take_moment();
    else
        descend(depth - 1);
    sink += room[0];
}

static int compare(const void *a, const void *b)
{
    if (now.depth == 0)
        take_moment();
    return *(const int *)a - *(const int *)b;
}

static void plain_calls_are_walked(void **state)
{
    (void)state;
    struct unwind_stack s;
    descend(20);
    walk_now(now.size, &s);
    assert_true(s.depth > 22);
    assert_as_libgcc(&s);
}

static void stack_through_libc_is_walked(void **state)
{
    (void)state;
    struct unwind_stack s;
    int numbers[] = {5, 3, 1, 4};
    now.depth = 0;
    qsort(numbers, 4, sizeof numbers[0], compare);
    walk_now(now.size, &s);
    assert_as_libgcc(&s);
}

static void *on_thread(void *unused)
{
    descend(5);
    return unused;
}

static void stack_of_another_thread_is_walked(void **state)
{
    (void)state;
    struct unwind_stack s;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, on_thread, NULL), 0);
    pthread_join(thread, NULL);
    walk_now(now.size, &s);
    assert_as_libgcc(&s);
}

static void on_signal(int number)
{
    (void)number;
    descend(2);
}

static void stack_through_a_signal_handler_is_walked(void **state)
{
    (void)state;
    need_vdso();
    struct unwind_stack s;
#ifdef __SANITIZE_THREAD__
    skip(); /* a sanitizer reports malloc in a handler, and raise() delivers the signal here at once */
#endif
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    walk_now(now.size, &s);
    assert_as_libgcc(&s);
}

static void stack_beyond_the_maximum_depth_is_truncated(void **state)
{
    (void)state;
    struct unwind_stack s;
    descend(PIANO_MAX_FRAMES + 10);
    walk_now(now.size, &s);
    assert_int_equal(s.depth, PIANO_MAX_FRAMES);
    assert_int_equal(s.flags, PIANO_STACK_FULL);
}

/* With any length of the copy, the found frames are right, and the rest is reported as missing. */
static void walk_is_lost_at_the_end_of_the_copy(void **state)
{
    (void)state;
    descend(20);
    size_t whole = now.size;
    unsigned char *all = now.bytes;
    for (size_t size = 0; size < 2048 && size < whole; size += 8) {
        struct unwind_stack s;
        now.bytes = malloc(size + 1);
        memcpy(now.bytes, all, size);
        walk_now(size, &s);
        free(now.bytes);
        now.bytes = all;
        assert_int_equal(s.flags, PIANO_STACK_LOST);
        assert_true(s.depth >= 1 && s.depth < (uint32_t)now.depth);
        for (uint32_t i = 1; i < s.depth; i++)
            assert_int_equal(s.pcs[i], (uintptr_t)now.expected[i]);
    }
}

static void walks_over_garbage_end(void **state)
{
    (void)state;
    struct unwind_stack s;
    unsigned seed = 1;
    descend(10);
    struct unwind_regs good = now.regs;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 40; i++) {
            size_t at = (size_t)rand_r(&seed) % (now.size / 8);
            uint64_t word = (uint64_t)rand_r(&seed) << (rand_r(&seed) % 34);
            memcpy(now.bytes + at * 8, &word, 8);
        }
        now.regs = good;
        if (round % 3 == 0)
            now.regs.general[rand_r(&seed) % UNWIND_REGISTERS] = (uint64_t)rand_r(&seed) << 20;
        if (round % 5 == 0)
            now.regs.pc = (uint64_t)rand_r(&seed) << 16;
        walk_now(now.size, &s);
        assert_in_range(s.depth, 1, PIANO_MAX_FRAMES);
    }
}

/* Code without a file, with a chain of frame pointers. */
static void code_without_tables_is_walked_by_frame_pointer(void **state)
{
    (void)state;
    enum { FRAMES = 5, WORDS = 64 };
    static uint64_t words[WORDS];
    const uint64_t at = 0x7f0000001000;
    const uint64_t code = 0x10000000;
    uint32_t generations = SPACE_FIRST_GENERATION;
    struct unwind_stack s = {.depth = 0};
    struct space space;
    struct unwinder *u = unwinder_new();
    space_init(&space, 1, &generations);
    space_map(&space, code, code + 0x1000, 0, NULL, &generations);
    for (uint64_t i = 0; i < FRAMES; i++) {
        words[8 * i] = at + 8 * 8 * (i + 1);
        words[8 * i + 1] = code + 16 * (i + 1);
    }
    words[8 * FRAMES] = 0;
    words[8 * FRAMES + 1] = 0;
    struct unwind_regs regs = {.pc = code};
    regs.general[UNWIND_SP] = regs.general[UNWIND_FP] = at;
    const struct unwind_memory memory = {(const unsigned char *)words, at, sizeof words};
    unwind(u, &space, &regs, &memory, &s);
    assert_int_equal(s.flags, PIANO_STACK_BY_FP);
    assert_int_equal(s.depth, FRAMES + 1);
    assert_int_equal(s.pcs[FRAMES], code + 16 * FRAMES);
    words[8 * 2] = at; /* a chain that goes backwards */
    s.depth = s.flags = 0;
    unwind(u, &space, &regs, &memory, &s);
    assert_true(s.flags & PIANO_STACK_LOST);
    space_release(&space);
    unwinder_free(u);
}

/* Spaces ------------------------------------------------------------------------------------------------ */

static void mappings_replace_each_other(void **state)
{
    (void)state;
    uint32_t generations = SPACE_FIRST_GENERATION;
    struct space s;
    struct codes codes;
    codes_init(&codes);
    space_init(&s, 1, &generations);
    space_map(&s, 0x1000, 0x9000, 0x1000, NULL, &generations);
    space_map(&s, 0x3000, 0x4000, 0, NULL, &generations); /* in the middle */
    assert_int_equal(s.count, 3);
    assert_int_equal(space_find(&s, &codes, 0x4000)->offset, 0x4000);
    assert_int_equal(space_find(&s, &codes, 0x3fff)->offset, 0);
    space_map(&s, 0x2000, 0x5000, 0, NULL, &generations);
    assert_int_equal(s.count, 3);
    space_map(&s, 0, 0x20000, 0, NULL, &generations);
    assert_int_equal(s.count, 1);
    space_map(&s, 5, 5, 0, NULL, &generations);
    space_map(&s, 6, 5, 0, NULL, &generations);
    assert_int_equal(s.count, 1);
    assert_null(space_find(&s, &codes, 0x20000));
    space_release(&s);
    codes_release(&codes);
}

/* A mapping in the middle of another one adds two. */
static void a_copy_has_room_for_two_more_mappings(void **state)
{
    (void)state;
    uint32_t generations = SPACE_FIRST_GENERATION;
    struct space parent, child;
    space_init(&parent, 1, &generations);
    space_map(&parent, 0x1000, 0x9000, 0, NULL, &generations);
    assert_true(space_copy(&child, &parent, 2, &generations));
    space_map(&child, 0x3000, 0x4000, 0, NULL, &generations);
    assert_int_equal(child.count, 3);
    space_release(&parent);
    space_release(&child);
}

static void generations_tell_spaces_apart(void **state)
{
    (void)state;
    uint32_t generations = SPACE_FIRST_GENERATION;
    struct space parent;
    struct space child;
    struct codes codes;
    codes_init(&codes);
    space_init(&parent, 1, &generations);
    space_map(&parent, 0x1000, 0x2000, 0, NULL, &generations);
    space_find(&parent, &codes, 0x1000)->is_told = true;
    assert_true(space_copy(&child, &parent, 2, &generations));
    assert_int_equal(child.generation, parent.generation);
    uint32_t before = parent.generation;
    space_map(&child, 0x5000, 0x6000, 0, NULL, &generations);
    assert_int_not_equal(child.generation, before);
    assert_false(space_find(&child, &codes, 0x1000)->is_told);
    assert_true(space_find(&parent, &codes, 0x1000)->is_told);
    space_map(&parent, 0x5000, 0x7000, 0, NULL, &generations);
    assert_int_not_equal(parent.generation, before);
    assert_int_not_equal(parent.generation, child.generation);
    before = parent.generation;
    space_map(&parent, 0x9000, 0xa000, 0, NULL,
              &generations); /* now it has its own, and changes no reported mapping */
    assert_int_equal(parent.generation, before);
    space_clear(&parent, &generations);
    assert_int_equal(parent.count, 0);
    assert_int_not_equal(parent.generation, before);
    space_release(&parent);
    space_release(&child);
    codes_release(&codes);
}

static void odd_files_are_refused(void **state)
{
    (void)state;
    struct codes codes;
    char name[256];
    temp_name(name, sizeof name, "piano-test-XXXXXX");
    int fd = mkstemp(name);
    struct stat st;
    codes_init(&codes);
    assert_true(fd >= 0 && write(fd, "\177ELF and then nothing", 21) == 21);
    assert_int_equal(fstat(fd, &st), 0);
    close(fd);
    const char *const paths[] = {"/dev/zero", "/", "/nowhere/at/all", "relative", "",
                                 "[heap]",    name};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_false(codes_read(&codes, codes_get(&codes, paths[i], 0), 0));
    /* The right name of a different file. */
    assert_false(codes_read(&codes, codes_get(&codes, "/proc/self/exe", 1), 0));
    assert_true(codes_read(&codes, codes_get(&codes, "/proc/self/exe", 0), 0));
    assert_ptr_equal(codes_get(&codes, "/nowhere/at/all", 0),
                     codes_get(&codes, "/nowhere/at/all", 0));
    unlink(name);
    codes_release(&codes);
}

static int release(void **state)
{
    (void)state;
    free(now.bytes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_calls_are_walked),
        cmocka_unit_test(stack_through_libc_is_walked),
        cmocka_unit_test(stack_of_another_thread_is_walked),
        cmocka_unit_test(stack_through_a_signal_handler_is_walked),
        cmocka_unit_test(stack_beyond_the_maximum_depth_is_truncated),
        cmocka_unit_test(walk_is_lost_at_the_end_of_the_copy),
        cmocka_unit_test(walks_over_garbage_end),
        cmocka_unit_test(code_without_tables_is_walked_by_frame_pointer),
        cmocka_unit_test(mappings_replace_each_other),
        cmocka_unit_test(a_copy_has_room_for_two_more_mappings),
        cmocka_unit_test(generations_tell_spaces_apart),
        cmocka_unit_test(odd_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
