/* SHA-256 (FIPS 180-4). */
#ifndef PIANO_TOOL_VIEW_SHA256_H
#define PIANO_TOOL_VIEW_SHA256_H

#include <stddef.h>

enum { SHA256_BYTES = 32 };

void sha256(unsigned char digest[SHA256_BYTES], const void *bytes, size_t len);

#endif
