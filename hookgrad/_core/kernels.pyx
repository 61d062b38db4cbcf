"""Drivers of the inner loops: arrays in, arrays out, nothing known of gradients.

Design
------
A driver takes ndarrays that are aligned, in native byte order and of one float dtype (the callers see to that; a mask
may be bool), and at most one Python number, which takes the array's dtype (NEP 50). It allocates a C-contiguous
result and calls the inner loop on raw pointers.

* `binary_into` and `unary_into` write into their first operand where it is exclusive (see `is_exclusive`); else they
  are `binary` and `unary`. Callers use them for an array that they do not read again.
* Operands whose axes do not run forward in memory in C order (transposed, reversed) go to NumPy's own function
  (`quietly`): it reorders axes, which changes the last bit of some functions, and lays its result out alike.
* Loops over at least `GIL_FREE` elements release the GIL.
"""

import numpy as np

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.string cimport memcpy

from hookgrad._core.inner_loops cimport ADD, MATMUL, MULTIPLY, loop_fn

cnp.import_array()

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyTypeObject
    PyTypeObject *ARRAY_TYPE "(&PyArray_Type)"
    object new_from_descr "hookgrad_new_from_descr"(
        PyTypeObject *, PyObject *, int, cnp.npy_intp *, cnp.npy_intp *, void *, int, PyObject *)
    PyObject *descr_from_type "(PyObject *) PyArray_DescrFromType"(int)

    ctypedef struct ArrayFields "PyArrayObject_fields":
        PyObject *weakreflist

cdef extern from *:
    """
    #define hookgrad_refcount(x) Py_REFCNT((PyObject *) (x))
    #define hookgrad_array_fields(x) ((PyArrayObject_fields *) (x))
    #define hookgrad_descr(x) ((PyObject *) PyArray_DESCR((PyArrayObject *) (x)))
    #define hookgrad_new_from_descr(type, descr, nd, dims, strides, data, flags, obj) \\
        PyArray_NewFromDescr(type, (PyArray_Descr *) (descr), nd, dims, strides, data, flags, obj)
    """
    Py_ssize_t reference_count "hookgrad_refcount"(PyObject *) noexcept
    PyObject *descr_of "hookgrad_descr"(PyObject *) noexcept
    ArrayFields *array_fields "hookgrad_array_fields"(PyObject *) noexcept
    PyTypeObject *type_of "Py_TYPE"(PyObject *) noexcept

cdef enum:
    MAX_OPERANDS = 3
    MAX_DIMS = 64
    GIL_FREE = 16384

cdef object errstate = np.errstate
cdef object asarray = np.asarray


# Allocation and inspection -------------------------------------------------------------------------------------------


# Note [Pool of small arrays]
# ---------------------------
# Making and freeing a small ndarray costs more than most inner loops on it. So an array that is about to die (its last
# reference is a tensor's, a node's or the engine's) is kept here if it is small, of a float dtype and plain in every
# other way, and `new_array` hands it out again for the same dtype and shape. Nobody can tell: with one reference left,
# no user can reach it. The pool holds at most POOL_BYTES.
cdef enum:
    CLASSES = 64            # by dtype and shape
    DEPTH = 64              # arrays of one class
    POOLED = 1 << 14        # bytes of one array, at most
    POOL_BYTES = 1 << 20

cdef PyObject *pool[CLASSES][DEPTH]
cdef int pool_depth[CLASSES]
cdef Py_ssize_t pool_bytes = 0
cdef PyObject *float32_descr = descr_from_type(cnp.NPY_FLOAT)
cdef PyObject *float64_descr = descr_from_type(cnp.NPY_DOUBLE)


cdef inline size_t pool_class(int nd, cnp.npy_intp *shape, int typenum) noexcept nogil:
    cdef size_t key = typenum + 7 * nd
    if nd > 0:
        key += 31 * <size_t> shape[0] + 97 * <size_t> shape[nd - 1]
    return (key ^ (key >> 6)) & (CLASSES - 1)


