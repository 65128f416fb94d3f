/* Walks from garbage: they may end anywhere, but must not crash. Also walks through code without tables. */
#include <alloca.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "target/unwind/walk.h"
#include "walks.h"

static struct piano__walker walker;
static volatile int turns;

/* An ordinary function, for pcs inside a function. */
static FRAME void sibling(int n)
{
    if (n > 0)
        sibling(n - 1);
    turns++;
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static uintptr_t random_word(uint32_t *random, uintptr_t near)
{
    uintptr_t wide = (uintptr_t)next_random(random) << 32 | next_random(random);
    switch (next_random(random) % 6) {
    case 0:
        return wide;
    case 1:
        return next_random(random) % 100;
    case 2:
        return (uintptr_t)sibling + next_random(random) % 64;
    case 3:
        return (uintptr_t)qsort + next_random(random) % 64;
    case 4:
        return UINTPTR_MAX - next_random(random) % 64;
    default:
        return near + (next_random(random) % 8192 & ~7u);
    }
}

static void registers_of_garbage(void **state)
{
    (void)state;
    uint32_t random = 5;
    struct piano__walk out;
    errno = 77;
    for (int i = 0; i < 50000; i++) {
        struct piano__regs regs;
        regs.pc = random_word(&random, (uintptr_t)&out);
        for (unsigned k = 0; k < 32; k++)
            regs.general[k] = random_word(&random, (uintptr_t)&out);
        piano__walk_from(&walker, &regs, &out);
        assert_true(out.depth >= 1 && out.depth <= PIANO_MAX_FRAMES);
    }
    assert_int_equal(errno, 77);
}

/* Memory that looks like a stack in some places. */
static void stacks_of_garbage(void **state)
{
    (void)state;
    enum { WORDS = 512, ROUNDS = 5000 };
    uint32_t random = 6;
    uintptr_t words[WORDS];
    uintptr_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    munmap((char *)page + 4096, 4096); /* the memory after it is not mapped */
    struct piano__walk out;
    for (int i = 0; i < ROUNDS; i++) {
        uintptr_t *at = i % 4 ? words : page;
        for (unsigned k = 0; k < WORDS; k++)
            at[k] = random_word(&random, (uintptr_t)at);
        struct piano__regs regs = {.pc = (uintptr_t)sibling + next_random(&random) % 32};
        for (unsigned k = 0; k < 32; k++)
            regs.general[k] = (uintptr_t)at + (next_random(&random) % 4096 & ~7u);
        piano__walk_from(&walker, &regs, &out);
        assert_true(out.depth >= 1 && out.depth <= PIANO_MAX_FRAMES);
    }
    munmap(page, 4096);
}

/* A function that damages the frames above it, and repairs them before it returns. */
static FRAME void damage_and_walk(uint32_t *random)
{
#ifdef __x86_64__
    uintptr_t *from = __builtin_frame_address(0);
#else
    uintptr_t *from =
        __builtin_dwarf_cfa(); /* the frame address is below this function's own variables */
#endif
    uintptr_t kept[64];
    struct piano__walk out;
    copy_raw(kept, from, 64);
    for (int i = 0; i < 500; i++) {
        for (int k = 0; k < 4; k++) {
            unsigned at = next_random(random) % 64;
            poke_raw(&from[at], random_word(random, (uintptr_t)from));
        }
        piano__walk_here(&walker, &out);
        copy_raw(from, kept, 64);
    }
    assert_true(out.depth <= PIANO_MAX_FRAMES);
}

static void damaged_frames(void **state)
{
    (void)state;
    uint32_t random = 7;
    for (int i = 0; i < 20; i++)
        damage_and_walk(&random);
}

#ifdef __x86_64__
/* A frame that uses rbp; returns the pc after its call. */
static FRAME void with_alloca(struct piano__walk *out, size_t bytes)
{
    char *room = alloca(bytes);
    memset(room, 1, bytes);
    piano__walk_here(&walker, out);
    turns += room[0];
}

/* Two frames that each claim to be the other's caller. */
static void a_stack_that_goes_in_circles(void **state)
{
    (void)state;
    struct piano__walk out;
    uintptr_t words[4];
    with_alloca(&out, 64);
    struct piano__regs regs = {.pc = out.pcs[0]};
    words[0] = (uintptr_t)words; /* saved rbp */
    words[1] = out.pcs[0];
    regs.general[6] = (uintptr_t)words;
    regs.general[7] = (uintptr_t)words - 64;
    piano__walk_from(&walker, &regs, &out);
    assert_int_equal(out.flags, PIANO_STACK_LOST);
    assert_int_equal(out.depth, 2);
}

/* Machine code without a table: call *%rdi with a valid frame pointer, or with garbage in it. */
static void code_without_tables(void **state)
{
    (void)state;
    static const char framed[] = "\x55\x48\x89\xe5\xff\xd7\x5d\xc3"; /* push, mov, call, pop, ret */
    static const char frameless[] = "\x55\x31\xed\xff\xd7\x5d\xc3";  /* xor %ebp, %ebp instead */
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    memcpy(page, framed, sizeof framed - 1);
    memcpy(page + 64, frameless, sizeof frameless - 1);
    assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
    void (*call_framed)(void (*)(void)) = (void (*)(void (*)(void)))(uintptr_t)page;
    void (*call_frameless)(void (*)(void)) = (void (*)(void (*)(void)))(uintptr_t)(page + 64);

    struct taken taken = {.walker = &walker};
    take_into(&taken);
    unsigned plain = taken.walk.depth;
    call_framed(take_walk);
    assert_int_equal(taken.walk.flags, PIANO_STACK_BY_FP);
    assert_int_equal(taken.walk.depth, plain + 1); /* the machine code instead of take_into */
    assert_int_equal(taken.walk.pcs[1], (uintptr_t)page + 6);
    call_frameless(take_walk);
    assert_int_equal(taken.walk.flags, PIANO_STACK_LOST);
    assert_int_equal(taken.walk.depth, 2);
    assert_int_equal(taken.walk.pcs[1], (uintptr_t)page + 64 + 5);
    munmap(page, 4096);
}
#endif

int main(void)
{
    sibling(1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_of_garbage),
        cmocka_unit_test(stacks_of_garbage),
        cmocka_unit_test(damaged_frames),
#ifdef __x86_64__
        cmocka_unit_test(a_stack_that_goes_in_circles),
        cmocka_unit_test(code_without_tables),
#endif
    };
    return cmocka_run_group_tests_name("unwind from garbage", tests, NULL, NULL);
}
