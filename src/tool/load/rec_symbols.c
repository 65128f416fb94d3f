/* Names of addresses stored in a recording: texts, their modules, and the texts of each address.
 *
 * Texts are copied because they are handed out. The frames of an address stay in the file and are
 * read on request. If an id occurs twice, the first one counts. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

struct text {
    uint32_t id;
    const char *text; /* in `arena` */
};

struct module {
    uint32_t id;
    const char *path; /* in `arena` */
    uint8_t build_id[32];
    uint32_t build_id_len;
};

struct address {
    uint64_t address;
    uint32_t module, count;
    uint32_t texts;                           /* what the numbers of its texts are increased by */
    const struct piano__symbol_frame *frames; /* in the mapped file */
};

struct jit {
    uint64_t address, since, until;
    uint32_t pid, line, function, file;
    size_t order; /* in the file */
};

struct recording_symbols {
    char *arena;
    size_t arena_used;
    struct text *texts; /* by id */
    size_t text_count, text_cap;
    struct module *modules;
    size_t module_count, module_cap;
    struct address *list; /* by module and address */
    size_t count, cap;
    struct jit *jits; /* by process and address, then order */
    size_t jit_count, jit_cap;
};

enum { FRAMES_MOST = PIANO_REC_PAYLOAD / sizeof(struct piano__symbol_frame) };

/* Copies TEXT, which must end within BYTES; NULL if it does not. The arena is as large as all
 * records, and each record is longer than its text. */
static const char *keep(struct recording_symbols *s, const char *text, size_t bytes)
{
    const char *end = memchr(text, '\0', bytes);
    if (!end)
        return NULL;
    size_t len = (size_t)(end - text);
    char *copy = s->arena + s->arena_used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    s->arena_used += len + 1;
    return copy;
}

static int take_text(struct rec_reader *r, struct recording_symbols *s, const char *record,
                     uint32_t bytes, uint64_t at)
{
    struct piano__symbol_text t;
    memcpy(&t, record, sizeof(t));
    const char *text = t.id > 0 ? keep(s, record + sizeof(t), bytes - sizeof(t)) : NULL;
    if (!text) {
        rec_gap(r->rec, at, at + bytes, "an invalid stored name");
        return 0;
    }
    if (s->text_count == REC_MAX_TEXTS) {
        rec_gap(r->rec, at, at + bytes, "more stored names than can be read");
        return 0;
    }
    if (VEC_ROOM(s->texts, s->text_count, s->text_cap) != 0)
        return -ENOMEM;
    s->texts[s->text_count++] = (struct text){t.id, text};
    return 0;
}

static int take_module(struct rec_reader *r, struct recording_symbols *s, const char *record,
                       uint32_t bytes, uint64_t at)
{
    struct piano__symbol_module m;
    if (bytes < sizeof(m)) {
        rec_gap(r->rec, at, at + bytes, "an invalid module with stored names");
        return 0;
    }
    memcpy(&m, record, sizeof(m));
    bool sane = m.id > 0 && m.build_id_len <= sizeof(m.build_id);
    const char *path = sane ? keep(s, record + sizeof(m), bytes - sizeof(m)) : NULL;
    if (!path) {
        rec_gap(r->rec, at, at + bytes, "an invalid module with stored names");
        return 0;
    }
    if (s->module_count == REC_MAX_MODULES) {
        rec_gap(r->rec, at, at + bytes, "more modules with stored names than can be read");
        return 0;
    }
    if (VEC_ROOM(s->modules, s->module_count, s->module_cap) != 0)
        return -ENOMEM;
    struct module *new = &s->modules[s->module_count++];
    *new = (struct module){.id = m.id, .path = path, .build_id_len = m.build_id_len};
    memcpy(new->build_id, m.build_id, sizeof(new->build_id));
    return 0;
}

static int take_address(struct rec_reader *r, struct recording_symbols *s, const char *record,
                        uint32_t bytes, uint64_t at)
{
    struct piano__symbol_address a;
    bool sane = bytes >= sizeof(a);
    if (sane)
        memcpy(&a, record, sizeof(a));
    if (!sane || a.count == 0 || a.count > FRAMES_MOST ||
        sizeof(a) + a.count * sizeof(a.frames[0]) > bytes) {
        rec_gap(r->rec, at, at + bytes, "invalid stored names of an address");
        return 0;
    }
    if (s->count == REC_MAX_SYMBOLS) {
        rec_gap(r->rec, at, at + bytes, "more addresses with stored names than can be read");
        return 0;
    }
    if (VEC_ROOM(s->list, s->count, s->cap) != 0)
        return -ENOMEM;
    s->list[s->count++] =
        (struct address){a.address, a.module, a.count, 0, (const void *)(record + sizeof(a))};
    return 0;
}

