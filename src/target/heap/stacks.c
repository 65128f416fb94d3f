/* A stack is looked up by its hash in an open-addressing index (private memory) of numbers, and compared frame by frame with
 * the record in the recording. A new one is added under a lock, which is only ever tried for (sys/lock.h): a thread that
 * cannot have it in time gives its sample to stack 0. Entries of the index are published when all they lead to is in place, so
 * look-ups need no lock.
 *
 * With a new stack come the modules its frames lie in, so that the recording can name them later.
 *
 * GENERATIONS. Addresses change their meaning when a library is unloaded and another comes to lie where it was. A range that a
 * recorded module has left is remembered (`left`). When a frame in it is met again, it is looked at: the same
 * library as before changes nothing; another begins a new generation of the range. A stack has the newest generation of
 * the ranges its frames are in, as part of its identity; most are in none and have 0, for ever. A module is good for
 * the stacks of generations `since` to `until`. */
#include "target/heap/stacks.h"

#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"
#include "target/sys/recording.h"
#include "target/unwind/module.h"

enum { MAX_STACKS = 1 << 18, MAX_MODULES = 4096, MAX_LEFT = 64, MAX_LOADED = 4096 };

struct entry {
    uint64_t hash; /* 0: empty */
    struct piano__stack *stack;
};

static struct {
    struct entry *index;
    uint32_t places; /* a power of two */
    uint32_t most;
    uint32_t count;
    uint32_t lock;
    uint32_t generation;
    struct piano__log log;
    struct piano__log module_log;
    struct piano__totals *totals[MAX_STACKS / PIANO_TOTALS_PER_CHUNK + 1];
    struct piano__module *modules[MAX_MODULES];
    uint32_t module_count;
    struct left {
        uintptr_t start, end; /* only ever widened */
        uint32_t generation;
        uint32_t is_open;           /* nobody has looked who is there since it was left */
        struct piano__module *last; /* who was */
    } left[MAX_LEFT];
    uint32_t left_count;
} stacks;

static struct piano__totals *make_totals(uint32_t chunk)
{
    struct piano__chunk *c = piano__recording_claim(PIANO_CHUNK_TOTALS, chunk);
    if (!c)
        return NULL;
    __atomic_store_n(&stacks.totals[chunk], (struct piano__totals *)(void *)(c + 1),
                     __ATOMIC_RELEASE);
    return stacks.totals[chunk];
}

bool piano__stacks_init(uint32_t most)
{
    stacks.most = most < MAX_STACKS ? most : MAX_STACKS - 1;
    stacks.places = 1024;
    while (stacks.places < 2 * stacks.most)
        stacks.places *= 2;
    stacks.index = piano__memory_map(stacks.places * sizeof *stacks.index);
    return stacks.index && make_totals(0);
}

void piano__stacks_forget(void)
{
    if (stacks.index)
        piano__memory_unmap(stacks.index, stacks.places * sizeof *stacks.index);
    memset(&stacks, 0, sizeof stacks);
}

struct piano__totals *piano__stacks_totals(uint32_t id)
{
    struct piano__totals *chunk =
        __atomic_load_n(&stacks.totals[id / PIANO_TOTALS_PER_CHUNK], __ATOMIC_ACQUIRE);
    return &chunk[id % PIANO_TOTALS_PER_CHUNK];
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static struct piano__heap_stats *stats(void)
{
    return &piano__recording.view.header->stats;
}

static bool try_lock(void)
{
    return piano__lock_try(&stacks.lock);
}

static void unlock(void)
{
    piano__lock_release(&stacks.lock);
}

static uint64_t hash_of(const struct piano__walk *walk, uint32_t generation)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ (uint64_t)generation << 32 ^ walk->flags;
    for (uint32_t i = 0; i < walk->depth; i++) {
        hash = (hash ^ walk->pcs[i]) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
    }
    return hash ? hash : 1;
}

static bool is_same(const struct piano__stack *s, const struct piano__walk *walk,
                    uint32_t generation)
{
    return s->depth == walk->depth && s->flags == walk->flags && s->generation == generation &&
           memcmp(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]) == 0;
}

/* The stack, or NULL; then *PLACE is the empty entry where it belongs, NULL when there is none left. */
static struct piano__stack *find(const struct piano__walk *walk, uint64_t hash, uint32_t generation,
                                 struct entry **place)
{
    for (uint32_t i = 0; i < stacks.places; i++) {
        struct entry *e = &stacks.index[((uint32_t)(hash >> 32) + i) & (stacks.places - 1)];
        *place = e;
        uint64_t theirs = __atomic_load_n(&e->hash, __ATOMIC_ACQUIRE);
        if (theirs == 0)
            return NULL;
        if (theirs == hash && is_same(e->stack, walk, generation))
            return e->stack;
        count(&stats()->collisions);
    }
    *place = NULL;
    return NULL;
}