cdef void recycle(PyObject *x) noexcept:
    """Keep an array for `new_array` if the caller's reference, which it is about to drop, is the last one.

    It takes a plain pointer, since a Python argument may come with a reference of its own.
    """
    global pool_bytes
    cdef int want = cnp.NPY_ARRAY_CARRAY | cnp.NPY_ARRAY_OWNDATA
    cdef size_t k
    cdef Py_ssize_t nbytes
    if type_of(x) != ARRAY_TYPE or reference_count(x) != 1:
        return
    nbytes = cnp.PyArray_NBYTES(<cnp.ndarray> x)
    if ((cnp.PyArray_FLAGS(<cnp.ndarray> x) & want) != want or nbytes > POOLED or pool_bytes + nbytes > POOL_BYTES
            or array_fields(x).weakreflist != NULL
            or (descr_of(x) != float32_descr and descr_of(x) != float64_descr)):
        return
    k = pool_class(cnp.PyArray_NDIM(<cnp.ndarray> x), cnp.PyArray_DIMS(<cnp.ndarray> x),
                   cnp.PyArray_TYPE(<cnp.ndarray> x))
    if pool_depth[k] == DEPTH:
        return
    Py_INCREF(<object> x)
    pool[k][pool_depth[k]] = x
    pool_depth[k] += 1
    pool_bytes += nbytes


cdef inline cnp.ndarray new_array(int nd, cnp.npy_intp *shape, int typenum):
    """An uninitialized C-contiguous array."""
    global pool_bytes
    cdef PyObject *pooled
    cdef cnp.ndarray out
    cdef size_t k = pool_class(nd, shape, typenum)
    cdef int i
    if pool_depth[k] > 0:
        pooled = pool[k][pool_depth[k] - 1]
        if cnp.PyArray_NDIM(<cnp.ndarray> pooled) == nd and cnp.PyArray_TYPE(<cnp.ndarray> pooled) == typenum:
            for i in range(nd):
                if cnp.PyArray_DIMS(<cnp.ndarray> pooled)[i] != shape[i]:
                    break
            else:
                pool_depth[k] -= 1
                pool_bytes -= cnp.PyArray_NBYTES(<cnp.ndarray> pooled)
                out = <cnp.ndarray> pooled
                Py_DECREF(out)      # the pool's reference
                return out
    # The reference to the descriptor is stolen.
    return <cnp.ndarray> new_from_descr(ARRAY_TYPE, descr_from_type(typenum), nd, shape, NULL, NULL, 0, NULL)


cdef cnp.ndarray empty(int nd, cnp.npy_intp *shape, int typenum):
    return new_array(nd, shape, typenum)


cdef cnp.ndarray empty_like(cnp.ndarray a):
    return new_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a), cnp.PyArray_TYPE(a))


cdef cnp.ndarray as_array(object x):
    """x as a base-class ndarray, aligned and in native byte order."""
    cdef cnp.ndarray a
    if not is_ndarray(x):
        x = asarray(x)
    a = <cnp.ndarray> x
    if not cnp.PyArray_ISALIGNED(a) or cnp.PyArray_ISBYTESWAPPED(a):
        a = <cnp.ndarray> asarray(a.astype(a.dtype.newbyteorder("="), order="C"))
    return a


cdef cnp.ndarray cast(cnp.ndarray a, int typenum):
    """A copy in another dtype (a itself where it has that dtype), under NumPy's unsafe casting."""
    if cnp.PyArray_TYPE(a) == typenum:
        return a
    cdef object descr = cnp.PyArray_DescrFromType(typenum)
    return <cnp.ndarray> quietly(a.astype, (descr,))


cdef cnp.ndarray broadcast_view(cnp.ndarray a, tuple shape):
    """A read-only view of a larger shape, with stride 0 where a is repeated.

    Raises
    ------
    ValueError
        a does not broadcast to the shape.
    """
    cdef cnp.npy_intp dims[MAX_DIMS]
    cdef cnp.npy_intp strides[MAX_DIMS]
    cdef int nd = <int> len(shape), own = cnp.PyArray_NDIM(a), i
    cdef cnp.npy_intp length
    cdef cnp.ndarray view
    if nd > MAX_DIMS or nd < own:
        raise ValueError(f"broadcast_to: shape {(<object> a).shape} does not broadcast to {shape}")
    for i in range(nd):
        dims[i] = shape[i]
        strides[i] = 0
        length = cnp.PyArray_DIMS(a)[i - nd + own] if i >= nd - own else 1
        if length != 1:
            strides[i] = cnp.PyArray_STRIDES(a)[i - nd + own]
        if dims[i] < 0 or (length != dims[i] and length != 1):
            raise ValueError(f"broadcast_to: shape {(<object> a).shape} does not broadcast to {shape}")
    Py_INCREF(<object> descr_of(<PyObject *> a))      # stolen
    view = <cnp.ndarray> new_from_descr(
        ARRAY_TYPE, descr_of(<PyObject *> a), nd, dims, strides, cnp.PyArray_DATA(a), 0, NULL)
    cnp.set_array_base(view, a)
    return view


