/* A chunk is claimed in three steps: reserve its disk blocks, map it, and raise the number of
 * chunks by CAS. On CAS failure, retry with the next chunk: reserving blocks twice does no harm. If
 * the reservation fails (disk full, no memory, file size limit), the number stays unchanged and
 * claims fail for RETRY_NS.
 *
 * The first write to a page whose block is only reserved is expensive, because the file system
 * looks up each block, also in its journal. Writing zeroes to the whole chunk at once costs less
 * than a third of that. This is done only after the CAS: before that, another process or thread may
 * own the chunk and write to it.
 *
 * Some programs close all descriptors that they do not know, and may then reuse the number. So
 * the file is identified by device and inode, and reopened by its path if the path still leads
 * to it. */
#include "target/sys/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "target/sys/check.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"

#if defined(__aarch64__)
enum { MACHINE = 183 };
#else
enum { MACHINE = 62 };
#endif

enum { RETRY_NS = 100000000, FEW_DESCRIPTORS = 64 };

struct piano__recording piano__recording = {.fd = -1};

static struct piano__file_id file;
static char path_of[PATH_MAX];
static struct piano__chunk *mapped[PIANO_REC_MAX_CHUNKS];

const char *piano__recording_path(void)
{
    return path_of;
}

static uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* BUF must have PIANO_REC_PATH bytes. */
static void read_into(const char *path, char *buf)
{
    int len = piano__file_read(path, buf, PIANO_REC_PATH);
    (void)len; /* empty if it cannot be read */
}

static void fill_clocks(struct piano__rec_header *h)
{
    piano__clock_init();
    struct piano__clock_pair now = piano__clock_pair();
    h->start_mono_ns = now.mono_ns;
    h->trace.start_ticks = now.ticks;
    h->trace.has_counter = piano__clock_is_counter;
    h->start_real_ns = real_ns();
}

static void fill_header(struct piano__rec_header *h)
{
    memcpy(h->magic, PIANO_REC_MAGIC, sizeof h->magic);
    h->version = PIANO_REC_VERSION;
    h->header_bytes = PIANO_REC_HEADER_BYTES;
    h->chunk_bytes = PIANO_REC_CHUNK_BYTES;
    h->machine = MACHINE;
    h->pid = (uint32_t)getpid();
    h->parent = (uint32_t)getppid();
    fill_clocks(h);
    int saved = errno;
    long len = readlink("/proc/self/exe", h->program, PIANO_REC_PATH - 1);
    errno = saved;
    h->program[len > 0 ? len : 0] = '\0';
    read_into("/proc/self/cmdline", h->command);
}

/* A program with a very low descriptor limit needs all of its descriptors. Then the file is opened
 * by path for each claim. */
static bool is_tight(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < FEW_DESCRIPTORS;
}

/* Returns a descriptor of the file, or -1. Always pass it to let_go() after use. */
static int descriptor(void)
{
    /* Relaxed: piano__file_check() verifies the descriptor before use. */
    int fd = __atomic_load_n(&piano__recording.fd, __ATOMIC_RELAXED);
    if (fd >= 0 && piano__file_check(fd, file, 0) == 0)
        return fd;
    fd = piano__file_open(path_of, O_RDWR | O_NOFOLLOW);
    if (fd < 0)
        return -1;
    if (piano__file_check(fd, file, 0) != 0) {
        piano__file_close(fd);
        return -1;
    }
    if (is_tight())
        return fd;
    fd = piano__file_move_up(fd);
    __atomic_store_n(&piano__recording.fd, fd, __ATOMIC_RELAXED);
    return fd;
}

/* Closes FD unless it is the cached one. It is not, if another thread has cached its own descriptor
 * at the same time. */
static void let_go(int fd)
{
    if (fd >= 0 && fd != __atomic_load_n(&piano__recording.fd, __ATOMIC_RELAXED) &&
        piano__file_check(fd, file, 0) == 0)
        piano__file_close(fd);
}

static struct piano__chunk *chunk_at(struct piano__rec_view *view, uint64_t number)
{
    (void)view;
    if (number >= PIANO_REC_MAX_CHUNKS)
        return NULL;
    /* Pairs with the release in claim(): the chunk is mapped. */
    struct piano__chunk *c = __atomic_load_n(&mapped[number], __ATOMIC_ACQUIRE);
    /* Chunks that the tool claimed are not mapped here. The program does not need them. */
    return c;
}

static struct piano__chunk *claim_for_view(struct piano__rec_view *view, uint32_t type,
                                           uint64_t index)
{
    (void)view;
    return piano__recording_claim(type, index);
}

