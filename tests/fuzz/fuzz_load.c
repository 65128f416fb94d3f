/* Fuzz target: the reader of runs, with any bytes.
 *
 *   clang -fsanitize=fuzzer,address,undefined ... fuzz_load.c     finds inputs by itself
 *   cc -DSTANDALONE ... fuzz_load.c && ./fuzz_load FILE...        runs the files given
 *
 * Each loaded run is also reported in every form, because reports trust the reader. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tool/load/companion.h"
#include "tool/load/run.h"
#include "tool/report/report.h"
#include "tool/util/buf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void report_all(const struct run *run)
{
    struct report_options o = {.all = true, .places = true};
    FILE *out = fopen("/dev/null", "w");
    if (!out)
        return;
    (void)report_functions(out, run, &o);
    (void)report_functions_json(out, run, &o);
    (void)report_frames(out, run, &o);
    (void)report_frames_json(out, run, &o);
    (void)report_threads(out, run, &o);
    (void)report_threads_json(out, run, &o);
    for (size_t i = 0; i < run->frame_count; i++) {
        struct companion_span span;
        if (companion_frame(run, &run->frames[i], &span) && span.end_ns < span.begin_ns)
            abort();
    }
    fclose(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run run;
    struct run_error error;
    struct run_options options = {.threads = true};
    char path[64];
    int fd = memfd_create("run", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (run_load(&run, path, &options, &error) == 0) {
        report_all(&run);
        run_unload(&run);
    }
    close(fd);
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
