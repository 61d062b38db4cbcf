"""The C-level face: what other Cython modules may cimport. Of all that lies below, these names are promised.

A module that reaches into ``VariableWrapper.data``, an ndarray, must ``cimport numpy`` and call ``import_array()``.
"""

from hookgrad._core.hooks cimport InplaceVariableWrapperHook, VariableWrapperHook
from hookgrad._core.variable cimport VariableWrapper
