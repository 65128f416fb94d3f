/* Frames that are turns of a loop: `for (;;) { poll_events(); update(); render(); }`.
 *
 * Here no single call is the frame. A turn goes from begin to begin of the function that starts the
 * cycle, and includes what the caller did between the calls. levels.c has chosen the depth and the
 * caller. This file examines the sequence of calls there, one thread at a time.
 *
 * THE RULE. A function divides the sequence into turns that each begin with a call of it. It can
 * start a cycle if there are three turns or more and some other function is regular in them: it is
 * in at least seven of eight turns, and its number of calls per turn varies little (standard
 * deviation at most half of the mean, or a tenth if the mean is above 2). Of several such
 * functions, the one with the most turns starts the cycle; of those with about as many (nine
 * tenths), the one called first. Other functions may be irregular: called twice in a turn, or in
 * every hundredth turn. A function that takes almost no time does not group several calls of
 * another into one turn, e.g. a random number drawn for every tenth frame. Functions called in
 * random order fail the tests: between two calls of A, B is missing in pA / (pA + pB) of the cases,
 * and if that is an eighth or less, the number of calls of B varies as much as its mean. Such calls
 * stay frames of their own.
 *
 * The calls in turns must take half of the time of all calls in the sequence. There may be another
 * cycle before the first turn and after the last one. Calls there that are in no turn are not
 * frames.
 *
 * The last turn ends with its last call of a function that earlier turns also had, and has no more
 * calls than the longest of these.
 *
 * Merged calls have no line and no begin, so turns cannot be assembled. The calls of such a thread
 * stay frames of their own kinds. */
#include "tool/load/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/order.h"
#include "tool/util/vec.h"

enum {
    LEAST_TURNS = 3,
    MISSING_PART = 8,    /* a regular function is missing in at most 1/8 of the turns */
    NEARLY_TENTHS = 9,   /* as many turns as another function: nine tenths */
    MAX_CANDIDATES = 32, /* functions tried as the start of a cycle */
    ASIDE_PART = 1000,   /* a function that takes less than 1/1000 of another's time */
    MAX_NESTING = 16,    /* cycles before and after a cycle */
};

struct call {
    size_t line;     /* index */
    size_t position; /* in the lines of the lane */
    uint32_t root;   /* number among the functions of the sequence */
};

/* Counts for one function while another one is tried as the start. */
struct root {
    uint32_t row;
    size_t first; /* first call */
    uint64_t calls;
    uint64_t turn; /* 1 + the last turn it was seen in */
    uint64_t present, in_turn;
    double sum, squares;
    int64_t wall; /* of all its calls */
    bool demoted; /* sampled later: not all its begins are known */
};

struct finder {
    struct reader *r;
    const struct turns_lane *lane;
    struct turns *turns;
    struct call *calls;
    size_t count;
    struct root *roots;
    size_t root_count;
    uint32_t *number_of; /* row -> 1 + index in roots */
    bool dry;            /* roles are not known and not changed */
};

static const struct line *line_of(const struct finder *f, size_t call)
{
    return &f->r->lines[f->calls[call].line];
}

static uint32_t row_of(const struct reader *r, uint32_t id)
{
    return id >= r->id_count ? RUN_NO_FN : r->fn_of_id[id];
}

static bool is_at_level(const struct finder *f, const struct line *l)
{
    return (l->kind == LINE_FRAME || l->kind == LINE_MERGED) && l->depth == f->lane->level &&
           row_of(f->r, l->under) == f->lane->under;
}

/* Collects the calls at the level of the lane. Returns false if there can be no turns. */
static bool collect(struct finder *f)
{
    int64_t before = INT64_MIN;
    for (size_t i = 0; i < f->lane->count; i++) {
        const struct line *l = &f->r->lines[f->lane->lines[i]];
        if (!is_at_level(f, l))
            continue;
        if (l->kind == LINE_MERGED && l->role != ROLE_MERGED && !f->dry)
            continue; /* the function is sampled now */
        if (l->kind == LINE_MERGED || l->root == RUN_NO_FN || l->start_ns < 0 || l->wall_ns < 0 ||
            l->start_ns < before)
            return false;
        before = saturating_add(l->start_ns, l->wall_ns);
        f->calls[f->count++] = (struct call){f->lane->lines[i], i, row_of(f->r, l->root)};
    }
    return f->count > LEAST_TURNS;
}

