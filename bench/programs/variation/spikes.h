/* Frames that are slow now and then, because of a function that is called often. */
#ifndef PIANO_BENCH_SPIKES_H
#define PIANO_BENCH_SPIKES_H

/* 2000 queries a frame; in every 50th frame each costs 40 times as much. */
FN void query(int steps)
{
    WORK(query, GROWN(steps));
}

FN void world(int steps)
{
    WORK(world, 35000);
    for (int i = 0; i < 2000; i++)
        query(steps);
    MADE(world, 2000);
}

TWIN static void run_query40(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        world(i % 50 == 49 ? 400 : 10);
        if (i % 50 == 49)
            spike("world", i, "query");
    }
}

/* 20 000 assets a frame; in every fifth frame one of them misses the cache and takes 20 ms. */
FN void get_asset(int steps)
{
    WORK(get_asset, GROWN(steps));
}

FN void draw(int miss)
{
    WORK(draw, 1200000);
    for (int i = 0; i < 20000; i++)
        get_asset(i == miss ? 18500000 : 8);
    MADE(draw, 20000);
}

TWIN static void run_asset(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 5 == 3;
        draw(hit ? (int)(next_random() % 20000) : -1);
        if (hit)
            spike("draw", i, "get_asset");
    }
}

/* 5000 calls a frame; in every tenth frame one of them takes 0.5 ms, which is less than a look of a watcher apart. */
FN void fetch(int steps)
{
    WORK(fetch, GROWN(steps));
}

FN void gather(int miss)
{
    WORK(gather, 20000);
    for (int i = 0; i < 5000; i++)
        fetch(i == miss ? 500000 : 10);
    MADE(gather, 5000);
}

TWIN static void run_miss(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 10 == 9;
        gather(hit ? (int)(next_random() % 5000) : -1);
        if (hit)
            spike("gather", i, "fetch");
    }
}

/* The caller itself is slow in every 20th frame. */
FN void item(int steps)
{
    WORK(item, GROWN(steps));
}

FN void paint(int steps)
{
    WORK(paint, steps);
    for (int i = 0; i < 3000; i++)
        item(20);
    MADE(paint, 3000);
}

TWIN static void run_own(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 20 == 19;
        paint(hit ? 60000 : 5000);
        if (hit)
            spike("paint", i, "paint");
    }
}

/* An interpreter: 20 000 short callbacks, of which one runs a long script with tiny functions in it. */
FN void access(int steps)
{
    WORK(access, steps);
}

FN void execute(int turns)
{
    WORK(execute, GROWN(15));
    for (int i = 0; i < turns; i++) {
        int steps = GROWN(40);
        tallies[ID_execute].steps += steps;
        CHAIN(steps);
        access(4);
    }
    MADE(execute, turns);
}

FN void substitute(int turns)
{
    WORK(substitute, 20000);
    for (int i = 0; i < 20000; i++)
        execute(i == 10000 ? turns : 0);
    MADE(substitute, 20000);
}

TWIN static void run_callback(int turns)
{
    substitute(turns);
    pulse();
}

/* A cache that is emptied now and then: the next 1000 calls cost 50 times as much. */
FN void lookup(int steps)
{
    WORK(lookup, GROWN(steps));
}

FN void page(int steps)
{
    WORK(page, 8000);
    for (int i = 0; i < 1000; i++)
        lookup(steps);
    MADE(page, 1000);
}

TWIN static void run_warm(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int cold = i % 200 == 0;
        page(cold ? 500 : 10);
        if (cold)
            spike("page", i, "lookup");
    }
}

/* Recursion, shallow in most frames. */
FN void walk(int depth)
{
    WORK(walk, GROWN(30));
    if (depth > 0) {
        MADE(walk, 1);
        walk(depth - 1);
        __asm__ __volatile__(
            "" ::
                : "memory"); /* keeps the compiler from making a loop of the recursion */
    }
}

FN void explore(int depth)
{
    WORK(explore, 5000);
    for (int i = 0; i < 40; i++)
        walk(depth);
    MADE(explore, 40);
}

