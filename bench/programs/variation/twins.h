/* Functions without chains. Each has an uninstrumented twin, which the program times alternately with it. */
#ifndef PIANO_BENCH_TWINS_H
#define PIANO_BENCH_TWINS_H

#include <math.h>

/* Adds up the times of a twin's calls. */
struct twin {
    double sum, least;
    int turns;
};

TWIN static void timed(struct twin *t, void (*call)(void))
{
    double start = clock_ns(CLOCK_MONOTONIC);
    call();
    double took = clock_ns(CLOCK_MONOTONIC) - start;
    t->least = t->turns == 0 || took < t->least ? took : t->least;
    t->sum += took;
    t->turns++;
}

/* `fn` for self time, `total` for self time with that of all callees. CALLS per turn. */
TWIN static void tell_twin(const char *kind, const char *name, long calls, const struct twin *t,
                           const struct twin *less)
{
    double least = less ? t->least - less->least : t->least;
    double sum = less ? t->sum - less->sum : t->sum;
    printf("%s %s %ld %.0f %.0f %.0f\n", kind, name, calls * t->turns, least * t->turns, sum, sum);
}

/* Reads one element of a table per call. Calls overlap in the processor, so one call alone takes longer than it adds. */
enum { ELEMENTS = 5000 };
static double table[ELEMENTS];

FN void sine_step(int i)
{
    table[i] = sin(table[i]);
}

TWIN static void twin_of_sine_step(int i)
{
    table[i] = sin(table[i]);
}

TWIN static void twin_of_empty_step(int i)
{
    __asm__ __volatile__("" ::"r"(i) : "memory");
}

FN void wave(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        sine_step(i);
}

TWIN static void twin_of_wave(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        twin_of_sine_step(i);
}

TWIN static void twin_of_empty_wave(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        twin_of_empty_step(i);
}

TWIN static void fill_table(void)
{
    for (int i = 0; i < ELEMENTS; i++)
        table[i] = 0.5 + i * 1e-4;
}

TWIN static void run_sine(int frames)
{
    struct twin whole = {0}, empty = {0};
    for (int i = 0; i < frames; i++) {
        fill_table();
        wave();
        fill_table();
        timed(&whole, twin_of_wave);
        timed(&empty, twin_of_empty_wave);
    }
    tell_twin("fn", "sine_step", ELEMENTS, &whole, &empty);
    tell_twin("total", "wave", 1, &whole, NULL);
}

/* Eight sorts, of 7.7 million comparisons together at full scale. */
static int *numbers, *sorted;
static int number_count;
static long compared;

FN int cmp(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

TWIN static int twin_of_cmp(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

TWIN static int counting_cmp(const void *a, const void *b)
{
    compared++;
    return twin_of_cmp(a, b);
}

FN void sort_all(void)
{
    qsort(sorted, (size_t)number_count, sizeof *sorted, cmp);
}

TWIN static void twin_of_sort_all(void)
{
    qsort(sorted, (size_t)number_count, sizeof *sorted, twin_of_cmp);
}

TWIN static void shuffle(void)
{
    memcpy(sorted, numbers, (size_t)number_count * sizeof *sorted);
}

TWIN static void run_qsort(int thousands)
{
    struct twin whole = {0};
    number_count = thousands * 1000 / 8 + 1;
    numbers = malloc((size_t)number_count * sizeof *numbers);
    sorted = malloc((size_t)number_count * sizeof *sorted);
    if (!numbers || !sorted)
        abort();
    for (int i = 0; i < number_count; i++)
        numbers[i] = (int)(next_random() >> 1);
    shuffle();
    qsort(sorted, (size_t)number_count, sizeof *sorted, counting_cmp);
    for (int i = 0; i < 8; i++) {
        shuffle();
        sort_all();
        shuffle();
        timed(&whole, twin_of_sort_all);
    }
    printf("calls cmp %ld\n", compared * 8);
    tell_twin("total", "sort_all", 1, &whole, NULL);
}

/* 50 000 pairs of malloc and free per call. The twin calls glibc's functions, not a profiler's. */
enum { PAIRS = 50000 };
void *__libc_malloc(size_t size);
void __libc_free(void *p);

#define ALLOCATIONS(malloc, free)                                                                  \
    for (int i = 0; i < PAIRS; i++) {                                                              \
        void *p = malloc(64);                                                                      \
        __asm__ __volatile__("" ::"r"(p) : "memory");                                              \
        free(p);                                                                                   \
    }

FN void allocates(void){ALLOCATIONS(malloc, free)}

TWIN static void twin_of_allocates(void){ALLOCATIONS(__libc_malloc, __libc_free)}

TWIN static void run_allocs(int frames)
{
    struct twin whole = {0};
    for (int i = 0; i < frames; i++) {
        allocates();
        timed(&whole, twin_of_allocates);
    }
    tell_twin("fn", "allocates", 1, &whole, NULL);
}

#endif
