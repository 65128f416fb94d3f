/* Compares the copy of the dynamic linker's list with dl_iterate_phdr while libraries are loaded and unloaded. Only old
 * versions of glibc need it, but it works with all.
 *
 * not under thread: a reader may read what is being written; it notices and reads again
 * not under aarch64: qemu has no process_vm_readv, with which the list is copied */
#include <setjmp.h>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>
#include <cmocka.h>

#include "target/unwind/loaded.h"

static int same(struct dl_phdr_info *info, size_t size, void *count)
{
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t at = info->dlpi_addr + h->p_vaddr;
        struct piano__loaded found;
        if (h->p_type == PT_LOAD) {
            assert_true(piano__loaded_find(at, &found));
            assert_true(piano__loaded_find(at + h->p_memsz - 1, &found));
            assert_int_equal(found.bias, info->dlpi_addr);
            assert_string_equal(found.name, info->dlpi_name);
            ++*(unsigned *)count;
        } else if (h->p_type == PT_GNU_EH_FRAME) {
            assert_true(piano__loaded_find(at, &found));
            assert_int_equal(found.eh_frame_hdr, at);
        }
    }
    return 0;
}

static void loaded_modules_match_dl_iterate_phdr(void **state)
{
    unsigned count = 0;
    struct piano__loaded found;
    (void)state;
    dl_iterate_phdr(same, &count);
    assert_true(count > 4);
    assert_false(piano__loaded_find(0, &found));
    assert_false(piano__loaded_find((uintptr_t)&count, &found));
}

static void a_library_that_comes_and_goes(void **state)
{
    struct piano__loaded found;
    (void)state;
    for (int i = 0; i < 3; i++) {
        void *handle = dlopen("libanl.so.1", RTLD_NOW);
        if (!handle)
            skip();
        uintptr_t at = (uintptr_t)dlsym(handle, "getaddrinfo_a");
        struct link_map *map;
        assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
        if (at == 0 || !strstr(map->l_name, "libanl"))
            skip();
        at = (uintptr_t)map->l_ld;
        assert_true(piano__loaded_find(at, &found));
        assert_non_null(strstr(found.name, "libanl"));
        dlclose(handle);
        piano__loaded_forget();
        assert_false(piano__loaded_find(at, &found) && strstr(found.name, "libanl"));
    }
}

static _Atomic bool stop;

static void *reads(void *unused)
{
    struct piano__loaded found;
    long wrong = 0;
    (void)unused;
    while (!stop)
        wrong += !piano__loaded_find((uintptr_t)&piano__loaded_find, &found) ||
                 found.start > (uintptr_t)&piano__loaded_find ||
                 found.end <= (uintptr_t)&piano__loaded_find;
    return (void *)wrong;
}

/* A reader that is overtaken repeatedly gives up. That must be rare, and never give a wrong answer. */
static void readers_beside_a_writer(void **state)
{
    pthread_t threads[3];
    void *wrong, *all = NULL;
    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reads, NULL), 0);
    for (int i = 0; i < 2000; i++)
        piano__loaded_forget();
    stop = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        all = (char *)all + (intptr_t)wrong;
    }
    assert_true((intptr_t)all < 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loaded_modules_match_dl_iterate_phdr),
        cmocka_unit_test(a_library_that_comes_and_goes),
        cmocka_unit_test(readers_beside_a_writer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
