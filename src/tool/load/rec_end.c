/* How and when the program of a recording ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>

#include "tool/load/rec.h"

/* Returns whether process PID has the file of ST mapped. */
static bool has_mapped(uint32_t pid, const struct stat *st)
{
    char path[64], inode[64];
    snprintf(path, sizeof(path), "/proc/%u/maps", pid);
    snprintf(inode, sizeof(inode), " %02x:%02x %llu ", major(st->st_dev), minor(st->st_dev),
             (unsigned long long)st->st_ino);
    FILE *maps = pid ? fopen(path, "re") : NULL;
    char *line = NULL;
    size_t cap = 0;
    bool found = false;
    while (maps && !found && getline(&line, &cap, maps) > 0)
        found = strstr(line, inode) != NULL;
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

void rec_find_end(struct recording *rec, const struct stat *st)
{
    const struct piano__rec_header *h = &rec->header;
    int status = (int)(h->exit_status - 1);
    rec->status = -1;
    if (h->exit_status > 0 && WIFSIGNALED(status)) {
        rec->end = RECORDING_KILLED;
        rec->status = WTERMSIG(status);
    } else if (h->exit_status > 0) {
        rec->end = RECORDING_EXITED;
        rec->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    } else if (h->state == PIANO_REC_ENDED) {
        rec->end = RECORDING_EXITED;
    } else {
        bool is_written = has_mapped(h->pid, st) || rec_is_held(rec->path);
        rec->end = is_written ? RECORDING_RUNNING : RECORDING_UNKNOWN;
    }
}

/* Another process may have run longer than the program. */
static uint64_t last_end(const struct recording *rec)
{
    uint64_t last = rec->header.end_mono_ns;
    for (size_t i = 0; i < rec->process_count; i++)
        last = rec->processes[i].end_ns > last ? rec->processes[i].end_ns : last;
    return last;
}

void rec_find_duration(struct recording *rec)
{
    const struct piano__rec_header *h = &rec->header;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t last = h->peak_ns;
    for (size_t i = 0; i < rec->stack_count; i++)
        last = rec->stacks[i].sum.newest_ns > last ? rec->stacks[i].sum.newest_ns : last;
    for (size_t i = 0; i < rec->snapshot_count; i++)
        last = rec->snapshots[i].at_ns > last ? rec->snapshots[i].at_ns : last;
    last = rec->end_ns > last ? rec->end_ns : last; /* so far the newest of all samples */
    last = rec->events.last_ns > last ? rec->events.last_ns : last;
    last = h->trace.end_mono_ns > last ? h->trace.end_mono_ns : last;
    rec->duration_atleast = false;
    if (h->end_mono_ns > 0) {
        last = last_end(rec);
    } else if (rec->end == RECORDING_RUNNING) {
        last = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    } else {
        rec->duration_atleast = true;
    }
    if (h->ended_ns > 0 && h->ended_ns < last) {
        last = h->ended_ns;
        rec->duration_atleast = false;
    }
    bool sane = last >= h->start_mono_ns && last - h->start_mono_ns < INT64_MAX;
    rec->end_ns = sane ? last : h->start_mono_ns;
    rec->duration_ns = sane ? (int64_t)(last - h->start_mono_ns) : -1;
}
