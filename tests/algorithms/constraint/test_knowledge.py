"""PC and FCI with background knowledge: decided edges are not tested, and known directions orient other edges."""

import numpy as np
import pytest

from fedbnsl.algorithms.constraint.orientation import FCI, PC, Triples, known_marks, orient
from fedbnsl.algorithms.constraint.search import Results, create_plan, run
from fedbnsl.algorithms.constraint.settings import ConstraintSettings
from fedbnsl.algorithms.core.knowledge import Knowledge, Prior, no_prior
from fedbnsl.algorithms.graphs.cpdag import cpdag, pdag_with_knowledge
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, NO_EDGE, TAIL, mag_of
from tests.algorithms.constraint.oracle import oracle

ORIENTATIONS = ("sepset", "conservative", "clear", "majority")


def settings(**changes):
    return ConstraintSettings(**{"max_sets": 0, "rows_per_cell": 0.0, **changes})


def known_of(dag, rng, share=0.4):
    """Knowledge that is true of `dag`: some of its edges, some absent edges, and tiers along one of its orders."""
    d = len(dag)
    required = dag & (rng.random((d, d)) < share)
    forbidden = ~dag & (rng.random((d, d)) < share) & ~np.eye(d, dtype=bool)
    names = [f"x{v}" for v in range(d)]
    arcs = [tuple((names[i], names[j]) for i, j in np.argwhere(arcs)) for arcs in (required, forbidden)]
    return Knowledge(*arcs).prior(names)


def graph(procedure, dag, prior, latent=(), answer=None, **changes):
    observed = [v for v in range(len(dag)) if v not in latent]
    chosen = settings(**changes)
    the = create_plan(chosen, np.ones(len(observed), np.int64), 1000, procedure.pools, prior)
    found = run(the, answer or oracle(dag, observed))
    return procedure.graph(found, tuple(map(str, observed)), chosen.orientation, prior)


@pytest.mark.parametrize("orientation", ORIENTATIONS[1:])
@pytest.mark.parametrize("seed", range(8))
def test_pc_with_a_perfect_test_finds_the_class_as_far_as_knowledge_directs_it(dag_of, orientation, seed):
    rng = np.random.default_rng(seed)
    dag = dag_of(8, 0.35, rng)
    prior = known_of(dag, rng)
    found = graph(PC, dag, prior, orientation=orientation).adjacency
    np.testing.assert_array_equal(found, pdag_with_knowledge(cpdag(dag), prior.required, prior.possible))


@pytest.mark.parametrize("procedure", [PC, FCI])
@pytest.mark.parametrize("seed", range(4))
def test_a_pair_that_no_edge_may_join_is_never_searched_and_a_required_one_stays(dag_of, procedure, seed):
    rng = np.random.default_rng(seed)
    dag = dag_of(7, 0.4, rng)
    prior = known_of(dag, rng)
    asked = set()

    def independent(tests):
        """Call everything independent."""
        asked.update((x, y) for x, y, *_ in tests.tolist())
        return Results(np.ones(len(tests)), np.zeros(len(tests)))

    found = graph(procedure, dag, prior, answer=independent, orientation="sepset")
    np.testing.assert_array_equal(found.adjacency | found.adjacency.T, prior.required_pairs)
    assert asked == {(i, j) for i, j in np.argwhere(np.triu(prior.possible_pairs)).tolist()}


@pytest.mark.parametrize("seed", range(8))
def test_no_mark_that_fci_gives_with_true_knowledge_contradicts_the_ancestral_graph(dag_of, seed):
    rng = np.random.default_rng(seed)
    dag = dag_of(8, 0.35, rng)
    latent = tuple(v for v in range(8) if not dag[:, v].any() and dag[v].sum() > 1)[:1]
    observed = [v for v in range(8) if v not in latent]
    mag, _ = mag_of(dag, latent)
    # Tiers along an order of the true DAG, and its edges: all of this is true of the ancestral graph, too.
    late = rng.random(len(observed)) < 0.5
    below = dag[np.ix_(observed, observed)]
    for _ in observed:
        late |= below[late].any(axis=0)
    possible = ~(late[:, None] & ~late[None, :]) & ~np.eye(len(observed), dtype=bool)
    prior = Prior(possible, below & (rng.random(below.shape) < 0.3))
    prior = Prior(prior.possible & ~prior.required.T, prior.required)
    with_it, without = (graph(FCI, dag, known, latent).marks for known in (prior, no_prior(len(observed))))
    np.testing.assert_array_equal(with_it != NO_EDGE, mag != NO_EDGE)
    sure = (with_it == TAIL) | (with_it == ARROW)
    np.testing.assert_array_equal(with_it[sure], mag[sure])
    assert (with_it == CIRCLE).sum() <= (without == CIRCLE).sum()


def test_forbidden_alone_does_not_put_an_arrow_where_another_way_leads():
    names = ("a", "b", "c")
    by_way = known_marks(Knowledge(forbidden=(("a", "b"),)).prior(names))
    assert by_way[1, 0] == CIRCLE
    root = known_marks(Knowledge(forbidden=(("a", "b"), ("c", "b"))).prior(names))
    assert root[1, 0] == root[1, 2] == ARROW
    assert known_marks(Knowledge(required=(("a", "b"),)).prior(names))[[0, 1], [1, 0]].tolist() == [ARROW, TAIL]


def test_knowledge_comes_before_colliders_and_the_fourth_rule_follows():
    # a - c - b with a, b not joined and c -> a known: c is not the collider that the tests report.
    joined = np.zeros((3, 3), bool)
    joined[0, 2] = joined[2, 0] = joined[1, 2] = joined[2, 1] = True
    known = np.zeros((3, 3), bool)
    known[2, 0] = True
    found = orient(joined, Triples(frozenset({(0, 2, 1)}), frozenset()), known)
    assert found[2, 0]
    assert not found[0, 2]
    assert found[1, 2]
    assert found[2, 1]
    # i - k -> l -> j, i - l, i - j; k and j not joined, no collider at i: i -> j (Meek R4).
    i, k, m, j = range(4)
    joined = ~np.eye(4, dtype=bool)
    joined[k, j] = joined[j, k] = False
    known = np.zeros((4, 4), bool)
    known[k, m] = known[m, j] = True
    found = orient(joined, Triples(frozenset(), frozenset()), known)
    assert found[i, j]
    assert not found[j, i]
    unclear = orient(joined, Triples(frozenset(), frozenset({(k, i, j)})), known)
    assert unclear[i, j]
    assert unclear[j, i]
