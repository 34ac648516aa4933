"""Draws of empty cells follow the network's distribution given the observed cells."""

from itertools import product

import numpy as np
import pytest

from fedbnsl.algorithms.core.schema import ImputationModel
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.statistics.gibbs import gibbs_impute

SIZES = np.array([2, 3, 2, 2])
# 0 -> 1 <- 2, 1 -> 3
DAG = np.zeros((4, 4), np.bool_)
DAG[0, 1] = DAG[2, 1] = DAG[1, 3] = True


def network(seed: int):
    """Tables, as in a filling, and the probability of every joint state."""
    rng = np.random.default_rng(seed)
    shapes = [(2,), (2, 2, 3), (2,), (3, 2)]
    tables = [rng.dirichlet(np.ones(shape[-1]), shape[:-1]) for shape in shapes]
    joint = np.zeros(SIZES)
    for a, b, c, d in product(*map(range, SIZES)):
        joint[a, b, c, d] = tables[0][a] * tables[1][a, c, b] * tables[2][c] * tables[3][b, d]
    return ImputationModel(dag=DAG, tables=np.concatenate([table.ravel() for table in tables])), joint


@pytest.mark.compiles
@pytest.mark.parametrize("there", [{1: 2, 3: 0}, {3: 1}, {}, {0: 1, 2: 0, 3: 1}])
def test_draws_follow_the_distribution_given_what_is_there(there):
    filling, joint = network(1)
    rows = 40_000
    columns = np.full((4, rows), -1, np.int16)
    for v, code in there.items():
        columns[v] = code
    out = gibbs_impute(columns, SIZES, filling, np.random.default_rng(0))
    given = joint[tuple(there.get(v, slice(None)) for v in range(4))]
    given = (given / given.sum()).ravel()
    free = [v for v in range(4) if v not in there]
    states = np.ravel_multi_index(tuple(out[free]), SIZES[free]) if free else np.zeros(rows, int)
    shares = np.bincount(states, minlength=len(given)) / rows
    assert np.abs(shares - given).max() < 4 * np.sqrt(0.25 / rows)


def test_cells_that_are_there_stay_and_a_seed_gives_the_same_draws():
    filling, _ = network(2)
    rng = np.random.default_rng(3)
    columns = np.array([rng.integers(0, size, 200) for size in SIZES], np.int16)
    empty = rng.random(columns.shape) < 0.4
    columns[empty] = -1
    one, same, other = (gibbs_impute(columns, SIZES, filling, np.random.default_rng(seed)) for seed in (5, 5, 6))
    assert (one >= 0).all()
    assert (one < SIZES[:, None]).all()
    assert (one[~empty] == columns[~empty]).all()
    assert (one == same).all()
    assert (one != other).any()


def test_a_model_of_another_shape_is_refused():
    """Compiled code does not check its indices: with such a model it would read beyond the tables."""
    model, columns, rng = network(1)[0], np.full((4, 3), -1, np.int16), np.random.default_rng(0)
    for tables in (model.tables[:-1], np.append(model.tables, 0.5)):
        with pytest.raises(BadInput, match="the tables of the imputation model do not fit its graph"):
            gibbs_impute(columns, SIZES, ImputationModel(dag=DAG, tables=tables), rng)
    larger = np.zeros((5, 5), np.bool_)
    larger[:4, :4] = DAG
    for dag in (larger, DAG[:, :3], DAG[:3, :3]):
        with pytest.raises(BadInput, match="the imputation model of 4 variables has a graph of another size"):
            gibbs_impute(columns, SIZES, ImputationModel(dag=dag, tables=model.tables), rng)
