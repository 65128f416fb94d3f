/* symbol/: which file has the symbols of a module. Separate debug files, files that are missing, replaced,
 * not files, damaged or hostile, and servers that do not answer. */
#include "programs.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <netinet/in.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>

static void test_stripped(void **state)
{
    char want[64];
    struct symbols *s = symbols_new();
    (void)state;
    assert_true(sh("gcc -O2 -g -rdynamic p.c -o c && strip -o stripped c"));
    assert_name(s, in_dir("stripped"), symbol_address("c", "shown"), "shown");
    uint64_t addr = symbol_address("c", "top");
    snprintf(want, sizeof(want), "stripped+0x%llx", (unsigned long long)addr);
    assert_name(s, in_dir("stripped"), addr, want);
    assert_name(s, in_dir("c"), addr, "top");
    symbols_free(s);
}

static void test_mini_debug_info(void **state)
{
    struct symbols *s = symbols_new();
    (void)state;
    if (!have("xz")) {
        symbols_free(s);
        skip();
    }
    assert_true(sh("gcc -O2 -g p.c -o c && objcopy -S --remove-section .gdb_index "
                   "--remove-section .comment --keep-symbol=top --only-keep-debug c mini && "
                   "objcopy -S -K top mini && rm -f mini.xz && xz mini && "
                   "objcopy -S --add-section .gnu_debugdata=mini.xz c with_mini"));
    assert_name(s, in_dir("with_mini"), symbol_address("c", "top"), "top");
    symbols_free(s);
}

static void test_debug_files(void **state)
{
    uint8_t id[32];
    char hex[80], command[TEXT];
    (void)state;
    /* By build-id. */
    assert_true(sh("gcc -O2 -g p.c -o c && objcopy --only-keep-debug c c.dbg && strip -o s c"));
    assert_int_equal(build_id_of("c", id, hex), 20);
    snprintf(command, sizeof(command),
             "mkdir -p d/.build-id/%.2s && mv c.dbg d/.build-id/%.2s/%s.debug", hex, hex, hex + 2);
    assert_true(sh("%s", command));
    snprintf(command, sizeof(command), "/nonexistent:%s", in_dir("d"));
    assert_call_of_malloc("s", "c", command, NULL);
    /* By link: beside, in .debug, below the debug directory. The debug file has the build-id. */
    assert_true(
        sh("objcopy --only-keep-debug c s.debug && objcopy -S --add-gnu-debuglink=s.debug c l"));
    assert_call_of_malloc("l", "c", "", NULL);
    assert_true(sh("mkdir -p .debug && mv s.debug .debug"));
    assert_call_of_malloc("l", "c", "", NULL);
    assert_true(sh("mkdir -p d/%s && mv .debug/s.debug d/%s", dir, dir));
    assert_call_of_malloc("l", "c", in_dir("d"), NULL);
    /* Without a build-id, by checksum. */
    assert_true(
        sh("gcc -O2 -g -Wl,--build-id=none p.c -o c && objcopy --only-keep-debug c s.debug && "
           "objcopy -S --add-gnu-debuglink=s.debug c l"));
    assert_call_of_malloc("l", "c", "", NULL);
    /* A different file with the same name is rejected. */
    struct symbols *s = symbols_new();
    uint64_t addr = symbol_address("c", "top");
    assert_true(
        sh("sed s/abort/rand/ p.c >p2.c && "
           "gcc -O1 -g -Wl,--build-id=none p2.c -o c2 && objcopy --only-keep-debug c2 s.debug"));
    snprintf(command, sizeof(command), "l+0x%llx", (unsigned long long)addr);
    assert_name(s, in_dir("l"), addr, command);
    symbols_free(s);
}

static void assert_complaint(struct symbols *s, const char *module, const char *reason)
{
    const struct symbol_complaint *list;
    size_t count = symbols_complaints(s, &list);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i].module, module) == 0) {
            assert_string_equal(list[i].reason, reason);
            return;
        }
    fail_msg("no complaint about %s", module);
}

