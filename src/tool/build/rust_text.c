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

#include "tool/util/order.h"
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
    size_t index;        /* of the function in the table of its file */
    bool is_conditional; /* `index` is that among the functions with a condition */
    unsigned depth;
};

struct edits {
    struct edit *items;
    size_t count;
};

/* At one place, what ends comes before what begins, but the end of a function comes last: its body may
 * be empty. */
static int rank(const struct edit *e)
{
    static const char values[] = "cg", functions[] = "ez";
    return strchr(values, e->what[0]) ? 0 : strchr(functions, e->what[0]) ? 2 : 1;
}

static int by_place(const void *a, const void *b)
{
    const struct edit *x = a, *y = b;
    return ORDER(x->at, y->at) ?: rank(x) - rank(y) ?: ORDER(x->order, y->order);
}

/* Adds the edits in LIST. LIKE has the function's place in the table. */
static int add_edits(struct edits *e, const char *list, const struct edit *like, size_t size)
{
    for (const char *p = list; *p;) {
        char *end;
        unsigned long at = strtoul(p, &end, 10);
        size_t len = *end == ':' ? strcspn(end + 1, " ") : 0;
        if (len == 0 || at > size)
            return -EBADMSG;
        if (VEC_DOUBLE(e->items, e->count) != 0)
            return -ENOMEM;
        struct edit *edit = &e->items[e->count];
        *edit = *like;
        edit->at = at;
        edit->order = e->count++;
        edit->what = end + 1;
        edit->len = len;
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

static void put_supers(struct buf *out, const struct edit *e)
{
    for (unsigned i = 0; i < e->depth; i++)
        buf_puts(out, "super::");
}

static void put_place(struct buf *out, const struct edit *e)
{
    buf_putc(out, '&');
    put_supers(out, e);
    buf_puts(out, "__piano_here::AT[");
    if (!e->is_conditional) {
        buf_printf(out, "%zu]", e->index);
        return;
    }
    put_supers(out, e);
    buf_printf(out, "__piano_here::N%zu]", e->index);
}

/* The type in an edit, in which \1 stands for a blank. */
static void put_type(struct buf *out, const char *type, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_putc(out, type[i] == '\1' ? ' ' : type[i]);
}

/* `tie::<TYPE>(` for "s,TYPE", `hold(` for "h". */
static void put_keeper(struct buf *out, const char *kind, size_t len)
{
    buf_puts(out, "crate::__piano::");
    if (kind[0] != 's') {
        buf_puts(out, "hold(");
        return;
    }
    buf_puts(out, "tie::<");
    put_type(out, kind + 2, len - 2);
    buf_puts(out, ">(");
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
        buf_printf(out, "crate::__piano::hold(%.*s);", len, name);
}

/* The end of the variable with the result, which `r` began, and the result. */
static void put_result(struct buf *out, const struct edit *e)
{
    char kind = e->what[2];
    buf_puts(out, " };");
    if (kind == 'n')
        buf_puts(out, " __piano_result");
    if (kind != 's' && kind != 'h')
        return;
    buf_putc(out, ' ');
    put_keeper(out, e->what + 2, e->len - 2);
    buf_puts(out, "__piano_result)");
}

/* The edits with a text behind their letter. */
static int put_long_edit(struct buf *out, const struct edit *e)
{
    if (e->len < 3)
        return -EBADMSG;
    switch (e->what[0]) {
    case 'v':
    case 'm':
        put_argument(out, e);
        return 0;
    case 'r':
        buf_puts(out, " let __piano_result: ");
        put_type(out, e->what + 2, e->len - 2);
        buf_puts(out, " = {");
        return 0;
    case 'e':
        put_result(out, e);
        return 0;
    case 's':
        put_keeper(out, e->what, e->len);
        return 0;
    case 'a':
        buf_puts(out, " crate::__piano::polled::<");
        put_type(out, e->what + 2, e->len - 2);
        buf_puts(out, ", _>(");
        put_place(out, e);
        buf_puts(out, ", async move {");
        return 0;
    default:
        return -EBADMSG;
    }
}

static int put_edit(struct buf *out, const struct edit *e)
{
    switch (e->what[0]) {
    case 'b':
        buf_puts(out, " let __piano_guard = crate::__piano::begin(");
        put_place(out, e);
        buf_puts(out, ");");
        return 0;
    case 'h':
        put_keeper(out, e->what, e->len);
        return 0;
    case 'A':
        buf_puts(out, "crate::__piano::polled(");
        put_place(out, e);
        buf_puts(out, ", ");
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
        return put_long_edit(out, e);
    }
}

/* How many functions of a file have guards. */
struct counts {
    size_t always;
    size_t conditional; /* those that depend on cfg() */
};

static bool is_conditional(const struct rust_file *file, size_t i)
{
    return file->more[i].condition[0] != '\0';
}

static void put_row(struct buf *out, const struct analyse_fn *fn, const struct selection *selection)
{
    buf_puts(out, "crate::__piano::row(");
    put_quoted(out, fn->qualified);
    buf_puts(out, ", ");
    put_quoted(out, fn->file);
    buf_printf(out, ", %u, %d), ", fn->line,
               selection_is_frame(selection, fn->bare, fn->qualified));
}

/* The rows of functions without a condition, then those with one: rustc leaves out what it does not
 * compile. Nk is the place of the k-th of them. */
static void put_rows(struct buf *out, const struct rust_file *file,
                     const struct selection *selection)
{
    for (int conditional = 0; conditional < 2; conditional++) {
        for (size_t i = 0; i < file->functions.count; i++) {
            const struct analyse_fn *fn = &file->functions.fns[i];
            if (!fn->chosen || is_conditional(file, i) != (conditional != 0))
                continue;
            if (conditional)
                buf_printf(out, "#[cfg(%s)] ", file->more[i].condition);
            put_row(out, fn, selection);
        }
    }
}

static void put_numbers(struct buf *out, const struct rust_file *file, const struct counts *c)
{
    size_t k = 0;
    buf_printf(out, " pub const N0: usize = %zu;", c->always);
    for (size_t i = 0; i < file->functions.count; i++) {
        if (!file->functions.fns[i].chosen || !is_conditional(file, i))
            continue;
        const char *condition = file->more[i].condition;
        buf_printf(out,
                   " #[cfg(%s)] pub const N%zu: usize = N%zu + 1;"
                   " #[cfg(not(%s))] pub const N%zu: usize = N%zu;",
                   condition, k + 1, k, condition, k + 1, k);
        k++;
    }
}

static void put_table(struct buf *out, const struct rust_file *file, const struct counts *c,
                      const struct selection *selection)
{
    buf_puts(out, " #[doc(hidden)] mod __piano_here {");
    put_numbers(out, file, c);
    buf_printf(out,
               " const COUNT: usize = N%zu;"
               " pub static AT: [crate::__piano::At; COUNT] = [crate::__piano::ZERO; COUNT];"
               " static ROWS: crate::__piano::Rows<COUNT> = crate::__piano::Rows([",
               c->conditional);
    put_rows(out, file, selection);
    buf_printf(out,
               "]); static UNIT: crate::__piano::Unit = crate::__piano::unit(COUNT as u32,"
               " &ROWS as *const crate::__piano::Rows<COUNT> as *const crate::__piano::Row,"
               " &AT as *const [crate::__piano::At; COUNT] as *const crate::__piano::At);"
               " extern \"C\" fn register() { crate::__piano::register(&UNIT) }"
               " #[used] #[%slink_section = \".init_array.00101\"%s]"
               " static INIT: extern \"C\" fn() = register; }",
               file->is_2024 ? "unsafe(" : "", file->is_2024 ? ")" : "");
}

/* The runtime cannot see what reaches an allocator written in Rust, unless it is wrapped. */
static void put_allocator_note(struct buf *out, const struct rust_file *file)
{
    if (file->allocator_if[0])
        buf_printf(out, " #[cfg(%s)]", file->allocator_if);
    buf_printf(out,
               " #[doc(hidden)] mod __piano_allocator {"
               " extern \"C\" fn note() { crate::__piano::note_allocator() }"
               " #[used] #[%slink_section = \".init_array.00101\"%s]"
               " static INIT: extern \"C\" fn() = note; }",
               file->is_2024 ? "unsafe(" : "", file->is_2024 ? ")" : "");
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

static bool has_allocator(const struct rust_file *file)
{
    return file->allocator && file->crate_count > 0 && !file->is_bare && !file->is_foreign;
}

static int collect(struct edits *e, const struct rust_file *file, size_t size, struct counts *c)
{
    const struct edit none = {0};
    int err = has_allocator(file) ? add_edits(e, file->allocator, &none, size) : 0;
    *c = (struct counts){0};
    for (size_t i = 0; i < file->functions.count && err == 0; i++) {
        bool conditional = is_conditional(file, i);
        struct edit like = {.index = conditional ? c->conditional : c->always,
                            .is_conditional = conditional,
                            .depth = file->more[i].depth};
        if (!file->functions.fns[i].chosen)
            continue;
        *(conditional ? &c->conditional : &c->always) += 1;
        err = add_edits(e, file->more[i].edits, &like, size);
    }
    if (e->count > 0)
        qsort(e->items, e->count, sizeof *e->items, by_place);
    return err;
}

int rust_text(struct buf *out, const struct rust_file *file, const struct buf *source,
              const struct selection *selection)
{
    struct edits e = {0};
    struct counts count;
    size_t done = 0;
    int err = collect(&e, file, source->len, &count);
    bool has_table = count.always + count.conditional > 0;
    for (size_t i = 0; i < e.count && err == 0; i++) {
        buf_put(out, source->data + done, e.items[i].at - done);
        done = e.items[i].at;
        err = put_edit(out, &e.items[i]);
    }
    free(e.items);
    if (err != 0)
        return err;
    buf_put(out, source->data + done, source->len - done);
    if (has_table || file->is_root || has_allocator(file)) {
        if (source->len > 0 && source->data[source->len - 1] != '\n')
            buf_putc(out, '\n'); /* the last line may be a comment */
        if (has_table)
            put_table(out, file, &count, selection);
        if (has_allocator(file))
            put_allocator_note(out, file);
        if (file->is_root)
            put_probe(out, file->is_2024, selection);
        buf_putc(out, '\n');
    }
    return out->failed ? -ENOMEM : 0;
}
