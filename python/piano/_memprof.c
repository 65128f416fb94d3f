/* The extension module: calls the functions of piano.h.
 *
 * It is not linked with libpiano.so. The library's hooks only work if LD_PRELOAD loads it when the process starts, so this
 * module looks up the functions of the loaded library. Without the library, the functions below return -ENOSYS or None.
 * Functions return what the library returns; memprof/__init__.py turns errors into exceptions.
 *
 * Allocations that py_blocks makes for its result are not sampled, so that a profile does not contain profiles. */
#include <Python.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "piano.h"

static struct {
    const char *(*version)(void);
    int (*start)(size_t);
    int (*stop)(void);
    int (*shutdown)(void);
    int (*stats)(struct piano_heap_stats *);
    int (*blocks)(int (*)(void *, const struct piano_heap_block *), void *);
    void (*ignore)(int);
    const char *(*recording)(void);
    int (*python_frame)(uint64_t, struct piano_python_frame *);
} piano;

static int find(void *where, const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    memcpy(where, &found, sizeof found);
    return found != NULL;
}

static int is_loaded(void)
{
    return piano.start && piano.stop && piano.shutdown && piano.stats && piano.blocks &&
           piano.ignore && piano.recording && piano.version && piano.python_frame;
}

static void find_all(void)
{
    find(&piano.version, "piano_version");
    find(&piano.start, "piano_heap_start");
    find(&piano.stop, "piano_heap_stop");
    find(&piano.shutdown, "piano_heap_shutdown");
    find(&piano.stats, "piano_heap_stats");
    find(&piano.blocks, "piano_heap_blocks");
    find(&piano.ignore, "piano_heap_ignore");
    find(&piano.recording, "piano_heap_recording");
    find(&piano.python_frame, "piano_python_frame");
}

static PyObject *py_is_loaded(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyBool_FromLong(is_loaded());
}

static PyObject *text_or_none(const char *text)
{
    if (!text)
        Py_RETURN_NONE;
    return PyUnicode_DecodeFSDefault(text);
}

static PyObject *py_version(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return text_or_none(piano.version ? piano.version() : NULL);
}

static PyObject *py_start(PyObject *self, PyObject *arg)
{
    (void)self;
    size_t mean = PyLong_AsSize_t(arg);
    if (PyErr_Occurred())
        return NULL;
    return PyLong_FromLong(is_loaded() ? piano.start(mean) : -ENOSYS);
}

static PyObject *py_stop(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(is_loaded() ? piano.stop() : -ENOSYS);
}

static PyObject *py_shutdown(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyLong_FromLong(is_loaded() ? piano.shutdown() : -ENOSYS);
}

static PyObject *py_recording(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return text_or_none(is_loaded() ? piano.recording() : NULL);
}

static PyObject *py_ignore(PyObject *self, PyObject *arg)
{
    (void)self;
    int on = PyObject_IsTrue(arg);
    if (on < 0)
        return NULL;
    if (is_loaded())
        piano.ignore(on);
    Py_RETURN_NONE;
}

static PyObject *py_stats(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    struct piano_heap_stats s;
    if (!is_loaded() || piano.stats(&s) != 0)
        Py_RETURN_NONE;
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:d,s:d,s:d,s:d,s:d,s:K,s:K,s:K,s:K,s:K,s:K}",
                         "mean_bytes", s.mean_bytes, "samples", s.samples, "live_samples",
                         s.live_samples, "freed_samples", s.freed_samples, "stacks", s.stacks,
                         "dropped", s.dropped, "live_bytes", s.live_bytes, "live_objects",
                         s.live_objects, "allocated_bytes", s.allocated_bytes, "peak_bytes",
                         s.peak_bytes, "live_variance", s.live_variance, "room", s.room,
                         "collisions", s.collisions, "walks", s.walks, "walked_frames",
                         s.walked_frames, "walks_cut", s.walks_cut, "least_depth", s.least_depth);
}

/* Copies all blocks before it creates Python objects, because that takes time and blocks are freed in the meantime. */
struct list {
    struct piano_heap_block *all;
    size_t count, room;
    int failed;
};

static int keep(void *arg, const struct piano_heap_block *block)
{
    struct list *list = arg;
    if (list->count == list->room) {
        size_t room = list->room ? list->room * 2 : 1024;
        struct piano_heap_block *more = realloc(list->all, room * sizeof *more);
        if (!more) {
            list->failed = 1;
            return 1;
        }
        list->all = more;
        list->room = room;
    }
    list->all[list->count++] = *block;
    return 0;
}

