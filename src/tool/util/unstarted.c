/* A program with a missing shared library ends with status 127 before its first instruction. A
 * program may also return this status itself. Its loader knows which of the two happened. This asks
 * it as ldd does, with LD_TRACE_LOADED_OBJECTS, which lists the libraries and starts nothing. The
 * reason is in the output. The loaders of glibc and musl use different words:
 *
 *   libtwice.so => not found
 *   ./a: error while loading shared libraries: libtwice.so: cannot open shared object file: ...
 *   Error loading shared library libtwice.so: No such file or directory (needed by ./a)
 *   ./a: symbol lookup error: ./a: undefined symbol: twice
 *   Error relocating ./a: twice: symbol not found */
#include "tool/util/unstarted.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/util/child.h"
#include "tool/util/image.h"
#include "tool/util/buf.h"
#include "tool/util/say.h"

enum { MAX_LISTED = 1 << 20 };

static bool is_musl(const char *loader)
{
    return strstr(loader, "/ld-musl");
}

/* Copies what LOADER prints about PATH to TEXT. */
static int ask_loader(const char *loader, const char *path, char *const *env, struct buf *text)
{
    char *words[] = {NULL, NULL, NULL, NULL};
    size_t count = 0;
    while (env[count])
        count++;
    char **with = calloc(count + 4, sizeof *with);
    int fd = memfd_create("piano-loader", MFD_CLOEXEC);
    int err = with && fd >= 0 ? 0 : -ENOMEM;
    static char trace[] = "LD_TRACE_LOADED_OBJECTS=1", now[] = "LD_BIND_NOW=1",
                warn[] = "LD_WARN=1";
    static char list[] = "--list"; /* musl ignores the variable and would run the program */
    words[1] = list;
    memcpy(&words[0], &loader, sizeof loader); /* posix_spawn does not write to them */
    memcpy(&words[is_musl(loader) ? 2 : 1], &path, sizeof path);
    if (err == 0) {
        memcpy(with, env, count * sizeof *with);
        with[count] = trace;
        with[count + 1] = now;  /* also resolves symbols */
        with[count + 2] = warn; /* and reports errors */
        struct child_plan plan = {
            .argv = words, .envp = with, .in = -1, .out = fd, .err = fd, .duration_s = 5};
        struct child_result result;
        err = child_run(&plan, &result);
    }
    off_t end = err == 0 ? lseek(fd, 0, SEEK_END) : 0;
    char *bytes = end > 0 && end < MAX_LISTED ? malloc((size_t)end) : NULL;
    if (bytes && pread(fd, bytes, (size_t)end, 0) == end)
        buf_put(text, bytes, (size_t)end);
    free(bytes);
    if (fd >= 0)
        close(fd);
    free(with);
    return err;
}

/* The library that LINE reports as missing, cut out in place; NULL when it reports something
 * else. */
static char *missing_library(char *line)
{
    static const char *const before[] = {"error while loading shared libraries: ",
                                         "Error loading shared library "};
    char *arrow = strstr(line, " => not found");
    if (arrow) {
        *arrow = '\0';
        return line + strspn(line, " \t");
    }
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        char *at = strstr(line, before[i]);
        if (at) {
            at += strlen(before[i]);
            at[strcspn(at, ":")] = '\0';
            return at;
        }
    }
    return NULL;
}

static bool is_complaint(const char *line)
{
    return strstr(line, "symbol lookup error") || strstr(line, "undefined symbol") ||
           strstr(line, "Error relocating") || strstr(line, "version `");
}

static void say_libraries(const char *name, const struct buf *names, size_t count)
{
    char safe[PATH_MAX];
    char safe_name[PATH_MAX];
    say_error("install what has it, or LD_LIBRARY_PATH=DIRECTORY",
              "%s did not start: the shared librar%s %s %s not found",
              say_safe(safe_name, sizeof safe_name, name), count == 1 ? "y" : "ies",
              say_safe(safe, sizeof safe, names->data ? names->data : "?"),
              count == 1 ? "was" : "were");
}

/* Parses the output of the loader and prints the reason. Returns whether there is one. */
static bool say_complaints(const char *name, char *text, bool with_musl)
{
    char safe[PATH_MAX];
    char safe_name[PATH_MAX];
    struct buf names = {0};
    const char *complaint = NULL;
    size_t count = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        if (!complaint && is_complaint(line))
            complaint = line;
        const char *library = missing_library(line);
        if (library && !(names.data && strstr(names.data, library)))
            buf_printf(&names, "%s%s", count++ ? ", " : "", library);
    }
    bool found = count > 0 || complaint;
    say_safe(safe_name, sizeof safe_name, name);
    if (complaint && with_musl && strstr(complaint, "libpiano.so"))
        say_error("a build of it with glibc; or piano record --cpu, which loads nothing",
                  "%s did not start: it is linked with musl, and libpiano.so with glibc",
                  safe_name);
    else if (count > 0)
        say_libraries(name, &names, count);
    else if (complaint)
        say_error("a version of that library that fits; ldd shows which one is loaded",
                  "%s did not start: %s", safe_name,
                  say_safe(safe, sizeof safe, complaint + strspn(complaint, " \t")));
    buf_free(&names);
    return found;
}

bool unstarted_say(const char *name, const char *path, char *const *env)
{
    char loader[PATH_MAX];
    struct buf text = {0};
    bool found = false;
    if (image_starter(path, loader, sizeof loader) == IMAGE_LOADER &&
        ask_loader(loader, path, env, &text) == 0 && text.len > 0) {
        buf_putc(&text, '\0');
        found = !text.failed && say_complaints(name, text.data, is_musl(loader));
    }
    buf_free(&text);
    return found;
}

int unstarted_say_exec(const char *path, int err)
{
    char starter[PATH_MAX] = "";
    char safe[PATH_MAX];
    char safe_starter[PATH_MAX];
    enum image_starter kind =
        err == -ENOENT ? image_starter(path, starter, sizeof starter) : IMAGE_ALONE;
    say_safe(safe, sizeof safe, path);
    say_safe(safe_starter, sizeof safe_starter, starter);
    if (kind == IMAGE_LOADER)
        return say_error("the package with that loader", "cannot start %s: its loader %s: %s", safe,
                         safe_starter, strerror(-err));
    if (kind == IMAGE_SCRIPT)
        return say_error("its first line", "cannot start %s: it is a script for %s: %s", safe,
                         safe_starter, strerror(-err));
    if (err == -EACCES)
        return say_error("ls -l; chmod +x if it is a program", "cannot start %s: %s", safe,
                         strerror(-err));
    return say_error(NULL, "cannot start %s: %s", safe, strerror(-err));
}
