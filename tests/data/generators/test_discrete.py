"""Random discrete networks follow Wang, Ma & Wang 2023, and the silos' shares are correct."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedbnsl.algorithms.errors import BadInput
from fedbnsl.data.folder.folder import read_folder, write_folder
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.random_graphs import random_dag
from fedbnsl.data.generators.random_network import dirichlet_rows, level_names, random_levels, random_network


def together(data):
    return np.concatenate([data.tables[silo] for silo in data.schema.silos])


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
    crowded[:5, 5:] = True  # each has five parents
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


def test_a_table_that_would_not_fit_is_refused():
    dag = np.zeros((13, 13), dtype=bool)
    dag[:12, 12] = True
    names = tuple(f"v{number}" for number in range(13))
    with pytest.raises(BadInput, match="levels: v12 has 12 parents, so a table of 67108864 numbers; give fewer levels"):
        random_network(dag, names, (4, 4), None, np.random.default_rng(0))
    rng = np.random.default_rng(0)
    assert random_network(random_dag(13, 12, rng), names, (4, 4), None, rng).structure.acyclic
