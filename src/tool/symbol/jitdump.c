/* A dump of JIT code: records with times, which a runtime appends while it runs. The format is that
 * of perf (tools/perf/Documentation/jitdump-specification.txt in the kernel's sources).
 *
 * LOAD names a function at an address. MOVE says that it is elsewhere from now on. DEBUG_INFO has
 * the lines of the function that the next LOAD names. CLOSE ends the dump. A function counts from
 * its time until another is loaded over it, or until it is moved. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>

#include "tool/symbol/jit_list.h"
#include "tool/util/map.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

enum {
    MAGIC = 0x4a695444, /* "JiTD" */
    VERSION = 1,
    MOST_HEADER = 4096,
    MOST_RECORDS = 1 << 22,
    MOST_LINES = 1 << 21,
    HEAD = 4096,         /* bytes of a LOAD that may hold its name */
    MOST_DEBUG = 1 << 20 /* bytes of a DEBUG_INFO that are read */
};

static const uint64_t ARCH_TIME = 1; /* flag: times are of the processor's counter */

struct header {
    uint32_t magic, version, size, machine, pad, pid;
    uint64_t time, flags;
};

struct prefix {
    uint32_t id, size;
    uint64_t time;
};

enum { LOAD, MOVE, DEBUG_INFO, CLOSE };

struct load {
    uint32_t pid, tid;
    uint64_t vma, address, size, index;
};

struct move {
    uint32_t pid, tid;
    uint64_t vma, from, to, size, index;
};

struct debug {
    uint64_t address, count;
};

struct entry {
    uint64_t address;
    uint32_t line, discriminator;
};

struct dump {
    struct jit_names *names;
    int fd;
    bool has_times;
    struct map by_index; /* of the dump's functions: the last place in `names` */
    uint64_t debug_at;   /* the function that the lines below are of; 0: none */
    uint32_t first, lines;
    char *room; /* MOST_DEBUG bytes */
};

static bool read_at(const struct dump *d, void *to, size_t len, uint64_t at)
{
    return at <= INT64_MAX - len && pread(d->fd, to, len, (off_t)at) == (ssize_t)len;
}

static uint64_t time_of(const struct dump *d, const struct prefix *p)
{
    return d->has_times ? p->time : 0;
}

/* Ends the function in place AT of the list. */
static void end_code(const struct dump *d, uint32_t at, const struct prefix *p)
{
    if (d->has_times && at != MAP_NONE && p->time > d->names->list[at].since)
        d->names->list[at].until = p->time;
}

static int add(struct dump *d, const struct jit_code *code, uint64_t index)
{
    size_t before = d->names->count;
    int err = jit_add(d->names, code);
    if (err || d->names->count == before)
        return err;
    map_remove(&d->by_index, index);
    return map_put(&d->by_index, index, (uint32_t)before);
}

static int take_load(struct dump *d, const struct prefix *p, uint64_t at)
{
    struct load load;
    size_t len = p->size - sizeof(*p) - sizeof(load);
    char *name = d->room;
    if (p->size < sizeof(*p) + sizeof(load) + 1 || !read_at(d, &load, sizeof(load), at))
        return 0;
    len = len < HEAD ? len : HEAD;
    if (!read_at(d, name, len, at + sizeof(load)) || load.size == 0 || load.address >> 48 ||
        load.size >> 40)
        return 0;
    struct jit_code code = {.start = load.address,
                            .end = load.address + load.size,
                            .since = time_of(d, p),
                            .until = JIT_ALWAYS};
    jit_name(d->names, &code, name, strnlen(name, len));
    if (d->debug_at == load.address && d->lines > 0) {
        code.first_line = d->first;
        code.line_count = d->lines;
        code.file = d->names->lines[d->first].file;
        code.line = d->names->lines[d->first].line;
    }
    d->debug_at = 0;
    return add(d, &code, load.index);
}

