/* Hooks CPython's allocators for small objects. These take their memory by the megabyte, so the
 * malloc hooks do not see the objects. */
#ifndef PIANO_TARGET_HEAP_PYMALLOC_H
#define PIANO_TARGET_HEAP_PYMALLOC_H

/* Installs the hooks if the program is CPython or has loaded it. Otherwise, and if they are already
 * installed, does nothing. Any thread, before or at any time after CPython's initialisation. */
void piano__pymalloc_attach(void);
/* Removes the hooks that are on top. Others stay, and pass all calls on. Any thread. */
void piano__pymalloc_detach(void);
/* Called at a sample: checks that the hooks are still on top. Any thread, not from signal
 * handlers. */
void piano__pymalloc_look(void);

#endif
