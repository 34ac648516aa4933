"""MAGs and PAGs against enumeration of Markov-equivalent graphs, and each of Zhang's rules against its own pattern."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedbnsl.algorithms.graphs import pag
from fedbnsl.algorithms.graphs.cpdag import cpdag
from fedbnsl.algorithms.graphs.pag import (
    ARROW,
    CIRCLE,
    TAIL,
    applicable_orientations,
    directed_edges,
    mag_of,
    orient_pag,
    pag_of,
    unshielded_triples,
)
from fedbnsl.algorithms.graphs.structure import Structure

REFERENCES = Path(__file__).parents[2] / "references"
CASES = [
    (
        np.array([[one == "1" for one in row] for row in case["dag"]]),
        case["latent"],
        np.array([[int(mark) for mark in row] for row in case["pag"]]),
    )
    for case in json.loads((REFERENCES / "pags.json").read_text())["cases"]
]
MARKS = {"-": TAIL, ">": ARROW, "<": ARROW, "o": CIRCLE}


def marks_of(text):
    """End marks from edges such as "a->b b<->c c-ob a--d": variables a, b, c, ..."""
    edges = text.split()
    names = sorted({name for edge in edges for name in (edge[0], edge[-1])})
    marks = np.zeros((len(names),) * 2, np.int8)
    for edge in edges:
        i, j = names.index(edge[0]), names.index(edge[-1])
        marks[j, i], marks[i, j] = MARKS[edge[1]], MARKS[edge[2]]
    return marks


def text_of(marks):
    names = "abcdefgh"
    left, right = {TAIL: "-", ARROW: "<", CIRCLE: "o"}, {TAIL: "-", ARROW: ">", CIRCLE: "o"}
    return " ".join(
        f"{names[i]}{left[marks[j, i]]}{right[marks[i, j]]}{names[j]}" for i, j in np.argwhere(np.triu(marks))
    )


def asked(text, separators=None, unclear=()):
    """The marks after the rules are applied once."""
    marks = marks_of(text)
    tails, arrows = applicable_orientations(marks, separators or {}, set(unclear))
    circles = marks == CIRCLE
    assert not (circles & tails & arrows).any()
    return text_of(np.where(circles & tails, TAIL, np.where(circles & arrows, ARROW, marks)))


@pytest.mark.parametrize("number", range(0, len(CASES), 20))
def test_the_references_are_what_enumeration_gives(number, enumerated_mag, enumerated_pag):
    dag, latent, pag = CASES[number]
    observed = [v for v in range(len(dag)) if v not in latent]
    np.testing.assert_array_equal(mag_of(dag, latent)[0], enumerated_mag(dag, observed))
    if len(pag) <= 6 and np.triu(pag > 0).sum() <= 6:
        np.testing.assert_array_equal(pag, enumerated_pag(dag, observed))


def some_wrong():
    """DAGs in reverse order: the last ones need the rules that are rarely used."""
    return any(not np.array_equal(pag_of(dag, latent), pag) for dag, latent, pag in reversed(CASES))


def test_the_pags_of_200_graphs_are_what_their_equivalent_mags_have_in_common():
    assert len(CASES) == 200
    assert sum((pag == CIRCLE).sum() for *_, pag in CASES) > 500
    assert not some_wrong()


@pytest.mark.parametrize("rule", ["rule_1", "rule_2", "rule_3", "rule_4", "rule_9", "rule_10"])
def test_without_any_of_these_rules_some_of_them_are_wrong(rule, monkeypatch):
    monkeypatch.setattr(pag, rule, lambda *_: False)
    assert some_wrong()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a->b booc", "a->b b->c"),  # R1
        ("a->b b<>c aooc", "a->b ao>c b<>c"),  # R2
        ("a<>b b->c aooc", "a<>b ao>c b->c"),
        ("ao>b co>b aood cood doob", "ao>b aood b<oc b<od cood"),  # R3
        ("aoob booc cood dooa", "a--b a--d b--c c--d"),  # R5
        ("a--b booc", "a--b b-oc"),  # R6
        ("a-ob booc", "a-ob b-oc"),  # R7
        ("a->b b->c ao>c", "a->b a->c b->c"),  # R8
        ("a-ob b->c ao>c", "a-ob a->c b->c"),
        ("aoob bo>c co>d ao>d", "aoob a->d bo>c c->d"),  # R9, and R1 at c
        ("aoob aooc bo>d co>e d->f e->f ao>f", "aoob aooc a->f bo>d co>e d->f e->f"),  # R10
    ],
)
def test_a_rule_on_its_pattern(before, after):
    assert asked(before) == after


@pytest.mark.parametrize(
    "pattern",
    [
        "a->b b<>c a<>c",  # no circle
        "a->b booc aooc",  # R1 with a, c joined
        "aoob booc cooa",  # R5 on a cycle of three
        "aoob bo>c ao>c",  # R9 with b, c joined
    ],
)
def test_what_only_looks_like_a_pattern(pattern):
    """No tail is required."""
    assert asked(pattern).count("-") == pattern.count("-")


@pytest.mark.parametrize(("separator", "after"), [({2}, "ao>b b<oc b->d c->d"), ((), "ao>b b<>c b->d c<>d")])
def test_a_discriminating_path_is_told_by_what_separates_its_ends(separator, after):
    assert asked("ao>b b<oc b->d co>d", {(0, 3): separator, (0, 2): ()}) == after


def test_an_ambiguous_triple_tells_nothing():
    assert asked("a->b booc", unclear=[(0, 1, 2), (2, 1, 0)]) == "a->b booc"
    assert asked("a-ob booc", unclear=[(0, 1, 2), (2, 1, 0)]) == "a-ob booc"


def test_an_end_that_is_asked_to_be_both_stays_a_circle():
    """Two colliders that share an edge, with contradictory separating sets."""
    joined = marks_of("aoob booc cood") > 0
    marks = orient_pag(joined, [(0, 1, 2), (1, 2, 3)], {(0, 2): (), (1, 3): (), (0, 3): ()})
    assert text_of(marks) == "ao>b b<>c c<od"


@st.composite
def dags(draw, most=7):
    d = draw(st.integers(2, most))
    return np.triu(draw(arrays(np.bool_, (d, d))), 1)


@settings(deadline=None, max_examples=40)
@given(dags(), st.randoms(use_true_random=False))
def test_the_order_of_the_variables_does_not_matter(dag, random):
    """This also holds if random separating sets contradict each other."""
    d = len(dag)
    joined = dag | dag.T
    separators = {
        (i, j): {k for k in range(d) if random.random() < 0.5} for j in range(d) for i in range(j) if not joined[i, j]
    }
    colliders = [(i, k, j) for i, k, j in unshielded_triples(joined) if k not in separators[i, j]]
    order = list(range(d))
    random.shuffle(order)
    to = np.argsort(order)
    turned = [(min(to[i], to[j]), to[k], max(to[i], to[j])) for i, k, j in colliders]
    of_turned = {(min(to[i], to[j]), max(to[i], to[j])): {to[k] for k in s} for (i, j), s in separators.items()}
    marks = orient_pag(joined, colliders, separators)
    np.testing.assert_array_equal(
        orient_pag(joined[np.ix_(order, order)], turned, of_turned), marks[np.ix_(order, order)]
    )


@settings(deadline=None, max_examples=40)
@given(dags(6))
def test_without_latent_variables_a_pag_directs_no_more_than_the_cpdag(dag):
    """A PAG directs less because latent variables are possible; its unshielded colliders are those of the CPDAG."""
    marks, edges = pag_of(dag), cpdag(dag)
    assert ((marks > 0) == (edges | edges.T)).all()
    assert not (directed_edges(marks) & ~(edges & ~edges.T)).any()
    assert not ((marks == ARROW) & ~edges).any()


def test_a_latent_common_cause_is_a_bidirected_edge():
    confounded = np.zeros((5, 5), bool)
    for i, j in ((0, 1), (4, 1), (4, 2), (3, 2)):  # 0 -> 1 <- [4] -> 2 <- 3
        confounded[i, j] = True
    assert text_of(pag_of(confounded, latent=[4])) == "ao>b b<>c c<od"
    assert text_of(mag_of(confounded, [4])[0]) == "a->b b<>c c<-d"


def test_a_cyclic_graph_is_refused():
    with pytest.raises(ValueError, match="directed cycle"):
        mag_of(np.array([[False, True], [True, False]]))


def test_a_structure_reads_its_marks():
    structure = Structure(tuple("abc"), marks_of("a->b bo>c").astype(float), "pag")
    assert structure.acyclic
    assert not Structure(tuple("abc"), marks_of("a->b b->c c->a").astype(float), "pag").acyclic
    assert structure.marks.dtype == np.int8
    with pytest.raises(ValueError, match="has no circles"):
        _ = Structure(tuple("abc"), structure.weights, "dag").marks
