/* Maps file names to the user's project.
 *
 * Line markers contain names as the compiler found them: relative to its working directory, with
 * `..`, or absolute and possibly below the mirror in which the project is built. Reports and the
 * selection use names relative to the project root. Names are first resolved as text, because the
 * mirror may contain links that lead out of it. Only a name that is then outside is resolved on
 * disk. */
#include "tool/build/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool/build/selection.h"
#include "tool/util/paths.h"

/* Removes `.`, `..` and double slashes from an absolute PATH, in place. */
static void squeeze(char *path)
{
    char *out = path;
    const char *in = path;
    while (*in) {
        while (*in == '/')
            in++;
        size_t len = strcspn(in, "/");
        if (len == 2 && in[0] == '.' && in[1] == '.') {
            while (out > path && *--out != '/')
                ;
        } else if (len > 0 && !(len == 1 && in[0] == '.')) {
            *out++ = '/';
            memmove(out, in, len);
            out += len;
        }
        in += len;
    }
    if (out == path)
        *out++ = '/';
    *out = '\0';
}

char *place_of(const struct place *p, const char *name)
{
    char *path = name[0] == '/' ? strdup(name) : paths_join(p->cwd, name);
    if (!path)
        return NULL;
    squeeze(path);
    const char *inside = selection_relative(p->selection, path);
    char *real = inside[0] == '/' ? realpath(path, NULL) : NULL;
    if (real)
        inside = selection_relative(p->selection, real);
    char *result = strdup(inside[0] == '/' ? path : inside);
    free(real);
    free(path);
    return result;
}

int place_init(struct place *p, const struct selection *selection, const char *source)
{
    *p = (struct place){.selection = selection, .cwd = getcwd(NULL, 0)};
    if (!p->cwd)
        return -ENOMEM;
    p->source = place_of(p, source);
    return p->source ? 0 : -ENOMEM;
}

void place_release(struct place *p)
{
    free(p->cwd);
    free(p->source);
    *p = (struct place){0};
}

bool place_is_own(const struct place *p, const char *file)
{
    return file[0] != '/' || strcmp(file, p->source) == 0;
}
