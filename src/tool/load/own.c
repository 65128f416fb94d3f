#include "tool/load/own.h"

#include <stdio.h>

#include "tool/util/program.h"
#include "tool/util/say.h"

static const char *const names[PIANO_OWN_KINDS] = {"malloc", "jemalloc", "mimalloc", "tcmalloc",
                                                   "Rust's global allocator"};
static const char *const reasons[PIANO_OWN_REASONS] = {
    "unknown reason",
    "its symbols are stripped",
    "its code cannot be hooked safely",
    "threads were running before it could be hooked",
    "the system does not allow to change code",
    "there is no free memory near it",
    "piano was loaded after the program had started",
};

bool own_is_hidden(const struct piano__rec_header *h)
{
    return h->flags & PIANO_REC_HAS_HEAP && h->stats.own_state == PIANO_OWN_HIDDEN;
}

const char *own_name(const struct piano__rec_header *h)
{
    const struct piano__heap_stats *s = &h->stats;
    bool has = s->own_state == PIANO_OWN_SEEN || s->own_state == PIANO_OWN_HIDDEN;
    return has && s->own_kind < PIANO_OWN_KINDS ? names[s->own_kind] : NULL;
}

const char *own_reason(const struct piano__rec_header *h)
{
    uint64_t reason = h->stats.own_reason;
    return own_is_hidden(h) ? reasons[reason < PIANO_OWN_REASONS ? reason : 0] : NULL;
}

const char *own_notice(char text[OWN_NOTICE], const struct piano__rec_header *h)
{
    char name[PIANO_REC_PATH], safe[256], program[PIANO_REC_PATH + 1], command[PIANO_REC_PATH + 1];
    /* The header may come straight from a file. */
    snprintf(program, sizeof(program), "%.*s", PIANO_REC_PATH, h->program);
    snprintf(command, sizeof(command), "%.*s", PIANO_REC_PATH, h->command);
    program_called(name, sizeof(name), program, command);
    const char *allocator = own_name(h), *reason = own_reason(h);
    snprintf(text, OWN_NOTICE,
             "%s has an allocator of its own (%s) that piano cannot see: heap figures are unknown "
             "(%s)",
             say_safe(safe, sizeof(safe), *name ? name : "the program"),
             allocator ? allocator : "?", reason ? reason : "?");
    return text;
}
