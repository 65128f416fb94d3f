/* How `piano record --pid` and libpiano.so in an attached process talk to each other.
 *
 * The tool makes one thread of the process run a few instructions (tool/attach/stub.c). These open
 * a pair of sockets and a memory file, and start a new thread, which waits for the tool's word.
 * The tool takes its socket and the memory file out of the process, copies the library into the
 * file, and sends the word. The new thread loads the library and enters it at PIANO_ATTACH_ENTRY.
 * From then on, the two exchange orders and answers. The end of the socket is an order to stop. */
#ifndef PIANO_COMMON_ATTACH_H
#define PIANO_COMMON_ATTACH_H

#include <stddef.h>
#include <stdint.h>

#define PIANO_ATTACH_ENTRY "__piano_attach"
/* The library's path begins so in an attached process: it is a descriptor there. */
#define PIANO_ATTACH_PATH "/proc/self/fd/"

enum {
    PIANO_ATTACH_VERSION = 1,
    PIANO_ATTACH_CODE = 64 * 1024,  /* instructions; as much as the largest page */
    PIANO_ATTACH_DATA = 128 * 1024, /* struct piano__attach_room, and a stack above it */
    PIANO_ATTACH_ERROR = 256,
    PIANO_ATTACH_SETTINGS = 4096,
};

/* What the instructions were doing when they failed. */
enum piano__attach_step {
    PIANO_ATTACH_SOCKETS = 1,
    PIANO_ATTACH_MEMORY = 2,
    PIANO_ATTACH_THREAD = 3,
    PIANO_ATTACH_STARTED = 4,
};

/* The instructions use these offsets as numbers. */
struct piano__attach_room {
    uint64_t create;   /* pthread_create */
    uint64_t detach;   /* pthread_detach */
    uint64_t open;     /* dlopen */
    uint64_t find;     /* dlsym */
    uint64_t complain; /* dlerror */
    uint64_t unmap;    /* munmap */
    uint64_t thread;
    uint64_t entry; /* of a library that is already loaded; 0: load it */
    uint64_t start; /* of the mapping of PIANO_ATTACH_CODE + PIANO_ATTACH_DATA bytes */
    uint64_t size;
    int32_t sockets[2]; /* of the library and of the tool; -1: none */
    int32_t memory;     /* the memory file; -1: none */
    int32_t mode;       /* for dlopen */
    int64_t result;     /* 0 or negative errno */
    uint64_t step;      /* enum piano__attach_step */
    uint64_t word;
    int32_t poll_fd; /* a struct pollfd */
    int16_t poll_events, poll_revents;
    int32_t memory_flags;
    int32_t reserved;
    uint64_t code; /* of the thread that is started */
    char symbol[24];
    char path[40];
    char error[PIANO_ATTACH_ERROR];
};

_Static_assert(offsetof(struct piano__attach_room, sockets) == 80, "the instructions use it");
_Static_assert(offsetof(struct piano__attach_room, word) == 112, "the instructions use it");
_Static_assert(offsetof(struct piano__attach_room, code) == 136, "the instructions use it");
_Static_assert(offsetof(struct piano__attach_room, error) == 208, "the instructions use it");

enum piano__attach_order_kind { PIANO_ATTACH_START = 1, PIANO_ATTACH_STOP = 2 };

/* From the tool. With START comes the descriptor of the recording. */
struct piano__attach_order {
    uint32_t version;
    uint32_t kind;
    char path[1024];                      /* of the recording, as the tool sees it */
    char settings[PIANO_ATTACH_SETTINGS]; /* NAME=VALUE, each with a NUL; then another NUL */
};

enum piano__attach_failure {
    PIANO_ATTACH_OK = 0,
    PIANO_ATTACH_BUSY = 1,      /* it has a recording already */
    PIANO_ATTACH_LINGERS = 2,   /* a thread is still inside the previous recording */
    PIANO_ATTACH_HIDDEN = 3,    /* malloc is in the executable */
    PIANO_ATTACH_RECORDING = 4, /* the recording could not be mapped */
    PIANO_ATTACH_HEAP = 5,
    PIANO_ATTACH_EVENTS = 6,
    PIANO_ATTACH_OTHER_VERSION = 7,
};

/* From the library: when it is loaded, and after every order. Its size differs from that of the
 * error that the instructions send. */
struct piano__attach_answer {
    uint32_t version;
    uint32_t failure; /* enum piano__attach_failure */
    int32_t err;      /* negative errno, or 0 */
    uint32_t slots;   /* calls that are redirected */
    uint32_t lingers; /* after STOP: the memory of the recording stays mapped */
    uint32_t reserved[3];
};

#endif
