/* Bytes as text. */
#ifndef PIANO_TOOL_VIEW_BASE64_H
#define PIANO_TOOL_VIEW_BASE64_H

#include <stddef.h>

/* Characters for LEN bytes, padding included. */
size_t base64_length(size_t len);
/* LEN bytes into OUT of `base64_length`, not terminated. */
void base64_encode(char *out, const void *bytes, size_t len);

#endif
