/* Shows the output of a build that failed or compiled nothing. */
#ifndef PIANO_TOOL_BUILD_BUILD_LOG_H
#define PIANO_TOOL_BUILD_BUILD_LOG_H

/* Prints the relevant part of the log on stderr: the first error and the end. Replaces the path
 * MIRROR, if not NULL, by ROOT. */
void build_log_show(const char *path, const char *mirror, const char *root);
/* Prints only the last lines. */
void build_log_show_end(const char *path, const char *mirror, const char *root);

#endif
