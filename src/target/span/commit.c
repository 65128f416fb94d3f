/* Text buffer of a block: lines are committed to it and then written to the run file.
 *
 * At any moment the block contains a line or the tallies in it, never both: the store that commits
 * the line also marks these tallies as void (`clearing`). A reader of both the buffer and the run
 * file finds each line once (common/live.c). */
#include "target/span/commit.h"

#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/span/run.h"
#include "target/sys/clock.h"

static char *text_of(struct piano__thread *t)
{
    return (char *)(piano__entries(t) + PIANO_MAX_DEPTH);
}

/* CLAIMS. A thread claims its block while it changes its lines and while it writes them to the
 * file. At exit, the exiting thread takes the blocks of all others (take.c). After that they begin
 * nothing new, so each line is written by exactly one of the two. Returns false if the block has
 * been taken. */
static bool claim(struct piano__thread *t, uint32_t bit)
{
    /* Pairs with the OR in take.c, `take_blocks`: of the two, the later one sees the other's bit. */
    uint32_t claim = __atomic_load_n(&t->claim, __ATOMIC_RELAXED);
    while (!(claim & PIANO_CLAIM_TAKEN)) /* the CAS fails only when the block is being taken */
        if (__atomic_compare_exchange_n(&t->claim, &claim, claim | bit, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return true;
    return false;
}

static void give_up(struct piano__thread *t, uint32_t bit)
{
    /* Pairs with the acquire loads of `claim` in take.c: all changes made under it are visible. */
    __atomic_fetch_and(&t->claim, ~bit, __ATOMIC_RELEASE);
}

bool piano__commit_begin(struct piano__thread *t)
{
    return claim(t, PIANO_CLAIM_CHANGING);
}

void piano__commit_end(struct piano__thread *t)
{
    give_up(t, PIANO_CLAIM_CHANGING);
}

/* Blocks signals: a handler that jumps away or ends the program would leave the text both in the
 * file and in the block. After a kill, the reader detects this by `flush_at`. */
static void write_text(struct piano__thread *t)
{
    uint64_t all = UINT64_MAX, before = 0;
    bool blocked = syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all) == 0;
    if (t->text_len > 0 && claim(t, PIANO_CLAIM_WRITING)) {
        uint64_t size = __atomic_load_n(&piano__run.file_bytes, __ATOMIC_RELAXED);
        /* Rule 5: `flush_at` is read after a kill. `commit` pairs with the acquire in
         * common/live.c. */
        __atomic_store_n(&t->flush_at, size + 1, __ATOMIC_RELEASE);
        piano__run_write(text_of(t), t->text_len);
        __atomic_store_n(&t->commit, 0, __ATOMIC_RELEASE);
        __atomic_store_n(&t->flush_at, 0, __ATOMIC_RELEASE);
        give_up(t, PIANO_CLAIM_WRITING);
    }
    if (blocked)
        (void)syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

void piano__commit_flush(struct piano__thread *t, int64_t now)
{
    uintptr_t before = piano__hold(t);
    if (t->text_len > 0 && __atomic_load_n(&piano__run.state, __ATOMIC_RELAXED) == PIANO_RUN_ON) {
        int saved = errno;
        write_text(t);
        errno = saved;
        piano__run_sync(now);
    }
    t->last_flush = now;
    piano__let_go(t, before);
}

uint32_t piano__commit_line(struct piano__thread *t, piano__line_body *body, const void *what,
                            uint32_t clears, int64_t now)
{
    uint32_t room = piano__run.header->text_bytes;
    for (int try = 0; try < 2; try++) {
        char *start = text_of(t) + t->text_len;
        struct piano__text text = {start, text_of(t) + room, false};
        body(&text, t, what);
        if (!text.full) {
            uint32_t length = (uint32_t)(text.at - start);
            /* Pairs with the acquire of `commit` in common/live.c: the text is complete. */
            __atomic_store_n(&t->commit, (uint64_t)clears << 32 | (t->text_len + length),
                             __ATOMIC_RELEASE);
            return length;
        }
        piano__commit_flush(t, now);
    }
    piano__dropped_add(&piano__run.header->dropped.frames);
    return 0;
}