cdef cnp.ndarray transposed(cnp.ndarray a):
    """A view with the last two axes swapped."""
    cdef int nd = cnp.PyArray_NDIM(a)
    return <cnp.ndarray> cnp.PyArray_SwapAxes(a, nd - 2, nd - 1)


cdef bint is_exclusive(PyObject *a) noexcept:
    """Whether the caller's reference to an ndarray is the only way to its memory, so that it may be overwritten.

    One reference, memory of its own (a view or a borrowed buffer shares it), writeable and C-contiguous. It takes a
    plain pointer, since a Python argument may come with a reference of its own.
    """
    cdef int want = cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE | cnp.NPY_ARRAY_C_CONTIGUOUS
    return reference_count(a) == 1 and (cnp.PyArray_FLAGS(<cnp.ndarray> a) & want) == want


cdef object quietly(object function, tuple args, dict kwargs=None):
    """Call a NumPy function without floating-point warnings, which the inner loops do not give either."""
    with errstate(all="ignore"):
        return function(*args) if kwargs is None else function(*args, **kwargs)


cdef inline bint is_contiguous(cnp.ndarray a) noexcept:
    return cnp.PyArray_FLAGS(a) & cnp.NPY_ARRAY_C_CONTIGUOUS


cdef bint runs_forward(cnp.ndarray a) noexcept:
    """Whether a's axes, but for those of length 1 or stride 0, have positive strides that do not grow inwards."""
    cdef cnp.npy_intp stride, outer = 0
    cdef int i
    if is_contiguous(a):
        return True
    for i in range(cnp.PyArray_NDIM(a)):
        stride = cnp.PyArray_STRIDES(a)[i]
        if stride == 0 or cnp.PyArray_DIMS(a)[i] == 1:
            continue
        if stride < 0 or (outer > 0 and stride > outer):
            return False
        outer = stride
    return True


cdef inline cnp.npy_intp flat_step(cnp.ndarray a) noexcept:
    """The step through a contiguous array. NumPy takes the stride of a single axis, even if it has one element."""
    return cnp.PyArray_STRIDES(a)[0] if cnp.PyArray_NDIM(a) == 1 else cnp.PyArray_ITEMSIZE(a)


# Strided iteration ---------------------------------------------------------------------------------------------------


cdef struct Iteration:
    # Axes of length 1 are dropped and axes that lie in one line for every operand are merged.
    int nd
    int operands
    cnp.npy_intp shape[MAX_DIMS]
    cnp.npy_intp strides[MAX_OPERANDS][MAX_DIMS]


cdef void add_axis(Iteration *it, cnp.npy_intp length, cnp.npy_intp *strides) noexcept nogil:
    """Append the next inner axis."""
    cdef int k, last = it.nd - 1
    cdef bint merges
    if length == 1:
        return
    if last >= 0:
        merges = True
        for k in range(it.operands):
            if it.strides[k][last] != strides[k] * length:
                merges = False
                break
        if merges:
            it.shape[last] *= length
            for k in range(it.operands):
                it.strides[k][last] = strides[k]
            return
    it.shape[it.nd] = length
    for k in range(it.operands):
        it.strides[k][it.nd] = strides[k]
    it.nd += 1


