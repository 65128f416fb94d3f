/* Modules by path and build-id, and a cache of the frames found for each pc. codefile.c does the
 * search.
 *
 * A module whose file cannot be read still has an entry: its addresses are named "module+0xoffset",
 * and the reason is kept for the report. */
#include "tool/symbol/symbol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/symbol/debugfile.h"
#include "tool/symbol/codefile.h"
#include "tool/symbol/strings.h"
#include "tool/util/map.h"
#include "tool/util/vec.h"

struct module {
    char *path;
    uint8_t *build_id;
    size_t build_id_len;
    const char *name; /* last component of the path */
    struct codefile *code;
    bool opened;
    const char *reason;  /* why `code` is NULL, until it is reported */
    uint32_t remembered; /* its number in `memory`; 0: none */
    struct map answers;  /* from an address to its index in `answers` */
};

/* The frames found for an address. */
struct answer {
    const struct symbol_frame *frames;
    size_t count;
};

enum { NO_MODULE = UINT32_MAX, GUESSES = 256 };

struct symbols {
    struct strings strings;
    struct debugfile_search search;
    struct symbol_memory memory;
    char *dirs;
    struct module *modules;
    size_t module_count;
    uint32_t guess[GUESSES]; /* by bias: index of the module found last */
    struct map elsewhere;    /* answers for addresses outside of modules */
    struct answer *answers;
    size_t answer_count;
    struct symbol_complaint *complaints;
    size_t complaint_count;
    void (*say)(void *ctx, const char *what);
    void *ctx;
};

static const struct symbol_frame unknown = {.function = "[unknown]", .module = "[unknown]"};

struct symbols *symbols_new(void)
{
    return calloc(1, sizeof(struct symbols));
}

void symbols_free(struct symbols *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->module_count; i++) {
        codefile_free(s->modules[i].code);
        free(s->modules[i].path);
        free(s->modules[i].build_id);
        map_release(&s->modules[i].answers);
    }
    map_release(&s->elsewhere);
    debuginfod_release(&s->search.debuginfod);
    strings_release(&s->strings);
    free(s->modules);
    free(s->answers);
    free(s->complaints);
    free(s->dirs);
    free(s);
}

void symbols_progress(struct symbols *s, void (*say)(void *ctx, const char *what), void *ctx)
{
    s->say = s->search.debuginfod.say = say;
    s->ctx = s->search.debuginfod.ctx = ctx;
}

void symbols_debug_dirs(struct symbols *s, const char *dirs)
{
    free(s->dirs);
    s->dirs = strdup(dirs);
}

void symbols_remember(struct symbols *s, const struct symbol_memory *memory)
{
    s->memory = *memory;
}

void symbols_offline(struct symbols *s)
{
    s->search.debuginfod.off = true;
}

size_t symbols_complaints(const struct symbols *s, const struct symbol_complaint **list)
{
    *list = s->complaints;
    return s->complaint_count;
}

static void complain(struct symbols *s, const char *path, const char *reason)
{
    path = strings_puts(&s->strings, path);
    if (path && VEC_DOUBLE(s->complaints, s->complaint_count) == 0)
        s->complaints[s->complaint_count++] = (struct symbol_complaint){path, reason};
}

static bool is_module(const struct module *m, const struct symbol_module *wanted)
{
    return m->build_id_len == wanted->build_id_len && strcmp(m->path, wanted->path) == 0 &&
           (m->build_id_len == 0 || memcmp(m->build_id, wanted->build_id, m->build_id_len) == 0);
}

/* Index of the module WANTED; NO_MODULE: out of memory. */
static uint32_t find_module(struct symbols *s, const struct symbol_module *wanted)
{
    uint32_t *guess = &s->guess[(wanted->bias >> 12 ^ wanted->bias >> 20) % GUESSES];
    if (*guess < s->module_count && is_module(&s->modules[*guess], wanted))
        return *guess;
    for (size_t i = 0; i < s->module_count; i++)
        if (is_module(&s->modules[i], wanted))
            return *guess = (uint32_t)i;
    if (VEC_DOUBLE(s->modules, s->module_count) != 0)
        return NO_MODULE;
    const char *slash = strrchr(wanted->path, '/');
    struct module m = {
        .path = strdup(wanted->path),
        .build_id = malloc(wanted->build_id_len + 1),
        .build_id_len = wanted->build_id_len,
        .name = strings_puts(&s->strings, slash && slash[1] ? slash + 1 : wanted->path),
    };
    if (!m.path || !m.build_id || !m.name) {
        free(m.path);
        free(m.build_id);
        return NO_MODULE;
    }
    if (m.build_id_len)
        memcpy(m.build_id, wanted->build_id, m.build_id_len);
    if (s->memory.module)
        m.remembered = s->memory.module(s->memory.ctx, wanted);
    s->modules[s->module_count] = m;
    return *guess = (uint32_t)s->module_count++;
}