/* Numbers the functions called in FROM..TO. */
static void number_roots(struct finder *f, size_t from, size_t to)
{
    f->root_count = 0;
    for (size_t i = from; i < to; i++) {
        uint32_t row = row_of(f->r, line_of(f, i)->root);
        uint32_t *number = &f->number_of[row];
        if (!*number) {
            f->roots[f->root_count] = (struct root){.row = row, .first = i};
            *number = (uint32_t)++f->root_count;
        }
        f->calls[i].root = *number - 1;
        struct root *r = &f->roots[*number - 1];
        r->calls++;
        r->wall = saturating_add(r->wall, line_of(f, i)->wall_ns);
        f->roots[*number - 1].demoted |=
            f->lane->demoted_until && f->calls[i].line < f->lane->demoted_until[row];
    }
    for (size_t k = 0; k < f->root_count; k++)
        f->number_of[f->roots[k].row] = 0;
}

static void end_turn(struct root *r)
{
    r->sum += (double)r->in_turn;
    r->squares += (double)r->in_turn * (double)r->in_turn;
    r->present += r->in_turn > 0;
    r->in_turn = 0;
}

/* Returns whether R is regular in TURNS turns. */
static bool is_regular(const struct root *r, uint64_t turns)
{
    double mean = r->sum / (double)turns;
    double variance = r->squares / (double)turns - mean * mean;
    double spread = mean > 2 ? 0.1 : 0.5;
    return (turns - r->present) * MISSING_PART <= turns &&
           variance <= mean * mean * spread * spread;
}

/* S is called occasionally between calls of R and takes almost no time: the calls of R are the
 * frames. */
static bool is_aside(const struct root *s, const struct root *r)
{
    return r->calls > s->calls + s->calls / 2 && s->wall < r->wall / ASIDE_PART;
}

/* Returns whether function S can start a cycle in FROM..TO. Ignores the last turn, which may be
 * partial. */
static bool starts_cycle(struct finder *f, uint32_t s, size_t to)
{
    uint64_t turns = f->roots[s].calls - 1, turn = 0;
    if (turns + 1 < LEAST_TURNS)
        return false;
    for (size_t k = 0; k < f->root_count; k++) {
        struct root *r = &f->roots[k];
        r->turn = r->present = r->in_turn = 0;
        r->sum = r->squares = 0;
    }
    for (size_t i = f->roots[s].first; i < to; i++) {
        struct root *r = &f->roots[f->calls[i].root];
        turn += f->calls[i].root == s;
        if (turn > turns)
            break;
        if (r->turn != turn)
            end_turn(r);
        r->turn = turn;
        r->in_turn++;
    }
    for (size_t k = 0; k < f->root_count; k++) {
        end_turn(&f->roots[k]);
        if (k != s && is_regular(&f->roots[k], turns) && !is_aside(&f->roots[s], &f->roots[k]))
            return true;
    }
    return false;
}

/* Returns the untried function with the most calls; RUN_NO_FN if there is none. */
static uint32_t next_candidate(const struct finder *f, const bool *tried)
{
    uint32_t best = RUN_NO_FN;
    for (uint32_t k = 0; k < f->root_count; k++)
        if (!tried[k] && !f->roots[k].demoted && f->roots[k].calls >= LEAST_TURNS &&
            (best == RUN_NO_FN || f->roots[k].calls > f->roots[best].calls))
            best = k;
    return best;
}

/* Returns the number of the function that starts the cycle in FROM..TO; RUN_NO_FN if there is no
 * cycle. */
static uint32_t find_starter(struct finder *f, size_t from, size_t to)
{
    number_roots(f, from, to);
    bool *tried = calloc(f->root_count + 1, sizeof(*tried));
    uint32_t found = RUN_NO_FN;
    uint64_t most = 0;
    for (int i = 0; tried && f->root_count > 1 && i < MAX_CANDIDATES; i++) {
        uint32_t s = next_candidate(f, tried);
        if (s == RUN_NO_FN || f->roots[s].calls * 10 < most * NEARLY_TENTHS)
            break;
        tried[s] = true;
        if (!starts_cycle(f, s, to))
            continue;
        if (found == RUN_NO_FN)
            most = f->roots[s].calls;
        if (found == RUN_NO_FN || f->roots[s].first < f->roots[found].first)
            found = s;
    }
    free(tried);
    return found;
}

/* Returns the index after the last call of the last turn, which begins with call LAST. It has no
 * more calls than the longest of the others: code after the loop may call the same functions. */
