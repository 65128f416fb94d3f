/* Walks at every instruction: a function is single-stepped, and after each step the walk from the interrupted registers is
 * compared with libgcc's. That passes through prologues and epilogues, lazy PLT entries, the dynamic linker's lazy binding, and
 * libraries that are loaded and unloaded. The test compiles the libraries.
 *
 * not under thread: TSan has its own signal handlers, and every step of them would be a step
 * not under address: every step would be one of ASan's checks, and there are millions */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "emulated.h"
#include "target/unwind/walk.h"
#include "walks.h"
#include "temp.h"

static struct piano__walker walker;
static char folder[56];

/* Compiles SOURCE to a library with FLAGS; skips the test without a compiler. */
static void *library(const char *name, const char *source, const char *flags)
{
    char path[256], command[1024];
    snprintf(path, sizeof path, "%s/%s.c", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(source, file);
    fclose(file);
    snprintf(command, sizeof command, "${CC:-cc} -shared -fPIC -O2 %s -o %s/%s.so %s/%s.c", flags,
             folder, name, folder, name);
    int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        skip();
    assert_int_equal(status, 0);
    snprintf(path, sizeof path, "%s/%s.so", folder, name);
    void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    assert_non_null(handle);
    return handle;
}

static void *function(void *handle, const char *name)
{
    void *found = dlsym(handle, name);
    assert_non_null(found);
    return found;
}

static unsigned walks;

static FRAME void compare_here(void)
{
    struct piano__walk ours;
    struct other_walk theirs = {0};
    piano__walk_here(&walker, &ours);
    other_walk(&theirs);
    expect_same(&ours, 1, &theirs, 1);
    assert_int_equal(ours.flags, 0);
    walks++;
}

static const char nested_c[] =
    "static volatile int turns;\n"
    "__attribute__((noinline)) static int inner(void (*f)(void), int n)\n"
    "{ if (n) inner(f, n - 1); else f(); return ++turns; }\n"
    "int outer(void (*f)(void)) { return inner(f, 7) + 1; }\n";

#ifdef __x86_64__
#define PROTECTION "-fcf-protection"
#else
#define PROTECTION "-mbranch-protection=standard" /* return addresses are signed */
#endif

static void a_library_that_comes_and_goes(void **state)
{
    (void)state;
    static const char *const flags[] = {"-fomit-frame-pointer", "-fno-omit-frame-pointer",
                                        PROTECTION, "-Os"};
    for (unsigned i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "nested%u", i);
        void *handle = library(name, nested_c, flags[i]);
        int (*outer)(void (*)(void)) = (int (*)(void (*)(void)))function(handle, "outer");
        unsigned before = walks;
        assert_int_not_equal(outer(compare_here), 0);
        assert_int_equal(walks, before + 1);
        dlclose(handle); /* the next one is mapped in its place */
        piano__walk_forget();
    }
}

/* The resolver of an indirect function runs when it is first called, inside the dynamic linker, whose CFA is in rbx then. */
static const char lazy_c[] =
    "void (*hook)(void);\n"
    "static int real(int n) { return n + 1; }\n"
    "static void *pick(void) { hook(); __asm__ volatile(\"\"); return (void *)real; }\n"
    "int chosen(int) __attribute__((ifunc(\"pick\")));\n"
    "int start(int n) { int r = chosen(n); __asm__ volatile(\"\"); return r + chosen(n); }\n";

static void lazy_binding(void **state)
{
    (void)state;
#ifndef __x86_64__
    need(false, "on aarch64 the walk ends in the dynamic linker's resolver, as libgcc's does");
#endif
    void *handle = library("lazy", lazy_c, "-Wl,-z,lazy");
    void (**hook)(void) = function(handle, "hook");
    int (*start)(int) = (int (*)(int))function(handle, "start");
    unsigned before = walks;
    *hook = compare_here;
    assert_int_equal(start(1), 4);
    assert_true(walks > before);
    dlclose(handle);
    piano__walk_forget();
}

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100, MOST_STEPS = 20000 };

static unsigned steps, lost, unknown;

/* libgcc crashes on wrong call frame information, which glibc 2.35 has for an instruction or two
 * of qsort; piano's walker does not. Then there is nothing to compare. */
static sigjmp_buf survived;
static struct sigaction faults_before;

static void on_fault(int number)
{
    (void)number;
    siglongjmp(survived, 1);
}

/* libgcc ends at the interrupted frame when no FDE covers its instruction: __memset_chk of glibc 2.39 runs through padding into
 * memset. Ours follows frame pointers there, and reports that. */
