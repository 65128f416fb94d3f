/* Names of JIT code, by process, address and time.
 *
 * One address can be several functions, one after the other, and in several processes. A stack in
 * a recording is only a list of addresses. So a stack whose samples disagree is split before it is
 * named, and then every stack has one process and one time. */
#include "tool/profile/jitted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "tool/profile/runtime_files.h"
#include "tool/symbol/jit.h"
#include "tool/symbol/kernel.h"
#include "tool/util/map.h"
#include "tool/util/paths.h"
#include "tool/util/vec.h"

const char jitted_module[] = "[JIT]";

#define UNNAMED "[JIT code"

enum { MOST_PROCESSES = 4096, MEANINGS = 64 };

struct process {
    uint32_t pid;
    struct jit_names names;
    const char *unnamed; /* "[JIT code of node]"; NULL: not needed so far */
};

struct jitted {
    const struct recording *rec;
    struct strings strings;
    struct process *processes;
    size_t count, cap;
    struct map by_pid;
    /* By stack, from the samples; NULL: not needed so far. */
    uint32_t *pids;
    uint64_t *times;
    bool is_kept; /* the recording has names */
    bool has_files;
    bool has_times; /* some names count for a part of the time only */
    char complaint[512];
};

/* ---- processes ---- */

static struct process *process_of(struct jitted *j, uint32_t pid)
{
    uint32_t at = map_find(&j->by_pid, pid);
    if (at != MAP_NONE)
        return &j->processes[at];
    if (j->count == MOST_PROCESSES || VEC_ROOM(j->processes, j->count, j->cap) != 0 ||
        map_put(&j->by_pid, pid, (uint32_t)j->count) != 0)
        return NULL;
    j->processes[j->count] = (struct process){.pid = pid, .names = {.strings = &j->strings}};
    return &j->processes[j->count++];
}

static int read_files(struct jitted *j)
{
    const struct recording *rec = j->rec;
    int err = process_of(j, rec->header.pid) ? 0 : -ENOMEM;
    for (size_t i = 0; i < rec->thread_count && err == 0; i++)
        if (rec->threads[i].pid)
            (void)process_of(j, rec->threads[i].pid);
    for (size_t i = 0; i < j->count && err == 0; i++) {
        struct jit_names *names = &j->processes[i].names;
        err =
            runtime_files_read(rec, j->processes[i].pid, names, j->complaint, sizeof(j->complaint));
        j->has_files |= names->count > 0;
        for (size_t k = 0; k < names->count; k++)
            j->has_times |= names->list[k].since > 0 || names->list[k].until != JIT_ALWAYS;
    }
    return err;
}

struct jitted *jitted_new(const struct recording *rec)
{
    struct jitted *j = calloc(1, sizeof(*j));
    if (!j)
        return NULL;
    j->rec = rec;
    j->is_kept = recording_symbol_has_jit(rec->symbols);
    j->has_times = j->is_kept;
    if (!j->is_kept && read_files(j) != 0) {
        jitted_free(j);
        return NULL;
    }
    return j;
}

void jitted_free(struct jitted *j)
{
    if (!j)
        return;
    for (size_t i = 0; i < j->count; i++)
        jit_release(&j->processes[i].names);
    free(j->processes);
    map_release(&j->by_pid);
    strings_release(&j->strings);
    free(j->pids);
    free(j->times);
    free(j);
}

bool jitted_has_files(const struct jitted *j)
{
    return j->has_files;
}

const char *jitted_complaint(const struct jitted *j)
{
    return *j->complaint ? j->complaint : NULL;
}

/* "[JIT code of node]" */
static const char *unnamed(struct jitted *j, uint32_t pid)
{
    static const char plain[] = UNNAMED "]";
    struct process *p = process_of(j, pid);
    const struct recording_thread *main = recording_thread_of(j->rec, pid);
    if (!p)
        return plain;
    const char *name = pid == j->rec->header.pid ? paths_base(j->rec->header.program)
                       : main                    ? main->name
                                                 : "";
    if (!p->unnamed)
        p->unnamed = *name ? strings_printf(&j->strings, UNNAMED " of %s]", name)
                           : strings_puts(&j->strings, plain);
    return p->unnamed ? p->unnamed : plain;
}

