/* Reads a recording in a separate thread, so that the screen answers keys at any time. */
#ifndef PIANO_TOOL_TOP_READER_H
#define PIANO_TOOL_TOP_READER_H

#include "tool/profile/live.h"

struct reader;

/* What a request brought. */
struct reader_answer {
    struct live_picture *picture; /* malloc'd; NULL: only the detail was asked for, or an error */
    char *detail;                 /* malloc'd, or NULL */
    int err;                      /* of `live_read` */
    struct run_error error;
    double patience_s; /* until the next reading */
};

/* Takes L. *FD becomes readable when an answer is there. NULL: it could not be started. */
struct reader *reader_start(struct live *l, double interval_s, int *fd);
/* Ends the thread, after the reading that it is at. */
void reader_stop(struct reader *r);

/* Asks for a picture, or only for the detail of CHOICE, whose texts are copied. False: it is busy. */
bool reader_ask(struct reader *r, bool picture, const struct live_choice *choice);
/* The answer, if there is one. */
bool reader_answer(struct reader *r, struct reader_answer *to);

#endif