static struct piano__module *module_of_locked(uintptr_t pc)
{
    for (uint32_t i = 0; i < stacks.module_count; i++) {
        struct piano__module *m = stacks.modules[i];
        if (pc >= m->start && pc < m->end && m->until == UINT32_MAX)
            return m;
    }
    return NULL;
}

/* A library that was loaded as ./x.so has that for a name: made whole, as long as the directory is still the same. */
static const char *whole_path_locked(const char *path)
{
    static char whole[PATH_MAX];
    long len = path[0] != '/' && path[0] != '[' ? syscall(SYS_getcwd, whole, sizeof whole) : 0;
    if (len <= 0 || (size_t)len + strlen(path) + 1 > sizeof whole)
        return path;
    whole[len - 1] = '/';
    memcpy(whole + len, path, strlen(path) + 1);
    return whole;
}

/* The newest generation of the ranges that overlap [START, END), or FLOOR. */
static uint32_t newest_of(uintptr_t start, uintptr_t end, uint32_t floor)
{
    uint32_t many = __atomic_load_n(&stacks.left_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < many; i++) {
        const struct left *l = &stacks.left[i];
        uint32_t generation = __atomic_load_n(&l->generation, __ATOMIC_ACQUIRE);
        if (generation > floor && start < __atomic_load_n(&l->end, __ATOMIC_RELAXED) &&
            end > __atomic_load_n(&l->start, __ATOMIC_RELAXED))
            floor = generation;
    }
    return floor;
}

static void add_module_locked(uintptr_t pc)
{
    struct piano__module_info info;
    if (stacks.module_count == MAX_MODULES || !piano__module_find(pc, &info))
        return;
    const char *path = whole_path_locked(info.path);
    size_t len = strlen(path) + 1;
    uint32_t bytes = (uint32_t)(sizeof(struct piano__module) + len + 7) & ~7u;
    struct piano__module *m = piano__log_room(&stacks.module_log, PIANO_CHUNK_MODULES, bytes);
    if (!m)
        return;
    *m = (struct piano__module){.bytes = bytes,
                                .since = newest_of(info.start, info.end, 0),
                                .until = UINT32_MAX,
                                .build_id_len = info.build_id_len,
                                .start = info.start,
                                .end = info.end,
                                .bias = info.bias};
    memcpy(m->build_id, info.build_id, sizeof m->build_id);
    memcpy(m->path, path, len);
    piano__log_commit(&stacks.module_log, bytes);
    stacks.modules[stacks.module_count++] = m;
}

