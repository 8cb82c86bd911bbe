/* The Python side of _copy: arguments, overlap, and the functions. What is not plain goes to the Python fallback,
 * which knows every array interface and every error message. */
#ifndef STRIDETOOL_MODULE_H
#define STRIDETOOL_MODULE_H

typedef struct {
    int nd;
    ptrdiff_t n[MAX_DIMS], ds[MAX_DIMS], ss[MAX_DIMS], itemsize, nbytes;
    char *dst;
    const char *src;
} Call;

/* --- checks ---------------------------------------------------------------------------------------------------------- */

/* The bytes that strides reach from an address, as [low, high); false when a number does not fit. */
static int reach(const Call *c, const ptrdiff_t *strides, ptrdiff_t *low, ptrdiff_t *high) {
    *low = 0;
    *high = c->itemsize;
    for (int i = 0; i < c->nd; i++) {
        ptrdiff_t far;
        if (__builtin_mul_overflow(c->n[i] - 1, strides[i], &far)) return 0;
        if (__builtin_add_overflow(far < 0 ? *low : *high, far, far < 0 ? low : high)) return 0;
    }
    return 1;
}

static int fits(Call *c) { /* sets nbytes */
    c->nbytes = c->itemsize;
    for (int i = 0; i < c->nd; i++)
        if (c->n[i] == 0) {
            c->nbytes = 0;
            return 1;
        }
    for (int i = 0; i < c->nd; i++)
        if (__builtin_mul_overflow(c->nbytes, c->n[i], &c->nbytes)) return 0;
    return 1;
}

/* True when each stride, in ascending order, steps over everything below it: then no two elements can meet. */
static int is_nested(const Call *c) {
    ptrdiff_t stride[MAX_DIMS], n[MAX_DIMS], reached = c->itemsize;
    int nd = 0;
    for (int i = 0; i < c->nd; i++) {
        if (c->n[i] == 1) continue;
        int at = nd++;
        for (; at > 0 && stride[at - 1] > size_of(c->ds[i]); at--) {
            stride[at] = stride[at - 1];
            n[at] = n[at - 1];
        }
        stride[at] = size_of(c->ds[i]);
        n[at] = c->n[i];
    }
    for (int i = 0; i < nd; i++) {
        if (stride[i] < reached) return 0;
        reached += (n[i] - 1) * stride[i];
    }
    return 1;
}

static int same_strides(const Call *c) {
    for (int i = 0; i < c->nd; i++)
        if (c->n[i] > 1 && c->ds[i] != c->ss[i]) return 0;
    return 1;
}

/* --- copying ----------------------------------------------------------------------------------------------------------- */

static void copy_strided(const Call *c, char *dst, const ptrdiff_t *ds, const char *src, const ptrdiff_t *ss, int threads) {
    Plan plan;
    plan_copy(&plan, c->nd, c->n, ds, ss, c->itemsize);
    run_plan(&plan, dst, src, threads);
}

static int copy_through(const Call *c, int threads) { /* source and destination share memory */
    char *copy = malloc((size_t)c->nbytes);
    ptrdiff_t dense[MAX_DIMS], stride = c->itemsize;
    if (copy == NULL) return 0;
    for (int i = c->nd - 1; i >= 0; stride *= c->n[i--]) dense[i] = stride;
    copy_strided(c, copy, dense, c->src, c->ss, threads);
    copy_strided(c, c->dst, c->ds, copy, dense, threads);
    free(copy);
    return 1;
}

/* Copies with the interpreter released where that pays; false with MemoryError set when there is no room. */
static int copy_call(const Call *c, int threads) {
    ptrdiff_t dst_low, dst_high, src_low, src_high;
    int done = 1;
    if (c->nbytes == 0) return 1;
    reach(c, c->ds, &dst_low, &dst_high);
    reach(c, c->ss, &src_low, &src_high);
    int shared = c->dst + dst_low < c->src + src_high && c->src + src_low < c->dst + dst_high;
    if (shared && c->dst == c->src && same_strides(c)) return 1;
    PyThreadState *saved = c->nbytes > 65536 ? PyEval_SaveThread() : NULL;
    if (shared) done = copy_through(c, threads);
    else copy_strided(c, c->dst, c->ds, c->src, c->ss, threads);
    if (saved) PyEval_RestoreThread(saved);
    if (!done) PyErr_NoMemory();
    return done;
}

/* --- arguments ----------------------------------------------------------------------------------------------------------- */

