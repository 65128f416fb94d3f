/* For tests of symbols: programs compiled at test time in a separate directory, and binutils'
 * knowledge about them. */
#ifndef PIANO_TESTS_UNIT_PROGRAMS_H
#define PIANO_TESTS_UNIT_PROGRAMS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tool/symbol/symbol.h"
#include "temp.h"

enum { ADDRESSES = 4000, TEXT = 2048 };

static const char program_c[] = "#include <stdlib.h>\n"
                                "#include <string.h>\n"
                                "char *kept;\n"
                                "static inline char *low(int n)\n"
                                "{\n"
                                "    return malloc(n + 7); /* in low */\n"
                                "}\n"
                                "static inline char *mid(int n)\n"
                                "{\n"
                                "    char *s = low(n * 3); /* in mid */\n"
                                "    s[0] = 1;\n"
                                "    return s;\n"
                                "}\n"
                                "static __attribute__((noinline)) char *top(int n)\n"
                                "{\n"
                                "    if (n == 9)\n"
                                "        abort();\n"
                                "    return mid(n + 1) + 1; /* in top */\n"
                                "}\n"
                                "__attribute__((noinline)) int shown(int n)\n"
                                "{\n"
                                "    kept = strdup(top(n));\n"
                                "    return kept[0];\n"
                                "}\n"
                                "int main(int argc, char **argv)\n"
                                "{\n"
                                "    return shown(argc) + argv[0][0];\n"
                                "}\n";

static const char program_cc[] =
    "#include <cstdlib>\n"
    "namespace outer { namespace inner {\n"
    "template <typename T, int N> struct Box {\n"
    "    T v[N];\n"
    "    __attribute__((noinline)) T sum() const { T s{}; for (auto &x : v) s += x; return s; }\n"
    "    __attribute__((noinline)) Box operator+(const Box &o) const\n"
    "    { Box r; for (int i = 0; i < N; i++) r.v[i] = v[i] + o.v[i]; return r; }\n"
    "    __attribute__((noinline)) bool operator<(const Box &o) const { return v[0] < o.v[0]; }\n"
    "};\n"
    "} }\n"
    "namespace {\n"
    "__attribute__((noinline)) int hidden(int x) { return x * 3 + std::rand(); }\n"
    "inline int low(int x) { return hidden(x) + 1; }\n"
    "inline int mid(int x) { return low(x) * 2 + hidden(x + 1); }\n"
    "}\n"
    "static __attribute__((noinline)) int file_static(int a) { return mid(a) ^ 5; }\n"
    "template <class F> __attribute__((noinline)) int apply(F f, int n)\n"
    "{ int s = 0; for (int i = 0; i < n; i++) s += f(i); return s; }\n"
    "struct Shape { virtual ~Shape(); virtual int area() const; };\n"
    "Shape::~Shape() { hidden(1); }\n"
    "int Shape::area() const { return file_static(2); }\n"
    "int main(int argc, char **)\n"
    "{\n"
    "    outer::inner::Box<double, 5> b{}, c{};\n"
    "    b.v[0] = argc;\n"
    "    auto lambda = [&](int x) { return x + (int)(b + c).sum() + hidden(x); };\n"
    "    struct Local { static __attribute__((noinline)) int go(int a) { return hidden(a) - 2; } "
    "};\n"
    "    Shape s;\n"
    "    return apply(lambda, argc) + Local::go(argc) + (b < c) + s.area();\n"
    "}\n";

static char dir[64];

/* "DIR/NAME"; at most eight at a time. */
static inline const char *in_dir(const char *name)
{
    static char paths[8][256];
    static int at;
    at = (at + 1) % 8;
    snprintf(paths[at], sizeof(paths[at]), "%s/%s", dir, name);
    return paths[at];
}

