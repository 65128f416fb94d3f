/* Fuzz target: the reader of recordings, with any bytes.
 *
 *   clang -fsanitize=fuzzer,address,undefined ... fuzz_recording.c     finds inputs by itself
 *   cc -DSTANDALONE ... fuzz_recording.c && ./fuzz_recording FILE...   runs the files given
 *
 * Each loaded recording is also reported and exported in every form, and compared with itself. Seeds come from
 * tools/make-recording.py. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/export/export.h"
#include "tool/report/heap.h"
#include "tool/report/recordings_diff.h"
#include "tool/report/stretch.h"
#include "tool/util/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void report_all(FILE *out, const struct profile *heap)
{
    const struct report_options o = {.all = true};
    for (int mode = HEAP_SUMMARY; mode <= HEAP_AT_PEAK; mode++) {
        struct heap_options h = {.mode = (enum heap_mode)mode,
                                 .by = (enum figure)(mode % FIGURES_OF_HEAP),
                                 .from = GROWTH_NOT_GIVEN,
                                 .to = GROWTH_NOT_GIVEN};
        struct heap_growth growth;
        struct run_error error;
        if (mode == HEAP_GROWTH && heap_growth_make(&growth, heap, h.from, h.to, &error) != 0)
            continue;
        h.growth = mode == HEAP_GROWTH ? &growth : NULL;
        (void)heap_report(out, heap, &h, &o);
        (void)heap_report_json(out, heap, &h, &o);
        if (mode == HEAP_GROWTH)
            heap_growth_release(&growth);
    }
}

static void export_all(FILE *out, struct profile *p)
{
    struct cpu cpu;
    struct polls polls;
    struct run_error error;
    if (cpu_make(&cpu, p, &error) != 0)
        return;
    for (int by = FIGURE_LIVE; by < FIGURES; by++) {
        struct export_source s = {
            .profile = p, .heap = true, .cpu = &cpu, .figure = (enum figure)by};
        (void)export_speedscope(out, &s);
        (void)export_collapsed(out, &s);
        if (polls_start(&polls, p, 0, &error) != 0)
            continue;
        s.polls = &polls;
        (void)(by % 2 ? export_pprof(out, &s) : export_chrome(out, &s));
        polls_release(&polls);
    }
    cpu_release(&cpu);
}

static void compare(FILE *out, const struct profile *heap)
{
    static const char *const labels[2] = {"a", "b"};
    const struct profile sides[2] = {*heap, *heap};
    const struct report_options o = {.all = true};
    struct heap_diff d;
    if (heap_diff_make(&d, sides, labels) != 0)
        return;
    (void)heap_diff_print(out, &d, &o);
    (void)heap_diff_json(out, &d, 5);
    heap_diff_release(&d);
}

/* Blocks and samples of each thread that has some, one after another. */
static void look_inside(struct profile *heap)
{
    struct recording_block *blocks;
    size_t count, found;
    if (recording_blocks(&heap->rec, &blocks, &count) != 0)
        return;
    for (size_t i = 0; i < count && i < 64; i++) {
        const struct companion_span span = {blocks[i].tid, blocks[i].birth_ns, UINT64_MAX};
        free(stretch_blocks(heap, &span, blocks, count, &found));
    }
    for (size_t i = 0; i < heap->rec.sample_count && i < 64; i++) {
        const struct recording_sample *s = &heap->rec.samples[i];
        const struct companion_span span = {s->tid, s->at_ns, s->at_ns + 1000000};
        free(stretch_stacks(heap, &span, heap->rec.end_ns, s->kind, &found));
    }
    free(blocks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct profile heap;
    struct run_error error;
    char path[64];
    FILE *out = fopen("/dev/null", "w");
    int fd = memfd_create("recording", 0);
    if (!out || fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (profile_open(&heap, path, &error) == 0) {
        if (profile_make_sites(&heap, NULL, &error) == 0) {
            report_all(out, &heap);
            export_all(out, &heap);
            compare(out, &heap);
            look_inside(&heap);
        }
        profile_close(&heap);
    }
    close(fd);
    fclose(out);
    return 0;
}

#ifdef STANDALONE
int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct buf b = {0};
        if (buf_read_file(&b, argv[i]) == 0)
            LLVMFuzzerTestOneInput((const uint8_t *)b.data, b.len);
        buf_free(&b);
    }
    return 0;
}
#endif
