/* Before the page exists, `piano__gate` points to a gate that is never opened. */
#include "target/record/gate.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "target/sys/file.h"

enum { PAGE = 4096 };

static struct piano__gate shut;
struct piano__gate *piano__gate = &shut;

bool piano__gate_make(void)
{
    if (piano__gate != &shut)
        return true;
    int saved = errno;
    struct piano__gate *page = piano__memory_map(PAGE);
    if (page && madvise(page, PAGE, MADV_WIPEONFORK) != 0) {
        /* Before Linux 4.14. Without it, a child made by a raw fork would write to its parent's
         * recording. */
        piano__memory_unmap(page, PAGE);
        page = NULL;
    }
    if (page)
        piano__gate = page;
    errno = saved;
    return page != NULL;
}

void piano__gate_shut(void)
{
    memset(piano__gate, 0, sizeof *piano__gate);
}