static inline void put(const char *name, const void *data, size_t len)
{
    FILE *f = fopen(in_dir(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Runs a command in the directory; returns whether it succeeded. */
static inline bool __attribute__((format(printf, 1, 2))) sh(const char *fmt, ...)
{
    char command[TEXT], whole[TEXT + 128];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof(whole), "cd %s && { %s ; } >out.log 2>&1", dir, command);
    return system(whole) == 0;
}

static inline bool have(const char *program)
{
    return sh("command -v %s", program);
}

/* gcc's and clang's results must not depend on the environment of the tests. */
static inline int set_up(void **state)
{
    (void)state;
    unsetenv("DEBUGINFOD_URLS");
    temp_name(dir, sizeof(dir), "piano-symbol-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    put("p.c", program_c, sizeof(program_c) - 1);
    put("p.cc", program_cc, sizeof(program_cc) - 1);
    return 0;
}

static inline int tear_down(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    return system(command);
}

static inline unsigned line_with(const char *source, const char *text)
{
    unsigned line = 1;
    const char *found = strstr(source, text);
    assert_non_null(found);
    for (const char *at = source; at < found; at++)
        line += *at == '\n';
    return line;
}

static inline uint64_t symbol_address(const char *file, const char *name)
{
    char line[TEXT], command[TEXT];
    uint64_t addr = 0;
    snprintf(command, sizeof(command), "nm %s", in_dir(file));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof(line), p)) {
        char *space = strrchr(line, ' ');
        line[strcspn(line, "\n")] = '\0';
        if (space && strcmp(space + 1, name) == 0)
            addr = strtoull(line, NULL, 16);
    }
    pclose(p);
    return addr;
}

/* Addresses of instructions within the size of a symbol of FILE's code; returns the count. */
static inline size_t addresses_of(const char *file, uint64_t *addrs)
{
    static struct {
        uint64_t low, high;
    } known[2000];
    char line[TEXT], command[TEXT];
    size_t symbols = 0, count = 0;
    snprintf(command, sizeof(command), "nm -S --defined-only %s", in_dir(file));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof(line), p) && symbols < 2000) {
        unsigned long long addr, size;
        char type;
        if (sscanf(line, "%llx %llx %c", &addr, &size, &type) == 3 && strchr("tTwW", type)) {
            known[symbols].low = addr;
            known[symbols++].high = addr + size;
        }
    }
    pclose(p);
    snprintf(command, sizeof(command), "objdump -d -j .text --no-show-raw-insn %s", in_dir(file));
    p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof(line), p) && count < ADDRESSES) {
        char *end;
        uint64_t addr = strtoull(line, &end, 16);
        bool inside = false;
        for (size_t i = 0; i < symbols && *end == ':' && line[0] == ' '; i++)
            inside |= addr >= known[i].low && addr < known[i].high;
        if (inside)
            addrs[count++] = addr;
    }
    pclose(p);
    return count;
}

/* The frames of the only call of malloc in `top`. */
static inline size_t call_of_malloc(struct symbols *s, const struct symbol_module *module,
                                    const char *with_symbols, const struct symbol_frame **frames)
{
    char line[TEXT], command[TEXT];
    uint64_t addr = 0;
    bool in_top = false;
    snprintf(command, sizeof(command), "objdump -d --no-show-raw-insn %s", in_dir(with_symbols));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    while (fgets(line, sizeof(line), p)) {
        if (isxdigit((unsigned char)line[0]))
            in_top = strstr(line, "<top>:") != NULL;
        else if (in_top && strstr(line, "call") && strstr(line, "malloc"))
            addr = strtoull(line, NULL, 16);
    }
    pclose(p);
    assert_int_not_equal(addr, 0);
    return symbols_resolve(s, module, addr + module->bias, frames);
}

static inline void assert_call_of_malloc(const char *file, const char *with_symbols,
                                         const char *dirs, const struct symbol_module *as)
{
    const struct symbol_frame *f;
    struct symbols *s = symbols_new();
    struct symbol_module m = as ? *as : (struct symbol_module){.bias = 0x7f0000000000};
    m.path = in_dir(file);
    if (dirs)
        symbols_debug_dirs(s, dirs);
    assert_int_equal(call_of_malloc(s, &m, with_symbols, &f), 3);
    assert_string_equal(f[0].function, "low");
    assert_string_equal(f[1].function, "mid");
    assert_string_equal(f[2].function, "top");
    assert_int_equal(f[0].line, line_with(program_c, "in low"));
    assert_int_equal(f[1].line, line_with(program_c, "in mid"));
    assert_int_equal(f[2].line, line_with(program_c, "in top"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f[i].inlined, i < 2);
        assert_string_equal(f[i].file, in_dir("p.c"));
        assert_string_equal(f[i].module, file);
    }
    const struct symbol_complaint *complaints;
    assert_int_equal(symbols_complaints(s, &complaints), 0);
    symbols_free(s);
}

static inline void assert_name(struct symbols *s, const char *path, uint64_t addr, const char *want)
{
    const struct symbol_frame *f;
    struct symbol_module m = {.path = path};
    size_t n = symbols_resolve(s, &m, addr, &f);
    assert_string_equal(f[n - 1].function, want);
}

/* Build-id of FILE according to binutils: LEN bytes at ID, or -1. */
static inline size_t build_id_of(const char *file, uint8_t id[32], char *hex)
{
    char line[TEXT], command[TEXT];
    size_t len = 0;
    snprintf(command, sizeof(command), "readelf -n %s", in_dir(file));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    *hex = '\0';
    while (fgets(line, sizeof(line), p)) {
        const char *found = strstr(line, "Build ID: ");
        if (found)
            sscanf(found + 10, "%64s", hex);
    }
    pclose(p);
    for (; len < 32 && hex[2 * len]; len++) {
        unsigned byte;
        sscanf(hex + 2 * len, "%2x", &byte);
        id[len] = (uint8_t)byte;
    }
    return len;
}

#endif