static void open_module(struct symbols *s, struct module *m, const struct symbol_module *wanted)
{
    const char *reason = NULL;
    char what[256];
    m->opened = true;
    snprintf(what, sizeof(what), "reading symbols of %s", m->name);
    if (s->say)
        s->say(s->ctx, what);
    s->search.dirs = s->dirs ? s->dirs : "/usr/lib/debug";
    m->code = codefile_open(wanted, &s->search, &s->strings, &reason);
    if (!m->code)
        m->reason = reason ? reason : "out of memory";
}

bool symbols_has(struct symbols *s, const struct symbol_module *module)
{
    uint32_t index = find_module(s, module);
    return index != NO_MODULE && s->modules[index].code;
}

/* Stores COUNT of FRAMES of ADDR in M (may be NULL). A frame without a name is named after its
 * address. */
static struct answer keep_answer(struct symbols *s, const struct module *m, uint64_t addr,
                                 struct symbol_frame *frames, size_t count)
{
    struct symbol_frame *last = &frames[count - 1];
    if (!last->function && m) {
        uint64_t start = m->code ? codefile_function(m->code, addr) : addr;
        last->function =
            strings_printf(&s->strings, "%s+0x%llx", m->name, (unsigned long long)start);
    } else if (!last->function) {
        last->function = strings_printf(&s->strings, "0x%llx", (unsigned long long)addr);
    }
    for (size_t i = 0; i < count; i++) {
        frames[i].module = m ? m->name : unknown.module;
        frames[i].function = frames[i].function ? frames[i].function : unknown.function;
    }
    struct symbol_frame *kept = strings_take(&s->strings, count * sizeof(*kept));
    if (!kept)
        return (struct answer){&unknown, 1};
    memcpy(kept, frames, count * sizeof(*kept));
    return (struct answer){kept, count};
}

/* Copies the remembered frames of ADDR in M into our strings. */
static size_t recall(struct symbols *s, const struct module *m, uint64_t addr,
                     struct symbol_frame frames[UNITS_FRAMES])
{
    size_t count = m->remembered
                       ? s->memory.find(s->memory.ctx, m->remembered, addr, frames, UNITS_FRAMES)
                       : 0;
    for (size_t i = 0; i < count; i++) {
        const struct symbol_frame f = frames[i];
        frames[i] = (struct symbol_frame){.function = strings_puts(&s->strings, f.function),
                                          .file = f.file ? strings_puts(&s->strings, f.file) : NULL,
                                          .line = f.line,
                                          .inlined = f.inlined};
    }
    return count;
}

/* Frames of ADDR in M, which is WANTED, without their module; 0: unknown. Remembered frames are
 * used if they have a line. They are also used if the module has no build-id, because its file may
 * have been replaced. */
static size_t find_frames(struct symbols *s, struct module *m, const struct symbol_module *wanted,
                          uint64_t addr, struct symbol_frame frames[UNITS_FRAMES])
{
    size_t count = recall(s, m, addr, frames);
    if (count > 0 && (frames[0].file || m->build_id_len == 0))
        return count;
    if (!m->opened)
        open_module(s, m, wanted);
    struct symbol_frame found[UNITS_FRAMES];
    size_t better = m->code ? codefile_find(m->code, addr, found) : 0;
    if (better > 0)
        memcpy(frames, found, better * sizeof(*found));
    if (count == 0 && m->reason) { /* no complaint if names are remembered */
        complain(s, m->path, m->reason);
        m->reason = NULL;
    }
    return better > 0 ? better : count;
}

size_t symbols_resolve(struct symbols *s, const struct symbol_module *module, uint64_t pc,
                       const struct symbol_frame **frames)
{
    uint32_t index = module ? find_module(s, module) : NO_MODULE;
    *frames = &unknown;
    if (module && index == NO_MODULE)
        return 1;
    struct module *m = module ? &s->modules[index] : NULL;
    struct map *answers = m ? &m->answers : &s->elsewhere;
    uint64_t addr = m ? pc - module->bias : pc;
    uint32_t known = map_find(answers, addr);
    if (known == MAP_NONE) {
        struct symbol_frame found[UNITS_FRAMES];
        if (VEC_DOUBLE(s->answers, s->answer_count) != 0 ||
            map_put(answers, addr, (uint32_t)s->answer_count) != 0)
            return 1;
        size_t count = m ? find_frames(s, m, module, addr, found) : 0;
        if (count == 0)
            found[count++] = (struct symbol_frame){0};
        known = (uint32_t)s->answer_count++;
        s->answers[known] = keep_answer(s, m, addr, found, count);
    }
    *frames = s->answers[known].frames;
    return s->answers[known].count;
}
