/* The probe: the code that every instrumented function runs, and the only part of piano that is
 * compiled into user code. This text is inserted unchanged before the preprocessed source. So it
 * must contain no preprocessor directives, and only GNU C90 that is also valid C++.
 *
 * A probe has two paths. The short path is inline: it only counts the call, charges the running
 * estimate in the function's head as its time, and makes the head the owner of allocations. It is
 * used while `left` lasts. Everything else (timing, first call of a frame, unattached thread,
 * recursion) is in `__piano_enter`, out of line. The value kept in the user's frame tells
 * `__piano_leave` which path was taken: an even value is the previous owner, an odd value
 * identifies an entry of the span stack.
 *
 * Heads are small and adjacent, and so are the offsets of a unit's heads. In a program with
 * thousands of instrumented functions, the number of cache lines that a call touches matters most.
 *
 * `struct __piano_thread` is the beginning of the runtime's own structure (span/thread.h asserts
 * this). */

/* Must change with any layout below. A runtime ignores units of another version. */
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
    int given;          /* `left` when the head was last settled */
    unsigned long each; /* what one such call stands for: ticks of self time in the upper half, and
                         * ticks of the probe itself in the lower half, in 1/256 */
};

struct __piano_thread {
    struct __piano_head none;   /* `left` is always 0 here: the head of unregistered functions */
    unsigned long limit;        /* heads below this offset may take the short path */
    struct __piano_head *owner; /* the head that allocations are charged to */
    unsigned long counted;      /* sum of `each` of the calls on the short path since the last call
                                 * on the other path */
};

extern __thread struct __piano_thread *__piano_self
    __attribute__((tls_model("initial-exec"), visibility("default")));
/* The same variable under a second name, for the end of a function. With one name the compiler
 * would keep its address in a register through the whole body, and save that register at calls. */
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
        __asm__ __volatile__("" ::: "memory"); /* else gcc keeps the old value, and emits no `sub`
                                                * on memory above */
        head->left++;
    }
    return __piano_enter(offset);
}

static __inline__ __attribute__((always_inline, unused)) void __piano_leave(void *guard)
{
    void *kept;
    /* Keeps the guard in memory. In a register for the length of a large function, it makes gcc
     * allocate all other registers differently (400 more instructions in SQLite's interpreter). */
    __asm__ __volatile__("" : "+m"(*(void **)guard) : : "memory");
    kept = *(void **)guard;
    if (__builtin_expect(((unsigned long)kept & 1) == 0, 1))
        __piano_self_then->owner = (struct __piano_head *)kept;
    else
        __piano_exit(kept);
}

/* Wraps every setjmp in an instrumented function. Ends the calls that a longjmp to it has
 * skipped. */
static __inline__ __attribute__((always_inline, unused)) int
__piano_landed(void *guard, const unsigned *at, int value)
{
    if (value != 0)
        __piano_land(guard, *at);
    return value;
}