cdef void iterate(Iteration *it, loop_fn fn, void *data, char **start) noexcept nogil:
    """Call the loop along the last axis for every index of the others."""
    cdef char *args[MAX_OPERANDS]
    cdef char *base[MAX_OPERANDS]
    cdef cnp.npy_intp steps[MAX_OPERANDS]
    cdef cnp.npy_intp index[MAX_DIMS]
    cdef cnp.npy_intp n = 1
    cdef int k, axis, outer = it.nd - 1
    for k in range(it.operands):
        base[k] = start[k]
        steps[k] = it.strides[k][outer] if it.nd else 0
    if it.nd:
        n = it.shape[outer]
    for axis in range(it.nd):
        index[axis] = 0
    while True:
        for k in range(it.operands):
            args[k] = base[k]
        fn(args, &n, steps, data)
        axis = outer - 1
        while axis >= 0:
            index[axis] += 1
            for k in range(it.operands):
                base[k] += it.strides[k][axis]
            if index[axis] < it.shape[axis]:
                break
            for k in range(it.operands):
                base[k] -= it.shape[axis] * it.strides[k][axis]
            index[axis] = 0
            axis -= 1
        if axis < 0:
            return


# Elementwise ---------------------------------------------------------------------------------------------------------


cdef cnp.ndarray unary(InnerLoop loop, cnp.ndarray a):
    cdef cnp.ndarray out
    if not runs_forward(a):
        return as_array(quietly(loop.ufunc, (a,)))
    out = empty_like(a)
    run_unary(loop, a, out)
    return out


cdef cnp.ndarray unary_into(InnerLoop loop, cnp.ndarray a):
    if is_exclusive(<PyObject *> a):
        run_unary(loop, a, a)
        return a
    return unary(loop, a)


cdef int run_unary(InnerLoop loop, cnp.ndarray a, cnp.ndarray out) except -1:
    """out = loop(a); out is C-contiguous, of a's shape and dtype."""
    cdef int which = cnp.PyArray_TYPE(a) - cnp.NPY_FLOAT
    cdef loop_fn fn = loop.typed[which].fn
    cdef void *data = loop.typed[which].data
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(a)
    cdef char *args[MAX_OPERANDS]
    cdef cnp.npy_intp steps[MAX_OPERANDS]
    cdef Iteration it
    cdef int i
    if n == 0:
        return 0
    args[0] = cnp.PyArray_BYTES(a)
    args[1] = cnp.PyArray_BYTES(out)
    if is_contiguous(a):
        steps[0] = flat_step(a)
        steps[1] = flat_step(out)
        if n < GIL_FREE:
            fn(args, &n, steps, data)
        else:
            with nogil:
                fn(args, &n, steps, data)
        return 0
    it.nd = 0
    it.operands = 2
    for i in range(cnp.PyArray_NDIM(a)):
        steps[0] = cnp.PyArray_STRIDES(a)[i]
        steps[1] = cnp.PyArray_STRIDES(out)[i]
        add_axis(&it, cnp.PyArray_DIMS(a)[i], steps)
    if n < GIL_FREE:
        iterate(&it, fn, data, args)
    else:
        with nogil:
            iterate(&it, fn, data, args)
    return 0


cdef inline void run_flat(InnerLoop loop, cnp.ndarray a, cnp.ndarray b, cnp.ndarray out) noexcept:
    """out = loop(a, b) for three contiguous arrays of one small shape."""
    cdef int which = cnp.PyArray_TYPE(out) - cnp.NPY_FLOAT
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(out)
    cdef char *args[3]
    cdef cnp.npy_intp steps[3]
    args[0] = cnp.PyArray_BYTES(a)
    args[1] = cnp.PyArray_BYTES(b)
    args[2] = cnp.PyArray_BYTES(out)
    steps[0] = flat_step(a)
    steps[1] = flat_step(b)
    steps[2] = flat_step(out)
    loop.typed[which].fn(args, &n, steps, loop.typed[which].data)


cdef inline bint is_flat(cnp.ndarray a, cnp.ndarray b) noexcept:
    return (cnp.PyArray_FLAGS(a) & cnp.PyArray_FLAGS(b) & cnp.NPY_ARRAY_C_CONTIGUOUS and same_shape(a, b)
            and 0 < cnp.PyArray_SIZE(a) < GIL_FREE)


