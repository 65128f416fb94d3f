/* A code object is recorded when a sample first finds it: its name, its file, and its line table.
 * It may be freed soon after, and another object may get its address. So an address alone never
 * identifies an object: all of its contents are compared with the record. Two objects with the same
 * contents are one. So code that is created again and again does not fill the table.
 *
 * `nearby` maps addresses to numbers, as a guess. `places` is an open-addressing hash table of
 * numbers, by the contents of the objects. Both are read without a lock. A new record is added
 * under a lock, and published when it is complete.
 *
 * Why it never faults: without a room, the calling thread runs the code, so the object and all that
 * it refers to exist. The exception is while it is being destroyed, and then its reference count is
 * 0. With a room, every byte is read through the kernel (unwind/memory.h). */
#include "target/python/codes.h"

#include <string.h>

#include "target/sys/file.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"
#include "target/unwind/memory.h"

enum { MOST_CODES = 1 << 16, MOST_BYTES = 32 << 20, PLACES = 2 * MOST_CODES, NEARBY = 8192 };

/* str and bytes; the same in all versions. */
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_STATE = 32, BYTES_AT = 32, OBJECT_HEAD = 40 };

extern const char PyCode_Type[] __attribute__((weak));
extern const char PyUnicode_Type[] __attribute__((weak));
extern const char PyBytes_Type[] __attribute__((weak));

struct near {
    uintptr_t code;
    uint32_t number;
};

static struct {
    uint32_t lock;
    uint32_t count;
    uint32_t bytes; /* total size of all records */
    uint32_t *places;
    struct near *nearby;
    struct piano__python_code **records; /* by number */
    struct piano__log log;
} codes;

/* The contents of an object, at their place or as a copy. */
struct view {
    uint32_t first_line;
    struct piece {
        const char *at;
        uint32_t len;
        uint32_t width; /* bytes per character; 0: unknown representation */
    } name, file, table;
};