static bool has_no_fde(const struct piano__walk *ours, const struct other_walk *theirs)
{
    return ours->flags & (PIANO_STACK_BY_FP | PIANO_STACK_LOST) && theirs->depth > 0 &&
           theirs->pcs[theirs->depth - 1] == ours->pcs[0];
}

/* The stepping ends here. */
static FRAME void flag_off(void)
{
    __asm__ volatile("");
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)info;
    static struct piano__walk ours;
    static struct other_walk theirs;
    struct piano__regs regs;
    ucontext_t *interrupted = context;
    piano__regs_of_signal(&regs, context);
    piano__walk_from(&walker, &regs, &ours);
    if (sigsetjmp(survived, 1) == 0) {
        other_walk(&theirs);
        if (has_no_fde(&ours, &theirs)) {
            unknown++;
        } else {
            expect_tail(&ours, &theirs);
            lost += ours.flags != 0;
        }
    } else {
        unknown++;
    }
    if (++steps == MOST_STEPS || regs.pc == (uintptr_t)flag_off)
        interrupted->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

static void start_stepping(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
    struct sigaction fault = {.sa_handler = on_fault};
    sigemptyset(&fault.sa_mask);
    assert_int_equal(sigaction(SIGSEGV, &fault, &faults_before), 0);
    steps = lost = unknown = 0;
}

static FRAME void flag_on(void)
{
    __asm__ volatile("pushf; orq $0x100, (%%rsp); popf" ::: "cc", "memory");
}

/* When a function that realigns its stack has popped rbp, gcc 12 still says it is in memory. That only harms callers whose CFA is
 * in rbp, so no such one calls it here: libgcc would not survive it. */
static const char shapes_c[] =
    "#include <alloca.h>\n#include <string.h>\n#include <stdlib.h>\n"
    "static volatile int turns;\n"
    "static int compare(const void *a, const void *b) { return *(int *)a - *(int *)b; }\n"
    "__attribute__((noinline)) static int leaf(int n) { return n * 3 + turns; }\n"
    "__attribute__((noinline)) static int aligned(int n)\n"
    "{ _Alignas(64) char room[128]; char *more = alloca(n); memset(room, n, 128); memset(more, 1, "
    "n);\n"
    "  __asm__ volatile(\"\" :: \"r\"(room), \"r\"(more) : \"memory\"); return leaf(room[5] + "
    "more[2]); }\n"
    "__attribute__((noinline)) static int variable(int n)\n"
    "{ char *room = alloca(n); memset(room, 1, n); __asm__ volatile(\"\" :: \"r\"(room) : "
    "\"memory\");\n"
    "  return leaf(room[1]); }\n"
    "__attribute__((noinline)) static int many(int a, int b, int c, int d, int e, int f, int g, "
    "int h)\n"
    "{ if (a == b) return leaf(c); int r = variable(a + 10) + ALIGNED(a + 10) + leaf(b) * c + "
    "leaf(d) * e; return r "
    "+ f * g + h; }\n"
    "int shapes(void) { int v[] = {3, 1, 2}; qsort(v, 3, sizeof *v, compare);\n"
    "  return many(v[0], v[1], v[2], 4, 5, 6, 7, 8) + atoi(\"12\"); }\n";

static void every_instruction(void **state)
{
    (void)state;
    static const char *const flags[] = {
        "-DALIGNED=aligned -Wl,-z,lazy", "-DALIGNED=leaf -Wl,-z,now -Os",
        "-DALIGNED=leaf -O0 -Wl,-z,lazy",
        "-DALIGNED=leaf -O3 -fno-omit-frame-pointer -fcf-protection -Wl,-z,lazy"};
    for (unsigned i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "shapes%u", i);
        void *handle = library(name, shapes_c, flags[i]);
        int (*shapes)(void) = (int (*)(void))function(handle, "shapes");
        start_stepping();
        flag_on();
        int result = shapes();
        flag_off();
        signal(SIGTRAP, SIG_DFL);
        sigaction(SIGSEGV, &faults_before, NULL);
        assert_int_equal(shapes(), result);
        print_message("# %u steps, %u not walked to the end, %u that libgcc cannot walk\n", steps,
                      lost, unknown);
        assert_true(unknown <= steps / 50);
        assert_true(steps > 300);
        assert_int_equal(lost, 0);
        dlclose(handle);
        piano__walk_forget();
    }
}
#endif

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(temp_name(folder, sizeof folder, "piano-steps-XXXXXX")) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_comes_and_goes),
        cmocka_unit_test(lazy_binding),
#ifdef __x86_64__
        cmocka_unit_test(every_instruction),
#endif
    };
    return cmocka_run_group_tests_name("unwind steps", tests, make_folder, remove_folder);
}
