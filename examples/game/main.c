/* A small game without a screen, an example to profile. It simulates, draws into memory, and prints a
 * checksum of its state, so that two builds can be compared.
 *
 *     game [--frames N] [--seed S] [--fps N]
 *
 * --fps 0, the default, runs as fast as it can. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "assets.h"
#include "render.h"
#include "world.h"

struct options {
    unsigned frames;
    unsigned seed;
    unsigned fps;
};

struct game {
    struct world *world;
    struct asset_cache cache;
    struct screen screen;
    unsigned checksum;
};

static int parse_number(const char *text, unsigned *number)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || value > 1000000000)
        return -EINVAL;
    *number = (unsigned)value;
    return 0;
}

static int parse_options(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"frames", required_argument, NULL, 'n'},
        {"seed", required_argument, NULL, 's'},
        {"fps", required_argument, NULL, 'f'},
        {0},
    };
    int option, status = 0;
    while (status == 0 && (option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'n':
            status = parse_number(optarg, &options->frames);
            break;
        case 's':
            status = parse_number(optarg, &options->seed);
            break;
        case 'f':
            status = parse_number(optarg, &options->fps);
            break;
        default:
            status = -EINVAL;
        }
    }
    return status == 0 && optind == argc ? 0 : -EINVAL;
}

static void run_frame(struct game *game)
{
    update(game->world);
    render(&game->screen, game->world, &game->cache);
    game->checksum = game->checksum * 31 + screen_checksum(&game->screen);
}

/* Sleeps until the next frame is due; DUE moves on by one frame. */
static void wait_for(struct timespec *due, unsigned fps)
{
    due->tv_nsec += 1000000000L / (long)fps;
    if (due->tv_nsec >= 1000000000L) {
        due->tv_nsec -= 1000000000L;
        due->tv_sec++;
    }
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, due, NULL);
}

int main(int argc, char **argv)
{
    struct options options = {.frames = 300, .seed = 1};
    if (parse_options(argc, argv, &options) < 0) {
        fprintf(stderr, "usage: game [--frames N] [--seed S] [--fps N]\n");
        return 2;
    }

    static struct game game;
    game.world = world_create(options.seed);
    game.cache.pack = asset_pack_create(options.seed);
    if (!game.world || !game.cache.pack) {
        fprintf(stderr, "game: out of memory\n");
        return 1;
    }

    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    for (unsigned frame = 0; frame < options.frames; frame++) {
        run_frame(&game);
        if (options.fps)
            wait_for(&due, options.fps);
    }
    printf("%u frames, %u sprites loaded, checksum %08x\n", options.frames, game.cache.misses,
           game.checksum ^ world_checksum(game.world));

    asset_cache_clear(&game.cache);
    asset_pack_free(game.cache.pack);
    world_free(game.world);
    return 0;
}
