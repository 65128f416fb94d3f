/* Assembles a page: what its parts share, and the metadata of the whole. */
#include "tool/view/packer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/say.h"
#include "tool/util/vec.h"

#ifndef PIANO_VERSION
#define PIANO_VERSION "0"
#endif

enum { FORMAT = 1 };

static const int64_t most_exact = ((int64_t)1 << 53) - 1; /* exact in JSON readers */

/* ---- notices ---- */

/* Notices printed on stderr while a page is made are also useful in the page. Several instruments
 * of one recording print the same notice about its file: it is kept and printed once. */
static bool is_known(const struct packer *k, const char *text)
{
    for (size_t i = 0; i < k->notice_count; i++)
        if (strcmp(k->notices[i], text) == 0)
            return true;
    return false;
}

static bool keep_notice(void *ctx, const char *text)
{
    struct packer *k = ctx;
    if (is_known(k, text))
        return false;
    char *copy = VEC_DOUBLE(k->notices, k->notice_count) == 0 ? strdup(text) : NULL;
    if (copy)
        k->notices[k->notice_count++] = copy;
    k->failed |= !copy;
    return !k->is_quiet;
}

void packer_notice(struct packer *k, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    k->failed |= text.failed;
    if (text.data)
        say("%s", text.data); /* `keep_notice` receives it */
    buf_free(&text);
}

void packer_dropped(struct packer *k, const char *cause, uint64_t count)
{
    if (count == 0)
        return;
    if (VEC_DOUBLE(k->losses, k->loss_count) == 0)
        k->losses[k->loss_count++] = (struct packer_loss){cause, count};
    else
        k->failed = true;
}

int packer_no_memory(struct run_error *error, const char *path)
{
    char safe[300];
    snprintf(error->text, sizeof(error->text), "%s: not enough memory for its page",
             say_safe(safe, sizeof(safe), path));
    return -ENOMEM;
}

/* ---- all ---- */

int packer_start(struct packer *k, const struct packer_digest *digest, struct run_error *error)
{
    *k = (struct packer){
        .about = {.duration_ns = -1}, .other = {.duration_ns = -1}, .digest = *digest};
    *error = (struct run_error){.text = ""};
    say_listen(keep_notice, k);
    return texts_start(&k->texts, &k->pack) != 0 ? packer_no_memory(error, "page") : 0;
}

int packer_finish(struct packer *k, struct run_error *error)
{
    struct buf report = {0};
    trie_pack(&k->trie, &k->pack);
    lanes_pack(&k->lanes, &k->texts, &k->pack);
    k->digest.put(&report, k->digest.to);
    pack_json(&k->pack, "report", &report);
    trie_release(&k->trie);
    lanes_release(&k->lanes);
    say_listen(NULL, NULL);
    return pack_finish(&k->pack) != 0 ? packer_no_memory(error, "page") : 0;
}

static void release_about(struct packer_about *about)
{
    buf_free(&about->name);
    buf_free(&about->program);
    buf_free(&about->command);
}

void packer_release(struct packer *k)
{
    say_listen(NULL, NULL);
    pack_release(&k->pack);
    texts_release(&k->texts);
    lanes_release(&k->lanes);
    trie_release(&k->trie);
    release_about(&k->about);
    release_about(&k->other);
    for (size_t i = 0; i < k->notice_count; i++)
        free(k->notices[i]);
    free(k->notices);
    free(k->losses);
}

/* ---- metadata ---- */

static const char *text_of(const struct buf *text)
{
    return text->len ? text->data : NULL;
}

static void put_about(struct json_writer *w, const struct packer_about *a)
{
    int64_t duration = a->duration_ns < 0 ? 0 : a->duration_ns;
    json_add_text(w, "name", text_of(&a->name));
    json_add_text(w, "program", text_of(&a->program));
    json_add_text(w, "command", text_of(&a->command));
    json_add_number(w, "pid", a->pid);
    json_add_number(w, "started_ms", a->started_ms);
    json_add_number(w, "duration_ns", duration < most_exact ? duration : most_exact);
}

static void put_kinds(struct json_writer *w, unsigned kinds)
{
    static const char *const names[] = {"spans", "heap", "cpu", "events"};
    json_add_array(w, "kinds");
    for (unsigned i = 0; i < 4; i++)
        if (kinds & 1u << i)
            json_add_text(w, NULL, names[i]);
    json_close(w);
}

static void put_missing(struct json_writer *w, const struct packer *k)
{
    json_add_array(w, "notices");
    for (size_t i = 0; i < k->notice_count; i++)
        json_add_text(w, NULL, k->notices[i]);
    json_close(w);
    json_add_object(w, "dropped");
    for (size_t i = 0; i < k->loss_count; i++)
        json_add_count(w, k->losses[i].cause, k->losses[i].count);
    json_close(w);
}

void packer_put_meta(struct buf *b, const struct packer *k)
{
    struct json_writer w = {.out = NULL};
    char base[24];
    snprintf(base, sizeof(base), "%llu", (unsigned long long)k->base_ns);
    json_add_object(&w, NULL);
    json_add_number(&w, "format", FORMAT);
    json_add_text(&w, "piano", PIANO_VERSION);
    put_about(&w, &k->about);
    if (k->is_live)
        json_add_flag(&w, "live", true);
    json_add_text(&w, "start_mono_ns", base);
    put_kinds(&w, k->kinds);
    put_missing(&w, k);
    if (k->compared) {
        json_add_object(&w, "b");
        put_about(&w, &k->other);
        json_close(&w);
    } else {
        json_add_null(&w, "b");
    }
    pack_put_meta(&w, &k->pack);
    json_keep_error(&w, k->failed ? -ENOMEM : 0);
    json_finish_in(&w, b);
}
