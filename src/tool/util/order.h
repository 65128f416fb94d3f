/* Comparisons for qsort and bsearch. */
#ifndef PIANO_TOOL_UTIL_ORDER_H
#define PIANO_TOOL_UTIL_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* -1, 0 or 1. With several keys: ORDER(a->tid, b->tid) ?: ORDER(a->at_ns, b->at_ns). */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Binary search: the number of items at the start of a sorted list for which BEFORE, a condition on
 * the item with index AT, is true. In an array sorted by `tid`, this is the first one of TID:
 *
 *     size_t i = ORDER_BOUND(at, count, list[at].tid < tid); */
#define ORDER_BOUND(at, count, before)                                                             \
    ({                                                                                             \
        size_t low_ = 0, high_ = (count);                                                          \
        while (low_ < high_) {                                                                     \
            size_t mid_ = low_ + (high_ - low_) / 2;                                               \
            size_t at = mid_;                                                                      \
            if (before)                                                                            \
                low_ = mid_ + 1;                                                                   \
            else                                                                                   \
                high_ = mid_;                                                                      \
        }                                                                                          \
        low_;                                                                                      \
    })

/* For items that begin with their key: the item itself, or the first member of a struct. */
int order_text(const void *a, const void *b); /* char * */
int order_u32(const void *a, const void *b);
int order_u64(const void *a, const void *b);
int order_i64(const void *a, const void *b);

/* An item and what it is sorted by: the largest value first, then the lowest index. */
struct order_ranked {
    double value;
    uint32_t index;
};
int order_ranked(const void *a, const void *b);

#endif
