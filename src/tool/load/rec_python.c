/* Code objects of CPython. Texts become UTF-8 and are stored once, so equal texts are one
 * pointer. */
#include "tool/load/rec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/python.h"
#include "tool/util/order.h"
#include "tool/util/vec.h"

/* Malloc'd, or NULL. */
static char *text_of(const char *chars, size_t len, unsigned width)
{
    size_t size = len * 4 + 2;
    char *text = malloc(size);
    if (text && piano__python_text(chars, len, width, text, size) == 0)
        memcpy(text, "?", 2);
    return text;
}

static int take_code(struct rec_reader *r, void *ctx, const char *record, uint32_t bytes,
                     uint64_t at)
{
    (void)ctx;
    struct recording *rec = r->rec;
    struct piano__python_code c;
    memcpy(&c, record, sizeof(c));
    const char *text = record + sizeof(c);
    uint64_t said = (uint64_t)c.name_len + c.file_len + c.table_len;
    if (c.id == 0 || c.id > PIANO_PYTHON_MOST || said > bytes - sizeof(c)) {
        rec_gap(rec, at, at + bytes, "an invalid code object");
        return 0;
    }
    if (rec->code_count == REC_MAX_CODES) {
        rec_gap(rec, at, at + bytes, "more code objects than can be read");
        return 0;
    }
    if (VEC_DOUBLE(rec->codes, rec->code_count) != 0)
        return -ENOMEM;
    struct recording_code *code = &rec->codes[rec->code_count++];
    *code = (struct recording_code){.id = c.id,
                                    .first_line = c.first_line,
                                    .name = text_of(text, c.name_len, c.name_width),
                                    .file = text_of(text + c.name_len, c.file_len, c.file_width),
                                    .table = (const uint8_t *)text + c.name_len + c.file_len,
                                    .table_len = c.table_len};
    return code->name && code->file ? 0 : -ENOMEM;
}

static int compare_texts(const void *a, const void *b)
{
    char *const *const *x = a, *const *const *y = b;
    return strcmp(**x, **y);
}

/* Replaces equal texts of codes by one of them and frees the others. */
static int share_texts(struct recording *rec)
{
    size_t count = 0;
    char ***all = calloc(2 * rec->code_count + 1, sizeof(*all));
    if (!all)
        return -ENOMEM;
    for (size_t i = 0; i < rec->code_count; i++) {
        all[count++] = &rec->codes[i].name;
        all[count++] = &rec->codes[i].file;
    }
    rec->code_texts = calloc(count + 1, sizeof(*rec->code_texts));
    if (!rec->code_texts) {
        free(all);
        return -ENOMEM;
    }
    if (count)
        qsort(all, count, sizeof(*all), compare_texts);
    for (size_t i = 0; i < count; i++) {
        char *last = rec->code_text_count ? rec->code_texts[rec->code_text_count - 1] : NULL;
        if (last && strcmp(last, *all[i]) == 0) {
            free(*all[i]);
            *all[i] = last;
        } else {
            rec->code_texts[rec->code_text_count++] = *all[i];
        }
    }
    free(all);
    return 0;
}

int rec_read_python(struct rec_reader *r)
{
    struct recording *rec = r->rec;
    int err = rec_each(r, PIANO_CHUNK_PYTHON, sizeof(struct piano__python_code),
                       "a code object that cannot be read: the rest of its chunk is left out",
                       take_code, NULL);
    if (err == 0)
        err = share_texts(rec);
    if (err == 0 && rec->code_count)
        qsort(rec->codes, rec->code_count, sizeof(*rec->codes), order_u32);
    return err;
}

void rec_free_python(struct recording *rec)
{
    for (size_t i = 0; rec->code_texts && i < rec->code_text_count; i++)
        free(rec->code_texts[i]);
    for (size_t i = 0; !rec->code_texts && i < rec->code_count; i++) {
        free(rec->codes[i].name);
        free(rec->codes[i].file);
    }
    free(rec->code_texts);
    free(rec->codes);
}

const struct recording_code *recording_code_of(const struct recording *rec, uint32_t id)
{
    return rec->code_count
               ? bsearch(&id, rec->codes, rec->code_count, sizeof(*rec->codes), order_u32)
               : NULL;
}
