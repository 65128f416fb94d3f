/* Chooses which lines are frames.
 *
 * A program's outermost instrumented call may be the frame (`update`) or may enclose the loop
 * (`main`). The runtime cannot know which when the call begins, so it also writes lines for the
 * first calls one level deeper. Each line holds only what earlier lines do not. The choice is made
 * here, per thread: the shallowest depth at which the functions that one caller called twice or
 * more, or the turns they make, took a tenth of the thread's recorded time. Three setters called by
 * `main` are not a main loop. If several callers at that depth qualify, the one whose callees took
 * the most time wins. The calls of those callees are the frames. A function called once (`init`) is
 * not a frame.
 *
 * Shallower lines only count to the functions' sums. A deeper line that lies inside a frame and
 * comes before it holds a part of that frame and is folded into it, as is a `part` line. A function
 * announced as demoted is sampled from then on; its earlier calls are not frames either.
 *
 * Several functions that one caller calls in a cycle make turns: turns.c joins their lines.
 *
 * With `frame_fn` in the header (from `--frame`), the lines of that function are the frames. Lines
 * without a root (hand-made or of older writers) are all frames.
 *
 * One pass counts (thread, depth, caller, root), one assigns roles. Serial; a hash lookup per line.
 * A thread whose outermost call is still open has no line with its run time. The figures of its
 * lines are then read here too. */
#include "tool/load/levels.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tool/util/vec.h"

enum {
    PLAUSIBLE = 10,              /* frames take at least 1/10 of their thread's time */
    TOO_SHORT_NS = 10 * 1000000, /* a thread that ran for less is only start-up: not judged */
    FORGET_BYTES = 16 << 20,
    MAX_TRIES = 16, /* callers whose turns are tried before a level is chosen */
};

/* Functions are identified by row, so that one function under two ids still repeats. */
static uint32_t row_of(const struct reader *r, uint32_t id)
{
    return id >= r->id_count ? RUN_NO_FN : r->fn_of_id[id];
}

static struct cell key_of(const struct reader *r, const struct line *l)
{
    return (struct cell){.place = (uint64_t)l->thread << 16 | l->depth,
                         .under = row_of(r, l->under),
                         .root = row_of(r, l->root)};
}

static bool is_framelike(const struct line *l)
{
    return l->kind == LINE_FRAME || (l->kind == LINE_MERGED && !l->rest);
}

/* Returns whether the line can be a frame or belong to one. */
static bool has_role(const struct line *l)
{
    return l->kind == LINE_FRAME || l->kind == LINE_MERGED || l->kind == LINE_PART ||
           l->kind == LINE_MERGED_FN;
}

static int note_demoted(struct levels *v)
{
    const struct reader *r = v->r;
    for (size_t i = 0; i < r->line_count; i++) {
        if (r->lines[i].kind != LINE_DEMOTED || r->lines[i].root >= r->id_count)
            continue;
        if (!v->demoted_until)
            v->demoted_until = calloc(r->run->fn_count + 1, sizeof(*v->demoted_until));
        if (!v->demoted_until)
            return -ENOMEM;
        v->demoted_until[r->fn_of_id[r->lines[i].root]] = i;
    }
    return 0;
}

static bool is_demoted(const struct levels *v, size_t i)
{
    uint32_t row = row_of(v->r, v->r->lines[i].root);
    return v->demoted_until && row != RUN_NO_FN && i < v->demoted_until[row];
}

static int note_wall(struct levels *v, const struct line *l)
{
    struct lane *lane = levels_lane(v, l->thread);
    if (!lane)
        return -ENOMEM;
    lane->untimed |= l->wall_ns < 0;
    if (l->wall_ns > 0 && l->depth == 0)
        lane->outer_ns = saturating_add(lane->outer_ns, l->wall_ns);
    else if (l->wall_ns > 0 && l->depth == 1)
        lane->inner_ns = saturating_add(lane->inner_ns, l->wall_ns);
    return 0;
}

