"""Adjustment in PAGs, against the effects of all linear models with unmeasured causes that a PAG describes.

The models of a PAG are those of all DAGs over the variables and unmeasured causes of pairs that have this PAG. By
definition, a set of covariates is an adjustment set if and only if the regression on it gives the effect in each of
these models. The test uses this definition and none of the criteria.
"""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from fedbnsl.algorithms.effects.ancestral_adjustment import (
    ancestral_adjustment,
    connecting_walk,
    may_act,
    member_mag,
    visible,
)
from fedbnsl.algorithms.effects.identification import AdjustmentSet, identify
from fedbnsl.algorithms.graphs.dag import d_separated
from fedbnsl.algorithms.graphs.pag import ARROW, CIRCLE, TAIL, mag_of, pag_of
from fedbnsl.algorithms.graphs.structure import Structure


def pag(names, marks):
    return Structure(tuple(names), marks.astype(float), "pag")


def with_latent(d, edges, confounded):
    """The DAG over `d` variables and an unmeasured cause of each confounded pair."""
    dag = np.zeros((d + len(confounded),) * 2, bool)
    for i, j in edges:
        dag[i, j] = True
    for number, pair in enumerate(confounded):
        dag[d + number, list(pair)] = True
    return dag


def models(d):
    """Every model in the causal order 0, 1, ...: its PAG, the covariance of the variables, and all total effects."""
    rng, pairs = np.random.default_rng(5), list(combinations(range(d), 2))
    for chosen in product((False, True), repeat=2 * len(pairs)):
        edges = [pair for pair, there in zip(pairs, chosen, strict=False) if there]
        confounded = [pair for pair, there in zip(pairs, chosen[len(pairs) :], strict=True) if there]
        dag = with_latent(d, edges, confounded)
        weights = dag * rng.uniform(0.5, 1.5, dag.shape) * rng.choice([-1, 1], dag.shape)
        total = np.linalg.inv(np.eye(len(dag)) - weights)
        covariance = (total.T * rng.uniform(0.5, 1.5, len(dag))) @ total
        yield pag_of(dag, range(d, len(dag))), covariance[:d, :d], total[:d, :d]


def classes(d):
    """By PAG up to the names of the variables: the PAG, and covariance and effects of each model that it describes."""
    found = {}
    for marks, covariance, effects in models(d):
        orders = [list(order) for order in permutations(range(d))]
        least = min(marks[np.ix_(order, order)].tobytes() for order in orders)
        for order in orders:
            own = np.ix_(order, order)
            if marks[own].tobytes() == least:
                found.setdefault(least, (marks[own], []))[1].append((covariance[own], effects[own]))
    return list(found.values())


def is_valid(members, x, y, covariates):
    """Whether the regression on `covariates` gives the effect of `x` on `y` in every model."""
    regressors = [x, *covariates]
    return all(
        np.isclose(np.linalg.solve(S[np.ix_(regressors, regressors)], S[regressors, y])[0], effects[x, y], atol=1e-8)
        for S, effects in members
    )


@pytest.mark.parametrize(("d", "count"), [(3, 5), pytest.param(4, 25, marks=pytest.mark.slow(120))])
def test_all_small_pags_have_the_sets_that_their_models_have(d, count):
    """Sound: the set is valid in all models. Complete: where there is none, no subset of the variables is valid.

    An edge is visible only among four variables or more, so no PAG of three has a set.
    """
    every, seen = classes(d), {"zero": 0, "set": 0, "none": 0}
    for marks, members in every:
        names = tuple(f"v{v}" for v in range(d))
        for x, y in permutations(range(d), 2):
            (one,) = identify(pag(names, marks), x, y).sets or (None,)
            others = [v for v in range(d) if v not in (x, y)]
            subsets = [own for size in range(d - 1) for own in combinations(others, size)]
            if one is None:
                seen["none"] += 1
                assert not any(is_valid(members, x, y, own) for own in subsets), (marks, x, y)
            elif not one.causal:
                seen["zero"] += 1
                assert all(np.isclose(effects[x, y], 0, atol=1e-12) for _, effects in members)
            else:
                seen["set"] += 1
                assert is_valid(members, x, y, one.covariates), (marks, x, y, one)
                smaller = [own for own in subsets if set(own) < set(one.covariates)]
                assert not any(is_valid(members, x, y, own) for own in smaller), (marks, x, y, one)
    assert len(every) == count
    assert [kind for kind, times in seen.items() if not times] == (["set"] if d == 3 else [])


def test_a_member_of_the_class_has_its_independences():
    rng, d = np.random.default_rng(2), 7
    for _ in range(30):
        dag = np.triu(rng.random((d + 2, d + 2)) < 0.35, 1)
        latent = sorted(rng.choice(d + 2, 2, replace=False).tolist())
        observed = [v for v in range(d + 2) if v not in latent]
        mag = member_mag(pag_of(dag, latent))
        assert not (mag == CIRCLE).any()
        for x, y in combinations(range(d), 2):
            given = rng.random(d) < 0.4
            given[[x, y]] = False
            separated = d_separated(dag, observed[x], observed[y], [observed[v] for v in np.flatnonzero(given)])
            assert bool(connecting_walk(mag, x, y, given)) != separated


