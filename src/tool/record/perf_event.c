/* Parses the records that the kernel writes into a ring.
 *
 * All events here request the same fields, and an identity at the end of every record other than a
 * sample (sample_id_all): pid, tid, time, cpu. The records come from the kernel, but the parser
 * still checks everything against the record's length: a reader at a wrong position in a ring sees
 * arbitrary bytes. */
#include "tool/record/perf_event.h"

#include <string.h>

enum {
    HEADER = sizeof(struct perf_event_header),
    IDENTITY = 24, /* pid, tid, time, cpu, padding */
    SAMPLE_TIME = HEADER + 8,
    IDENTITY_TIME = 8,
};

/* The rest of a record. */
struct rest {
    const unsigned char *at;
    size_t left;
    bool failed;
};

static const unsigned char *take(struct rest *r, size_t size)
{
    const unsigned char *at = r->at;
    if (r->failed || size > r->left) {
        r->failed = true;
        return NULL;
    }
    r->at += size;
    r->left -= size;
    return at;
}

static uint64_t take_long(struct rest *r)
{
    uint64_t value = 0;
    const unsigned char *at = take(r, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

static uint32_t take_int(struct rest *r)
{
    uint32_t value = 0;
    const unsigned char *at = take(r, sizeof value);
    if (at)
        memcpy(&value, at, sizeof value);
    return value;
}

/* The text at the current position, which must end within the record. */
static const char *take_text(struct rest *r)
{
    if (r->failed || !memchr(r->at, '\0', r->left)) {
        r->failed = true;
        return "";
    }
    return (const char *)r->at;
}

uint64_t perf_event_registers(void)
{
    uint64_t mask = 0;
    for (size_t i = 0; i <= UNWIND_REGISTERS; i++)
        mask |= (uint64_t)1 << unwind_perf_order[i];
    return mask;
}

uint64_t perf_event_time(const unsigned char *bytes, size_t size)
{
    struct perf_event_header h;
    uint64_t time = 0;
    if (size < HEADER + IDENTITY)
        return 0;
    memcpy(&h, bytes, sizeof h);
    size_t at = h.type == PERF_RECORD_SAMPLE ? SAMPLE_TIME : size - IDENTITY + IDENTITY_TIME;
    memcpy(&time, bytes + at, sizeof time);
    return time;
}

/* Registers arrive in the order of their bits; ours are by DWARF number. */
static void take_registers(struct rest *r, struct perf_event *e)
{
    uint64_t mask = perf_event_registers();
    uint64_t abi = take_long(r);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const unsigned char *values = take(r, 8 * (size_t)__builtin_popcountll(mask));
    e->has_regs = abi == PERF_SAMPLE_REGS_ABI_64;
    if (!values || !e->has_regs)
        return;
    for (size_t i = 0; i <= UNWIND_REGISTERS; i++) {
        uint64_t below = mask & (((uint64_t)1 << unwind_perf_order[i]) - 1);
        uint64_t *to = i == UNWIND_REGISTERS ? &e->regs.pc : &e->regs.general[i];
        memcpy(to, values + 8 * (size_t)__builtin_popcountll(below), 8);
    }
}

static void take_sample(struct rest *r, bool has_chain, struct perf_event *e)
{
    e->pid = take_int(r);
    e->tid = take_int(r);
    e->time = take_long(r);
    e->cpu = take_int(r);
    take_int(r);
    e->period = take_long(r);
    if (has_chain) {
        uint64_t count = take_long(r);
        if (count > r->left / 8)
            r->failed = true;
        else
            e->chain = take(r, count * 8);
        e->chain_count = r->failed ? 0 : count;
    }
    take_registers(r, e);
    uint64_t size = take_long(r);
    if (size == 0 || r->failed)
        return;
    const unsigned char *stack = size <= r->left ? take(r, size) : NULL;
    uint64_t copied = take_long(r);
    if (!stack || r->failed) {
        r->failed = true;
        return;
    }
    e->memory = (struct unwind_memory){
        .bytes = stack, .start = e->regs.general[UNWIND_SP], .size = copied < size ? copied : size};
}

static void take_mapping(struct rest *r, struct perf_event *e)
{
    e->pid = take_int(r);
    e->tid = take_int(r);
    e->start = take_long(r);
    uint64_t size = take_long(r);
    e->end = e->start + size;
    e->offset = take_long(r);
    take_long(r); /* device: on some file systems it differs from stat */
    e->inode = take_long(r);
    take_long(r); /* inode generation */
    take_long(r); /* protection, flags */
    e->name = take_text(r);
    if (e->end < e->start)
        r->failed = true;
}

static void take_task(struct rest *r, struct perf_event *e)
{
    e->pid = take_int(r);
    e->parent_pid = take_int(r);
    e->tid = take_int(r);
    e->parent_tid = take_int(r);
}

bool perf_event_parse(const unsigned char *bytes, size_t size, bool has_chain, struct perf_event *e)
{
    struct perf_event_header h;
    *e = (struct perf_event){.name = ""};
    if (size < HEADER)
        return false;
    memcpy(&h, bytes, sizeof h);
    e->type = h.type;
    e->misc = h.misc;
    struct rest r = {bytes + HEADER, size - HEADER, false};
    if (h.type == PERF_RECORD_SAMPLE) {
        take_sample(&r, has_chain, e);
        return !r.failed;
    }
    if (r.left < IDENTITY)
        return false;
    r.left -= IDENTITY;
    struct rest identity = {r.at + r.left, IDENTITY, false};
    e->pid = take_int(&identity);
    e->tid = take_int(&identity);
    e->time = take_long(&identity);
    e->cpu = take_int(&identity);
    switch (h.type) {
    case PERF_RECORD_MMAP2:
        take_mapping(&r, e);
        break;
    case PERF_RECORD_COMM:
        e->pid = take_int(&r);
        e->tid = take_int(&r);
        e->name = take_text(&r);
        break;
    case PERF_RECORD_FORK:
    case PERF_RECORD_EXIT:
        take_task(&r, e);
        break;
    case PERF_RECORD_LOST:
        take_long(&r);
        e->lost = take_long(&r);
        break;
    case PERF_RECORD_LOST_SAMPLES:
        e->lost = take_long(&r);
        break;
    case PERF_RECORD_SWITCH:
        break;
    default:
        return false;
    }
    return !r.failed;
}