static void test_replaced(void **state)
{
    uint8_t id[32];
    char hex[80], want[64], path[256], gone[300], name[80];
    const struct symbol_frame *f;
    struct symbols *s = symbols_new();
    (void)state;
    assert_true(sh("gcc -O2 -g p.c -o c && cp c old && gcc -O1 -g p.c -o c"));
    snprintf(path, sizeof(path), "%s", in_dir("c"));
    snprintf(gone, sizeof(gone), "%s (deleted)", path);
    struct symbol_module m = {.path = path, .build_id = id};
    m.build_id_len = build_id_of("old", id, hex);
    uint64_t addr = symbol_address("old", "top");
    snprintf(want, sizeof(want), "c+0x%llx", (unsigned long long)addr);
    symbols_debug_dirs(s, in_dir("none"));
    assert_int_equal(symbols_resolve(s, &m, addr, &f), 1);
    assert_string_equal(f->function, want);
    assert_null(f->file);
    assert_complaint(s, m.path, "was replaced by another build");
    m.path = gone;
    symbols_resolve(s, &m, addr, &f);
    assert_complaint(s, m.path, "was replaced by another build");
    symbols_free(s);
    /* The right one, by its build-id. */
    assert_true(
        sh("mkdir -p r/.build-id/%.2s && objcopy --only-keep-debug old r/.build-id/%.2s/%s.debug",
           hex, hex, hex + 2));
    assert_call_of_malloc("c", "old", in_dir("r"), &m);
    /* Deleted, but recreated from the same build. */
    s = symbols_new();
    assert_true(sh("cp old c"));
    assert_int_equal(call_of_malloc(s, &m, "old", &f), 3);
    /* Deleted and without a build-id: its owner is unknown. */
    m.build_id_len = 0;
    symbols_resolve(s, &m, addr, &f);
    snprintf(name, sizeof(name), "c (deleted)+0x%llx", (unsigned long long)addr);
    assert_string_equal(f->function, name);
    assert_complaint(s, m.path, "is gone");
    symbols_free(s);
}

static void test_not_a_file(void **state)
{
    const struct symbol_frame *f;
    struct symbols *s = symbols_new();
    (void)state;
    static const char nonsense[] = "\177ELF\2\1\1 and nothing behind it";
    put("nonsense", nonsense, sizeof(nonsense));
    put("empty", "", 0);
    assert_true(sh("gcc -O2 -g p.c -o c && head -c 3000 c >cut && gcc -g -c p.c"));
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    const char *const paths[][2] = {
        {in_dir("fifo"), "is not a regular file"},
        {"/dev/zero", "is not a regular file"},
        {"/", "is not a regular file"},
        {"//anon", "is gone"},
        {"", "is gone"},
        {"/etc/passwd/x", "is gone"},
        {in_dir("empty"), "is not a program or library (or a damaged one)"},
        {in_dir("nonsense"), "is not a program or library (or a damaged one)"},
        {in_dir("p.c"), "is not a program or library (or a damaged one)"},
        {in_dir("p.o"), "is not a program or library (or a damaged one)"},
    };
    for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
        struct symbol_module m = {.path = paths[i][0], .bias = 0x1000};
        assert_int_equal(symbols_resolve(s, &m, 0x1234, &f), 1);
        assert_non_null(strstr(f->function, "+0x234"));
        assert_complaint(s, paths[i][0], paths[i][1]);
    }
    struct symbol_module cut = {.path = in_dir("cut")};
    assert_int_equal(symbols_resolve(s, &cut, 0x1234, &f), 1);
    assert_string_equal(f->function, "cut+0x1234");
    assert_int_equal(symbols_resolve(s, NULL, 0xabcdef, &f), 1);
    assert_string_equal(f->function, "0xabcdef");
    assert_string_equal(f->module, "[unknown]");
    symbols_free(s);
}

/* A pipe in place of a split debug file must not block. */
static void test_pipe_as_split_file(void **state)
{
    struct symbols *s = symbols_new();
    (void)state;
    assert_true(sh("gcc -O2 -g -gsplit-dwarf -c p.c -o pipe.o && gcc pipe.o -o c && rm pipe.dwo"));
    assert_int_equal(mkfifo(in_dir("pipe.dwo"), 0600), 0);
    assert_name(s, in_dir("c"), symbol_address("c", "top"), "top");
    symbols_free(s);
}

static void test_vdso(void **state)
{
    const struct symbol_frame *f;
    struct symbols *s = symbols_new();
    const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
    (void)state;
    if (!start) {
        symbols_free(s);
        skip();
        return;
    }
    struct symbol_module m = {.path = "[vdso]", .bias = (uintptr_t)start};
    symbols_resolve(s, &m, m.bias + 0x123, &f);
    assert_string_equal(f->function, "[vdso]+0x123"); /* its owner is unknown */
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)start;
    const ElfW(Phdr) *segments = (const ElfW(Phdr) *)(start + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_NOTE)
            continue;
        const char *at = start + segments[i].p_offset, *end = at + segments[i].p_filesz;
        while (at < end && m.build_id_len == 0) {
            const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
            const char *name = at + sizeof(*note);
            at = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == NT_GNU_BUILD_ID && memcmp(name, "GNU", 4) == 0) {
                m.build_id = (const uint8_t *)at;
                m.build_id_len = note->n_descsz;
            }
            at += (note->n_descsz + 3) / 4 * 4;
        }
    }
    void *vdso = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
    void *function = vdso ? dlsym(vdso, "__vdso_clock_gettime") : NULL;
    if (m.build_id_len && function) {
        symbols_resolve(s, &m, (uintptr_t)function, &f);
        assert_non_null(strstr(f->function, "clock_gettime"));
    }
    if (vdso)
        dlclose(vdso);
    symbols_free(s);
}

static void count_calls(void *ctx, const char *what)
{
    assert_non_null(what);
    ++*(int *)ctx;
}