static int take_move(struct dump *d, const struct prefix *p, uint64_t at)
{
    struct move move;
    if (p->size < sizeof(*p) + sizeof(move) || !read_at(d, &move, sizeof(move), at))
        return 0;
    uint32_t old = map_find(&d->by_index, move.index);
    if (old == MAP_NONE || d->names->list[old].start != move.from || move.to >> 48)
        return 0;
    struct jit_code code = d->names->list[old];
    uint64_t size = code.end - code.start;
    code.start = move.to;
    code.end = move.to + size;
    code.since = time_of(d, p);
    end_code(d, old, p);
    return add(d, &code, move.index);
}

/* The text at *AT of ROOM, which holds LEN bytes; NULL if it has no end. */
static const char *take_text(const char *room, size_t len, size_t *at)
{
    const char *text = room + *at, *end = memchr(text, '\0', len - *at);
    if (end)
        *at += (size_t)(end - text) + 1;
    return end ? text : NULL;
}

static int take_debug(struct dump *d, const struct prefix *p, uint64_t at)
{
    static const char same[] = "\xff"; /* the file of the entry before */
    struct debug debug;
    struct jit_names *j = d->names;
    if (p->size < sizeof(*p) + sizeof(debug) || !read_at(d, &debug, sizeof(debug), at))
        return 0;
    size_t len = p->size - sizeof(*p) - sizeof(debug), used = 0;
    if (len > MOST_DEBUG || !read_at(d, d->room, len, at + sizeof(debug)))
        return 0;
    const char *file = NULL;
    d->debug_at = debug.address;
    d->first = (uint32_t)j->line_count;
    for (uint64_t i = 0; i < debug.count && len - used > sizeof(struct entry); i++) {
        struct entry e;
        memcpy(&e, d->room + used, sizeof(e));
        used += sizeof(e);
        const char *text = take_text(d->room, len, &used);
        if (!text || j->line_count == MOST_LINES)
            break;
        if (strcmp(text, same) != 0)
            file = strings_puts(j->strings, text);
        if (e.address < debug.address || !file)
            continue;
        if (VEC_ROOM(j->lines, j->line_count, j->line_cap) != 0)
            return -ENOMEM;
        j->lines[j->line_count++] = (struct jit_line){e.address - debug.address, file, e.line};
    }
    d->lines = (uint32_t)j->line_count - d->first;
    if (d->lines)
        qsort(&j->lines[d->first], d->lines, sizeof(*j->lines), order_u64);
    return 0;
}

static int take(struct dump *d, const struct prefix *p, uint64_t at)
{
    switch (p->id) {
    case LOAD:
        return take_load(d, p, at);
    case MOVE:
        return take_move(d, p, at);
    case DEBUG_INFO:
        return take_debug(d, p, at);
    default: /* unwinding information, and what later versions have */
        return 0;
    }
}

int jit_read_dump(struct jit_names *j, int fd)
{
    struct dump d = {.names = j, .fd = fd};
    struct header h;
    struct prefix p = {.id = LOAD};
    if (!read_at(&d, &h, sizeof(h), 0) || h.magic != MAGIC || h.version < VERSION ||
        h.size < sizeof(h) || h.size > MOST_HEADER)
        return -EBADMSG;
    d.has_times = !(h.flags & ARCH_TIME);
    d.room = malloc(MOST_DEBUG);
    int err = d.room ? 0 : -ENOMEM;
    uint64_t at = h.size;
    size_t records = 0;
    /* The program may be killed in the middle of a record: what it left is not taken. */
    for (; err == 0 && p.id != CLOSE && records < MOST_RECORDS; records++) {
        if (!read_at(&d, &p, sizeof(p), at) || p.size < sizeof(p))
            break;
        err = take(&d, &p, at + sizeof(p));
        at += p.size;
    }
    j->is_cut |= records == MOST_RECORDS;
    free(d.room);
    map_release(&d.by_index);
    return err;
}
