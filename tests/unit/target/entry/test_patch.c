/* Replaces functions of this program on the machine that it runs on.
 *
 * not under thread: TSan keeps no shadow of code, and the test writes code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "target/entry/patch.h"

/* On separate pages, because the code that changes a page must not be on it. */
__asm__(".pushsection apart, \"ax\"\n.balign 65536\n.popsection");
#define NOINLINE __attribute__((noinline, noclone, used, section("apart"), aligned(16)))

/* Functions of different shapes. */
static volatile int shared = 7;

NOINLINE int empty_function(int a);
NOINLINE int empty_function(int a)
{
    return a;
}

NOINLINE int reads_a_variable(int a);
NOINLINE int reads_a_variable(int a)
{
    return shared * 100 + a;
}

NOINLINE int calls_another(int a);
NOINLINE int calls_another(int a)
{
    int sum = reads_a_variable(a) + 1;
    return sum + atoi("3");
}

NOINLINE int has_a_loop(int a);
NOINLINE int has_a_loop(int a)
{
    int sum = 0;
    for (int i = 0; i < a; i++)
        sum += shared;
    return sum;
}

NOINLINE int recursive(int a);
NOINLINE int recursive(int a)
{
    return a > 0 ? recursive(a - 1) + shared : 0;
}

typedef int function(int a);
static function *const functions[] = {empty_function, reads_a_variable, calls_another, has_a_loop,
                                      recursive};
enum { COUNT = sizeof functions / sizeof *functions };

static uintptr_t next[COUNT];
static int calls[COUNT];

#define HOOK(i)                                                                                    \
    static int hook_##i(int a)                                                                     \
    {                                                                                              \
        calls[i]++;                                                                                \
        return ((function *)next[i])(a);                                                           \
    }
HOOK(0)
HOOK(1)
HOOK(2)
HOOK(3) HOOK(4) static function *const hooks[COUNT] = {hook_0, hook_1, hook_2, hook_3, hook_4};

static struct piano__symbols symbols;

static size_t find(uintptr_t at, uintptr_t *after)
{
    size_t size = 0;
    *after = symbols.code_high;
    for (size_t i = 0; i < symbols.count; i++) {
        uintptr_t here = piano__symbols_code(&symbols, i);
        size = here == at ? symbols.list[i].st_size : size;
        *after = here > at && here < *after ? here : *after;
    }
    return size;
}

static struct piano__patch_entry entry_of(size_t i)
{
    uintptr_t after, at = (uintptr_t)functions[i];
    size_t size = find(at, &after);
    assert_true(size > 0);
    return (struct piano__patch_entry){at, size, after - at, (uintptr_t)hooks[i], &next[i]};
}

static void run(int results[COUNT])
{
    memset(calls, 0, sizeof calls);
    for (size_t i = 0; i < COUNT; i++)
        results[i] = functions[i](5);
}

static void *sleeps(void *arg)
{
    (void)!read(*(int *)arg, &(char){0}, 1);
    return NULL;
}

static void test_symbols(void **state)
{
    bool found = false;
    (void)state;
    for (size_t i = 0; i < symbols.count; i++)
        found |= strcmp(piano__symbols_name(&symbols, i), "has_a_loop") == 0 &&
                 piano__symbols_code(&symbols, i) == (uintptr_t)has_a_loop;
    assert_true(found);
}

static void test_refuses_with_threads(void **state)
{
    int ends[2], before[COUNT], after[COUNT];
    pthread_t thread;
    (void)state;
    const struct piano__patch_entry one = entry_of(0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, sleeps, &ends[0]), 0);
    run(before);
    assert_int_equal(piano__patch(&(struct piano__patch){&one, 1, NULL, 0}, &symbols), -EBUSY);
    run(after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(calls[0], 0);
    assert_int_equal(write(ends[1], "", 1), 1);
    pthread_join(thread, NULL);
}

static void test_all_or_nothing(void **state)
{
    int results[COUNT];
    (void)state;
    piano__patch_threads_for_tests = true; /* qemu and ThreadSanitizer have one already */
    struct piano__patch_entry all[2] = {entry_of(0), entry_of(1)};
    all[1].size = 2; /* its end is incomplete */
    all[1].room = 2;
    assert_int_equal(piano__patch(&(struct piano__patch){all, 2, NULL, 0}, &symbols), -EILSEQ);
    run(results);
    assert_int_equal(calls[0] + calls[1], 0);
}

static void test_replaces(void **state)
{
    int before[COUNT], after[COUNT];
    struct piano__patch_entry all[COUNT];
    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        all[i] = entry_of(i);
    run(before);
    for (size_t i = 0; i < COUNT; i++)
        assert_int_equal(calls[i], 0);
    assert_int_equal(piano__patch(&(struct piano__patch){all, COUNT, NULL, 0}, &symbols), 0);
    run(after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(calls[0], 1);
    assert_int_equal(calls[1], 2); /* calls_another() calls it directly */
    assert_int_equal(calls[2], 1);
    assert_int_equal(calls[3], 1);
    assert_true(calls[4] >= 1); /* a compiler may turn it into a loop */
}

/* The memory afterwards: no page is writable and executable. */
static void test_no_page_is_both(void **state)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    (void)state;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps))
        assert_null(strstr(line, "wx"));
    fclose(maps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols),         cmocka_unit_test(test_refuses_with_threads),
        cmocka_unit_test(test_all_or_nothing),  cmocka_unit_test(test_replaces),
        cmocka_unit_test(test_no_page_is_both),
    };
    int err = piano__symbols_open(&symbols);
    if (err != 0) {
        fprintf(stderr, "cannot read the symbols of this program: %s\n", strerror(-err));
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
