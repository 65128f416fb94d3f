/* Three ways for free() to detect that a block was not sampled, each in a minimal interposer:
 *
 *   -DWAY=1  counts of sampled blocks per page of memory (what piano does, heap/filter.h)
 *   -DWAY=2  a Bloom filter: 2^20 bits, all bits of the address mixed, two bits in one cache line; cleared and filled again
 *            from the table of sampled blocks when a quarter of it is set
 *   -DWAY=3  sampled blocks begin at a page boundary (memalign), other blocks rarely do
 *
 * Samples one block per 512 KB, at fixed distances, and keeps it in a small table under a lock. The cost of sampled
 * blocks is not compared here. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { RATE = 512 * 1024, TABLE = 1 << 16, BITS = 1 << 20 };

#define IE __attribute__((tls_model("initial-exec")))
static __thread int64_t left IE = RATE;

static void *(*next_malloc)(size_t);
static void *(*next_memalign)(size_t, size_t);
static void (*next_free)(void *);
static uintptr_t table[TABLE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void find(void)
{
    void *found = dlsym(RTLD_NEXT, "malloc");
    memcpy(&next_malloc, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "memalign");
    memcpy(&next_memalign, &found, sizeof found);
    found = dlsym(RTLD_NEXT, "free");
    memcpy(&next_free, &found, sizeof found);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

#if WAY == 1
static uint8_t pages[1 << 16];
static unsigned page_of(const void *p)
{
    return (unsigned)((uintptr_t)p >> 12 ^ (uintptr_t)p >> 28) & 0xffff;
}
static int may_be_sampled(const void *p)
{
    return pages[page_of(p)];
}
static void filter_add(const void *p)
{
    pages[page_of(p)]++;
}
static void filter_remove(const void *p)
{
    pages[page_of(p)]--;
}
#elif WAY == 2
static uint64_t words[BITS / 64];
static unsigned set;
static uint64_t *word_of(uint64_t hash)
{
    return &words[hash >> 50];
}
static uint64_t bits_of(uint64_t hash)
{
    return (uint64_t)1 << (hash & 63) | (uint64_t)1 << (hash >> 6 & 63);
}
static int may_be_sampled(const void *p)
{
    uint64_t hash = mix((uintptr_t)p) * 0x9e3779b97f4a7c15u;
    return (*word_of(hash) & bits_of(hash)) == bits_of(hash);
}
static void put(uintptr_t p)
{
    uint64_t hash = mix(p) * 0x9e3779b97f4a7c15u;
    *word_of(hash) |= bits_of(hash);
}
static void filter_add(const void *p)
{
    put((uintptr_t)p);
    if (++set < BITS / 8)
        return;
    memset(words, 0, sizeof words);
    for (int i = 0; i < TABLE; i++)
        if (table[i] > 1)
            put(table[i]);
    set = 0;
}
static void filter_remove(const void *p)
{
    (void)p;
}
#else
static int may_be_sampled(const void *p)
{
    return ((uintptr_t)p & 4095) == 0;
}
static void filter_add(const void *p)
{
    (void)p;
}
static void filter_remove(const void *p)
{
    (void)p;
}
#endif

static __attribute__((noinline)) void *sample(size_t size)
{
    left = RATE;
    void *p = WAY == 3 ? next_memalign(4096, size) : next_malloc(size);
    pthread_mutex_lock(&lock);
    for (uint64_t i = mix((uintptr_t)p);; i++) {
        if (table[i % TABLE] > 1)
            continue;
        table[i % TABLE] = (uintptr_t)p;
        break;
    }
    filter_add(p);
    pthread_mutex_unlock(&lock);
    return p;
}

static __attribute__((noinline)) void forget(void *p)
{
    pthread_mutex_lock(&lock);
    for (uint64_t i = mix((uintptr_t)p); table[i % TABLE]; i++) {
        if (table[i % TABLE] != (uintptr_t)p)
            continue;
        table[i % TABLE] = 1;
        filter_remove(p);
        break;
    }
    pthread_mutex_unlock(&lock);
    next_free(p);
}

void *malloc(size_t size)
{
    if (!next_malloc)
        find();
    if ((left -= (int64_t)size) > 0)
        return next_malloc(size);
    return sample(size);
}

void free(void *p)
{
    if (p && may_be_sampled(p))
        forget(p);
    else
        next_free(p);
}
