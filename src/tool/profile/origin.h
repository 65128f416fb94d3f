/* Classifies the code of a frame: the allocator's, a standard library's, another package's, or the
 * user's own. The site of a stack is the innermost frame of its highest origin. */
#ifndef PIANO_TOOL_PROFILE_ORIGIN_H
#define PIANO_TOOL_PROFILE_ORIGIN_H

#include "tool/profile/profile.h"

/* In ascending order: the site is of the highest one in its stack. */
enum profile_origin {
    ORIGIN_PLUMBING, /* malloc, operator new, the C and C++ libraries */
    ORIGIN_WRAPPER,  /* passes the size on to malloc for its caller */
    ORIGIN_STANDARD, /* the standard library of Rust, Go or Python; headers of C++ */
    ORIGIN_LIBRARY,  /* modules of the system, packages of a registry, their headers */
    ORIGIN_OWN,
};

/* The origin of the source file FILE; ORIGIN_OWN if its directory is none that is known. */
enum profile_origin origin_of_file(const char *file);
/* The origin of a function by its name alone; ORIGIN_OWN if the name is none that is known. */
enum profile_origin origin_of_name(const struct symbol_frame *frame);
/* Whether PATH is in a directory that the packages of the system own. */
bool origin_is_system(const char *path);
/* Sets the `origin` of all frames of P. */
void origin_set_all(struct profile *p);

#endif