static size_t end_of_last(const struct finder *f, size_t first, size_t last, size_t to)
{
    size_t end = last + 1, longest = 1, from = first;
    bool *known = calloc(f->root_count + 1, sizeof(*known));
    for (size_t i = first; known && i <= last; i++) {
        if (f->calls[i].root == f->calls[last].root) {
            longest = i - from > longest ? i - from : longest;
            from = i;
        }
        known[f->calls[i].root] |= i < last;
    }
    to = to - last > longest ? last + longest : to;
    for (size_t i = last + 1; known && i < to; i++)
        if (known[f->calls[i].root])
            end = i + 1;
    free(known);
    return end;
}

static int64_t walls(const struct finder *f, size_t from, size_t to)
{
    int64_t sum = 0;
    for (size_t i = from; i < to; i++)
        sum = saturating_add(sum, line_of(f, i)->wall_ns);
    return sum;
}

/* Returns the times of the turn of calls FROM..TO. Unless it is the LAST one, call TO begins the
 * next. The cost of measuring is complete if the lines give it (`over_ns`), else only that inside
 * the calls. */
static struct run_turn measure(const struct finder *f, size_t from, size_t to, bool last)
{
    const struct line *a = line_of(f, from), *z = line_of(f, last ? to - 1 : to);
    int64_t in_calls = walls(f, from, to), inside = 0;
    for (size_t i = from; i < to; i++)
        inside = saturating_add(inside, line_of(f, i)->extra_ns);
    bool told = a->over_ns >= 0 && z->over_ns >= 0;
    int64_t took = z->start_ns - a->start_ns, cost = told ? z->over_ns - a->over_ns : 0;
    if (last) {
        took = saturating_add(took, saturating_add(z->wall_ns, z->extra_ns));
        cost = saturating_add(cost, z->extra_ns);
    }
    int64_t wall = took - (told && cost >= inside ? cost : inside);
    wall = wall > in_calls ? wall : in_calls;
    return (struct run_turn){.at = a->at,
                             .took_ns = took > wall ? took : wall,
                             .wall_ns = wall,
                             .between_ns = wall - in_calls,
                             .caller = f->lane->under};
}

/* Collects the lines of the turn of calls FROM..TO except that of the first call: its other calls,
 * and deeper lines and parts between them. */
static int gather(const struct finder *f, size_t from, size_t to, struct run_fold *fold)
{
    size_t at = from ? f->calls[from - 1].position + 1 : 0, end = f->calls[to - 1].position;
    int64_t start = line_of(f, from)->start_ns;
    fold->lines = calloc(end - at + 1, sizeof(*fold->lines));
    if (!fold->lines)
        return -ENOMEM;
    for (; at <= end; at++) {
        const struct line *l = &f->r->lines[f->lane->lines[at]];
        if (at == f->calls[from].position || l->depth < f->lane->level)
            continue;
        if (l->kind != LINE_FRAME || l->start_ns >= start)
            fold->lines[fold->count++] = l->at;
    }
    return 0;
}

static int emit(struct finder *f, size_t from, size_t to, bool last)
{
    struct turns *t = f->turns;
    if (VEC_ROOM(t->list, t->count, t->cap) != 0)
        return -ENOMEM;
    struct turn *turn = &t->list[t->count];
    *turn = (struct turn){.line = f->calls[from].line, .sum = measure(f, from, to, last)};
    int err = gather(f, from, to, &turn->fold);
    t->count += err == 0;
    return err;
}

/* Emits the turns that function S starts, from call FIRST to call LAST. END is after the last
 * turn. */
static int emit_turns(struct finder *f, uint32_t s, size_t first, size_t last, size_t end)
{
    int err = 0;
    for (size_t i = first, from = first; i < last && err == 0; from = i) {
        for (i = from + 1; f->calls[i].root != s;)
            i++;
        err = emit(f, from, i, false);
    }
    return err ? err : emit(f, last, end, true);
}

/* Finds the cycles in FROM..TO. Sets *FOUND if there is one. */
static int search(struct finder *f, size_t from, size_t to, int nesting, bool *found)
{
    if (nesting > MAX_NESTING || to - from <= LEAST_TURNS)
        return 0;
    uint32_t s = find_starter(f, from, to);
    if (s == RUN_NO_FN)
        return 0;
    size_t first = f->roots[s].first, last = to - 1;
    while (f->calls[last].root != s)
        last--;
    size_t end = end_of_last(f, first, last, to);
    if (walls(f, first, end) < walls(f, from, to) / 2)
        return 0;
    *found = true;
    int err = emit_turns(f, s, first, last, end);
    if (err == 0)
        err = search(f, from, first, nesting + 1, found);
    return err ? err : search(f, end, to, nesting + 1, found);
}

