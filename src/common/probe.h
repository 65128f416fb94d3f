/* The probe: what every instrumented function runs, and the only part of piano that is compiled
 * into other people's units. Its text is placed, as it stands, before their preprocessed source:
 * so no preprocessor directives here, and nothing but GNU C90 that is also C++.
 *
 * A probe has two paths. The short one is inline: the call is only counted, its time is taken from
 * the running estimate in the slot, and the slot becomes the owner of allocations. It runs while
 * `left` lasts. Everything else (timing, first call of a frame, unattached thread, recursion) is
 * `__piano_enter`, out of line. The value kept in the user's frame tells `__piano_leave` which path
 * was taken: an even value is the previous owner, an odd one names an entry of the span stack.
 *
 * The structs here are the heads of the runtime's own (span/thread.h); layouts are asserted there. */

struct __piano_fn {
    const char *name;
    const char *file;
    unsigned line;
    unsigned flags;
    unsigned long
        slot; /* byte offset of this function's slot in a thread block; ~0 = unregistered */
};

struct __piano_unit {
    unsigned version;
    unsigned count;
    struct __piano_fn *fns;
    const char *runs_dir;
    const char *frame_fn;
};

struct __piano_slot {
    long left;     /* calls that may still take the short path */
    long estimate; /* ticks of self time each of them stands for */
    long cost;     /* and of the probe's own, in 1/256 ticks */
};

struct __piano_thread {
    unsigned long limit;        /* slots below this offset may take the short path */
    struct __piano_slot *owner; /* who pays for allocations now */
    long attributed;            /* ticks given to functions so far */
    long overhead;              /* 1/256 ticks the probes themselves took so far */
};

extern __thread struct __piano_thread *__piano_self
    __attribute__((tls_model("initial-exec"), visibility("default")));
void __piano_register(struct __piano_unit *) __attribute__((visibility("default")));
void __piano_unregister(struct __piano_unit *) __attribute__((visibility("default")));
void *__piano_enter(struct __piano_fn *) __attribute__((visibility("default")));
void __piano_exit(void *) __attribute__((visibility("default")));

static __inline__ __attribute__((always_inline, unused)) void *__piano_begin(struct __piano_fn *fn)
{
    struct __piano_thread *self = __piano_self;
    unsigned long at = fn->slot;
    if (__builtin_expect(at < self->limit, 1)) {
        struct __piano_slot *slot = (struct __piano_slot *)((char *)self + at);
        if (__builtin_expect(slot->left > 0, 1)) {
            struct __piano_slot *before = self->owner;
            slot->left--;
            self->attributed += slot->estimate;
            self->overhead += slot->cost;
            self->owner = slot;
            __asm__ __volatile__("" ::: "memory");
            return before;
        }
    }
    return __piano_enter(fn);
}

static __inline__ __attribute__((always_inline, unused)) void __piano_leave(void *guard)
{
    void *kept = *(void **)guard;
    __asm__ __volatile__("" ::: "memory");
    if (__builtin_expect(((unsigned long)kept & 1) == 0, 1))
        __piano_self->owner = (struct __piano_slot *)kept;
    else
        __piano_exit(kept);
}
