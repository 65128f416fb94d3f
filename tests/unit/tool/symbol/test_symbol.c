/* symbol/: compares names, inlined functions and lines with binutils' addr2line (and llvm-symbolizer, where
 * addr2line is known to be incomplete), for programs compiled here in many ways.
 *
 * Differences that are not compared: addr2line takes a file name from the symbol table
 * where there is no line (`crtstuff.c:?`), says `<artificial>` for some lines of an -flto program, adds
 * `.constprop.0` and the like, gives an inlined function that has no name for linkers no scope, or the name
 * of the one around it, and finds no inlined functions in clang's DWARF 5 and in split files. It also gives padding
 * between functions to the function before; only addresses within the size of a symbol are compared. */
#include "programs.h"

#include "tool/symbol/demangle.h"

#define LLVM_SYMBOLIZER "llvm-symbolizer"

enum { FRAMES = 64, OLDEST_ADDR2LINE = 236, OLDEST_LLVM = 1200 };

/* One frame from another symbolizer's output. */
struct printed {
    char function[TEXT];
    char file[256];
    unsigned line;
};

/* Removes suffixes that are not part of the name: ".constprop.0", " [clone .cold]", the versions of a `.cold`. */
static void plain_name(char *out, const char *name, bool squeeze)
{
    static const char *const tails[] = {" [clone ", " (.",        ".constprop.", ".isra.", ".part.",
                                        ".cold",    ".lto_priv.", "[abi:cxx11]", ".llvm."};
    size_t len = strlen(name);
    for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
        const char *tail = strstr(name, tails[i]);
        if (tail && (size_t)(tail - name) < len)
            len = (size_t)(tail - name);
    }
    for (size_t i = 0; i < len && i < TEXT - 1; i++)
        if (!squeeze || name[i] != ' ')
            *out++ = name[i];
    *out = '\0';
}

/* Runs COMMAND for ADDRS, and calls back with one list of frames after another. */
static void each_printed(const char *command, const uint64_t *addrs, size_t count,
                         void (*check)(void *ctx, uint64_t addr, const struct printed *, size_t),
                         void *ctx)
{
    static struct printed frames[FRAMES];
    static char line[TEXT], whole[2 * TEXT];
    FILE *in = fopen(in_dir("addresses"), "w");
    assert_non_null(in);
    for (size_t i = 0; i < count; i++)
        fprintf(in, "0x%llx\n", (unsigned long long)addrs[i]);
    fclose(in);
    snprintf(whole, sizeof(whole), "%s <%s", command, in_dir("addresses"));
    FILE *p = popen(whole, "r");
    assert_non_null(p);
    size_t at = 0, frame = 0;
    bool more = fgets(line, sizeof(line), p) != NULL;
    while (more) {
        assert_true(at < count);
        assert_int_equal(strtoull(line, NULL, 16), addrs[at]);
        frame = 0;
        while ((more = fgets(line, sizeof(line), p) != NULL) && strncmp(line, "0x", 2) != 0) {
            struct printed *f = &frames[frame < FRAMES ? frame++ : FRAMES - 1];
            line[strcspn(line, "\n")] = '\0';
            snprintf(f->function, sizeof(f->function), "%.*s", TEXT - 1, line);
            if (!fgets(line, sizeof(line), p))
                fail_msg("%s stopped in the middle", command);
            char *colon = strrchr(line, ':');
            assert_non_null(colon);
            snprintf(f->file, sizeof(f->file), "%.*s", (int)(colon - line), line);
            f->line = (unsigned)strtoul(colon + 1, NULL, 10);
        }
        check(ctx, addrs[at++], frames, frame);
    }
    pclose(p);
    assert_int_equal(at, count);
}

struct comparison {
    struct symbols *symbols;
    struct symbol_module module;
    bool squeeze, names;
    size_t frames, inlined, lines;
};

