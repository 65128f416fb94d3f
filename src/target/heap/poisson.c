/* Computes exponentials and logarithms without libm: the target library depends only on libc. The
 * error is below 1e-13; tests/unit/target/heap/test_poisson.c compares it with libm. */
#include "target/heap/poisson.h"

#include <string.h>

static const double LN2 = 0.693147180559945309417232;

/* 1 - exp(-x), for x >= 0. */
static double hit_probability(double x)
{
    if (x > 40)
        return 1;
    int halvings = (int)(x / LN2 + 0.5);
    double r = x - halvings * LN2; /* within +-0.35 */
    /* 1 - exp(-r) = r - r^2/2! + r^3/3! - ..., by Horner: no cancellation where x is tiny */
    double sum = 0;
    for (int n = 16; n >= 1; n--)
        sum = (1 - sum) * r / n;
    double scale = 1;
    while (halvings-- > 0)
        scale /= 2;
    return 1 - scale + scale * sum;
}

struct piano__weight piano__poisson_weight(uint64_t size, uint64_t rate)
{
    struct piano__weight w = {(double)size, 1, 0};
    if (rate <= 1)
        return w;
    double p = hit_probability((double)(size ? size : 1) / (double)rate);
    w.bytes /= p;
    w.objects /= p;
    w.variance = w.bytes * w.bytes * (1 - p);
    return w;
}

static uint64_t rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

/* splitmix64: spreads any seed over all bits of the state. */
void piano__random_seed(struct piano__random *random, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        random->state[i] = z ^ z >> 31;
    }
}

uint64_t piano__random_next(struct piano__random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* -ln(u) for the uniform u = (bits + 1) / 2^53 in (0, 1]. */
static double exponential(uint64_t bits)
{
    double u = (double)(bits + 1);
    uint64_t as_int;
    memcpy(&as_int, &u, sizeof as_int);
    int power = (int)(as_int >> 52) - 1023;
    as_int = (as_int & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &as_int, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        power++;
    }
    /* ln m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172 */
    double s = (m - 1) / (m + 1);
    double square = s * s;
    double sum = 0;
    for (int n = 19; n >= 1; n -= 2)
        sum = sum * square + 1.0 / n;
    return (53 - power) * LN2 - 2 * s * sum;
}

uint64_t piano__poisson_gap(struct piano__random *random, uint64_t rate)
{
    if (rate <= 1)
        return 1;
    double gap = exponential(piano__random_next(random) >> 11) * (double)rate;
    if (gap >= 4e18)
        return (uint64_t)4e18;
    /* Rounded up, so that a block of k bytes is hit exactly if the gap is at most k. */
    uint64_t whole = (uint64_t)gap;
    return whole + ((double)whole < gap || whole == 0);
}