/* A server that accepts connections and never answers. Returns its port, and the socket in *FD. */
static int mute_server(int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(at);
    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(*fd, 8), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &len), 0);
    return ntohs(at.sin_port);
}

static void test_debuginfod(void **state)
{
    uint8_t id[32];
    char hex[80], url[300];
    int server, calls = 0;
    const struct symbol_frame *f;
    (void)state;
    void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY);
    if (!library) {
        skip();
        return;
    }
    assert_true(sh("gcc -O2 -g p.c -o c && strip -o s c"));
    struct symbol_module m = {.path = in_dir("s"), .build_id = id};
    m.build_id_len = build_id_of("c", id, hex);
    setenv("DEBUGINFOD_CACHE_PATH", in_dir("cache"), 1);
    setenv("DEBUGINFOD_TIMEOUT", "1", 1);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", mute_server(&server));
    for (int set = 0; set < 2; set++) {
        struct symbols *s = symbols_new();
        symbols_debug_dirs(s, "");
        symbols_progress(s, count_calls, &calls);
        if (set)
            setenv("DEBUGINFOD_URLS", url, 1);
        assert_int_equal(call_of_malloc(s, &m, "c", &f), 1); /* and comes back */
        int client = accept(server, NULL, NULL);
        assert_int_equal(client >= 0, set);
        if (client >= 0)
            close(client);
        assert_true(calls >= (set ? 3 : 1));
        symbols_free(s);
    }
    close(server);
    /* A server that has the file. */
    assert_true(sh("rm -rf cache && mkdir -p served/buildid/%s && "
                   "objcopy --only-keep-debug c served/buildid/%s/debuginfo",
                   hex, hex));
    snprintf(url, sizeof(url), "file://%s/", in_dir("served"));
    setenv("DEBUGINFOD_URLS", url, 1);
    assert_call_of_malloc("s", "c", "", &m);
    /* The program no longer exists. */
    assert_true(sh("rm s"));
    assert_call_of_malloc("s", "c", "", &m);
    unsetenv("DEBUGINFOD_URLS");
    dlclose(library);
}

/* A file of bytes. */
static unsigned char *slurp(const char *name, size_t *len)
{
    FILE *f = fopen(in_dir(name), "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    unsigned char *data = malloc(*len);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *len, f), *len);
    fclose(f);
    return data;
}

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_below(uint64_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* Changes a few bytes: anywhere, in the headers, in the debug sections; or cuts the end off. */
static size_t mutate(unsigned char *data, size_t len, size_t debug)
{
    size_t changes = 1 + random_below(random_below(4) ? 8 : 200);
    for (size_t i = 0; i < changes; i++) {
        size_t at = debug + random_below(len - debug);
        if (random_below(6) == 0)
            at = random_below(len);
        else if (random_below(6) == 0)
            at = random_below(1024);
        else if (random_below(6) == 0)
            at = len - 1 - random_below(40 * 64);
        static const unsigned char odd[] = {0, 1, 0x7f, 0x80, 0xff};
        data[at] = random_below(2) ? odd[random_below(5)] : (unsigned char)random_below(256);
    }
    return random_below(20) ? len : 1 + random_below(len);
}

/* PIANO_TEST_MUTATIONS sets the number, for longer tests. */
static void test_mutated(void **state)
{
    const char *given = getenv("PIANO_TEST_MUTATIONS");
    long rounds = given ? strtol(given, NULL, 10) : 400;
    static uint64_t addrs[ADDRESSES];
    static const char *const ways[] = {"-gdwarf-4", "-gdwarf-5", "-g -gz",
                                       "-g1 -fdebug-types-section"};
    (void)state;
    for (size_t way = 0; way < 4; way++) {
        size_t len;
        assert_true(sh("g++ -O2 %s p.cc -o cc", ways[way]));
        size_t count = addresses_of("cc", addrs);
        unsigned char *whole = slurp("cc", &len);
        unsigned char *copy = malloc(len);
        assert_non_null(copy);
        /* The sections that are not loaded come after .data, about here. */
        size_t debug = len / 3;
        for (long round = 0; round < rounds / 4; round++) {
            const struct symbol_frame *f;
            memcpy(copy, whole, len);
            put("mutant", copy, mutate(copy, len, debug));
            struct symbols *s = symbols_new();
            struct symbol_module m = {.path = in_dir("mutant")};
            for (size_t i = random_below(5); i < count; i += 7) {
                size_t n = symbols_resolve(s, &m, addrs[i], &f);
                assert_in_range(n, 1, 200);
                for (size_t k = 0; k < n; k++)
                    assert_true(f[k].function && f[k].module && strlen(f[k].function) > 0);
            }
            symbols_free(s);
        }
        free(whole);
        free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stripped),    cmocka_unit_test(test_mini_debug_info),
        cmocka_unit_test(test_debug_files), cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_not_a_file),  cmocka_unit_test(test_pipe_as_split_file),
        cmocka_unit_test(test_vdso),        cmocka_unit_test(test_debuginfod),
        cmocka_unit_test(test_mutated),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