/* Whether OURS equals THEIRS with its scope before it. addr2line 2.38 leaves out the parameters too. */
static bool is_scoped(const char *ours, const char *theirs)
{
    size_t end = strlen(theirs);
    for (const char *at = strstr(ours, "::"); at; at = strstr(at + 1, "::")) {
        char next = strncmp(at + 2, theirs, end) == 0 ? at[2 + end] : 'x';
        if (next == '\0' || next == '(')
            return true;
    }
    return false;
}

static void compare(void *ctx, uint64_t addr, const struct printed *want, size_t count)
{
    static char theirs[TEXT], ours[TEXT];
    struct comparison *c = ctx;
    const struct symbol_frame *got;
    size_t n = symbols_resolve(c->symbols, &c->module, addr, &got);
    if (n != count)
        fail_msg("%s 0x%llx: %zu frames (%s), want %zu (%s)", c->module.path,
                 (unsigned long long)addr, n, got[0].function, count, want[0].function);
    for (size_t i = 0; i < n; i++) {
        plain_name(ours, got[i].function, c->squeeze);
        plain_name(theirs, want[i].function, c->squeeze);
        bool around = i + 1 < n && strcmp(want[i].function, want[n - 1].function) == 0;
        bool same = around || strcmp(ours, theirs) == 0 || is_scoped(ours, theirs);
        if ((c->names && !same) || got[i].line != want[i].line)
            fail_msg("%s 0x%llx frame %zu: %s:%u, want %s:%u", c->module.path,
                     (unsigned long long)addr, i, ours, got[i].line, theirs, want[i].line);
        if (strchr(want[i].file, '/') && !strstr(want[i].file, "<artificial>"))
            assert_string_equal(got[i].file, want[i].file);
        assert_int_equal(got[i].inlined, i + 1 < n);
        c->inlined += got[i].inlined;
        c->lines += got[i].line != 0;
    }
    c->frames += n;
}

/* Every address of FILE according to addr2line (or llvm-symbolizer); symbols come from SHOWN. */
static struct comparison agree(const char *file, const char *shown, bool llvm, bool names)
{
    static uint64_t addrs[ADDRESSES];
    char command[TEXT];
    struct comparison c = {.symbols = symbols_new(), .squeeze = llvm, .names = names};
    size_t count = addresses_of(file, addrs);
    assert_true(count > 30);
    assert_non_null(c.symbols);
    c.module.path = in_dir(shown);
    if (llvm)
        snprintf(command, sizeof(command), LLVM_SYMBOLIZER " -a -i -f -C --output-style=GNU -e %s",
                 in_dir(file));
    else
        snprintf(command, sizeof(command), "addr2line -a -ifCe %s", in_dir(file));
    each_printed(command, addrs, count, compare, &c);
    symbols_free(c.symbols);
    assert_true(c.frames >= count);
    return c;
}

/* 238 for "GNU addr2line (GNU Binutils) 2.38", 1400 for "LLVM version 14.0.6"; 0 if unknown. */
static int version_of(const char *program)
{
    char command[TEXT], line[TEXT];
    int major = 0, minor = 0, version = 0;
    snprintf(command, sizeof(command), "%s --version 2>/dev/null", program);
    FILE *p = popen(command, "r");
    while (p && version == 0 && fgets(line, sizeof(line), p)) {
        const char *at = strpbrk(line, "0123456789");
        while (at && sscanf(at, "%d.%d", &major, &minor) != 2) /* not the 2 of "addr2line" */
            at = strpbrk(at + 1, "0123456789");
        version = at ? 100 * major + minor : 0;
    }
    if (p)
        pclose(p);
    return version;
}

