/* `piano record`: runs any program without rebuilding it and records it; or samples a process that
 * already runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/load/prune.h"
#include "tool/record/record.h"
#include "tool/util/say.h"
#include "tool/util/units.h"

const char cmd_record_help[] =
    "Usage: piano record [OPTIONS] [--] PROGRAM [ARGS]\n"
    "       piano record --cpu[=HZ] --pid PID [--duration S] [-o FILE]\n"
    "\n"
    "Runs PROGRAM, which needs no preparation, and records where its memory goes,\n"
    "what its CPU time is spent on, where its threads wait and what its event loops\n"
    "do. The program keeps this terminal and its exit status is passed on (128 + N\n"
    "for signal N). With --pid, samples a process that runs already. What follows\n"
    "PROGRAM is passed to it.\n"
    "\n"
    "What to record; without any of these three, all of them; with one, that alone:\n"
    "  --heap[=RATE]       sample one allocation in RATE bytes on average; default\n"
    "                      512K; 1 = every allocation; K, M and G are understood\n"
    "  --cpu[=HZ]          sample what the CPU does, HZ times in a second of CPU\n"
    "                      time; default 99\n"
    "  --events            turns of event loops, and what the program says through\n"
    "                      piano.h\n"
    "\n"
    "  --kernel            CPU samples with the frames of the kernel\n"
    "  --pid PID           a process that runs already; --cpu only, all its threads\n"
    "  --maps              anonymous memory from mmap too\n"
    "  --children          processes it starts have recordings of their own\n"
    "  --snapshot-every S  a snapshot every S seconds; 0 = none; default: after a\n"
    "                      tenth of a second, then less and less often\n"
    "  --max-size SIZE     of a recording, 1M to 1G, the default; the oldest events\n"
    "                      and samples make room for new ones\n"
    "  -o FILE, --output FILE\n"
    "                      the recording; default: a new one among the runs\n"
    "  --duration S        end it after S seconds (SIGTERM); exit status 0 then; with\n"
    "                      --pid only the recording ends, and so it does with Ctrl-C\n"
    "  --kill-timeout S    and if it has not ended S seconds later, kill it;\n"
    "                      default 10, 0 = never\n"
    "\n"
    "A snapshot at once: piano snapshot PID, or SIGUSR2 to `piano record`.\n"
    "\n"
    "Examples:\n"
    "  piano record jq . big.json\n"
    "  piano record --heap=64K -o leak.rec ./server --port 8080\n"
    "  piano record --cpu=999 ./sort big.txt\n"
    "  piano record --cpu --pid 4711 --duration 10\n"
    "  piano record --children --duration 60 make -j4\n";

static const char *const names[] = {"--heap",
                                    "--cpu",
                                    "--events",
                                    "--kernel",
                                    "--pid",
                                    "--maps",
                                    "--children",
                                    "--snapshot-every",
                                    "--max-size",
                                    "--duration",
                                    "--kill-timeout",
                                    "--output",
                                    "-o",
                                    "--help",
                                    NULL};

static const uint64_t USUAL_RATE = 512 * 1024;
static const uint64_t LEAST_BYTES = 1 << 20, MOST_BYTES = 1 << 30;
static const double SHORTEST_S = 0.01;
enum { USUAL_HZ = 99, MAX_HZ = 10000 };

static enum flag_taken take_heap(const struct flags *f, struct record *r)
{
    static const char name[] = "--heap";
    const char *word = f->argv[f->at];
    const size_t len = sizeof name - 1;
    if (strcmp(word, name) == 0) {
        r->heap = true;
        return FLAG_YES;
    }
    if (strncmp(word, name, len) != 0 || word[len] != '=')
        return FLAG_NO;
    r->heap = true;
    r->heap_rate = units_parse_bytes(word + len + 1);
    if (r->heap_rate > 0)
        return FLAG_YES;
    char safe[64];
    say_usage(f->command, "%s: not a number of bytes from 1 on, as in --heap=64K",
              say_safe(safe, sizeof safe, word));
    return FLAG_BAD;
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

static enum flag_taken take_cpu(const struct flags *f, struct record *r)
{
    static const char name[] = "--cpu";
    const char *word = f->argv[f->at];
    const size_t len = sizeof name - 1;
    if (strncmp(word, name, len) != 0 || (word[len] != '=' && word[len] != '\0'))
        return FLAG_NO;
    r->cpu = true;
    if (word[len] == '=')
        r->cpu_hz = parse_number(word + len + 1, MAX_HZ);
    if (r->cpu_hz > 0)
        return FLAG_YES;
    char safe[64];
    say_usage(f->command, "%s: not a number of samples a second from 1 to %d, as in --cpu=99",
              say_safe(safe, sizeof safe, word), MAX_HZ);
    return FLAG_BAD;
}

static enum flag_taken take_pid(struct flags *f, struct record *r)
{
    enum { MAX_PID = 1 << 30 };
    const char *text = NULL;
    char safe[64];
    enum flag_taken taken = flags_value(f, "--pid", &text);
    if (taken != FLAG_YES)
        return taken;
    r->pid = (pid_t)parse_number(text, MAX_PID);
    if (r->pid > 0)
        return FLAG_YES;
    say_usage(f->command, "--pid: `%s` is not the id of a process",
              say_safe(safe, sizeof safe, text));
    return FLAG_BAD;
}

static enum flag_taken take_max_size(struct flags *f, struct record *r)
{
    const char *text = NULL;
    char safe[64];
    enum flag_taken taken = flags_value(f, "--max-size", &text);
    if (taken != FLAG_YES)
        return taken;
    r->max_bytes = units_parse_bytes(text);
    if (r->max_bytes >= LEAST_BYTES && r->max_bytes <= MOST_BYTES)
        return FLAG_YES;
    say_usage(f->command, "--max-size: `%s` is no size from 1M to 1G, as in --max-size 64M",
              say_safe(safe, sizeof safe, text));
    return FLAG_BAD;
}

static enum flag_taken take_every(struct flags *f, struct record *r)
{
    enum flag_taken taken = flags_number(f, "--snapshot-every", 0, &r->every_s);
    if (taken == FLAG_YES && r->every_s > 0 && r->every_s < SHORTEST_S) {
        say_usage(f->command, "--snapshot-every: 0 for none, or at least %g seconds", SHORTEST_S);
        return FLAG_BAD;
    }
    return taken;
}

/* The first word that is not a flag is the program, unless it is the value of a flag that needs a
 * `=`. */