static int plain_format(const Py_buffer *d, const Py_buffer *s) {
    const char *a = d->format ? d->format : "B", *b = s->format ? s->format : "B";
    return strcmp(a, b) == 0 && strchr(a, 'O') == NULL && d->itemsize == s->itemsize;
}

static int plain_call(Call *c, const Py_buffer *d, const Py_buffer *s) {
    ptrdiff_t low, high;
    if (d->ndim != s->ndim || d->ndim > 64 || d->suboffsets || s->suboffsets || !plain_format(d, s)) return 0;
    c->nd = d->ndim;
    c->itemsize = d->itemsize;
    c->dst = d->buf;
    c->src = s->buf;
    for (int i = 0; i < c->nd; i++) {
        if (d->shape[i] != s->shape[i]) return 0;
        c->n[i] = d->shape[i];
        c->ds[i] = d->strides[i];
        c->ss[i] = s->strides[i];
    }
    if (!fits(c)) return 0;
    return c->nbytes == 0 || (reach(c, c->ds, &low, &high) && reach(c, c->ss, &low, &high) && is_nested(c));
}

static int read_threads(PyObject *value, int *threads) {
    long n = PyLong_AsLong(value);
    if (n == -1 && PyErr_Occurred()) return 0;
    *threads = n < 1 ? 0 : n > MAX_THREADS ? MAX_THREADS : (int)n;
    return 1;
}

static int read_integers(PyObject *tuple, ptrdiff_t *out, int *count) {
    Py_ssize_t n = PyTuple_Size(tuple);
    if (n < 0) return 0;
    if (n > 64) {
        PyErr_SetString(PyExc_ValueError, "more than 64 dimensions");
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsSsize_t(PyTuple_GetItem(tuple, i));
        if (out[i] == -1 && PyErr_Occurred()) return 0;
    }
    *count = (int)n;
    return 1;
}

static int read_layouts(Call *c, PyObject *sizes, PyObject *ds, PyObject *ss, PyObject *itemsize) {
    int nd = 0, nds = 0, nss = 0;
    ptrdiff_t low, high;
    if (!read_integers(sizes, c->n, &nd) || !read_integers(ds, c->ds, &nds) || !read_integers(ss, c->ss, &nss)) return 0;
    c->itemsize = PyLong_AsSsize_t(itemsize);
    if (c->itemsize == -1 && PyErr_Occurred()) return 0;
    int good = nd == nds && nd == nss && c->itemsize > 0;
    for (int i = 0; i < nd; i++) good = good && c->n[i] >= 0;
    c->nd = nd;
    good = good && fits(c) && (c->nbytes == 0 || (reach(c, c->ds, &low, &high) && reach(c, c->ss, &low, &high)));
    if (!good) PyErr_SetString(PyExc_ValueError, "sizes, strides and item size do not describe memory that can exist");
    return good;
}

/* --- the Python functions -------------------------------------------------------------------------------------------------- */

static PyObject *fallback = NULL; /* copy_into for everything that is not two plain buffers */

static PyObject *call_fallback(PyObject *dst, PyObject *src, int threads) {
    if (fallback == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "_copy.set_fallback was not called");
        return NULL;
    }
    PyObject *args = Py_BuildValue("(OOi)", dst, src, threads);
    PyObject *result = args ? PyObject_CallObject(fallback, args) : NULL;
    Py_XDECREF(args);
    return result;
}

static int copy_plain(PyObject *dst, PyObject *src, int threads) { /* 1 done, 0 not plain, -1 error */
    Py_buffer d, s;
    Call call;
    if (PyObject_GetBuffer(dst, &d, PyBUF_RECORDS)) {
        PyErr_Clear();
        return 0;
    }
    if (PyObject_GetBuffer(src, &s, PyBUF_RECORDS_RO)) {
        PyErr_Clear();
        PyBuffer_Release(&d);
        return 0;
    }
    int done = plain_call(&call, &d, &s);
    if (done && !copy_call(&call, threads)) done = -1;
    PyBuffer_Release(&s);
    PyBuffer_Release(&d);
    return done;
}

static PyObject *copy_into(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    int threads = 1;
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    (void)self;
    if (nargs != 2 || named > 1 || (named && PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "threads"))) {
        PyErr_SetString(PyExc_TypeError, "copy_into(dst, src, *, threads=1) takes two arrays and the keyword threads");
        return NULL;
    }
    if (named && !read_threads(args[2], &threads)) return NULL;
    int done = threads > 0 && chosen ? copy_plain(args[0], args[1], threads) : 0;
    if (done < 0) return NULL;
    if (done == 0) return call_fallback(args[0], args[1], threads);
    return Py_BuildValue("");
}

