/* Python calls a kernel of the library: arguments are checked and written into a block of words, the GIL is released, and words
   become the result. `idyn_bind(parts)` returns the function; parts: see `native` in idyn.library.kernels. */
#define Py_LIMITED_API 0x030B0000
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/ndarraytypes.h>
#include <stdint.h>
typedef union { int64_t l; double d; } Word;
typedef struct { const int64_t *at; Word *out; PyTypeObject *record, *array; } Frame;

static int take(Frame *f, PyObject *given) { /* one argument, described by four words, see `signature` */
    const int64_t *kind = f->at, members = kind[1];
    f->at += 4;
    switch (kind[0]) {
    case 'd': f->out++->d = PyFloat_AsDouble(given); return !PyErr_Occurred();
    case 'l': f->out++->l = PyLong_AsLongLong(given); return !PyErr_Occurred();
    case '?': f->out->l = PyObject_IsTrue(given); return f->out++->l >= 0;
    case 'R':
        if (!PyType_IsSubtype(Py_TYPE(given), f->record)) return 0;
        f->out->l = (int64_t)PyLong_AsVoidPtr(given);
        return *(int64_t *)f->out++->l == kind[3];
    case '(':
        if (!PyTuple_Check(given) || PyTuple_Size(given) != members) return 0;
        for (int64_t k = 0; k < members; k++) if (!take(f, PyTuple_GetItem(given, k))) return 0;
        return 1;
    }
    if (!PyType_IsSubtype(Py_TYPE(given), f->array)) return 0;
    PyArrayObject *array = (PyArrayObject *)given;
    const PyArray_Descr *numbers = PyArray_DESCR(array);
    const char code = numbers->type == 'q' ? 'l' : numbers->type;
    f->out++->l = (int64_t)PyArray_DATA(array);
    for (int k = 0; k < PyArray_NDIM(array) && k < members; k++) f->out++->l = PyArray_DIM(array, k);
    return code == kind[3] && PyArray_NDIM(array) == members && PyArray_ISNBO(numbers->byteorder) &&
           PyArray_CHKFLAGS(array, kind[2] ? NPY_ARRAY_CARRAY : NPY_ARRAY_CARRAY_RO);
}
static PyObject *give(PyObject *kind, Word **word) { /* a result: none, a number, or (maker or None, kinds of members) */
    if (PyTuple_Check(kind)) {
        PyObject *all = PyTuple_New(PyTuple_Size(kind) - 1), *make = PyTuple_GetItem(kind, 0), *made = NULL;
        for (int k = 1; all && k < PyTuple_Size(kind); k++) PyTuple_SetItem(all, k - 1, give(PyTuple_GetItem(kind, k), word));
        if (!PyErr_Occurred()) made = make == Py_None ? Py_NewRef(all) : PyObject_CallObject(make, all);
        Py_XDECREF(all);
        return made;
    }
    switch (*PyBytes_AsString(kind)) {
    case 'd': return PyFloat_FromDouble((*word)++->d);
    case 'l': return PyLong_FromLongLong((*word)++->l);
    case '?': return PyBool_FromLong((*word)++->l != 0);
    }
    Py_RETURN_NONE;
}
static PyObject *call(PyObject *parts, PyObject *const *given, Py_ssize_t count) {
    const int64_t *program = (const int64_t *)PyBytes_AsString(PyTuple_GetItem(parts, 0)); /* the kernel, a tuple of arguments */
    Word block[256];
    Frame f = {program + 5, block + 1, (PyTypeObject *)PyTuple_GetItem(parts, 1), (PyTypeObject *)PyTuple_GetItem(parts, 2)};
    int sound = count == program[2], done = 0;
    for (Py_ssize_t k = 0; sound && k < count; k++) sound = take(&f, given[k]);
    if (sound) { Py_BEGIN_ALLOW_THREADS done = ((int (*)(void *))program[0])(block); Py_END_ALLOW_THREADS }
    if (done) return give(PyTuple_GetItem(parts, 3), &f.out);
    return PyErr_Format(sound ? PyExc_RuntimeError : PyExc_TypeError, sound ? "the kernel failed" : "%U", PyTuple_GetItem(parts, 4));
}
static PyMethodDef called = {"kernel", (PyCFunction)(void (*)(void))call, METH_FASTCALL, NULL};
PyObject *idyn_bind(PyObject *parts) { return PyCFunction_New(&called, parts); }
