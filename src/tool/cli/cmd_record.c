/* `piano record`: runs any program without rebuilding it and records it; or samples a process that
 * already runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUEST struct record
#include "tool/cli/command.h"
#include "tool/cli/requests.h"
#include "tool/load/prune.h"
#include "tool/load/range.h"
#include "tool/record/record.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

static const double SHORTEST_S = 0.01;
static const int64_t SHORTEST_WINDOW_NS = 100000000, LONGEST_WINDOW_NS = 86400000000000;
enum { MAX_HZ = 10000 };
enum { LEAST_BYTES = 1 << 20, MOST_BYTES = 1 << 30, USUAL_PROCESSES = 128 };
static const uint64_t MOST_TOTAL = (uint64_t)1 << 40, USUAL_TOTAL = (uint64_t)4 << 30;

int record_read_heap(const struct flag_line *line, const char *text, void *record)
{
    struct record *r = record;
    r->heap = true;
    if (text)
        r->heap_rate = units_parse_bytes(text);
    if (r->heap_rate > 0)
        return EXIT_DONE;
    return say_usage(line->command, "--heap=%s: not a number of bytes from 1 on, as in --heap=64K",
                     line->safe);
}

/* Parses a whole number from 1 to MOST; 0 when TEXT is not one. */
static unsigned parse_number(const char *text, unsigned most)
{
    unsigned value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= most; at++)
        value = value * 10 + (unsigned)(*at - '0');
    return at == text || *at || value > most ? 0 : value;
}

int record_read_cpu(const struct flag_line *line, const char *text, void *record)
{
    struct record *r = record;
    r->cpu = true;
    if (text)
        r->cpu_hz = parse_number(text, MAX_HZ);
    if (r->cpu_hz > 0)
        return EXIT_DONE;
    return say_usage(line->command,
                     "--cpu=%s: not a number of samples a second from 1 to %d, as in --cpu=99",
                     line->safe, MAX_HZ);
}

static int read_pid(const struct flag_line *line, const char *text, void *field)
{
    enum { MAX_PID = 1 << 30 };
    pid_t pid = (pid_t)parse_number(text, MAX_PID);
    *(pid_t *)field = pid;
    if (pid > 0)
        return EXIT_DONE;
    return say_usage(line->command, "--pid: `%s` is not the id of a process", line->safe);
}

static int read_size(const struct flag_line *line, const char *text, void *field)
{
    uint64_t bytes = units_parse_bytes(text);
    *(uint64_t *)field = bytes;
    if (bytes >= LEAST_BYTES && bytes <= MOST_BYTES)
        return EXIT_DONE;
    return say_usage(line->command,
                     "--max-size: `%s` is no size from 1M to 1G, as in --max-size 64M", line->safe);
}

static int read_total(const struct flag_line *line, const char *text, void *field)
{
    uint64_t bytes = units_parse_bytes(text);
    *(uint64_t *)field = bytes;
    if (bytes >= LEAST_BYTES && bytes <= MOST_TOTAL)
        return EXIT_DONE;
    return say_usage(line->command,
                     "--max-total: `%s` is no size from 1M to 1T, as in --max-total 8G",
                     line->safe);
}

static int read_every(const struct flag_line *line, const char *text, void *field)
{
    int status = flag_number(line, text, field);
    double every_s = *(double *)field;
    if (status == EXIT_DONE && every_s > 0 && every_s < SHORTEST_S)
        return say_usage(line->command, "--snapshot-every: 0 for none, or at least %g seconds",
                         SHORTEST_S);
    return status;
}

/* Reads what follows a condition: nothing, `:snapshot` or `:end`. */
static bool read_action(const char *text, enum piano__fired_action *action)
{
    *action = strcmp(text, ":snapshot") == 0 ? PIANO_FIRED_SNAPSHOT : PIANO_FIRED_END;
    return *text == '\0' || strcmp(text, ":snapshot") == 0 || strcmp(text, ":end") == 0;
}

