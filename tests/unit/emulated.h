/* Features of Linux that qemu does not emulate for a program of another machine. A test that needs one checks it and is skipped:
 * tests/run prints the reason. A real kernel has all of them. */
#ifndef PIANO_TESTS_EMULATED_H
#define PIANO_TESTS_EMULATED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Skips the test that calls it, unless HAS. */
static inline void need(bool has, const char *what)
{
    if (has)
        return;
    printf("# skipped: %s\n", what);
    fflush(stdout);
    skip();
}

static inline __attribute__((unused)) void need_vm_readv(void)
{
    char from = 1, to = 0;
    struct iovec local = {&to, 1}, remote = {&from, 1};
    need(syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == 1,
         "there is no process_vm_readv here");
}

/* The kernel's code that a signal handler returns to. */
static inline __attribute__((unused)) void need_vdso(void)
{
    need(getauxval(AT_SYSINFO_EHDR) != 0, "there is no vdso here");
}

static inline __attribute__((unused)) void need_wipe_on_fork(void)
{
    int status = -1;
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(page != MAP_FAILED);
    bool can = madvise(page, 4096, MADV_WIPEONFORK) == 0;
    *page = 1;
    pid_t child = fork();
    if (child == 0)
        _exit(*page);
    assert_int_equal(waitpid(child, &status, 0), child);
    munmap(page, 4096);
    need(can && status == 0, "memory is not wiped in forked children here (MADV_WIPEONFORK)");
}

#endif
