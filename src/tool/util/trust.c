/* Decides which project directories piano uses, by their owner; see trust.h. */
#include "tool/util/trust.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/owner.h"
#include "tool/util/paths.h"
#include "tool/util/say.h"

static bool is_trusted(uid_t uid)
{
    return uid == geteuid() || uid == 0 || piano__owner_asked(uid);
}

/* PIANO_SAFE_DIRECTORIES: directories separated by colons; `*` stands for all. */
static bool is_listed(const char *dir)
{
    const char *list = getenv("PIANO_SAFE_DIRECTORIES");
    for (const char *item = list; item && *item;) {
        size_t len = strcspn(item, ":");
        size_t used = len;
        while (used > 1 && item[used - 1] == '/')
            used--;
        if ((used == 1 && item[0] == '*') || (used == strlen(dir) && strncmp(item, dir, used) == 0))
            return true;
        item += len + (item[len] == ':');
    }
    return false;
}

/* Sets *UID to the first owner of PATH that is not trusted. */
static bool has_foreign_owner(const char *path, uid_t *uid)
{
    struct stat st;
    bool foreign = lstat(path, &st) == 0 && !is_trusted(st.st_uid);
    if (!foreign)
        foreign = stat(path, &st) == 0 && !is_trusted(st.st_uid);
    *uid = foreign ? st.st_uid : 0;
    return foreign;
}

bool trust_has(const char *dir, const char *name, struct trust_foreign *f)
{
    uid_t uid;
    char *path = paths_join(dir, name);
    bool foreign = !path || (has_foreign_owner(path, &uid) && !is_listed(dir));
    if (path && foreign) {
        f->uid = uid;
        snprintf(f->path, sizeof f->path, "%s", path);
        snprintf(f->dir, sizeof f->dir, "%s", dir);
    }
    free(path);
    return !foreign;
}

bool trust_is_of_owner(const char *dir, const char *name)
{
    struct stat above, st, target;
    char *path = paths_join(dir, name);
    bool same = path && stat(dir, &above) == 0 && lstat(path, &st) == 0 &&
                stat(path, &target) == 0 && st.st_uid == above.st_uid &&
                target.st_uid == above.st_uid;
    free(path);
    return same;
}

void trust_describe(const struct trust_foreign *f, char *text, size_t size, char *hint,
                    size_t hint_size)
{
    char path[PATH_MAX], dir[PATH_MAX], owner[64], safe[64];
    const struct passwd *user = getpwuid(f->uid);
    if (user)
        snprintf(owner, sizeof owner, "%s", user->pw_name);
    else
        snprintf(owner, sizeof owner, "user %u", (unsigned)f->uid);
    say_safe(safe, sizeof safe, owner);
    snprintf(text, size, "%s belongs to %s, so piano does not use the project there",
             say_safe(path, sizeof path, f->path), safe);
    snprintf(hint, hint_size,
             "mkdir .piano, if the working directory is a project of its own; or, if you trust %s: "
             "PIANO_SAFE_DIRECTORIES=%s",
             safe, say_safe(dir, sizeof dir, f->dir));
}
