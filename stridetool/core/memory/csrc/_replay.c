/* stridetool.core.memory._replay: allocation traces through the caching allocator, without an object per block.
 *
 * A sweep of settings replays the same trace hundreds of times and asks for five numbers. The headers are their
 * Python namesakes rule for rule, and tests hold both to the same recordings; whatever is out of the ordinary (a
 * trace that makes no sense, too many pages) ends the replay here and is left to the Python path. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "state.h"

/* The codes of events, in the order of OPS below; the first five are those of a Program's rows. */
enum { OP_ALLOC, OP_FREE, OP_NULL, OP_HUGE, OP_RECORD_STREAM, OP_EMPTY_CACHE, OP_EVENT_COMPLETE, OP_SYNC, OP_SET_CAPACITY,
       OP_SET_FRACTION, OP_RESET_PEAK, OP_POOL_CREATE, OP_POOL_BEGIN, OP_POOL_END, OP_POOL_DESTROY };

static void fail(Heap *h, Job *job, size_t index) {
    job->failures = with_room(h, job->failures, job->failure_count, &job->failure_room, sizeof *job->failures);
    job->failures[job->failure_count++] = (int64_t)index;
    if (job->addresses) job->addresses[index] = -1;
}

static void run_other(Heap *h, const Row *row) {
    double fraction;
    switch (row->code) {
    case OP_EMPTY_CACHE: release_cached(h); break;
    case OP_EVENT_COMPLETE:
        if (h->device.queries != ON_DEMAND) break;
        if (row->slot) device_synchronize(&h->device);
        else device_complete(&h->device, &h->device.finished[row->stream]);
        break;
    case OP_SYNC: device_synchronize(&h->device); break;
    case OP_SET_CAPACITY: h->device.capacity = row->nbytes; break;
    case OP_SET_FRACTION:
        memcpy(&fraction, &row->nbytes, sizeof fraction);
        set_fraction(h, fraction);
        break;
    case OP_RESET_PEAK:
        h->peak_allocated = h->allocated;
        h->peak_reserved = h->reserved;
        break;
    case OP_POOL_CREATE: pool_create(h, (int)row->slot); break;
    case OP_POOL_BEGIN: pool_begin(h, (int)row->slot); break;
    case OP_POOL_END: pool_end(h, (int)row->slot); break;
    case OP_POOL_DESTROY: pool_destroy(h, (int)row->slot); break;
    default: leave(h);
    }
}

/* DONE, LEFT to the Python path, or STOPPED. */
static int replay(Heap *h, Job *job) {
    int left = setjmp(h->stop);
    if (left) return left;
    open_pool(h, &h->small, 1, NULL);
    open_pool(h, &h->large, 0, NULL);
    h->total = h->device.capacity;
    set_fraction(h, job->fraction);
    load(h, job);
    for (size_t index = job->first; index < job->count; index++) {
        const Row *row = &job->rows[index];
        if (index % 256 == 0 && *job->stop) return STOPPED;
        if (row->code == OP_FREE) {
            if (job->blocks[row->slot]) heap_free(h, job->blocks[row->slot]);
            job->blocks[row->slot] = NULL;
        } else if (row->code == OP_ALLOC) {
            Block *block = heap_malloc(h, row->nbytes, (int)row->stream);
            job->blocks[row->slot] = block;
            if (block == NULL) {
                fail(h, job, index);
                if (job->stops) break;
            } else if (job->addresses) {
                job->addresses[index] = block->address;
            }
        } else if (row->code == OP_RECORD_STREAM) {
            if (job->blocks[row->slot]) record_stream(h, job->blocks[row->slot], (int)row->stream);
        } else if (row->code == OP_HUGE) {
            fail(h, job, index);
        } else if (row->code != OP_NULL) {
            run_other(h, row);
        }
        h->work++;
    }
    return DONE;
}

/* --- host memory ------------------------------------------------------------------------------------------------------- */

static void close_pool(Pool *pool) {
    for (size_t i = 0; i < pool->count; i++) {
        free(pool->shelves[i]->free.at);
        free(pool->shelves[i]->unmapped.at);
    }
    free(pool->shelves);
}

