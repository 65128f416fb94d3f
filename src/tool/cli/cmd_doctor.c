/* `piano doctor`: does this machine have what piano needs? Prints one line per item: `ok`, `warn`
 * (something will be missing or less exact) or `FAIL` (piano cannot work), with a hint. */
#include <dlfcn.h>
#include <elfutils/libdwfl.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/build/libclang.h"
#include "tool/build/rust.h"
#include "tool/cli/command.h"
#include "tool/record/perf.h"
#include "tool/util/buf.h"
#include "tool/util/packages.h"
#include "tool/util/paths.h"
#include "tool/util/preload.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

enum verdict { GOOD, WARN, BAD };

static int worst;

static void __attribute__((format(printf, 2, 3))) tell(enum verdict v, const char *fmt, ...)
{
    static const char *const words[] = {"ok  ", "warn", "FAIL"};
    static const char *const colours[] = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
    bool colour = say_colour(stdout);
    va_list ap;
    printf("%s%s%s  ", colour ? colours[v] : "", words[v], colour ? "\x1b[0m" : "");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    if ((int)v > worst)
        worst = v;
}

/* The first line that COMMAND prints; false when it cannot be run. */
static bool first_line(const char *command, char *line, size_t size)
{
    FILE *p = popen(command, "re");
    bool got = p && fgets(line, (int)size, p);
    int status = p ? pclose(p) : -1;
    if (!got || status == -1 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static void check_compilers(void)
{
    static const struct package package = {"gcc", "gcc", "gcc"};
    char line[200], safe[200], advice[200];
    bool gcc = first_line("gcc --version 2>/dev/null", line, sizeof(line));
    if (gcc)
        tell(GOOD, "gcc: %s", say_safe(safe, sizeof(safe), line));
    bool clang = first_line("clang --version 2>/dev/null", line, sizeof(line));
    if (clang)
        tell(GOOD, "clang: %s", say_safe(safe, sizeof(safe), line));
    if (!gcc && !clang)
        tell(BAD, "no compiler: neither gcc nor clang is in PATH%s",
             packages_advice(advice, sizeof(advice), &package));
    else if (!gcc || !clang)
        tell(GOOD, "%s: not installed; only projects that use it need it", gcc ? "clang" : "gcc");
}

static void check_libclang(void)
{
    static const struct package package = {"libclang1-[0-9]+", "clang-libs", "clang"};
    char safe[300], advice[200];
    const struct libclang *clang = libclang();
    if (!clang) {
        tell(BAD, "libclang: %s%s; `piano build` needs libclang 11 or newer",
             say_safe(safe, sizeof(safe), libclang_error()),
             packages_advice(advice, sizeof(advice), &package));
        return;
    }
    CXString version = clang->getClangVersion();
    tell(GOOD, "libclang: %s", say_safe(safe, sizeof(safe), clang->getCString(version)));
    clang->disposeString(version);
}

static void check_rust(void)
{
    char cargo[120], rustc[120], safe[240], safe_rustc[240];
    if (!child_in_path("cargo")) {
        tell(GOOD, "Rust: there is no cargo; `piano build` does not work in Cargo projects");
        return;
    }
    bool has_cargo = first_line("cargo --version 2>/dev/null", cargo, sizeof cargo);
    bool has_rustc = first_line("rustc --version 2>/dev/null", rustc, sizeof rustc);
    say_safe(safe, sizeof safe, has_cargo ? cargo : "");
    say_safe(safe_rustc, sizeof safe_rustc, has_rustc ? rustc : "");
    if (!has_cargo || !has_rustc)
        tell(WARN, "Rust: `%s --version` fails; `piano build` does not work in Cargo projects",
             has_cargo ? "rustc" : "cargo");
    else if (!rust_can_read())
        tell(WARN,
             "Rust: %s, %s; piano-rust is not built, so `piano build` does not work in Cargo "
             "projects: rm build/lib/piano-rust.made && make, in piano's own directory",
             safe, safe_rustc);
    else
        tell(GOOD, "Rust: %s, %s and piano-rust", safe, safe_rustc);
}

/* Checks symbol look-up: names, inlined functions and lines of programs that piano did not
 * build. */
static void check_symbols(void)
{
    static const struct package package = {"libdebuginfod1(t64)?", "elfutils-debuginfod-client",
                                           "debuginfod"};
    char safe[200], advice[200];
    const char *urls = getenv("DEBUGINFOD_URLS");
    tell(GOOD, "libdw: %s", say_safe(safe, sizeof(safe), dwfl_version(NULL)));
    if (!urls || !*urls)
        return;
    void *library = dlopen("libdebuginfod.so.1", RTLD_LAZY);
    if (library)
        tell(GOOD, "debuginfod: %s", say_safe(safe, sizeof(safe), urls));
    else
        tell(WARN,
             "debuginfod: DEBUGINFOD_URLS is set, but libdebuginfod is missing, so no debug "
             "information is fetched%s",
             packages_advice(advice, sizeof(advice), &package));
}

static void check_library(const char *dir, const char *name)
{
    char *path = dir ? paths_join(dir, name) : NULL;
    if (path && access(path, R_OK) == 0)
        tell(GOOD, "%s: %s", name, path);
    else
        tell(BAD, "%s: not found beside the tool (make, or make install)", name);
    free(path);
}

/* Runs `true` with libpiano.so preloaded and a recording requested in DIR. Does it leave one? */
static bool leaves_recording(const char *lib, const char *dir)
{
    char preload[PATH_MAX], record[PATH_MAX], file[PATH_MAX];
    char heap[] = "PIANO_HEAP=1", children[] = "PIANO_CHILDREN=1", program[] = "true";
    char *set[] = {preload, record, heap, children, NULL};
    char *argv[] = {program, NULL};
    struct child_result result;
    snprintf(preload, sizeof(preload), "LD_PRELOAD=%s/libpiano.so", lib);
    snprintf(record, sizeof(record), "PIANO_RECORD=%s/rec", dir);
    char **env = child_env(set);
    struct child_plan plan = {.argv = argv, .envp = env, .in = -1, .out = -1, .err = -1};
    bool ran = env && child_run(&plan, &result) == 0 && result.status == 0;
    free(env);
    if (!ran)
        return false;
    snprintf(file, sizeof(file), "%s/rec-%d", dir, (int)result.pid);
    return unlink(file) == 0;
}

static void check_preload(const char *lib)
{
    char dir[] = "/tmp/piano-doctor-XXXXXX";
    char *plain = lib ? preload_dir(lib) : NULL;
    if (!plain || !mkdtemp(dir)) {
        free(plain);
        return;
    }
    if (leaves_recording(plain, dir))
        tell(GOOD, "recording: libpiano.so can be loaded into other programs");
    else
        tell(WARN, "recording: `true` left no recording with libpiano.so preloaded (is LD_PRELOAD "
                   "forbidden here?)");
    rmdir(dir);
    free(plain);
}

/* Reads the first line of a small file in /proc or /sys; empty when it cannot be read. */
static void read_small(const char *path, char *text, size_t size)
{
    FILE *f = fopen(path, "re");
    text[0] = '\0';
    if (f) {
        if (!fgets(text, (int)size, f))
            text[0] = '\0';
        fclose(f);
    }
    text[strcspn(text, "\n")] = '\0';
}

static bool cpu_has(const char *flag)
{
    char line[8192], padded[64];
    FILE *f = fopen("/proc/cpuinfo", "re");
    bool found = false;
    snprintf(padded, sizeof(padded), " %s", flag);
    while (f && !found && fgets(line, sizeof(line), f))
        found = strncmp(line, "flags", 5) == 0 && strstr(line, padded);
    if (f)
        fclose(f);
    return found;
}

static void check_clock(void)
{
    char source[64], safe[64];
    bool steady = cpu_has("constant_tsc") && cpu_has("nonstop_tsc");
    read_small("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
               sizeof(source));
    say_safe(safe, sizeof(safe), *source ? source : "unknown");
    if (steady)
        tell(GOOD, "clock: invariant TSC (kernel clock source: %s)", safe);
    else
        tell(WARN,
             "clock: no invariant TSC, so CLOCK_MONOTONIC is used: each measured call costs "
             "more (kernel clock source: %s)",
             safe);
}

/* Are the timers available that replace perf if it is refused? */
static bool have_timers(void)
{
    timer_t timer;
    struct sigevent none = {.sigev_notify = SIGEV_NONE};
    bool good = timer_create(CLOCK_THREAD_CPUTIME_ID, &none, &timer) == 0;
    if (good)
        timer_delete(timer);
    return good;
}

/* Tries what `piano record --cpu` would do. */
static void check_perf(void)
{
    enum { USUAL_HZ = 99 };
    const char *hint;
    struct perf_wish wish = {.hz = USUAL_HZ, .kernel_chain = true};
    int err = perf_probe(&wish);
    if (err != 0) {
        const char *why = perf_why(err, &hint);
        tell(WARN, "perf events: %s, so `piano record` takes CPU samples %s%s%s", why,
             have_timers() ? "by timers in the program, without waits, and of no process that runs "
                             "already"
                           : "not at all: there are no CPU-time timers either",
             hint ? "; try: " : "", hint ? hint : "");
        return;
    }
    const char *source = wish.source == PIANO_CPU_CYCLES
                             ? "hardware cycles"
                             : "cpu-clock (no hardware cycles can be counted here)";
    if (wish.without_kernel)
        tell(WARN,
             "perf events: CPU samples by %s, without the kernel's part and without the stacks of "
             "threads that wait (perf_event_paranoid is %d); try: " PERF_CURE,
             source, perf_paranoid());
    else
        tell(wish.without_switches ? WARN : GOOD, "perf events: CPU samples by %s%s%s", source,
             wish.without_switches ? ", without the stacks of threads that wait" : "",
             wish.by_cpu ? ""
                         : ", without the stacks of threads that are shorter than the time between "
                           "two samples (perf_event_paranoid above 0)");
}

static void tell_no_runs_dir(void)
{
    char text[PATH_MAX + 128], hint[PATH_MAX + 256];
    paths_failure(text, sizeof(text), hint, sizeof(hint));
    tell(BAD, "runs directory: %s", text);
}

static void check_runs_dir(void)
{
    char *dir = paths_runs_dir(), room[UNITS_LEN];
    struct statvfs fs;
    char *at = dir ? strdup(dir) : NULL;
    while (at && access(at, F_OK) != 0 && strrchr(at, '/') && strrchr(at, '/') != at)
        *strrchr(at, '/') = '\0';
    if (!at)
        tell_no_runs_dir();
    else if (access(at, W_OK | X_OK) != 0)
        tell(BAD, "runs directory: %s cannot be written to: %s (set PIANO_RUNS_DIR)", at,
             strerror(errno));
    else
        tell(GOOD, "runs directory: %s%s", dir, strcmp(at, dir) ? " (made when needed)" : "");
    if (at && statvfs(at, &fs) == 0) {
        uint64_t bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
        tell(bytes > (uint64_t)512 << 20 ? GOOD : WARN, "disk: %s free for runs",
             units_bytes(room, (int64_t)bytes));
    }
    free(at);
    free(dir);
}

static int doctor(void *request)
{
    (void)request;
    char *lib = paths_lib_dir();
    check_compilers();
    check_libclang();
    check_rust();
    check_symbols();
    check_library(lib, "libpiano.so");
    check_library(lib, "libpiano_exec.so");
    check_preload(lib);
    check_clock();
    check_perf();
    check_runs_dir();
    free(lib);
    return worst == BAD ? EXIT_FAILED : EXIT_DONE;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "check that this machine has what piano needs",
    .usage = "piano doctor",
    .about = "Checks that this machine has what piano needs: a compiler, libclang, libdw, piano's "
             "own libraries and whether programs can be recorded with them, a steady clock, perf "
             "events, a runs directory that can be written to and room for it. Exits 1 when "
             "something needed is missing.",
    .examples = "piano doctor",
    .words = {WORDS_LISTED, 0, NULL, 0, "`piano doctor` takes no arguments"},
    .run = doctor,
};
