/* CPython's allocators for small objects, which take their memory by the megabyte and so escape malloc's hooks. */
#ifndef PIANO_TARGET_PYTHON_ALLOCATORS_H
#define PIANO_TARGET_PYTHON_ALLOCATORS_H

/* Gets in front of them, where the program is or has loaded CPython; else, and when it is there already, does nothing.
 * Any thread. Before CPython's initialisation, or at any time after it. */
void piano__python_attach(void);
/* At a sample: sees to it that they are still there. Any thread, not from signal handlers. */
void piano__python_look(void);

#endif