static int take_jit(struct rec_reader *r, struct recording_symbols *s, const char *record,
                    uint32_t bytes, uint64_t at)
{
    struct piano__symbol_jit j;
    if (bytes < sizeof(j)) {
        rec_gap(r->rec, at, at + bytes, "an invalid name of JIT code");
        return 0;
    }
    memcpy(&j, record, sizeof(j));
    if (s->jit_count == REC_MAX_SYMBOLS) {
        rec_gap(r->rec, at, at + bytes, "more names of JIT code than can be read");
        return 0;
    }
    if (VEC_ROOM(s->jits, s->jit_count, s->jit_cap) != 0)
        return -ENOMEM;
    s->jits[s->jit_count] = (struct jit){.address = j.address,
                                         .since = j.since,
                                         .until = j.until,
                                         .pid = j.pid,
                                         .line = j.line,
                                         .function = j.function,
                                         .file = j.file,
                                         .order = s->jit_count};
    s->jit_count++;
    return 0;
}

static int take(struct rec_reader *r, void *symbols, const char *record, uint32_t bytes,
                uint64_t at)
{
    struct piano__symbol_text head;
    memcpy(&head, record, sizeof(head));
    switch (head.kind) {
    case PIANO_SYMBOL_TEXT:
        return take_text(r, symbols, record, bytes, at);
    case PIANO_SYMBOL_MODULE:
        return take_module(r, symbols, record, bytes, at);
    case PIANO_SYMBOL_ADDRESS:
        return take_address(r, symbols, record, bytes, at);
    case PIANO_SYMBOL_JIT:
        return take_jit(r, symbols, record, bytes, at);
    default: /* from a later version of piano */
        return 0;
    }
}

/* Equal ids keep the order of the file, which is their order in memory. */
static int compare_texts(const void *a, const void *b)
{
    const struct text *x = a, *y = b;
    return ORDER(x->id, y->id) ?: ORDER(x->text, y->text);
}

static int compare_places(const struct address *x, const struct address *y)
{
    return ORDER(x->module, y->module) ?: ORDER(x->address, y->address);
}

static int compare_addresses(const void *a, const void *b)
{
    const struct address *x = a, *y = b;
    return compare_places(x, y) ?: ORDER(x->frames, y->frames);
}

static int compare_jit_places(const struct jit *x, const struct jit *y)
{
    return ORDER(x->pid, y->pid) ?: ORDER(x->address, y->address);
}

static int compare_jits(const void *a, const void *b)
{
    const struct jit *x = a, *y = b;
    return compare_jit_places(x, y) ?: ORDER(x->order, y->order);
}

static void sort_all(struct recording_symbols *s)
{
    if (s->text_count)
        qsort(s->texts, s->text_count, sizeof(*s->texts), compare_texts);
    if (s->count)
        qsort(s->list, s->count, sizeof(*s->list), compare_addresses);
    if (s->jit_count)
        qsort(s->jits, s->jit_count, sizeof(*s->jits), compare_jits);
}

static size_t room_needed(const struct rec_reader *r)
{
    size_t sum = 0;
    for (size_t i = 0; i < r->chunk_count; i++)
        sum += r->chunks[i].type == PIANO_CHUNK_SYMBOLS ? r->chunks[i].used : 0;
    return sum;
}

int rec_read_symbols(struct rec_reader *r)
{
    size_t room = room_needed(r);
    if (room == 0)
        return 0;
    struct recording_symbols *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    r->rec->symbols = s;
    s->arena = malloc(room);
    if (!s->arena)
        return -ENOMEM;
    int err =
        rec_each(r, PIANO_CHUNK_SYMBOLS, sizeof(struct piano__symbol_text),
                 "a stored name that cannot be read: the rest of its chunk is left out", take, s);
    sort_all(s);
    return err;
}

/* ---- of another process ---- */

static int add_texts(struct recording_symbols *to, const struct recording_symbols *from,
                     uint32_t texts)
{
    for (size_t i = 0; i < from->text_count; i++) {
        if (from->texts[i].id > UINT32_MAX - texts)
            break;
        if (VEC_ROOM(to->texts, to->text_count, to->text_cap) != 0)
            return -ENOMEM;
        to->texts[to->text_count++] = (struct text){from->texts[i].id + texts, from->texts[i].text};
    }
    return 0;
}

/* The number in TO of module NUMBER of FROM, new if it is not there yet; 0: out of memory. */
static uint32_t module_in(struct recording_symbols *to, const struct recording_symbols *from,
                          uint32_t number)
{
    const struct module *m = NULL;
    for (size_t i = 0; i < from->module_count && !m; i++)
        m = from->modules[i].id == number ? &from->modules[i] : NULL;
    if (!m)
        return UINT32_MAX; /* there is no such module */
    uint32_t found = recording_symbol_module(to, m->path, m->build_id, m->build_id_len), last = 0;
    for (size_t i = 0; i < to->module_count; i++)
        last = to->modules[i].id > last ? to->modules[i].id : last;
    if (found || last >= UINT32_MAX - 1)
        return found ? found : UINT32_MAX;
    if (VEC_ROOM(to->modules, to->module_count, to->module_cap) != 0)
        return 0;
    struct module *new = &to->modules[to->module_count++];
    *new = *m;
    return new->id = last + 1;
}

