/* Stores the names of all addresses in the recording itself, because the files that contain the
 * names may soon be rebuilt. `piano record` does this at its end. It also happens when a
 * recording without names is read for the first time.
 *
 *   gather    collects every address of a stack and of a callback's name, once
 *   name      resolves them; addresses in a file that is not the one that ran are left out. JIT
 *             code is named from the files of the runtime, which are the first to disappear
 *   write     writes texts, modules and addresses into chunks in memory, then appends the chunks to
 *             the recording in one step
 *
 * If there is not room for all, files that are likely to be rebuilt come first; system libraries
 * come last. */
#include "tool/record/keep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "tool/load/recording.h"
#include "tool/record/append.h"
#include "tool/profile/jitted.h"
#include "tool/profile/kept.h"
#include "tool/symbol/kernel.h"
#include "tool/util/map.h"
#include "tool/profile/polls.h"
#include "tool/symbol/symbol.h"
#include "tool/util/say.h"
#include "tool/util/vec.h"

enum {
    MOST_ADDRESSES = 1 << 20,
    MOST_CHUNKS = 1024,
    LONGEST_TEXT = 16 * 1024,
    TURN = 256,            /* addresses between two progress updates */
    MOST_LOOKED = 1 << 26, /* limit for names times modules in the search for callbacks */
    MOST_MEANINGS = 256,   /* functions at one address of JIT code, of all processes */
};

/* A file, wherever and however often it was mapped. */
struct file {
    const struct recording_module *first;
    struct map seen; /* addresses already added */
    bool is_system, is_written, is_looked_at, is_there;
};

struct place {
    uint64_t pc; /* address of the call */
    const struct recording_module *module;
    uint32_t file;
};

/* Chunks under construction. */
struct sheet {
    char *data;
    size_t chunks, capacity, most;
    struct map texts; /* from pointer to number; the symbolizer shares equal texts */
    uint32_t text_count;
    bool is_full;
};

struct keep {
    const struct recording *rec;
    struct symbols *symbols;
    bool (*is_asked)(void);
    struct file *files; /* the last is the kernel */
    size_t file_count;
    uint32_t *file_of; /* file of each module of the recording */
    struct place *places;
    size_t place_count, place_capacity;
    struct sheet sheet;
    uint32_t turn;
    struct jitted *jitted; /* NULL: no runtime left names */
    struct map jit_seen;   /* addresses of JIT code that are done */
};

/* ---- files ---- */

static int compare_modules(const void *a, const void *b)
{
    const struct recording_module *const *px = a, *const *py = b;
    const struct recording_module *x = *px, *y = *py;
    int order = strcmp(x->path, y->path);
    if (order == 0 && x->build_id_len != y->build_id_len)
        order = x->build_id_len < y->build_id_len ? -1 : 1;
    return order ? order : memcmp(x->build_id, y->build_id, x->build_id_len);
}

static bool is_below(const char *path, const char *dir)
{
    return strncmp(path, dir, strlen(dir)) == 0;
}

static bool is_system(const char *path)
{
    return (is_below(path, "/usr/") && !is_below(path, "/usr/local/")) || is_below(path, "/lib") ||
           path[0] != '/';
}

static int find_files(struct keep *k)
{
    const struct recording *rec = k->rec;
    const struct recording_module **list = calloc(rec->module_count + 1, sizeof(*list));
    k->files = calloc(rec->module_count + 1, sizeof(*k->files));
    k->file_of = calloc(rec->module_count + 1, sizeof(*k->file_of));
    int err = list && k->files && k->file_of ? 0 : -ENOMEM;
    for (size_t i = 0; i < rec->module_count && err == 0; i++)
        list[i] = &rec->modules[i];
    if (err == 0 && rec->module_count)
        qsort(list, rec->module_count, sizeof(struct recording_module *), compare_modules);
    for (size_t i = 0; i < rec->module_count && err == 0; i++) {
        if (i == 0 || compare_modules(&list[i - 1], &list[i]) != 0)
            k->files[k->file_count++] =
                (struct file){.first = list[i], .is_system = is_system(list[i]->path)};
        k->file_of[list[i] - rec->modules] = (uint32_t)k->file_count - 1;
    }
    free(list);
    k->file_count++;
    if (err == 0)
        k->files[k->file_count - 1].is_system = true;
    return err;
}

/* ---- addresses ---- */

static int add_place(struct keep *k, uint64_t pc, const struct recording_module *m)
{
    uint32_t file = m ? k->file_of[m - k->rec->modules] : (uint32_t)k->file_count - 1;
    uint64_t key = m ? pc - m->bias : pc;
    if (k->place_count == MOST_ADDRESSES || map_find(&k->files[file].seen, key) != MAP_NONE)
        return 0;
    if (VEC_ROOM(k->places, k->place_count, k->place_capacity) != 0)
        return -ENOMEM;
    k->places[k->place_count++] = (struct place){pc, m, file};
    return map_put(&k->files[file].seen, key, 0);
}

