/* The state of the parser in symbol/rust.c. All functions do nothing once it has failed. */
#ifndef PIANO_TOOL_SYMBOL_RUST_NAME_H
#define PIANO_TOOL_SYMBOL_RUST_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "tool/util/buf.h"

struct rust_name {
    const char *text; /* after "_R" */
    size_t len, at;
    struct buf out;
    unsigned depth, steps;
    bool failed;
    unsigned silent;          /* > 0: read without printing */
    uint64_t bound_lifetimes; /* number bound by the enclosing `for<...>` */
};

struct rust_identifier {
    const char *text;
    size_t len;
    bool is_punycode;
};

/* The next letter, 0 at the end. `rust_next` consumes it; `rust_eat` consumes it if it is C. */
char rust_peek(const struct rust_name *n);
char rust_next(struct rust_name *n);
bool rust_eat(struct rust_name *n, char c);

void rust_put_bytes(struct rust_name *n, const char *bytes, size_t len);
void rust_put(struct rust_name *n, const char *text);
void rust_put_number(struct rust_name *n, uint64_t value);

/* Enters one nesting level; false: too deep. Call `rust_leave` in either case. */
bool rust_enter(struct rust_name *n);
void rust_leave(struct rust_name *n);

uint64_t rust_base62(struct rust_name *n);
/* An optional number after TAG: 0 if it is absent, else the number + 1. */
uint64_t rust_tagged(struct rust_name *n, char tag);
/* Follows a back-reference, after its "B" was read, to an earlier position. If true, the caller
 * must set `at` to BACK afterwards. */
bool rust_jump(struct rust_name *n, size_t *back);

struct rust_identifier rust_identifier(struct rust_name *n);
void rust_put_identifier(struct rust_name *n, const struct rust_identifier *id);

/* INDEX counts from the innermost bound lifetime, from 1; 0 is the erased lifetime `'_`. */
void rust_put_lifetime(struct rust_name *n, uint64_t index);
/* Reads an optional `for<'a, 'b> ` and returns the number of its lifetimes. */
uint64_t rust_binder(struct rust_name *n);

#endif
