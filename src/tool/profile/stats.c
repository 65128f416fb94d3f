/* Decides whether a difference is more than noise.
 *
 * Repeated runs: a t test. Unlike a comparison of ranges, it keeps its 5 % error rate for any
 * number of runs: two groups of three unchanged runs have separate ranges in one case of ten.
 * Welch's form does not assume equal variances. It is used only if the variances clearly differ,
 * because with three runs per side it flags 2.4 % instead of 5, and misses 19 of 100 changes of
 * 20 % where runs vary by 5 % (Student's: 8). If neither side varies (allocation counts), any
 * difference is real.
 *
 * One run per side: frames of one run are not independent, and differences between runs (memory
 * layout, other load) are invisible. The rank test on frames therefore also requires a minimum
 * effect: with a million frames every difference is significant, however small. */
#include "tool/profile/stats.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { MIN_FRAMES = 20 };

static const double EFFECT = 0.14; /* share of pairs of frames, above the 50 % of chance */
static const double UNLIKE = 19;   /* ratio of the variances from which they clearly differ */
static const double Z_99 = 2.5758;

double stats_mean(const double *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return n ? sum / (double)n : 0;
}

static double variance(const double *v, size_t n, double mean)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (v[i] - mean) * (v[i] - mean);
    return n > 1 ? sum / (double)(n - 1) : 0;
}

/* Two-sided 95 % point of Student's t. Between two rows it uses the lower (stricter) degree. */
static double t_limit(double degrees)
{
    static const struct {
        double degrees, limit;
    } rows[] = {{1, 12.706}, {2, 4.303},  {3, 3.182},  {4, 2.776},  {5, 2.571},  {6, 2.447},
                {7, 2.365},  {8, 2.306},  {9, 2.262},  {10, 2.228}, {12, 2.179}, {15, 2.131},
                {20, 2.086}, {30, 2.042}, {60, 2.000}, {120, 1.980}};
    double limit = rows[0].limit;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && rows[i].degrees <= degrees; i++)
        limit = rows[i].limit;
    return limit;
}

/* Degrees of freedom of a difference between means with variances VA and VB: Student's, or
 * Welch's if the variances clearly differ. */
static double degrees_of(double va, size_t na, double vb, size_t nb)
{
    double a = va * (double)na, b = vb * (double)nb;
    if (a < UNLIKE * b && b < UNLIKE * a && na == nb)
        return (double)(na + nb - 2);
    return (va + vb) * (va + vb) / (va * va / (double)(na - 1) + vb * vb / (double)(nb - 1));
}

enum verdict stats_t_test(const double *a, size_t na, const double *b, size_t nb)
{
    if (na < 2 || nb < 2)
        return VERDICT_UNKNOWN;
    double ma = stats_mean(a, na), mb = stats_mean(b, nb);
    double va = variance(a, na, ma) / (double)na, vb = variance(b, nb, mb) / (double)nb;
    if (va + vb <= 0)
        return ma == mb ? VERDICT_NOISE : VERDICT_REAL;
    double t = fabs(ma - mb) / sqrt(va + vb);
    return t > t_limit(degrees_of(va, na, vb, nb)) ? VERDICT_REAL : VERDICT_NOISE;
}

/* For a large bag the test needs only the values at the ranks 0, 1/STEPS .. 1. */
static size_t sorted_values(struct samples *s, double **out)
{
    enum { STEPS = 4096 };
    size_t n = s->count < STEPS ? (size_t)s->count : STEPS;
    double *v = calloc(n + 1, sizeof(*v));
    *out = v;
    if (!v)
        return 0;
    (void)samples_percentile(s, 0.5); /* sorts the exact values once */
    for (size_t i = 0; i < n; i++)
        v[i] = (double)samples_rank(
            s, (uint64_t)((double)i / (double)(n - 1) * (double)(s->count - 1)));
    return n;
}

/* Share of pairs in which B's value is larger; ties count half. */
static double share_above(const double *a, size_t na, const double *b, size_t nb)
{
    double wins = 0;
    size_t below = 0, up_to = 0;
    for (size_t i = 0; i < nb; i++) {
        while (below < na && a[below] < b[i])
            below++;
        while (up_to < na && a[up_to] <= b[i])
            up_to++;
        wins += (double)below + 0.5 * (double)(up_to - below);
    }
    return wins / ((double)na * (double)nb);
}

enum verdict stats_mann_whitney(struct samples *a, struct samples *b, bool *b_greater)
{
    double *va = NULL, *vb = NULL;
    if (a->count < MIN_FRAMES || b->count < MIN_FRAMES)
        return VERDICT_UNKNOWN;
    size_t na = sorted_values(a, &va), nb = sorted_values(b, &vb);
    enum verdict verdict = VERDICT_UNKNOWN;
    if (na > 0 && nb > 0) {
        double m = (double)a->count, n = (double)b->count;
        double share = share_above(va, na, vb, nb), off = fabs(share - 0.5);
        *b_greater = share > 0.5;
        double z = off * m * n / sqrt(m * n * (m + n + 1) / 12.0);
        verdict = z > Z_99 && off >= EFFECT ? VERDICT_REAL : VERDICT_NOISE;
    }
    free(va);
    free(vb);
    return verdict;
}
