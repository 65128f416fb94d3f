/* Files that root makes in the directory of another user belong to that user.
 *
 * `sudo piano record` would otherwise leave a `.piano` with mode 0700 that its user cannot enter. The new owner is the owner
 * of the directory. The group is SUDO_GID when SUDO_UID names that owner, else the group of the directory. Processes that
 * are not root, and directories of root, change nothing.
 *
 * Nothing is given away by path: the file is created relative to an open directory, and its descriptor is changed. Works
 * inside a foreign program too: no allocation, no cancellation point, errno unchanged. */
#ifndef PIANO_COMMON_OWNER_H
#define PIANO_COMMON_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* open(PATH, FLAGS | O_CLOEXEC, MODE), and the file given to whom it should belong. FLAGS with O_CREAT or O_TMPFILE. A file
 * that existed keeps its owner, unless that is root and it has no other name. A descriptor or negative errno. */
int piano__owner_create(const char *path, int flags, mode_t mode);

/* mkdir(PATH, 0700) in the same way. 0 or negative errno. */
int piano__owner_mkdir(const char *path);

/* Whom a new entry of the directory DIR should belong to. False: to the process that makes it. */
bool piano__owner_of(int dir, uid_t *uid, gid_t *gid);

/* Whether root acts for the user UID, who typed `sudo`. */
bool piano__owner_asked(uid_t uid);

#endif
