"""The table of operations, importable by name in this folder's tests, and as their parameters.

pytest runs with ``--import-mode=importlib``, so that what is tested is the installed package; a test folder is then on
no import path, and its shared modules are loaded here.
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np


def _load(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_load("numeric")
op_table = _load("op_table")


def pytest_generate_tests(metafunc):
    """A test that takes `row` runs for every row of the table.

    `function_row` stands for all but the tensors' own methods; `mixing_row` for the rows of two operands, whose dtypes
    promote; `broadcasting_row` for those of them that take any two shapes that broadcast; `data_row` for functions
    without a derivative; `dtype` for the two dtypes that can require grad.
    """
    parameters = {
        "row": op_table.ROWS,
        "function_row": [row for row in op_table.ROWS if not row.name.startswith("Tensor.")],
        "mixing_row": [row for row in op_table.ROWS if row.mixes],
        "broadcasting_row": [row for row in op_table.ROWS if row.mixes and row.broadcasts],
        "data_row": op_table.DATA_ROWS,
        "dtype": [np.dtype(np.float32), np.dtype(np.float64)],
    }
    for name, values in parameters.items():
        if name in metafunc.fixturenames:
            metafunc.parametrize(name, values, ids=str)