static void test_gcc_as_addr2line(void **state)
{
    static const char *const ways[] = {
        "-g",
        "-gdwarf-4",
        "-g1",
        "-g -gz",
        "-g -no-pie",
        "-gdwarf-5 -flto -ffunction-sections",
        "-g -ffunction-sections -Wl,--gc-sections",
        "-gdwarf-5 -O0",
        "-g0",
    };
    (void)state;
    if (version_of("addr2line") < OLDEST_ADDR2LINE)
        skip(); /* loses lines of inlined functions */
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        bool lines = strcmp(ways[i], "-g0") != 0, inlined = lines && !strstr(ways[i], "-O0");
        assert_true(sh("gcc -O2 %s p.c -o c && g++ -O2 %s p.cc -o cc", ways[i], ways[i]));
        struct comparison c = agree("c", "c", false, true);
        struct comparison cc = agree("cc", "cc", false, true);
        assert_int_equal(c.lines > 20, lines);
        assert_int_equal(cc.lines > 100, lines);
        assert_int_equal(c.inlined > 3 && cc.inlined > 3, inlined);
    }
}

static void test_clang_as_addr2line(void **state)
{
    (void)state;
    if (!have("clang"))
        skip();
    assert_true(sh("clang -O2 -gdwarf-4 p.c -o c && clang++ -O2 -gdwarf-4 p.cc -o cc"));
    assert_true(agree("c", "c", false, true).inlined > 3);
    assert_true(agree("cc", "cc", false, true).inlined > 3);
}

static void test_clang_as_llvm(void **state)
{
    static const char *const ways[] = {"-gdwarf-5", "-g1", "-g -ffunction-sections"};
    (void)state;
    if (!have("clang") || !have(LLVM_SYMBOLIZER))
        skip();
    for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
        assert_true(sh("clang -O2 %s p.c -o c && clang++ -O2 %s p.cc -o cc", ways[i], ways[i]));
        assert_true(agree("c", "c", true, true).inlined > 3);
        assert_true(agree("cc", "cc", true, true).inlined > 3);
    }
}

static void test_split_as_llvm(void **state)
{
    (void)state;
    if (!have(LLVM_SYMBOLIZER) || version_of(LLVM_SYMBOLIZER) < OLDEST_LLVM)
        skip(); /* 11 loses functions of split files */
    for (int version = 4; version <= 5; version++) {
        assert_true(sh("gcc -O2 -g -gdwarf-%d -gsplit-dwarf -c p.c && gcc p.o -o c && "
                       "g++ -O2 -g -gdwarf-%d -gsplit-dwarf -c p.cc -o q.o && g++ q.o -o cc",
                       version, version));
        assert_true(agree("c", "c", true, true).inlined > 3);
        assert_true(agree("cc", "cc", true, false).inlined > 3); /* it spells lambdas differently */
    }
    /* Without the split file: symbols, and the lines in the program itself. */
    assert_true(sh("rm *.dwo"));
    agree("c", "c", true, false);
}

static void test_inlined_twice(void **state)
{
    (void)state;
    assert_true(sh("gcc -O2 -g p.c -o c"));
    assert_call_of_malloc("c", "c", NULL, NULL);
}

static void test_cached_and_once(void **state)
{
    const struct symbol_frame *a, *b, *c;
    struct symbols *s = symbols_new();
    (void)state;
    assert_true(sh("gcc -O2 -g p.c -o c"));
    struct symbol_module m = {.path = in_dir("c"), .bias = 0x10000};
    size_t n = call_of_malloc(s, &m, "c", &a);
    assert_int_equal(call_of_malloc(s, &m, "c", &b), n);
    assert_ptr_equal(a, b);
    m.bias = 0x560000000000; /* the same file at another address, as after dlclose */
    call_of_malloc(s, &m, "c", &b);
    assert_ptr_equal(a, b);
    symbols_resolve(s, &m, symbol_address("c", "top") + m.bias, &c);
    assert_ptr_equal(c->function, a[2].function);
    symbols_free(s);
}

