/* The compiler wrapper: runs a compiler command of a build and instruments it. */
#ifndef PIANO_TOOL_BUILD_WRAP_H
#define PIANO_TOOL_BUILD_WRAP_H

/* ARGV[0] is the real compiler. PIANO_STATE names the state directory of the build; without it the
 * command runs unchanged. Returns the compiler's exit status, or does not return. */
int wrap_run(int argc, char **argv);

#endif
