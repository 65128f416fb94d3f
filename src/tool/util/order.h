/* Comparisons for qsort and bsearch. */
#ifndef PIANO_TOOL_UTIL_ORDER_H
#define PIANO_TOOL_UTIL_ORDER_H

/* -1, 0 or 1. With several keys: ORDER(a->tid, b->tid) ?: ORDER(a->at_ns, b->at_ns). */
#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* For items that begin with their key: the item itself, or the first member of a struct. */
int order_text(const void *a, const void *b); /* char * */
int order_u32(const void *a, const void *b);
int order_u64(const void *a, const void *b);
int order_i64(const void *a, const void *b);

#endif