static uintptr_t word_at(const char *at)
{
    uintptr_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

/* The readable bytes of an object. */
struct bytes {
    const char *at; /* NULL: none */
    size_t len;
};

/* Reads the object in place. */
static struct bytes direct(uintptr_t at)
{
    bool is_address = at >= PIANO_PYTHON_PAGE && at % sizeof(uintptr_t) == 0;
    return (struct bytes){is_address ? (const char *)at : NULL, SIZE_MAX};
}

/* Copies as much of the object as is readable into TO of SIZE bytes. */
static struct bytes copied(uintptr_t at, char *to, size_t size)
{
    bool is_address = at >= PIANO_PYTHON_PAGE && at % sizeof(uintptr_t) == 0;
    return (struct bytes){to, is_address ? piano__memory_copy(to, at, size) : 0};
}

static bool is_of(struct bytes object, const char *type)
{
    return object.at && object.len >= OBJECT_HEAD && word_at(object.at) != 0 &&
           word_at(object.at + OBJECT_TYPE) == (uintptr_t)type;
}

static bool see_text(struct piece *out, const struct piano__python_layout *layout,
                     struct bytes text, uint32_t most)
{
    uint32_t state;
    *out = (struct piece){.at = ""};
    if (!text.at || text.len < OBJECT_HEAD)
        return false;
    if (!is_of(text, PyUnicode_Type))
        return word_at(text.at) != 0; /* a subclass of str */
    memcpy(&state, text.at + TEXT_STATE, sizeof state);
    uint32_t width = state >> 2 & 7;
    bool is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    uintptr_t length = word_at(text.at + OBJECT_SIZE);
    if (!is_compact || (width != 1 && width != 2 && width != 4))
        return true;
    size_t from = is_ascii ? layout->text_ascii : layout->text_wide;
    *out = (struct piece){.at = text.at + from,
                          .width = width,
                          .len = length < most / width ? (uint32_t)length * width : most};
    return from + out->len <= text.len;
}

static bool see_table(struct piece *out, struct bytes bytes)
{
    if (!is_of(bytes, PyBytes_Type))
        return false;
    uintptr_t length = word_at(bytes.at + OBJECT_SIZE);
    *out =
        (struct piece){.at = bytes.at + BYTES_AT,
                       .len = length < PIANO_PYTHON_TABLE ? (uint32_t)length : PIANO_PYTHON_TABLE};
    return BYTES_AT + out->len <= bytes.len;
}

/* HEAD is that of a code object, and the others are the objects that it refers to. */
static bool see(struct view *out, const struct piano__python_layout *layout, struct bytes head,
                struct bytes name, struct bytes file, struct bytes table)
{
    if (!is_of(head, PyCode_Type) || head.len < layout->code_instructions)
        return false;
    memcpy(&out->first_line, head.at + layout->code_first_line, sizeof out->first_line);
    return see_text(&out->name, layout, name, PIANO_PYTHON_NAME) &&
           see_text(&out->file, layout, file, PIANO_PYTHON_FILE) && see_table(&out->table, table);
}

static uint64_t hash_more(uint64_t hash, const struct piece *p)
{
    uint64_t word;
    uint32_t i = 0;
    for (; i + sizeof word <= p->len; i += sizeof word) {
        memcpy(&word, p->at + i, sizeof word);
        hash = (hash ^ word) * 0xd6e8feb86659fd93u;
        hash ^= hash >> 32;
    }
    for (; i < p->len; i++)
        hash = (hash ^ (unsigned char)p->at[i]) * 0xd6e8feb86659fd93u;
    return (hash ^ p->len ^ hash >> 29) * 0x9e3779b97f4a7c15u;
}

static uint64_t hash_of(const struct view *v)
{
    return hash_more(hash_more(hash_more(v->first_line, &v->name), &v->file), &v->table);
}

static bool says_same(const struct piano__python_code *record, const struct view *v)
{
    const char *text = record->text;
    return record->first_line == v->first_line && record->name_len == v->name.len &&
           record->file_len == v->file.len && record->table_len == v->table.len &&
           record->name_width == v->name.width && record->file_width == v->file.width &&
           memcmp(text, v->name.at, v->name.len) == 0 &&
           memcmp(text + v->name.len, v->file.at, v->file.len) == 0 &&
           memcmp(text + v->name.len + v->file.len, v->table.at, v->table.len) == 0;
}

const struct piano__python_code *piano__python_record(uint32_t number)
{
    /* Pairs with the release in make_room_locked(). */
    struct piano__python_code **records = __atomic_load_n(&codes.records, __ATOMIC_ACQUIRE);
    return records && number > 0 && number < MOST_CODES
               ? __atomic_load_n(&records[number], __ATOMIC_ACQUIRE)
               : NULL;
}

/* Returns the number, or 0. Then *PLACE is the empty place for it, or NULL. */
static uint32_t find(const struct view *v, uint64_t hash, uint32_t **place)
{
    /* Pairs with the release in make_room_locked(). */
    uint32_t *places = __atomic_load_n(&codes.places, __ATOMIC_ACQUIRE);
    *place = NULL;
    for (uint32_t i = 0; places && i < PLACES; i++) {
        uint32_t *p = &places[((uint32_t)(hash >> 32) + i) % PLACES];
        /* Pairs with the release in add(): the record is complete. */
        uint32_t number = __atomic_load_n(p, __ATOMIC_ACQUIRE);
        if (number == 0) {
            *place = p;
            return 0;
        }
        const struct piano__python_code *record = piano__python_record(number);
        if (record && says_same(record, v))
            return number;
    }
    return 0;
}

/* Stores `records` last: the other tables exist if it does. */
static bool make_room_locked(void)
{
    if (codes.records)
        return true;
    /* Each pairs with the acquire loads of its pointer. */
    if (!codes.places)
        __atomic_store_n(&codes.places, piano__memory_map(PLACES * sizeof *codes.places),
                         __ATOMIC_RELEASE);
    if (!codes.nearby)
        __atomic_store_n(&codes.nearby, piano__memory_map(NEARBY * sizeof *codes.nearby),
                         __ATOMIC_RELEASE);
    if (codes.places && codes.nearby)
        __atomic_store_n(&codes.records, piano__memory_map(MOST_CODES * sizeof *codes.records),
                         __ATOMIC_RELEASE);
    return codes.records != NULL;
}

static uint32_t write_locked(const struct view *v)
{
    uint32_t text = v->name.len + v->file.len + v->table.len;
    uint32_t bytes = (uint32_t)(sizeof(struct piano__python_code) + text + 7) & ~7u;
    uint32_t number = codes.count + 1;
    if (number >= MOST_CODES || codes.bytes + bytes > MOST_BYTES)
        return 0;
    struct piano__python_code *c = piano__log_room(&codes.log, PIANO_CHUNK_PYTHON, bytes);
    if (!c)
        return 0;
    *c = (struct piano__python_code){.bytes = bytes,
                                     .id = number,
                                     .first_line = v->first_line,
                                     .name_len = v->name.len,
                                     .file_len = v->file.len,
                                     .table_len = v->table.len,
                                     .name_width = (uint8_t)v->name.width,
                                     .file_width = (uint8_t)v->file.width};
    memcpy(c->text, v->name.at, v->name.len);
    memcpy(c->text + v->name.len, v->file.at, v->file.len);
    memcpy(c->text + v->name.len + v->file.len, v->table.at, v->table.len);
    piano__log_commit(&codes.log, bytes);
    /* Pairs with the acquire in piano__python_record(). */
    __atomic_store_n(&codes.records[number], c, __ATOMIC_RELEASE);
    codes.count = number;
    codes.bytes += bytes;
    return number;
}

/* A signal handler does not wait: it may have interrupted the lock holder. Pairs with the release
 * in piano__lock_release(). */
static bool try_lock(bool is_patient)
{
    return is_patient ? piano__lock_try(&codes.lock)
                      : !__atomic_exchange_n(&codes.lock, 1, __ATOMIC_ACQUIRE);
}

static uint32_t add(const struct view *v, uint64_t hash, bool is_patient)
{
    uint32_t *place, number = 0;
    if (!try_lock(is_patient))
        return 0;
    if (make_room_locked()) {
        /* Look up again under the lock: another thread may have added it. */
        number = find(v, hash, &place);
        if (number == 0 && place) {
            number = write_locked(v);
            /* Pairs with the acquire in find(). */
            __atomic_store_n(place, number, __ATOMIC_RELEASE);
        }
    }
    piano__lock_release(&codes.lock);
    return number;
}

/* The two words of an entry may be from different writers. Then the contents of the code object and
 * the record differ. */
static struct near *near_of(uintptr_t code)
{
    /* Pairs with the release in make_room_locked(). */
    struct near *nearby = __atomic_load_n(&codes.nearby, __ATOMIC_ACQUIRE);
    uint64_t hash = (code >> 4) * 0x9e3779b97f4a7c15u;
    return nearby ? &nearby[(hash >> 40) % NEARBY] : NULL;
}

static uint32_t guess(uintptr_t code, const struct view *v)
{
    struct near *n = near_of(code);
    /* Relaxed: says_same() checks the guess. */
    if (!n || __atomic_load_n(&n->code, __ATOMIC_RELAXED) != code)
        return 0;
    uint32_t number = __atomic_load_n(&n->number, __ATOMIC_RELAXED);
    const struct piano__python_code *record = piano__python_record(number);
    return record && says_same(record, v) ? number : 0;
}

static void remember(uintptr_t code, uint32_t number)
{
    struct near *n = near_of(code);
    if (!n)
        return;
    __atomic_store_n(&n->code, code, __ATOMIC_RELAXED);
    __atomic_store_n(&n->number, number, __ATOMIC_RELAXED);
}

static uint32_t number_of(uintptr_t code, const struct view *v, bool is_patient)
{
    uint32_t *place;
    uint32_t number = guess(code, v);
    if (number > 0)
        return number;
    uint64_t hash = hash_of(v);
    number = find(v, hash, &place);
    if (number == 0)
        number = add(v, hash, is_patient);
    if (number > 0)
        remember(code, number);
    return number;
}

uint32_t piano__python_number(const struct piano__python_layout *layout, uintptr_t code)
{
    struct view v;
    struct bytes head = direct(code);
    if (!is_of(head, PyCode_Type))
        return 0;
    return see(&v, layout, head, direct(word_at(head.at + layout->code_name)),
               direct(word_at(head.at + layout->code_file)),
               direct(word_at(head.at + layout->code_table)))
               ? number_of(code, &v, true)
               : 0;
}

/* All code objects of a stack ------------------------------------------------------------------ */

/* Each system call takes about a microsecond. So two calls read a whole stack: one for the heads of
 * all its code objects, and one for the objects they refer to. The latter are read with the lengths
 * of the objects that were at these addresses before. Objects for which this fails are read one by
 * one. */

static struct bytes head_of(const struct piano__python_room *room, uint32_t i, size_t len)
{
    return (struct bytes){room->heads[i], len};
}

static void ask_for(struct piano__python_room *room, uint32_t *count, uintptr_t at, void *to,
                    size_t len)
{
    room->to[*count] = (struct iovec){to, len};
    room->from[(*count)++] = (struct iovec){(void *)at, len};
}

static void copy_heads(const struct piano__python_layout *layout, struct piano__python_room *room)
{
    size_t len = layout->code_instructions;
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->count; i++)
        ask_for(room, &count, room->found[i].code, room->heads[i], len);
    for (uint32_t i = piano__memory_gather(room->to, room->from, count); i < count; i++) {
        if (piano__memory_copy(room->heads[i], room->found[i].code, len) != len)
            memset(room->heads[i], 0, OBJECT_HEAD); /* not an object */
    }
}

