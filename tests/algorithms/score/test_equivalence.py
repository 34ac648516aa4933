"""The compiled search steps against the plain ones of `graphs/cpdag.py`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.graphs.cpdag import cpdag, extend
from fedbnsl.algorithms.graphs.dag import is_acyclic
from fedbnsl.algorithms.score.equivalence import class_of, extension, member_of

CHECKED = settings(deadline=None, max_examples=40)


@st.composite
def dags(draw):
    d = draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    order = rng.permutation(d)
    return np.triu(rng.random((d, d)) < draw(st.floats(0, 1)), 1)[np.ix_(order, order)]


@CHECKED
@given(dag=dags())
def test_the_class_of_a_dag(dag):
    np.testing.assert_array_equal(class_of(dag), cpdag(dag))


@CHECKED
@given(dag=dags())
def test_a_member_of_a_class(dag):
    member = member_of(class_of(dag))
    assert is_acyclic(member)
    np.testing.assert_array_equal(class_of(member), class_of(dag))


@CHECKED
@given(dag=dags(), seed=st.integers(0, 10**6))
def test_partial_dags_are_extended_where_they_can_be(dag, seed):
    """Some arrows are made undirected: the result is often not a CPDAG, and sometimes has no consistent extension."""
    rng = np.random.default_rng(seed)
    partial = dag | (dag.T & (rng.random(dag.shape) < 0.6))
    found, complete = extension(partial)
    assert complete == (extend(partial) is not None)
    if complete:
        assert is_acyclic(found)
        np.testing.assert_array_equal(found | found.T, partial | partial.T)
        assert (found >= (partial & ~partial.T)).all()


def test_what_has_no_member_is_refused():
    square = np.zeros((4, 4), np.bool_)
    for i in range(4):
        square[i, (i + 1) % 4] = square[(i + 1) % 4, i] = True
    with pytest.raises(ValueError, match="no consistent extension"):
        member_of(square)


def test_a_cycle_is_refused():
    with pytest.raises(ValueError, match="directed cycle"):
        class_of(np.roll(np.eye(3, dtype=np.bool_), 1, axis=1))