/* Searches the calls FROM..TO of one call of the caller. */
static int search_part(struct finder *f, size_t from, size_t to)
{
    size_t before = f->turns->count;
    bool found = false;
    int err = search(f, from, to, 0, &found);
    for (size_t i = from; err == 0 && found && !f->dry && i < to; i++)
        f->r->lines[f->calls[i].line].role = ROLE_SUM;
    for (size_t i = before; err == 0 && !f->dry && i < f->turns->count; i++)
        f->r->lines[f->turns->list[i].line].role = ROLE_FOLDED_FRAME;
    return err;
}

/* Splits the sequence where the caller returned: a turn lies inside one call of the caller. */
static int search_parts(struct finder *f)
{
    size_t from = 0, position = 0;
    int err = 0;
    for (size_t i = 0; i <= f->count && err == 0; i++) {
        size_t to = i < f->count ? f->calls[i].position : f->lane->count;
        bool cut = i == f->count;
        for (; position < to; position++) {
            const struct line *l = &f->r->lines[f->lane->lines[position]];
            cut |= l->kind == LINE_FRAME && l->depth < f->lane->level;
        }
        if (cut) {
            err = search_part(f, from, i);
            from = i;
        }
    }
    return err;
}

static int find(struct reader *r, const struct turns_lane *lane, struct turns *turns, bool dry)
{
    struct finder f = {.r = r, .lane = lane, .turns = turns, .dry = dry};
    size_t roots = r->run->fn_count < lane->count ? r->run->fn_count : lane->count;
    if (lane->count <= LEAST_TURNS)
        return 0;
    f.calls = calloc(lane->count + 1, sizeof(*f.calls));
    f.roots = calloc(roots + 1, sizeof(*f.roots));
    f.number_of = calloc(r->run->fn_count + 1, sizeof(*f.number_of));
    int err = f.calls && f.roots && f.number_of ? 0 : -ENOMEM;
    if (err == 0 && collect(&f))
        err = search_parts(&f);
    free(f.calls);
    free(f.roots);
    free(f.number_of);
    return err;
}

int turns_find(struct reader *r, const struct turns_lane *lane, struct turns *turns)
{
    return find(r, lane, turns, false);
}

int turns_time(struct reader *r, const struct turns_lane *lane, int64_t *ns)
{
    struct turns turns = {0};
    int err = find(r, lane, &turns, true);
    *ns = 0;
    for (size_t i = 0; i < turns.count; i++)
        *ns = saturating_add(*ns, turns.list[i].sum.wall_ns);
    turns_release(&turns);
    return err;
}

/* Joins the remaining folds of other frames with those of TURNS, in the order of their lines. */
static void join_folds(const struct reader *r, struct turns *turns, struct run_fold *out)
{
    struct run *run = r->run;
    size_t n = 0, t = 0;
    for (size_t i = 0; i < run->fold_count; i++) {
        struct run_fold *fold = &run->folds[i];
        for (; t < turns->count && turns->list[t].line < fold->line; t++)
            out[n++] = turns->list[t].fold;
        bool replaced = t < turns->count && turns->list[t].line == fold->line;
        if (replaced || r->lines[fold->line].role != ROLE_FOLDED_FRAME)
            free(fold->lines);
        else
            out[n++] = *fold;
    }
    for (; t < turns->count; t++)
        out[n++] = turns->list[t].fold;
    run->fold_count = n;
}

int turns_keep(struct reader *r, struct turns *turns)
{
    struct run *run = r->run;
    if (turns->count == 0)
        return 0;
    struct run_fold *folds = calloc(run->fold_count + turns->count, sizeof(*folds));
    run->turns = calloc(turns->count, sizeof(*run->turns));
    if (!folds || !run->turns) {
        free(folds);
        return -ENOMEM;
    }
    qsort(turns->list, turns->count, sizeof(*turns->list), order_u64);
    for (size_t i = 0; i < turns->count; i++)
        run->turns[i] = turns->list[i].sum;
    run->turn_count = turns->count;
    join_folds(r, turns, folds);
    free(run->folds);
    run->folds = folds;
    turns->count = 0; /* the run owns the folds now */
    return 0;
}

void turns_release(struct turns *turns)
{
    for (size_t i = 0; i < turns->count; i++)
        free(turns->list[i].fold.lines);
    free(turns->list);
    *turns = (struct turns){0};
}
