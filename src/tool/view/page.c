/* Writes the page in order: head, viewer's style, metadata (JSON), data (base64), viewer's script.
 *
 * Everything that comes from a run is either in the JSON, where all characters with a meaning in
 * HTML are escaped, or in base64, or escaped in the title. The page's own policy allows one script
 * and one style, by their digests, and no loading from anywhere. So even a name that got into the
 * markup could do nothing. */
#include "tool/view/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/program.h"
#include "tool/util/say.h"
#include "tool/view/assets.h"
#include "tool/view/base64.h"
#include "tool/view/sha256.h"

enum {
    RUN_BYTES = 12000000, /* data bytes in one element: 16 million characters */
    CHUNK_BYTES = 3 << 16,
    DIGEST_TEXT = 44
};

static void put_digest(struct buf *b, struct asset asset)
{
    unsigned char digest[SHA256_BYTES];
    char text[DIGEST_TEXT];
    sha256(digest, asset.text, asset.len);
    base64_encode(text, digest, sizeof(digest));
    buf_printf(b, "'sha256-%.*s'", DIGEST_TEXT, text);
}

void page_put_policy(struct buf *b, bool is_live)
{
    buf_puts(b, "default-src 'none'; script-src ");
    put_digest(b, asset_script());
    buf_puts(b, "; style-src ");
    put_digest(b, asset_style());
    buf_puts(b, "; img-src data: blob:; base-uri 'none'; form-action 'none'");
    buf_puts(b, is_live ? "; connect-src 'self'" : "");
}

/* ---- text ---- */

/* Writes a name with invisible and non-text characters made visible, and without markup. */
static void put_escaped(struct buf *b, const char *name)
{
    char safe[300];
    for (const char *at = say_safe(safe, sizeof(safe), name); *at; at++)
        if (strchr("<>&\"'", *at))
            buf_printf(b, "&#%u;", (unsigned char)*at);
        else
            buf_putc(b, *at);
}

/* Writes JSON in which nothing can end a script or begin a comment, and which is also a valid
 * JavaScript literal. */
static void put_json(struct buf *b, const struct buf *json)
{
    const char *at = json->data, *end = at + json->len;
    while (at < end) {
        size_t plain = 0;
        while (at + plain < end && !strchr("<>&\xe2", at[plain]))
            plain++;
        buf_put(b, at, plain);
        at += plain;
        if (at == end)
            break;
        bool separator = end - at >= 3 && memcmp(at, "\xe2\x80", 2) == 0 &&
                         ((unsigned char)at[2] == 0xa8 || (unsigned char)at[2] == 0xa9);
        if (separator) {
            buf_puts(b, (unsigned char)at[2] == 0xa8 ? "\\u2028" : "\\u2029");
            at += 3;
        } else if ((unsigned char)*at == 0xe2) {
            buf_putc(b, *at++);
        } else {
            buf_printf(b, "\\u%04x", (unsigned char)*at++);
        }
    }
}

static const char *text_of(const struct buf *b)
{
    return b->len ? b->data : "";
}

static void put_head(struct buf *b, const struct packer *k)
{
    struct asset style = asset_style();
    char program[256];
    buf_puts(b, "<!doctype html><html lang=en><head><meta charset=utf-8>"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"");
    page_put_policy(b, k->is_live);
    buf_puts(b, "\"><meta name=viewport content=\"width=device-width\"><title>");
    if (*program_called(program, sizeof(program), text_of(&k->about.program),
                        text_of(&k->about.command))) {
        put_escaped(b, program);
        buf_puts(b, ": ");
    }
    put_escaped(b, text_of(&k->about.name));
    if (k->compared) {
        buf_puts(b, " and ");
        put_escaped(b, text_of(&k->other.name));
    }
    buf_puts(b, " | piano</title><style>");
    buf_put(b, style.text, style.len);
    buf_puts(b, "</style></head><body><div id=app>"
                "<div class=loading>Reading the page. If it stays like this, the file is cut "
                "short: make it again with "
                "`piano view`.</div></div>"
                "<noscript>This page shows a run with the help of its own script, which the "
                "browser does not run.</noscript>\n<script type=\"application/json\" "
                "id=\"piano-meta\">");
    struct buf meta = {0};
    packer_put_meta(&meta, k);
    if (meta.failed)
        b->failed = true;
    else
        put_json(b, &meta);
    buf_free(&meta);
    buf_puts(b, "</script>\n");
}

static int put(FILE *out, const void *bytes, size_t len)
{
    errno = 0;
    return fwrite(bytes, 1, len, out) == len ? 0 : errno ? -errno : -EIO;
}

static int flush(FILE *out, struct buf *b)
{
    int err = b->failed ? -ENOMEM : put(out, b->data, b->len);
    buf_free(b);
    return err;
}

/* ---- data ---- */

/* The bytes of all blocks, concatenated. */
struct source {
    const struct pack *pack;
    size_t block, at;
};

static size_t take(struct source *s, unsigned char *to, size_t wanted)
{
    size_t got = 0;
    while (got < wanted && s->block < s->pack->block_count) {
        const struct pack_block *b = &s->pack->blocks[s->block];
        size_t part = b->bytes - s->at < wanted - got ? b->bytes - s->at : wanted - got;
        if (part)
            memcpy(to + got, b->data + s->at, part);
        got += part;
        s->at += part;
        if (s->at == b->bytes) {
            s->block++;
            s->at = 0;
        }
    }
    return got;
}

/* Writes one element: at most RUN_BYTES, padded only at its end. */
static int put_run(FILE *out, struct source *s, size_t number, unsigned char *bytes, char *text)
{
    struct buf head = {0};
    buf_puts(&head, "<script type=\"application/octet-stream\" id=\"piano-data");
    if (number > 0)
        buf_printf(&head, "-%zu", number);
    buf_puts(&head, "\">");
    int err = flush(out, &head);
    for (size_t left = RUN_BYTES; left > 0 && err == 0;) {
        size_t got = take(s, bytes, left < CHUNK_BYTES ? left : CHUNK_BYTES);
        if (got == 0)
            break;
        base64_encode(text, bytes, got);
        err = put(out, text, base64_length(got));
        left -= got;
    }
    return err ? err : put(out, "</script>\n", 10);
}

static int put_data(FILE *out, const struct pack *pack)
{
    struct source s = {.pack = pack};
    unsigned char *bytes = malloc(CHUNK_BYTES);
    char *text = malloc(base64_length(CHUNK_BYTES));
    int err = bytes && text ? 0 : -ENOMEM;
    size_t runs = (pack_bytes(pack) + RUN_BYTES - 1) / RUN_BYTES;
    for (size_t i = 0; (i == 0 || i < runs) && err == 0; i++)
        err = put_run(out, &s, i, bytes, text);
    free(bytes);
    free(text);
    return err;
}

int page_write(FILE *out, const struct packer *k)
{
    struct asset script = asset_script();
    struct buf b = {0};
    put_head(&b, k);
    int err = flush(out, &b);
    if (err == 0)
        err = put_data(out, &k->pack);
    if (err == 0) {
        buf_puts(&b, "<script>");
        buf_put(&b, script.text, script.len);
        buf_puts(&b, "</script></body></html>\n");
        err = flush(out, &b);
    }
    return err;
}
