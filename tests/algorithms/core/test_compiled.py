"""Functions that numba compiles: without numba until one is called, and the same numbers from NumPy until then."""

import subprocess
import sys

import numpy as np
import pytest

from fedbnsl.algorithms.core.compiled import njit, on_numba
from fedbnsl.algorithms.core.knowledge import Prior
from fedbnsl.algorithms.moments import elimination
from fedbnsl.algorithms.secure import participant


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
    print("numba" in sys.modules, called, [_eliminate.is_postponed(2) for _ in range(3)])
    import numpy as np
    _eliminate(np.eye(1), np.arange(1), 9, 0.1, np.ones((1, 1), bool), np.zeros((1, 1), bool))
    print(called, _eliminate.is_postponed(9))
"""


def test_numba_is_imported_by_the_first_call():
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["False [] [True, True, False]", "[True] False"]


def test_after_the_import_it_is_told_at_once():
    _outer(1)
    told = []
    with on_numba(lambda: told.append(1)):
        assert told == [1]


@pytest.mark.parametrize("seed", range(20))
def test_numpy_eliminates_the_same_parents_bit_for_bit(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, elimination.MAX_BY_NUMPY + 1))
    rows = int(rng.integers(max(2, d // 2), 200))
    table = rng.normal(size=(rows, d)) @ rng.normal(size=(d, d))
    if d > 2:
        table[:, 1] = 2 * table[:, 0]
    moments, order = table.T @ table / rows, rng.permutation(d)
    known = Prior(rng.random((d, d)) < 0.9, rng.random((d, d)) < 0.05)
    given = (moments, order, rows, 0.01)
    compiled = elimination._eliminate(*given, known.possible, known.required)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(elimination._eliminate_by_numpy(*given, known), compiled)


@pytest.mark.parametrize(("threshold", "silos"), [(1, 1), (2, 3), (6, 8), (16, 16)])
def test_pythons_integers_share_the_same_points(monkeypatch, threshold, silos):
    rng = np.random.default_rng(threshold)
    given = (rng.bytes(32), threshold, silos, rng.bytes(participant.random_bytes(threshold)))
    shares = participant.split(*given)
    monkeypatch.setattr(participant, "MAX_SILOS_OF_PYTHON", 0)
    assert participant.split(*given) == shares
