/* Runs rustc and passes its messages on while it runs. */
#ifndef PIANO_TOOL_BUILD_RUST_STREAM_H
#define PIANO_TOOL_BUILD_RUST_STREAM_H

#include "tool/build/cc_run.h"

/* Runs ARGV. Lines of JSON go to stderr at once: cargo starts the next crate when it reads that the
 * metadata of this one is there. From the first error on, and if a line is not JSON, R keeps them. As
 * cc_run_step otherwise. */
int rust_stream_run(struct cc_run *r, char *const argv[]);

#endif