enum { PARTS = 3 }; /* name, file, table */

/* The lengths of the parts of an object, if it is the one that was at its address before. */
struct sizes {
    uint32_t name, file, table; /* all 0: unknown */
};

static struct sizes sizes_of(const struct piano__python_layout *layout,
                             const struct piano__python_room *room, uint32_t i)
{
    uintptr_t code = room->found[i].code;
    const struct near *n = near_of(code);
    if (!n || __atomic_load_n(&n->code, __ATOMIC_RELAXED) != code ||
        !is_of(head_of(room, i, OBJECT_HEAD), PyCode_Type))
        return (struct sizes){0};
    const struct piano__python_code *r =
        piano__python_record(__atomic_load_n(&n->number, __ATOMIC_RELAXED));
    return r ? (struct sizes){layout->text_wide + r->name_len, layout->text_wide + r->file_len,
                              BYTES_AT + r->table_len}
             : (struct sizes){0};
}

static uint32_t number_of_parts(const struct piano__python_layout *layout,
                                const struct piano__python_room *room, uint32_t i,
                                const struct iovec *parts)
{
    struct view v;
    struct bytes three[PARTS];
    for (int k = 0; k < PARTS; k++)
        three[k] = (struct bytes){parts[k].iov_base, parts[k].iov_len};
    bool is_seen =
        see(&v, layout, head_of(room, i, layout->code_instructions), three[0], three[1], three[2]);
    return is_seen ? guess(room->found[i].code, &v) : 0;
}

