/* A thread of another process, stopped with ptrace. One thread of the tool does all of this: the
 * kernel ties ptrace to it, and lets the stopped thread go if it ends. */
#ifndef PIANO_TOOL_ATTACH_REMOTE_H
#define PIANO_TOOL_ATTACH_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

enum { REMOTE_MOST_STATE = 24 * 1024 };

struct remote {
    pid_t pid, tid;
    struct user_regs_struct regs; /* when it was stopped */
    uint64_t mask;                /* its blocked signals */
    bool is_in_call;              /* it has stopped at a system call of ours */
    size_t state_size;            /* floating-point and vector registers */
    unsigned char state[REMOTE_MOST_STATE];
};

/* Stops thread TID. Returns 0 or negative errno: -ESRCH it has ended, -EPERM, -ETIMEDOUT. After
 * -ETIMEDOUT it is still traced until the calling thread ends. */
int remote_stop(struct remote *r, pid_t pid, pid_t tid);
/* Lets it continue, as it was when it was stopped. */
void remote_release(struct remote *r);

/* Reads all registers and blocks all signals of the thread, before the functions below. */
int remote_prepare(struct remote *r);
/* Restores them, and lets it continue. */
void remote_restore(struct remote *r);

uint64_t remote_pc(const struct remote *r);
uint64_t remote_sp(const struct remote *r);

/* What a system call needs: the address of an instruction for it, followed by a return, and of code
 * that ends a signal handler. BELOW is the lowest address that may be used of its stack. */
struct remote_calls {
    uint64_t instruction;
    uint64_t sigreturn;
    uint64_t below;
};

/* Makes a system call in the thread. Returns its result, or -ECANCELED if the thread did not come
 * back from it. */
int64_t remote_call(struct remote *r, const struct remote_calls *calls, long number,
                    const uint64_t arguments[6]);

/* Runs the code at START with ROOM in its register, until it makes the system call before MARK.
 * Returns 0 or negative errno: -ETIMEDOUT if it did not get there. Then it was let go, and the
 * signal frame above ROOM brings it back. */
int remote_run(struct remote *r, uint64_t start, uint64_t mark, uint64_t room, uint64_t stack);

/* Return whether all bytes were copied. */
bool remote_read(pid_t pid, uint64_t at, void *to, size_t size);
/* Copies pages from AT on, up to the first that is not mapped. Returns the number of bytes. */
size_t remote_read_some(pid_t pid, uint64_t at, void *to, size_t size);
bool remote_write(pid_t pid, uint64_t at, const void *from, size_t size);
/* Writes code, which is read-only for the process. The thread is stopped. */
bool remote_write_code(const struct remote *r, uint64_t at, const unsigned char *from, size_t size);

/* Builds the signal frame from which the kernel restores the thread. AT is where BYTES will be.
 * Returns its size; 0 if it is larger than SIZE. */
size_t remote_frame(const struct remote *r, uint64_t at, unsigned char *bytes, size_t size);

#endif
