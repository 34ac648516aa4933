"""Background knowledge about edges and orders, and the errors that name what is wrong with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedbnsl.algorithms.core import wire
from fedbnsl.algorithms.core.knowledge import Knowledge, no_parent_arcs, no_prior, tier_arcs
from fedbnsl.algorithms.errors import BadInput

NAMES = ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("required", "forbidden", "said"),
    [
        ([("a", "b")], [("a", "b")], "a -> b is both required and forbidden"),
        ([("a", "a")], [], "a -> a leads from a variable to itself"),
        ([], [("b", "b")], "b -> b leads from a variable to itself"),
        ([("a", "b"), ("b", "c"), ("c", "a")], [], "required arcs form the cycle"),
    ],
)
def test_contradictions_are_refused_by_name(required, forbidden, said):
    with pytest.raises(BadInput, match=said):
        Knowledge(tuple(required), tuple(forbidden))


def test_what_is_no_column_is_refused_by_name():
    with pytest.raises(BadInput, match="a -> z: 'z' is not a column"):
        Knowledge(required=(("a", "z"),)).check(NAMES)


def test_a_variable_stands_in_one_tier():
    with pytest.raises(BadInput, match="'b' is in two tiers"):
        tier_arcs([["a", "b"], ["b"]])


def test_tiers_and_roots_forbid_what_they_mean():
    assert set(tier_arcs([["a"], ["b", "c"], ["d"]])) == {
        ("b", "a"),
        ("c", "a"),
        ("d", "a"),
        ("d", "b"),
        ("d", "c"),
    }
    assert no_parent_arcs(["b"], NAMES) == (("a", "b"), ("c", "b"), ("d", "b"))


def test_matrices_say_what_may_be_and_what_must():
    known = Knowledge((("a", "b"), ("b", "c")), (("d", "a"),))
    prior = known.prior(NAMES)
    assert prior.required.sum() == 2
    ruled_out = {(NAMES[i], NAMES[j]) for i, j in np.argwhere(~prior.possible) if i != j}
    assert ruled_out == {("b", "a"), ("c", "b"), ("c", "a"), ("d", "a")}  # and no arc back to a required ancestor
    assert {(NAMES[i], NAMES[j]) for i, j in np.argwhere(prior.precedence)} == {
        *(("a", "b"), ("b", "c"), ("a", "c")),
        ("a", "d"),  # nothing can cause a
    }
    again = prior.reordered(np.array([3, 2, 1, 0]))
    assert again.required[2, 1]
    assert again.required[3, 2]
    assert again.required.sum() == 2


def test_an_empty_knowledge_rules_nothing_out():
    prior = Knowledge().prior(NAMES)
    assert not prior.is_informative
    assert not no_prior(4).is_informative
    assert not prior.precedence.any()
    assert prior.possible_pairs.sum() == 12
    assert not Knowledge()


def test_it_travels():
    known = Knowledge((("a", "b"),), (("b", "c"),))
    assert wire.decode(Knowledge, wire.encode(known)) == known


@given(st.integers(2, 7), st.integers(0, 10_000))
def test_what_precedes_is_an_order_that_every_agreeing_graph_has(d, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(d)
    dag = np.triu(rng.random((d, d)) < 0.4, 1)[np.ix_(order, order)]
    required = dag & (rng.random((d, d)) < 0.5)
    forbidden = ~dag & (rng.random((d, d)) < 0.6)
    names = [f"x{v}" for v in range(d)]
    prior = Knowledge(
        tuple((names[i], names[j]) for i, j in np.argwhere(required)),
        tuple((names[i], names[j]) for i, j in np.argwhere(forbidden & ~np.eye(d, dtype=bool))),
    ).prior(names)
    assert not (dag & ~prior.possible).any()
    ahead = prior.precedence
    assert not (ahead & ahead.T).any()
    assert not ((ahead.astype(int) @ ahead.astype(int) > 0) & ~ahead).any()
    # An order of the true DAG agrees with the knowledge: together with its edges, there is no cycle.
    both = dag | ahead
    ways = both.copy()
    for _ in range(d):
        ways |= ways @ both
    assert not np.diag(ways).any()


def test_knowledge_among_some_variables_has_only_their_arcs():
    known = Knowledge((("a", "b"), ("b", "c")), (("c", "a"), ("d", "b")))
    assert known.among(("a", "b", "c")) == Knowledge((("a", "b"), ("b", "c")), (("c", "a"),))
    assert known.among(("a", "d")) == Knowledge()