static void test_cxx_names(void **state)
{
    static const char *const mangled[][2] = {
        {"_ZN12_GLOBAL__N_16hiddenEi", "(anonymous namespace)::hidden(int)"},
        {"_ZL11file_statici", "file_static(int)"},
        {"_ZNK5outer5inner3BoxIdLi5EE3sumEv", "outer::inner::Box<double, 5>::sum() const"},
        {"_ZNK5outer5inner3BoxIdLi5EEltERKS2_",
         "outer::inner::Box<double, 5>::operator<(outer::inner::Box<double, 5> const&) const"},
        {"_ZN5ShapeD1Ev", "Shape::~Shape()"},
        {"_ZZ4mainEN5Local2goEi", "main::Local::go(int)"},
        {"_Z5applyIZ4mainEUliE_EiT_i",
         "int apply<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)"},
    };
    const char *const ways[] = {"-g", "-g1", "-g0"};
    (void)state;
    for (size_t way = 0; way < 3; way++) {
        struct symbols *s = symbols_new();
        size_t found = 0;
        assert_true(sh("g++ -O2 %s p.cc -o cc", ways[way]));
        for (size_t i = 0; i < sizeof(mangled) / sizeof(*mangled); i++) {
            uint64_t addr = symbol_address("cc", mangled[i][0]);
            found += addr != 0;
            if (addr)
                assert_name(s, in_dir("cc"), addr, mangled[i][1]);
        }
        assert_in_range(found, 5, 7);
        symbols_free(s);
    }
}

static void test_symbol_sizes(void **state)
{
    static const char text[] =
        ".text\n.globl main\n.type main,@function\nmain: ret\n.size main,.-main\n"
        "nop\nnop\nopen_end: nop\nnop\nnop\n.globl later\nlater: ret\nnop\n"
        ".section .text.other,\"ax\"\nother: nop\n";
    struct symbols *s = symbols_new();
    char want[64];
    (void)state;
    put("a.s", text, sizeof(text) - 1);
    assert_true(sh("gcc -nostartfiles -Wl,-emain -no-pie a.s -o a"));
    uint64_t at = symbol_address("a", "main"), open_end = symbol_address("a", "open_end");
    assert_name(s, in_dir("a"), at, "main");
    snprintf(want, sizeof(want), "a+0x%llx", (unsigned long long)at + 1);
    assert_name(s, in_dir("a"), at + 1, want); /* after its end, before the next */
    assert_name(s, in_dir("a"), open_end + 2, "open_end");
    assert_name(s, in_dir("a"), symbol_address("a", "later"), "later");
    snprintf(want, sizeof(want), "a+0x%llx", (unsigned long long)at + 0x10000);
    assert_name(s, in_dir("a"), at + 0x10000, want);
    symbols_free(s);
}

static void test_plt(void **state)
{
    char line[TEXT], command[TEXT];
    size_t found = 0;
    (void)state;
    for (int lazy = 0; lazy < 2; lazy++) {
        struct symbols *s = symbols_new();
        assert_true(sh("gcc -O2 %s p.c -o c", lazy ? "-Wl,-z,lazy -fcf-protection=none" : ""));
        snprintf(command, sizeof(command), "objdump -d %s", in_dir("c"));
        FILE *p = popen(command, "r");
        while (fgets(line, sizeof(line), p)) {
            const char *name = strstr(line, "<malloc@plt>:");
            if (!name)
                continue;
            assert_name(s, in_dir("c"), strtoull(line, NULL, 16), "malloc@plt");
            assert_name(s, in_dir("c"), strtoull(line, NULL, 16) + 4, "malloc@plt");
            found++;
        }
        pclose(p);
        symbols_free(s);
    }
    assert_int_equal(found, 2);
}