static int count_lines(struct levels *v)
{
    for (size_t i = 0; i < v->r->line_count; i++) {
        struct line *l = &v->r->lines[i];
        l->role = ROLE_SUM;
        if (!is_framelike(l) && l->kind != LINE_MERGED_FN)
            continue;
        if (l->root != RUN_NO_FN && l->root >= v->r->id_count) {
            reader_bad(v->r, l->at, "expected a root that is in the function table");
            l->kind = LINE_DEAD;
            continue;
        }
        if (l->kind == LINE_MERGED_FN)
            continue;
        if (note_wall(v, l))
            return -ENOMEM;
        if (is_demoted(v, i))
            continue;
        struct cell key = key_of(v->r, l), *c = levels_cell(&v->cells, &key);
        if (!c)
            return -ENOMEM;
        c->calls = saturating_add(c->calls, l->kind == LINE_MERGED ? l->start_ns : 1);
        c->wall_ns = saturating_add(c->wall_ns, l->wall_ns > 0 ? l->wall_ns : 0);
    }
    return 0;
}

/* `update` matches `update` and `Game::update`. */
static bool name_matches(const char *name, const char *wanted)
{
    size_t n = strlen(name), w = strlen(wanted);
    if (n < w || strcmp(name + n - w, wanted) != 0)
        return false;
    return n == w || (n >= w + 2 && name[n - w - 1] == ':' && name[n - w - 2] == ':');
}

static int mark_frame_roots(struct levels *v)
{
    const struct run *run = v->r->run;
    if (!run->frame_fn || !*run->frame_fn)
        return 0;
    v->frame_root = calloc(run->fn_count + 1, sizeof(*v->frame_root));
    if (!v->frame_root)
        return -ENOMEM;
    for (size_t i = 0; i < run->fn_count; i++)
        v->frame_root[i] = name_matches(run->fns[i].name, run->frame_fn);
    return 0;
}

/* Returns whether lines of this (thread, depth, root) may be frames. */
static bool repeats(const struct levels *v, const struct cell *c)
{
    if (c->root == RUN_NO_FN)
        return true;
    if (v->frame_root)
        return v->frame_root[c->root];
    return c->calls >= 2;
}

/* Sums the repeated callees of each caller at every depth. */
static int sum_callers(struct levels *v, struct cells *callers)
{
    for (size_t i = 0; i < v->cells.count; i++) {
        const struct cell *c = &v->cells.list[i];
        if (!repeats(v, c))
            continue;
        struct cell key = {.place = c->place, .under = c->under};
        struct cell *sum = levels_cell(callers, &key);
        if (!sum)
            return -ENOMEM;
        sum->wall_ns = saturating_add(sum->wall_ns, c->wall_ns);
        sum->calls++; /* number of different functions here */
        sum->certain |= c->root == RUN_NO_FN || v->frame_root != NULL;
    }
    return 0;
}

/* Returns the self times in line L; 0 if it cannot be read, which the next stage reports. */
static int64_t self_in_line(struct reader *r, const struct line *l, struct run_scratch *scratch)
{
    size_t left;
    const char *s = reader_text(r->run, l->at, &left);
    struct json j = {.at = s, .end = s + l->len};
    int64_t self = 0;
    fns_clear(scratch);
    struct fns_head head;
    if (fns_line(&j, r->run, scratch, &head))
        return 0;
    for (size_t i = 0; i < scratch->count; i++)
        self = saturating_add(self, scratch->entries[i].sum.self_ns);
    return self;
}

/* Marks the threads whose lines do not hold all of their time. Returns their number. */
static size_t mark_open(struct levels *v)
{
    size_t open = 0;
    for (size_t i = 0; i < v->lane_count; i++) {
        struct lane *lane = &v->lanes[i];
        lane->open = !lane->untimed && !v->frame_root &&
                     (lane->outer_ns == 0 || lane->inner_ns > lane->outer_ns);
        open += lane->open;
    }
    return open;
}

