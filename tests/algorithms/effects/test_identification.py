"""Identification: adjustment sets against all DAGs of a class, and the reasons if there is no adjustment set."""

from itertools import product

import numpy as np
import pytest

from fedbnsl.algorithms.effects.identification import (
    AdjustmentSet,
    identify,
    open_edge,
    optimal_adjustment_set,
    orientations,
    other_parents,
)
from fedbnsl.algorithms.effects.linear import WithinMoments, adjusted_effect
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.dag import d_separated, is_acyclic, reachable, v_structures
from fedbnsl.algorithms.graphs.structure import Structure


def random_dag(d, density, rng):
    upper = np.triu(rng.random((d, d)) < density, 1)
    order = rng.permutation(d)
    return upper[np.ix_(order, order)]


def enumerated(pdag):
    """All DAGs of the class of `pdag`: every orientation of its undirected edges, kept if acyclic and equivalent."""
    open_edges = np.argwhere(np.triu(pdag & pdag.T))
    for choice in product((False, True), repeat=len(open_edges)):
        dag = pdag.copy()
        for (i, j), forward in zip(open_edges, choice, strict=True):
            dag[(j, i) if forward else (i, j)] = False
        if is_acyclic(dag) and v_structures(dag) == v_structures(pdag):
            yield dag


def structure(adjacency, kind="cpdag"):
    names = tuple(f"v{i}" for i in range(len(adjacency)))
    return Structure(names, adjacency.astype(float), kind)


def value(moments, x, y, one):
    return adjusted_effect(moments, x, y, one.covariates).value if one.causal else 0.0


@pytest.mark.parametrize("seed", range(12))
def test_the_sets_and_ranges_are_those_of_all_dags_of_the_class(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 9))
    pdag = cpdag(random_dag(d, rng.uniform(0.25, 0.6), rng))
    members = list(enumerated(pdag))[:3000]
    rows = rng.normal(size=(200, d)) @ rng.normal(size=(d, d))
    moments = WithinMoments(np.cov(rows.T, bias=True), 200, 1)
    for x, y in product(range(d), repeat=2):
        if x == y:
            continue
        for kind, one in (("total", optimal_adjustment_set), ("direct", other_parents)):
            expected = {one(dag, x, y) for dag in members}
            found = identify(structure(pdag), x, y, kind).sets
            assert set(found) == expected
            local, all_of_them = ([value(moments, x, y, s) for s in sets] for sets in (found, expected))
            assert (min(local), max(local)) == (min(all_of_them), max(all_of_them))


def test_local_orientations_are_the_possible_sets_of_parents():
    rng = np.random.default_rng(5)
    for _ in range(8):
        pdag = cpdag(random_dag(6, 0.5, rng))
        members = list(enumerated(pdag))
        for v in range(6):
            expected = {tuple(dag[:, v]) for dag in members}
            found = [tuple(dag[:, v]) for dag in orientations(pdag, v)]
            assert set(found) == expected
            assert len(found) == len(expected)


