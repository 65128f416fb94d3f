/* Names of kernel addresses, from /proc/kallsyms of this machine. The file is read once, at the
 * first lookup. The kernel shows addresses as 0 to users without permission; then there are no
 * names. A recording of another boot has other addresses, and its names may be wrong. An address
 * gets the name of the nearest function before it, if that is less than FARTHEST away. */
#include "tool/symbol/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

const char kernel_module[] = "[kernel]";

#define KERNEL_FROM 0xffff800000000000u

enum { FARTHEST = 1 << 20 }; /* no function is this long */

struct entry {
    uint64_t at;
    char *name;
};

static struct {
    struct entry *list; /* by address */
    size_t count, cap;
    bool read;
} known;

static void add(uint64_t at, const char *name)
{
    char *copy = VEC_ROOM(known.list, known.count, known.cap) == 0 ? strdup(name) : NULL;
    if (copy)
        known.list[known.count++] = (struct entry){at, copy};
}

static void read_names(void)
{
    FILE *in = fopen("/proc/kallsyms", "re");
    char line[512], kind, name[256];
    unsigned long long at;
    known.read = true;
    while (in && fgets(line, sizeof(line), in))
        if (sscanf(line, "%llx %c %255s", &at, &kind, name) == 3 && at >= KERNEL_FROM &&
            strchr("tTwW", kind))
            add(at, name);
    if (in)
        fclose(in);
    if (known.count)
        qsort(known.list, known.count, sizeof(*known.list), order_u64);
}

bool kernel_is(uint64_t pc)
{
    return pc >= KERNEL_FROM;
}

struct symbol_frame kernel_resolve(uint64_t pc)
{
    struct symbol_frame frame = {.function = kernel_module, .module = kernel_module};
    if (!known.read)
        read_names();
    size_t low = ORDER_BOUND(at, known.count, known.list[at].at <= pc);
    if (low > 0 && pc - known.list[low - 1].at < FARTHEST)
        frame.function = known.list[low - 1].name;
    return frame;
}
