/* mirror.c and stale.c: which files are copied, kept, left out and removed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tool/build/mirror.h"
#include "temp.h"

struct place {
    char dir[64];
    char root[96];
    char tree[160];
    char manifest[160];
    struct mirror mirror;
    struct mirror_result result;
};

static const char *path_of(const char *dir, const char *rel)
{
    static char path[8][512];
    static int at;
    at = (at + 1) % 8;
    snprintf(path[at], sizeof path[at], "%s/%s", dir, rel);
    return path[at];
}

static void put(const char *path, const void *data, size_t len, long mtime)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    close(fd);
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = mtime, .tv_nsec = 7}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void put_text(const char *path, const char *text, long mtime)
{
    put(path, text, strlen(text), mtime);
}

static const char *text_of(const char *path)
{
    static char text[4096];
    int fd = open(path, O_RDONLY);
    ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = '\0';
    return len < 0 ? NULL : text;
}

static bool there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static int set_up(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    temp_name(p->dir, sizeof p->dir, "piano-mirror-XXXXXX");
    if (!p || !mkdtemp(p->dir))
        return -1;
    snprintf(p->root, sizeof p->root, "%s/game", p->dir);
    snprintf(p->tree, sizeof p->tree, "%s/.piano/build/tree/game", p->root);
    snprintf(p->manifest, sizeof p->manifest, "%s/.piano/build/tree.manifest", p->root);
    p->mirror = (struct mirror){.root = p->root, .tree = p->tree, .manifest = p->manifest};
    mkdir(p->root, 0755);
    mkdir(path_of(p->root, "src"), 0755);
    put_text(path_of(p->root, "src/a.c"), "int a;\n", 1000);
    *state = p;
    return 0;
}

static int tear_down(void **state)
{
    struct place *p = *state;
    int err = mirror_remove(p->dir);
    free(p);
    return err;
}

static void sync_tree(struct place *p)
{
    int err = mirror_sync(&p->mirror, &p->result);
    free(p->result.failed);
    p->result.failed = NULL;
    assert_int_equal(err, 0);
}

static void test_copies_keep_time_and_mode(void **state)
{
    struct place *p = *state;
    struct stat st;
    chmod(path_of(p->root, "src/a.c"), 0750);
    sync_tree(p);
    assert_int_equal(stat(path_of(p->tree, "src/a.c"), &st), 0);
    assert_int_equal(st.st_mtim.tv_sec, 1000);
    assert_int_equal(st.st_mtim.tv_nsec, 7);
    assert_int_equal(st.st_mode & 0777, 0750);
    assert_int_equal(p->result.copied, 1);
    sync_tree(p);
    assert_int_equal(p->result.copied, 0);
}

static void test_changed_files_are_copied_and_removed_ones_deleted(void **state)
{
    struct place *p = *state;
    mkdir(path_of(p->root, "old"), 0755);
    put_text(path_of(p->root, "old/b.c"), "int b;\n", 1000);
    sync_tree(p);
    put_text(path_of(p->root, "src/a.c"), "int a2;\n", 2000);
    unlink(path_of(p->root, "old/b.c"));
    rmdir(path_of(p->root, "old"));
    sync_tree(p);
    assert_int_equal(p->result.copied, 1);
    assert_int_equal(p->result.removed, 1);
    assert_string_equal(text_of(path_of(p->tree, "src/a.c")), "int a2;\n");
    assert_false(there(path_of(p->tree, "old")));
}

static void test_files_of_the_build_stay(void **state)
{
    struct place *p = *state;
    put_text(path_of(p->root, "gen.h"), "old\n", 1000);
    sync_tree(p);
    put_text(path_of(p->tree, "src/a.o"), "object", 3000);
    put_text(path_of(p->tree, "gen.h"), "made by the build\n", 3000);
    sync_tree(p);
    assert_true(there(path_of(p->tree, "src/a.o")));
    assert_string_equal(text_of(path_of(p->tree, "gen.h")), "made by the build\n");
}

static void put_elf(const char *path, int type, long mtime)
{
    Elf64_Ehdr head = {.e_type = (Elf64_Half)type};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    put(path, &head, sizeof head, mtime);
}

static void test_products_of_builds_are_not_copied(void **state)
{
    struct place *p = *state;
    put_elf(path_of(p->root, "src/a.o"), ET_REL, 2000);
    put_elf(path_of(p->root, "game"), ET_DYN, 2000);
    put_elf(path_of(p->root, "libnew.so"), ET_DYN, 2000);
    put_elf(path_of(p->root, "libvendor.so.1"), ET_DYN, 500);
    put_text(path_of(p->root, "liba.a"), "!<arch>\nxxxxxxxx", 2000);
    put_text(path_of(p->root, "a.lo"), "# a.lo - a libtool object file\n", 2000);
    put_text(path_of(p->root, "script"), "#!/bin/sh\n", 2000);
    mkdir(path_of(p->root, "build"), 0755);
    put_text(path_of(p->root, "build/CMakeCache.txt"), "", 2000);
    mkdir(path_of(p->root, ".git"), 0755);
    sync_tree(p);
    assert_false(there(path_of(p->tree, "src/a.o")));
    assert_false(there(path_of(p->tree, "game")));
    assert_false(there(path_of(p->tree, "libnew.so"))); /* newer than every source */
    assert_true(there(path_of(p->tree, "libvendor.so.1")));
    assert_false(there(path_of(p->tree, "liba.a")));
    assert_false(there(path_of(p->tree, "a.lo")));
    assert_false(there(path_of(p->tree, "build")));
    assert_false(there(path_of(p->tree, ".git")));
    assert_false(there(path_of(p->tree, ".piano")));
    assert_true(there(path_of(p->tree, "script")));
}

