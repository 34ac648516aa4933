"""Functions that numba compiles, without numba until one is called."""

import subprocess
import sys

from fedbnsl.algorithms.core.compiled import njit, on_numba


@njit()
def _inner(x):
    return x + 1


@njit()
def _outer(x):
    return 2 * _inner(x)


def test_a_compiled_function_calls_another():
    assert _outer(3) == 8
    assert _outer.__name__ == "_outer"
    assert _outer.py_func(3) == 8


PROGRAM = """
import sys
from fedbnsl.algorithms.core.compiled import on_numba
from fedbnsl.algorithms.moments.elimination import _eliminate
from fedbnsl.algorithms.events import hawkes
called = []
with on_numba(lambda: called.append("left")):
    pass
with on_numba(lambda: called.append("numba" in sys.modules)):
    print("numba" in sys.modules, called)
    import numpy as np
    _eliminate(np.eye(1), np.arange(1), 9, 0.1, np.ones((1, 1), bool), np.zeros((1, 1), bool))
    print(called)
"""


def test_numba_is_imported_by_the_first_call():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False []", "[True]"]


def test_after_the_import_it_is_called_at_once():
    _outer(1)
    called = []
    with on_numba(lambda: called.append(1)):
        assert called == [1]