/* Stubs of C++ functions have readable names too. */
static void test_plt_of_cpp(void **state)
{
    char line[TEXT], command[TEXT];
    size_t found = 0;
    (void)state;
    struct symbols *s = symbols_new();
    assert_true(
        sh("echo 'int main(int n, char **) { int *p = new int[n]; *(int *volatile *)&p = p; "
           "operator delete(p); }' > d.cc; g++ -O1 -w d.cc -o d"));
    snprintf(command, sizeof(command), "objdump -d %s", in_dir("d"));
    FILE *p = popen(command, "r");
    while (fgets(line, sizeof(line), p))
        if (strstr(line, "<_ZdlPv@plt>:")) {
            assert_name(s, in_dir("d"), strtoull(line, NULL, 16), "operator delete(void*)@plt");
            found++;
        }
    pclose(p);
    symbols_free(s);
    assert_int_equal(found, 1);
}

static void test_dwz(void **state)
{
    (void)state;
    if (!have("dwz"))
        skip();
    /* Debug information that several programs share moves to a common file. */
    assert_true(sh("gcc -O2 -g p.c -o c && cp c orig && gcc -O2 -g p.c -DX -o c3 && "
                   "g++ -O2 -g p.cc -o cc && cp cc cc2 && dwz -m common -M %s c c3 cc cc2",
                   in_dir("common")));
    assert_true(sh("readelf -SW c | grep gnu_debugaltlink"));
    assert_true(agree("orig", "c", false, true).inlined > 3);
}

static void test_demangle(void **state)
{
    struct strings strings = {0};
    char bomb[1000] = "_Z1f1aIS_S_E";
    (void)state;
    assert_string_equal(demangle(&strings, "plain"), "plain");
    assert_string_equal(demangle(&strings, "_Z"), "_Z");
    assert_string_equal(demangle(&strings, "_Z3fooi"), "foo(int)");
    assert_string_equal(demangle(&strings, "_ZdlPv"), "operator delete(void*)");
    /* Each reference doubles the text: returns some name, without taking for ever. */
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    strcpy(bomb, "_Z1f1aIiiES0_");
    for (int i = 1; i < 70; i++) {
        char part[32], last[8];
        if (i < 36)
            snprintf(last, sizeof(last), "S%c_", digits[i]);
        else
            snprintf(last, sizeof(last), "S%c%c_", digits[i / 36], digits[i % 36]);
        snprintf(part, sizeof(part), "1aI%s%sE", last, last);
        strcat(bomb, part);
    }
    assert_non_null(demangle(&strings, bomb));
    /* Many references, a valid name. */
    char long_name[400] = "_Z1fN1a1bE";
    for (int i = 0; i < 50; i++)
        strcat(long_name, "S0_");
    assert_non_null(strstr(demangle(&strings, long_name), "f(a::b, a::b, a::b"));
    strings_release(&strings);
}

