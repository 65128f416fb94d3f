/* A log under a lock. Reading the thread's name needs a system call. So it is read only when other
 * work is due: at a thread's first event, when its chunk is full, when it becomes a worker, and at
 * its end. */
#include "target/trace/threads.h"

#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/recording.h"
#include "target/sys/clock.h"
#include "target/sys/lock.h"
#include "target/sys/log.h"
#include "target/sys/recording.h"

static struct {
    struct piano__log log;
    uint32_t lock;
    uint64_t most_chunks;
} threads;

bool piano__threads_init(uint64_t max_bytes)
{
    /* However many threads there are, their log takes at most a quarter of what events may take. */
    threads.most_chunks = max_bytes / 4 / PIANO_REC_CHUNK_BYTES + 1;
    return piano__log_room(&threads.log, PIANO_CHUNK_THREADS, 0);
}

void piano__threads_forget(void)
{
    memset(&threads, 0, sizeof threads);
}

/* NAME must have the size of the field. */
static bool record_locked(const struct piano__events_self *self, const char *name)
{
    const uint32_t bytes = sizeof(struct piano__thread_record);
    const struct piano__chunk *c = threads.log.chunk;
    if (threads.log.chunks == threads.most_chunks && c && c->used + bytes > PIANO_REC_PAYLOAD)
        return false;
    struct piano__thread_record *record = piano__log_room(&threads.log, PIANO_CHUNK_THREADS, bytes);
    if (!record)
        return false;
    *record = (struct piano__thread_record){.bytes = bytes,
                                            .tid = self->tid,
                                            .pid = piano__recording.view.header->pid,
                                            .at_ns = (uint64_t)piano__monotonic_ns()};
    memcpy(record->name, name, sizeof record->name);
    piano__log_commit(&threads.log, bytes);
    return true;
}

void piano__threads_note(struct piano__events_self *self)
{
    char name[sizeof self->name] = "";
    prctl(PR_GET_NAME, name);
    name[sizeof name - 1] = '\0';
    bool is_new = self->tid == 0;
    if (!is_new && strcmp(name, self->name) == 0)
        return;
    if (is_new)
        self->tid = (uint32_t)syscall(SYS_gettid);
    if (!piano__lock_try(&threads.lock))
        return; /* retried at the next call */
    if (record_locked(self, name))
        memcpy(self->name, name, sizeof self->name);
    piano__lock_release(&threads.lock);
}