static int open_heap(Heap *h, Job *job) {
    size_t streams = (size_t)h->streams, owners = (size_t)h->owner_count;
    h->device.next_malloc = MALLOC_BASE;
    h->device.next_virtual = VIRTUAL_BASE;
    h->device.finished = calloc(streams + 1, sizeof(int64_t));
    h->queues = calloc(streams + 1, sizeof(Queue));
    h->busy = calloc(streams + 1, sizeof(int));
    h->owners = calloc(owners + 1, sizeof(Owner));
    h->alive = calloc(owners + 1, sizeof(int));
    job->blocks = calloc(job->slots + 1, sizeof(Block *));
    return h->device.finished && h->queues && h->busy && h->owners && h->alive && job->blocks;
}

static void close_heap(Heap *h, Job *job) {
    for (int stream = 0; h->queues && stream < h->streams; stream++) free(h->queues[stream].at);
    for (int number = 0; h->owners && number < h->owner_count; number++) {
        close_pool(&h->owners[number].small);
        close_pool(&h->owners[number].large);
    }
    close_pool(&h->small);
    close_pool(&h->large);
    while (h->chunks) {
        Chunk *chunk = h->chunks;
        h->chunks = chunk->next;
        free(chunk);
    }
    free(h->device.finished);
    free(h->device.gaps);
    free(h->queues);
    free(h->busy);
    free(h->owners);
    free(h->alive);
    free(h->active);
    free(h->scratch);
    free(job->blocks);
}

/* --- Python ------------------------------------------------------------------------------------------------------------ */

/* Whether every row points at what there is: the loop looks no number up twice. */
static int is_sound(const Heap *h, const Job *job) {
    for (size_t i = 0; i < job->count; i++) {
        const Row *row = &job->rows[i];
        int names_slot = row->code <= OP_RECORD_STREAM, names_pool = row->code >= OP_POOL_CREATE;
        int names_stream = row->code == OP_ALLOC || row->code == OP_RECORD_STREAM;
        names_stream |= row->code == OP_EVENT_COMPLETE && !row->slot;
        if (row->code < 0 || row->code > OP_POOL_DESTROY || row->stream < 0 || row->slot < 0 || row->nbytes < 0) return 0;
        if (names_slot && row->slot >= (int64_t)job->slots) return 0;
        if (names_pool && row->slot >= h->owner_count) return 0;
        if (row->code == OP_ALLOC && (row->nbytes == 0 || row->nbytes >= (int64_t)1 << 60)) return 0;
        if (names_stream && row->stream >= h->streams) return 0;
    }
    return 1;
}

static PyObject *failures_of(const Job *job) {
    PyObject *failures = PyTuple_New((Py_ssize_t)job->failure_count);
    for (size_t i = 0; failures && i < job->failure_count; i++) {
        PyObject *index = PyLong_FromLongLong(job->failures[i]);
        if (index == NULL || PyTuple_SetItem(failures, (Py_ssize_t)i, index) < 0) {
            Py_DECREF(failures);
            return NULL;
        }
    }
    return failures;
}

static PyObject *result_of(const Heap *h, const Job *job) {
    PyObject *failures = failures_of(job);
    if (failures == NULL) return NULL;
    return Py_BuildValue("(NLLLLL)", failures, (long long)h->peak_reserved, (long long)h->peak_allocated,
                         (long long)h->retries, (long long)h->device_calls, (long long)h->work);
}

static PyObject *run_job(Heap *h, Job *job) {
    if (!is_sound(h, job)) {
        PyErr_SetString(PyExc_ValueError, "rows name slots, streams or pools that do not exist");
        return NULL;
    }
    int end = LEFT;
    PyObject *result = NULL;
    Py_BEGIN_ALLOW_THREADS
    if (open_heap(h, job)) end = replay(h, job);
    Py_END_ALLOW_THREADS
    if (end == DONE) result = result_of(h, job);
    else if (end == STOPPED) PyErr_SetNone(PyExc_KeyboardInterrupt);
    else result = Py_NewRef(Py_None);
    Py_BEGIN_ALLOW_THREADS
    close_heap(h, job);
    Py_END_ALLOW_THREADS
    free(job->failures);
    return result;
}