static PyObject *copy_raw(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    Call call;
    int threads;
    (void)self;
    if (nargs != 7 || chosen == NULL) {
        PyErr_SetString(PyExc_TypeError, "copy_raw(dst_address, src_address, itemsize, sizes, dst_strides, src_strides, threads)");
        return NULL;
    }
    size_t dst = PyLong_AsSize_t(args[0]), src = PyErr_Occurred() ? 0 : PyLong_AsSize_t(args[1]);
    if (PyErr_Occurred() || !read_layouts(&call, args[3], args[4], args[5], args[2]) || !read_threads(args[6], &threads)) return NULL;
    call.dst = (char *)dst;
    call.src = (const char *)src;
    if (!copy_call(&call, threads)) return NULL;
    return Py_BuildValue("");
}

static PyObject *integers(const ptrdiff_t *values, int n) {
    PyObject *tuple = PyTuple_New(n);
    for (int i = 0; tuple && i < n; i++) PyTuple_SetItem(tuple, i, PyLong_FromSsize_t(values[i]));
    return tuple;
}

static PyObject *plan_function(PyObject *self, PyObject *const *args, Py_ssize_t nargs) {
    static const char *const kinds[] = {"empty", "run", "rows", "splat", "transpose", "strided", "generic"};
    Call call;
    Plan p;
    ptrdiff_t order[MAX_DIMS];
    (void)self;
    if (nargs != 4) {
        PyErr_SetString(PyExc_TypeError, "plan(sizes, dst_strides, src_strides, itemsize)");
        return NULL;
    }
    if (!read_layouts(&call, args[0], args[1], args[2], args[3])) return NULL;
    plan_copy(&p, call.nd, call.n, call.ds, call.ss, call.itemsize);
    for (int i = 0; i < p.nd; i++) order[i] = p.order[i];
    return Py_BuildValue("(snnnnNNNNNiii)", kinds[p.kind], p.width, p.nbytes, p.dst_shift, p.src_shift, integers(p.n, p.nd),
                         integers(p.ds, p.nd), integers(p.ss, p.nd), integers(p.tile, p.nd), integers(order, p.nd), p.across,
                         p.chain, p.streams);
}

static PyObject *isa_names(PyObject *self, PyObject *unused) {
    PyObject *list = PyList_New(0);
    (void)self, (void)unused;
    for (int i = 0; list && i < N_ISAS; i++) {
        PyObject *name = isas[i].supported ? PyUnicode_FromString(isas[i].name) : NULL;
        if (name) PyList_Append(list, name);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *isa_name(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return chosen ? PyUnicode_FromString(chosen->name) : Py_BuildValue("");
}

static PyObject *isa_use(PyObject *self, PyObject *name) {
    (void)self;
    if (name == Py_None) {
        chosen = NULL;
        return Py_BuildValue("");
    }
    for (int i = 0; i < N_ISAS; i++)
        if (isas[i].supported && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, isas[i].name) == 0) {
            chosen = &isas[i];
            return Py_BuildValue("");
        }
    PyErr_SetString(PyExc_ValueError, "no such kernel on this machine");
    return NULL;
}

static PyObject *set_fallback(PyObject *self, PyObject *function) {
    (void)self;
    Py_INCREF(function);
    Py_XDECREF(fallback);
    fallback = function;
    return Py_BuildValue("");
}

#define FASTCALL(f) (PyCFunction)(void (*)(void))(f)
static PyMethodDef methods[] = {
    {"copy_into", FASTCALL(copy_into), METH_FASTCALL | METH_KEYWORDS, "copy_into(dst, src, *, threads=1)"},
    {"copy_raw", FASTCALL(copy_raw), METH_FASTCALL, "copy_raw(dst, src, itemsize, sizes, dst_strides, src_strides, threads)"},
    {"plan", FASTCALL(plan_function), METH_FASTCALL, "plan(sizes, dst_strides, src_strides, itemsize), strides in bytes"},
    {"isas", isa_names, METH_NOARGS, "Names of the kernels that this machine can run, best first."},
    {"isa", isa_name, METH_NOARGS, "Name of the kernel in use, None for the fallback."},
    {"use", isa_use, METH_O, "Use the kernel of this name, or (None) the fallback for everything."},
    {"set_fallback", set_fallback, METH_O, "The function for arguments that are not two plain buffers."},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_copy", "Strided copies.", -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__copy(void) {
    choose_isa();
    return PyModule_Create(&module);
}

#endif