cdef cnp.ndarray binary(InnerLoop loop, object a, object b):
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef cnp.ndarray out
    cdef int nd
    if not is_ndarray(b):
        if not runs_forward(<cnp.ndarray> a):
            return as_array(quietly(loop.ufunc, (a, b)))
        out = empty_like(<cnp.ndarray> a)
    elif not is_ndarray(a):
        if not runs_forward(<cnp.ndarray> b):
            return as_array(quietly(loop.ufunc, (a, b)))
        out = empty_like(<cnp.ndarray> b)
    elif is_flat(<cnp.ndarray> a, <cnp.ndarray> b):
        out = empty_like(<cnp.ndarray> a)
        run_flat(loop, <cnp.ndarray> a, <cnp.ndarray> b, out)
        return out
    elif not runs_forward(<cnp.ndarray> a) or not runs_forward(<cnp.ndarray> b):
        broadcast_shape(loop, <cnp.ndarray> a, <cnp.ndarray> b, shape)
        return as_array(quietly(loop.ufunc, (a, b)))
    elif same_shape(<cnp.ndarray> a, <cnp.ndarray> b):
        out = empty_like(<cnp.ndarray> a)
    else:
        nd = broadcast_shape(loop, <cnp.ndarray> a, <cnp.ndarray> b, shape)
        out = new_array(nd, shape, cnp.PyArray_TYPE(<cnp.ndarray> a))
    run_binary(loop, a, b, out)
    return out


cdef cnp.ndarray binary_into(InnerLoop loop, object a, object b):
    # No local variable may hold `a` here: it would be a second reference.
    cdef cnp.npy_intp shape[MAX_DIMS]
    if not is_ndarray(a) or not is_exclusive(<PyObject *> a):
        return binary(loop, a, b)
    if is_ndarray(b):
        if is_flat(<cnp.ndarray> a, <cnp.ndarray> b):
            run_flat(loop, <cnp.ndarray> a, <cnp.ndarray> b, <cnp.ndarray> a)
            return <cnp.ndarray> a
        # The result must have a's shape; b cannot lie in a's memory, since a is exclusive.
        if broadcast_shape(loop, <cnp.ndarray> a, <cnp.ndarray> b, shape) != cnp.PyArray_NDIM(<cnp.ndarray> a) or (
                not has_shape(<cnp.ndarray> a, shape)) or not runs_forward(<cnp.ndarray> b):
            return binary(loop, a, b)
    run_binary(loop, a, b, <cnp.ndarray> a)
    return <cnp.ndarray> a


cdef int binary_out(InnerLoop loop, cnp.ndarray a, object b) except -1:
    """a = loop(a, b) in a's own memory, whatever its strides, as NumPy does with ``out=a`` (overlap included)."""
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef cnp.ndarray x
    cdef bint plain = is_contiguous(a) and cnp.PyArray_ISWRITEABLE(a) and is_float_type(cnp.PyArray_TYPE(a))
    if plain and is_ndarray(b):
        x = <cnp.ndarray> b
        plain = cnp.PyArray_TYPE(x) == cnp.PyArray_TYPE(a) and (
            (same_shape(a, x) and is_contiguous(x) and cnp.PyArray_DATA(a) == cnp.PyArray_DATA(x))
            or (not may_overlap(a, x) and broadcast_shape(loop, a, x, shape) == cnp.PyArray_NDIM(a)
                and has_shape(a, shape)))
    if plain:
        run_binary(loop, a, b, a)
    else:
        quietly(loop.ufunc, (a, b), {"out": a, "casting": "same_kind"})
    return 0


cdef int add_to(cnp.ndarray a, cnp.ndarray b) except -1:
    """a += b for a contiguous a, b of its shape and dtype; atomic under the GIL, which is held throughout."""
    run_binary(ADD, a, b, a, True)
    return 0


cdef bint may_overlap(cnp.ndarray a, cnp.ndarray b) noexcept:
    """Whether the stretches of memory that two arrays lie in meet."""
    return first_byte(a) < last_byte(b) and first_byte(b) < last_byte(a)


cdef char *first_byte(cnp.ndarray a) noexcept:
    cdef char *address = cnp.PyArray_BYTES(a)
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDES(a)[i] < 0:
            address += (cnp.PyArray_DIMS(a)[i] - 1) * cnp.PyArray_STRIDES(a)[i]
    return address


cdef char *last_byte(cnp.ndarray a) noexcept:
    cdef char *address = cnp.PyArray_BYTES(a) + cnp.PyArray_ITEMSIZE(a)
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_STRIDES(a)[i] > 0:
            address += (cnp.PyArray_DIMS(a)[i] - 1) * cnp.PyArray_STRIDES(a)[i]
    return address


