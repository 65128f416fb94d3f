/* What root made in another user's project is given to that user, and a user who is locked out of files that belong to
 * somebody else is told how to get them back. See also common/owner.h. */
#ifndef PIANO_TOOL_UTIL_OWNER_H
#define PIANO_TOOL_UTIL_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* The moment from which on files were made by us. */
struct statx_timestamp owner_now(void);

/* Gives all files and directories in and below PATH that were created since SINCE, are root's and have one name, to the owner of the
 * directory that holds PATH. For what compilers and build systems wrote. Nothing unless we are root. */
void owner_give_tree(const char *path, struct statx_timestamp since);

/* The hint for an error ERR (negative errno) at PATH. When a file or directory of another user on the way to PATH is the cause, in a
 * directory of ours: the command that cures it, `sudo chown -R USER: FILE`, written to ROOM. Else USUAL, which may be NULL. */
const char *owner_hint(char *room, size_t size, const char *path, int err, const char *usual);

#endif
