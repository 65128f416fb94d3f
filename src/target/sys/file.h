/* Files and memory inside the profiled process. These functions keep errno, return a negative
 * errno and allocate nothing. They are no cancellation points: the C library's open, read, write
 * and close may terminate the calling thread while it holds a lock. So they call the kernel
 * directly. */
#ifndef PIANO_TARGET_SYS_FILE_H
#define PIANO_TARGET_SYS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct piano__file_id {
    dev_t device;
    ino_t inode;
};

/* Reads at most SIZE-1 bytes and ends them with a NUL. Returns the length or a negative errno. */
int piano__file_read(const char *path, char *buf, size_t size);
/* Creates a file: exclusive, 0600, no symlink followed, close-on-exec, appending if APPEND. */
int piano__file_create(const char *path, int append);
/* Create an unnamed file in FOLDER, and link it to an unused name. A process that is killed in
 * between leaves no file. Not every file system supports unnamed files, and linking needs /proc. */
int piano__file_unnamed(const char *folder);
int piano__file_give_name(int fd, const char *path);
/* Opens an existing file to append to; no symlink followed. */
int piano__file_append(const char *path);
struct piano__file_id piano__file_id(int fd);
void piano__file_close(int fd);
int piano__file_open(const char *path, int flags);
/* Writes everything, or returns a negative errno. */
int piano__file_write(int fd, const char *data, size_t len);
/* Moves FD out of the range that the program is likely to use. Closes FD and returns the new
 * descriptor, or FD on failure. */
int piano__file_move_up(int fd);
/* Checks that FD is still the file ID and may grow by LEN without a signal. Returns 0 or a negative
 * errno (-EBADF: another file, or none). */
int piano__file_check(int fd, struct piano__file_id id, size_t len);
/* mkdir -p, 0700. */
int piano__file_make_dirs(const char *path);

/* These call the kernel directly too, because the C library's functions are hooked
 * (preload/maps.c).
 *
 * Returns zeroed private memory, or NULL. */
void *piano__memory_map(size_t size);
void piano__memory_unmap(void *at, size_t size);
/* Replaces the mapping at AT by new private memory. */
bool piano__memory_renew(void *at, size_t size);
/* Maps SIZE bytes of FD at OFFSET. Reserves their disk blocks first, so that a full disk is an
 * error here and not a SIGBUS later. Returns NULL on failure. */
void *piano__memory_map_file(int fd, off_t offset, size_t size);
/* The kernel's page size: 4 KB; on some aarch64 kernels 16 or 64 KB. Signal-safe. */
size_t piano__page_size(void);
/* If not 0, used as the page size. */
extern size_t piano__page_for_tests;
/* Writes zeroes to SIZE bytes at OFFSET. Their blocks are reserved, no limit applies, and no other
 * thread uses them. They already are zeroes, so a failure has no effect. */
void piano__file_fill(int fd, off_t offset, size_t size);

#endif