cdef inline bint has_shape(cnp.ndarray a, cnp.npy_intp *shape) noexcept:
    cdef int i
    for i in range(cnp.PyArray_NDIM(a)):
        if cnp.PyArray_DIMS(a)[i] != shape[i]:
            return False
    return True


cdef int broadcast_shape(InnerLoop loop, cnp.ndarray x, cnp.ndarray y, cnp.npy_intp *shape) except -1:
    """The broadcast shape of two arrays and its number of axes.

    Raises
    ------
    ValueError
        The shapes do not broadcast.
    """
    cdef int nx = cnp.PyArray_NDIM(x), ny = cnp.PyArray_NDIM(y), nd = max(nx, ny), i
    cdef cnp.npy_intp a, b
    for i in range(nd):
        a = cnp.PyArray_DIMS(x)[i - nd + nx] if i >= nd - nx else 1
        b = cnp.PyArray_DIMS(y)[i - nd + ny] if i >= nd - ny else 1
        if a != b and a != 1 and b != 1:
            raise ValueError(
                f"{loop.name}: shapes {(<object> x).shape} and {(<object> y).shape} do not broadcast: axis {i - nd} "
                f"has lengths {a} and {b}, which must be equal or one of them 1")
        shape[i] = b if a == 1 else a
    return nd


cdef inline cnp.npy_intp operand_stride(cnp.ndarray a, int axis, int nd) noexcept:
    """a's stride on an axis of the broadcast shape."""
    axis -= nd - cnp.PyArray_NDIM(a)
    if axis < 0 or cnp.PyArray_DIMS(a)[axis] == 1:
        return 0
    return cnp.PyArray_STRIDES(a)[axis]


cdef int run_binary(InnerLoop loop, object a, object b, cnp.ndarray out, bint keep_gil=False) except -1:
    """out = loop(a, b); out is C-contiguous and has the broadcast shape. One of a, b may be a Python number."""
    cdef int which = cnp.PyArray_TYPE(out) - cnp.NPY_FLOAT
    cdef loop_fn fn = loop.typed[which].fn
    cdef void *data = loop.typed[which].data
    cdef cnp.npy_intp n = cnp.PyArray_SIZE(out)
    cdef char *args[MAX_OPERANDS]
    cdef cnp.npy_intp steps[MAX_OPERANDS]
    cdef double f8
    cdef float f4
    cdef bint flat = True
    cdef object operand
    cdef cnp.ndarray x
    cdef Iteration it
    cdef int i, k, nd
    for k in range(2):
        operand = a if k == 0 else b
        if is_ndarray(operand):
            x = <cnp.ndarray> operand
            args[k] = cnp.PyArray_BYTES(x)
            if is_contiguous(x) and cnp.PyArray_SIZE(x) == n:
                # As many elements as the result: the same shape but for leading ones.
                steps[k] = flat_step(x)
            elif cnp.PyArray_SIZE(x) == 1:
                steps[k] = 0
            else:
                flat = False
        else:
            f8 = operand
            if which == 0:
                f4 = <float> f8
                args[k] = <char *> &f4
            else:
                args[k] = <char *> &f8
            steps[k] = 0
    if n == 0:
        return 0
    args[2] = cnp.PyArray_BYTES(out)
    if flat:
        steps[2] = flat_step(out)
        if keep_gil or n < GIL_FREE:
            fn(args, &n, steps, data)
        else:
            with nogil:
                fn(args, &n, steps, data)
        return 0
    it.nd = 0
    it.operands = 3
    nd = cnp.PyArray_NDIM(out)
    for i in range(nd):
        for k in range(2):
            operand = a if k == 0 else b
            steps[k] = operand_stride(<cnp.ndarray> operand, i, nd) if is_ndarray(operand) else 0
        steps[2] = cnp.PyArray_STRIDES(out)[i]
        add_axis(&it, cnp.PyArray_DIMS(out)[i], steps)
    if keep_gil or n < GIL_FREE:
        iterate(&it, fn, data, args)
    else:
        with nogil:
            iterate(&it, fn, data, args)
    return 0


# Reductions ----------------------------------------------------------------------------------------------------------
#
# A binary loop with a zero step on the accumulator is NumPy's reduction loop, pairwise sum included. NumPy starts a sum
# from 0 and a product from 1, and a maximum or minimum from the first element; so do we, for equal bits.


