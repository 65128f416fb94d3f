/* Opens and maps files for reading. Names come from directories that others may write to, so a name
 * may be a FIFO, which would block open(), or a device, which open() may change. */
#ifndef PIANO_TOOL_UTIL_FILE_H
#define PIANO_TOOL_UTIL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/* Opens the regular file PATH and never blocks. FLAGS: O_RDONLY, O_WRONLY or O_RDWR, and O_NOFOLLOW
 * for files that only piano creates. Returns a descriptor or a negative errno: -EINVAL if PATH is
 * not a regular file, -ELOOP if it is a symbolic link and FLAGS contain O_NOFOLLOW. */
int file_open(const char *path, int flags);

/* Does the file PATH with the status ST belong to neither this user nor, if this is root, the owner
 * of its directory? */
bool file_is_of_other(const char *path, const struct stat *st);

/* The bytes of a file. */
struct file_map {
    const char *data; /* NULL if the file is empty; not NUL-terminated */
    size_t len;
};

/* Maps the regular file PATH privately, for reading. Returns 0 or a negative errno. */
int file_map(struct file_map *m, const char *path);
/* Reads the regular file PATH, of at most MOST bytes, into memory aligned to pages. Unlike a map,
 * the bytes do not change if another process writes to the file. Returns 0 or a negative errno:
 * -EFBIG if the file is larger. */
int file_copy(struct file_map *m, const char *path, size_t most);
/* M may be empty. */
void file_unmap(struct file_map *m);

#endif