/* TIME[:snapshot|:end] */
static int read_long_poll(const struct flag_line *line, const char *text, void *field)
{
    struct flight_wish *wish = field;
    const char *colon = text + strcspn(text, ":");
    char time[32];
    struct range_end end;
    snprintf(time, sizeof(time), "%.*s", (int)(colon - text), text);
    bool is_good = colon - text < (ptrdiff_t)sizeof(time) && range_parse(time, &end) &&
                   !end.from_end && end.ns > 0 && !end.is_number;
    wish->poll_ns = is_good ? end.ns : 0;
    if (is_good && read_action(colon, &wish->poll_action))
        return EXIT_DONE;
    return say_usage(line->command,
                     "--on-long-poll %s: not a time such as 100ms, 100ms:snapshot or "
                     "100ms:end",
                     line->safe);
}

/* PERCENT%/WINDOW[:snapshot|:end], where WINDOW is a time, or a unit of time */
static int read_growth(const struct flag_line *line, const char *text, void *field)
{
    struct flight_wish *wish = field;
    const char *colon = text + strcspn(text, ":");
    char *end = NULL, time[32];
    struct range_end window = {.ns = 0};
    size_t digits = strspn(text, "0123456789.");
    double percent = strtod(text, &end);
    bool is_good = digits > 0 && end == text + digits && percent > 0 && percent <= 1e6 &&
                   strncmp(end, "%/", 2) == 0 && colon > end + 2 && colon - end < 24;
    if (is_good) {
        bool is_unit = end[2] < '0' || end[2] > '9';
        snprintf(time, sizeof(time), "%s%.*s", is_unit ? "1" : "", (int)(colon - end - 2), end + 2);
        is_good = range_parse(time, &window) && !window.from_end && !window.is_number;
    }
    is_good = is_good && window.ns >= SHORTEST_WINDOW_NS && window.ns <= LONGEST_WINDOW_NS;
    wish->growth = percent / 100;
    wish->window_s = (double)window.ns / 1e9;
    if (is_good && read_action(colon, &wish->growth_action))
        return EXIT_DONE;
    return say_usage(line->command,
                     "--on-growth %s: not a growth such as 10%%/min, 50%%/10s or 10%%/min:snapshot",
                     line->safe);
}

static const struct flag flags[] = {
    {.help = "What to record; without any of these three, all of them; with one, that alone:"},
    {"--heap",
     "sample one allocation in RATE bytes on average; default 512K; 1 = every allocation; K, M and "
     "G are understood",
     .value = "[=RATE]", .read = record_read_heap},
    {"--cpu", "sample what the CPU does, HZ times in a second of CPU time; default 99",
     .value = "[=HZ]", .read = record_read_cpu},
    {"--events", "turns of event loops, and what the program reports through piano.h",
     FLAG_SWITCH(events)},
    {.help = ""},
    {"--kernel", "CPU samples with the frames of the kernel", FLAG_SWITCH(kernel)},
    {"--pid", "a process that runs already, from now on", FLAG_READ("PID", read_pid, pid_t, pid),
     .others = "--children",
     .clash = "--pid records one process; those that it starts later are only sampled (--cpu)",
     .complete = "process"},
    {"--maps", "anonymous memory from mmap too", FLAG_SWITCH(maps)},
    {"--children", "record the processes it starts too (the default)", FLAG_SWITCH(children)},
    {"--no-children", "record the program alone; CPU samples are of its children too",
     FLAG_SWITCH(no_children), .others = "--children",
     .clash = "--children and --no-children: choose one"},
    {"--max-processes", "at most N further processes at a time; default 128",
     FLAG_COUNT(most_processes)},
    {"--max-total", "maximum size of their recordings together, 1M to 1T; default 4G",
     FLAG_READ("SIZE", read_total, uint64_t, family_bytes)},
    {"--snapshot-every",
     "a snapshot every S seconds; 0 = none; default: after a tenth of a second, then less and less "
     "often",
     FLAG_READ("S", read_every, double, every_s)},
    {"--max-size",
     "maximum size of a recording, 1M to 1G; default 1G; new events and samples replace the oldest",
     FLAG_READ("SIZE", read_size, uint64_t, max_bytes)},
    {"--watch", "print red flags of events while the program runs", FLAG_SWITCH(flight.watch)},
    {"--on-long-poll",
     "end the recording, not the program, when a poll takes TIME, as in 100ms; TIME:snapshot takes "
     "a "
     "snapshot instead",
     FLAG_READ("TIME", read_long_poll, struct flight_wish, flight)},
    {"--on-growth",
     "the same when the heap grows by a share of itself in a time, as in 10%/min or 50%/10s",
     FLAG_READ("GROWTH", read_growth, struct flight_wish, flight)},
    {"--output", "the recording; default: a new file in the runs directory",
     FLAG_TEXT("FILE", output), .alias = "-o", .complete = "file"},
    {"--duration",
     "end it after S seconds (SIGTERM); the exit status is then 0. With --pid, only the recording "
     "ends, as with Ctrl-C",
     FLAG_SECONDS(duration_s, 0.001)},
    {"--kill-timeout", "if it still runs S seconds later, kill it; 0 = never; default 10",
     FLAG_SECONDS(kill_s, 0)},
    {0},
};

