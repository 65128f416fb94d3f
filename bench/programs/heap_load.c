/* Allocates and frees as told, and says how long that took: `heap_load MODE PAIRS THREADS`.
 *
 *   live       random sizes of 16 to 256 bytes, each replaces one of 20 000 live blocks of the thread: the caches are as
 *              busy as in a real program
 *   immediate  the block is freed at once: the allocator's fastest path
 *
 * Every malloc is 12 calls deep, on one of 64 paths that change now and then; compiled without frame pointers. Prints the CPU ns of a pair, and the most
 * memory it had. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 20000, DEPTH = 12 };

static int immediate;
static uint64_t pairs;

static void *leaf(size_t size)
{
    return malloc(size);
}

/* Two ways at each of the last six calls make 64 paths. */
#define LEVEL(n, below)                                                                            \
    static __attribute__((noinline)) void *a##n(size_t size, unsigned path);                       \
    static __attribute__((noinline)) void *b##n(size_t size, unsigned path);                       \
    static __attribute__((noinline)) void *a##n(size_t size, unsigned path)                        \
    {                                                                                              \
        void *p = path & 1 ? a##below(size, path >> 1) : b##below(size, path >> 1);                \
        __asm__ __volatile__("" ::"r"(p) : "memory");                                              \
        return p;                                                                                  \
    }                                                                                              \
    static __attribute__((noinline)) void *b##n(size_t size, unsigned path)                        \
    {                                                                                              \
        void *p = path & 1 ? b##below(size, path >> 1) : a##below(size, path >> 1);                \
        __asm__ __volatile__("" ::"r"(p) : "memory");                                              \
        return p;                                                                                  \
    }

static __attribute__((noinline)) void *a0(size_t size, unsigned path)
{
    void *p = leaf(size + (path & 0));
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}
static __attribute__((noinline)) void *b0(size_t size, unsigned path)
{
    void *p = leaf(size + (path & 0));
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}
LEVEL(1, 0)
LEVEL(2, 1)
LEVEL(3, 2)
LEVEL(4, 3)
LEVEL(5, 4)
LEVEL(6, 5)

static uint64_t step(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static __attribute__((noinline)) void *deep(size_t size, unsigned path, int more)
{
    void *p = more ? deep(size, path, more - 1) : a6(size, path);
    __asm__ __volatile__("" ::"r"(p) : "memory");
    return p;
}

static void *work(void *arg)
{
    uint64_t x = (uintptr_t)arg * 0x9e3779b97f4a7c15u;
    void **slots = calloc(SLOTS, sizeof *slots);
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t r = step(&x);
        void *p = deep(16 + (r >> 8) % 241, (unsigned)(i >> 10) & 63, DEPTH - 9);
        *(char *)p = 1;
        if (immediate) {
            free(p);
            continue;
        }
        void **slot = &slots[(r >> 20) % SLOTS];
        free(*slot);
        *slot = p;
    }
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    free(slots);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    immediate = strcmp(argv[1], "immediate") == 0;
    pairs = strtoull(argv[2], NULL, 10);
    uintptr_t threads = strtoul(argv[3], NULL, 10);
    pthread_t ids[16];
    for (uintptr_t i = 1; i < threads && i < 16; i++)
        pthread_create(&ids[i], NULL, work, (void *)(i + 1));
    work((void *)1);
    for (uintptr_t i = 1; i < threads && i < 16; i++)
        pthread_join(ids[i], NULL);
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    printf("ns %.3f\n", ((double)ts.tv_sec * 1e9 + (double)ts.tv_nsec) / (double)(pairs * threads));
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("kb %lu\n", strtoul(line + 6, NULL, 10));
    return 0;
}