/* ---- names ---- */

bool jitted_is_unnamed(const struct symbol_frame *frame)
{
    return frame->module == jitted_module &&
           strncmp(frame->function, UNNAMED, sizeof(UNNAMED) - 1) == 0;
}

/* The tool records anonymous mappings as modules; without one, nothing is known about PC. The
 * program asks the dynamic linker instead, so what it has no module for is in no file. */
bool jitted_is(const struct recording_module *m, uint64_t pc, uint64_t generation)
{
    /* Runtimes that map code twice, to write and to run it, map such files. */
    static const char *const nameless[] = {PIANO_NO_FILE, "/memfd:", "/dev/zero", "/dev/shm/"};
    uint32_t own = (uint32_t)generation; /* without the part */
    bool by_tool = own >= PIANO_TOOL_STACK && own < PIANO_CPU_STACK;
    for (size_t i = 0; m && i < sizeof(nameless) / sizeof(*nameless); i++)
        if (strncmp(m->path, nameless[i], strlen(nameless[i])) == 0)
            return true;
    return !m && !by_tool && !kernel_is(pc) && !piano__python_is(pc);
}

static bool find_kept(struct jitted *j, uint32_t pid, uint64_t pc, uint64_t at_ns,
                      struct symbol_frame *frame)
{
    struct recording_jit found;
    if (!recording_symbol_jit(j->rec->symbols, pid, pc, at_ns, &found))
        return false;
    frame->function = strings_puts(&j->strings, found.function);
    frame->file = found.file ? strings_puts(&j->strings, found.file) : NULL;
    frame->line = found.line;
    return frame->function != NULL;
}

static bool find_in_files(struct jitted *j, uint32_t pid, uint64_t pc, uint64_t at_ns,
                          struct symbol_frame *frame)
{
    const struct jit_code *found[MEANINGS];
    const struct process *p = process_of(j, pid);
    size_t count = p ? jit_find(&p->names, pc, found, MEANINGS) : 0, i = 0;
    while (i < count &&
           (at_ns < found[i]->since || (at_ns >= found[i]->until && found[i]->until != JIT_ALWAYS)))
        i++;
    if (i == count)
        return false;
    frame->function = found[i]->name;
    jit_place(&p->names, found[i], pc, &frame->file, &frame->line);
    return true;
}

/* A forked process runs code that its parent made and named. */
static struct symbol_frame resolve(struct jitted *j, uint32_t pid, uint64_t pc, uint64_t at_ns)
{
    struct symbol_frame frame = {.module = jitted_module};
    const uint32_t pids[] = {pid, j->rec->header.pid};
    for (size_t i = 0; i < 2; i++)
        if (j->is_kept ? find_kept(j, pids[i], pc, at_ns, &frame)
                       : find_in_files(j, pids[i], pc, at_ns, &frame))
            return frame;
    frame.function = unnamed(j, pid);
    return frame;
}

/* Stacks of the heap have the program's pid and the time of their newest sample. */
static bool date_stacks(struct jitted *j)
{
    const struct recording *rec = j->rec;
    if (j->pids)
        return true;
    j->pids = calloc(rec->stack_count + 1, sizeof(*j->pids));
    j->times = calloc(rec->stack_count + 1, sizeof(*j->times));
    if (!j->pids || !j->times)
        return false;
    for (size_t i = 0; i < rec->stack_count; i++) {
        j->pids[i] = rec->header.pid;
        j->times[i] = rec->stacks[i].last_ns;
    }
    for (size_t i = 0; i < rec->sample_count; i++) {
        j->pids[rec->samples[i].stack] = rec->samples[i].pid;
        j->times[rec->samples[i].stack] = rec->samples[i].at_ns;
    }
    return true;
}

struct symbol_frame jitted_resolve(struct jitted *j, uint32_t stack, uint64_t pc)
{
    if (!date_stacks(j))
        return (struct symbol_frame){.function = UNNAMED "]", .module = jitted_module};
    return resolve(j, j->pids[stack], pc, j->times[stack]);
}

