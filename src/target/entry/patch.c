/* Works in two steps. First everything that may fail: the copies and the jumps to the hooks are
 * written to new memory near the executable (the annex), and one page of the executable's file is
 * mapped elsewhere and changed, to see whether the system allows it (SELinux may not). Then the
 * entries are changed, page by page. Memory is never writable and executable at once. While a page is
 * not executable, no signal may be handled, and there is no other thread: that is checked. */
#include "target/entry/patch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/entry/code.h"
#include "target/sys/file.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum { PLACE = 128, STEP = 64 * 1024, FAR_STEP = 4 << 20, NEAR_TRIES = 32, TRIES = 56 };

/* One entry, prepared. */
struct change {
    uintptr_t at;
    size_t length;
    uintptr_t copy;
    uint8_t before[PIANO_CODE_JUMP], after[PIANO_CODE_JUMP];
};

bool piano__patch_threads_for_tests;

static bool is_single(void)
{
    struct stat st;
    if (piano__patch_threads_for_tests)
        return true;
    /* The directory has two links, and one for each thread. */
    return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

static bool protect(uintptr_t at, size_t size, int protection)
{
    uintptr_t page = piano__page_size();
    uintptr_t start = at & ~(page - 1), end = (at + size + page - 1) & ~(page - 1);
    return syscall(SYS_mprotect, start, end - start, protection) == 0;
}

static size_t annex_size(const struct piano__patch *p)
{
    uintptr_t page = piano__page_size();
    return (p->count * PLACE + page - 1) & ~(page - 1);
}

/* Memory below the executable: above it the heap grows. */
static uint8_t *make_annex(const struct piano__patch *p, uintptr_t image_low)
{
    uintptr_t size = annex_size(p), at = (image_low - size) & ~(uintptr_t)(STEP - 1);
    for (int i = 0; i < TRIES; i++) {
        uintptr_t step = i < NEAR_TRIES ? STEP : FAR_STEP;
        long got = syscall(SYS_mmap, at, size, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0L);
        if ((uintptr_t)got == at)
            return (uint8_t *)at;
        if (got != -1) /* a kernel that does not know the flag */
            syscall(SYS_munmap, got, size);
        if (at < step + STEP)
            return NULL;
        at -= step;
    }
    return NULL;
}

/* Returns whether the system lets a page of the executable's code be changed. */
static bool may_change_code(void)
{
    size_t page = piano__page_size();
    int fd = piano__file_open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    long at = syscall(SYS_mmap, NULL, page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0L);
    piano__file_close(fd);
    if (at == -1)
        return false;
    bool may = protect((uintptr_t)at, page, PROT_READ | PROT_WRITE);
    if (may)
        *(volatile char *)at = 0;
    may = may && protect((uintptr_t)at, page, PROT_READ | PROT_EXEC);
    syscall(SYS_munmap, at, page);
    return may;
}

/* Returns whether code of any of the functions jumps into what is replaced. */
static int check_jumps(const struct piano__patch *p, const struct piano__patch_entry *e,
                       const struct change *c)
{
    uintptr_t end = c->at + c->length;
    int found = piano__code_jumps_into((const uint8_t *)e->at, e->size, c->at, end);
    for (size_t i = 0; i < p->part_count && found == 0; i++)
        found =
            piano__code_jumps_into((const uint8_t *)p->parts[i].at, p->parts[i].size, c->at, end);
    return found == 0 ? 0 : -EILSEQ;
}

/* Writes the copy and the jump to the hook of one function into PLACE bytes at TO. */
static int prepare(const struct piano__patch *p, const struct piano__patch_entry *e, uint8_t *to,
                   struct change *c)
{
    struct piano__code_plan plan;
    const struct piano__code code = {.function = (const uint8_t *)e->at,
                                     .size = e->size,
                                     .room = e->room,
                                     .copy = to + PIANO_CODE_FAR,
                                     .copy_room = PLACE - PIANO_CODE_FAR};
    int err = piano__code_move(&code, &plan);
    if (err != 0)
        return err == -ERANGE ? -ENOMEM : -EILSEQ;
    *c = (struct change){
        .at = e->at + plan.at, .length = plan.replaced, .copy = (uintptr_t)code.copy};
    memcpy(c->before, (const void *)c->at, c->length);
    if (piano__code_jump(c->after, c->at, (uintptr_t)to, &plan) == 0)
        return -ENOMEM;
    (void)piano__code_far_jump(to, e->hook);
    return check_jumps(p, e, c);
}

static int prepare_all(const struct piano__patch *p, uint8_t *annex, struct change *changes)
{
    for (size_t i = 0; i < p->count; i++) {
        int err = prepare(p, &p->entries[i], annex + i * PLACE, &changes[i]);
        if (err != 0)
            return err;
    }
    size_t size = annex_size(p);
    __builtin___clear_cache((char *)annex, (char *)annex + size);
    return protect((uintptr_t)annex, size, PROT_READ | PROT_EXEC) && may_change_code() ? 0
                                                                                       : -EACCES;
}

/* Calls nothing but the kernel between the two: the program may define any function. */
static bool store(const struct change *c, const uint8_t *bytes)
{
    volatile uint8_t *to = (volatile uint8_t *)c->at;
    if (!protect(c->at, c->length, PROT_READ | PROT_WRITE))
        return false;
    for (size_t i = 0; i < c->length; i++)
        to[i] = bytes[i];
    bool done = protect(c->at, c->length, PROT_READ | PROT_EXEC);
    __builtin___clear_cache((char *)c->at, (char *)c->at + c->length);
    return done;
}

static int change_all(const struct piano__patch *p, const struct change *changes)
{
    uint64_t all = UINT64_MAX, before = 0;
    if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all) != 0)
        return -EACCES;
    size_t done = 0;
    while (done < p->count && store(&changes[done], changes[done].after))
        done++;
    bool is_whole = done == p->count;
    for (size_t i = 0; i <= done && !is_whole; i++)
        (void)store(&changes[i], changes[i].before);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return is_whole ? 0 : -EACCES;
}

static int patch_checked(const struct piano__patch *p, const struct piano__symbols *symbols)
{
    static struct change changes[PIANO_PATCH_MOST]; /* used once */
    uint8_t *annex = make_annex(p, symbols->image_low);
    if (!annex)
        return -ENOMEM;
    int err = prepare_all(p, annex, changes);
    for (size_t i = 0; i < p->count && err == 0; i++)
        *p->entries[i].next = changes[i].copy;
    if (err == 0)
        err = change_all(p, changes);
    if (err != 0)
        syscall(SYS_munmap, annex, annex_size(p));
    return err;
}

int piano__patch(const struct piano__patch *p, const struct piano__symbols *symbols)
{
    int saved = errno;
    int err = p->count > PIANO_PATCH_MOST    ? -E2BIG
              : !is_single()                 ? -EBUSY
              : piano__code_checks_returns() ? -EILSEQ
                                             : patch_checked(p, symbols);
    errno = saved;
    return err;
}
