/* Code objects of CPython, as the recording knows them. Any thread; in signal handlers too, with a room. */
#ifndef PIANO_TARGET_PYTHON_CODES_H
#define PIANO_TARGET_PYTHON_CODES_H

#include <stddef.h>
#include <stdint.h>

#include "common/recording.h"
#include "target/python/layout.h"

enum {
    PIANO_PYTHON_NAME = 512, /* bytes of a name, at most */
    PIANO_PYTHON_FILE = 1024,
    PIANO_PYTHON_TABLE = 32 * 1024,
    PIANO_PYTHON_HEAD = 256, /* of a code object: all that is looked at */
    PIANO_PYTHON_PAGE = 4096,
};

/* Where things are copied to that may not be there, or not be what they should: the interpreter was interrupted at anything. Zero at
 * first. */
struct piano__python_room {
    uintptr_t page_at; /* of the copy in `page`; 0: none */
    size_t page_len;
    char page[PIANO_PYTHON_PAGE];
    char code[PIANO_PYTHON_HEAD];
    char name[PIANO_PYTHON_NAME + 128];
    char file[PIANO_PYTHON_FILE + 128];
    char table[PIANO_PYTHON_TABLE + 128];
};

/* The number of the code object at CODE: one that has the same text and table of lines. 0: it is none, or there is no room for
 * it. Without a ROOM, the object is one that the calling thread runs, and is looked at where it is. */
uint32_t piano__python_number(const struct piano__python_layout *layout, uintptr_t code,
                              struct piano__python_room *room);
/* What is recorded of it; NULL for numbers that were not given out. */
const struct piano__python_code *piano__python_record(uint32_t number);
/* The recording is another one, or none. */
void piano__python_forget(void);

#endif
