"""The PAG of a DAG with latent variables by enumeration: only definitions, no orientation rules and no search."""

from itertools import combinations, product

import numpy as np
import pytest

NONE, TAIL, ARROW, CIRCLE = 0, 1, 2, 3


def ancestors(directed):
    """[i, j]: i is j or an ancestor of j."""
    reach = np.eye(len(directed), dtype=bool)
    for _ in range(len(directed)):
        reach = reach | (reach @ directed)
    return reach


def m_separated(marks, i, j, given):
    """M-separation by walks: each collider has a descendant in `given`, and no other variable of the walk is in it.

    Source: Wang, Ma & Wang 2023, Definition 5.
    """
    arrow = marks == ARROW
    inside = np.isin(np.arange(len(marks)), given)
    above = (ancestors(arrow & (marks.T == TAIL)) & inside).any(axis=1)
    waiting = [(int(v), bool(arrow[i, v])) for v in np.flatnonzero(marks[i])]
    seen = set(waiting)
    while waiting:
        here, into = waiting.pop()
        if here == j:
            return False
        for after in np.flatnonzero(marks[here]).tolist():
            collider = into and arrow[after, here]
            if after == i or not (above[here] if collider else not inside[here]):
                continue
            step = (after, bool(arrow[here, after]))
            if step not in seen:
                seen.add(step)
                waiting.append(step)
    return True


def subsets(items):
    return (chosen for size in range(len(items) + 1) for chosen in combinations(items, size))


def independences(marks):
    d = len(marks)
    return {
        (i, j, given)
        for i, j in combinations(range(d), 2)
        for given in subsets([k for k in range(d) if k not in (i, j)])
        if m_separated(marks, i, j, given)
    }


def mag(dag, observed):
    """The MAG: two variables are joined if no observed set separates them; ancestors get a tail, others an arrow."""
    whole = np.where(dag, ARROW, np.where(dag.T, TAIL, NONE))
    above = ancestors(dag)
    marks = np.zeros((len(observed),) * 2, int)
    for (i, v), (j, w) in combinations(enumerate(observed), 2):
        others = [u for u in observed if u not in (v, w)]
        if not any(m_separated(whole, v, w, given) for given in subsets(others)):
            marks[i, j] = TAIL if above[w, v] else ARROW
            marks[j, i] = TAIL if above[v, w] else ARROW
    return marks


def mags_on(joined):
    """All ancestral graphs without undirected edges on a skeleton."""
    pairs = [(i, j) for i, j in combinations(range(len(joined)), 2) if joined[i, j]]
    for ways in product([(TAIL, ARROW), (ARROW, TAIL), (ARROW, ARROW)], repeat=len(pairs)):
        marks = np.zeros(joined.shape, int)
        for (i, j), (at_i, at_j) in zip(pairs, ways, strict=True):
            marks[j, i], marks[i, j] = at_i, at_j
        directed = (marks == ARROW) & (marks.T == TAIL)
        above = ancestors(directed)
        spouses = (marks == ARROW) & (marks.T == ARROW)
        if not (above & above.T & ~np.eye(len(marks), dtype=bool)).any() and not (spouses & above).any():
            yield marks


def unshielded_colliders(marks):
    d = len(marks)
    return {
        (i, k, j)
        for i, j in combinations(range(d), 2)
        for k in range(d)
        if not marks[i, j] and marks[i, k] == ARROW and marks[j, k] == ARROW
    }


def pag(dag, observed):
    """The marks that are common to all MAGs with the same independences as the MAG of the DAG."""
    one = mag(dag, observed)
    alike = unshielded_colliders(one)
    wanted = independences(one)
    members = [m for m in mags_on(one != NONE) if unshielded_colliders(m) == alike and independences(m) == wanted]
    return np.where(np.logical_and.reduce([m == members[0] for m in members]), members[0], CIRCLE)


@pytest.fixture
def enumerated_mag():
    return mag


@pytest.fixture
def enumerated_pag():
    return pag