cdef inline void fill(cnp.ndarray a, double value) noexcept:
    cdef cnp.npy_intp i
    if cnp.PyArray_TYPE(a) == cnp.NPY_FLOAT:
        for i in range(cnp.PyArray_SIZE(a)):
            (<float *> cnp.PyArray_DATA(a))[i] = <float> value
    else:
        for i in range(cnp.PyArray_SIZE(a)):
            (<double *> cnp.PyArray_DATA(a))[i] = value


cdef void reduce_rows(loop_fn fn, void *data, char *out, char *a, cnp.npy_intp rows, cnp.npy_intp n,
                      cnp.npy_intp skip, cnp.npy_intp item) noexcept nogil:
    """out[r] = the reduction of a[r, skip:]."""
    cdef char *args[MAX_OPERANDS]
    cdef cnp.npy_intp steps[MAX_OPERANDS]
    cdef cnp.npy_intp r, count = n - skip
    steps[0] = steps[2] = 0
    steps[1] = item
    for r in range(rows):
        args[0] = args[2] = out + r * item
        args[1] = a + (r * n + skip) * item
        fn(args, &count, steps, data)


cdef void reduce_columns(loop_fn fn, void *data, char *out, char *a, cnp.npy_intp rows, cnp.npy_intp n,
                         cnp.npy_intp skip, cnp.npy_intp item) noexcept nogil:
    """out[c] = the reduction of a[skip:, c]."""
    cdef char *args[MAX_OPERANDS]
    cdef cnp.npy_intp steps[MAX_OPERANDS]
    cdef cnp.npy_intp r
    steps[0] = steps[1] = steps[2] = item
    for r in range(skip, rows):
        args[0] = args[2] = out
        args[1] = a + r * n * item
        fn(args, &n, steps, data)


cdef cnp.ndarray reduce(InnerLoop loop, cnp.ndarray a, unsigned long long axes, bint keepdims):
    """Reduce over the axes whose bits are set.

    Raises
    ------
    ValueError
        A maximum or minimum over no elements.
    """
    cdef int nd = cnp.PyArray_NDIM(a), axis, out_nd = 0, switches = 0
    cdef cnp.npy_intp shape[MAX_DIMS]
    cdef cnp.npy_intp row, kept = 1, reduced = 1, item = cnp.PyArray_ITEMSIZE(a)
    cdef bint reduces, started = False, before = False, has_initial = loop is ADD or loop is MULTIPLY
    cdef int which = cnp.PyArray_TYPE(a) - cnp.NPY_FLOAT
    cdef loop_fn fn = loop.typed[which].fn
    cdef void *data = loop.typed[which].data
    cdef cnp.ndarray out
    cdef char *source
    cdef char *target
    cdef int skip
    for axis in range(nd):
        reduces = (axes >> axis) & 1
        if reduces:
            reduced *= cnp.PyArray_DIMS(a)[axis]
        else:
            kept *= cnp.PyArray_DIMS(a)[axis]
        if cnp.PyArray_DIMS(a)[axis] != 1:      # an axis of length 1 belongs to its neighbours
            if started and reduces != before:
                switches += 1
            before = reduces
            started = True
        if keepdims or not reduces:
            shape[out_nd] = 1 if reduces else cnp.PyArray_DIMS(a)[axis]
            out_nd += 1
    # One block of axes, leading or trailing, of a contiguous array is a matrix reduced by rows or by columns.
    if not is_contiguous(a) or switches > 1 or (reduced == 0 and not has_initial):
        return as_array(quietly(loop.ufunc.reduce, (a,), {
            "axis": tuple([axis for axis in range(nd) if (axes >> axis) & 1]), "keepdims": keepdims}))
    out = new_array(out_nd, shape, cnp.PyArray_TYPE(a))
    if kept == 0:
        return out
    skip = 0 if has_initial else 1
    source = cnp.PyArray_BYTES(a)
    target = cnp.PyArray_BYTES(out)
    if has_initial:
        fill(out, 0 if loop is ADD else 1)
    if before or not started or reduced == 1:
        if not has_initial:
            for row in range(kept):
                memcpy(target + row * item, source + row * reduced * item, item)
        if kept * reduced < GIL_FREE:
            reduce_rows(fn, data, target, source, kept, reduced, skip, item)
        else:
            with nogil:
                reduce_rows(fn, data, target, source, kept, reduced, skip, item)
    else:
        if not has_initial:
            memcpy(target, source, kept * item)
        if kept * reduced < GIL_FREE:
            reduce_columns(fn, data, target, source, reduced, kept, skip, item)
        else:
            with nogil:
                reduce_columns(fn, data, target, source, reduced, kept, skip, item)
    return out