/* Updates the progress. Returns -EINTR if is_asked() returns true. */
static int take_turn(struct keep *k)
{
    if (k->turn++ % TURN == 0)
        say_progress_again();
    return k->is_asked && k->is_asked() ? -EINTR : 0;
}

static void keep_jit(struct keep *k, uint64_t pc);

static int gather_stack(struct keep *k, const struct recording_stack *s)
{
    int err = take_turn(k);
    for (uint32_t i = 0; i < s->depth && err == 0; i++) {
        uint64_t pc = s->pcs[i];
        if (piano__python_is(pc))
            continue;
        pc -= pc > 0;
        const struct recording_module *m =
            kernel_is(pc) ? NULL : recording_module_of(k->rec, pc, s->generation);
        if (jitted_is(m, pc, s->generation))
            keep_jit(k, pc);
        else if (m || kernel_is(pc))
            err = add_place(k, pc, m);
    }
    return err;
}

static int gather(struct keep *k)
{
    const struct recording *rec = k->rec;
    size_t most = MOST_LOOKED / (rec->module_count + 1), names = rec->name_count;
    int err = 0;
    for (size_t i = 0; i < rec->stack_count && err == 0; i++)
        err = gather_stack(k, &rec->stacks[i]);
    for (size_t i = 0; i < (names < most ? names : most) && err == 0; i++) {
        uint64_t pc;
        const struct recording_module *m = polls_callback_at(rec, rec->names[i].text, &pc);
        if (m)
            err = add_place(k, pc, m);
    }
    return err;
}

/* ---- chunks ---- */

static struct piano__chunk *last_chunk(const struct sheet *s)
{
    return (struct piano__chunk *)(void *)(s->data + (s->chunks - 1) * PIANO_REC_CHUNK_BYTES);
}

static bool add_chunk(struct sheet *s)
{
    if (s->chunks == s->most ||
        vec_reserve(&s->data, &s->capacity, s->chunks + 1, PIANO_REC_CHUNK_BYTES) != 0)
        return false;
    s->chunks++;
    struct piano__chunk *c = last_chunk(s);
    memset(c, 0, PIANO_REC_CHUNK_BYTES);
    *c = (struct piano__chunk){
        .type = PIANO_CHUNK_SYMBOLS, .ready = 1, .index = s->chunks - 1, .used = 0};
    return true;
}

/* Returns room for a record of BYTES, zeroed. NULL: the sheet is full, and stays full for all
 * later records. */
static void *add_record(struct sheet *s, size_t bytes)
{
    bytes = (bytes + 7) & ~(size_t)7;
    if (s->is_full)
        return NULL;
    if ((s->chunks == 0 || PIANO_REC_PAYLOAD - last_chunk(s)->used < bytes) && !add_chunk(s)) {
        s->is_full = true;
        return NULL;
    }
    struct piano__chunk *c = last_chunk(s);
    void *record = (char *)(c + 1) + c->used;
    c->used += bytes;
    *(uint32_t *)record = (uint32_t)bytes;
    return record;
}

/* Returns the number of TEXT; 0: no room. */
static uint32_t text_number(struct sheet *s, const char *text)
{
    uint32_t known = map_find(&s->texts, (uintptr_t)text);
    if (known != MAP_NONE)
        return known;
    size_t len = strnlen(text, LONGEST_TEXT);
    struct piano__symbol_text *t = add_record(s, sizeof(*t) + len + 1);
    if (!t || map_put(&s->texts, (uintptr_t)text, s->text_count + 1) != 0)
        return 0;
    t->kind = PIANO_SYMBOL_TEXT;
    t->id = ++s->text_count;
    memcpy(t->text, text, len);
    return t->id;
}

static bool write_module(struct keep *k, uint32_t file)
{
    struct file *f = &k->files[file];
    if (f->is_written || !f->first)
        return true;
    size_t len = strlen(f->first->path);
    struct piano__symbol_module *m =
        len < PIANO_REC_PAYLOAD / 2 ? add_record(&k->sheet, sizeof(*m) + len + 1) : NULL;
    if (!m)
        return false;
    m->kind = PIANO_SYMBOL_MODULE;
    m->id = file + 1;
    m->build_id_len = (uint32_t)f->first->build_id_len;
    memcpy(m->build_id, f->first->build_id, sizeof(m->build_id));
    memcpy(m->path, f->first->path, len);
    f->is_written = true;
    return true;
}

/* Texts precede the addresses that refer to them. An address is not written if one of its texts
 * has no room. */
static void write_address(struct keep *k, const struct place *p, const struct symbol_frame *frames,
                          size_t count)
{
    struct sheet *s = &k->sheet;
    if (!write_module(k, p->file))
        return;
    for (size_t i = 0; i < count; i++) {
        if (text_number(s, frames[i].function) == 0 ||
            (frames[i].file && text_number(s, frames[i].file) == 0))
            return;
    }
    struct piano__symbol_address *a = add_record(s, sizeof(*a) + count * sizeof(a->frames[0]));
    if (!a)
        return;
    a->kind = PIANO_SYMBOL_ADDRESS;
    a->module = p->module ? p->file + 1 : 0;
    a->count = (uint32_t)count;
    a->address = p->module ? p->pc - p->module->bias : p->pc;
    for (size_t i = 0; i < count; i++)
        a->frames[i] = (struct piano__symbol_frame){
            .function = text_number(s, frames[i].function),
            .file = frames[i].file ? text_number(s, frames[i].file) : 0,
            .line = frames[i].line,
            .flags = frames[i].inlined ? PIANO_SYMBOL_INLINED : 0};
}

