/* A name in Rust's mangling, while it is read: symbol/rust.c. All do nothing once it has failed. */
#ifndef PIANO_TOOL_SYMBOL_RUST_NAME_H
#define PIANO_TOOL_SYMBOL_RUST_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/util/buf.h"

struct rust_name {
    const char *text; /* behind "_R" */
    size_t len, at;
    struct buf out;
    unsigned depth, steps;
    bool failed;
    unsigned silent;          /* not 0: read, and not shown */
    uint64_t bound_lifetimes; /* by the `for<...>` around */
};

struct rust_identifier {
    const char *text;
    size_t len;
    bool is_punycode;
};

/* The next letter, 0 at the end; with `next` it is used up, with `eat` if it is C. */
char rust_peek(const struct rust_name *n);
char rust_next(struct rust_name *n);
bool rust_eat(struct rust_name *n, char c);

void rust_put_bytes(struct rust_name *n, const char *bytes, size_t len);
void rust_put(struct rust_name *n, const char *text);
void rust_put_number(struct rust_name *n, uint64_t value);

/* One level deeper; false: that is too deep. Each is left by `rust_leave`, in any case. */
bool rust_enter(struct rust_name *n);
void rust_leave(struct rust_name *n);

uint64_t rust_base62(struct rust_name *n);
/* A number that may be left out, behind TAG: 0 then, else 1 more than it. */
uint64_t rust_tagged(struct rust_name *n, char tag);
/* Behind a "B": to the place before it that is meant. True: there, until `at` is set to BACK. */
bool rust_jump(struct rust_name *n, size_t *back);

struct rust_identifier rust_identifier(struct rust_name *n);
void rust_put_identifier(struct rust_name *n, const struct rust_identifier *id);

/* By its distance from the innermost one; 0 is one that has no name. */
void rust_put_lifetime(struct rust_name *n, uint64_t index);
/* `for<'a, 'b> `, if there is one: how many it has. */
uint64_t rust_binder(struct rust_name *n);

#endif
