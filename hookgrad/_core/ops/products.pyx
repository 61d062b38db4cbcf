"""Matrix products: `matmul` with NumPy's rules for one, two and more axes."""

cimport cython
cimport numpy as cnp

from hookgrad._core cimport kernels
from hookgrad._core.ops.elementwise cimport mul
from hookgrad._core.grad_node cimport GradNode, Op, named
from hookgrad._core.kernels cimport is_ndarray
from hookgrad._core.record cimport array_of, finish, saved
from hookgrad._core.ops.shape cimport reshape, sum_to, swap_last

cnp.import_array()


@cython.final
cdef class MatMul(Op):
    cdef object vjp(self, GradNode node, object g, int i):
        # aux: the shapes of the operands
        cdef tuple sa = (<tuple> node.aux)[0], sb = (<tuple> node.aux)[1], whole
        cdef object other = saved(node, 1 - i)
        cdef object out
        if len(sa) == 2 and len(sb) == 2:
            return product(g, other, False, True) if i == 0 else product(other, g, True, False)
        if len(sa) == 1 and len(sb) == 1:
            return mul(other, g)
        # A vector is a matrix of one row (left) or one column (right).
        whole = (<object> array_of(g)).shape
        if len(sa) == 1:
            g = reshape(g, whole[:len(whole) - 1] + (1, whole[len(whole) - 1]))
        elif len(sb) == 1:
            g = reshape(g, whole + (1,))
        if i == 0:
            if len(sb) == 1:
                other = reshape(other, (sb[0], 1))
            out = product(g, other, False, True)
            return reshape(sum_to(out, (1,) + sa), sa) if len(sa) == 1 else sum_to(out, sa)
        if len(sa) == 1:
            other = reshape(other, (1, sa[0]))
        out = product(other, g, True, False)
        return reshape(sum_to(out, sb + (1,)), sb) if len(sb) == 1 else sum_to(out, sb)


cdef Op MATMUL = named(MatMul.__new__(MatMul), "matmul")


cdef object product(object a, object b, bint transpose_a, bint transpose_b):
    """a @ b, the last two axes of either swapped on request; both have at least two axes."""
    if is_ndarray(a) and is_ndarray(b):
        return kernels.matmul(<cnp.ndarray> a, <cnp.ndarray> b, transpose_a, transpose_b)
    return matmul(swap_last(a) if transpose_a else a, swap_last(b) if transpose_b else b)


cdef object matmul(object a, object b):
    """a @ b for operands of one float dtype, each with at least one axis."""
    cdef cnp.ndarray x = array_of(a), y = array_of(b)
    return finish(MATMUL, kernels.matmul(x, y), a, b, x, y, ((<object> x).shape, (<object> y).shape))
