/* Python calls a kernel of the library: arguments are checked and written into a block of words, the GIL is released, and words
   become the result. `bind(program)` returns the function; program: words and texts as bytes, see idyn.library.native. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
typedef struct { const int64_t *at; int64_t *out; Py_buffer held[64]; int arrays; PyTypeObject *record; } Frame;

static int take(Frame *f, PyObject *given) { /* one argument: number, record, array or tuple */
    double real;
    Py_buffer *b = &f->held[f->arrays];
    switch (*f->at++) {
    case 'd': real = PyFloat_AsDouble(given); memcpy(f->out++, &real, 8); return !PyErr_Occurred();
    case 'q': *f->out++ = PyLong_AsLongLong(given); return !PyErr_Occurred();
    case '?': *f->out = PyObject_IsTrue(given); return *f->out++ >= 0;
    case 'R':
        if (!PyType_IsSubtype(Py_TYPE(given), f->record)) return 0;
        *f->out = (int64_t)PyLong_AsVoidPtr(given);
        return *(int64_t *)*f->out++ == *f->at++;
    case 'A':
        if (PyObject_GetBuffer(given, b, PyBUF_ND | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (f->at[2] ? PyBUF_WRITABLE : 0))) return 0;
        f->arrays++;
        const char *format = b->format ? b->format : "B", code = *format == 'l' && b->itemsize == 8 ? 'q' : *format;
        int sound = code == f->at[0] && !format[1] && b->ndim == f->at[1];
        *f->out++ = (int64_t)b->buf;
        for (int k = 0; sound && k < b->ndim; k++) *f->out++ = b->shape[k];
        f->at += 3;
        return sound;
    }
    int64_t members = *f->at++, k = 0;
    if (!PyTuple_Check(given) || PyTuple_Size(given) != members) return 0;
    while (k < members && take(f, PyTuple_GetItem(given, k))) k++;
    return k == members;
}
/* A result: none, a number, or a tuple: (, the number of its members, its name, :, its members. `named` takes one with a name. */
static PyObject *give(const char **type, const int64_t **word, PyObject *named) {
    double real;
    switch (*(*type)++) {
    case 'n': Py_RETURN_NONE;
    case 'd': memcpy(&real, (*word)++, 8); return PyFloat_FromDouble(real);
    case 'q': return PyLong_FromLongLong(*(*word)++);
    case '?': return PyBool_FromLong(*(*word)++ != 0);
    }
    Py_ssize_t members = *(*type)++ - '0', length = strcspn(*type, ":");
    PyObject *all = PyTuple_New(members), *name = PyUnicode_FromStringAndSize(*type, length), *found = NULL;
    *type += length + 1;
    for (Py_ssize_t k = 0; all && k < members; k++) PyTuple_SetItem(all, k, give(type, word, named));
    if (!PyErr_Occurred()) found = length ? PyObject_CallFunctionObjArgs(named, name, all, NULL) : Py_NewRef(all);
    Py_XDECREF(all), Py_XDECREF(name);
    return found;
}
static PyObject *call(PyObject *program, PyObject *const *given, Py_ssize_t count) {
    const int64_t *head = (const int64_t *)PyBytes_AsString(program); /* kernel, class of records, `named`, texts, (, arguments … */
    const char *type = (const char *)head + head[3], *expected = type + strlen(type) + 1;
    int64_t block[256];
    Frame f = {head + 6, block + 1, .record = (PyTypeObject *)head[1]};
    int sound = count == head[5], done = 0;
    for (Py_ssize_t k = 0; sound && k < count; k++) sound = take(&f, given[k]);
    const int64_t *results = f.out;
    if (sound) { Py_BEGIN_ALLOW_THREADS done = ((int (*)(void *))head[0])(block); Py_END_ALLOW_THREADS }
    for (int k = 0; k < f.arrays; k++) PyBuffer_Release(&f.held[k]);
    if (done) return give(&type, &results, (PyObject *)head[2]);
    return PyErr_Format(sound ? PyExc_RuntimeError : PyExc_TypeError, "%s", sound ? "the kernel failed" : expected);
}
static PyMethodDef called = {"kernel", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
static PyObject *bind(PyObject *module, PyObject *program) { return module ? PyCFunction_New(&called, program) : NULL; }
static PyMethodDef functions[] = {{"bind", bind, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_call", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__call(void) { return PyModule_Create(&module); }