TWIN static void run_depth(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        explore(i % 40 == 17 ? 400 : 5 + (int)(next_random() % 40));
        if (i % 40 == 17)
            spike("explore", i, "walk");
    }
}

/* Two threads that share a function and have slow frames at different times. */
FN void job(int steps)
{
    WORK(job, GROWN(steps));
}

FN void frame_a(int steps)
{
    WORK(frame_a, 20000);
    for (int i = 0; i < 500; i++)
        job(steps);
    MADE(frame_a, 500);
}

FN void frame_b(int steps)
{
    WORK(frame_b, 40000);
    for (int i = 0; i < 1500; i++)
        job(steps);
    MADE(frame_b, 1500);
}

TWIN static void *other_thread(void *frames)
{
    for (int i = 0; i < *(int *)frames; i++, pulse())
        frame_b(i % 53 == 52 ? 400 : 20);
    sum_up();
    return frames;
}

TWIN static void run_threads(int frames)
{
    pthread_t other;
    if (pthread_create(&other, NULL, other_thread, &frames) != 0)
        abort();
    for (int i = 0; i < frames; i++, pulse())
        frame_a(i % 37 == 36 ? 600 : 20);
    pthread_join(other, NULL);
    for (int i = 0; i < frames; i++) {
        if (i % 37 == 36)
            spike("frame_a", i, "job");
        if (i % 53 == 52)
            spike("frame_b", i, "job");
    }
}

/* Frames of 100 us. */
FN void event(int steps)
{
    WORK(event, GROWN(steps));
}

FN void short_frame(int steps)
{
    WORK(short_frame, 60000);
    for (int i = 0; i < 1500; i++)
        event(steps);
    MADE(short_frame, 1500);
}

TWIN static void run_short(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        short_frame(i % 50 == 20 ? 200 : 20);
        if (i % 50 == 20)
            spike("short_frame", i, "event");
    }
}

/* Frames of 100 ms. */
FN void token(int steps)
{
    WORK(token, GROWN(steps));
}

FN void long_frame(int steps)
{
    WORK(long_frame, 10000000);
    for (int i = 0; i < 2000000; i++)
        token(steps);
    MADE(long_frame, 2000000);
}

TWIN static void run_long(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        long_frame(i % 5 == 1 ? 150 : 40);
        if (i % 5 == 1)
            spike("long_frame", i, "token");
    }
}

/* Cheap if one caller calls it, 40 times more expensive for the other, which is busier in every 40th frame. */
FN void shade(int steps)
{
    WORK(shade, GROWN(steps));
}

FN void ui(void)
{
    WORK(ui, 3000);
    for (int i = 0; i < 1000; i++)
        shade(10);
    MADE(ui, 1000);
}

FN void scene(int shapes)
{
    WORK(scene, 6000);
    for (int i = 0; i < shapes; i++)
        shade(400);
    MADE(scene, shapes);
}

FN void compose(int shapes)
{
    WORK(compose, 1000);
    ui();
    scene(shapes);
    MADE(compose, 2);
}

TWIN static void run_context(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        compose(i % 40 == 39 ? 1500 : 100);
        if (i % 40 == 39)
            spike("compose", i, "shade");
    }
}

/* Tiny functions that call tiny functions. */
FN void leaf(int steps)
{
    WORK(leaf, GROWN(steps));
}

FN void mid(int steps)
{
    WORK(mid, 8);
    leaf(steps);
    leaf(steps);
    MADE(mid, 2);
}

FN void outer(int steps)
{
    WORK(outer, 12);
    mid(steps);
    mid(steps);
    MADE(outer, 2);
}

FN void mixer(int steps)
{
    WORK(mixer, 5000);
    for (int i = 0; i < 500; i++)
        outer(steps);
    MADE(mixer, 500);
}

TWIN static void run_nested(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        mixer(i % 60 == 59 ? 200 : 10);
        if (i % 60 == 59)
            spike("mixer", i, "leaf");
    }
}

#endif
