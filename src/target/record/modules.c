/* The log of modules. A module is recorded when one of its addresses is first used, under a lock
 * with a timeout (sys/lock.h).
 *
 * GENERATIONS. Addresses change their meaning when a library is unloaded and another one is
 * loaded in its place. The range of a recorded module that was unloaded is kept in `left`. When
 * a frame in it is found again, the module there is checked. The same library as before changes
 * nothing. Another library begins a new generation of the range. The generation of a stack is
 * the newest generation of the ranges of its frames, and part of its identity. Most stacks are
 * in no such range and have generation 0. A module is valid for the stacks of generations
 * `since` to `until`. */
#include "target/record/modules.h"

#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/python.h"
#include "target/record/gate.h"
#include "target/record/session.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"

enum { MAX_MODULES = 4096, MAX_LEFT = 64, MAX_LOADED = 4096 };

static struct {
    uint32_t lock;
    uint32_t asking; /* lock of piano__modules_unloaded() */
    uint32_t generation;
    uint32_t count;
    struct piano__log log;
    struct piano__module *all[MAX_MODULES];
    struct left {
        uintptr_t start, end; /* never shrinks */
        uint32_t generation;
        uint32_t is_open;           /* not checked since the module was unloaded */
        struct piano__module *last; /* the module that was there */
    } left[MAX_LEFT];
    uint32_t left_count;
    char path[PATH_MAX]; /* scratch buffer */
} modules;

static bool try_lock(void)
{
    return piano__lock_try(&modules.lock);
}

static void unlock(void)
{
    piano__lock_release(&modules.lock);
}

static struct piano__module *module_of_locked(uintptr_t pc)
{
    for (uint32_t i = 0; i < modules.count; i++) {
        struct piano__module *m = modules.all[i];
        if (pc >= m->start && pc < m->end && m->until == UINT32_MAX)
            return m;
    }
    return NULL;
}

const char *piano__module_path(const struct piano__module_info *info, char *room)
{
    const char *path = info->path;
    long len = path[0] != '/' && path[0] != '[' ? syscall(SYS_getcwd, room, PATH_MAX) : 0;
    if (len <= 0 || (size_t)len + strlen(path) + 1 > PATH_MAX)
        return path;
    room[len - 1] = '/';
    memcpy(room + len, path, strlen(path) + 1);
    return room;
}

uint32_t piano__module_bytes(const char *path)
{
    return (uint32_t)(sizeof(struct piano__module) + strlen(path) + 1 + 7) & ~7u;
}

void piano__module_fill(struct piano__module *m, const struct piano__module_info *info,
                        const char *path, uint32_t since, uint32_t until)
{
    *m = (struct piano__module){.bytes = piano__module_bytes(path),
                                .since = since,
                                .until = until,
                                .build_id_len = info->build_id_len,
                                .start = info->start,
                                .end = info->end,
                                .bias = info->bias};
    memcpy(m->build_id, info->build_id, sizeof m->build_id);
    memcpy(m->path, path, strlen(path) + 1);
}

