/* The probe: what every instrumented function runs, and the only part of piano that is compiled
 * into other people's units. Its text is placed, as it stands, before their preprocessed source:
 * so no preprocessor directives here, and nothing but GNU C90 that is also C++.
 *
 * A probe has two paths. The short one is inline: the call is only counted, its time is taken from
 * the running estimate in the function's head, which becomes the owner of allocations. It runs while
 * `left` lasts. Everything else (timing, first call of a frame, unattached thread, recursion) is
 * `__piano_enter`, out of line. The value kept in the user's frame tells `__piano_leave` which path
 * was taken: an even value is the previous owner, an odd one names an entry of the span stack.
 *
 * Heads are small and lie together, and so do the offsets of a unit's heads: in a program with thousands of
 * instrumented functions what matters is how many cache lines a call touches.
 *
 * `struct __piano_thread` is the beginning of the runtime's own (span/thread.h asserts it). */

/* Changes with any layout below: a runtime leaves units of another one alone. */
enum { __piano_abi = 5 };

struct __piano_fn {
    const char *name;
    const char *file;
    unsigned line;
    unsigned flags;
};

struct __piano_unit {
    unsigned version;
    unsigned count;
    struct __piano_fn *fns;
    unsigned *heads; /* byte offsets of the functions' heads in a thread block; 0 = unregistered */
    const char *runs_dir;
    const char *frame_fn;
};

struct __piano_head {
    int left;           /* calls that may still take the short path */
    int given;          /* `left` when it was last settled */
    unsigned long each; /* what one of them stands for: ticks of self time in the upper half, below
                           those of the probe itself, in 1/256 */
};

struct __piano_thread {
    struct __piano_head none;   /* never has anything left: the head of an unregistered function */
    unsigned long limit;        /* heads below this offset may take the short path */
    struct __piano_head *owner; /* who pays for allocations now */
    unsigned long counted;      /* `each` of all calls that took the short path since the last that
                                   did not */
};

extern __thread struct __piano_thread *__piano_self
    __attribute__((tls_model("initial-exec"), visibility("default")));
/* The same, for the end of a function: under one name, the compiler would keep where it is in a
 * register all through the body, and save that register at every call. */
extern __thread struct __piano_thread *__piano_self_then
    __attribute__((tls_model("initial-exec"), visibility("default")));
void __piano_register(struct __piano_unit *) __attribute__((visibility("default")));
void __piano_unregister(struct __piano_unit *) __attribute__((visibility("default")));
void *__piano_enter(unsigned) __attribute__((visibility("default"), noplt));
void __piano_exit(void *) __attribute__((visibility("default"), noplt));
void __piano_land(void *, unsigned) __attribute__((visibility("default")));

static __inline__ __attribute__((always_inline, unused)) void *__piano_begin(const unsigned *at)
{
    struct __piano_thread *self = __piano_self;
    unsigned offset = *at;
    if (__builtin_expect(offset < self->limit, 1)) {
        struct __piano_head *head = (struct __piano_head *)(void *)((char *)self + offset);
        if (__builtin_expect(--head->left >= 0, 1)) {
            struct __piano_head *before = self->owner;
            self->counted += head->each;
            self->owner = head;
            __asm__ __volatile__("" ::: "memory");
            return before;
        }
        __asm__ __volatile__("" ::: "memory"); /* or gcc keeps the old value, and has no `sub` of memory above */
        head->left++;
    }
    return __piano_enter(offset);
}

static __inline__ __attribute__((always_inline, unused)) void __piano_leave(void *guard)
{
    void *kept;
    /* The guard stays in memory: in a register, for the length of a large function, it makes gcc
     * place everything else anew (400 instructions more in SQLite's interpreter). */
    __asm__ __volatile__("" : "+m"(*(void **)guard) : : "memory");
    kept = *(void **)guard;
    if (__builtin_expect(((unsigned long)kept & 1) == 0, 1))
        __piano_self_then->owner = (struct __piano_head *)kept;
    else
        __piano_exit(kept);
}

/* Around every setjmp of an instrumented function: what was entered since and jumped over is over. */
static __inline__ __attribute__((always_inline, unused)) int
__piano_landed(void *guard, const unsigned *at, int value)
{
    if (value != 0)
        __piano_land(guard, *at);
    return value;
}
