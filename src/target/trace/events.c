/* Writes an event: checks the gate, checks for room, reads the clock, stores some bytes, and raises
 * `used` of the chunk. Until a chunk is full (buffers.c), this shares nothing between threads and
 * makes no system call.
 *
 * `used` is stored last, with release. However the program ends, an event below `used` is complete,
 * and anything above it is ignored.
 *
 * SIGNALS. `inside` is set around everything that an event changes. A signal handler that finds it
 * set drops its own event. A handler that jumps away ends the interrupted event (`is_left`). A
 * handler that forks leaves its child in the middle of an event, so its memory must stay
 * (`piano__events_forget`). */
#include "target/trace/events.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>

#include "piano.h"
#include "target/record/control.h"
#include "target/record/modules.h"
#include "target/record/session.h"
#include "target/sys/clock.h"
#include "target/sys/key.h"
#include "target/sys/lock.h"
#include "target/trace/buffers.h"
#include "target/trace/names.h"
#include "target/record/stats.h"
#include "target/trace/threads.h"

#define unlikely(x) __builtin_expect(!!(x), 0)

/* Values of the gate when it is open: one load also tells which clock to use, and in the bits above
 * CLOCKS which session it is (record/session.h). */
enum { BY_KERNEL = 1, BY_COUNTER = 2, CLOCKS = 3 };

__thread struct piano__events_self piano__events_self;

static pthread_key_t end_key;
static bool have_end_key;
static bool interrupted; /* a fork interrupted an event: no more events */

static bool is_current(const struct piano__events_self *self)
{
    /* Pairs with the release in piano__gate_set(), like piano__events_on(). */
    return self->gate == __atomic_load_n(&piano__gate->events, __ATOMIC_ACQUIRE);
}

/* Gives the buffer back, for the next thread. Destructors that run later may write events, and then
 * get another buffer. The last round of destructors is too late to give that one back. */
