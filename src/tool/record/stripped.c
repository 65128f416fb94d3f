#include "tool/record/stripped.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/allocators.h"
#include "common/recording.h"
#include "tool/load/own.h"
#include "tool/util/say.h"

enum { MAX_SAID = 3 };

/* Parts of messages. They are joined at run time, so that they are not found in piano itself. */
static const struct {
    enum piano__own_kind kind;
    const char *parts[2];
} marks[] = {{PIANO_OWN_JEMALLOC, {"<jemalloc>: ", "Conf string ends with"}},
             {PIANO_OWN_MIMALLOC, {"mimalloc: ", "error: "}},
             {PIANO_OWN_TCMALLOC, {"tcmalloc.", "central_cache_free"}}};

static bool has_text(const char *data, size_t len, const char *text)
{
    return memmem(data, len, text, strlen(text)) != NULL;
}

/* CPython contains mimalloc since 3.13, and uses it in builds without the GIL, or if PYTHONMALLOC
 * names it. */
static bool is_unused(const char *data, size_t len, enum piano__own_kind kind)
{
    const char *chosen = getenv("PYTHONMALLOC");
    bool is_chosen = chosen && strncmp(chosen, "mimalloc", strlen("mimalloc")) == 0;
    return kind == PIANO_OWN_MIMALLOC && !is_chosen && has_text(data, len, "pymalloc_debug") &&
           !has_text(data, len, "free-threading build");
}

/* Returns whether the file contains the messages of an allocator that it uses. */
static bool find_allocator(const char *data, size_t len, enum piano__own_kind *kind)
{
    char mark[64];
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        int length = snprintf(mark, sizeof mark, "%s%s", marks[i].parts[0], marks[i].parts[1]);
        *kind = marks[i].kind;
        if (memmem(data, len, mark, (size_t)length) && !is_unused(data, len, *kind))
            return true;
    }
    return false;
}

static bool has_allocator(const char *path, enum piano__own_kind *kind)
{
    struct stat st;
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        size_t len = (size_t)st.st_size;
        void *data = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data != MAP_FAILED) {
            found = find_allocator(data, len, kind);
            munmap(data, len);
        }
    }
    close(fd);
    return found;
}

static void mark_hidden(const char *path, enum piano__own_kind kind)
{
    const uint64_t words[] = {PIANO_OWN_HIDDEN, kind, PIANO_OWN_STRIPPED};
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return;
    ssize_t written =
        pwrite(fd, words, sizeof words, offsetof(struct piano__rec_header, stats.own_state));
    (void)written; /* then the figures are those of the other allocator */
    close(fd);
}

/* Whether the runtime found no symbols, so that a closer look helps. */
static bool is_stripped(const struct piano__rec_header *h)
{
    const struct piano__heap_stats *s = &h->stats;
    bool is_nameless = s->own_state == PIANO_OWN_HIDDEN && s->own_kind == PIANO_OWN_MALLOC &&
                       s->own_reason == PIANO_OWN_STRIPPED;
    return h->flags & PIANO_REC_HAS_HEAP && (s->own_state == PIANO_OWN_UNKNOWN || is_nameless);
}

void stripped_look(const struct recordings *r)
{
    char last[PIANO_REC_PATH] = "";
    enum piano__own_kind kind = PIANO_OWN_MALLOC;
    bool found = false;
    for (size_t i = 0; i < r->count; i++) {
        struct piano__rec_header h;
        if (recordings_header(r->list[i].path, &h) != 0 || !is_stripped(&h))
            continue;
        h.program[sizeof h.program - 1] = '\0';
        if (strcmp(last, h.program) != 0)
            found = has_allocator(h.program, &kind);
        memcpy(last, h.program, sizeof last);
        if (found)
            mark_hidden(r->list[i].path, kind);
    }
}

/* Recordings of other processes without samples are removed: nothing else would mention them. */
static bool is_dropped(const struct recordings *r, const struct recording *one,
                       const struct piano__rec_header *h)
{
    return one->pid != r->program && own_is_hidden(h) && h->stats.samples == 0 &&
           h->trace.samples == 0 && h->trace.events == 0;
}

void stripped_say_dropped(const struct recordings *r)
{
    char last[OWN_NOTICE] = "", notice[OWN_NOTICE];
    for (size_t i = 0, said = 0; i < r->count && said < MAX_SAID; i++) {
        struct piano__rec_header h;
        if (recordings_header(r->list[i].path, &h) != 0 || !is_dropped(r, &r->list[i], &h) ||
            strcmp(last, own_notice(notice, &h)) == 0)
            continue;
        say("%s", notice);
        memcpy(last, notice, sizeof last);
        said++;
    }
}
