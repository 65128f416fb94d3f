/* Numbers the code objects of CPython in the recording. Any thread; with a room, also in signal
 * handlers. */
#ifndef PIANO_TARGET_PYTHON_CODES_H
#define PIANO_TARGET_PYTHON_CODES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/recording.h"
#include "target/python/layout.h"

enum {
    PIANO_PYTHON_NAME = 512, /* largest length of a name in bytes */
    PIANO_PYTHON_FILE = 1024,
    PIANO_PYTHON_TABLE = 32 * 1024,
    PIANO_PYTHON_HEAD = 256, /* the bytes of a code object that are read */
    PIANO_PYTHON_PAGE = 4096,
    PIANO_PYTHON_PAGES = 4,
    PIANO_PYTHON_TEXTS = 64 * 1024,
    PIANO_PYTHON_OBJECT = 128, /* largest offset of the characters in a `str` */
};

/* Buffers for copies of objects that may be unmapped or corrupt, because the interpreter was
 * interrupted at any point. Initially zero. */
struct piano__python_room {
    struct piano__python_page {
        uintptr_t at; /* 0: none */
        size_t len;
        char bytes[PIANO_PYTHON_PAGE];
    } pages[PIANO_PYTHON_PAGES]; /* pages with frames */
    uint32_t next_page;
    /* Functions of the stack. Their code objects are read together. */
    uint32_t count;
    struct piano__python_found {
        uintptr_t code, instruction;
        uint32_t place; /* index in the stack */
        uint32_t number;
        uint32_t parts; /* end of its parts in `to`; 0: none */
    } found[PIANO_MAX_FRAMES];
    char heads[PIANO_MAX_FRAMES][PIANO_PYTHON_HEAD];
    struct iovec to[PIANO_MAX_FRAMES], from[PIANO_MAX_FRAMES];
    char texts[PIANO_PYTHON_TEXTS]; /* the objects they refer to, for some of them */
    /* Buffers for a single object. */
    char name[PIANO_PYTHON_NAME + PIANO_PYTHON_OBJECT];
    char file[PIANO_PYTHON_FILE + PIANO_PYTHON_OBJECT];
    char table[PIANO_PYTHON_TABLE + PIANO_PYTHON_OBJECT];
};

/* Returns the number of the code object at CODE, which stands for all objects with the same
 * contents. Returns 0 if it is not a code object, or if there is no room for it. The calling thread
 * must be running this code, and be in a call that the interpreter has made. */
uint32_t piano__python_number(const struct piano__python_layout *layout, uintptr_t code);
/* The same for everything that ROOM has found, whatever it is. */
void piano__python_numbers(const struct piano__python_layout *layout,
                           struct piano__python_room *room);
/* Returns the record with this number; NULL for unused numbers. */
const struct piano__python_code *piano__python_record(uint32_t number);
/* Call it when the recording is replaced or discarded. */
void piano__python_forget(void);

#endif