static off_t place_of(uint64_t number)
{
    return PIANO_REC_HEADER_BYTES + (off_t)number * PIANO_REC_CHUNK_BYTES;
}

/* Takes COUNT chunks from what several processes have together. Relaxed: a counter. */
static bool take_budget(int64_t count)
{
    int64_t *budget = piano__recording.budget;
    if (!budget || __atomic_sub_fetch(budget, count, __ATOMIC_RELAXED) >= 0)
        return true;
    __atomic_add_fetch(budget, count, __ATOMIC_RELAXED);
    return false;
}

static struct piano__chunk *map_next(int fd, uint64_t *number)
{
    struct piano__rec_header *header = piano__recording.view.header;
    if (!take_budget(1))
        return NULL;
    while (fd >= 0) {
        uint64_t n = __atomic_load_n(&header->chunks, __ATOMIC_RELAXED);
        if (n >= piano__rec_most(header))
            break;
        struct piano__chunk *c = piano__memory_map_file(fd, place_of(n), PIANO_REC_CHUNK_BYTES);
        if (!c)
            break;
        /* Pairs with the acquire loads of `chunks` by readers, and with other claims. */
        if (__atomic_compare_exchange_n(&header->chunks, &n, n + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            *number = n;
            return c;
        }
        piano__memory_unmap(c, PIANO_REC_CHUNK_BYTES);
    }
    (void)take_budget(-1);
    return NULL;
}

static struct piano__chunk *claim(uint32_t type, uint64_t index, bool is_filled)
{
    struct piano__rec_header *header = piano__recording.view.header;
    /* Relaxed: a time, which orders no other data. */
    uint64_t retry = __atomic_load_n(&piano__recording.retry_ns, __ATOMIC_RELAXED);
    if (!header || (retry && (uint64_t)piano__monotonic_ns() < retry))
        return NULL;
    uint64_t number;
    int fd = descriptor();
    struct piano__chunk *c = map_next(fd, &number);
    if (c && is_filled && piano__file_check(fd, file, 0) == 0)
        piano__file_fill(fd, place_of(number), PIANO_REC_CHUNK_BYTES);
    let_go(fd);
    if (!c) {
        retry = (uint64_t)piano__monotonic_ns() + RETRY_NS;
        __atomic_store_n(&piano__recording.retry_ns, retry, __ATOMIC_RELAXED);
        return NULL;
    }
    c->type = type;
    c->index = index;
    /* Pairs with the acquire load of `ready` by readers: type and index are set. */
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
    /* Pairs with the acquire in chunk_at(). */
    __atomic_store_n(&mapped[number], c, __ATOMIC_RELEASE);
    piano__check(piano__recording_is_valid());
    return c;
}

struct piano__chunk *piano__recording_claim(uint32_t type, uint64_t index)
{
    return claim(type, index, false);
}

struct piano__chunk *piano__recording_claim_filled(uint32_t type, uint64_t index)
{
    return claim(type, index, true);
}

static int put_header(int fd)
{
    struct piano__rec_header *h = piano__memory_map_file(fd, 0, PIANO_REC_HEADER_BYTES);
    if (!h)
        return -ENOSPC;
    fill_header(h);
    piano__memory_unmap(h, PIANO_REC_HEADER_BYTES);
    return 0;
}

/* Creates a recording without chunks. It gets its name only when the header is complete, so readers
 * never find an incomplete file if this process is killed. It is then reopened by name, so that
 * /proc/self/maps shows that name. */
static int make_whole(void)
{
    char *slash = strrchr(path_of, '/');
    if (!slash)
        return -EINVAL;
    *slash = '\0';
    int fd = piano__file_unnamed(path_of);
    *slash = '/';
    if (fd < 0)
        return fd;
    int err = put_header(fd);
    if (err == 0)
        err = piano__file_give_name(fd, path_of);
    int named = err == 0 ? piano__file_open(path_of, O_RDWR | O_NOFOLLOW) : err;
    if (err == 0 && named < 0)
        return fd; /* works too, but /proc/self/maps does not show its name */
    piano__file_close(fd);
    return named;
}

/* The same for file systems without unnamed files. */
static int make_named(void)
{
    int fd = piano__file_create(path_of, 0);
    if (fd < 0)
        return fd;
    int err = put_header(fd);
    if (err == 0)
        return fd;
    piano__file_close(fd);
    unlink(path_of);
    return err;
}

static void use(int fd, struct piano__rec_header *h)
{
    file = piano__file_id(fd);
    piano__recording.fd = is_tight() ? -1 : piano__file_move_up(fd);
    if (piano__recording.fd < 0)
        piano__file_close(fd);
    piano__recording.retry_ns = 0;
    piano__recording.view.chunk = chunk_at;
    piano__recording.view.claim = claim_for_view;
    piano__recording.view.log = NULL;
    /* Pairs with the acquire loads of `header`: the view is set up. */
    __atomic_store_n(&piano__recording.view.header, h, __ATOMIC_RELEASE);
}

int piano__recording_create(const char *path)
{
    size_t len = strlen(path);
    if (len >= sizeof path_of)
        return -ENAMETOOLONG;
    memcpy(path_of, path, len + 1);
    int fd = make_whole();
    if (fd < 0 && fd != -EEXIST)
        fd = make_named();
    if (fd < 0)
        return fd;
    struct piano__rec_header *h = piano__memory_map_file(fd, 0, PIANO_REC_HEADER_BYTES);
    if (!h) {
        piano__file_close(fd);
        unlink(path_of);
        return -ENOSPC;
    }
    use(fd, h);
    return 0;
}

int piano__recording_adopt(int fd, const char *path)
{
    size_t len = strlen(path);
    struct piano__rec_header *h =
        len < sizeof path_of ? piano__memory_map_file(fd, 0, PIANO_REC_HEADER_BYTES) : NULL;
    if (!h) {
        piano__file_close(fd);
        return len < sizeof path_of ? -ENOSPC : -ENAMETOOLONG;
    }
    memcpy(path_of, path, len + 1);
    fill_clocks(h);
    use(fd, h);
    return 0;
}

static void let_go_of(void *at, size_t size, bool blank)
{
    if (blank)
        (void)piano__memory_renew(at, size);
    else
        piano__memory_unmap(at, size);
}

static void let_go_of_all(bool blank)
{
    struct piano__rec_header *h = piano__recording.view.header;
    if (!h)
        return;
    uint64_t chunks = h->chunks;
    for (uint64_t n = 0; n < chunks && n < PIANO_REC_MAX_CHUNKS; n++) {
        if (mapped[n])
            let_go_of(mapped[n], PIANO_REC_CHUNK_BYTES, blank);
        mapped[n] = NULL;
    }
    let_go_of(h, PIANO_REC_HEADER_BYTES, blank);
    piano__recording.view.header = NULL;
    piano__recording.budget = NULL;
    if (piano__recording.fd >= 0 && piano__file_check(piano__recording.fd, file, 0) == 0)
        piano__file_close(piano__recording.fd);
    piano__recording.fd = -1;
}

void piano__recording_forget(void)
{
    let_go_of_all(false);
}

void piano__recording_blank(void)
{
    let_go_of_all(true);
}

bool piano__recording_unlink(void)
{
    int saved = errno;
    int fd = piano__recording.view.header ? descriptor() : -1;
    bool is_gone = fd >= 0 && unlink(path_of) == 0; /* still open, or found again at its path */
    let_go(fd);
    errno = saved;
    return is_gone;
}

void piano__recording_discard(void)
{
    (void)piano__recording_unlink();
    piano__recording_forget();
}

#ifdef PIANO_CHECK
static bool is_chunk_valid(const struct piano__chunk *c)
{
    /* Others are not published before they are ready; a chunk of events is reused meanwhile. */
    bool is_ready = __atomic_load_n(&c->ready, __ATOMIC_RELAXED) == 1;
    return c->type >= PIANO_CHUNK_MODULES && c->type < PIANO_CHUNK_TYPES &&
           (is_ready || c->type == PIANO_CHUNK_EVENTS) &&
           __atomic_load_n(&c->used, __ATOMIC_RELAXED) <= PIANO_REC_PAYLOAD;
}

bool piano__recording_is_valid(void)
{
    const struct piano__rec_header *h = piano__recording.view.header;
    if (!h)
        return true;
    uint64_t chunks = __atomic_load_n(&h->chunks, __ATOMIC_RELAXED);
    if (memcmp(h->magic, PIANO_REC_MAGIC, sizeof h->magic) != 0 ||
        h->version != PIANO_REC_VERSION || h->chunk_bytes != PIANO_REC_CHUNK_BYTES ||
        chunks > piano__rec_most(h))
        return false;
    for (uint64_t n = 0; n < chunks; n++) {
        const struct piano__chunk *c = chunk_at(&piano__recording.view, n);
        if (c && !is_chunk_valid(c))
            return false;
    }
    return true;
}
#endif
