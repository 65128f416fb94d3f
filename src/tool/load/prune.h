/* Removes old runs to bound the size of the runs directory. */
#ifndef PIANO_TOOL_LOAD_PRUNE_H
#define PIANO_TOOL_LOAD_PRUNE_H

/* Removes the oldest runs beyond PIANO_KEEP_RUNS (50) and PIANO_KEEP_SIZE (1G) and reports it.
 * Called after each new run. Tagged runs, their companions, runs of live processes and the newest
 * run stay. A PIANO_RUNS_DIR without explicit limits is left alone. */
void prune_runs(void);

#endif
