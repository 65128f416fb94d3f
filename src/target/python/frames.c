/* WHAT. A thread of CPython has a chain of frames, one for each function it is in. Only this thread
 * uses its chain, and it is the thread that is sampled. So the GIL is not needed, and code that
 * runs without it is sampled like any other.
 *
 * WHERE. A Python function that calls another stays inside one call of the interpreter's loop,
 * which is a C function. C code that calls Python begins another call of the loop. The chain shows
 * where: each call of the loop has a structure on its C stack that is part of the chain (a
 * `place`). A native frame extends from its stack pointer to its caller's. The frame that contains
 * the place is the loop, whatever its name. All functions up to that place replace it.
 *
 * Frames of piano itself, between CPython's allocator and the one below, are left out here.
 *
 * Nothing is read while CPython shuts down: it then frees the state of threads that still run C
 * code.
 *
 * WHEN INTERRUPTED, a thread may be in the middle of changing its chain. Then every word is read
 * through the kernel (codes.h), the length of the chain is limited, and a place must be on the
 * stack that was walked. The remaining error is a wrong name in one sample. */
#include "target/python/frames.h"

#include <string.h>

#include "common/python.h"
#include "target/unwind/memory.h"
#include "target/unwind/module.h"

enum { MOST_FRAMES = 1 << 16, MOST_ASKED = 8192, FRAME_BYTES = 128 };

/* NULL in a program that is not CPython, or older than 3.11. */
extern void *PyGILState_GetThisThreadState(void) __attribute__((weak));
extern int Py_IsInitialized(void) __attribute__((weak));
extern const unsigned long Py_Version __attribute__((weak));
extern const char _PyRuntime[] __attribute__((weak));

struct frame {
    uintptr_t code, previous, instruction;
    bool is_entry; /* its caller is C code */
    bool is_place; /* not a function, but the loop's own frame */
};

/* A position in the chain. */
struct chain {
    const struct piano__python_layout *layout;
    struct piano__python_room *room;
    uintptr_t cframe; /* of the group, if the version has cframes */
    uintptr_t first;  /* first frame of the group */
    uintptr_t place;
    unsigned left; /* limit on the number of frames still to be read */
};

/* The version ---------------------------------------------------------------------------------- */

static bool is_sane(const struct piano__python_layout *l)
{
    const uint16_t in_code[] = {l->code_file, l->code_name, l->code_table, l->code_first_line};
    for (unsigned i = 0; i < sizeof in_code / sizeof *in_code; i++) {
        if (in_code[i] + sizeof(uintptr_t) > l->code_instructions)
            return false;
    }
    return l->code_instructions <= PIANO_PYTHON_HEAD && l->frame_bytes <= FRAME_BYTES &&
           l->frame_code + sizeof(uintptr_t) <= l->frame_bytes &&
           l->frame_previous + sizeof(uintptr_t) <= l->frame_bytes &&
           l->frame_instruction + sizeof(uintptr_t) <= l->frame_bytes &&
           l->frame_owner < l->frame_bytes;
}

static bool find_layout(struct piano__python_layout *out)
{
    if (!&Py_Version || !PyGILState_GetThisThreadState || !Py_IsInitialized)
        return false;
    switch (Py_Version >> 16) {
    case 0x30b:
        return piano__python_layout_311(out, _PyRuntime);
    case 0x30c:
        return piano__python_layout_312(out, _PyRuntime);
    case 0x30d:
        return piano__python_layout_313(out, _PyRuntime);
    case 0x30e:
        return piano__python_layout_314(out, _PyRuntime);
    default:
        return false;
    }
}

/* Returns NULL if the layout is unknown, and also while another thread determines it for the first
 * time. */
