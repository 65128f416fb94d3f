/* Until there is a page, the gate is a shut one that nobody opens. */
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
        piano__memory_unmap(page, PAGE); /* before Linux 4.14: a raw fork would harm its parent */
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