/* Returns the newest generation of the ranges that overlap [START, END), at least FLOOR. */
static uint32_t newest_of(uintptr_t start, uintptr_t end, uint32_t floor)
{
    /* Pairs with the release in add_left_locked(): the range is set. */
    uint32_t many = __atomic_load_n(&modules.left_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < many; i++) {
        const struct left *l = &modules.left[i];
        /* Pairs with the release in settle_locked(). `start` and `end` may be read later: a range
         * only grows. */
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
    if (modules.count == MAX_MODULES || !piano__module_find(pc, &info))
        return;
    const char *path = piano__module_path(&info, modules.path);
    uint32_t bytes = piano__module_bytes(path);
    struct piano__module *m = piano__log_room(&modules.log, PIANO_CHUNK_MODULES, bytes);
    if (!m)
        return;
    piano__module_fill(m, &info, path, newest_of(info.start, info.end, 0), UINT32_MAX);
    piano__log_commit(&modules.log, bytes);
    modules.all[modules.count] = m;
    /* Under the lock. Rule 4: release only orders it for a signal handler that jumps away. */
    __atomic_store_n(&modules.count, modules.count + 1, __ATOMIC_RELEASE);
}

static void note_locked(uintptr_t pc)
{
    if (!module_of_locked(pc))
        add_module_locked(pc);
}

void piano__modules_note(uintptr_t pc)
{
    if (!try_lock())
        return;
    note_locked(pc);
    unlock();
}

bool piano__modules_note_all(const uint64_t *pcs, uint32_t count)
{
    if (!try_lock())
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (!piano__python_is(pcs[i]))
            note_locked(pcs[i] - 1);
    unlock();
    return true;
}

/* Checks which module is at PC. PC is in L and on a stack, so that module stays loaded
 * meanwhile. */
static void settle_locked(struct left *l, uintptr_t pc)
{
    struct piano__module_info info;
    struct piano__module *m = l->last;
    if (!l->is_open || !piano__module_find(pc, &info))
        return;
    bool is_same =
        m->start == info.start && m->end == info.end && m->bias == info.bias &&
        m->build_id_len == info.build_id_len &&
        memcmp(m->build_id, info.build_id, sizeof m->build_id) == 0 &&
        (m->build_id_len > 0 || strcmp(m->path, piano__module_path(&info, modules.path)) == 0);
    if (!is_same) {
        uint32_t now = ++modules.generation;
        __atomic_store_n(&m->until, now, __ATOMIC_RELAXED);
        /* Pairs with the acquire in newest_of(). */
        __atomic_store_n(&l->generation, now, __ATOMIC_RELEASE);
    }
    /* Pairs with the acquire in settle(). */
    __atomic_store_n(&l->is_open, 0, __ATOMIC_RELEASE);
}

static void settle(uintptr_t pc)
{
    /* Pairs with the release in add_left_locked(). */
    uint32_t many = __atomic_load_n(&modules.left_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < many; i++) {
        struct left *l = &modules.left[i];
        if (!__atomic_load_n(&l->is_open, __ATOMIC_ACQUIRE) ||
            pc < __atomic_load_n(&l->start, __ATOMIC_RELAXED) ||
            pc >= __atomic_load_n(&l->end, __ATOMIC_RELAXED) || !try_lock())
            continue;
        settle_locked(l, pc);
        unlock();
    }
}

uint32_t piano__modules_generation(const uint64_t *pcs, uint32_t count)
{
    uint32_t generation = 0;
    /* Pairs with the release in add_left_locked(). */
    if (__atomic_load_n(&modules.left_count, __ATOMIC_ACQUIRE) == 0)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        settle(pcs[i] - 1);
        generation = newest_of(pcs[i] - 1, pcs[i], generation);
    }
    return generation;
}

/* The start addresses of the modules that are loaded now. */
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
    return loaded->count == MAX_LOADED; /* unknown */
}

/* If there is no room, extends the last range: then more stacks than necessary get new numbers. */
static void add_left_locked(struct piano__module *m)
{
    struct left *l = NULL;
    for (uint32_t i = 0; i < modules.left_count && !l; i++)
        if (modules.left[i].start == m->start && modules.left[i].end == m->end)
            l = &modules.left[i];
    if (!l && modules.left_count < MAX_LEFT) {
        l = &modules.left[modules.left_count];
        *l = (struct left){.start = m->start, .end = m->end};
        /* Pairs with the acquire in newest_of() and settle(). */
        __atomic_store_n(&modules.left_count, modules.left_count + 1, __ATOMIC_RELEASE);
    }
    if (!l) {
        l = &modules.left[MAX_LEFT - 1];
        __atomic_store_n(&l->start, m->start < l->start ? m->start : l->start, __ATOMIC_RELAXED);
        __atomic_store_n(&l->end, m->end > l->end ? m->end : l->end, __ATOMIC_RELAXED);
    }
    l->last = m;
    /* Pairs with the acquire in settle(). */
    __atomic_store_n(&l->is_open, 1, __ATOMIC_RELEASE);
}

/* Calls dl_iterate_phdr first and on its own: its lock and `modules.lock` are never held together,
 * and no memory is read of a module that another thread may be unloading. */
void piano__modules_unloaded(void)
{
    static struct loaded loaded;
    if (__atomic_load_n(&modules.count, __ATOMIC_RELAXED) == 0 || !piano__lock_try(&modules.asking))
        return;
    loaded.count = 0;
    dl_iterate_phdr(add_loaded, &loaded);
    uintptr_t before = piano__session_enter();
    if (piano__gate_is_open(&piano__gate->recording) && try_lock()) {
        for (uint32_t i = 0; i < modules.count; i++)
            if (modules.all[i]->until == UINT32_MAX && !is_loaded(&loaded, modules.all[i]))
                add_left_locked(modules.all[i]);
        unlock();
    }
    piano__session_leave(before);
    piano__lock_release(&modules.asking);
}

void piano__modules_forget(void)
{
    memset(&modules, 0, sizeof modules);
}
