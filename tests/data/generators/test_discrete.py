"""Random discrete networks and surrogate splits: what paper 003 says, and what the shares must be."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete, surrogate
from fedbnsl.data.generators.linear import random_dag
from fedbnsl.data.generators.random_network import dirichlet_rows, level_names, random_levels, random_network
from fedbnsl.data.generators.surrogate import by_surrogate, surrogate_set


def together(data):
    return np.concatenate([data.tables[silo] for silo in data.schema.silos])


def sorted_rows(table):
    return table[np.lexsort(table.T[::-1])]


def test_a_data_set_of_the_default_settings(tmp_path):
    data = discrete(20, 10, 1000, seed=2)
    assert data.schema.kind == "discrete"
    assert data.schema.rows == {f"silo-{number:02d}": 1000 for number in range(1, 11)}
    assert {len(labels) for labels in data.schema.levels.values()} <= {2, 3, 4, 5}
    assert data.schema.levels["x01"][:2] == ("s0", "s1")
    assert set(np.unique(data.truth.weights)) == {0.0, 1.0}
    assert data.truth.acyclic
    for v, name in enumerate(data.schema.variables):
        assert together(data)[:, v].max() < len(data.schema.levels[name])
    assert data.about["parameters"]["levels"] == [2, 5]
    write_folder(tmp_path / "set", data)
    assert read_folder(tmp_path / "set").schema == data.schema


@given(st.integers(2, 9), st.integers(1, 4), st.integers(2, 30), st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_the_rows_of_all_silos_do_not_depend_on_their_number(variables, silos, rows, seed):
    degree = min(2.0, variables - 1)
    few, many = discrete(variables, silos, 2 * rows, seed, degree), discrete(variables, 2 * silos, rows, seed, degree)
    assert np.array_equal(together(few), together(many))
    assert np.array_equal(few.truth.weights, many.truth.weights)
    assert few.schema.levels == many.schema.levels
    assert np.array_equal(discrete(variables, 1, 2, seed, degree).truth.weights, few.truth.weights)


def test_another_seed_gives_another_data_set():
    one, again, other = (discrete(6, 2, 50, seed) for seed in (4, 4, 5))
    assert np.array_equal(together(one), together(again))
    assert one.schema == again.schema
    assert not np.array_equal(together(one), together(other))


def test_the_graph_has_the_mean_degree_asked_for():
    edges = [discrete(20, 1, 2, seed, 3.0, (2, 2)).truth.adjacency.sum() for seed in range(60)]
    assert abs(np.mean(edges) - 30) < 4 * np.sqrt(190 * 30 / 190 * (1 - 30 / 190) / 60)
    assert discrete(5, 1, 2, 0, degree=4.0, levels=(2, 2)).truth.adjacency.sum() == 10
    assert discrete(5, 1, 2, 0, degree=0.0).truth.adjacency.sum() == 0


def test_levels_lie_in_the_range_and_parents_of_crowded_children_near_its_middle():
    rng = np.random.default_rng(0)
    free = np.concatenate([random_levels(np.zeros((50, 50), dtype=bool), (2, 5), rng) for _ in range(200)])
    crowded = np.zeros((50, 50), dtype=bool)
    crowded[:5, 5:] = True  # five parents of each
    parents = np.concatenate([random_levels(crowded, (2, 5), rng)[:5] for _ in range(200)])
    assert (free.min(), free.max()) == (2, 5)
    assert abs(free.mean() - 3.5) < 0.05
    assert set(parents) == {3, 4}
    assert free.std() > 1.5 * parents.std()
    assert random_levels(crowded, (3, 3), rng).tolist() == [3] * 50


@pytest.mark.parametrize("concentration", [0.2, 1.0, 5.0])
def test_rows_of_tables_are_dirichlet(concentration):
    drawn = dirichlet_rows(20_000, 4, concentration, np.random.default_rng(0))
    assert np.allclose(drawn.sum(axis=1), 1)
    assert np.allclose(drawn.mean(axis=0), 0.25, atol=0.01)
    assert np.allclose(drawn.var(axis=0), 0.25 * 0.75 / (4 * concentration + 1), rtol=0.05)


def test_by_default_every_row_has_a_concentration_of_its_own():
    drawn = dirichlet_rows(30_000, 4, None, np.random.default_rng(0))
    a = np.linspace(0.1, 1.0, 10_001)
    assert np.allclose(drawn.var(axis=0), np.mean(0.25 * 0.75 / (4 * a + 1)), rtol=0.04)


def test_more_than_ten_levels_sort_by_their_names():
    names = level_names(12)
    assert names[:3] == ("s00", "s01", "s02")
    assert list(names) == sorted(names)


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
    """Return the p-value of independence between the owner of a row and a column."""
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
        ({"degree": 4.5}, "degree: 4.5 is not between 0 and 4, the most of 5 variables"),
        ({"degree": -1.0}, "degree: -1.0 is not between 0 and 4, the most of 5 variables"),
        ({"degree": float("nan")}, "degree: nan is not between 0 and 4, the most of 5 variables"),
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


def test_a_table_that_would_not_fit_is_refused():
    dag = np.zeros((13, 13), dtype=bool)
    dag[:12, 12] = True
    names = tuple(f"v{number}" for number in range(13))
    with pytest.raises(BadInput, match="levels: v12 has 12 parents, so a table of 67108864 numbers; give fewer levels"):
        random_network(dag, names, (4, 4), None, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    assert random_network(random_dag(13, 12, rng), names, (4, 4), None, rng).structure.acyclic
