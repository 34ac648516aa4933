"""Background knowledge imposed on a graph: what any learner finds, made to agree with what is known beforehand.

Learners that know of it while they search find better graphs; this makes sure of the rest: votes, fusions, and
directions that a class left open (Meek 1995: background knowledge, and then rules R1 to R4).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .cpdag import cpdag, meek_closure
from .dag import edges_on_cycles
from .marks import ARROW, TAIL
from .structure import GraphKind, Structure

Bools = NDArray[np.bool_]


def imposed(structure: Structure, needed: Bools, possible: Bools) -> Structure:
    """Return `structure` with all arcs that are `needed` and none that are not `possible`, both `[d, d]`.

    A needed arc that was not learned has the weight 1. Where needed arcs close a cycle of a DAG, the weakest other edge
    of it goes. Lagged edges stay as they are.
    """
    if not needed.any() and possible[~np.eye(len(possible), dtype=np.bool_)].all():
        return structure
    if structure.kind == "pag":
        return replace(structure, weights=_pag(structure.weights, needed, possible))
    if structure.kind == "cpdag":
        return replace(structure, weights=within_knowledge(structure.adjacency, needed, possible).astype(np.float64))
    return replace(structure, weights=_dag(structure.weights, needed, possible))


def known_truth(truth: Structure, kind: GraphKind, needed: Bools, possible: Bools) -> Structure:
    """Return what a structure of this `kind`, learned with what is known, is compared with.

    A class learned with background knowledge has directions that the CPDAG of the `truth` leaves open. So a DAG is
    replaced by its CPDAG with the directions that follow, if what is known is true of it; all else stays as it is.
    """
    edges = truth.adjacency
    agrees = not (needed & ~edges).any() and not (edges & ~possible).any()
    if kind != "cpdag" or truth.kind != "dag" or not truth.acyclic or truth.lagged is not None or not agrees:
        return truth
    directed = within_knowledge(cpdag(edges), needed, possible)
    return replace(truth, weights=np.where(directed, truth.weights + truth.weights.T, 0.0), kind="cpdag")


def _dag(weights: NDArray[np.float64], needed: Bools, possible: Bools) -> NDArray[np.float64]:
    found = np.where(needed & (weights == 0), 1.0, np.where(possible | needed, weights, 0.0))
    if not needed.any():
        return found
    while (on_cycle := edges_on_cycles(found != 0) & ~needed).any() and (found[on_cycle] != 0).any():
        strengths = np.where(on_cycle, np.abs(found), np.inf)
        found[np.unravel_index(int(np.argmin(strengths)), found.shape)] = 0.0
    return found


def within_knowledge(pdag: Bools, needed: Bools, possible: Bools) -> Bools:
    """Return a partially directed graph with all arcs `needed` and none that are not `possible`, and Meek's closure.

    A graph that has all of that and none of those already stays as it is.
    """
    directed = pdag & ~pdag.T
    turned = directed & ~possible & possible.T
    kept = ((pdag & possible) | turned.T | needed) & ~needed.T
    if np.array_equal(kept, pdag):
        return pdag
    return meek_closure(kept)


def _pag(marks: NDArray[np.float64], needed: Bools, possible: Bools) -> NDArray[np.float64]:
    found = marks.copy()
    joined = (found != 0) & (possible | possible.T | needed | needed.T)
    found[~joined] = 0.0
    for i, j in np.argwhere(needed):
        found[i, j], found[j, i] = ARROW, TAIL
    for i, j in np.argwhere((found != 0) & ~possible & ~needed & ~needed.T & possible.T):
        # i is no cause of j: the edge has an arrow at i.
        found[j, i] = ARROW
    return found
