/* Files that root creates in another user's directory belong to that user.
 *
 * Otherwise `sudo piano record` would leave a `.piano` directory with mode 0700 that its user
 * cannot enter. The new owner is the owner of the directory. The group is SUDO_GID if SUDO_UID is
 * that owner, else the group of the directory. Nothing changes for processes that are not root, or
 * in directories that root owns.
 *
 * Ownership is never changed by path: the file is created relative to an open directory, and
 * fchown() is called on its descriptor. This also works inside a profiled program: no allocation,
 * no cancellation point, errno unchanged. */
#ifndef PIANO_COMMON_OWNER_H
#define PIANO_COMMON_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* open(PATH, FLAGS | O_CLOEXEC, MODE), then sets the owner. FLAGS must contain O_CREAT or
 * O_TMPFILE. An existing file keeps its owner, unless that is root and the file has no other hard
 * link. Returns a descriptor or a negative errno. */
int piano__owner_create(const char *path, int flags, mode_t mode);

/* The same for mkdir(PATH, 0700). Returns 0 or a negative errno. */
int piano__owner_mkdir(const char *path);

/* Finds the owner for a new entry of the directory DIR. Returns false if that is the process
 * itself. */
bool piano__owner_of(int dir, uid_t *uid, gid_t *gid);

/* Returns whether this process is root through `sudo` by user UID. */
bool piano__owner_asked(uid_t uid);

#endif