# Matrix products -----------------------------------------------------------------------------------------------------


cdef inline bint suits_blas(cnp.ndarray a) noexcept:
    """Whether NumPy's loop hands this matrix to BLAS: one axis in line, the other at least a row apart."""
    cdef cnp.npy_intp item = cnp.PyArray_ITEMSIZE(a)
    cdef cnp.npy_intp rows = cnp.PyArray_DIMS(a)[0], columns = cnp.PyArray_DIMS(a)[1]
    cdef cnp.npy_intp down = cnp.PyArray_STRIDES(a)[0], across = cnp.PyArray_STRIDES(a)[1]
    if across == item and down >= item * columns and down % item == 0:
        return True
    return down == item and across >= item * rows and across % item == 0


cdef cnp.ndarray matmul(cnp.ndarray a, cnp.ndarray b, bint transpose_a=False, bint transpose_b=False):
    """a @ b, the last two axes of either swapped on request: a matter of strides, not of copies.

    Raises
    ------
    ValueError
        The shapes do not fit, or an operand has no axes.
    """
    cdef cnp.npy_intp dims[4]
    cdef cnp.npy_intp steps[9]
    cdef cnp.npy_intp shape[2]
    cdef char *args[MAX_OPERANDS]
    cdef cnp.npy_intp inner
    cdef cnp.ndarray out
    cdef int which, ra = transpose_a, rb = transpose_b
    if cnp.PyArray_NDIM(a) != 2 or cnp.PyArray_NDIM(b) != 2:
        if transpose_a:
            a = transposed(a)
        if transpose_b:
            b = transposed(b)
        return as_array(quietly(MATMUL.ufunc, (a, b)))
    if cnp.PyArray_SIZE(a) > 64 and not suits_blas(a):
        a = <cnp.ndarray> cnp.PyArray_NewCopy(a, cnp.NPY_CORDER)
    if cnp.PyArray_SIZE(b) > 64 and not suits_blas(b):
        b = <cnp.ndarray> cnp.PyArray_NewCopy(b, cnp.NPY_CORDER)
    dims[0] = 1
    dims[1] = shape[0] = cnp.PyArray_DIMS(a)[ra]
    dims[2] = cnp.PyArray_DIMS(a)[1 - ra]
    inner = cnp.PyArray_DIMS(b)[rb]
    dims[3] = shape[1] = cnp.PyArray_DIMS(b)[1 - rb]
    if dims[2] != inner:
        raise ValueError(
            f"matmul: shapes {(dims[1], dims[2])} and {(inner, dims[3])} do not fit: the first has {dims[2]} columns, "
            f"the second {inner} rows, which must be equal")
    out = new_array(2, shape, cnp.PyArray_TYPE(a))
    steps[0] = steps[1] = steps[2] = 0
    steps[3] = cnp.PyArray_STRIDES(a)[ra]
    steps[4] = cnp.PyArray_STRIDES(a)[1 - ra]
    steps[5] = cnp.PyArray_STRIDES(b)[rb]
    steps[6] = cnp.PyArray_STRIDES(b)[1 - rb]
    steps[7] = cnp.PyArray_STRIDES(out)[0]
    steps[8] = cnp.PyArray_STRIDES(out)[1]
    args[0] = cnp.PyArray_BYTES(a)
    args[1] = cnp.PyArray_BYTES(b)
    args[2] = cnp.PyArray_BYTES(out)
    which = cnp.PyArray_TYPE(a) - cnp.NPY_FLOAT
    if dims[1] * dims[2] * dims[3] < GIL_FREE:
        MATMUL.typed[which].fn(args, dims, steps, MATMUL.typed[which].data)
    else:
        with nogil:
            MATMUL.typed[which].fn(args, dims, steps, MATMUL.typed[which].data)
    return out
