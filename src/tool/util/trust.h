/* Decides which project directories piano uses, by their owner. A build file runs commands, and so
 * does the state of an earlier build, so another user's must not be used just because it lies at or
 * above the working directory. git has the same rule (safe.directory). */
#ifndef PIANO_TOOL_UTIL_TRUST_H
#define PIANO_TOOL_UTIL_TRUST_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A file or directory of a user who is not trusted. */
struct trust_foreign {
    char path[PATH_MAX]; /* empty: none */
    char dir[PATH_MAX];  /* the project that it would make */
    uid_t uid;
};

/* Does NAME in DIR, or DIR itself if NAME is empty, belong to this user, to root, or to the user
 * who called sudo? True also if it does not exist, or if PIANO_SAFE_DIRECTORIES names DIR. Otherwise
 * fills F. Of a symbolic link, both the link and its target count. */
bool trust_has(const char *dir, const char *name, struct trust_foreign *f);

/* Does NAME in DIR belong to the owner of DIR? */
bool trust_is_of_owner(const char *dir, const char *name);

/* Writes whose F is to TEXT, and what to do about it to HINT. */
void trust_describe(const struct trust_foreign *f, char *text, size_t size, char *hint,
                    size_t hint_size);

#endif
