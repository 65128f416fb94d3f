/* A chunk is claimed in three steps: its disk blocks are reserved, it is mapped, and the count of chunks is raised over it
 * by compare-and-swap. Who loses that race starts over with the next chunk: reserving twice does no harm. A
 * refused reservation (disk full, no memory, file size limit) leaves the count alone, and nobody asks again for a while.
 *
 * Pages of blocks that were only reserved are dear: the file system looks each of them up, in its journal too, when it is first
 * written to. One write of zeroes for a whole chunk costs less than a third of that. It is done when the chunk is ours: before, others may
 * have it, and be writing to it.
 *
 * Some programs close every descriptor they do not know. The number may be theirs by now, so the file is known by device
 * and inode, and opened again by its path where that still leads to it. */
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

/* All but one byte of BUF is for what PATH holds. */
static void read_into(const char *path, char *buf)
{
    int len = piano__file_read(path, buf, PIANO_REC_PATH);
    (void)len; /* empty when it cannot be read */
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
    piano__clock_init();
    struct piano__clock_pair now = piano__clock_pair();
    h->start_mono_ns = now.mono_ns;
    h->trace.start_ticks = now.ticks;
    h->trace.has_counter = piano__clock_is_counter;
    h->start_real_ns = real_ns();
    int saved = errno;
    long len = readlink("/proc/self/exe", h->program, PIANO_REC_PATH - 1);
    errno = saved;
    h->program[len > 0 ? len : 0] = '\0';
    read_into("/proc/self/cmdline", h->command);
}

/* A program with so few descriptors to have can spare none: then the file is opened by its path each time, for one claim. */
static bool is_tight(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < FEW_DESCRIPTORS;
}

/* To be let go of after its use, in any case. */
static int descriptor(void)
{
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

/* One that is not kept, or not any more: another thread may have opened one at the same time. */
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
    struct piano__chunk *c = __atomic_load_n(&mapped[number], __ATOMIC_ACQUIRE);
    return c; /* those the tool claimed are not mapped here, and hold nothing for us */
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

static struct piano__chunk *map_next(int fd, uint64_t *number)
{
    struct piano__rec_header *header = piano__recording.view.header;
    while (fd >= 0) {
        uint64_t n = __atomic_load_n(&header->chunks, __ATOMIC_RELAXED);
        if (n >= piano__rec_most(header))
            break;
        struct piano__chunk *c = piano__memory_map_file(fd, place_of(n), PIANO_REC_CHUNK_BYTES);
        if (!c)
            break;
        if (__atomic_compare_exchange_n(&header->chunks, &n, n + 1, false, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            *number = n;
            return c;
        }
        piano__memory_unmap(c, PIANO_REC_CHUNK_BYTES);
    }
    return NULL;
}

static struct piano__chunk *claim(uint32_t type, uint64_t index, bool is_filled)
{
    struct piano__rec_header *header = piano__recording.view.header;
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
    /* Pairs with the readers' acquire: who sees `ready` sees the type. */
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
    __atomic_store_n(&mapped[number], c, __ATOMIC_RELEASE);
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

/* A recording without any chunks, which has its name only when it is whole: nobody finds half of one, whenever this process is
 * killed. Opened by its name then, so that it has that in the list of mappings too. */
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
        return fd; /* as good, but for the list */
    piano__file_close(fd);
    return named;
}

/* The same where files have names from the beginning. */
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
    file = piano__file_id(fd);
    piano__recording.fd = is_tight() ? -1 : piano__file_move_up(fd);
    if (piano__recording.fd < 0)
        piano__file_close(fd);
    piano__recording.retry_ns = 0;
    piano__recording.view.chunk = chunk_at;
    piano__recording.view.claim = claim_for_view;
    piano__recording.view.log = NULL;
    __atomic_store_n(&piano__recording.view.header, h, __ATOMIC_RELEASE);
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

void piano__recording_discard(void)
{
    int saved = errno;
    int fd = piano__recording.view.header ? descriptor() : -1;
    if (fd >= 0) /* it is still ours by that name */
        unlink(path_of);
    let_go(fd);
    piano__recording_forget();
    errno = saved;
}