/* Handles the objects from FIRST on, as many as fit. Returns how many. */
static uint32_t number_some(const struct piano__python_layout *layout,
                            struct piano__python_room *room, uint32_t first)
{
    enum { MOST = PIANO_MAX_FRAMES / PARTS };
    uint32_t used = 0, count = 0, many = 0;
    for (; first + many < room->count && many < MOST; many++) {
        struct sizes s = sizes_of(layout, room, first + many);
        const char *head = room->heads[first + many];
        char *to = room->texts + used;
        if (s.table == 0)
            continue;
        if (used + s.name + s.file + s.table > PIANO_PYTHON_TEXTS)
            break;
        ask_for(room, &count, word_at(head + layout->code_name), to, s.name);
        ask_for(room, &count, word_at(head + layout->code_file), to + s.name, s.file);
        ask_for(room, &count, word_at(head + layout->code_table), to + s.name + s.file, s.table);
        room->found[first + many].parts = count;
        used += s.name + s.file + s.table;
    }
    uint32_t there = piano__memory_gather(room->to, room->from, count);
    for (uint32_t i = first; i < first + many; i++) {
        struct piano__python_found *f = &room->found[i];
        if (f->parts > 0 && f->parts <= there)
            f->number = number_of_parts(layout, room, i, &room->to[f->parts - PARTS]);
    }
    return many;
}

static uint32_t number_alone(const struct piano__python_layout *layout,
                             struct piano__python_room *room, uint32_t i)
{
    struct view v;
    struct bytes head = head_of(room, i, layout->code_instructions);
    if (!is_of(head, PyCode_Type))
        return 0;
    return see(&v, layout, head,
               copied(word_at(head.at + layout->code_name), room->name, sizeof room->name),
               copied(word_at(head.at + layout->code_file), room->file, sizeof room->file),
               copied(word_at(head.at + layout->code_table), room->table, sizeof room->table))
               ? number_of(room->found[i].code, &v, false)
               : 0;
}

/* For a recursive function, the number of an earlier frame is reused. */
static uint32_t number_of_same(const struct piano__python_room *room, uint32_t i)
{
    enum { NEAR = 4 };
    for (uint32_t k = 1; k <= NEAR && k <= i; k++) {
        if (room->found[i - k].code == room->found[i].code)
            return room->found[i - k].number;
    }
    return 0;
}

void piano__python_numbers(const struct piano__python_layout *layout,
                           struct piano__python_room *room)
{
    copy_heads(layout, room);
    for (uint32_t i = 0, many = 1; i < room->count && many > 0; i += many)
        many = number_some(layout, room, i);
    for (uint32_t i = 0; i < room->count; i++) {
        if (room->found[i].number == 0)
            room->found[i].number = number_of_same(room, i);
        if (room->found[i].number == 0)
            room->found[i].number = number_alone(layout, room, i);
    }
}

void piano__python_forget(void)
{
    if (codes.places)
        piano__memory_unmap(codes.places, PLACES * sizeof *codes.places);
    if (codes.nearby)
        piano__memory_unmap(codes.nearby, NEARBY * sizeof *codes.nearby);
    if (codes.records)
        piano__memory_unmap(codes.records, MOST_CODES * sizeof *codes.records);
    memset(&codes, 0, sizeof codes);
}