def test_ranges_equal_those_of_parent_adjustment_in_the_population():
    """IDA adjusts for the parents of the treatment; with a DAG's covariance, both agree in every member."""
    rng = np.random.default_rng(3)
    dag = random_dag(7, 0.5, rng)
    mixing = np.linalg.inv(np.eye(7) - dag * rng.uniform(0.5, 1.5, (7, 7)))
    moments = WithinMoments(mixing.T @ mixing, 10_000, 1)
    pdag = cpdag(dag)
    members = list(enumerated(pdag))
    for x, y in product(range(7), repeat=2):
        if x == y:
            continue
        parents = [np.flatnonzero(one[:, x]).tolist() for one in members]
        ida = [0.0 if y in own else adjusted_effect(moments, x, y, own).value for own in parents]
        own = [value(moments, x, y, one) for one in identify(structure(pdag), x, y).sets]
        assert np.allclose([min(own), max(own)], [min(ida), max(ida)], atol=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_optimal_set_satisfies_the_adjustment_criterion(seed):
    """It has no descendant of a causal variable, and separates X from Y once the causal edges out of X are removed."""
    rng = np.random.default_rng(100 + seed)
    dag = random_dag(8, 0.4, rng)
    for x, y in product(range(8), repeat=2):
        found = optimal_adjustment_set(dag, x, y) if x != y else AdjustmentSet(causal=False)
        if not found.causal:
            assert x == y or not reachable(dag, (x,))[y]
            continue
        causal = reachable(dag, (x,)) & reachable(dag.T, (y,))
        causal[x] = False
        assert not reachable(dag, np.flatnonzero(causal).tolist())[list(found.covariates)].any()
        back_door = dag.copy()
        back_door[x] &= ~causal
        assert d_separated(back_door, x, y, found.covariates)


def test_a_textbook_case():
    """a → x → m → y, b → y, b → m, a: an instrument is left out, b is the only covariate."""
    a, x, m, y, b = range(5)
    dag = np.zeros((5, 5), bool)
    for i, j in ((a, x), (x, m), (m, y), (b, y), (b, m)):
        dag[i, j] = True
    assert optimal_adjustment_set(dag, x, y) == AdjustmentSet(causal=True, covariates=(b,))
    assert other_parents(dag, m, y) == AdjustmentSet(causal=True, covariates=(b,))
    assert identify(structure(dag, "dag"), x, y, "direct").sets == (AdjustmentSet(causal=False),)
    assert "no directed path" in identify(structure(dag, "dag"), y, x).reason


def test_what_is_not_identified_says_why():
    circle = np.roll(np.eye(3, dtype=bool), 1, axis=1)
    assert "has a cycle: v0" in identify(structure(circle, "dag"), 0, 1).reason
    circles = Structure(("v0", "v1"), np.array([[0.0, 3.0], [3.0, 0.0]]), "pag")
    assert "leaves open whether v0 acts on v1" in identify(circles, 0, 1).reason
    square = np.zeros((4, 4), bool)
    for i in range(4):
        square[i, (i + 1) % 4] = square[(i + 1) % 4, i] = True
    found = identify(structure(square), 0, 1)
    assert found.sets == ()
    assert "class of no DAG" in found.reason
    star = np.zeros((17, 17), bool)
    star[0, 1:] = star[1:, 0] = True
    assert "more than 14" in identify(structure(star), 0, 1).reason
    with pytest.raises(ValueError, match="same variable"):
        identify(structure(circle, "dag"), 1, 1)


def joint_effects(dag, S, causes, effects):
    """The change of the means of `effects` for a unit change of each of the `causes`, if `dag` has covariance `S`."""
    d, B = len(dag), np.zeros(dag.shape)
    for v in range(d):
        parents = np.flatnonzero(dag[:, v])
        if len(parents) and v not in causes:
            B[parents, v] = np.linalg.solve(S[np.ix_(parents, parents)], S[parents, v])
    return np.linalg.inv(np.eye(d) - B)[np.ix_(causes, effects)]


@pytest.mark.parametrize("seed", range(40))
def test_an_intervention_is_open_if_and_only_if_the_dags_of_the_class_disagree(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(3, 8))
    dag = random_dag(d, rng.uniform(0.25, 0.6), rng)
    pdag, weights = cpdag(dag), np.where(dag, rng.uniform(0.3, 1.5, (d, d)), 0.0)
    mixing = np.linalg.inv(np.eye(d) - weights)
    S, members = mixing.T @ mixing, list(enumerated(pdag))
    for _ in range(25):
        order = rng.permutation(d).tolist()
        causes = order[: rng.integers(1, min(3, d - 1) + 1)]
        effects = order[len(causes) : len(causes) + int(rng.integers(1, d - len(causes) + 1))]
        each = np.array([joint_effects(member, S, causes, effects) for member in members])
        found = open_edge(structure(pdag), causes, effects)
        assert (found is None) == np.allclose(each, each[0], atol=1e-8)
        if found is not None:
            x, v = found
            assert x in causes
            assert pdag[x, v]
            assert pdag[v, x]


def test_an_intervention_in_a_dag_is_never_open():
    assert open_edge(structure(np.eye(3, k=1, dtype=bool), "dag"), [0], [2]) is None