def marks_of(text, names):
    """The marks of edges such as `a o-> b`."""
    marks = np.zeros((len(names),) * 2, np.int8)
    for line in text.split(","):
        a, edge, b = line.split()
        marks[names.index(b), names.index(a)] = {"o": CIRCLE, "<": ARROW, "-": TAIL}[edge[0]]
        marks[names.index(a), names.index(b)] = {"o": CIRCLE, ">": ARROW, "-": TAIL}[edge[-1]]
    return marks


def question(text, names, x, y):
    """The covariates by name, or None, and the reason."""
    structure = pag(tuple(names), marks_of(text, names))
    found = identify(structure, names.index(x), names.index(y))
    if not found.sets:
        return None, found.reason
    return "".join(names[v] for v in found.sets[0].covariates), found.reason


def test_visible_edges_as_zhang_draws_them():
    """Zhang 2008, Figure 6: c *-> a -> b with c, b not joined; and c *-> d <-> a -> b with d a parent of b."""
    assert visible(marks_of("c o-> a,a --> b", "abc"), 0, 1)
    assert not visible(marks_of("c o-> a,a --> b,c --> b", "abc"), 0, 1)
    names = "abcd"
    assert visible(marks_of("c o-> d,d <-> a,a --> b,d --> b", names), 0, 1)
    assert not visible(marks_of("c o-> d,d <-- a,a --> b,d --> b", names), 0, 1)


def test_why_an_effect_is_not_identified():
    assert question("a o-> x,b o-> x,x --> y", "abxy", "x", "y")[0] == ""
    assert question("x o-o y", "xy", "x", "y") == (
        None,
        "the edge x o-o y, with which paths from x to y begin, leaves open whether x acts on y",
    )
    covariates, reason = question("x --> y,z --> y,x o-o z", "xyz", "x", "y")
    assert covariates is None
    assert "the edge x --> y, with which paths from x to y begin, may hide an unmeasured common cause of x" in reason
    assert "no possibly directed path" in question("a o-> x,b o-> x,x --> y", "abxy", "y", "x")[1]
    assert "has no direct effects" in identify(pag(tuple("xy"), marks_of("x o-o y", "xy")), 0, 1, "direct").reason


PUBLISHED = {
    "Example 3, Figure 3a: no edge has a direction": ("w o-o x,x o-o v,x o-o y,v o-o y", "wxvy", None),
    "Example 3, Figure 3b: nothing points at x": ("x --> w,x --> v,x --> y,v --> y", "wxvy", None),
    "Example 3, Figure 3c: the edges from x are visible": ("w --> x,x --> v,x --> y,v --> y", "wxvy", ""),
    "Example 4, Figure 4a: the set is d, alone or with a and b": (
        "a o-> x,b o-> x,x --> y,x --> c,d o-> x,c o-> y,d --> y,d --> c",
        "abxycd",
        "d",
    ),
    "Example 4, Figure 4b: amenable, but no set is valid": (
        "a o-> x,b o-> x,x --> c,x <-> d,c --> y,d --> y,c <-> d",
        "abxycd",
        None,
    ),
}


@pytest.mark.parametrize(("edges", "names", "covariates"), PUBLISHED.values(), ids=PUBLISHED)
def test_published_examples(edges, names, covariates):
    """Perković, Textor, Kalisch, Maathuis 2018, as in the tests of R's pcalg (`gac`)."""
    assert question(edges, names, "x", "y")[0] == covariates


def test_a_hidden_cause_of_treatment_and_outcome_leaves_the_effect_open():
    """An instrument, x → v → y, and a hidden cause of x and y: the instrument is joined to y, so nothing is visible."""
    marks = pag_of(with_latent(4, [(0, 1), (1, 2), (2, 3)], [(1, 3)]), [4])
    assert may_act(marks, 1, 3)
    covariates, reason = ancestral_adjustment(marks, tuple("ixvy"), 1, 3)
    assert covariates is None
    assert "with which paths from x to y begin" in reason
    found = ancestral_adjustment(pag_of(with_latent(4, [(0, 2), (1, 2), (2, 3)], [])), tuple("abxy"), 2, 3)
    assert found[0] == ()


def test_dags_without_unmeasured_causes_keep_the_effects_that_their_pags_identify():
    rng, d = np.random.default_rng(8), 6
    identified = 0
    for _ in range(60):
        dag = np.triu(rng.random((d, d)) < 0.5, 1)
        weights = dag * rng.uniform(0.5, 1.5, dag.shape)
        total = np.linalg.inv(np.eye(d) - weights)
        members = [(total.T @ total, total)]
        structure = pag(tuple(map(str, range(d))), pag_of(dag))
        for x, y in permutations(range(d), 2):
            for one in identify(structure, x, y).sets:
                assert one == AdjustmentSet(causal=False) or is_valid(members, x, y, one.covariates)
                assert one.causal or abs(total[x, y]) < 1e-12
                identified += one.causal
    assert identified > 20


def test_marks_and_mags_agree_on_hidden_causes():
    marks, _ = mag_of(with_latent(2, [], [(0, 1)]), [2])
    assert (marks[0, 1], marks[1, 0]) == (ARROW, ARROW)


def test_of_several_minimal_sets_the_one_near_the_outcome_is_used():
    """c → x, c → b → y, x → y, i → x: {b} and {c} are both minimal."""
    dag = with_latent(5, [(0, 2), (0, 1), (1, 3), (2, 3), (4, 2)], [])
    assert ancestral_adjustment(pag_of(dag), tuple("cbxyi"), 2, 3)[0] == (1,)
