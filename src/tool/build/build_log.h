/* The build's own output, shown when it failed or compiled nothing. */
#ifndef PIANO_TOOL_BUILD_BUILD_LOG_H
#define PIANO_TOOL_BUILD_BUILD_LOG_H

/* Prints on stderr the part of the log that tells why: the first error and what stands at the end.
 * The path MIRROR, when not NULL, is turned into ROOT. */
void build_log_show(const char *path, const char *mirror, const char *root);
/* The last lines alone. */
void build_log_show_end(const char *path, const char *mirror, const char *root);

#endif
