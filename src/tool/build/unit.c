/* The records that the wrapper leaves for `piano build`.
 *
 * There is one small file per compiled unit and per link. Its name is a hash of the output, so that
 * parallel compilers never write the same file and a recompiled unit replaces its own record. Lines
 * are tab-separated; tabs and newlines in names become blanks. */
#include "tool/build/unit.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tool/build/analyse.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"

/* FNV-1a. */
static uint64_t hash_string(uint64_t hash, const char *s)
{
    for (; *s; s++)
        hash = (hash ^ (unsigned char)*s) * 0x100000001b3u;
    return hash;
}

static const uint64_t HASH_START = 0xcbf29ce484222325u;

uint64_t unit_hash(const void *bytes, size_t len)
{
    uint64_t hash = HASH_START;
    for (const unsigned char *p = bytes; len > 0; p++, len--)
        hash = (hash ^ *p) * 0x100000001b3u;
    return hash;
}

static void put_field(struct buf *b, const char *s)
{
    for (; *s; s++)
        buf_putc(b, *s == '\t' || *s == '\n' || *s == '\r' ? ' ' : *s);
}

static void put_line(struct buf *b, const char *key, const char *first, const char *second)
{
    buf_puts(b, key);
    buf_putc(b, '\t');
    put_field(b, first);
    if (second) {
        buf_putc(b, '\t');
        put_field(b, second);
    }
    buf_putc(b, '\n');
}

static void put_fn(struct buf *b, const struct analyse_fn *fn, const char *failed)
{
    buf_puts(b, "fn\t");
    put_field(b, fn->qualified);
    buf_putc(b, '\t');
    put_field(b, fn->file);
    buf_printf(b, "\t%u\t", fn->line);
    if (fn->skip) {
        buf_puts(b, "skipped:");
        put_field(b, fn->skip);
    } else if (!fn->chosen) {
        buf_puts(b, "unselected");
    } else if (failed) {
        buf_puts(b, "skipped:");
        put_field(b, failed);
    } else {
        buf_puts(b, "instrumented");
    }
    buf_putc(b, '\n');
}

static int save(const char *state, const char *folder, uint64_t hash, const char *suffix,
                const struct buf *text)
{
    struct buf path = {0};
    buf_printf(&path, "%s/%s", state, folder);
    int err = path.failed ? -ENOMEM : paths_make_dirs(path.data);
    buf_printf(&path, "/%016llx.%s", (unsigned long long)hash, suffix);
    if (err == 0)
        err = path.failed ? -ENOMEM : buf_write_file(text, path.data);
    buf_free(&path);
    return err;
}

int unit_save(const struct unit *u)
{
    struct buf b = {0};
    put_line(&b, "unit", u->source, u->output);
    if (u->note)
        put_line(&b, "note", u->note, NULL);
    if (u->words)
        put_line(&b, "words", u->words, NULL);
    for (size_t i = 0; u->functions && i < u->functions->count; i++)
        put_fn(&b, &u->functions->fns[i], u->failed);
    uint64_t hash = hash_string(hash_string(HASH_START, u->output), u->source);
    int err = save(u->state, "units", hash, "unit", &b);
    buf_free(&b);
    return err;
}

int unit_save_link(const char *state, const char *output, bool shared)
{
    struct buf b = {0};
    put_line(&b, "link", output, shared ? "shared" : "exe");
    int err = save(state, "links", hash_string(HASH_START, output), "link", &b);
    buf_free(&b);
    return err;
}
