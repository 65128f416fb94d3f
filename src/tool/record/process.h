/* Data about a process, from /proc. */
#ifndef PIANO_TOOL_RECORD_PROCESS_H
#define PIANO_TOOL_RECORD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Resident bytes; 0 when unknown. */
uint64_t process_resident(pid_t pid);
/* Bytes of private memory without a file, resident or swapped out; 0 when unknown. */
uint64_t process_anonymous(pid_t pid);

/* CPU time of all its threads, including those that have ended; 0 when unknown. */
uint64_t process_cpu_ns(pid_t pid);

/* Has it ended without being waited for? */
bool process_is_zombie(pid_t pid);

/* Does it ignore signal SIG? false when unknown. */
bool process_ignores(pid_t pid, int sig);

/* Its id inside its own namespace, which differs in a container. PID when unknown. */
pid_t process_own_pid(pid_t pid);

/* Its parent; 0 when unknown. */
pid_t process_parent(pid_t pid);

/* Opens the recording that the process has mapped for reading and writing; *PATH is malloc'd.
 * Returns the descriptor or negative errno: -ENOENT no recording, -ESRCH no such process, -EACCES
 * another user's process, -ENODATA the file was deleted, -EXDEV the path leads to another file. */
int process_open_recording(pid_t pid, char **path);

#endif