/* PC is in L, on a stack, so what is there now stays while this looks. */
static void settle_locked(struct left *l, uintptr_t pc)
{
    struct piano__module_info info;
    struct piano__module *m = l->last;
    if (!l->is_open || !piano__module_find(pc, &info))
        return;
    bool is_same = m->start == info.start && m->end == info.end && m->bias == info.bias &&
                   m->build_id_len == info.build_id_len &&
                   memcmp(m->build_id, info.build_id, sizeof m->build_id) == 0 &&
                   (m->build_id_len > 0 || strcmp(m->path, whole_path_locked(info.path)) == 0);
    if (!is_same) {
        uint32_t now = ++stacks.generation;
        __atomic_store_n(&m->until, now, __ATOMIC_RELAXED);
        __atomic_store_n(&l->generation, now, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&l->is_open, 0, __ATOMIC_RELEASE);
}

static void settle(uintptr_t pc)
{
    uint32_t many = __atomic_load_n(&stacks.left_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < many; i++) {
        struct left *l = &stacks.left[i];
        if (!__atomic_load_n(&l->is_open, __ATOMIC_ACQUIRE) ||
            pc < __atomic_load_n(&l->start, __ATOMIC_RELAXED) ||
            pc >= __atomic_load_n(&l->end, __ATOMIC_RELAXED) || !try_lock())
            continue;
        settle_locked(l, pc);
        unlock();
    }
}

static uint32_t generation_of(const struct piano__walk *walk)
{
    uint32_t generation = 0;
    if (__atomic_load_n(&stacks.left_count, __ATOMIC_ACQUIRE) == 0)
        return 0;
    for (uint32_t i = 0; i < walk->depth; i++) {
        settle(walk->pcs[i] - 1);
        generation = newest_of(walk->pcs[i] - 1, walk->pcs[i], generation);
    }
    return generation;
}

/* The record and its sums, ready to be published; NULL when there is no room. */
static struct piano__stack *add_locked(const struct piano__walk *walk, uint64_t hash,
                                       uint32_t generation)
{
    uint32_t id = stacks.count + 1;
    uint32_t bytes = (uint32_t)(sizeof(struct piano__stack) + walk->depth * sizeof(uint64_t));
    if (id >= stacks.most)
        return NULL;
    if (!stacks.totals[id / PIANO_TOTALS_PER_CHUNK] && !make_totals(id / PIANO_TOTALS_PER_CHUNK))
        return NULL;
    struct piano__stack *s = piano__log_room(&stacks.log, PIANO_CHUNK_STACKS, bytes);
    if (!s)
        return NULL;
    for (uint32_t i = 0; i < walk->depth; i++)
        if (!module_of_locked(walk->pcs[i] - 1))
            add_module_locked(walk->pcs[i] - 1);
    *s = (struct piano__stack){.bytes = bytes,
                               .id = id,
                               .flags = walk->flags,
                               .depth = walk->depth,
                               .generation = generation,
                               .hash = hash};
    memcpy(s->pcs, walk->pcs, walk->depth * sizeof walk->pcs[0]);
    piano__log_commit(&stacks.log, bytes);
    stacks.count = id;
    return s;
}

bool piano__stacks_prepare(const struct piano__walk *walk)
{
    for (uint32_t i = 0; i < walk->depth; i++)
        if (!module_of_locked(walk->pcs[i] - 1))
            add_module_locked(walk->pcs[i] - 1);
    if (!module_of_locked(getauxval(AT_ENTRY)))
        add_module_locked(getauxval(AT_ENTRY)); /* the program itself, which has not begun yet */
    return piano__log_room(&stacks.log, PIANO_CHUNK_STACKS, 0) != NULL;
}

static uint32_t add(const struct piano__walk *walk, uint64_t hash, uint32_t generation)
{
    if (!try_lock())
        return 0;
    struct entry *place;
    struct piano__stack *s =
        find(walk, hash, generation, &place); /* somebody may have been quicker */
    if (!s && place) {
        s = add_locked(walk, hash, generation);
        if (s) {
            place->stack = s;
            count(&stats()->stacks);
            /* Pairs with the acquire in `find`. */
            __atomic_store_n(&place->hash, hash, __ATOMIC_RELEASE);
        }
    }
    uint32_t id = s ? s->id : 0;
    unlock();
    return id;
}

uint32_t piano__stacks_intern(const struct piano__walk *walk)
{
    uint32_t generation = generation_of(walk);
    uint64_t hash = hash_of(walk, generation);
    struct entry *place;
    const struct piano__stack *s = find(walk, hash, generation, &place);
    uint32_t id = s ? s->id : place ? add(walk, hash, generation) : 0;
    if (id == 0)
        count(&stats()->dropped_stacks);
    return id;
}

/* The modules that are loaded now: where each begins. */
struct loaded {
    uintptr_t starts[MAX_LOADED];
    uint32_t count;
};

static int add_loaded(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct loaded *loaded = arg;
    uintptr_t start = UINTPTR_MAX;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        uintptr_t at = (info->dlpi_addr + info->dlpi_phdr[i].p_vaddr) & ~(uintptr_t)4095;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && at < start)
            start = at;
    }
    if (loaded->count == MAX_LOADED)
        return 1;
    loaded->starts[loaded->count++] = start;
    return 0;
}

static bool is_loaded(const struct loaded *loaded, const struct piano__module *m)
{
    for (uint32_t i = 0; i < loaded->count; i++)
        if (loaded->starts[i] == m->start)
            return true;
    return loaded->count == MAX_LOADED; /* nobody knows */
}

/* Without room, the last range grows over it: more stacks get new numbers than need to. */
static void add_left_locked(struct piano__module *m)
{
    struct left *l = NULL;
    for (uint32_t i = 0; i < stacks.left_count && !l; i++)
        if (stacks.left[i].start == m->start && stacks.left[i].end == m->end)
            l = &stacks.left[i];
    if (!l && stacks.left_count < MAX_LEFT) {
        l = &stacks.left[stacks.left_count];
        *l = (struct left){.start = m->start, .end = m->end};
        __atomic_store_n(&stacks.left_count, stacks.left_count + 1, __ATOMIC_RELEASE);
    }
    if (!l) {
        l = &stacks.left[MAX_LEFT - 1];
        __atomic_store_n(&l->start, m->start < l->start ? m->start : l->start, __ATOMIC_RELAXED);
        __atomic_store_n(&l->end, m->end > l->end ? m->end : l->end, __ATOMIC_RELAXED);
    }
    l->last = m;
    __atomic_store_n(&l->is_open, 1, __ATOMIC_RELEASE);
}

/* The loader is asked first and for itself: its lock and ours are never held together, and nothing of a module is touched that
 * another thread may be unloading. */
void piano__stacks_unloaded(void)
{
    static struct loaded loaded;
    static uint32_t asking;
    if (!stacks.index || !piano__lock_try(&asking))
        return;
    loaded.count = 0;
    dl_iterate_phdr(add_loaded, &loaded);
    if (try_lock()) {
        for (uint32_t i = 0; i < stacks.module_count; i++)
            if (stacks.modules[i]->until == UINT32_MAX && !is_loaded(&loaded, stacks.modules[i]))
                add_left_locked(stacks.modules[i]);
        unlock();
    }
    piano__lock_release(&asking);
}
