/* The exec functions with a list of arguments, for libraries that interpose them: each makes an array
 * of the list and calls the variant that takes an array. They call no other function. */
#ifndef PIANO_COMMON_EXECL_H
#define PIANO_COMMON_EXECL_H

#include <alloca.h>
#include <stdarg.h>
#include <stddef.h>

/* Makes ARGV of FIRST and the list WORDS, and leaves WORDS after the NULL that ends it. */
#define PIANO_EXEC_GATHER(argv, first, words)                                                      \
    do {                                                                                           \
        size_t count = 1;                                                                          \
        va_start(words, first);                                                                    \
        while (va_arg(words, char *))                                                              \
            count++;                                                                               \
        va_end(words);                                                                             \
        (argv) = alloca((count + 1) * sizeof(char *));                                             \
        (argv)[0] = (char *)(size_t)(first);                                                       \
        va_start(words, first);                                                                    \
        for (size_t i = 1; i <= count; i++)                                                        \
            (argv)[i] = va_arg(words, char *);                                                     \
    } while (0)

/* Both macros end with a declaration, so that a semicolon follows them. */

/* Defines NAME, execl or execlp, as CALL, which uses `path` and `argv`. */
#define PIANO_EXEC_LIST(name, call)                                                                \
    int name(const char *path, const char *arg, ...)                                               \
    {                                                                                              \
        va_list words;                                                                             \
        char **argv;                                                                               \
        PIANO_EXEC_GATHER(argv, arg, words);                                                       \
        va_end(words);                                                                             \
        return call;                                                                               \
    }                                                                                              \
    _Static_assert(1, "")

/* Defines execle, whose list is followed by the environment. */
#define PIANO_EXEC_LIST_ENV(call)                                                                  \
    int execle(const char *path, const char *arg, ...)                                             \
    {                                                                                              \
        va_list words;                                                                             \
        char **argv;                                                                               \
        PIANO_EXEC_GATHER(argv, arg, words);                                                       \
        char *const *envp = va_arg(words, char *const *);                                          \
        va_end(words);                                                                             \
        return call;                                                                               \
    }                                                                                              \
    _Static_assert(1, "")

#endif
