/* Packs tables into blocks. Every large column is one block, so that a viewer unpacks only what it
 * shows; small columns share the first. Several threads encode and compress the blocks, each taking
 * the next free one. The memory of a column is freed as soon as its block is done. */
#include "tool/view/pack.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "tool/util/order.h"
#include "tool/util/say.h"

enum {
    SMALL = 1 << 15, /* bytes; columns up to this size share a block */
    ALIGNED = 8,     /* columns start at multiples of this */
    LARGE = 1 << 22, /* from this size on, prefer speed to the best compression */
    THOROUGH = 6,    /* deflate level */
    FAST = 4,        /* the first deflate level with lazy matching */
    MOST_THREADS = 8 /* besides the main thread */
};

struct pack_table *pack_table(struct pack *p, const char *name, const struct column_kind *kinds,
                              size_t count)
{
    struct pack_table *t = NULL;
    size_t column = sizeof(*t->columns) + sizeof(*t->places);
    if (p->table_count < PACK_TABLES)
        t = calloc(1, sizeof(*t) + count * column);
    if (!t) {
        p->failed = true;
        return NULL;
    }
    t->name = name;
    t->places = (struct pack_place *)&t->columns[count];
    t->column_count = count;
    for (size_t i = 0; i < count; i++)
        t->columns[i].kind = kinds[i];
    p->tables[p->table_count++] = t;
    return t;
}

struct pack_table *pack_add(struct pack *p, enum schema_table table)
{
    return pack_table(p, schema[table].name, schema[table].kinds, schema[table].count);
}

void pack_json(struct pack *p, const char *name, struct buf *text)
{
    static const struct column_kind kind = {.name = "json", .type = COLUMN_TEXT};
    struct pack_table *t = text->failed ? NULL : pack_table(p, name, &kind, 1);
    if (!t) {
        p->failed = true;
        buf_free(text);
        return;
    }
    t->json = true;
    t->columns[0].data = (unsigned char *)text->data;
    t->columns[0].bytes = text->len;
    t->columns[0].cap = text->cap;
    t->columns[0].rows = 1;
    *text = (struct buf){0};
}

/* ---- blocks ---- */

/* Compresses the block in place. A block that does not get smaller is stored uncompressed. */
static int deflate_block(struct pack_block *b)
{
    z_stream z = {.next_in = b->data};
    size_t room = b->raw_bytes, done = 0;
    unsigned char *out = malloc(room + 1);
    int level = b->raw_bytes >= LARGE ? FAST : THOROUGH, status = Z_OK;
    if (!out || deflateInit(&z, level) != Z_OK) {
        free(out);
        return -ENOMEM;
    }
    /* zlib's counters have 32 bits. */
    for (size_t left = b->raw_bytes; status == Z_OK && done < room;) {
        uInt in = left < 1u << 30 ? (uInt)left : 1u << 30;
        uInt space = room - done < 1u << 30 ? (uInt)(room - done) : 1u << 30;
        z.avail_in = in;
        z.next_out = out + done;
        z.avail_out = space;
        status = deflate(&z, left == in ? Z_FINISH : Z_NO_FLUSH);
        left -= in - z.avail_in;
        done += space - z.avail_out;
    }
    deflateEnd(&z);
    if (status != Z_STREAM_END || done >= b->raw_bytes) {
        free(out);
        b->bytes = b->raw_bytes;
        return 0;
    }
    free(b->data);
    unsigned char *less = realloc(out, done);
    b->data = less ? less : out;
    b->bytes = done;
    b->deflated = true;
    return 0;
}

/* A column that becomes its own block. */
struct job {
    struct column *column; /* NULL: the block already has its bytes */
    struct pack_block *block;
};

struct work {
    struct job *jobs;
    size_t count, next;
    int err;
};

static int do_job(const struct job *job)
{
    struct column *c = job->column;
    struct pack_block *b = job->block;
    if (c) {
        b->raw_bytes = c->bytes;
        b->data = malloc(c->bytes + 1);
        if (!b->data)
            return -ENOMEM;
        column_encode(c, b->data);
        column_release(c);
    }
    return deflate_block(b);
}

static void *worker(void *arg)
{
    struct work *w = arg;
    size_t at;
    while ((at = __atomic_fetch_add(&w->next, 1, __ATOMIC_RELAXED)) < w->count &&
           __atomic_load_n(&w->err, __ATOMIC_RELAXED) == 0) {
        int err = do_job(&w->jobs[at]);
        if (err)
            __atomic_store_n(&w->err, err, __ATOMIC_RELAXED);
    }
    return NULL;
}