static int add_stack(PyObject *stacks, const struct piano_heap_block *block)
{
    PyObject *key = PyLong_FromUnsignedLong(block->stack);
    int there = key ? PyDict_Contains(stacks, key) : -1;
    PyObject *pcs = there == 0 ? PyTuple_New(block->depth) : NULL;
    int result = there == 1 ? 0 : -1;
    for (uint32_t i = 0; pcs && i < block->depth; i++) {
        PyObject *pc = PyLong_FromUnsignedLongLong(block->pcs[i]);
        if (!pc)
            Py_CLEAR(pcs);
        else
            PyTuple_SetItem(pcs, i, pc);
    }
    if (pcs)
        result = PyDict_SetItem(stacks, key, pcs);
    Py_XDECREF(pcs);
    Py_XDECREF(key);
    return result;
}

static PyObject *to_python(const struct list *list)
{
    PyObject *blocks = PyList_New((Py_ssize_t)list->count);
    PyObject *stacks = PyDict_New();
    int fine = blocks && stacks;
    for (size_t i = 0; fine && i < list->count; i++) {
        const struct piano_heap_block *b = &list->all[i];
        PyObject *one = Py_BuildValue("(KKddKII)", b->address, b->size, b->bytes, b->objects,
                                      b->birth_ns, b->thread, b->stack);
        fine = one && PyList_SetItem(blocks, (Py_ssize_t)i, one) == 0 && add_stack(stacks, b) == 0;
    }
    PyObject *both = fine ? PyTuple_Pack(2, blocks, stacks) : NULL;
    Py_XDECREF(blocks);
    Py_XDECREF(stacks);
    return both;
}

static PyObject *py_blocks(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    if (!is_loaded())
        Py_RETURN_NONE;
    struct list list = {0};
    PyObject *result = NULL;
    piano.ignore(1);
    int found = piano.blocks(keep, &list);
    if (list.failed)
        PyErr_NoMemory();
    else if (found < 0)
        result = Py_NewRef(Py_None);
    else
        result = to_python(&list);
    free(list.all);
    piano.ignore(0);
    return result;
}

/* Consumes the references to NAME and PATH. */
static PyObject *described(PyObject *name, PyObject *path, unsigned long long where, int is_python)
{
    PyObject *result =
        name && path ? Py_BuildValue("(OOKO)", name, path, where, is_python ? Py_True : Py_False)
                     : NULL;
    Py_XDECREF(path);
    Py_XDECREF(name);
    return result;
}

/* Python's names are UTF-8, independent of the locale. Invalid bytes become surrogates, as in file names. */
static PyObject *python_text(const char *text)
{
    return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

/* Returns (function, file, offset in the loaded file, False) for the call before a return address. Function and file may be
 * None. The names come from the dynamic linker; only `piano report` finds native lines. For a Python function: (name, source
 * file, line, True). */
static PyObject *py_resolve(PyObject *self, PyObject *arg)
{
    (void)self;
    Dl_info info;
    struct piano_python_frame frame;
    unsigned long long address = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    if (is_loaded() && piano.python_frame(address, &frame))
        return described(python_text(frame.function), python_text(frame.file), frame.line, 1);
    uintptr_t call = (uintptr_t)address - (address > 0);
    if (!dladdr((void *)call, &info) || !info.dli_fname)
        return described(text_or_none(NULL), text_or_none(NULL), address, 0);
    return described(text_or_none(info.dli_sname), text_or_none(info.dli_fname),
                     call - (uintptr_t)info.dli_fbase, 0);
}

static PyMethodDef methods[] = {
    {"is_loaded", py_is_loaded, METH_NOARGS, "Whether libpiano.so is in this process."},
    {"version", py_version, METH_NOARGS, "The library's version, or None."},
    {"start", py_start, METH_O, "piano_heap_start: 0 or a negative errno."},
    {"stop", py_stop, METH_NOARGS, "piano_heap_stop: 0 or a negative errno."},
    {"shutdown", py_shutdown, METH_NOARGS, "piano_heap_shutdown: 0 or a negative errno."},
    {"recording", py_recording, METH_NOARGS, "The path of the recording, or None."},
    {"ignore", py_ignore, METH_O, "True: stop sampling this thread's allocations. False: resume."},
    {"stats", py_stats, METH_NOARGS, "piano_heap_stats, or None without a recording."},
    {"blocks", py_blocks, METH_NOARGS,
     "(blocks, stacks) or None. A block is (address, size, bytes, objects, birth_ns, thread, "
     "stack)."},
    {"resolve", py_resolve, METH_O,
     "(function, file, offset or line, is_python) of a return address."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "piano._memprof", .m_doc = "piano.h for Python.",
    .m_size = -1,          .m_methods = methods,
};

PyMODINIT_FUNC PyInit__memprof(void); /* for -Wmissing-prototypes */
PyMODINIT_FUNC PyInit__memprof(void)
{
    find_all();
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddStringConstant(made, "__version__", PIANO_VERSION) < 0)
        Py_CLEAR(made);
    return made;
}