static void test_links_inside_stay_links_and_links_outside_are_copied(void **state)
{
    struct place *p = *state;
    char target[512];
    put_text(path_of(p->dir, "outside.h"), "outside\n", 1000);
    assert_int_equal(symlink("a.c", path_of(p->root, "src/inside.c")), 0);
    assert_int_equal(symlink("../../outside.h", path_of(p->root, "src/outside.h")), 0);
    assert_int_equal(symlink(path_of(p->root, "src"), path_of(p->root, "abs")), 0);
    sync_tree(p);
    ssize_t len = readlink(path_of(p->tree, "src/inside.c"), target, sizeof target - 1);
    target[len > 0 ? len : 0] = '\0';
    assert_string_equal(target, "a.c");
    assert_string_equal(text_of(path_of(p->tree, "src/outside.h")), "outside\n");
    len = readlink(path_of(p->tree, "abs"), target, sizeof target - 1);
    target[len > 0 ? len : 0] = '\0';
    assert_string_equal(target, path_of(p->tree, "src"));
    /* and files beside the root are found from the copy */
    assert_string_equal(text_of(path_of(p->tree, "../outside.h")), "outside\n");
}

static void test_relocates_generated_makefiles(void **state)
{
    struct place *p = *state;
    char text[512], want[512];
    snprintf(text, sizeof text, "top = %s\nsrc = %s/src\nother = %s-2\n", p->root, p->root,
             p->root);
    snprintf(want, sizeof want, "top = %s\nsrc = %s/src\nother = %s-2\n", p->tree, p->tree,
             p->root);
    put_text(path_of(p->root, "Makefile"), text, 1000);
    sync_tree(p);
    assert_string_equal(text_of(path_of(p->tree, "Makefile")), want);
}

static void test_file_becomes_directory(void **state)
{
    struct place *p = *state;
    put_text(path_of(p->root, "x"), "file\n", 1000);
    sync_tree(p);
    unlink(path_of(p->root, "x"));
    mkdir(path_of(p->root, "x"), 0755);
    put_text(path_of(p->root, "x/y"), "deep\n", 1000);
    sync_tree(p);
    assert_string_equal(text_of(path_of(p->tree, "x/y")), "deep\n");
}

static void test_odd_names_and_read_only_files(void **state)
{
    struct place *p = *state;
    const char *odd = path_of(p->root, "a b\n\"$(x)'.c");
    put_text(odd, "1\n", 1000);
    chmod(odd, 0444);
    sync_tree(p);
    unlink(odd);
    put_text(odd, "2\n", 2000);
    chmod(odd, 0444);
    sync_tree(p);
    assert_int_equal(p->result.copied, 1);
    assert_string_equal(text_of(path_of(p->tree, "a b\n\"$(x)'.c")), "2\n");
}

static void test_paths_of_the_project_map_into_the_mirror(void **state)
{
    struct place *p = *state;
    char *inside = mirror_map(&p->mirror, path_of(p->root, "src"));
    char *outside = mirror_map(&p->mirror, "/usr/include");
    char *relative = mirror_map(&p->mirror, "src/a.c");
    assert_string_equal(inside, path_of(p->tree, "src"));
    assert_string_equal(outside, "/usr/include");
    assert_string_equal(relative, "src/a.c");
    free(inside);
    free(outside);
    free(relative);
}

static void test_only_whole_path_components_are_replaced(void **state)
{
    (void)state;
    static const char text[] = "-I/p/game/inc -I/p/games /p/game";
    size_t len = sizeof text - 1;
    char *out = mirror_replace(text, &len, "/p/game", "/m");
    assert_string_equal(out, "-I/m/inc -I/p/games /m");
    assert_int_equal(len, strlen(out));
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_copies_keep_time_and_mode, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_changed_files_are_copied_and_removed_ones_deleted,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_of_the_build_stay, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_products_of_builds_are_not_copied, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_links_inside_stay_links_and_links_outside_are_copied,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_relocates_generated_makefiles, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_file_becomes_directory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_odd_names_and_read_only_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_paths_of_the_project_map_into_the_mirror, set_up,
                                        tear_down),
        cmocka_unit_test(test_only_whole_path_components_are_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
