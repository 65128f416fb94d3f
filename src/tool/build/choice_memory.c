/* Remembers which program the user chose when the rules left several.
 *
 * STATE/chosen holds paths, each ended by NUL: the chosen program, then all programs that the rules
 * had left. The choice is used only if the rules leave no program that the user could not choose at
 * that time. The file's bytes are only compared with paths from the build, so it cannot name a
 * program that was not built. */
#include <stdlib.h>
#include <string.h>

#include "tool/build/choice.h"
#include "tool/util/buf.h"
#include "tool/util/paths.h"

/* Relative to the tree, so that the choice survives when the project is moved. */
static const char *key_of(const struct choice_list *l, const char *path)
{
    const char *below = choice_below(l, path);
    return below ? below : path;
}

static bool holds(const struct buf *paths, const char *key)
{
    for (size_t at = 0; at < paths->len; at += strlen(paths->data + at) + 1) {
        if (strcmp(paths->data + at, key) == 0)
            return true;
    }
    return false;
}

/* The number of the program that KEPT names, or `count` when there is none or when one of the
 * programs that fit is not in KEPT. */
static size_t find_chosen(const struct choice_list *l, const struct buf *kept)
{
    size_t found = l->count;
    for (size_t i = 0; i < l->count; i++) {
        const char *key = key_of(l, l->items[i].path);
        if (i < l->fit && !holds(kept, key))
            return l->count;
        if (strcmp(kept->data, key) == 0)
            found = i;
    }
    return found;
}

static void move_to_front(struct choice_list *l, size_t at)
{
    struct choice chosen = l->items[at];
    memmove(l->items + 1, l->items, at * sizeof *l->items);
    l->items[0] = chosen;
    l->fit += at >= l->fit;
    l->meant = 1;
    l->is_remembered = true;
}

void choice_recall(struct choice_list *l, const char *state)
{
    struct buf kept = {0};
    char *path = l->fit > 1 ? paths_join(state, "chosen") : NULL;
    if (path && buf_read_own_file(&kept, path) == 0 && kept.len > 0) {
        size_t at = find_chosen(l, &kept);
        if (at < l->count)
            move_to_front(l, at);
    }
    buf_free(&kept);
    free(path);
}

/* If the file cannot be written, the user is asked again next time. */
void choice_remember(const struct choice_list *l, const char *state, const char *chosen)
{
    bool is_known = l->is_remembered && strcmp(l->items[0].path, chosen) == 0;
    char *path = l->fit > 1 && !is_known ? paths_join(state, "chosen") : NULL;
    struct buf kept = {0};
    if (!path)
        return;
    const char *key = key_of(l, chosen);
    buf_put(&kept, key, strlen(key) + 1);
    for (size_t i = 0; i < l->fit; i++) {
        key = key_of(l, l->items[i].path);
        buf_put(&kept, key, strlen(key) + 1);
    }
    (void)buf_write_file(&kept, path);
    buf_free(&kept);
    free(path);
}