PyDoc_STRVAR(run_doc,
"run(rows, ranks, slots, pools, …) -> (failures, peak_reserved, peak_allocated, retries, calls, work)\n\n"
"Replay `rows`, int64 quadruples (code, slot, nbytes, stream), from `first` on. None: the Python path is to judge.");

static PyObject *run(PyObject *Py_UNUSED(self), PyObject *args, PyObject *kwargs) {
    static char *names[] = {"rows", "ranks", "slots", "pools", "capacity", "fraction", "queries",
                            "first_fit", "stops", "counts_segments", "repaired", "max_split", "large_segment",
                            "non_split_rounding", "gc_threshold", "expandable", "throws", "divisions", "first", "state",
                            "stop", "addresses", NULL};
    Heap heap = {0};
    Job job = {0};
    Py_buffer rows, ranks, state, stop, addresses = {0};
    long long capacity, queries, max_split, large_segment, non_split_rounding;
    PyObject *divisions, *into = Py_None, *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "y*y*niLdLppppLLLdppO!ny*y*O:run", names, &rows, &ranks, &job.slots,
                                     &heap.owner_count, &capacity, &job.fraction, &queries,
                                     &heap.device.first_fit, &job.stops, &heap.counts_segments, &heap.repaired, &max_split,
                                     &large_segment, &non_split_rounding, &heap.gc_threshold, &heap.expandable, &heap.throws,
                                     &PyTuple_Type, &divisions, &job.first, &state, &stop, &into))
        return NULL;
    heap.streams = (int)(ranks.len / (Py_ssize_t)sizeof(int64_t));
    heap.rank = ranks.buf;
    heap.device.capacity = capacity;
    heap.device.queries = queries;
    heap.max_split = max_split;
    heap.large_segment = large_segment;
    heap.non_split_rounding = non_split_rounding;
    heap.special = heap.expandable || max_split != NO_LIMIT;
    job.rows = rows.buf;
    job.count = (size_t)rows.len / sizeof(Row);
    job.state = state.buf;
    job.stop = stop.buf;
    job.state_end = job.state + (size_t)state.len / sizeof(int64_t);
    for (Py_ssize_t i = 0; i < 16 && i < PyTuple_Size(divisions); i++) {
        heap.divisions[i] = PyLong_AsLongLong(PyTuple_GetItem(divisions, i));
        heap.divides |= heap.divisions[i] > 1;
    }
    if (!PyErr_Occurred() && (into == Py_None || PyObject_GetBuffer(into, &addresses, PyBUF_WRITABLE) == 0)) {
        job.addresses = addresses.buf;
        if (stop.len == 0 || (job.addresses && (size_t)addresses.len < job.count * sizeof(int64_t)))
            PyErr_SetString(PyExc_ValueError, "addresses needs an int64 for each row, and stop a byte");
        else result = run_job(&heap, &job);
        if (job.addresses) PyBuffer_Release(&addresses);
    }
    PyBuffer_Release(&stop);
    PyBuffer_Release(&state);
    PyBuffer_Release(&ranks);
    PyBuffer_Release(&rows);
    return result;
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)(void (*)(void))run, METH_VARARGS | METH_KEYWORDS, run_doc},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *module) {
    PyObject *ops = Py_BuildValue("(sssssssssssssss)", "alloc", "free", "null", "huge", "record_stream", "empty_cache",
                                  "event_complete", "sync", "set_capacity", "set_fraction", "reset_peak", "pool_create",
                                  "pool_begin", "pool_end", "pool_destroy");
    int failed = ops == NULL || PyModule_AddObjectRef(module, "OPS", ops) < 0;
    Py_XDECREF(ops);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, exec_module}, {0, NULL}};

static PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "stridetool.core.memory._replay",
    .m_doc = "Allocation traces through the caching allocator, without an object per block.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__replay(void) { return PyModuleDef_Init(&module); }
