/* Functions whose cost changes from call to call or during the run. No frame is an outlier. */
#ifndef PIANO_BENCH_DRIFT_H
#define PIANO_BENCH_DRIFT_H

/* A list that grows by one node a frame and is searched linearly. */
FN void find(int nodes)
{
    WORK(find, GROWN(nodes));
}

FN void tick(int nodes)
{
    WORK(tick, 1200);
    for (int i = 0; i < 30; i++)
        find(nodes);
    MADE(tick, 30);
}

TWIN static void run_list(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        tick(i * 4000 / frames);
}

/* Every 100th call flushes a buffer and costs 1000 times as much. */
FN void put(int steps)
{
    WORK(put, GROWN(steps));
}

FN void batch(void)
{
    static int filled;
    WORK(batch, 2000);
    for (int i = 0; i < 1000; i++)
        put(++filled % 100 ? 10 : 10000);
    MADE(batch, 1000);
}

TWIN static void run_flush(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        batch();
}

/* One call in 100, at random, costs 1000 times as much. */
FN void request(int steps)
{
    WORK(request, GROWN(steps));
}

FN void serve(void)
{
    WORK(serve, 2000);
    for (int i = 0; i < 1000; i++)
        request(next_random() % 100 ? 10 : 10000);
    MADE(serve, 1000);
}

TWIN static void run_random(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        serve();
}

/* Twice as slow from the middle on. */
FN void body(int steps)
{
    WORK(body, GROWN(steps));
}

FN void simulate(int steps)
{
    WORK(simulate, 5000);
    for (int i = 0; i < 3000; i++)
        body(steps);
    MADE(simulate, 3000);
}

TWIN static void run_step(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        simulate(i < frames / 2 ? 20 : 40);
}

/* Each frame a bit slower than the one before. */
FN void cell(int steps)
{
    WORK(cell, GROWN(steps));
}

FN void grow_map(int steps)
{
    WORK(grow_map, 5000);
    for (int i = 0; i < 5000; i++)
        cell(steps);
    MADE(grow_map, 5000);
}

TWIN static void run_ramp(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        grow_map(5 + 40 * i / frames);
}

/* Three functions that swap their costs three times in a run. */
FN void alpha(int steps)
{
    WORK(alpha, GROWN(steps));
}

FN void beta(int steps)
{
    WORK(beta, steps);
}

FN void gamma_(int steps)
{
    WORK(gamma_, steps);
}

FN void rotate(int phase)
{
    static const int costs[] = {200, 10, 50, 100};
    WORK(rotate, 5000);
    for (int i = 0; i < 500; i++) {
        alpha(costs[phase]);
        beta(costs[(phase + 1) % 4]);
        gamma_(costs[(phase + 2) % 4]);
    }
    MADE(rotate, 1500);
}

TWIN static void run_phases(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        rotate(i * 3 / frames);
}

/* Costs that repeat with every fourth call, as bursts of timed calls may. */
FN void voice(int steps)
{
    WORK(voice, GROWN(steps));
}

FN void orchestra(void)
{
    static const int costs[] = {10, 20, 300, 40};
    WORK(orchestra, 5000);
    for (int i = 0; i < 1000; i++)
        voice(costs[i % 4]);
    MADE(orchestra, 1000);
}

TWIN static void run_periodic(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        orchestra();
}

/* A heavy tail: half of the calls cost 8 steps, a quarter 16, and so on up to 33 000. */
FN void drop(int steps)
{
    WORK(drop, GROWN(steps));
}

FN void river(const int *drops)
{
    WORK(river, 5000);
    for (int i = 0; i < 1000; i++)
        drop(drops[i]);
    MADE(river, 1000);
}

TWIN static void run_tail(int frames)
{
    int drops[1000];
    for (int i = 0; i < frames; i++, pulse()) {
        for (int k = 0; k < 1000; k++)
            drops[k] = 8 << __builtin_ctz(next_random() | 1u << 12);
        river(drops);
    }
}

/* An array that grows: a call that finds it full copies it. */
FN void push(int steps)
{
    WORK(push, GROWN(steps));
}

FN void load_level(void)
{
    WORK(load_level, 20000);
    for (int i = 1; i <= 16384; i++)
        push((i & (i - 1)) == 0 ? 4 * i : 5);
    MADE(load_level, 16384);
}

TWIN static void run_doubling(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        load_level();
}

/* Two functions that swap their costs with every frame. */
FN void forth(int steps)
{
    WORK(forth, GROWN(steps));
}

FN void back(int steps)
{
    WORK(back, steps);
}

FN void alternate(int odd)
{
    WORK(alternate, 8000);
    for (int i = 0; i < 800; i++) {
        forth(odd ? 120 : 8);
        back(odd ? 8 : 120);
    }
    MADE(alternate, 1600);
}

TWIN static void run_swap(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        alternate(i & 1);
}

/* The first calls of each frame are the expensive ones. */
FN void settle(int steps)
{
    WORK(settle, GROWN(steps));
}

FN void cool(void)
{
    WORK(cool, 6000);
    for (int i = 0; i < 1200; i++)
        settle(8 + 4000 / (1 + i));
    MADE(cool, 1200);
}

TWIN static void run_decay(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        cool();
}

/* Expensive calls come in bursts of random length, which do not care for frames. */
FN void packet(int steps)
{
    WORK(packet, GROWN(steps));
}

FN void loop_turn(void)
{
    static int left;
    WORK(loop_turn, 4000);
    for (int i = 0; i < 2000; i++) {
        if (left == 0 && next_random() % 3000 == 0)
            left = 1 + (int)(next_random() % 400);
        packet(left > 0 ? (left--, 200) : 9);
    }
    MADE(loop_turn, 2000);
}

TWIN static void run_bursts(int frames)
{
    for (int i = 0; i < frames; i++, pulse())
        loop_turn();
}

#endif