size_t jitted_meanings(struct jitted *j, uint64_t pc, struct jitted_meaning *out, size_t most)
{
    const struct jit_code *found[MEANINGS];
    size_t count = 0;
    for (size_t i = 0; i < j->count; i++) {
        const struct jit_names *names = &j->processes[i].names;
        size_t here = jit_find(names, pc, found, MEANINGS);
        for (size_t k = 0; k < here && count < most; k++) {
            struct jitted_meaning *m = &out[count++];
            *m = (struct jitted_meaning){.since = found[k]->since,
                                         .until = found[k]->until,
                                         .function = found[k]->name,
                                         .pid = j->processes[i].pid};
            jit_place(names, found[k], pc, &m->file, &m->line);
        }
    }
    return count;
}

/* ---- splitting ---- */

/* Identifies the functions of JIT code in stack S for one sample; 0: the stack has no such code. */
static uint64_t meaning_of(struct jitted *j, const struct recording_stack *s,
                           const struct recording_sample *sample)
{
    uint64_t hash = 0;
    for (uint32_t i = 0; i < s->depth; i++) {
        uint64_t pc = s->pcs[i] - (s->pcs[i] > 0);
        if (kernel_is(pc) || piano__python_is(s->pcs[i]) ||
            !jitted_is(recording_module_of(j->rec, pc, s->generation), pc, s->generation))
            continue;
        struct symbol_frame f = resolve(j, sample->pid, pc, sample->at_ns);
        const uint64_t parts[] = {hash, i, (uintptr_t)f.function, (uintptr_t)f.file, f.line};
        hash = map_hash(parts, sizeof(parts)) | 1;
    }
    return hash;
}

struct splitter {
    struct jitted *j;
    struct recording *rec;
    uint64_t *meanings; /* by stack: of its first sample; 0: none so far */
    uint8_t *is_plain;  /* by stack: without JIT code */
    struct map parts;   /* from the hash of a stack and a meaning to the new stack */
};

/* The stack of SAMPLE, new if its meaning is. Returns it, or -ENOMEM. */
static int64_t part_of(struct splitter *s, const struct recording_sample *sample, uint64_t meaning)
{
    const uint64_t key[] = {sample->stack, meaning};
    uint64_t hash = map_hash(key, sizeof(key));
    uint32_t found = map_find(&s->parts, hash);
    if (found != MAP_NONE)
        return found;
    if (s->rec->stack_count >= MAP_NONE - 1 ||
        VEC_DOUBLE(s->rec->stacks, s->rec->stack_count) != 0 ||
        map_put(&s->parts, hash, (uint32_t)s->rec->stack_count) != 0)
        return -ENOMEM;
    struct recording_stack copy = s->rec->stacks[sample->stack];
    copy.sum = (struct recording_sum){.samples = 0};
    s->rec->stacks[s->rec->stack_count] = copy;
    return (int64_t)s->rec->stack_count++;
}

static int split_sample(struct splitter *s, size_t index)
{
    const struct recording_sample *sample = &s->rec->samples[index];
    uint32_t stack = sample->stack;
    if (s->is_plain[stack])
        return 0;
    uint64_t meaning = meaning_of(s->j, &s->rec->stacks[stack], sample);
    s->is_plain[stack] = meaning == 0;
    if (meaning == 0 || s->meanings[stack] == 0 || s->meanings[stack] == meaning) {
        s->meanings[stack] = meaning;
        return 0;
    }
    int64_t part = part_of(s, sample, meaning);
    if (part < 0)
        return (int)part;
    recording_move_sample(s->rec, index, (uint32_t)part);
    return 0;
}

int jitted_split(struct jitted *j, struct recording *rec)
{
    struct splitter s = {.j = j, .rec = rec};
    if (!j->has_times && j->count < 2)
        return 0;
    s.meanings = calloc(rec->stack_count + 1, sizeof(*s.meanings));
    s.is_plain = calloc(rec->stack_count + 1, sizeof(*s.is_plain));
    int err = s.meanings && s.is_plain ? 0 : -ENOMEM;
    for (size_t i = 0; i < rec->sample_count && err == 0 && (j->is_kept || j->has_files); i++)
        err = split_sample(&s, i);
    free(s.meanings);
    free(s.is_plain);
    map_release(&s.parts);
    return err;
}
