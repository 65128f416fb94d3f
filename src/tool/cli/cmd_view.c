/* `piano view`: shows a run as a page, in a file or served to a browser on this machine. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tool/cli/command.h"
#include "tool/cli/outcome.h"
#include "tool/load/companion.h"
#include "tool/load/recording.h"
#include "tool/load/runs.h"
#include "tool/report/digest.h"
#include "tool/util/output.h"
#include "tool/util/say.h"
#include "tool/util/units.h"
#include "tool/view/page.h"
#include "tool/view/server.h"

struct request {
    const char *words[2];
    size_t word_count;
    const char *output;
    double port;
    struct range_asked range;
    bool force, no_open, alone;
};

#define SERVED " is for a page that is served, and -o writes it to a file"
static const struct flag flags[] = {
    {"--output",
     "write the page to a file instead: one file, which needs no network and no piano; `-` is "
     "stdout",
     FLAG_TEXT("FILE", output), .alias = "-o", .complete = "file"},
    {"--force", "overwrite FILE", FLAG_SWITCH(force)},
    {"--port", "serve at this port; default is any that is free",
     FLAG_READ("N", flag_number, double, port), .least = 1, .others = "--output",
     .clash = "--port" SERVED},
    {"--no-open", "do not open a browser", FLAG_SWITCH(no_open), .others = "--output",
     .clash = "--no-open" SERVED},
    FLAGS_RANGE,
    {"--alone", "without the recording (or the run) of the same process", FLAG_SWITCH(alone)},
    {0},
};

/* ---- choosing the files ---- */

/* The run that WORD means, malloc'd; NULL after printing an error. */
static char *resolve(const char *word)
{
    struct runs_paths paths;
    struct run_error error;
    char safe[512], *path = NULL;
    int err = runs_resolve(word, &paths, &error);
    if (err) {
        outcome_failed(err, &error);
        return NULL;
    }
    if (paths.count > 1 && strchr(word, ',')) {
        say_usage("view", "one run, or two to compare with a blank between them");
    } else {
        path = strdup(runs_paths_newest(&paths));
        if (path && paths.count > 1)
            say("the tag has %zu runs; this is the newest: %s", paths.count,
                say_safe(safe, sizeof(safe), path));
    }
    runs_paths_release(&paths);
    return path;
}

/* The contents of the page. */
struct content {
    char *run, *recording; /* of one process, if both are set */
    char *other;           /* of the same kind as the one that is set */
};

static void content_release(struct content *c)
{
    free(c->run);
    free(c->recording);
    free(c->other);
}

static int choose(struct content *c, const struct request *q)
{
    char *paths[2] = {NULL, NULL}, safe[512];
    for (size_t i = 0; i == 0 || i < q->word_count; i++) {
        paths[i] = resolve(q->word_count ? q->words[i] : NULL);
        if (!paths[i]) {
            free(paths[0]);
            return EXIT_FAILED;
        }
    }
    bool recorded[2] = {recording_is(paths[0]), paths[1] && recording_is(paths[1])};
    *(recorded[0] ? &c->recording : &c->run) = paths[0];
    if (paths[1] && recorded[1] == recorded[0])
        c->other = paths[1];
    else if (paths[1])
        *(recorded[1] ? &c->recording : &c->run) = paths[1];
    else if (!q->alone) {
        char *companion = companion_find(paths[0]);
        *(recorded[0] ? &c->run : &c->recording) = companion;
        if (companion)
            say("with %s, of the same process", say_safe(safe, sizeof(safe), companion));
    }
    return EXIT_DONE;
}

/* ---- the page ---- */

static int pack(struct packer *k, const struct content *c, const struct range_asked *range,
                struct run_error *error)
{
    struct digest to = {.text = {0}};
    const struct packer_digest digest = {&to,          digest_run,  digest_heap,      digest_cpu,
                                         digest_polls, digest_diff, digest_heap_diff, digest_put};
    int err = packer_start(k, &digest, error);
    k->trie.by_name = c->other != NULL;
    k->range = *range;
    if (err == 0 && c->run && c->recording)
        err = packer_join(k, c->recording, error);
    if (err == 0 && c->run)
        err = packer_add_run(k, c->run, error);
    if (err == 0 && c->recording)
        err = packer_add_recording(k, c->recording, error);
    if (err == 0 && c->other)
        err = c->run ? packer_add_other_run(k, c->run, c->other, error)
                     : packer_add_other_recording(k, c->recording, c->other, error);
    err = err ? err : packer_finish(k, error);
    digest_release(&to);
    return err;
}

