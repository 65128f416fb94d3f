/* Allocators that are linked into an executable: the names of their functions, and what piano knows
 * about one. The runtime hooks these functions (target/preload/own.c); the tool leaves them out when
 * it looks for the site of an allocation. */
#ifndef PIANO_COMMON_ALLOCATORS_H
#define PIANO_COMMON_ALLOCATORS_H

/* Whether the heap figures include an allocator in the executable. */
enum piano__own_state {
    PIANO_OWN_UNKNOWN = 0, /* nobody looked, or the executable has no symbol table */
    PIANO_OWN_NONE = 1,    /* it has none */
    PIANO_OWN_SEEN = 2,    /* it has one, and all its functions are hooked */
    PIANO_OWN_HIDDEN = 3,  /* it has one that cannot be hooked: the figures are not known */
};

enum piano__own_kind {
    PIANO_OWN_MALLOC = 0, /* a malloc of the program */
    PIANO_OWN_JEMALLOC = 1,
    PIANO_OWN_MIMALLOC = 2,
    PIANO_OWN_TCMALLOC = 3,
    PIANO_OWN_RUST = 4, /* a global allocator written in Rust */
    PIANO_OWN_KINDS
};

/* Why it is hidden. */
enum piano__own_reason {
    PIANO_OWN_NO_REASON = 0,
    PIANO_OWN_STRIPPED = 1, /* the executable has no symbol table */
    PIANO_OWN_CODE = 2,     /* its code cannot be replaced safely */
    PIANO_OWN_THREADS = 3,  /* threads were running already */
    PIANO_OWN_DENIED = 4,   /* the system does not allow to change code */
    PIANO_OWN_NO_ROOM = 5,  /* no free memory near the executable, or too many functions */
    PIANO_OWN_LATE = 6,     /* the runtime was loaded into a program that ran already */
    PIANO_OWN_REASONS
};

/* What a function does, as X(NAME, WHAT). WHAT also says where its arguments are:
 *
 *   TAKE          (size, ...)               TAKE_MANY    (count, size, ...)
 *   TAKE_IN       (any, size, ...)          TAKE_MANY_IN (any, count, size, ...)
 *   TAKE_AT       (&block, any, size): returns 0 if successful
 *   RESIZE        (block, size, ...)        RESIZE_MANY  (block, count, size, ...)
 *   RESIZE_IN     (any, block, size, ...)
 *   RESIZE_THERE  (block, size, ...): does not move; returns the size
 *   DROP          (block, ...)
 *   MEASURE       (block): not hooked, but called for the size of a block */
#define PIANO_ALLOCATOR_MALLOC(X)                                                                  \
    X(malloc, TAKE)                                                                                \
    X(calloc, TAKE_MANY)                                                                           \
    X(realloc, RESIZE)                                                                             \
    X(free, DROP)                                                                                  \
    X(cfree, DROP)                                                                                 \
    X(reallocarray, RESIZE_MANY)                                                                   \
    X(posix_memalign, TAKE_AT)                                                                     \
    X(aligned_alloc, TAKE_IN)                                                                      \
    X(memalign, TAKE_IN)                                                                           \
    X(valloc, TAKE)                                                                                \
    X(pvalloc, TAKE)                                                                               \
    X(free_sized, DROP)                                                                            \
    X(free_aligned_sized, DROP)                                                                    \
    X(mallocx, TAKE)                                                                               \
    X(rallocx, RESIZE)                                                                             \
    X(xallocx, RESIZE_THERE)                                                                       \
    X(dallocx, DROP)                                                                               \
    X(sdallocx, DROP)                                                                              \
    X(malloc_usable_size, MEASURE)