/* Is the first word of the program rather the value of the flag before it, which needs a `=`? */
static bool lacks_sign(const char *before, const char *word)
{
    return word && ((strcmp(before, "--heap") == 0 && units_parse_bytes(word) > 0) ||
                    (strcmp(before, "--cpu") == 0 && parse_number(word, MAX_HZ) > 0));
}

int record_settle(struct record *r)
{
    const char *before = r->words[-1], *word = r->words[0]; /* `record` is before all others */
    if (lacks_sign(before, word))
        return say_usage("record", "`%s %s`: a `=` goes in between; try: %s=%s", before, word,
                         before, word);
    if (r->pid > 0 && word)
        return say_usage("record", "either --pid PID or a program, not both");
    if (r->pid == 0 && !word)
        return say_usage("record", "which program? As in: piano record PROGRAM [ARGS]");
    r->children = r->pid == 0 && !r->no_children;
    if (r->most_processes == 0)
        r->most_processes = USUAL_PROCESSES;
    if (r->family_bytes == 0)
        r->family_bytes = USUAL_TOTAL;
    r->is_all = !r->heap && !r->cpu && !r->events;
    if (r->is_all)
        r->heap = r->cpu = r->events = true;
    if (r->maps && !r->heap)
        return say_usage("record", "--maps is about memory, and needs --heap");
    if ((r->flight.watch || r->flight.poll_ns > 0) && !r->events)
        return say_usage("record", "%s is about events, and needs --events",
                         r->flight.watch ? "--watch" : "--on-long-poll");
    if (r->flight.growth > 0 && !r->heap)
        return say_usage("record", "--on-growth is about memory, and needs --heap");
    if (r->kernel && !r->cpu)
        return say_usage("record", "--kernel is about CPU samples, and needs --cpu");
    return EXIT_DONE;
}

static int record(void *request)
{
    struct record *r = request;
    int status = record_settle(r);
    if (status != EXIT_DONE)
        return status;
    status = record_run(r);
    if (!r->output)
        prune_runs();
    return status;
}

const struct command command_record = {
    .name = "record",
    .summary = "run any program and record its memory, CPU time and waits",
    .usage = "piano record [OPTIONS] [--] PROGRAM [ARGS]\npiano record [OPTIONS] --pid PID",
    .about =
        "Runs PROGRAM, which needs no preparation, and records where its memory goes, what its CPU "
        "time is spent on, where its threads wait and what its event loops do. The program keeps "
        "this terminal and its exit status is passed on (128 + N for signal N). With --pid, "
        "records a process that runs already. What follows PROGRAM is passed to it.",
    .flags = flags,
    .notes = "A snapshot at once: piano snapshot PID, or SIGUSR2 to `piano record`.",
    .examples = "piano record jq . big.json\npiano record --heap=64K -o leak.rec ./server --port "
                "8080\npiano record --cpu=999 ./sort big.txt\npiano record --pid 4711 "
                "--duration 10\npiano record --max-size 256M --on-long-poll 100ms ./server\npiano "
                "record --max-size 256M --on-growth 10%/min --pid 4711\npiano "
                "record --max-processes 500 --duration 60 make -j4",
    .words = {WORDS_ARE_PROGRAM, FLAG_FIELD(char *const *, words), "program", 0, NULL},
    .run = record,
    COMMAND_REQUEST(.heap_rate = RECORD_USUAL_RATE, .cpu_hz = RECORD_USUAL_HZ, .every_s = -1,
                    .kill_s = 10),
};