static int write_file(const struct packer *k, const struct request *q)
{
    struct output o = {.what = "the page", .path = q->output, .mode = 0600}; /* private */
    int status = output_open(&o);
    return status == EXIT_DONE ? output_close(&o, page_write(o.out, k)) : status;
}

/* Writes the page to anonymous memory, which is freed when we exit. */
static int page_in_memory(const struct packer *k, FILE **out, char **text, size_t *len)
{
    int fd = memfd_create("piano-page", MFD_CLOEXEC), err = fd < 0 ? -errno : 0;
    struct stat st = {.st_size = 0};
    *out = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!*out) {
        if (fd >= 0)
            close(fd);
        return err ? err : -ENOMEM;
    }
    err = page_write(*out, k);
    if (err == 0 && (fflush(*out) != 0 || fstat(fd, &st) != 0))
        err = -errno;
    void *map = err == 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0) : NULL;
    if (map == MAP_FAILED)
        err = -errno;
    *text = map;
    *len = (size_t)st.st_size;
    return err;
}

static int serve(struct packer *k, const struct request *q)
{
    FILE *memory = NULL;
    char *text = NULL;
    size_t len = 0;
    struct buf policy = {0};
    int err = page_in_memory(k, &memory, &text, &len), status;
    packer_release(k);
    page_put_policy(&policy);
    if (err == 0 && policy.failed)
        err = -ENOMEM;
    if (err) {
        status = say_error(NULL, "the page stopped: %s", strerror(-err));
    } else {
        const struct server_options options = {
            .port = (unsigned)q->port, .open = !q->no_open, .policy = policy.data};
        status = server_run(text, len, &options);
        munmap(text, len);
    }
    if (memory)
        fclose(memory);
    buf_free(&policy);
    return status;
}

static int view(void *request)
{
    struct request *q = request;
    struct content c = {.run = NULL};
    struct packer k;
    struct run_error error = {.text = ""};
    q->word_count = q->words[1] ? 2 : q->words[0] ? 1 : 0;
    if (q->port > UINT16_MAX)
        return say_usage("view", "--port %.0f: ports go up to 65535", q->port);
    int status = q->output ? output_check(q->output, q->force) : EXIT_DONE;
    if (q->output && strcmp(q->output, "-") == 0 && isatty(STDOUT_FILENO) == 1)
        status = say_error("-o FILE, or a pipe", "a page is not for a terminal");
    if (status == EXIT_DONE)
        status = choose(&c, q);
    if (status == EXIT_DONE && !c.recording && (q->range.from.given || q->range.to.given))
        status = say_error("piano report --frames --from 10s --to 12s",
                           "a page of a run shows all of it; a range of time is for recordings");
    if (status == EXIT_DONE) {
        int err = pack(&k, &c, &q->range, &error);
        status = err ? outcome_failed(err, &error) : q->output ? write_file(&k, q) : serve(&k, q);
        packer_release(&k);
    }
    content_release(&c);
    return status;
}

const struct command command_view = {
    .name = "view",
    .summary = "look at a run in a browser, or as one HTML file",
    .usage = "piano view [RUN [RUN]] [-o FILE.html] [OPTIONS]",
    .about = "Shows a run or a recording as a page: what was slow, frames, a timeline of threads, "
             "flame graphs, memory over time, functions. RUN is a file, a tag, a run id, or "
             "nothing for the latest. A run and the recording of the same process come together on "
             "one page; two of a kind are compared.\n\nWithout -o the page is served to this "
             "machine alone, under an address that cannot be guessed, and opened in a browser "
             "where there is a display. Ctrl-C ends it.",
    .flags = flags,
    .examples = "piano view\npiano view before -o before.html\npiano view before after\npiano view "
                "--port 8080 --no-open",
    .words = {WORDS_LISTED, offsetof(REQUEST, words), "run", 2, "two runs at most"},
    .run = view,
    COMMAND_REQUEST(),
};