static const struct piano__python_layout *layout_here(void)
{
    enum { UNKNOWN, LOOKING, KNOWN, NONE };
    static struct piano__python_layout layout;
    static uint32_t state;
    /* Pairs with the release below: the layout is complete. */
    uint32_t now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
    if (now == UNKNOWN && __atomic_compare_exchange_n(&state, &now, LOOKING, false,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
        now = find_layout(&layout) && is_sane(&layout) ? KNOWN : NONE;
        __atomic_store_n(&state, now, __ATOMIC_RELEASE);
    }
    return now == KNOWN ? &layout : NULL;
}

/* Reading -------------------------------------------------------------------------------------- */

/* Frames are close together, so a whole page is read at once. */
static bool ask(struct piano__python_room *room, uintptr_t at, char *to, size_t len)
{
    uintptr_t page = at & ~(uintptr_t)(PIANO_PYTHON_PAGE - 1);
    struct piano__python_page *p = NULL;
    if (at + len > page + PIANO_PYTHON_PAGE)
        return piano__memory_copy(to, at, len) == len;
    for (uint32_t i = 0; i < PIANO_PYTHON_PAGES && !p; i++)
        p = room->pages[i].at == page ? &room->pages[i] : NULL;
    if (!p) {
        p = &room->pages[room->next_page++ % PIANO_PYTHON_PAGES];
        p->at = page;
        p->len = piano__memory_copy(p->bytes, page, PIANO_PYTHON_PAGE);
    }
    if (at + len > page + p->len)
        return false;
    memcpy(to, p->bytes + (at - page), len);
    return true;
}

static bool read_bytes(struct chain *c, uintptr_t at, void *to, size_t len)
{
    if (at < PIANO_PYTHON_PAGE || at % sizeof(uintptr_t))
        return false;
    if (c->room)
        return ask(c->room, at, to, len);
    memcpy(to, (const void *)at, len);
    return true;
}

static bool read_word(struct chain *c, uintptr_t at, uintptr_t *word)
{
    return read_bytes(c, at, word, sizeof *word);
}

static bool read_frame(struct chain *c, uintptr_t at, struct frame *f)
{
    const struct piano__python_layout *l = c->layout;
    char bytes[FRAME_BYTES];
    if (c->left == 0 || !read_bytes(c, at, bytes, l->frame_bytes))
        return false;
    c->left--;
    memcpy(&f->code, bytes + l->frame_code, sizeof f->code);
    memcpy(&f->previous, bytes + l->frame_previous, sizeof f->previous);
    memcpy(&f->instruction, bytes + l->frame_instruction, sizeof f->instruction);
    f->code &= ~(uintptr_t)l->code_tags;
    f->is_entry = l->has_entry && bytes[l->frame_entry] != 0;
    f->is_place = !l->has_entry && (uint8_t)bytes[l->frame_owner] >= l->owner_c;
    return true;
}

/* Groups --------------------------------------------------------------------------------------- */

/* Finds the place from c->first on. Returns false at the end of the chain. */
static bool find_place(struct chain *c)
{
    struct frame f = {.previous = c->first};
    if (c->layout->has_entry) {
        c->place = c->cframe;
        return c->first != 0;
    }
    do {
        c->place = f.previous;
        if (c->place == 0 || !read_frame(c, c->place, &f))
            return false;
    } while (!f.is_place);
    return true;
}

static bool begin(struct chain *c, uintptr_t thread)
{
    const struct piano__python_layout *l = c->layout;
    if (!l->has_cframe)
        return read_word(c, thread + l->thread_frame, &c->first) && find_place(c);
    return read_word(c, thread + l->thread_frame, &c->cframe) &&
           read_word(c, c->cframe + l->cframe_frame, &c->first) && find_place(c);
}

static bool next(struct chain *c)
{
    const struct piano__python_layout *l = c->layout;
    struct frame f;
    if (l->has_entry)
        return read_word(c, c->cframe + l->cframe_previous, &c->cframe) && c->cframe != 0 &&
               read_word(c, c->cframe + l->cframe_frame, &c->first) && find_place(c);
    if (!read_frame(c, c->place, &f))
        return false;
    c->first = f.previous;
    return find_place(c);
}

/* Merging -------------------------------------------------------------------------------------- */

static bool put(struct piano__walk *walk, uint32_t *count, uint64_t pc)
{
    if (*count == PIANO_MAX_FRAMES) {
        walk->flags |= PIANO_STACK_FULL;
        return false;
    }
    walk->spare[(*count)++] = pc;
    return true;
}

static uint64_t pc_of(const struct piano__python_layout *layout, uint32_t number, uintptr_t code,
                      uintptr_t at)
{
    intptr_t bytes = (intptr_t)(at - (code + layout->code_instructions));
    uint32_t instruction = bytes > 2 * (intptr_t)PIANO_PYTHON_MOST ? PIANO_PYTHON_MOST
                           : bytes > 0                             ? (uint32_t)(bytes / 2)
                                                                   : 0;
    return piano__python_pc(number, number > 0 ? instruction : 0);
}

/* In a signal handler, all numbers are determined together later. */
static uint64_t name(struct chain *c, const struct frame *f, uint32_t place)
{
    struct piano__python_room *room = c->room;
    if (!room)
        return pc_of(c->layout, piano__python_number(c->layout, f->code), f->code, f->instruction);
    if (place < PIANO_MAX_FRAMES)
        room->found[room->count++] = (struct piano__python_found){
            .code = f->code, .instruction = f->instruction, .place = place};
    return 0;
}

static void name_all(const struct chain *c, struct piano__walk *walk)
{
    piano__python_numbers(c->layout, c->room);
    for (uint32_t i = 0; i < c->room->count; i++) {
        const struct piano__python_found *f = &c->room->found[i];
        walk->spare[f->place] = pc_of(c->layout, f->number, f->code, f->instruction);
    }
}

static bool put_group(struct chain *c, struct piano__walk *walk, uint32_t *count)
{
    struct frame f = {.previous = c->first};
    bool has_room = true;
    while (has_room && !f.is_entry && f.previous != 0 && read_frame(c, f.previous, &f) &&
           !f.is_place)
        has_room = put(walk, count, name(c, &f, *count));
    return has_room;
}

static bool is_own(uint64_t pc)
{
    static uintptr_t start, end; /* concurrent callers find the same values */
    /* `end` first: pairs with the release below, so `start` is set. */
    uintptr_t to = __atomic_load_n(&end, __ATOMIC_ACQUIRE);
    uintptr_t from = __atomic_load_n(&start, __ATOMIC_RELAXED);
    if (to == 0) {
        if (!piano__module_own(&from, &to))
            return false;
        __atomic_store_n(&start, from, __ATOMIC_RELAXED);
        /* Pairs with the acquire above. */
        __atomic_store_n(&end, to, __ATOMIC_RELEASE);
    }
    return pc - 1 >= from && pc - 1 < to;
}

static uint32_t merge(struct chain *c, bool has_more, struct piano__walk *walk)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < walk->depth; i++) {
        /* Skips places that are not on a stack that was walked. */
        while (has_more && c->place < walk->sps[i])
            has_more = next(c);
        if (has_more && c->place < walk->sps[i + 1]) {
            if (!put_group(c, walk, &count))
                return count;
            has_more = next(c);
        } else if (!is_own(walk->pcs[i]) && !put(walk, &count, walk->pcs[i])) {
            return count;
        }
    }
    /* A truncated walk would have reached these. */
    while (has_more && walk->flags & (PIANO_STACK_LOST | PIANO_STACK_FULL) &&
           put_group(c, walk, &count))
        has_more = next(c);
    return count;
}

void piano__python_merge(struct piano__walk *walk, struct piano__python_room *room)
{
    struct chain c = {
        .layout = layout_here(), .room = room, .left = room ? MOST_ASKED : MOST_FRAMES};
    if (!c.layout)
        return;
    if (room) {
        room->count = 0;
        for (int i = 0; i < PIANO_PYTHON_PAGES; i++)
            room->pages[i].at = 0;
    }
    bool is_readable = Py_IsInitialized() && (room || !walk->is_interrupted);
    uintptr_t thread = is_readable ? (uintptr_t)PyGILState_GetThisThreadState() : 0;
    uint32_t count = merge(&c, thread != 0 && begin(&c, thread), walk);
    if (room && room->count > 0)
        name_all(&c, walk);
    memcpy(walk->pcs, walk->spare, count * sizeof walk->pcs[0]);
    walk->depth = count;
}