static void end_of_thread(void *of)
{
    struct piano__events_self *self = of;
    struct piano__buffer *b = self->buffer;
    self->rounds++;
    if (!b || !piano__events_on() || !is_current(self))
        return;
    int saved = errno;
    if (self->waiting)
        piano__events_unpark(-1); /* it was cancelled there */
    self->waiting = 0;
    self->inside = piano__stack_pointer();
    /* As in enter() and leave(): orders `inside` for a signal handler. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (is_current(self)) {
        piano__threads_note(self);
        piano__buffers_give(b);
    }
    self->buffer = NULL;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self->inside = 0;
    errno = saved;
}

__attribute__((constructor(101))) static void make_key(void)
{
    have_end_key = piano__key_create(&end_key, end_of_thread);
}

/* Returns whether a signal handler has jumped out of the event that is marked as being written.
 * Then clears the mark. What that event wrote is not below `used`. */
static __attribute__((noinline, cold)) bool is_left(struct piano__events_self *self, uintptr_t here)
{
    if (!piano__stack_is_left(&self->stack, self->inside, here))
        return false;
    if (self->buffer)
        piano__buffer_repair(self->buffer);
    self->inside = 0;
    return true;
}

/* `inside` is set. The gate has another value than at this thread's last event: it was shut since,
 * or this is another recording. Returns the new value; 0: it is shut. */
static __attribute__((noinline, cold)) uint32_t renew(struct piano__events_self *self,
                                                      uint32_t gate)
{
    if (!gate) {
        self->inside = 0;
        return 0;
    }
    if (__atomic_load_n(&piano__session_is_shared, __ATOMIC_RELAXED))
        piano__session_watch(PIANO_SESSION_EVENTS, &self->inside);
    self->buffer = NULL;
    self->tid = 0;
    self->name[0] = '\0';
    self->gate = gate;
    return gate;
}

/* The thread marks that it is inside, and reads the gate again: pairs with the membarrier in
 * piano__session_wait(). Returns which clock to use; 0: no event. */
static inline uint32_t check_gate(struct piano__events_self *self)
{
    /* Pairs with the release in piano__gate_set(), like piano__events_on(). */
    uint32_t gate = __atomic_load_n(&piano__gate->events, __ATOMIC_ACQUIRE);
    if (unlikely(gate != self->gate))
        gate = renew(self, gate);
    return gate & CLOCKS;
}

/* Begins an event. Returns which clock to use; 0: no event. */
static inline uint32_t enter(struct piano__events_self *self)
{
    /* Pairs with the release in piano__gate_set(), like piano__events_on(). */
    if (!__atomic_load_n(&piano__gate->events, __ATOMIC_ACQUIRE))
        return 0;
    if (unlikely(self->inside) && !is_left(self, piano__stack_pointer())) {
        piano__trace_add(&piano__trace_stats()->dropped_busy, 1);
        return 0;
    }
    self->inside = piano__stack_pointer();
    /* A signal handler sees `inside` before any change. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return check_gate(self);
}

static inline void leave(struct piano__events_self *self)
{
    /* As in enter(): all changes come before `inside` is cleared. */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    self->inside = 0;
}

static inline uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    while (unlikely(value >= 0x80)) {
        *at++ = (uint8_t)value | 0x80;
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Most events of a server come some hundred to some thousand ticks after the previous one: two
 * bytes, and no loop. */
static inline uint8_t *put_ticks(uint8_t *at, uint64_t ticks)
{
    if (unlikely(ticks - 0x80 >= 0x4000 - 0x80))
        return put_varint(at, ticks);
    at[0] = (uint8_t)ticks | 0x80;
    at[1] = (uint8_t)(ticks >> 7);
    return at + 2;
}

/* The fields of an event: the first `count`. Passed by value, so that they stay in registers. */
struct fields {
    uint64_t count;
    uint64_t at[PIANO_EVENT_FIELDS];
};

/* The fields of event CODE, as many as common/events.h lists. */
#define FIELDS(code, ...)                                                                          \
    ({                                                                                             \
        _Static_assert(sizeof((uint64_t[]){0, ##__VA_ARGS__}) ==                                   \
                           sizeof(uint64_t[1 + PIANO_EVENT_FIELDS_##code]),                        \
                       "the number of fields of " #code);                                          \
        (struct fields){PIANO_EVENT_FIELDS_##code, {__VA_ARGS__}};                                 \
    })

/* Writes an event. W must have room. */
static inline __attribute__((always_inline)) void put(struct piano__writer *w, int64_t ticks,
                                                      enum piano__event_code code, struct fields f)
{
    uint64_t now = (uint64_t)ticks;
    uint8_t *start = w->at;
    /* The counters of two processors may differ by some ticks. Then time stands still. */
    uint64_t since = now > w->ticks ? now - w->ticks : 0;
    uint8_t *at = put_ticks(start + 2, since);
    if (f.count > 0)
        at = put_varint(at, f.at[0]);
    if (f.count > 1)
        at = put_varint(at, f.at[1]);
    if (f.count > 2)
        at = put_varint(at, f.at[2]);
    start[0] = (uint8_t)code;
    start[1] = (uint8_t)(at - start - 2);
    w->at = at;
    w->ticks += since;
    __atomic_store_n(&w->events, w->events + 1, __ATOMIC_RELAXED);
    /* Pairs with the acquire in tool/load/recording.c: the event is complete. */
    __atomic_store_n(&w->chunk->used, (uint64_t)(at - (uint8_t *)(w->chunk + 1)), __ATOMIC_RELEASE);
}

/* The events before this one in a chunk may be of another thread. */
static void put_thread(struct piano__writer *w, uint32_t tid)
{
    if (!piano__writer_is_full(w))
        put(w, piano__ticks(), PIANO_EVENT_THREAD, FIELDS(THREAD, tid));
}

static struct piano__buffer *attach(struct piano__events_self *self)
{
    if (self->rounds >= PTHREAD_DESTRUCTOR_ITERATIONS)
        return NULL;
    struct piano__buffer *b = piano__buffers_take();
    if (!b)
        return NULL;
    piano__threads_note(self);
    self->buffer = b;
    if (have_end_key)
        pthread_setspecific(end_key, self);
    put_thread(&b->ring, self->tid);
    put_thread(&b->log, self->tid);
    return b;
}

/* Returns room in the ring; NULL if there is none. */
static struct piano__writer *make_ring_room(struct piano__events_self *self,
                                            struct piano__buffer *b)
{
    if (b && piano__writer_is_full(&b->ring)) {
        piano__threads_note(self);
        if (!piano__buffers_renew(b, self->tid))
            b = NULL;
    }
    if (!b)
        piano__trace_add(&piano__trace_stats()->dropped_memory, 1);
    return b ? &b->ring : NULL;
}

/* Slow path: returns room for an event, in the log if it is a definition; NULL if there is none. */
static __attribute__((noinline)) struct piano__writer *make_room(struct piano__events_self *self,
                                                                 bool is_definition)
{
    int saved = errno;
    if (piano__control_is_ended()) {
        piano__buffers_count();
        piano__gate_set(&piano__gate->events, 0);
        return NULL;
    }
    struct piano__buffer *b = self->buffer ? self->buffer : attach(self);
    struct piano__writer *w = b && is_definition ? &b->log : NULL;
    if (w && piano__writer_is_full(w) && !piano__buffers_renew_log(b, self->tid)) {
        piano__trace_add(&piano__trace_stats()->definitions_in_ring, 1);
        w = NULL;
    }
    if (!w)
        w = make_ring_room(self, b);
    errno = saved;
    return w;
}

/* Tasks and workers have names as long as the program runs, however many polls there are. */
static inline bool is_definition(enum piano__event_code code)
{
    return code == PIANO_EVENT_WORKER_START || code == PIANO_EVENT_WORKER_STOP ||
           code == PIANO_EVENT_TASK_SPAWN || code == PIANO_EVENT_TASK_END;
}

static void put_at(struct piano__events_self *self, int64_t ticks, enum piano__event_code code,
                   struct fields f)
{
    struct piano__writer *w = make_room(self, is_definition(code));
    if (w)
        put(w, ticks, code, f);
}

static __attribute__((noinline, cold)) void write_slowly(struct piano__events_self *self,
                                                         enum piano__event_code code,
                                                         uint64_t count, uint64_t a, uint64_t b,
                                                         uint64_t c)
{
    put_at(self, piano__ticks(), code, (struct fields){count, {a, b, c}});
    leave(self);
}

/* Makes no call except a tail call, so the fast path needs no stack frame. */
static inline __attribute__((always_inline)) void write_event(struct piano__events_self *self,
                                                              uint32_t clock,
                                                              enum piano__event_code code,
                                                              struct fields f)
{
    struct piano__buffer *b = self->buffer;
    struct piano__writer *w = b && is_definition(code) ? &b->log : b ? &b->ring : NULL;
    if (unlikely(!w || piano__writer_is_full(w) || clock != BY_COUNTER)) {
        write_slowly(self, code, f.count, f.at[0], f.at[1], f.at[2]);
        return;
    }
    put(w, piano__counter(), code, f);
    leave(self);
}

#define EVENT(code, ...)                                                                           \
    do {                                                                                           \
        struct piano__events_self *self_ = &piano__events_self;                                    \
        uint32_t clock_ = enter(self_);                                                            \
        if (clock_)                                                                                \
            write_event(self_, clock_, PIANO_EVENT_##code, FIELDS(code, ##__VA_ARGS__));           \
    } while (0)

void piano__events_worker_start(uint64_t worker, const char *name)
{
    struct piano__events_self *self = &piano__events_self;
    uint32_t clock = enter(self);
    if (!clock)
        return;
    int saved = errno;
    if (self->buffer)
        piano__threads_note(self);
    errno = saved;
    uint32_t number = piano__names_intern(name);
    write_event(self, clock, PIANO_EVENT_WORKER_START, FIELDS(WORKER_START, worker, number));
}

void piano__events_worker_stop(void)
{
    EVENT(WORKER_STOP);
}

void piano__events_task_spawn(uint64_t task, const char *name, const char *place)
{
    EVENT(TASK_SPAWN, task, piano__names_intern(name), piano__names_intern(place));
}

void piano__events_task_spawn_by(uint64_t task, uint32_t name, uint32_t place)
{
    EVENT(TASK_SPAWN, task, name, place);
}

void piano__events_task_end(uint64_t task)
{
    EVENT(TASK_END, task);
}

void piano__events_poll_begin(uint64_t task)
{
    EVENT(POLL_BEGIN, task, 0);
}

void piano__events_callback_begin(uint64_t task, const char *name, uintptr_t function)
{
    EVENT(POLL_BEGIN, task, piano__names_intern_at(name, function));
}

void piano__events_callback_begin_by(uint64_t task, uint32_t name)
{
    EVENT(POLL_BEGIN, task, name);
}

void piano__events_poll_end(void)
{
    EVENT(POLL_END);
}

void piano__events_poll_ended(int64_t ticks, enum piano__park behind)
{
    struct piano__events_self *self = &piano__events_self;
    if (!enter(self))
        return;
    put_at(self, ticks, PIANO_EVENT_POLL_END, FIELDS(POLL_END));
    if (behind)
        put_at(self, ticks, PIANO_EVENT_PARK, FIELDS(PARK, behind));
    leave(self);
}

void piano__events_park(enum piano__park kind)
{
    EVENT(PARK, kind);
}

void piano__events_unpark(int64_t result)
{
    EVENT(UNPARK, result < 0 ? 0 : (uint64_t)result + 1);
}

void piano__events_wake(uint64_t task)
{
    EVENT(WAKE, task);
}

void piano__events_queue(uint64_t queue, uint64_t depth)
{
    EVENT(QUEUE, queue, depth);
}

void piano__events_mark(const char *name)
{
    EVENT(MARK, piano__names_intern(name));
}

void piano__events_value(const char *name, int64_t value)
{
    EVENT(VALUE, piano__names_intern(name), piano__zigzag(value));
}

uint32_t piano__events_name(const char *name)
{
    struct piano__events_self *self = &piano__events_self;
    if (!piano__events_on() || (self->inside && !is_left(self, piano__stack_pointer())))
        return 0;
    self->inside = piano__stack_pointer();
    /* As in enter(). */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    uint32_t number = check_gate(self) ? piano__names_intern(name) : 0;
    leave(self);
    return number;
}

/* The interface for programs. The rest is in public.c. These are called for every poll, so they are
 * aliases. */
#define SAME_AS(function) __attribute__((alias(#function), visibility("default")))
void piano_poll_begin(uint64_t task) SAME_AS(piano__events_poll_begin);
void piano_poll_end(void) SAME_AS(piano__events_poll_end);
void piano_wake(uint64_t task) SAME_AS(piano__events_wake);

static void forget(void)
{
    piano__names_forget();
    piano__threads_forget();
    piano__buffers_forget();
    memset(&piano__events_self, 0, sizeof piano__events_self);
}

static int start(uint64_t max_bytes)
{
    if (piano__events_on())
        return -EALREADY;
    if (interrupted)
        return -ENOTSUP;
    int err = piano__control_open();
    if (err != 0)
        return err;
    /* Makes the system calls of a first event now. The program may later restrict its system calls,
     * and then be killed for one that it does not expect. */
    if (!piano__names_init(PIANO_NAMES) || !piano__buffers_init(max_bytes) ||
        !piano__threads_init(max_bytes ? max_bytes : PIANO_EVENTS_MAX) ||
        !make_room(&piano__events_self, false)) {
        forget();
        piano__control_abandon();
        return -ENOMEM;
    }
    piano__modules_note(getauxval(AT_ENTRY)); /* the program itself */
    piano__control_started(PIANO_REC_HAS_EVENTS);
    piano__events_self.gate = __atomic_load_n(&piano__session, __ATOMIC_RELAXED) << 2 |
                              (uint32_t)(piano__clock_is_counter ? BY_COUNTER : BY_KERNEL);
    piano__gate_set(&piano__gate->events, piano__events_self.gate);
    return 0;
}

int piano__events_start(uint64_t max_bytes)
{
    if (!piano__lock_try(&piano__control_changing))
        return -EBUSY;
    int err = start(max_bytes);
    piano__lock_release(&piano__control_changing);
    return err;
}

void piano__events_end(void)
{
    if (piano__events_on())
        piano__buffers_count();
}

bool piano__events_forget(void)
{
    struct piano__events_self *self = &piano__events_self;
    interrupted = interrupted || (self->inside && !is_left(self, piano__stack_pointer()));
    if (!interrupted)
        forget();
    return interrupted;
}
