/* Recognises functions of allocators that may be in the executable, by the names that the runtime
 * hooks. They may call each other: then the inner one may be the one that was sampled. */
#include <string.h>

#include "common/allocators.h"
#include "tool/profile/profile.h"

#define NAME(name, what) #name,
static const char *const of_malloc[] = {PIANO_ALLOCATOR_MALLOC(NAME) NULL};
static const char *const of_mimalloc[] = {PIANO_ALLOCATOR_MIMALLOC(NAME) NULL};
static const char *const of_tcmalloc[] = {PIANO_ALLOCATOR_TCMALLOC(NAME) NULL};

static const struct {
    const char *prefix;
    const char *const *names;
} allocators[] = {
    {"je_", of_malloc}, {"_rjem_", of_malloc}, {"mi_", of_mimalloc}, {"tc_", of_tcmalloc}};

bool allocator_is_function(const char *name)
{
    for (size_t i = 0; i < sizeof(allocators) / sizeof(*allocators); i++) {
        size_t len = strlen(allocators[i].prefix);
        if (strncmp(name, allocators[i].prefix, len) != 0)
            continue;
        for (const char *const *known = allocators[i].names; *known; known++)
            if (strcmp(name + len, *known) == 0)
                return true;
    }
    return false;
}
