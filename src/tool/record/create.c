/* Writes the header of a recording as the program would have written it, from the data in /proc. It
 * creates no chunks; they are added when needed. */
#include "tool/record/create.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/owner.h"
#include "common/recording.h"
#include "tool/record/process.h"
#include "tool/unwind/machine.h"
#include "tool/util/file.h"

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void read_command(pid_t pid, char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    int fd = file_open(path, O_RDONLY);
    ssize_t len = fd >= 0 ? read(fd, text, PIANO_REC_PATH - 1) : 0;
    text[len > 0 ? len : 0] = '\0';
    if (fd >= 0)
        close(fd);
}

static void fill(struct piano__rec_header *h, pid_t pid, uint64_t start_ns)
{
    char path[64];
    memcpy(h->magic, PIANO_REC_MAGIC, sizeof h->magic);
    h->version = PIANO_REC_VERSION;
    h->header_bytes = PIANO_REC_HEADER_BYTES;
    h->chunk_bytes = PIANO_REC_CHUNK_BYTES;
    h->machine = UNWIND_MACHINE;
    h->pid = (uint32_t)pid;
    h->parent = (uint32_t)process_parent(pid);
    h->state = h->flags & PIANO_REC_HAS_CPU ? PIANO_REC_ACTIVE : PIANO_REC_STARTING;
    h->start_mono_ns = start_ns;
    h->start_real_ns = read_clock(CLOCK_REALTIME) - (read_clock(CLOCK_MONOTONIC) - start_ns);
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    ssize_t len = readlink(path, h->program, PIANO_REC_PATH - 1);
    h->program[len > 0 ? len : 0] = '\0';
    read_command(pid, h->command);
}

int create_recording(const char *path, pid_t pid, uint64_t start_ns, uint64_t max_bytes,
                     uint32_t flags)
{
    struct piano__rec_header h = {.max_chunks = piano__rec_chunks_in(max_bytes), .flags = flags};
    int fd = piano__owner_create(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        return fd;
    fill(&h, pid, start_ns);
    int err = -posix_fallocate(fd, 0, PIANO_REC_HEADER_BYTES);
    if (err == 0 && pwrite(fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
        err = -EIO;
    close(fd);
    if (err != 0)
        unlink(path);
    return err;
}
