/* Writes names to the run file; see docs/run-format.md. Names can be many and long, so the text is
 * built in memory mapped for it. */
#include "target/span/header.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "common/lines.h"
#include "target/span/registry.h"
#include "target/span/run.h"
#include "target/sys/clock.h"
#include "target/sys/file.h"

/* An escaped byte of a name may need six bytes. */
static size_t names_bound(uint32_t from, uint32_t to)
{
    size_t bound = 8192;
    for (uint32_t i = from; i < to; i++) {
        const struct piano__function *f = piano__registry_get(i);
        bound += 6 * (2 * strlen(f->name) + 2 * strlen(f->file)) + 512;
    }
    return bound;
}

static void put_place(struct piano__text *text, const struct piano__function *f)
{
    piano__text_quote(text, f->file);
    if (text->full)
        return;
    text->at--; /* the line number goes inside the quotes */
    piano__text_puts(text, ":");
    piano__text_int(text, f->line);
    piano__text_puts(text, "\"");
}

static void put_names(struct piano__text *text, const char *names, const char *places,
                      uint32_t from, uint32_t to)
{
    piano__text_puts(text, names);
    for (uint32_t i = from; i < to; i++) {
        piano__text_puts(text, i > from ? "," : "");
        piano__text_quote(text, piano__registry_get(i)->name);
    }
    piano__text_puts(text, places);
    for (uint32_t i = from; i < to; i++) {
        piano__text_puts(text, i > from ? "," : "");
        put_place(text, piano__registry_get(i));
    }
    piano__text_puts(text, "]");
}

static void put_bias(struct piano__text *text, const char *key, int64_t ticks_256)
{
    int64_t ps = piano__ticks_ns(ticks_256 * 1000, piano__run.header->ns_per_tick_32) / 256;
    piano__text_field(text, key, ps);
}

static void put_identity(struct piano__text *text, int64_t now_ms)
{
    static char program[PATH_MAX]; /* static: only one thread, at the start or the end */
    ssize_t len = readlink("/proc/self/exe", program, sizeof program - 1);
    program[len > 0 ? len : 0] = '\0';
    piano__text_puts(text, "\"run_id\":\"");
    piano__text_int(text, getpid());
    piano__text_puts(text, "_");
    piano__text_int(text, now_ms);
    piano__text_puts(text, "\"");
    piano__text_field(text, "timestamp_ms", now_ms);
    piano__text_field(text, "pid", getpid());
    piano__text_puts(text, ",\"program\":");
    piano__text_quote(text, program);
}

static void put_clock(struct piano__text *text)
{
    const struct piano__live_header *h = piano__run.header;
    piano__text_puts(text,
                     piano__clock_is_counter ? ",\"clock\":\"tsc\"" : ",\"clock\":\"monotonic\"");
    piano__text_field(text, "tick_hz",
                      (int64_t)(((__int128)1000000000 << 32) / (__int128)h->ns_per_tick_32));
    piano__text_field(text, "start_mono_ns", (int64_t)piano__run.start_mono_ns);
    piano__text_puts(text, ",\"bias\":{\"unit\":\"ps\"");
    put_bias(text, "inner_ps", h->bias.inner[PIANO_BODIES - 1]);
    put_bias(text, "outer_ps", h->bias.outer[PIANO_BODIES - 1]);
    put_bias(text, "inner_short_ps", h->bias.inner[0]);
    put_bias(text, "outer_short_ps", h->bias.outer[0]);
    put_bias(text, "plain_inner_ps", h->bias.plain_inner);
    put_bias(text, "plain_outer_ps", h->bias.plain_outer);
    put_bias(text, "count_ps", h->bias.counted[0]);
    put_bias(text, "count_long_ps", h->bias.counted[PIANO_BODIES - 1]);
    put_bias(text, "alloc_ps", h->bias.alloc);
    piano__text_puts(text, "}");
}

void piano__header_write(int64_t now_ms, uint32_t count)
{
    size_t size = names_bound(0, count);
    char *memory = piano__memory_map(size);
    if (!memory)
        return;
    struct piano__text text = {memory, memory + size, false};
    piano__text_puts(&text, "{\"format_version\":2,");
    put_identity(&text, now_ms);
    put_names(&text, ",\"functions\":[", "],\"places\":[", 0, count);
    put_clock(&text);
    if (piano__registry_frame_fn()) {
        piano__text_puts(&text, ",\"frame_fn\":");
        piano__text_quote(&text, piano__registry_frame_fn());
    }
    piano__text_puts(&text, "}\n");
    piano__run_write(memory, (size_t)(text.at - memory));
    piano__memory_unmap(memory, size);
}

