/* Code objects of CPython, as the recording knows them. Any thread; in signal handlers too, with a room. */
#ifndef PIANO_TARGET_PYTHON_CODES_H
#define PIANO_TARGET_PYTHON_CODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/recording.h"
#include "target/python/layout.h"

enum {
    PIANO_PYTHON_NAME = 512, /* bytes of a name, at most */
    PIANO_PYTHON_FILE = 1024,
    PIANO_PYTHON_TABLE = 32 * 1024,
    PIANO_PYTHON_HEAD = 256, /* of a code object: all that is looked at */
    PIANO_PYTHON_PAGE = 4096,
    PIANO_PYTHON_PAGES = 4,
    PIANO_PYTHON_TEXTS = 64 * 1024,
    PIANO_PYTHON_OBJECT = 128, /* what comes before the characters of a `str`, at most */
};

/* Where things are copied to that may not be there, or not be what they should: the interpreter was interrupted at anything. Zero at
 * first. */
struct piano__python_room {
    struct piano__python_page {
        uintptr_t at; /* 0: none */
        size_t len;
        char bytes[PIANO_PYTHON_PAGE];
    } pages[PIANO_PYTHON_PAGES]; /* of frames */
    uint32_t next_page;
    /* Functions of the stack, whose code objects are looked at all together. */
    uint32_t count;
    struct piano__python_found {
        uintptr_t code, instruction;
        uint32_t place; /* in the stack */
        uint32_t number;
        uint32_t parts; /* in `to`, up to the last of its own; 0: none */
    } found[PIANO_MAX_FRAMES];
    char heads[PIANO_MAX_FRAMES][PIANO_PYTHON_HEAD];
    struct iovec to[PIANO_MAX_FRAMES], from[PIANO_MAX_FRAMES];
    char texts[PIANO_PYTHON_TEXTS]; /* what they refer to, of some of them */
    /* Of one object. */
    char name[PIANO_PYTHON_NAME + PIANO_PYTHON_OBJECT];
    char file[PIANO_PYTHON_FILE + PIANO_PYTHON_OBJECT];
    char table[PIANO_PYTHON_TABLE + PIANO_PYTHON_OBJECT];
};

/* The number of the code object at CODE: one that has the same text and table of lines. 0: it is none, or there is no room for
 * it. The object is one that the calling thread runs, in a call that the interpreter has made. */
uint32_t piano__python_number(const struct piano__python_layout *layout, uintptr_t code);
/* The same for all that ROOM has found, whatever they are. */
void piano__python_numbers(const struct piano__python_layout *layout,
                           struct piano__python_room *room);
/* What is recorded of it; NULL for numbers that were not given out. */
const struct piano__python_code *piano__python_record(uint32_t number);
/* The recording is another one, or none. */
void piano__python_forget(void);

#endif
