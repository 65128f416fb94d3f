/* Assembles a page: what its parts share, and the metadata of the whole. */
#include "tool/view/packer.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "tool/util/json.h"
#include "tool/util/say.h"

#ifndef PIANO_VERSION
#define PIANO_VERSION "0"
#endif

enum { FORMAT = 1 };

static const int64_t most_exact = ((int64_t)1 << 53) - 1; /* exact in JSON readers */

/* ---- notices ---- */

/* Notices printed on stderr while a page is made are also useful in the page. Several instruments
 * of one recording print the same notice about its file: it is kept and printed once. */
static bool hear(void *ctx, const char *text)
{
    struct packer *k = ctx;
    struct buf quoted = {0};
    json_put_string(&quoted, text);
    bool known = !quoted.failed && k->notices.len && strstr(k->notices.data, quoted.data);
    if (!known && !quoted.failed) {
        buf_puts(&k->notices, k->notices.len ? "," : "");
        buf_puts(&k->notices, quoted.data);
    }
    buf_free(&quoted);
    return !known && !k->is_quiet;
}

void packer_notice(struct packer *k, const char *fmt, ...)
{
    struct buf text = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    k->notices.failed |= text.failed;
    if (text.data)
        say("%s", text.data); /* `hear` receives it */
    buf_free(&text);
}

void packer_dropped(struct packer *k, const char *cause, uint64_t count)
{
    if (count == 0)
        return;
    if (k->dropped.len)
        buf_putc(&k->dropped, ',');
    json_put_string(&k->dropped, cause);
    buf_printf(&k->dropped, ":%llu", (unsigned long long)count);
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
    say_listen(hear, k);
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
    buf_free(&k->notices);
    buf_free(&k->dropped);
}

/* ---- metadata ---- */

static void put_text(struct buf *b, const char *key, const struct buf *text)
{
    buf_printf(b, "\"%s\":", key);
    if (text->len)
        json_put_string(b, text->data);
    else
        buf_puts(b, "null");
    buf_putc(b, ',');
}

static void put_about(struct buf *b, const struct packer_about *a)
{
    put_text(b, "name", &a->name);
    put_text(b, "program", &a->program);
    put_text(b, "command", &a->command);
    int64_t duration = a->duration_ns < 0 ? 0 : a->duration_ns;
    duration = duration < most_exact ? duration : most_exact;
    buf_printf(b, "\"pid\":%lld,\"started_ms\":%lld,\"duration_ns\":%lld", (long long)a->pid,
               (long long)a->started_ms, (long long)duration);
}

static void put_kinds(struct buf *b, unsigned kinds)
{
    static const char *const names[] = {"spans", "heap", "cpu", "events"};
    const char *comma = "";
    buf_puts(b, "\"kinds\":[");
    for (unsigned i = 0; i < 4; i++)
        if (kinds & 1u << i) {
            buf_printf(b, "%s\"%s\"", comma, names[i]);
            comma = ",";
        }
    buf_puts(b, "],");
}

void packer_put_meta(struct buf *b, const struct packer *k)
{
    buf_printf(b, "{\"format\":%d,\"piano\":\"%s\",", FORMAT, PIANO_VERSION);
    put_about(b, &k->about);
    buf_puts(b, k->is_live ? ",\"live\":true" : "");
    buf_printf(b, ",\"start_mono_ns\":\"%llu\",", (unsigned long long)k->base_ns);
    put_kinds(b, k->kinds);
    buf_printf(b, "\"notices\":[%s],", k->notices.len ? k->notices.data : "");
    buf_printf(b, "\"dropped\":{%s},", k->dropped.len ? k->dropped.data : "");
    if (k->compared) {
        buf_puts(b, "\"b\":{");
        put_about(b, &k->other);
        buf_puts(b, "},");
    } else {
        buf_puts(b, "\"b\":null,");
    }
    pack_put_meta(b, &k->pack);
    buf_puts(b, "}");
    b->failed |= k->notices.failed || k->dropped.failed;
}
