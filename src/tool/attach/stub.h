/* The instructions that an attached process runs, see stub.c. */
#ifndef PIANO_TOOL_ATTACH_STUB_H
#define PIANO_TOOL_ATTACH_STUB_H

#include <stdint.h>

/* They may be copied anywhere, and take the address of their struct piano__attach_room in rbx
 * (x19). */
extern const unsigned char attach_stub[], attach_stub_thread[], attach_stub_mark[],
    attach_stub_end[];

#endif
