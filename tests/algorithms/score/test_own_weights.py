"""secure-boss with weights=own: scores equal to the sum of each silo's regressions, in few exchanges."""

import numpy as np
import pytest

from fedbnsl.algorithms.core.knowledge import Knowledge
from fedbnsl.algorithms.core.schema import Schema
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.score.families import Batch
from fedbnsl.algorithms.score.gaussian import score_own_rows
from fedbnsl.algorithms.score.secure_search import own_weights_gain, secure_boss
from fedbnsl.algorithms.score.settings import SecureSearch
from fedbnsl.algorithms.statistics.moments import centred_moments
from fedbnsl.algorithms.statistics.rows import Query
from fedbnsl.tasks.transport.in_process import InProcessFederation

NAMES = tuple(f"v{v}" for v in range(8))


def silos_of(seed, sd, sizes=(300, 500, 800, 400), d=8, edges=14):
    """Tables of silos that share a DAG `[d, d]`, with weights that differ by `sd` and with other means, and the DAG."""
    rng = np.random.default_rng(seed)
    order, dag = rng.permutation(d), np.zeros((d, d), np.bool_)
    chosen = rng.permutation(d * (d - 1) // 2)[:edges]
    dag[tuple(order[np.transpose(np.triu_indices(d, 1))[chosen]].T)] = True
    weights = dag * rng.uniform(0.5, 1.5, (d, d)) * rng.choice([-1.0, 1.0], (d, d))
    tables = {}
    for number, n in enumerate(sizes):
        own = weights + sd * dag * rng.normal(size=(d, d))
        tables[f"s{number}"] = rng.normal(size=(n, d)) @ np.linalg.inv(np.eye(d) - own) + number
    return tables, dag


def federation(tables, **other):
    d = next(iter(tables.values())).shape[1]
    schema = Schema(NAMES[:d], {silo: len(table) for silo, table in tables.items()}, "continuous", **other)
    return InProcessFederation(schema, tables, secure=True)


def test_a_silo_s_score_is_that_of_its_regressions():
    tables, _ = silos_of(1, 0.3)
    table = tables["s0"]
    n = len(table) - 1
    batch = Batch(np.array([0, 1, 3, 6]), np.array([2, 2, 0, 2, 0, 5], np.uint16))
    found = score_own_rows(centred_moments(table, (len(table),)), 8, batch)
    centred = table - table.mean(axis=0)
    for score, parents in zip(found, ([], [0], [0, 5]), strict=True):
        _, squares, _, _ = np.linalg.lstsq(centred[:, parents], centred[:, 2], rcond=None)
        total = squares[0] if parents else centred[:, 2] @ centred[:, 2]
        variance = total / (n - len(parents))
        assert score == pytest.approx(-0.5 * n * np.log(variance) - 0.5 * np.log(n) * (len(parents) + 1))


@pytest.mark.parametrize(
    "listed",
    [
        [[2, 8, -1]],
        [[8, -1]],
        [[2, -2, -1]],
        [[2, 300, -1]],
        [[-1]],
        [[-1, 2, -1]],
        [[2, 0]],
        [[2, 0, -1, 3]],
        [[2, 0, 2, -1]],
        [[2, 0, 0, -1]],
        [[2, -1], [3, -1]],
        [[]],
    ],
)
def test_families_outside_the_variables_are_refused(listed):
    """Compiled code does not check its indices and would send memory beyond the moments."""
    tables, _ = silos_of(1, 0.3)
    schema = Schema(NAMES, {silo: len(table) for silo, table in tables.items()}, "continuous")
    algorithm = secure_boss(SecureSearch(weights="own"))
    silo = algorithm.open_silo(tables["s0"], schema, "s0", np.random.default_rng(0))
    algorithm.local_solve(silo, Query("families", np.array([[2, 0, -1, 2, -1, 0, 1, 7, -1]], np.int16)))
    with pytest.raises(BadInput, match="is not a variable and its parents, each named once, followed by padding"):
        algorithm.local_solve(silo, Query("families", np.array(listed, np.int16)))


def test_parents_explain_nothing_in_a_silo_of_too_few_rows():
    table = silos_of(1, 0.3)[0]["s0"][:6]
    batch = Batch(np.array([0, 1, 5]), np.array([2, 2, 0, 1, 5], np.uint16))
    alone, with_parents = score_own_rows(centred_moments(table, (6,)), 8, batch)
    assert with_parents == pytest.approx(alone - 0.5 * 3 * np.log(5))
    assert score_own_rows(centred_moments(table[:1], (1,)), 8, batch).tolist() == [0.0, 0.0]


def test_the_class_is_found_where_weights_differ(running, learning):
    right = 0
    for seed in range(4):
        tables, dag = silos_of(seed, 0.4)
        own = running("secure-boss", federation(tables), weights="own")
        right += np.array_equal(own.server.found, cpdag(dag))
        assert own_weights_gain(own.server) > 0
    assert right >= 3
    common = [learning("secure-boss", federation(silos_of(seed, 0.4)[0])).adjacency for seed in range(4)]
    assert sum(np.array_equal(one, cpdag(silos_of(seed, 0.4)[1])) for seed, one in enumerate(common)) <= 1


def test_common_weights_gain_more_where_weights_are_equal(running):
    for seed in range(3):
        assert own_weights_gain(running("secure-boss", federation(silos_of(seed, 0.0)[0]), weights="own").server) < 0


def test_predictions_save_exchanges_and_change_nothing(running):
    tables, _ = silos_of(5, 0.4, d=8)
    ahead, plain = (running("secure-boss", federation(tables), weights="own", lookahead=n, exact=0) for n in (1, 0))
    np.testing.assert_array_equal(ahead.server.found, plain.server.found)
    assert 5 * ahead.number < plain.number
    small = running("secure-boss", federation(tables), weights="own", exact=0, cells=500, most_cells=500)
    np.testing.assert_array_equal(small.server.found, plain.server.found)
    assert small.number > ahead.number


def test_means_and_units_change_nothing(learning):
    tables, _ = silos_of(6, 0.4)
    found = learning("secure-boss", federation(tables), weights="own").weights
    units = 10.0 ** np.arange(-3, 5)
    moved = {silo: (table + 3.0 * number) * units for number, (silo, table) in enumerate(tables.items())}
    schema_units = tuple(2.0 ** np.round(np.log2(units)))
    other = learning("secure-boss", federation(moved, units=schema_units), weights="own").weights
    np.testing.assert_array_equal(found, other)


def test_a_few_rows_in_a_silo_are_no_obstacle(learning):
    tables, dag = silos_of(2, 0.3, sizes=(600, 700, 500, 6, 3, 1))
    assert (learning("secure-boss", federation(tables), weights="own").adjacency != cpdag(dag)).sum() <= 2


def test_knowledge_is_respected(learning):
    tables, dag = silos_of(3, 0.3)
    cause, effect = np.argwhere(dag & ~cpdag(dag).T)[0]
    turned = Knowledge(required=((NAMES[effect], NAMES[cause]),))
    found = learning("secure-boss", federation(tables, knowledge=turned), weights="own").adjacency
    assert found[effect, cause]
    assert not found[cause, effect]


def test_labels_are_refused_by_name(learning):
    table = np.column_stack([np.arange(40) % 2, np.random.default_rng(0).normal(size=(40, 2))])
    schema = Schema(("sex", "age", "dose"), {"s": 40}, "mixed", {"sex": ("f", "m")})
    with pytest.raises(BadInput, match="weights=own scores columns of numbers, and 'sex' has labels"):
        learning("secure-boss", InProcessFederation(schema, {"s": table}), weights="own")