/* The addresses of a module are consecutive. */
static int add_addresses(struct recording_symbols *to, const struct recording_symbols *from,
                         uint32_t texts)
{
    uint32_t module = 0, known = 0;
    for (size_t i = 0; i < from->count; i++) {
        struct address a = from->list[i];
        if (a.module != known)
            module = module_in(to, from, a.module);
        known = a.module;
        if (known != 0 && module == 0)
            return -ENOMEM;
        a.module = known ? module : 0; /* 0: the kernel */
        a.texts = texts;
        if (VEC_ROOM(to->list, to->count, to->cap) != 0)
            return -ENOMEM;
        to->list[to->count++] = a;
    }
    return 0;
}

static int add_jits(struct recording_symbols *to, const struct recording_symbols *from,
                    uint32_t texts)
{
    for (size_t i = 0; i < from->jit_count; i++) {
        struct jit j = from->jits[i];
        j.function += texts;
        j.file += j.file ? texts : 0;
        j.order = to->jit_count;
        if (VEC_ROOM(to->jits, to->jit_count, to->jit_cap) != 0)
            return -ENOMEM;
        to->jits[to->jit_count++] = j;
    }
    return 0;
}

int rec_add_symbols(struct recording *rec, const struct recording *from)
{
    if (!from->symbols)
        return 0;
    if (!rec->symbols)
        rec->symbols = calloc(1, sizeof(*rec->symbols));
    struct recording_symbols *to = rec->symbols;
    if (!to)
        return -ENOMEM;
    uint32_t texts = to->text_count ? to->texts[to->text_count - 1].id : 0;
    int err = add_texts(to, from->symbols, texts) ?: add_addresses(to, from->symbols, texts);
    err = err ?: add_jits(to, from->symbols, texts);
    sort_all(to);
    return err;
}

void rec_free_symbols(struct recording *rec)
{
    struct recording_symbols *s = rec->symbols;
    if (!s)
        return;
    free(s->arena);
    free(s->texts);
    free(s->modules);
    free(s->list);
    free(s->jits);
    free(s);
}

uint32_t recording_symbol_module(const struct recording_symbols *s, const char *path,
                                 const uint8_t *build_id, size_t len)
{
    for (size_t i = 0; i < s->module_count; i++) {
        const struct module *m = &s->modules[i];
        if (m->build_id_len == len && (len == 0 || memcmp(m->build_id, build_id, len) == 0) &&
            strcmp(m->path, path) == 0)
            return m->id;
    }
    return 0;
}

size_t recording_symbol_frames(const struct recording_symbols *s, uint32_t module, uint64_t address,
                               const struct piano__symbol_frame **frames, uint32_t *texts)
{
    const struct address key = {.module = module, .address = address};
    size_t low = ORDER_BOUND(at, s->count, compare_places(&s->list[at], &key) < 0);
    if (low == s->count || compare_places(&s->list[low], &key) != 0)
        return 0;
    *frames = s->list[low].frames;
    *texts = s->list[low].texts;
    return s->list[low].count;
}

const char *recording_symbol_text(const struct recording_symbols *s, uint32_t id)
{
    size_t low = ORDER_BOUND(at, s->text_count, s->texts[at].id < id);
    return low < s->text_count && s->texts[low].id == id ? s->texts[low].text : NULL;
}

bool recording_symbol_has_jit(const struct recording_symbols *s)
{
    return s && s->jit_count > 0;
}

/* UINT64_MAX is later than any `until`, but whatever holds for ever holds then too. */
static bool holds_at(const struct jit *j, uint64_t at_ns)
{
    return at_ns >= j->since && (at_ns < j->until || j->until == UINT64_MAX);
}

bool recording_symbol_jit(const struct recording_symbols *s, uint32_t pid, uint64_t address,
                          uint64_t at_ns, struct recording_jit *found)
{
    const struct jit key = {.pid = pid, .address = address};
    size_t count = s ? s->jit_count : 0;
    size_t low = ORDER_BOUND(at, count, compare_jit_places(&s->jits[at], &key) < 0);
    while (low < count && compare_jit_places(&s->jits[low], &key) == 0 &&
           !holds_at(&s->jits[low], at_ns))
        low++;
    if (low == count || compare_jit_places(&s->jits[low], &key) != 0)
        return false;
    const struct jit *j = &s->jits[low];
    *found = (struct recording_jit){.function = recording_symbol_text(s, j->function),
                                    .file = j->file ? recording_symbol_text(s, j->file) : NULL,
                                    .line = j->line};
    return found->function != NULL;
}
