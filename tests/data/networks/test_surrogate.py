"""Silos by a surrogate variable as in Wang, Ma & Wang 2023, and the silos' shares."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.networks.surrogate import by_surrogate, surrogate, surrogate_set


def together(data):
    return np.concatenate([data.tables[silo] for silo in data.schema.silos])


def sorted_rows(table):
    return table[np.lexsort(table.T[::-1])]


def test_a_surrogate_deals_the_same_rows_differently():
    split, alike = surrogate(4, 2500, seed=3, parents=5, variables=20), discrete(20, 4, 2500, seed=3)
    assert np.array_equal(sorted_rows(together(split)), sorted_rows(together(alike)))
    assert np.array_equal(split.truth.weights, alike.truth.weights)
    assert split.schema.levels == alike.schema.levels
    assert split.schema.variables == alike.schema.variables, "the surrogate itself is hidden"
    assert len(split.about["surrogate_parents"]) == 5
    assert sum(split.schema.rows.values()) == 10_000
    assert len(set(split.schema.rows.values())) > 1


def association(given, owner):
    """The p-value of independence between the owner of a row and a column."""
    counts = np.zeros((given.max() + 1, owner.max() + 1))
    np.add.at(counts, (given, owner), 1)
    return chi2_contingency(counts[counts.sum(axis=1) > 0]).pvalue


def owners(parts, rows):
    owner = np.empty(rows, dtype=int)
    for silo, part in enumerate(parts):
        owner[part] = silo
    return owner


def test_the_surrogate_depends_on_its_parents_and_given_them_on_nothing_else():
    rng = np.random.default_rng(1)
    s, noisy = rng.integers(0, 3, 60_000), rng.integers(0, 2, 60_000)
    copied = np.where(rng.random(60_000) < 0.8, s, 0)  # depends on s, and so on C through it
    owner = owners(by_surrogate(s[:, None], 4, 1.0, rng), len(s))
    assert association(s, owner) < 1e-9
    assert association(noisy, owner) > 1e-3
    assert association(copied, owner) < 1e-9
    assert min(association(copied[s == level], owner[s == level]) for level in (1, 2)) > 1e-3


def test_the_silos_of_a_data_set_depend_on_every_parent():
    data = surrogate(3, 5000, seed=4, parents=3, variables=8, degree=0.0)
    owner = np.repeat(np.arange(3), [data.schema.rows[silo] for silo in data.schema.silos])
    table = together(data)
    for v, name in enumerate(data.schema.variables):
        p = association(table[:, v], owner)
        assert p < 1e-9 if name in data.about["surrogate_parents"] else p > 1e-3


def test_every_configuration_of_the_parents_has_shares_of_its_own():
    rng = np.random.default_rng(2)
    given = rng.integers(0, 2, (40_000, 2))
    owner = owners(by_surrogate(given, 3, 1.0, rng), len(given))
    shares = [
        np.bincount(owner[(given == cell).all(axis=1)], minlength=3) / 10_000
        for cell in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert all(abs(one - other).max() > 0.05 for one, other in pairwise(shares))


def test_without_parents_the_silos_are_alike():
    data = surrogate(4, 1000, seed=3, parents=0, variables=20)
    assert set(data.schema.rows.values()) == {1000}
    assert data.about["surrogate_parents"] == []
    owner = np.repeat(np.arange(4), 1000)
    assert min(association(together(data)[:, v], owner) for v in range(20)) > 1e-4


def test_a_surrogate_on_a_published_network():
    data = surrogate(3, 500, seed=1, parents=2, variables=20, network="asia")
    assert data.schema.variables[:2] == ("asia", "tub")
    assert data.truth.adjacency.sum() == 8
    assert data.about["parameters"] == {"silos": 3, "rows": 500, "parents": 2, "concentration": None, "network": "asia"}
    assert sum(data.schema.rows.values()) == 1500


@given(st.integers(1, 12), st.integers(0, 2**32))
def test_the_parents_of_a_surrogate_are_distinct_and_sorted(variables, seed):
    for size in (0, variables // 2, variables):
        chosen = surrogate_set(variables, size, np.random.default_rng(seed))
        assert len(set(chosen)) == size
        assert (np.diff(chosen) > 0).all()


def test_a_silo_that_gets_too_few_rows_is_named():
    with pytest.raises(BadInput, match=r"silos: \d of 40 rows have C = \d+, a silo needs 2: give more rows"):
        by_surrogate(np.zeros((40, 1), dtype=np.int64), 30, 0.1, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"variables": 1}, "variables: 1 is less than 2"),
        ({"silos": 0}, "silos: 0 is less than 1"),
        ({"rows": 1}, "rows: 1 is less than 2"),
        ({"seed": -1}, "seed: -1 is less than 0"),
        ({"degree": 4.5}, "degree: 4.5 is not between 0 and 4, the maximum of 5 variables"),
        ({"degree": -1.0}, "degree: -1.0 is not between 0 and 4, the maximum of 5 variables"),
        ({"degree": float("nan")}, "degree: nan is not between 0 and 4, the maximum of 5 variables"),
        ({"levels": (1, 3)}, "levels: 1-3 is not a range of numbers from 2 on"),
        ({"levels": (4, 3)}, "levels: 4-3 is not a range of numbers from 2 on"),
        ({"concentration": 0.0}, "concentration: 0.0 is not a positive number"),
        ({"concentration": float("inf")}, "concentration: inf is not a positive number"),
        ({"parents": 6}, "parents: 6 is not between 0 and 5, the number of variables"),
        ({"network": "chain"}, "network: 'chain' is not one of alarm, "),
    ],
)
def test_what_cannot_be_drawn_is_refused(change, message):
    options = {"variables": 5, "silos": 2, "rows": 50, "seed": 0} | change
    with pytest.raises(BadInput) as caught:
        surrogate(**{"parents": 5} | options)
    assert str(caught.value).startswith(message)
    if not {"parents", "network"} & set(change):
        with pytest.raises(BadInput) as caught:
            discrete(**options)
        assert str(caught.value) == message