/* Every function that was at PC is stored, with its time: samples tell which is meant. */
static void keep_jit(struct keep *k, uint64_t pc)
{
    struct jitted_meaning found[MOST_MEANINGS];
    if (!k->jitted || map_find(&k->jit_seen, pc) != MAP_NONE || map_put(&k->jit_seen, pc, 0) != 0)
        return;
    size_t count = jitted_meanings(k->jitted, pc, found, MOST_MEANINGS);
    for (size_t i = 0; i < count; i++) {
        uint32_t function = text_number(&k->sheet, found[i].function);
        uint32_t file = found[i].file ? text_number(&k->sheet, found[i].file) : 0;
        struct piano__symbol_jit *j =
            function && (file || !found[i].file) ? add_record(&k->sheet, sizeof(*j)) : NULL;
        if (!j)
            return;
        *j = (struct piano__symbol_jit){.bytes = sizeof(*j),
                                        .kind = PIANO_SYMBOL_JIT,
                                        .pid = found[i].pid,
                                        .line = found[i].line,
                                        .address = pc,
                                        .since = found[i].since,
                                        .until = found[i].until,
                                        .function = function,
                                        .file = file};
    }
}

static void keep_kernel(struct keep *k, const struct place *p)
{
    const struct symbol_frame frame = kernel_resolve(p->pc);
    if (strcmp(frame.function, frame.module) != 0)
        write_address(k, p, &frame, 1);
}

static void keep_place(struct keep *k, const struct place *p)
{
    const struct recording_module *m = p->module;
    struct file *f = &k->files[p->file];
    const struct symbol_frame *frames = NULL;
    if (!m) {
        keep_kernel(k, p);
        return;
    }
    if (f->is_looked_at && !f->is_there)
        return;
    const struct symbol_module module = kept_module(m);
    size_t count = symbols_resolve(k->symbols, &module, p->pc, &frames);
    if (!f->is_looked_at)
        f->is_there = symbols_has(k->symbols, &module);
    f->is_looked_at = true;
    if (f->is_there)
        write_address(k, p, frames, count);
}

static int name_all(struct keep *k)
{
    int err = 0;
    say_progress("keeping the names of %zu addresses", k->place_count);
    for (int system = 0; system < 2; system++)
        for (size_t i = 0; i < k->place_count && err == 0; i++) {
            const struct place *p = &k->places[i];
            if (k->files[p->file].is_system == (system == 1) && !k->sheet.is_full)
                keep_place(k, p);
            err = take_turn(k);
        }
    return err;
}

/* ---- the whole operation ---- */

static void release(struct keep *k)
{
    for (size_t i = 0; k->files && i < k->file_count; i++)
        map_release(&k->files[i].seen);
    map_release(&k->sheet.texts);
    map_release(&k->jit_seen);
    jitted_free(k->jitted);
    free(k->sheet.data);
    free(k->files);
    free(k->file_of);
    free(k->places);
}

/* False for a file that is incomplete, still written, of another user, or has names already. */
static bool may_keep(const struct recording *rec)
{
    return rec->end != RECORDING_RUNNING && !rec->foreign && rec->gap_count == 0 && !rec->symbols;
}

static int keep(const struct recording *rec, struct symbols *symbols, bool (*is_asked)(void))
{
    struct keep k = {.rec = rec, .symbols = symbols, .is_asked = is_asked};
    uint64_t room = piano__rec_most(&rec->header) - rec->header.chunks;
    k.sheet.most = room < MOST_CHUNKS ? (size_t)room : MOST_CHUNKS;
    int err = find_files(&k);
    k.jitted = err == 0 ? jitted_new(rec) : NULL;
    if (k.jitted && !jitted_has_files(k.jitted)) {
        jitted_free(k.jitted);
        k.jitted = NULL;
    }
    if (err == 0)
        err = gather(&k);
    if (err == 0)
        err = name_all(&k);
    if (err == 0 && k.sheet.chunks > 0)
        err = append_chunks(rec->path, rec->header.chunks, k.sheet.data, k.sheet.chunks);
    if (err == 0 && k.sheet.is_full)
        err = -ENOSPC;
    release(&k);
    return err;
}

int keep_names(const char *path, struct symbols *symbols, bool (*is_asked)(void))
{
    struct recording rec;
    struct run_error error;
    int err = recording_load_addresses(&rec, path, &error);
    if (err)
        return err;
    bool is_full = rec.header.chunks >= piano__rec_most(&rec.header);
    if (may_keep(&rec))
        err = is_full ? -ENOSPC : keep(&rec, symbols, is_asked);
    recording_unload(&rec);
    say_progress_done();
    return err;
}