static int measure_open(struct levels *v)
{
    struct reader *r = v->r;
    struct run_scratch scratch = {0};
    uint64_t forgotten = 0;
    if (mark_open(v) == 0)
        return 0;
    int err = fns_ready(&scratch, r->run->fn_count + 1);
    for (size_t i = 0; i < r->line_count && err == 0; i++) {
        const struct line *l = &r->lines[i];
        if (l->kind < LINE_FRAME || l->kind > LINE_PART)
            continue;
        struct lane *lane = levels_lane(v, l->thread);
        if (!lane)
            err = -ENOMEM;
        else if (lane->open)
            lane->self_ns = saturating_add(lane->self_ns, self_in_line(r, l, &scratch));
        if (l->at - forgotten > FORGET_BYTES) {
            reader_forget(r->run, forgotten, l->at);
            forgotten = l->at;
        }
    }
    run_scratch_release(&scratch);
    return err;
}

static int lane_note(struct lane *lane, size_t line)
{
    if (VEC_ROOM(lane->lines, lane->line_count, lane->line_cap) != 0)
        return -ENOMEM;
    lane->lines[lane->line_count++] = line;
    return 0;
}

/* Time of the turns that the callees of CALLER make, including the caller's work between the
 * calls. */
static int time_in_turns(struct levels *v, const struct cell *caller, int64_t *ns)
{
    struct lane all = {.number = (uint32_t)(caller->place >> 16)};
    int err = 0;
    for (size_t i = 0; i < v->r->line_count && err == 0; i++)
        if (v->r->lines[i].thread == all.number && is_framelike(&v->r->lines[i]))
            err = lane_note(&all, i);
    struct turns_lane l = {all.lines, all.line_count, (uint32_t)(caller->place & 0xffff),
                           caller->under, v->demoted_until};
    if (err == 0)
        err = turns_time(v->r, &l, ns);
    free(all.lines);
    return err;
}

static int is_plausible(struct levels *v, const struct lane *lane, const struct cell *caller,
                        bool *plausible)
{
    int64_t recorded = lane->open ? lane->self_ns : lane->outer_ns, turns = 0;
    *plausible = caller->certain || lane->untimed || recorded < TOO_SHORT_NS ||
                 caller->wall_ns >= recorded / PLAUSIBLE;
    if (*plausible || caller->calls < 2 || v->tries == MAX_TRIES)
        return 0;
    v->tries++;
    int err = time_in_turns(v, caller, &turns);
    *plausible = turns >= recorded / PLAUSIBLE;
    return err;
}

/* Chooses the shallowest depth with a plausible caller and, there, the caller with the largest
 * sum. */
static int choose_callers(struct levels *v)
{
    struct cells callers = {0};
    int err = sum_callers(v, &callers);
    for (size_t i = 0; i < callers.count && err == 0; i++) {
        const struct cell *c = &callers.list[i];
        struct lane *lane = levels_lane(v, (uint32_t)(c->place >> 16));
        bool plausible = false;
        err = lane ? is_plausible(v, lane, c, &plausible) : -ENOMEM;
        if (!plausible)
            continue;
        uint32_t depth = (uint32_t)(c->place & 0xffff);
        bool better = c->wall_ns > lane->under_wall ||
                      (c->wall_ns == lane->under_wall && c->under < lane->under);
        if (depth < lane->level || (depth == lane->level && better)) {
            lane->level = depth;
            lane->under = c->under;
            lane->under_wall = c->wall_ns;
        }
    }
    levels_release(&callers);
    return err;
}

static int add_pending(struct lane *lane, const struct line *l)
{
    if (VEC_ROOM(lane->pending, lane->count, lane->cap) != 0)
        return -ENOMEM;
    /* Merged and part lines have no start. The next frame encloses them. */
    int64_t start = l->kind == LINE_FRAME ? l->start_ns : INT64_MAX;
    lane->pending[lane->count++] = (struct pending){l->at, start};
    return 0;
}

/* Adds to FRAME the pending lines that lie inside it. The others only count to sums. */
static int fold(struct levels *v, struct lane *lane, struct line *frame)
{
    struct run *run = v->r->run;
    struct run_fold f = {calloc(lane->count, sizeof(*f.lines)), 0, (size_t)(frame - v->r->lines)};
    if (!f.lines)
        return -ENOMEM;
    for (size_t i = 0; i < lane->count; i++)
        if (lane->pending[i].start_ns >= frame->start_ns)
            f.lines[f.count++] = lane->pending[i].at;
    lane->count = 0;
    if (f.count == 0) {
        free(f.lines);
        return 0;
    }
    if (VEC_DOUBLE(run->folds, run->fold_count) != 0) {
        free(f.lines);
        return -ENOMEM;
    }
    run->folds[run->fold_count++] = f;
    frame->role = ROLE_FOLDED_FRAME;
    return 0;
}