static int run_jobs(struct work *w)
{
    pthread_t threads[MOST_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    size_t count = processors > 1 ? (size_t)processors - 1 : 0, started = 0;
    count = count < MOST_THREADS ? count : MOST_THREADS;
    while (started < count && pthread_create(&threads[started], NULL, worker, w) == 0)
        started++;
    worker(w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return w->err;
}

/* ---- layout ---- */

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
}

/* Appends a column to the block that small columns share, whose bytes are in SMALL_ONES. */
static int put_small(struct column *c, struct pack_place *place, struct buf *small_ones)
{
    static const char zeros[ALIGNED];
    unsigned char *coded = malloc(c->bytes + 1);
    if (!coded)
        return -ENOMEM;
    column_encode(c, coded);
    *place = (struct pack_place){.block = 0, .at = small_ones->len, .bytes = c->bytes};
    buf_put(small_ones, coded, c->bytes);
    buf_put(small_ones, zeros, aligned(c->bytes) - c->bytes);
    free(coded);
    column_release(c);
    return small_ones->failed ? -ENOMEM : 0;
}

static int lay_out(struct pack *p, struct work *w, struct buf *small_ones)
{
    int err = 0;
    for (size_t t = 0; t < p->table_count && err == 0; t++) {
        struct pack_table *table = p->tables[t];
        for (size_t i = 0; i < table->column_count && err == 0; i++) {
            struct column *c = &table->columns[i];
            table->rows = c->rows;
            if (c->failed)
                return -ENOMEM;
            if (c->bytes <= SMALL) {
                err = put_small(c, &table->places[i], small_ones);
                continue;
            }
            struct pack_block *b = &p->blocks[p->block_count];
            snprintf(b->name, sizeof(b->name), "%s.%s", table->name, c->kind.name);
            table->places[i] =
                (struct pack_place){.block = (uint32_t)p->block_count++, .bytes = c->bytes};
            w->jobs[w->count++] = (struct job){c, b};
        }
    }
    return err;
}

/* Largest first, so that no thread works alone on a large one at the end. */
static int compare_jobs(const void *a, const void *b)
{
    const struct job *x = a, *y = b;
    size_t bytes[2] = {x->column ? x->column->bytes : 0, y->column ? y->column->bytes : 0};
    return ORDER(bytes[1], bytes[0]);
}

/* The maximum number of blocks: one per column, and the one that small columns share. */
static size_t most_blocks(const struct pack *p)
{
    size_t most = 1;
    for (size_t t = 0; t < p->table_count; t++)
        most += p->tables[t]->column_count;
    return most;
}

int pack_finish(struct pack *p)
{
    struct buf small_ones = {0};
    struct work w = {.jobs = calloc(most_blocks(p), sizeof(*w.jobs))};
    p->blocks = calloc(most_blocks(p), sizeof(*p->blocks));
    int err = p->failed || !w.jobs || !p->blocks ? -ENOMEM : 0;
    if (err == 0) {
        say_progress("packing %zu tables", p->table_count);
        p->block_count = 1;
        err = lay_out(p, &w, &small_ones);
    }
    if (err == 0) {
        snprintf(p->blocks[0].name, sizeof(p->blocks[0].name), "small");
        p->blocks[0].raw_bytes = small_ones.len;
        p->blocks[0].data = (unsigned char *)small_ones.data;
        small_ones.data = NULL;
        w.jobs[w.count++] = (struct job){.block = &p->blocks[0]};
        qsort(w.jobs, w.count, sizeof(*w.jobs), compare_jobs);
        err = run_jobs(&w);
    }
    buf_free(&small_ones);
    free(w.jobs);
    say_progress_done();
    return err;
}

size_t pack_bytes(const struct pack *p)
{
    size_t bytes = 0;
    for (size_t i = 0; i < p->block_count; i++)
        bytes += p->blocks[i].bytes;
    return bytes;
}

/* ---- metadata ---- */

static void put_place(struct json_writer *w, const struct pack_place *p)
{
    json_add_count(w, "block", p->block);
    json_add_count(w, "at", p->at);
    json_add_count(w, "bytes", p->bytes);
}

static void put_columns(struct json_writer *w, const struct pack_table *t)
{
    json_add_count(w, "rows", t->rows);
    json_add_array(w, "columns");
    for (size_t i = 0; i < t->column_count; i++) {
        const struct column_kind *k = &t->columns[i].kind;
        json_add_object(w, NULL);
        json_add_text(w, "name", k->name);
        json_add_text(w, "type", column_types[k->type]);
        if (k->type != COLUMN_TEXT)
            json_add_text(w, "code", column_codes[k->code]);
        put_place(w, &t->places[i]);
        json_close(w);
    }
    json_close(w);
}

static void put_tables(struct json_writer *w, const struct pack *p)
{
    json_add_object(w, "tables");
    for (size_t i = 0; i < p->table_count; i++) {
        const struct pack_table *t = p->tables[i];
        if (t->rows == 0)
            continue; /* the run has no such data */
        json_line(w);
        json_add_object(w, t->name);
        if (t->json) {
            json_add_flag(w, "json", true);
            put_place(w, &t->places[0]);
        } else {
            put_columns(w, t);
        }
        json_close(w);
    }
    json_close(w);
}

void pack_put_meta(struct json_writer *w, const struct pack *p)
{
    size_t at = 0;
    put_tables(w, p);
    json_line(w);
    json_add_array(w, "blocks");
    for (size_t i = 0; i < p->block_count; i++) {
        const struct pack_block *k = &p->blocks[i];
        json_add_row(w);
        json_add_text(w, "name", k->name);
        json_add_count(w, "at", at);
        json_add_count(w, "bytes", k->bytes);
        json_add_count(w, "raw_bytes", k->raw_bytes);
        json_add_text(w, "codec", k->deflated ? "deflate" : "none");
        json_close(w);
        at += k->bytes;
    }
    json_close(w);
}

void pack_release(struct pack *p)
{
    for (size_t t = 0; t < p->table_count; t++) {
        for (size_t i = 0; i < p->tables[t]->column_count; i++)
            column_release(&p->tables[t]->columns[i]);
        free(p->tables[t]);
    }
    for (size_t i = 0; i < p->block_count; i++)
        free(p->blocks[i].data);
    free(p->blocks);
    *p = (struct pack){.blocks = NULL};
}
