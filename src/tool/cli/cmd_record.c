/* `piano record`: runs any program, as it is, and records it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/cli/commands.h"
#include "tool/cli/flags.h"
#include "tool/record/record.h"
#include "tool/util/say.h"

static const char help[] =
    "Usage: piano record [OPTIONS] -- PROGRAM [ARGS]\n"
    "\n"
    "Runs PROGRAM, which needs no preparation, and records where its memory goes:\n"
    "who holds it, who allocates most, what is never freed. The program keeps this\n"
    "terminal and its exit status is passed on (128 + N for signal N).\n"
    "\n"
    "  --heap[=RATE]       sample one allocation in RATE bytes on average; default\n"
    "                      512K; 1 = every allocation; K, M and G are understood\n"
    "  --maps              anonymous memory from mmap too\n"
    "  --children          processes it starts have recordings of their own\n"
    "  --snapshot-every S  a snapshot every S seconds; 0 = none; default: after a\n"
    "                      tenth of a second, then less and less often\n"
    "  -o FILE             the recording; default: a new one among the runs\n"
    "  --duration S        end it after S seconds (SIGTERM); exit status 0 then\n"
    "  --kill-timeout S    and if it has not ended S seconds later, kill it;\n"
    "                      default 10, 0 = never\n"
    "\n"
    "A snapshot at once: piano snapshot PID, or SIGUSR2 to `piano record`.\n"
    "\n"
    "Examples:\n"
    "  piano record -- jq . big.json\n"
    "  piano record --heap=64K -o leak.rec -- ./server --port 8080\n"
    "  piano record --children --duration 60 -- make -j4\n";

static const char *const names[] = {
    "--heap",     "--maps",         "--children", "--snapshot-every",
    "--duration", "--kill-timeout", "-o",         "--help"};

static const uint64_t USUAL_RATE = 512 * 1024;
static const uint64_t MAX_RATE = (uint64_t)1 << 48;
static const double SHORTEST_S = 0.01;

/* 1, 1000, 64K, 1M, 2G; 0 when it is none of these. */
static uint64_t parse_rate(const char *text)
{
    static const char units[] = "KMG";
    uint64_t value = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && value <= MAX_RATE; at++)
        value = value * 10 + (uint64_t)(*at - '0');
    char upper = (char)(*at >= 'a' ? *at - 'a' + 'A' : *at);
    const char *unit = *at ? strchr(units, upper) : NULL;
    if (at == text || value > MAX_RATE || (*at && (!unit || at[1] != '\0')))
        return 0;
    if (unit)
        value <<= 10 * (unit - units + 1);
    return value <= MAX_RATE ? value : 0;
}

static enum flag_taken take_heap(const struct flags *f, struct record *r)
{
    static const char name[] = "--heap";
    const char *word = f->argv[f->at];
    const size_t len = sizeof name - 1;
    if (strcmp(word, name) == 0)
        return FLAG_YES;
    if (strncmp(word, name, len) != 0 || word[len] != '=')
        return FLAG_NO;
    r->heap_rate = parse_rate(word + len + 1);
    if (r->heap_rate > 0)
        return FLAG_YES;
    char safe[64];
    say_usage(f->command, "%s: not a number of bytes from 1 on, as in --heap=64K",
              say_safe(safe, sizeof safe, word));
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

static int read_flags(struct flags *f, struct record *r, bool *help_wanted)
{
    for (f->at = 1; f->at < f->argc; f->at++) {
        if (strcmp(f->argv[f->at], "--") == 0) {
            r->words = f->argv + f->at + 1;
            break;
        }
        enum flag_taken taken = take_heap(f, r);
        taken = taken ? taken : take_every(f, r);
        taken = taken ? taken : flags_switch(f, "--maps", &r->maps);
        taken = taken ? taken : flags_switch(f, "--children", &r->children);
        taken = taken ? taken : flags_value(f, "-o", &r->output);
        taken = taken ? taken : flags_number(f, "--duration", 0.001, &r->duration_s);
        taken = taken ? taken : flags_number(f, "--kill-timeout", 0, &r->kill_s);
        taken = taken ? taken : flags_switch(f, "--help", help_wanted);
        taken = taken ? taken : flags_switch(f, "-h", help_wanted);
        if (taken == FLAG_BAD)
            return EXIT_USAGE;
        if (taken == FLAG_NO)
            return flags_unknown(f, names, sizeof names / sizeof names[0]);
    }
    return EXIT_DONE;
}

int cmd_record(int argc, char **argv)
{
    struct flags f = {"record", argc, argv, 1};
    struct record r = {.words = argv + argc, .heap_rate = USUAL_RATE, .every_s = -1, .kill_s = 10};
    bool help_wanted = false;
    int status = read_flags(&f, &r, &help_wanted);
    if (status != EXIT_DONE)
        return status;
    if (help_wanted) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    if (!r.words[0])
        return say_usage("record", "which program? It goes after `--`");
    return record_run(&r);
}