/* The output of binutils' c++filt, without hashes and types of constants. */
static const struct {
    const char *mangled, *name;
} rust_names[] = {
    {"_ZN7service13rebuild_index17h9817f7cfe54f7dfeE", "service::rebuild_index"},
    {"_ZN7service3run28_$u7b$$u7b$closure$u7d$$u7d$17h89aef642ff4316a5E.llvm.1234",
     "service::run::{{closure}}"},
    {"_ZN69_$LT$piano_tokio..traced..Traced$LT$F$GT$$u20$as$u20$core..Future$GT$"
     "4poll17h0d0cbfbe81c98b70E",
     "<piano_tokio::traced::Traced<F> as core::Future>::poll"},
    {"_ZN4core3f$x17h0d0cbfbe81c98b70E", "core::f$x"},
    {"_ZN4core1f17h0000000000000000E", "core::f::h0000000000000000"}, /* of C++ */
    {"_RNvNvNtNtNtCsjrHSEGnQ3l9_3std3sys6thread4unix5sleep9nanosleep",
     "std::sys::thread::unix::sleep::nanosleep"},
    {"_RNvMNtNtNtNtNtCsjrHSEGnQ3l9_3std3sys3net10connection6socket4unixNtB2_6Socket4read",
     "<std::sys::net::connection::socket::unix::Socket>::read"},
    {"_RNvXs1_NtNtCsjrHSEGnQ3l9_3std3net3tcpRNtB5_9TcpStreamNtNtB9_2io4Read4read",
     "<&std::net::tcp::TcpStream as std::io::Read>::read"},
    {"_RINvNtCsgEmfK2I1SDS_4core6escape14escape_unicodeKja_ECsgY6Mt91CT9J_14rustc_demangle",
     "core::escape::escape_unicode::<10>"},
    {"_RNCNvC1a1f0", "a::f::{closure#0}"},
    {"_RNCNvC1a1fs_0.llvm.77", "a::f::{closure#1}"},
    {"_RINvC1a1fTmEThaEShAmK_ERmQmPmOmzE", NULL},
    {"_RINvC1a1fTmEThaEShAmj3_RmQmPmOmzE",
     "a::f::<(u32,), (u8, i8), [u8], [u32; 3], &u32, &mut u32, *const u32, *mut u32, !>"},
    {"_RINvC1a1fFUKCmEuFEbKlnf_Kb1_Kc41_KpE",
     "a::f::<unsafe extern \"C\" fn(u32), fn() -> bool, -15, true, 'A', _>"},
    {"_RINvC1a1fDNtB2_1tp1xmEL_DG_INtB2_1sRL0_mEEL_E",
     "a::f::<dyn a::t<x = u32>, dyn for<'a> a::s<&'a u32>>"},
    {"_RNvC1au6tda_xx", "a::punycode{tda_xx}"},
    {"_RNvC1a99f", NULL},
    {"_RNvC1a1fB9_", NULL},
    {"_RB_", NULL},
    {"_RNvC1a", NULL},
    {"_R", NULL},
    {"_RESERVED", NULL},
    {"_ZN", NULL},
    {"_ZN17h9817f7cfe54f7dfeE", "h9817f7cfe54f7dfe"},
    {"_ZN99service17h9817f7cfe54f7dfeE", NULL},
};

static void test_rust_names(void **state)
{
    struct strings strings = {0};
    (void)state;
    for (size_t i = 0; i < sizeof(rust_names) / sizeof(*rust_names); i++)
        assert_string_equal(demangle(&strings, rust_names[i].mangled),
                            rust_names[i].name ? rust_names[i].name : rust_names[i].mangled);
    /* Each reference doubles the text, which exceeds the limit of a name. */
    char bomb[4096] = "_RINvC1a1fTmmE";
    size_t last = strlen("INvC1a1f");
    for (int i = 0; i < 60; i++) {
        static const char digits[] =
            "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
        char part[32], number[8];
        size_t here = strlen(bomb) - 2;
        if (last <= 62)
            snprintf(number, sizeof(number), "%c", digits[last - 1]);
        else
            snprintf(number, sizeof(number), "%c%c", digits[(last - 1) / 62],
                     digits[(last - 1) % 62]);
        snprintf(part, sizeof(part), "TB%s_B%s_E", number, number);
        strcat(bomb, part);
        last = here;
    }
    assert_string_equal(demangle(&strings, strcat(bomb, "E")), bomb);
    /* Each level does so too, and there are too many. */
    memset(bomb, 'S', sizeof(bomb) - 1);
    memcpy(bomb, "_RINvC1a1f", 10);
    bomb[sizeof(bomb) - 1] = '\0';
    assert_string_equal(demangle(&strings, bomb), bomb);
    strings_release(&strings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gcc_as_addr2line),
        cmocka_unit_test(test_clang_as_addr2line),
        cmocka_unit_test(test_clang_as_llvm),
        cmocka_unit_test(test_split_as_llvm),
        cmocka_unit_test(test_inlined_twice),
        cmocka_unit_test(test_cached_and_once),
        cmocka_unit_test(test_cxx_names),
        cmocka_unit_test(test_symbol_sizes),
        cmocka_unit_test(test_plt),
        cmocka_unit_test(test_plt_of_cpp),
        cmocka_unit_test(test_dwz),
        cmocka_unit_test(test_demangle),
        cmocka_unit_test(test_rust_names),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
