"""Background knowledge in the consensus learners: forbidden edges are zero in every round, and orders are respected."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl.algorithms import registry
from fedbnsl.algorithms.admm.notears_admm import closed_form
from fedbnsl.algorithms.admm.orders import compatible_moves, settled_order, turned
from fedbnsl.algorithms.admm.problem import Lasso
from fedbnsl.algorithms.core.knowledge import Knowledge, tier_arcs
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.graphs.compare import compare
from fedbnsl.algorithms.graphs.dag import topological_order
from fedbnsl.algorithms.statistics.moments import top_down_order
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.tasks.transport.in_process import InProcessFederation


def standardised(seed):
    """Rows whose scales do not reveal the order, and knowledge of three tiers and one edge of the true graph."""
    data = homogeneous(10, 3, 400, seed)
    rows = np.vstack(list(data.tables.values()))
    tables = {silo: (table - rows.mean(axis=0)) / rows.std(axis=0) for silo, table in data.tables.items()}
    names, truth = data.truth.variables, data.truth.adjacency
    order = np.array(topological_order(truth))
    tiers = [[names[v] for v in part] for part in np.array_split(order, 3)]
    i, j = np.argwhere(truth)[0]
    known = Knowledge(((names[i], names[j]),), tier_arcs(tiers))
    return data, InProcessFederation(replace(data.schema, knowledge=known), tables), known


def ahead(place, precedes):
    """Whether every variable comes after all variables that must precede it."""
    return all(place[i] < place[j] for i, j in np.argwhere(precedes))


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm", "fed-frank-wolfe", "notears-mlp-admm"])
def test_what_cannot_be_is_zero_in_every_round_and_orders_keep_what_is_known(name):
    data, federation, known = standardised(4)
    names = data.schema.variables
    small = {"units": 2, "steps": 5} if name == "notears-mlp-admm" else {}
    algorithm = registry.build(registry.specify(name, {"rounds": 40, "threshold": 0.0, **small}))
    ordered = 0
    for one in rounds(algorithm, federation):
        assert not algorithm.structure(one.server).scores[~known.possible(names)].any()
        phase = getattr(one.server, "phase", None)
        if phase is not None and phase.ordered:
            ordered += 1
            assert ahead(phase.place, known.precedence(names))
    entry = registry.entry(name)
    assert ordered or entry.nonlinear or not entry.exact_solver


@pytest.mark.parametrize("name", ["fed-sparse", "notears-admm"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_tiers_help_where_scales_do_not(name, seed):
    data, federation, _ = standardised(seed)
    shd = []
    for schema in (federation.schema, replace(federation.schema, knowledge=Knowledge())):
        algorithm = registry.build(registry.specify(name, {}))
        *_, last = rounds(algorithm, replace(federation, schema=schema))
        shd.append(compare(algorithm.structure(last.server), data.truth)["shd"])
    assert shd[0] < shd[1]


def test_a_required_edge_stays_though_its_weight_is_below_the_threshold():
    data, federation, known = standardised(3)
    required = known.required_matrix(data.schema.variables)
    algorithm = registry.build(registry.specify("fed-sparse", {"threshold": 5.0}))
    *_, last = rounds(algorithm, federation)
    np.testing.assert_array_equal(algorithm.structure(last.server).adjacency, required)


def test_orders_and_moves_keep_what_comes_first():
    precedes = np.zeros((4, 4), bool)
    precedes[0, 3] = True
    strength = np.zeros((4, 4))
    strength[3, 0], strength[2, 1] = 9.0, 1.0
    place = settled_order(strength, precedes)
    assert place[0] < place[3]
    assert place[2] < place[1]
    assert settled_order(strength)[3] < settled_order(strength)[0]
    found, variances = top_down_order(np.diag([4.0, 3.0, 2.0, 1.0]), precedes)
    assert np.argsort(found).tolist() == [2, 1, 0, 3]
    assert variances.tolist() == [4.0, 3.0, 2.0, 1.0]


def test_a_move_that_takes_a_variable_past_another_that_must_stay_before_it_is_none():
    rng = np.random.default_rng(0)
    for _ in range(20):
        place = rng.permutation(5)
        precedes = (rng.random((5, 5)) < 0.2) & (place[:, None] < place)
        moves = np.array([(i, j) for i in range(5) for j in range(5) if i != j], np.int32)
        kept = {tuple(move) for move in compatible_moves(moves, place, precedes).tolist()}
        for move in moves:
            after = turned(place, move[None], np.array([-1.0]), 0.0)
            assert (tuple(move.tolist()) in kept) == ahead(after, precedes)


@pytest.mark.parametrize("lags", [0, 1])
def test_the_closed_form_solves_any_pattern_of_free_entries(lags):
    rng, d = np.random.default_rng(1), 5
    m = (lags + 1) * d
    X = rng.normal(size=(50, m))
    free = (rng.random((m, d)) < 0.5) & ~np.eye(m, d, dtype=bool)
    one = Lasso(rng.normal(size=(m, d)), rng.random(m), np.zeros(m), free, np.zeros((m, d)), X.T @ X / 50)
    B = closed_form(one, loops=False)
    gradient = one.S @ B - one.S[:, :d] + one.linear + one.r[:, None] * B
    np.testing.assert_allclose(gradient[free], 0, atol=1e-10)
    assert not B[~free].any()
