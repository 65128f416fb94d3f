/* `piano top`: shows a recording while it is written, on a terminal or as lines. */
#ifndef PIANO_TOOL_TOP_TOP_H
#define PIANO_TOOL_TOP_TOP_H

#include <stdbool.h>
#include <sys/types.h>

#include "tool/record/record.h"

struct top {
    double interval_s;
    bool json;
    const char *path;     /* follow this recording; NULL: start one */
    struct record record; /* what to start otherwise; its duration also limits the following */
};

/* Returns an exit status: of the program if it was started and ended by itself. */
int top_run(const struct top *t);

/* ---- what its files share ---- */

/* The `piano record` that top has started, in a separate process. */
struct recorder {
    pid_t pid;     /* 0: none */
    pid_t program; /* the recorded process */
    char *path;    /* of the recording */
    int output;    /* what it and the program print, if that is not for our stderr; -1 */
    bool is_over;
    int status;
};

/* Starts the recording. IS_SCREEN: keep what is printed out of the terminal. Returns an exit
 * status; the recorder is then running, or is over with its own message. */
int recorder_start(struct recorder *r, const struct top *t, bool is_screen);
/* Updates `is_over`. */
void recorder_look(struct recorder *r);
/* Asks it to end. False: the program has ended by itself. */
bool recorder_end(struct recorder *r);
/* Waits for it, and copies what it prints to stderr. */
void recorder_wait(struct recorder *r);

struct live;
/* Each shows what L reads until the end. Returns an exit status. */
int screen_run(const struct top *t, struct live *l, struct recorder *r);
int stream_run(const struct top *t, struct live *l, struct recorder *r);

#endif
