/* Files and memory from inside somebody else's process: thin, errno left as it was, negative errno
 * returned, nothing allocated, and no cancellation point: the C library's open, read, write and close may end the
 * calling thread, who holds who knows what, so the kernel is called directly. */
#ifndef PIANO_TARGET_SYS_FILE_H
#define PIANO_TARGET_SYS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct piano__file_id {
    dev_t device;
    ino_t inode;
};

/* Reads at most SIZE-1 bytes and ends them with a NUL; the length, or negative errno. */
int piano__file_read(const char *path, char *buf, size_t size);
/* Exclusive, 0600, no symlink followed, close-on-exec, appending when APPEND. */
int piano__file_create(const char *path, int append);
/* A file without a name, in FOLDER, and a name for it that nothing has yet: who dies in between leaves nothing behind. Not every file
 * system has the one, nor every process /proc for the other. */
int piano__file_unnamed(const char *folder);
int piano__file_give_name(int fd, const char *path);
/* An existing file, to append to; no symlink followed. */
int piano__file_append(const char *path);
struct piano__file_id piano__file_id(int fd);
void piano__file_close(int fd);
int piano__file_open(const char *path, int flags);
/* All of it or a negative errno. */
int piano__file_write(int fd, const char *data, size_t len);
/* The same descriptor, out of the range where the program expects its own; FD is closed. */
int piano__file_move_up(int fd);
/* Whether FD is still the file ID, and may grow by LEN without a signal: 0 or negative errno (-EBADF: it is another
 * file, or none). */
int piano__file_check(int fd, struct piano__file_id id, size_t len);
/* mkdir -p, 0700. */
int piano__file_make_dirs(const char *path);

/* Memory comes from the kernel directly too: the C library's names for it are hooked (preload/maps.c).
 *
 * Zeroed private memory; NULL when there is none. */
void *piano__memory_map(size_t size);
void piano__memory_unmap(void *at, size_t size);
/* The same addresses, fresh and private, whatever was there. */
bool piano__memory_renew(void *at, size_t size);
/* SIZE bytes of FD at OFFSET, their disk blocks reserved first so that a full disk is an error here and not
 * a SIGBUS later; NULL when that cannot be had. */
void *piano__memory_map_file(int fd, off_t offset, size_t size);
/* If not 0, taken for the size of a page. */
extern size_t piano__page_for_tests;
/* Zeroes into SIZE bytes at OFFSET, which have their blocks, are not beyond any limit, and are nobody else's. It may fail, and
 * they are zeroes as they were. */
void piano__file_fill(int fd, off_t offset, size_t size);

#endif