static int take_program(const struct flags *f, struct record *r)
{
    const char *before = f->argv[f->at - 1];
    const char *word = f->argv[f->at];
    if ((strcmp(before, "--heap") == 0 && units_parse_bytes(word) > 0) ||
        (strcmp(before, "--cpu") == 0 && parse_number(word, MAX_HZ) > 0))
        return say_usage(f->command, "`%s %s`: a `=` goes in between; try: %s=%s", before, word,
                         before, word);
    r->words = f->argv + f->at;
    return EXIT_DONE;
}

static int read_flags(struct flags *f, struct record *r, bool *help)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        *help = flags_is_help(f->argv[f->at]);
        if (*help)
            break;
        if (strcmp(f->argv[f->at], "--") == 0) {
            r->words = f->argv + f->at + 1;
            break;
        }
        enum flag_taken taken = take_heap(f, r);
        taken = taken ? taken : take_cpu(f, r);
        taken = taken ? taken : take_pid(f, r);
        taken = taken ? taken : flags_switch(f, "--events", &r->events);
        taken = taken ? taken : flags_switch(f, "--kernel", &r->kernel);
        taken = taken ? taken : take_every(f, r);
        taken = taken ? taken : take_max_size(f, r);
        taken = taken ? taken : flags_switch(f, "--maps", &r->maps);
        taken = taken ? taken : flags_switch(f, "--children", &r->children);
        taken = taken ? taken : flags_output(f, &r->output);
        taken = taken ? taken : flags_number(f, "--duration", 0.001, &r->duration_s);
        taken = taken ? taken : flags_number(f, "--kill-timeout", 0, &r->kill_s);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_NO && f->argv[f->at][0] != '-')
            return take_program(f, r);
        if (taken == FLAG_NO)
            return flags_unknown(f);
    }
    return EXIT_DONE;
}

/* Checks for contradicting flags and sets the defaults of missing ones. */
static int settle(struct record *r)
{
    if (r->pid > 0 && (r->heap || r->events || r->maps || r->children || r->every_s >= 0))
        return say_usage("record", "--pid samples the CPU from outside: nothing else can be "
                                   "recorded of a process that runs already");
    if (r->pid > 0 && r->words[0])
        return say_usage("record", "either --pid PID or a program, not both");
    if (r->pid == 0 && !r->words[0])
        return say_usage("record", "which program? As in: piano record PROGRAM [ARGS]");
    if (r->pid > 0)
        r->cpu = true;
    if (!r->heap && !r->cpu && !r->events)
        r->heap = r->cpu = r->events = true;
    if (r->maps && !r->heap)
        return say_usage("record", "--maps is about memory, and needs --heap");
    if (r->kernel && !r->cpu)
        return say_usage("record", "--kernel is about CPU samples, and needs --cpu");
    return EXIT_DONE;
}

int cmd_record(int argc, char **argv)
{
    struct flags f = {"record", argc, argv, names, 1};
    struct record r = {.words = argv + argc,
                       .heap_rate = USUAL_RATE,
                       .cpu_hz = USUAL_HZ,
                       .every_s = -1,
                       .kill_s = 10};
    bool help = false;
    int status = read_flags(&f, &r, &help);
    if (status != EXIT_DONE)
        return status;
    if (help) {
        fputs(cmd_record_help, stdout);
        return EXIT_DONE;
    }
    status = settle(&r);
    if (status != EXIT_DONE)
        return status;
    status = record_run(&r);
    if (!r.output)
        prune_runs();
    return status;
}
