/* Frames that are slow because some calls of a function stall: misses of a cache, pauses, deep layers. */
#ifndef PIANO_BENCH_STALLS_H
#define PIANO_BENCH_STALLS_H

/* A cache: hits are cheap and misses are not. In every 40th frame many look-ups miss. */
FN void lru_get(int steps)
{
    WORK(lru_get, GROWN(steps));
}

FN void shade_row(int misses)
{
    WORK(shade_row, 15000);
    for (int i = 0; i < 1500; i++)
        lru_get((int)(next_random() % 100) < misses ? 2500 : 6);
    MADE(shade_row, 1500);
}

TWIN static void run_lru(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 40 == 17;
        shade_row(hit ? 40 : 2);
        if (hit)
            spike("shade_row", i, "lru_get");
    }
}

/* A collector: in every 7th frame one of 8000 calls takes 3 ms, which two or three looks of a watcher meet. */
FN void new_cell(int steps)
{
    WORK(new_cell, GROWN(steps));
}

FN void interpret(int pause)
{
    WORK(interpret, 100000);
    for (int i = 0; i < 8000; i++)
        new_cell(i == pause ? 3000000 : 12);
    MADE(interpret, 8000);
}

TWIN static void run_pause(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 7 == 3;
        interpret(hit ? (int)(next_random() % 8000) : -1);
        if (hit)
            spike("interpret", i, "new_cell");
    }
}

/* Four layers of functions. The cost of the lowest depends on the way to it, and on the frame. */
FN void texel(int steps)
{
    WORK(texel, GROWN(steps));
}

FN void triangle(int steps)
{
    WORK(triangle, 25);
    for (int i = 0; i < 6; i++)
        texel(steps * (i + 1));
    MADE(triangle, 6);
}

FN void mesh(int steps)
{
    WORK(mesh, 40);
    for (int i = 0; i < 6; i++)
        triangle(i == 5 ? 10 * steps : steps);
    MADE(mesh, 6);
}

FN void model(int steps)
{
    WORK(model, 60);
    for (int i = 0; i < 6; i++)
        mesh(steps);
    MADE(model, 6);
}

FN void view(int steps)
{
    WORK(view, 5000);
    for (int i = 0; i < 6; i++)
        model(steps);
    MADE(view, 6);
}

TWIN static void run_layers(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 25 == 11;
        view(hit ? 30 : 5);
        if (hit)
            spike("view", i, "texel");
    }
}

/* Two callers share a function. In every 30th frame one of the 300 calls from one of them takes 0.2 ms. */
FN void read_block(int steps)
{
    WORK(read_block, GROWN(steps));
}

FN void index_page(void)
{
    WORK(index_page, 9000);
    for (int i = 0; i < 300; i++)
        read_block(20);
    MADE(index_page, 300);
}

FN void scan_page(int steps)
{
    WORK(scan_page, 9000);
    for (int i = 0; i < 300; i++)
        read_block(i == 100 ? steps : 20);
    MADE(scan_page, 300);
}

FN void answer(int steps)
{
    WORK(answer, 3000);
    index_page();
    scan_page(steps);
    MADE(answer, 2);
}

TWIN static void run_hitch(int frames)
{
    for (int i = 0; i < frames; i++, pulse()) {
        int hit = i % 30 == 9;
        answer(hit ? 200000 : 20);
        if (hit)
            spike("answer", i, "read_block");
    }
}

#endif
