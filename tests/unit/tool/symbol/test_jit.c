/* The names of JIT code: which of several functions is valid, and truncated or invalid files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tool/symbol/jit.h"

static int file_of(const void *bytes, size_t len)
{
    int fd = memfd_create("jit", 0);
    assert_true(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    return fd;
}

static struct strings strings;

static struct jit_names map_of(const char *text)
{
    struct jit_names j = {.strings = &strings};
    int fd = file_of(text, strlen(text));
    assert_int_equal(jit_read_map(&j, fd), 0);
    close(fd);
    jit_sort(&j);
    return j;
}

static const struct jit_code *at(const struct jit_names *j, uint64_t pc, uint64_t ns)
{
    const struct jit_code *found[16];
    size_t count = jit_find(j, pc, found, 16);
    for (size_t i = 0; i < count; i++)
        if (ns >= found[i]->since && (ns < found[i]->until || found[i]->until == JIT_ALWAYS))
            return found[i];
    return NULL;
}

static const char *name_at(const struct jit_names *j, uint64_t pc)
{
    const struct jit_code *code = at(j, pc, 1);
    return code ? code->name : "-";
}

static void the_last_line_for_an_address_counts(void **state)
{
    (void)state;
    struct jit_names j =
        map_of("1000 100 outer\n1040 20 inner\n1000 10 newest\n0x2000 0x10 other\n");
    assert_string_equal(name_at(&j, 0x1000), "newest");
    assert_string_equal(name_at(&j, 0x1010), "outer");
    assert_string_equal(name_at(&j, 0x1040), "inner");
    assert_string_equal(name_at(&j, 0x1060), "outer");
    assert_string_equal(name_at(&j, 0x1100), "-");
    assert_string_equal(name_at(&j, 0x200f), "other");
    assert_string_equal(name_at(&j, 0xfff), "-");
    jit_release(&j);
    /* A later line covers an earlier one that begins after it. */
    j = map_of("1040 20 inner\n1000 100 outer\n");
    assert_string_equal(name_at(&j, 0x1040), "outer");
    jit_release(&j);
}

