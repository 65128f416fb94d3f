/* The files in which runtimes tell the names of their JIT code: where they are, and whether they
 * are of the process in question. */
#ifndef PIANO_TOOL_PROFILE_RUNTIME_FILES_H
#define PIANO_TOOL_PROFILE_RUNTIME_FILES_H

#include "tool/load/recording.h"
#include "tool/symbol/jit.h"

/* Adds the names of process PID of REC to NAMES and sorts them. Why a file was not used goes into
 * COMPLAINT, safe to print, which stays as it is otherwise. 0 or -ENOMEM. */
int runtime_files_read(const struct recording *rec, uint32_t pid, struct jit_names *names,
                       char *complaint, size_t size);

#endif