/* Returns whether line I of LANE is a frame or merged frames. */
static bool is_frame(struct levels *v, const struct lane *lane, size_t i, int *err)
{
    const struct line *l = &v->r->lines[i];
    if (l->rest)
        return l->kind != LINE_FRAME && l->depth == lane->level &&
               row_of(v->r, l->under) == lane->under && !v->frame_root;
    if (!(is_framelike(l) || l->kind == LINE_MERGED_FN) || is_demoted(v, i))
        return false;
    struct cell key = key_of(v->r, l), *c = levels_cell(&v->cells, &key);
    if (!c) {
        *err = -ENOMEM;
        return false;
    }
    if (!repeats(v, c))
        return false;
    return v->frame_root || l->root == RUN_NO_FN ||
           (l->depth == lane->level && key.under == lane->under);
}

static int give_role(struct levels *v, size_t i)
{
    struct line *l = &v->r->lines[i];
    struct lane *lane = levels_lane(v, l->thread);
    int err = lane ? 0 : -ENOMEM;
    if (err || lane->level == UINT32_MAX)
        return err;
    if (!v->frame_root)
        err = lane_note(lane, i);
    if (err)
        return err;
    if (is_frame(v, lane, i, &err)) {
        l->role = l->kind == LINE_FRAME ? ROLE_FRAME : ROLE_MERGED;
        return l->kind == LINE_FRAME && lane->count ? fold(v, lane, l) : 0;
    }
    if (err)
        return err;
    if (l->kind == LINE_MERGED_FN)
        return 0;
    if (l->depth > lane->level || (l->kind == LINE_PART && l->depth == lane->level))
        return add_pending(lane, l);
    if (l->kind == LINE_FRAME)
        lane->count = 0; /* the call around the pending lines has ended and is not a frame */
    return 0;
}

static void drop_folds(struct run *run)
{
    for (size_t i = 0; i < run->fold_count; i++)
        free(run->folds[i].lines);
    free(run->folds);
    run->folds = NULL;
    run->fold_count = 0;
    free(run->turns);
    run->turns = NULL;
    run->turn_count = 0;
}

static int find_turns(struct levels *v)
{
    struct turns turns = {0};
    int err = 0;
    for (size_t i = 0; i < v->lane_count && err == 0; i++) {
        const struct lane *lane = &v->lanes[i];
        struct turns_lane l = {lane->lines, lane->line_count, lane->level, lane->under,
                               v->demoted_until};
        if (lane->level != UINT32_MAX)
            err = turns_find(v->r, &l, &turns);
    }
    if (err == 0)
        err = turns_keep(v->r, &turns);
    turns_release(&turns);
    return err;
}

int levels_assign(struct reader *r)
{
    struct levels v = {.r = r};
    drop_folds(r->run);
    int err = note_demoted(&v);
    if (err == 0)
        err = count_lines(&v);
    if (err == 0)
        err = mark_frame_roots(&v);
    if (err == 0)
        err = measure_open(&v);
    if (err == 0)
        err = choose_callers(&v);
    const struct lane *main_lane = err || !r->main_thread ? NULL : levels_lane(&v, r->main_thread);
    r->run->main_ns = main_lane ? main_lane->outer_ns : -1;
    for (size_t i = 0; err == 0 && i < r->line_count; i++)
        if (has_role(&r->lines[i]))
            err = give_role(&v, i);
    if (err == 0)
        err = find_turns(&v);
    for (size_t i = 0; i < v.lane_count; i++) {
        free(v.lanes[i].pending);
        free(v.lanes[i].lines);
    }
    free(v.lanes);
    map_release(&v.known);
    levels_release(&v.cells);
    free(v.frame_root);
    free(v.demoted_until);
    return err;
}