#define PIANO_ALLOCATOR_MIMALLOC(X)                                                                \
    X(malloc, TAKE)                                                                                \
    X(zalloc, TAKE)                                                                                \
    X(malloc_small, TAKE)                                                                          \
    X(zalloc_small, TAKE)                                                                          \
    X(calloc, TAKE_MANY)                                                                           \
    X(mallocn, TAKE_MANY)                                                                          \
    X(realloc, RESIZE)                                                                             \
    X(rezalloc, RESIZE)                                                                            \
    X(reallocn, RESIZE_MANY)                                                                       \
    X(recalloc, RESIZE_MANY)                                                                       \
    X(reallocarray, RESIZE_MANY)                                                                   \
    X(free, DROP)                                                                                  \
    X(cfree, DROP)                                                                                 \
    X(free_size, DROP)                                                                             \
    X(free_size_aligned, DROP)                                                                     \
    X(free_aligned, DROP)                                                                          \
    X(malloc_aligned, TAKE)                                                                        \
    X(malloc_aligned_at, TAKE)                                                                     \
    X(zalloc_aligned, TAKE)                                                                        \
    X(zalloc_aligned_at, TAKE)                                                                     \
    X(calloc_aligned, TAKE_MANY)                                                                   \
    X(calloc_aligned_at, TAKE_MANY)                                                                \
    X(realloc_aligned, RESIZE)                                                                     \
    X(realloc_aligned_at, RESIZE)                                                                  \
    X(rezalloc_aligned, RESIZE)                                                                    \
    X(posix_memalign, TAKE_AT)                                                                     \
    X(memalign, TAKE_IN)                                                                           \
    X(aligned_alloc, TAKE_IN)                                                                      \
    X(valloc, TAKE)                                                                                \
    X(pvalloc, TAKE)                                                                               \
    X(new, TAKE)                                                                                   \
    X(new_nothrow, TAKE)                                                                           \
    X(new_aligned, TAKE)                                                                           \
    X(new_aligned_nothrow, TAKE)                                                                   \
    X(new_n, TAKE_MANY)                                                                            \
    X(new_realloc, RESIZE)                                                                         \
    X(new_reallocn, RESIZE_MANY)                                                                   \
    X(heap_malloc, TAKE_IN)                                                                        \
    X(heap_zalloc, TAKE_IN)                                                                        \
    X(heap_malloc_small, TAKE_IN)                                                                  \
    X(heap_malloc_aligned, TAKE_IN)                                                                \
    X(heap_zalloc_aligned, TAKE_IN)                                                                \
    X(heap_calloc, TAKE_MANY_IN)                                                                   \
    X(heap_mallocn, TAKE_MANY_IN)                                                                  \
    X(heap_realloc, RESIZE_IN)                                                                     \
    X(heap_rezalloc, RESIZE_IN)                                                                    \
    X(theap_malloc, TAKE_IN)                                                                       \
    X(theap_zalloc, TAKE_IN)                                                                       \
    X(theap_malloc_small, TAKE_IN)                                                                 \
    X(theap_malloc_aligned, TAKE_IN)                                                               \
    X(theap_zalloc_aligned, TAKE_IN)                                                               \
    X(theap_calloc, TAKE_MANY_IN)                                                                  \
    X(theap_realloc, RESIZE_IN)                                                                    \
    X(usable_size, MEASURE)

#define PIANO_ALLOCATOR_TCMALLOC(X)                                                                \
    X(malloc, TAKE)                                                                                \
    X(malloc_skip_new_handler, TAKE)                                                               \
    X(calloc, TAKE_MANY)                                                                           \
    X(realloc, RESIZE)                                                                             \
    X(free, DROP)                                                                                  \
    X(cfree, DROP)                                                                                 \
    X(free_sized, DROP)                                                                            \
    X(posix_memalign, TAKE_AT)                                                                     \
    X(memalign, TAKE_IN)                                                                           \
    X(valloc, TAKE)                                                                                \
    X(pvalloc, TAKE)                                                                               \
    X(new, TAKE)                                                                                   \
    X(new_nothrow, TAKE)                                                                           \
    X(newarray, TAKE)                                                                              \
    X(newarray_nothrow, TAKE)                                                                      \
    X(new_aligned, TAKE)                                                                           \
    X(new_aligned_nothrow, TAKE)                                                                   \
    X(newarray_aligned, TAKE)                                                                      \
    X(newarray_aligned_nothrow, TAKE)                                                              \
    X(delete, DROP)                                                                                \
    X(delete_sized, DROP)                                                                          \
    X(delete_nothrow, DROP)                                                                        \
    X(deletearray, DROP)                                                                           \
    X(deletearray_sized, DROP)                                                                     \
    X(deletearray_nothrow, DROP)                                                                   \
    X(delete_aligned, DROP)                                                                        \
    X(delete_sized_aligned, DROP)                                                                  \
    X(delete_aligned_nothrow, DROP)                                                                \
    X(deletearray_aligned, DROP)                                                                   \
    X(deletearray_sized_aligned, DROP)                                                             \
    X(deletearray_aligned_nothrow, DROP)                                                           \
    X(malloc_size, MEASURE)

/* C++'s operators. */
#define PIANO_ALLOCATOR_CXX(X)                                                                     \
    X(_Znwm, TAKE)                                                                                 \
    X(_Znam, TAKE)                                                                                 \
    X(_ZnwmRKSt9nothrow_t, TAKE)                                                                   \
    X(_ZnamRKSt9nothrow_t, TAKE)                                                                   \
    X(_ZnwmSt11align_val_t, TAKE)                                                                  \
    X(_ZnamSt11align_val_t, TAKE)                                                                  \
    X(_ZnwmSt11align_val_tRKSt9nothrow_t, TAKE)                                                    \
    X(_ZnamSt11align_val_tRKSt9nothrow_t, TAKE)                                                    \
    X(_ZdlPv, DROP)                                                                                \
    X(_ZdaPv, DROP)                                                                                \
    X(_ZdlPvm, DROP)                                                                               \
    X(_ZdaPvm, DROP)                                                                               \
    X(_ZdlPvRKSt9nothrow_t, DROP)                                                                  \
    X(_ZdaPvRKSt9nothrow_t, DROP)                                                                  \
    X(_ZdlPvSt11align_val_t, DROP)                                                                 \
    X(_ZdaPvSt11align_val_t, DROP)                                                                 \
    X(_ZdlPvmSt11align_val_t, DROP)                                                                \
    X(_ZdaPvmSt11align_val_t, DROP)                                                                \
    X(_ZdlPvSt11align_val_tRKSt9nothrow_t, DROP)                                                   \
    X(_ZdaPvSt11align_val_tRKSt9nothrow_t, DROP)

#endif
