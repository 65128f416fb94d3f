/* Inserts the guards into the text of a Rust file.
 *
 * Every byte of the file stays, and no line is added before its last, so that line numbers, panics
 * and messages are the user's own. A chosen function gets a guard behind its `{`, and its arguments
 * and its result pass through common/probe.rs. The end of the file gets a module with the table of
 * its functions, and that of a crate's root file the probe itself. */
#include "tool/build/rust_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

/* The bytes of common/probe.rs, between these two symbols. */
extern const char rust_probe[] __attribute__((visibility("hidden")));
extern const char rust_probe_end[] __attribute__((visibility("hidden")));
__asm__(".pushsection .rodata\n"
        ".global rust_probe\n"
        ".hidden rust_probe\n"
        "rust_probe: .incbin \"common/probe.rs\"\n"
        ".global rust_probe_end\n"
        ".hidden rust_probe_end\n"
        "rust_probe_end: .byte 0\n"
        ".popsection\n");

struct edit {
    size_t at;
    size_t order; /* of those at the same place */
    const char *what;
    size_t len;
    size_t index; /* of the function in the table of its file */
    unsigned depth;
};

struct edits {
    struct edit *items;
    size_t count;
};

static int by_place(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int add_edits(struct edits *e, const char *list, size_t index, unsigned depth, size_t size)
{
    for (const char *p = list; *p;) {
        char *end;
        unsigned long at = strtoul(p, &end, 10);
        size_t len = *end == ':' ? strcspn(end + 1, " ") : 0;
        if (len == 0 || at > size)
            return -EBADMSG;
        if (VEC_DOUBLE(e->items, e->count) != 0)
            return -ENOMEM;
        e->items[e->count] = (struct edit){at, e->count, end + 1, len, index, depth};
        e->count++;
        p = end + 1 + len;
        p += *p == ' ';
    }
    return 0;
}

/* Writes a Rust literal of a NUL-terminated text. */
static void put_quoted(struct buf *out, const char *s)
{
    buf_putc(out, '"');
    buf_put_escaped(out, s, true);
    buf_puts(out, "\\0\"");
}

static void put_place(struct buf *out, const struct edit *e)
{
    buf_putc(out, '&');
    for (unsigned i = 0; i < e->depth; i++)
        buf_puts(out, "super::");
    buf_printf(out, "__piano_here::AT[%zu]", e->index);
}

/* The type in an edit, in which \1 stands for a blank. */
static void put_type(struct buf *out, const char *type, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_putc(out, type[i] == '\1' ? ' ' : type[i]);
}

static void put_argument(struct buf *out, const struct edit *e)
{
    const char *name = e->what + 2;
    size_t rest = e->len - 2;
    const char *comma = memchr(name, ',', rest);
    int len = (int)(comma ? (size_t)(comma - name) : rest);
    buf_printf(out, " let %s%.*s = ", e->what[0] == 'm' ? "mut " : "", len, name);
    if (comma)
        buf_printf(out, "crate::__piano::tie::<%.*s>(%.*s);", (int)(rest - (size_t)len - 1),
                   comma + 1, len, name);
    else
        buf_printf(out, "%.*s;", len, name);
}

static int put_edit(struct buf *out, const struct edit *e)
{
    switch (e->what[0]) {
    case 'b':
        buf_puts(out, " let __piano_guard = crate::__piano::begin(");
        put_place(out, e);
        buf_puts(out, ");");
        return 0;
    case 'v':
    case 'm':
        if (e->len < 3)
            return -EBADMSG;
        put_argument(out, e);
        return 0;
    case 's':
        buf_puts(out, "crate::__piano::tie::<");
        put_type(out, e->what + 2, e->len - 2);
        buf_puts(out, ">(");
        return 0;
    case 'h':
        buf_puts(out, "crate::__piano::hold(");
        return 0;
    case 'a':
        buf_puts(out, " crate::__piano::polled::<");
        put_type(out, e->what + 2, e->len - 2);
        buf_puts(out, ", _>(");
        put_place(out, e);
        buf_puts(out, ", async move {");
        return 0;
    case 'z':
        buf_puts(out, " }).await ");
        return 0;
    case 'G':
        buf_puts(out, "crate::__piano::Counted<");
        return 0;
    case 'g':
        buf_putc(out, '>');
        return 0;
    case 'E':
        buf_puts(out, "crate::__piano::Counted(");
        return 0;
    case 'c':
        buf_putc(out, ')');
        return 0;
    default:
        return -EBADMSG;
    }
}

static void put_table(struct buf *out, const struct rust_file *file, size_t count,
                      const struct selection *selection)
{
    buf_printf(out,
               " #[doc(hidden)] mod __piano_here {"
               " pub static AT: [crate::__piano::At; %zu] = [crate::__piano::ZERO; %zu];"
               " static ROWS: crate::__piano::Rows<%zu> = crate::__piano::Rows([",
               count, count, count);
    for (size_t i = 0; i < file->functions.count; i++) {
        const struct analyse_fn *fn = &file->functions.fns[i];
        if (!fn->chosen)
            continue;
        buf_puts(out, "crate::__piano::row(");
        put_quoted(out, fn->qualified);
        buf_puts(out, ", ");
        put_quoted(out, fn->file);
        buf_printf(out, ", %u, %d), ", fn->line,
                   selection_is_frame(selection, fn->bare, fn->qualified));
    }
    buf_printf(out,
               "]); static UNIT: crate::__piano::Unit = crate::__piano::unit(%zu,"
               " &ROWS as *const crate::__piano::Rows<%zu> as *const crate::__piano::Row,"
               " &AT as *const [crate::__piano::At; %zu] as *const crate::__piano::At);"
               " extern \"C\" fn register() { crate::__piano::register(&UNIT) }"
               " #[used] #[%slink_section = \".init_array.00101\"%s]"
               " static INIT: extern \"C\" fn() = register; }",
               count, count, count, file->is_2024 ? "unsafe(" : "", file->is_2024 ? ")" : "");
}

/* Appends the probe in one line: without the comments that end with their line. */
static void put_probe(struct buf *out, bool is_2024, const struct selection *selection)
{
    static const char unsafe_word[] = "UNSAFE";
    for (const char *line = rust_probe; line < rust_probe_end;) {
        const char *end = memchr(line, '\n', (size_t)(rust_probe_end - line));
        size_t len = (size_t)((end ? end : rust_probe_end) - line);
        const char *next = line + len + 1;
        size_t blank = strspn(line, " ");
        line += blank < len ? blank : len;
        len -= blank < len ? blank : len;
        buf_putc(out, ' ');
        if (len >= 6 && memcmp(line, unsafe_word, 6) == 0) {
            buf_puts(out, is_2024 ? "unsafe" : "");
            line += 6;
            len -= 6;
        }
        if (len < 2 || memcmp(line, "//", 2) != 0)
            buf_put(out, line, len);
        if (len == 13 && memcmp(line, "mod __piano {", 13) == 0) {
            buf_puts(out, " const RUNS: &'static str = ");
            put_quoted(out, selection->runs ? selection->runs : "");
            buf_puts(out, "; const FRAME: &'static str = ");
            put_quoted(out, selection->frame ? selection->frame : "");
            buf_putc(out, ';');
        }
        line = next;
    }
}

static int collect(struct edits *e, const struct rust_file *file, size_t size, size_t *count)
{
    int err = file->allocator ? add_edits(e, file->allocator, 0, 0, size) : 0;
    *count = 0;
    for (size_t i = 0; i < file->functions.count && err == 0; i++) {
        if (file->functions.fns[i].chosen)
            err = add_edits(e, file->more[i].edits, (*count)++, file->more[i].depth, size);
    }
    if (e->count > 0)
        qsort(e->items, e->count, sizeof *e->items, by_place);
    return err;
}

int rust_text(struct buf *out, const struct rust_file *file, const struct buf *source,
              const struct selection *selection)
{
    struct edits e = {0};
    size_t count = 0, done = 0;
    int err = collect(&e, file, source->len, &count);
    for (size_t i = 0; i < e.count && err == 0; i++) {
        buf_put(out, source->data + done, e.items[i].at - done);
        done = e.items[i].at;
        err = put_edit(out, &e.items[i]);
    }
    free(e.items);
    if (err != 0)
        return err;
    buf_put(out, source->data + done, source->len - done);
    if (count > 0 || file->is_root) {
        if (source->len > 0 && source->data[source->len - 1] != '\n')
            buf_putc(out, '\n'); /* the last line may be a comment */
        if (count > 0)
            put_table(out, file, count, selection);
        if (file->is_root)
            put_probe(out, file->is_2024, selection);
        buf_putc(out, '\n');
    }
    return out->failed ? -ENOMEM : 0;
}
