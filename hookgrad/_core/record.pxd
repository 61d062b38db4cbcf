"""Recording an operation, and reading back what it saved."""

cimport numpy as cnp

from hookgrad._core.grad_node cimport GradNode, Op
from hookgrad._core.variable cimport VariableWrapper

cdef cnp.ndarray array_of(object x)
cdef GradNode node_of(object x)
cdef bint is_variable_or_array(object x) noexcept
cdef object operand(object x, str function)
cdef list operands(tuple xs, str function)
cdef bint is_weak(object x)
cdef cnp.ndarray array_from(object x)
cdef VariableWrapper to_variable(object x, str function)
cdef list to_variables(tuple xs, str function)
cdef object finish(Op op, cnp.ndarray out, object a, object b, object saved0, object saved1, object aux)
cdef object finish_view(Op op, cnp.ndarray out, object x, object aux)
cdef object saved(GradNode node, int k)
cdef object saved_output(GradNode node)
cdef object saved_data(GradNode node, int k)
