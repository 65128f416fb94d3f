/* SHA-256 of texts in memory: a page's policy names its script and its style by their digests.
 *
 * The constants are the first 32 bits of the fractional parts of roots of the first primes. They
 * are computed here with integers, which is shorter than the table; the test of the digest verifies
 * them. */
#include "tool/view/sha256.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 64, ROUNDS = 64, WORDS = 8 };

/* First 32 bits of the fractional part of the ROOT-th (2 or 3) root of PRIME: the largest x with
 * x^ROOT <= prime * 2^(32 ROOT). The integer part of every root is small, so x has less than 40
 * bits, and its cube less than 128. */
static uint32_t fraction(unsigned prime, unsigned root)
{
    unsigned __int128 most = (unsigned __int128)prime << 32 * root;
    uint64_t x = 0;
    for (int bit = 37; bit >= 0; bit--) {
        unsigned __int128 more = x | (uint64_t)1 << bit;
        unsigned __int128 power = root == 2 ? more * more : more * more * more;
        if (power <= most)
            x = (uint64_t)more;
    }
    return (uint32_t)x;
}

static unsigned next_prime(unsigned after)
{
    for (unsigned n = after + 1;; n++) {
        bool prime = true;
        for (unsigned d = 2; d * d <= n && prime; d++)
            prime = n % d != 0;
        if (prime)
            return n;
    }
}

static uint32_t turn(uint32_t x, unsigned by)
{
    return x >> by | x << (32 - by);
}

static void take_block(uint32_t state[WORDS], const uint32_t k[ROUNDS], const unsigned char *block)
{
    uint32_t w[ROUNDS], v[WORDS];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof(v));
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t two =
            (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof(*v));
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < WORDS; i++)
        state[i] += v[i];
}

void sha256(unsigned char digest[SHA256_BYTES], const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    uint32_t state[WORDS], k[ROUNDS];
    unsigned char last[2 * BLOCK] = {0};
    unsigned prime = 1;
    for (int i = 0; i < ROUNDS; i++) {
        prime = next_prime(prime);
        k[i] = fraction(prime, 3);
        if (i < WORDS)
            state[i] = fraction(prime, 2);
    }
    size_t whole = len / BLOCK * BLOCK, rest = len - whole;
    for (size_t at = 0; at < whole; at += BLOCK)
        take_block(state, k, in + at);
    if (rest)
        memcpy(last, in + whole, rest);
    last[rest] = 0x80;
    size_t end = rest + 1 + 8 <= BLOCK ? BLOCK : 2 * (size_t)BLOCK;
    for (int i = 0; i < 8; i++)
        last[end - 1 - (size_t)i] = (unsigned char)((uint64_t)len * 8 >> 8 * i);
    for (size_t at = 0; at < end; at += BLOCK)
        take_block(state, k, last + at);
    for (int i = 0; i < SHA256_BYTES; i++)
        digest[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
}
