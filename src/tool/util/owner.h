/* Gives files that root created in another user's project to that user. Tells a user without access
 * to files of another user which command gives them back. See also common/owner.h. */
#ifndef PIANO_TOOL_UTIL_OWNER_H
#define PIANO_TOOL_UTIL_OWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Files created from this moment on are ours. */
struct statx_timestamp owner_now(void);

/* Gives all files and directories at and below PATH that were created since SINCE, belong to root
 * and have a single hard link, to the owner of the directory that contains PATH. Meant for the
 * output of compilers and build systems. Does nothing unless we are root. */
void owner_give_tree(const char *path, struct statx_timestamp since);

/* Returns the hint for error ERR (negative errno) at PATH. If the cause is a file or directory of
 * another user at or above PATH, inside a directory of ours, the hint is the command that fixes it,
 * `sudo chown -R USER: FILE`, written to ROOM. Otherwise returns USUAL, which may be NULL. */
const char *owner_hint(char *room, size_t size, const char *path, int err, const char *usual);

#endif