static void names_of_runtimes_are_taken_apart(void **state)
{
    static const struct {
        const char *text, *name, *file;
        unsigned line;
    } cases[] = {
        {"JS:*fib /home/u/my app.js:12:3", "fib", "/home/u/my app.js", 12},
        {"JS:~ /app.js:1:1", "(anonymous)", "/app.js", 1},
        {"LazyCompile:~run node:internal/x:7:9", "run", "node:internal/x", 7},
        {"Function:^get a b.js:3:4", "get", "a b.js", 3},
        {"JS:*fib", "JS:*fib", NULL, 0},
        {"py::Cache.fill:/home/u/app.py", "Cache.fill", "/home/u/app.py", 0},
        {"py::", "py::", NULL, 0},
        {"Ljava/lang/String;::hashCode", "Ljava/lang/String;::hashCode", NULL, 0},
        {"stub code:1:2", "stub code:1:2", NULL, 0},
        {" ", " ", NULL, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char line[200];
        snprintf(line, sizeof(line), "1000 10 %s\n", cases[i].text);
        struct jit_names j = map_of(line);
        const struct jit_code *code = at(&j, 0x1000, 1);
        assert_non_null(code);
        assert_string_equal(code->name, cases[i].name);
        assert_string_equal(code->file ? code->file : "", cases[i].file ? cases[i].file : "");
        assert_int_equal(code->line, cases[i].line);
        jit_release(&j);
    }
}

static void lines_that_make_no_sense_are_left_out(void **state)
{
    static const char *const lines[] = {
        "",
        "\n",
        "1000\n",
        "1000 10\n",
        "x 10 a\n",
        "1000 0 a\n",
        "1000  10 a\n",
        "10000000000000000 10 a\n",
        "ffffffffffffffff 10 a\n",
        "1000 ffffffffffffffff a\n",
        "-1000 10 a\n",
        "0x 10 a\n",
        "1000 10 a" /* no end */,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        struct jit_names j = map_of(lines[i]);
        assert_int_equal(j.count, 0);
        jit_release(&j);
    }
    /* A line of megabytes without an end does not hide the next one. */
    size_t len = 3 << 20;
    char *text = malloc(len + 64);
    memset(text, 'a', len);
    strcpy(text + len, "\n1000 10 after\n");
    struct jit_names j = map_of(text);
    assert_string_equal(name_at(&j, 0x1000), "after");
    jit_release(&j);
    free(text);
}

/* A dump, built record by record. */
struct image {
    unsigned char bytes[4096];
    size_t len;
};

static void put(struct image *m, const void *bytes, size_t len)
{
    assert_true(m->len + len <= sizeof(m->bytes));
    memcpy(m->bytes + m->len, bytes, len);
    m->len += len;
}

static void put_header(struct image *m, uint64_t flags)
{
    const uint32_t head[] = {0x4a695444, 1, 40, 62, 0, 7};
    const uint64_t rest[] = {1, flags};
    m->len = 0;
    put(m, head, sizeof(head));
    put(m, rest, sizeof(rest));
}

static void put_prefix(struct image *m, uint32_t id, size_t len, uint64_t ns)
{
    const uint32_t head[] = {id, (uint32_t)(16 + len)};
    put(m, head, sizeof(head));
    put(m, &ns, sizeof(ns));
}

static void put_load(struct image *m, uint64_t ns, uint64_t address, uint64_t index,
                     const char *name)
{
    const uint32_t who[] = {7, 7};
    const uint64_t rest[] = {address, address, 0x10, index};
    static const unsigned char code[0x10];
    put_prefix(m, 0, 40 + strlen(name) + 1 + sizeof(code), ns);
    put(m, who, sizeof(who));
    put(m, rest, sizeof(rest));
    put(m, name, strlen(name) + 1);
    put(m, code, sizeof(code));
}

static void put_move(struct image *m, uint64_t ns, uint64_t from, uint64_t to, uint64_t index)
{
    const uint32_t who[] = {7, 7};
    const uint64_t rest[] = {to, from, to, 0x10, index};
    put_prefix(m, 1, 48, ns);
    put(m, who, sizeof(who));
    put(m, rest, sizeof(rest));
}

static void put_lines(struct image *m, uint64_t address)
{
    const uint64_t head[] = {address, 3};
    const struct {
        uint64_t address;
        uint32_t line, discriminator;
        const char *file;
    } lines[] = {
        {address + 8, 30, 0, "b.src"}, {address, 10, 0, "a.src"}, {address + 4, 20, 0, "\xff"}};
    put_prefix(m, 2, 16 + 3 * 16 + 6 + 6 + 2, 1);
    put(m, head, sizeof(head));
    for (size_t i = 0; i < 3; i++) {
        put(m, &lines[i].address, 16);
        put(m, lines[i].file, strlen(lines[i].file) + 1);
    }
}

static int read_image(struct jit_names *j, const struct image *m, size_t len)
{
    *j = (struct jit_names){.strings = &strings};
    int fd = file_of(m->bytes, len);
    int err = jit_read_dump(j, fd);
    close(fd);
    jit_sort(j);
    return err;
}

static void make_dump(struct image *m, uint64_t flags)
{
    put_header(m, flags);
    put_lines(m, 0x1000);
    put_load(m, 100, 0x1000, 1, "first");
    put_move(m, 200, 0x1000, 0x5000, 1);
    put_load(m, 300, 0x1008, 2, "second");
    put_move(m, 400, 0x9000, 0x1000, 1);  /* the function is not at 0x9000 */
    put_move(m, 400, 0x5000, 0x7000, 77); /* no such function */
}

static void functions_of_a_dump_have_times(void **state)
{
    struct image m;
    struct jit_names j;
    const char *file;
    uint32_t line;
    (void)state;
    make_dump(&m, 0);
    assert_int_equal(read_image(&j, &m, m.len), 0);
    assert_null(at(&j, 0x1000, 99));
    assert_string_equal(at(&j, 0x1000, 100)->name, "first");
    assert_string_equal(at(&j, 0x100f, 199)->name, "first");
    assert_null(at(&j, 0x1000, 200));
    assert_null(at(&j, 0x5000, 199));
    assert_string_equal(at(&j, 0x5000, 200)->name, "first");
    assert_string_equal(at(&j, 0x500f, JIT_ALWAYS)->name, "first");
    assert_string_equal(at(&j, 0x1008, 300)->name, "second");
    assert_null(at(&j, 0x1004, 300));
    const struct jit_code *moved = at(&j, 0x5000, 500);
    const struct {
        uint64_t offset;
        const char *file;
        uint32_t line;
    } places[] = {{0, "a.src", 10}, {3, "a.src", 10}, {4, "a.src", 20}, {9, "b.src", 30}};
    for (size_t i = 0; i < 4; i++) {
        jit_place(&j, moved, moved->start + places[i].offset, &file, &line);
        assert_string_equal(file, places[i].file);
        assert_int_equal(line, places[i].line);
    }
    jit_release(&j);
}

static void times_of_another_clock_are_not_used(void **state)
{
    struct image m;
    struct jit_names j;
    (void)state;
    make_dump(&m, 1);
    assert_int_equal(read_image(&j, &m, m.len), 0);
    assert_string_equal(at(&j, 0x1000, 1)->name, "first");
    assert_string_equal(at(&j, 0x1008, 1)->name, "second");
    jit_release(&j);
}

/* Truncated data is missing, without other effects. */
static void a_dump_may_end_anywhere(void **state)
{
    struct image m;
    struct jit_names j;
    (void)state;
    make_dump(&m, 0);
    for (size_t len = 0; len <= m.len; len++) {
        int err = read_image(&j, &m, len);
        assert_int_equal(err, len < 40 ? -EBADMSG : 0);
        assert_true(j.count <= 3);
        jit_release(&j);
    }
}

static void any_bytes_in_a_dump_are_survived(void **state)
{
    struct image m, damaged;
    struct jit_names j;
    static const unsigned char values[] = {0, 1, 0x7f, 0x80, 0xff};
    (void)state;
    make_dump(&m, 0);
    for (size_t i = 0; i < m.len; i++)
        for (size_t k = 0; k < sizeof(values); k++) {
            damaged = m;
            damaged.bytes[i] = values[k];
            (void)read_image(&j, &damaged, damaged.len);
            for (size_t n = 0; n < j.count; n++) {
                const char *file;
                uint32_t line;
                assert_true(j.list[n].start < j.list[n].end);
                assert_non_null(j.list[n].name);
                jit_place(&j, &j.list[n], j.list[n].start, &file, &line);
            }
            jit_release(&j);
        }
}

static void only_regular_files_of_known_owners_are_opened(void **state)
{
    char dir[] = "/tmp/piano-jit-XXXXXX", path[64], link[64], fifo[64];
    const unsigned own = geteuid(), other = own + 1;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/map", dir);
    snprintf(link, sizeof(link), "%s/link", dir);
    snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    close(fd);
    assert_int_equal(symlink(path, link), 0);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    fd = jit_open(-1, path, &own, 1);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(jit_open(-1, path, &other, 1), -EPERM);
    assert_int_equal(jit_open(-1, link, &own, 1), -ENODEV);
    assert_int_equal(jit_open(-1, fifo, &own, 1), -ENODEV);
    assert_int_equal(jit_open(-1, dir, &own, 1), -ENODEV);
    /* No path leads out of a root directory. */
    int root = open(dir, O_PATH | O_DIRECTORY);
    fd = jit_open(root, "/map", &own, 1);
    assert_true(fd >= 0 || fd == -ENOSYS);
    if (fd >= 0)
        close(fd);
    assert_true(jit_open(root, "/../../../etc/passwd", &own, 1) < 0);
    close(root);
    unlink(fifo), unlink(link), unlink(path), rmdir(dir);
}

static int release(void **state)
{
    (void)state;
    strings_release(&strings);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_line_for_an_address_counts),
        cmocka_unit_test(names_of_runtimes_are_taken_apart),
        cmocka_unit_test(lines_that_make_no_sense_are_left_out),
        cmocka_unit_test(functions_of_a_dump_have_times),
        cmocka_unit_test(times_of_another_clock_are_not_used),
        cmocka_unit_test(a_dump_may_end_anywhere),
        cmocka_unit_test(any_bytes_in_a_dump_are_survived),
        cmocka_unit_test(only_regular_files_of_known_owners_are_opened),
    };
    return cmocka_run_group_tests(tests, NULL, release);
}
