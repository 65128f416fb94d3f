/* Base64 encoding. */
#ifndef PIANO_TOOL_VIEW_BASE64_H
#define PIANO_TOOL_VIEW_BASE64_H

#include <stddef.h>

/* Number of characters for LEN bytes, including padding. */
size_t base64_length(size_t len);
/* Encodes LEN bytes into OUT, which has `base64_length` characters. Not NUL-terminated. */
void base64_encode(char *out, const void *bytes, size_t len);

#endif
