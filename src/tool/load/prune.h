/* Removing old runs, so that the runs directory does not grow without end. */
#ifndef PIANO_TOOL_LOAD_PRUNE_H
#define PIANO_TOOL_LOAD_PRUNE_H

/* Removes the oldest runs of the runs directory beyond PIANO_KEEP_RUNS (50) and PIANO_KEEP_SIZE (1G), and says so. Called
 * after a new run was made. Tagged runs, their companions, runs of processes that live, and the newest run stay. A
 * PIANO_RUNS_DIR without limits is left alone. */
void prune_runs(void);

#endif
