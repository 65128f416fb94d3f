/* The instructions that an attached process runs (src/tool/attach/stub.c), and the reader of
 * filters. The instructions run in this process: with the C library's functions they open sockets
 * and a memory file and start the thread, and the thread executes its commands. tests/e2e/test_attach.py
 * tests the stopped thread that they restore through a signal frame. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/attach.h"
#include "tool/attach/filter.h"
#include "tool/attach/stub.h"

static struct piano__attach_room *room;

/* Copies the instructions to executable memory. */
static void *copy_code(void)
{
    char *code = mmap(NULL, PIANO_ATTACH_CODE + PIANO_ATTACH_DATA, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    memcpy(code, attach_stub, (size_t)(attach_stub_end - attach_stub));
    assert_int_equal(mprotect(code, PIANO_ATTACH_CODE, PROT_READ | PROT_EXEC), 0);
    __builtin___clear_cache(code, code + PIANO_ATTACH_CODE);
    room = (struct piano__attach_room *)(void *)(code + PIANO_ATTACH_CODE);
    return code;
}

static uint64_t address(void *function)
{
    return (uint64_t)(uintptr_t)function;
}

static void *entered(struct piano__attach_room *at)
{
    char word = 'e';
    assert_int_equal(send(at->sockets[0], &word, 1, 0), 1);
    close(at->sockets[0]);
    return NULL;
}

/* Starts the second piece of code like pthread_create. */
static pthread_t start_thread(char *code, int pair[2])
{
    pthread_t thread;
    void *(*start)(void *);
    void *at = code + (attach_stub_thread - attach_stub);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    *room = (struct piano__attach_room){
        .open = address((void *)dlopen),
        .find = address((void *)dlsym),
        .complain = address((void *)dlerror),
        .unmap = address((void *)munmap),
        .start = address(code),
        .size = PIANO_ATTACH_CODE + PIANO_ATTACH_DATA,
        .sockets = {pair[0], dup(pair[1])},
        .memory = -1,
        .mode = RTLD_NOW,
        .poll_fd = pair[0],
        .poll_events = POLLIN,
    };
    memcpy(&start, &at, sizeof start);
    assert_int_equal(pthread_create(&thread, NULL, start, room), 0);
    return thread;
}

static void the_thread_enters_a_library_that_is_loaded(void **state)
{
    int pair[2];
    char word = 0;
    (void)state;
    char *code = copy_code();
    pthread_t thread = start_thread(code, pair);
    room->entry = address((void *)entered);
    assert_int_equal(send(pair[1], "go", 2, 0), 2);
    assert_int_equal(recv(pair[1], &word, 1, 0), 1);
    assert_int_equal(word, 'e');
    pthread_join(thread, NULL);
    assert_int_equal(recv(pair[1], &word, 1, 0), 0); /* its copy of our socket is closed */
    close(pair[1]);
    munmap(code, PIANO_ATTACH_CODE + PIANO_ATTACH_DATA);
}

static void the_thread_sends_the_loaders_message_and_unmaps_its_memory(void **state)
{
    int pair[2];
    char error[PIANO_ATTACH_ERROR + 1] = "";
    unsigned char resident;
    (void)state;
    char *code = copy_code();
    pthread_t thread = start_thread(code, pair);
    strcpy(room->path, "/no/such/library.so");
    assert_int_equal(send(pair[1], "go", 2, 0), 2);
    assert_int_equal(recv(pair[1], error, sizeof error, 0), PIANO_ATTACH_ERROR);
    assert_non_null(strstr(error, "/no/such/library.so"));
    pthread_join(thread, NULL);
    assert_int_equal(mincore(code, 1, &resident), -1);
    close(pair[1]);
}

static void the_thread_ends_if_the_tool_is_gone(void **state)
{
    int pair[2];
    unsigned char resident;
    (void)state;
    char *code = copy_code();
    pthread_t thread = start_thread(code, pair);
    close(room->sockets[1]);
    close(pair[1]);
    pthread_join(thread, NULL);
    assert_int_equal(mincore(code, 1, &resident), -1);
}

static void the_pieces_follow_each_other(void **state)
{
    (void)state;
    assert_true(&attach_stub[0] < &attach_stub_mark[0]);
    assert_true(&attach_stub_mark[0] < &attach_stub_thread[0]);
    assert_true(&attach_stub_thread[0] < &attach_stub_end[0]);
    assert_true(attach_stub_end - attach_stub < 4096);
    assert_true(sizeof(struct piano__attach_room) + 16 <= 512); /* the signal frame begins there */
}

/* Filters -------------------------------------------------------------------------------------- */

static void a_filter_is_run_as_the_kernel_runs_it(void **state)
{
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 13),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const uint64_t plain[6] = {0, 1, PROT_READ}, with_code[6] = {0, 1, PROT_READ | PROT_EXEC};
    const size_t count = sizeof code / sizeof *code;
    (void)state;
    assert_int_equal(filter_run(code, count, SYS_close, plain), SECCOMP_RET_ALLOW);
    assert_int_equal(filter_run(code, count, SYS_mmap, plain), SECCOMP_RET_ALLOW);
    assert_int_equal(filter_run(code, count, SYS_mmap, with_code), SECCOMP_RET_ERRNO | 13);
}

static void a_filter_that_is_not_understood_refuses(void **state)
{
    const uint64_t none[6] = {0};
    const struct sock_filter far[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4096),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_filter endless[] = {BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX)};
    (void)state;
    assert_int_equal(filter_run(far, 2, SYS_close, none), SECCOMP_RET_KILL_PROCESS);
    assert_int_equal(filter_run(endless, 1, SYS_close, none), SECCOMP_RET_KILL_PROCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_thread_enters_a_library_that_is_loaded),
        cmocka_unit_test(the_thread_sends_the_loaders_message_and_unmaps_its_memory),
        cmocka_unit_test(the_thread_ends_if_the_tool_is_gone),
        cmocka_unit_test(the_pieces_follow_each_other),
        cmocka_unit_test(a_filter_is_run_as_the_kernel_runs_it),
        cmocka_unit_test(a_filter_that_is_not_understood_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
