/* Python calls a kernel of the library: arguments are checked and written into a block of words, the GIL is released, and words
   become the result. `bind(program)` returns the function; program: words as bytes, see idyn.library.native. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>
typedef struct { const int64_t *at; int64_t *out; Py_buffer held[64]; int arrays; PyTypeObject *handle; } Frame;

static int array(Frame *f, PyObject *given) {
    Py_buffer *b = &f->held[f->arrays];
    if (PyObject_GetBuffer(given, b, PyBUF_ND | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (f->at[2] ? PyBUF_WRITABLE : 0))) return 0;
    const char *format = b->format ? b->format : "B", code = *format == 'l' && b->itemsize == 8 ? 'q' : *format;
    f->arrays++;
    *f->out++ = (int64_t)b->buf;
    for (int k = 0; k < b->ndim && b->ndim == f->at[1]; k++) *f->out++ = b->shape[k];
    f->at += 3;
    return code == f->at[-3] && !format[1] && b->ndim == f->at[-2];
}
static int take(Frame *f, PyObject *given) { /* one argument: number, record, array or tuple */
    double real;
    switch (*f->at++) {
    case 'd': real = PyFloat_AsDouble(given); memcpy(f->out++, &real, 8); return !PyErr_Occurred();
    case 'q': *f->out++ = PyLong_AsLongLong(given); return !PyErr_Occurred();
    case '?': *f->out = PyObject_IsTrue(given); return *f->out++ >= 0;
    case 'A': return array(f, given);
    case 'R':
        if (Py_TYPE(given) != f->handle) return 0;
        *f->out = (int64_t)PyLong_AsVoidPtr(given);
        return *(int64_t *)*f->out++ == *f->at++;
    }
    int64_t members = *f->at++, k = 0;
    if (!PyTuple_Check(given) || PyTuple_Size(given) != members) return 0;
    while (k < members && take(f, PyTuple_GetItem(given, k))) k++;
    return k == members;
}
static PyObject *give(const int64_t **at, const int64_t **word) { /* a result: none, number, or tuple */
    double real;
    switch (*(*at)++) {
    case 'n': Py_RETURN_NONE;
    case 'd': memcpy(&real, (*word)++, 8); return PyFloat_FromDouble(real);
    case 'q': return PyLong_FromLongLong(*(*word)++);
    case '?': return PyBool_FromLong(*(*word)++ != 0);
    }
    int64_t members = *(*at)++;
    PyObject *all = PyTuple_New(members);
    for (int64_t k = 0; all && k < members; k++) PyTuple_SetItem(all, k, give(at, word));
    return all;
}
static PyObject *call(PyObject *program, PyObject *const *given, Py_ssize_t count) {
    const int64_t *head = (const int64_t *)PyBytes_AsString(program); /* kernel, class of records, text, arguments, types … */
    int64_t block[256] = {0};
    Frame f = {head + 4, block + 1, .handle = (PyTypeObject *)head[1]};
    int sound = count == head[3], done = 0;
    for (Py_ssize_t k = 0; sound && k < count; k++) sound = take(&f, given[k]);
    const int64_t *results = f.out;
    if (sound) { Py_BEGIN_ALLOW_THREADS done = ((int (*)(void *))head[0])(block); Py_END_ALLOW_THREADS }
    for (int k = 0; k < f.arrays; k++) PyBuffer_Release(&f.held[k]);
    if (done) return give(&f.at, &results);
    PyErr_Clear();
    return PyErr_Format(sound ? PyExc_RuntimeError : PyExc_TypeError, "%s", sound ? "the kernel failed" : (char *)head + head[2]);
}
static PyMethodDef called = {"kernel", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
static PyObject *bind(PyObject *module, PyObject *program) { return module ? PyCFunction_New(&called, program) : NULL; }
static PyMethodDef functions[] = {{"bind", bind, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_call", NULL, -1, functions, NULL, NULL, NULL, NULL};
PyMODINIT_FUNC PyInit__call(void) { return PyModule_Create(&module); }