void piano__header_write_more(uint32_t from, uint32_t to)
{
    size_t size = names_bound(from, to);
    char *memory = piano__memory_map(size);
    if (!memory)
        return;
    struct piano__text text = {memory, memory + size, false};
    put_names(&text, "{\"functions_add\":[", "],\"places_add\":[", from, to);
    piano__text_puts(&text, "}\n");
    piano__run_write(memory, (size_t)(text.at - memory));
    piano__memory_unmap(memory, size);
}

/* Milliseconds with six decimals, which is nanoseconds exactly. */
static void put_ms(struct piano__text *text, const char *key, int64_t ns)
{
    char fraction[8] = {'.'};
    int64_t rest = ns < 0 ? -(ns % 1000000) : ns % 1000000;
    for (int i = 6; i > 0; i--, rest /= 10)
        fraction[i] = (char)('0' + rest % 10);
    piano__text_puts(text, ",\"");
    piano__text_puts(text, key);
    piano__text_puts(text, ns < 0 && ns > -1000000 ? "\":-" : "\":");
    piano__text_int(text, ns / 1000000);
    piano__text_puts(text, fraction);
}

static void put_v1_function(struct piano__text *text, uint32_t id)
{
    const struct piano__tally *sum = &piano__run.sums[id];
    uint64_t scale = piano__run.header->ns_per_tick_32;
    piano__text_puts(text, id > 0 ? ",{\"name\":" : "{\"name\":");
    piano__text_quote(text, piano__registry_get(id)->name);
    piano__text_field(text, "calls", sum->calls);
    put_ms(text, "total_ms", piano__ticks_ns(sum->total > 0 ? sum->total : 0, scale));
    put_ms(text, "self_ms", piano__ticks_ns(sum->self > 0 ? sum->self : 0, scale));
    piano__text_field(text, "alloc_count", (int64_t)sum->alloc_count);
    piano__text_field(text, "alloc_bytes", (int64_t)sum->alloc_bytes);
    piano__text_field(text, "free_count", (int64_t)sum->free_count);
    piano__text_field(text, "free_bytes", (int64_t)sum->free_bytes);
    piano__text_puts(text, ",\"place\":");
    put_place(text, piano__registry_get(id));
    piano__text_puts(text, "}");
}

/* Writes a new file completely or not at all. A write past RLIMIT_FSIZE would end the program with
 * SIGXFSZ. */
static void write_file(const char *path, const char *data, size_t len)
{
    int fd = piano__file_create(path, 1);
    if (fd < 0)
        return;
    if (piano__file_check(fd, piano__file_id(fd), len) != 0 ||
        piano__file_write(fd, data, len) != 0)
        unlink(path);
    piano__file_close(fd);
}

void piano__header_write_v1(void)
{
    uint32_t count = piano__registry_count();
    if (count > piano__run.header->fn_capacity)
        count = piano__run.header->fn_capacity;
    size_t size = names_bound(0, count);
    size_t stem = strlen(piano__run.stem);
    static char path[PATH_MAX];
    char *memory = piano__run.sums && stem + 6 < sizeof path ? piano__memory_map(size) : NULL;
    if (!memory)
        return;
    memcpy(path, piano__run.stem, stem);
    memcpy(path + stem, ".json", 6);
    struct piano__text text = {memory, memory + size, false};
    const char *name = strrchr(piano__run.stem, '/');
    int64_t ms = 0;
    for (name = name ? name + 1 : piano__run.stem; *name >= '0' && *name <= '9'; name++)
        ms = ms * 10 + (*name - '0');
    piano__text_puts(&text, "{");
    put_identity(&text, ms);
    piano__text_puts(&text, ",\"functions\":[");
    for (uint32_t id = 0; id < count; id++)
        put_v1_function(&text, id);
    piano__text_puts(&text, "]}\n");
    if (!text.full)
        write_file(path, memory, (size_t)(text.at - memory));
    piano__memory_unmap(memory, size);
}
