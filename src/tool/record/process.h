/* What /proc says about a process. */
#ifndef PIANO_TOOL_RECORD_PROCESS_H
#define PIANO_TOOL_RECORD_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Resident bytes; 0 when not known. */
uint64_t process_resident(pid_t pid);

/* The CPU time of all its threads, those that have ended too; 0 when not known. */
uint64_t process_cpu_ns(pid_t pid);

/* Has it ended, though nobody has waited for it? */
bool process_is_zombie(pid_t pid);

/* Does it ignore signal SIG? false when that cannot be read. */
bool process_ignores(pid_t pid, int sig);

/* Its id as it sees it itself: another one inside a container. PID when that is not known. */
pid_t process_own_pid(pid_t pid);

/* Its parent; 0 when that is not known. */
pid_t process_parent(pid_t pid);

/* The recording it has mapped, opened for reading and writing, and its path, malloc'd. The descriptor or negative
 * errno: -ENOENT none, -ESRCH no such process, -EACCES somebody else's, -ENODATA the file was deleted,
 * -EXDEV its path leads to another file. */
int process_open_recording(pid_t pid, char **path);

#endif
