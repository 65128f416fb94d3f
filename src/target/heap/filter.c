/* The counts; see filter.h. */
#include "target/heap/filter.h"

uint8_t piano__filter[PIANO_FILTER_PLACES];

static void change(const void *p, int by)
{
    uint8_t *count = &piano__filter[piano__filter_place((uintptr_t)p)];
    /* Relaxed, as in filter.h: a free of P happens after its allocation. */
    uint8_t old = __atomic_load_n(count, __ATOMIC_RELAXED);
    do {
        if (old == UINT8_MAX || (old == 0 && by < 0))
            return; /* saturated, or never added, which only an invalid free can cause */
    } while (!__atomic_compare_exchange_n(count, &old, (uint8_t)(old + by), true, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
}

void piano__filter_fill(const void *p)
{
    for (int i = 0; i < UINT8_MAX; i++)
        change(p, 1);
}

void piano__filter_begin(void)
{
    piano__filter_fill((const void *)UINTPTR_MAX);
}

/* Saturated counters belong to memory that is always looked up. */
void piano__filter_forget(void)
{
    for (int i = 0; i < PIANO_FILTER_PLACES; i++) {
        /* Relaxed: as in change(). */
        uint8_t *count = &piano__filter[i];
        uint8_t old = __atomic_load_n(count, __ATOMIC_RELAXED);
        if (old != 0 && old != UINT8_MAX)
            __atomic_store_n(count, 0, __ATOMIC_RELAXED);
    }
}

void piano__filter_add(const void *p)
{
    change(p, 1);
}

void piano__filter_remove(const void *p)
{
    change(p, -1);
}
