/* A pointer to a struct is also a pointer to its first member. */
#include "tool/util/order.h"

#include <string.h>

int order_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int order_u32(const void *a, const void *b)
{
    return ORDER(*(const uint32_t *)a, *(const uint32_t *)b);
}

int order_u64(const void *a, const void *b)
{
    return ORDER(*(const uint64_t *)a, *(const uint64_t *)b);
}

int order_ranked(const void *a, const void *b)
{
    const struct order_ranked *x = a, *y = b;
    return ORDER(y->value, x->value) ?: ORDER(x->index, y->index);
}

int order_i64(const void *a, const void *b)
{
    return ORDER(*(const int64_t *)a, *(const int64_t *)b);
}
