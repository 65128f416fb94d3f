/* usage: heap_load MODE PAIRS THREADS [turns]. Allocates and frees, and prints the CPU time.
 *
 *   live       random sizes of 16 to 256 bytes; each block replaces one of 20 000 live blocks of the thread, so that
 *              the caches are as busy as in a real program
 *   immediate  the block is freed at once: the allocator's fastest path
 *
 * Every malloc is 12 calls deep, on one of 64 paths that change now and then; compiled without frame pointers. Prints
 * the CPU ns per pair and the peak memory.
 *
 * With `turns`, every other thousand pairs call glibc directly, bypass the preloaded library, and are timed separately: same heap,
 * same addresses, same period. Not for other allocators, because glibc cannot free their blocks. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 20000, DEPTH = 12 };

enum { TURN = 4096 };

static int immediate, turns;
static uint64_t pairs;
static double spent[2]; /* ns of all threads: in preloaded functions, and in glibc's */
static double count[2]; /* of pairs */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int is_plain;

void *__libc_malloc(size_t size);
void __libc_free(void *p);

static void *leaf(size_t size)
{
    return is_plain ? __libc_malloc(size) : malloc(size);
}

static void give(void *p)
{
    if (is_plain)
        __libc_free(p);
    else
        free(p);
}

static double cpu_ns(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
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
    double mine[2] = {0, 0}, mine_count[2] = {0, 0}, begun = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        if (turns && i % TURN == 0) {
            double now = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
            if (i > pairs / 10) { /* only after the heap has grown */
                mine[is_plain] += now - begun;
                mine_count[is_plain] += TURN;
            }
            begun = now;
            is_plain = !is_plain;
        }
        uint64_t r = step(&x);
        void *p = deep(16 + (r >> 8) % 241, (unsigned)(i >> 10) & 63, DEPTH - 9);
        *(char *)p = 1;
        if (immediate) {
            give(p);
            continue;
        }
        void **slot = &slots[(r >> 20) % SLOTS];
        give(*slot);
        *slot = p;
    }
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2; i++) {
        spent[i] += mine[i];
        count[i] += mine_count[i];
    }
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i]);
    free(slots);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 2;
    turns = argc == 5;
    immediate = strcmp(argv[1], "immediate") == 0;
    pairs = strtoull(argv[2], NULL, 10);
    uintptr_t threads = strtoul(argv[3], NULL, 10);
    pthread_t ids[16];
    for (uintptr_t i = 1; i < threads && i < 16; i++)
        pthread_create(&ids[i], NULL, work, (void *)(i + 1));
    work((void *)1);
    for (uintptr_t i = 1; i < threads && i < 16; i++)
        pthread_join(ids[i], NULL);
    printf("ns %.3f\n", cpu_ns(CLOCK_PROCESS_CPUTIME_ID) / (double)(pairs * threads));
    if (turns)
        printf("plain %.3f\nratio %.5f\n", spent[1] / count[1],
               spent[0] / count[0] / (spent[1] / count[1]));
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            printf("kb %lu\n", strtoul(line + 6, NULL, 10));
    return 0;
}
