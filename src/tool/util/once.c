/* Records which notices were shown, in one small file per notice. */
#include "tool/util/once.h"

#include <stdlib.h>
#include <string.h>

#include "tool/util/buf.h"
#include "tool/util/paths.h"

bool once_was_said(const char *name, const char *text)
{
    struct buf before = {0}, now = {0};
    char *dir = paths_state_dir();
    char *path = dir ? paths_join(dir, name) : NULL;
    buf_puts(&now, text);
    bool same = path && buf_read_file(&before, path) == 0 && before.data && !now.failed &&
                strcmp(before.data, now.data) == 0;
    if (path && !same && paths_make_dirs(dir) == 0)
        (void)buf_write_file(&now, path);
    buf_free(&before);
    buf_free(&now);
    free(path);
    free(dir);
    return same;
}
