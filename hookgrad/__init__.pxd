"""The C-level face: what other Cython modules may cimport. Of what lies below, only these names are promised.

A module that reaches into ``VariableWrapper.data``, an ndarray, must have ``cimport numpy`` and ``numpy.import_array()``.
"""

from hookgrad._core.hooks cimport InplaceVariableWrapperHook, VariableWrapperHook
from hookgrad._core.variable cimport VariableWrapper
