/* Scenarios in which the cost of functions changes, to check which functions a profiler blames.
 *
 * usage: variation SCENARIO [SCALE [GROW]]
 *
 * SCALE is the length of the run in percent. GROW is the cost of the function under test, in percent of its normal cost. Prints
 * the truth (truth.h). */
#include <pthread.h>
#include <string.h>

/* clang-format off */
#define FUNCTIONS(X) \
    X(world) X(query) X(draw) X(get_asset) X(tick) X(find) X(batch) X(put) X(serve) \
    X(request) X(simulate) X(body) X(grow_map) X(cell) X(rotate) X(alpha) X(beta) \
    X(gamma_) X(page) X(lookup) X(explore) X(walk) X(frame_a) X(frame_b) X(job) \
    X(short_frame) X(event) X(long_frame) X(token) X(ui) X(scene) X(shade) \
    X(compose) X(outer) X(mid) X(leaf) X(mixer) X(orchestra) X(voice) X(river) \
    X(drop) X(fetch) X(gather) X(item) X(paint) X(access) X(execute) X(substitute) \
    X(lru_get) X(shade_row) X(new_cell) X(interpret) X(texel) X(triangle) X(mesh) X(model) X(view) \
    X(read_block) X(index_page) X(scan_page) X(answer) X(push) X(load_level) X(forth) X(back) \
    X(alternate) X(settle) X(cool) X(packet) X(loop_turn)
/* clang-format on */

#define AS_ID(name) ID_##name,
#define AS_NAME(name) #name,
enum { FUNCTIONS(AS_ID) ID_COUNT };

#include "truth.h"

static const char *const names[] = {FUNCTIONS(AS_NAME)};
static long grow = 100;

#define GROWN(steps) ((int)((long)(steps)*grow / 100))

TWIN static unsigned next_random(void)
{
    static __thread unsigned x = 2463534242u;
    x ^= x << 13;
    x ^= x >> 17;
    return x ^= x << 5;
}

#include "spikes.h"
#include "stalls.h"
#include "drift.h"
#include "twins.h"

static const struct {
    const char *name;
    void (*run)(int frames);
    int frames; /* at a scale of 100 */
} scenarios[] = {
    {"query40", run_query40, 3000},
    {"asset", run_asset, 50},
    {"list", run_list, 4000},
    {"flush", run_flush, 2500},
    {"random", run_random, 2500},
    {"step", run_step, 3000},
    {"ramp", run_ramp, 2000},
    {"phases", run_phases, 3000},
    {"warm", run_warm, 12000},
    {"depth", run_depth, 6000},
    {"threads", run_threads, 4000},
    {"short", run_short, 4000},
    {"long", run_long, 10},
    {"context", run_context, 5000},
    {"nested", run_nested, 6000},
    {"periodic", run_periodic, 3000},
    {"tail", run_tail, 4000},
    {"sine", run_sine, 2000},
    {"qsort", run_qsort, 525},
    {"allocs", run_allocs, 400},
    {"miss", run_miss, 3000},
    {"own", run_own, 4000},
    {"callback", run_callback, 5000000},
    {"lru", run_lru, 4000},
    {"pause", run_pause, 250},
    {"layers", run_layers, 4000},
    {"hitch", run_hitch, 6000},
    {"doubling", run_doubling, 600},
    {"swap", run_swap, 3000},
    {"decay", run_decay, 4000},
    {"bursts", run_bursts, 4000},
};

int main(int argc, char **argv)
{
    long scale = argc > 2 ? atol(argv[2]) : 100;
    grow = argc > 3 ? atol(argv[3]) : 100;
    for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof *scenarios; i++) {
        if (strcmp(argv[1], scenarios[i].name) != 0)
            continue;
        long frames = scenarios[i].frames * scale / 100;
        begin();
        scenarios[i].run(frames > 1 ? (int)frames : 2);
        sum_up();
        tell(names, ID_COUNT);
        return 0;
    }
    fputs("usage: variation SCENARIO [SCALE [GROW]]\n", stderr);
    return 2;
}
