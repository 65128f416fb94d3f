/* `piano top`: functions, memory, polls and threads of a program while it runs. */
#include <stdlib.h>
#include <string.h>

#include "tool/top/top.h"
#define REQUEST struct top
#include "tool/cli/command.h"
#include "tool/cli/recorded.h"
#include "tool/cli/requests.h"
#include "tool/load/recording.h"
#include "tool/util/say.h"

enum { LONGEST_S = 3600 };

static const struct flag flags[] = {
    {"--interval", "read the recording every S seconds; default 1", FLAG_SECONDS(interval_s, 0.1)},
    {"--duration", "end after S seconds; ends the program if piano started it",
     FLAG_SECONDS(record.duration_s, 0.001)},
    {"--json", "one JSON object on a line for each reading, instead of a screen",
     FLAG_SWITCH(json)},
    {"--output", "the recording; default: a new file in the runs directory",
     FLAG_TEXT("FILE", record.output), .alias = "-o", .complete = "file"},
    {.help = "What to record; without any of these three, all of them:"},
    {"--heap", "sample one allocation in RATE bytes on average; default 512K", .value = "[=RATE]",
     .read = record_read_heap, .field = offsetof(REQUEST, record)},
    {"--cpu", "sample what the CPU does, HZ times in a second of CPU time; default 99",
     .value = "[=HZ]", .read = record_read_cpu, .field = offsetof(REQUEST, record)},
    {"--events", "turns of event loops, and what the program reports through piano.h",
     FLAG_SWITCH(record.events)},
    {0},
};

/* Decides what the words mean. *PATH: malloc'd, of the recording to follow; NULL: start one. */
static int choose(struct top *t, char **path)
{
    struct record *r = &t->record;
    const char *word = r->words[0], *before = r->words[-1];
    bool is_program = word && (strcmp(before, "--") == 0 || r->words[1]);
    pid_t pid = word && !is_program ? recorded_pid(word) : 0;
    if (pid && !(*path = recorded_path(pid))) {
        r->pid = pid;
        r->words++; /* no program */
    } else if (!word || (!pid && !is_program && recording_is(word))) {
        *path = recorded_named(word);
        if (!*path)
            return EXIT_FAILED;
    }
    return EXIT_DONE;
}

static int top(void *request)
{
    struct top *t = request;
    char *path = NULL;
    if (t->interval_s > LONGEST_S)
        return say_usage("top", "--interval: up to %d seconds", LONGEST_S);
    int status = choose(t, &path);
    bool has_what = t->record.heap || t->record.cpu || t->record.events || t->record.output;
    if (status == EXIT_DONE && path && has_what)
        status = say_usage("top", "--heap, --cpu, --events and -o are for a program that piano "
                                  "starts: this one is recorded already");
    if (status == EXIT_DONE && !path)
        status = record_settle(&t->record);
    t->path = path;
    if (status == EXIT_DONE)
        status = top_run(t);
    free(path);
    return status;
}

const struct command command_top = {
    .name = "top",
    .summary = "watch a program while it runs: functions, memory, polls, threads",
    .usage = "piano top [OPTIONS] [--] PROGRAM [ARGS]\npiano top [OPTIONS] PID\npiano top "
             "[OPTIONS] [RECORDING]",
    .about =
        "Shows what a program does now: functions by CPU time and by waits, memory by site with "
        "its growth, the longest polls with red flags, threads. PROGRAM is started and recorded as "
        "by `piano record`; PID is recorded from now on, as by `piano record --pid`; RECORDING is "
        "followed while another piano writes it, by default the newest. On a terminal it fills the "
        "screen; the key h explains "
        "the others. In a pipe it prints a block of lines for each reading.",
    .flags = flags,
    .notes = "The recording stays in the runs directory like any other: piano report shows it.",
    .examples = "piano top ./server --port 8080\npiano top 4711\npiano top --interval 5 --json "
                "4711\npiano top",
    .words = {WORDS_ARE_PROGRAM, FLAG_FIELD(char *const *, record.words), "program", 0, NULL},
    .run = top,
    COMMAND_REQUEST(.interval_s = 1, .record = {.heap_rate = RECORD_USUAL_RATE,
                                                .cpu_hz = RECORD_USUAL_HZ,
                                                .every_s = -1,
                                                .kill_s = 10,
                                                .no_children = true}),
};
