"""Background knowledge imposed on graphs (Meek 1995: the knowledge, then rules R1 to R4).

`impose_knowledge` makes any learned graph agree with background knowledge. It is for graphs whose search did not use
the knowledge, such as votes and fusions. A search that uses the knowledge finds better graphs.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .cpdag import Bools, cpdag, extend, pdag_with_knowledge
from .dag import directed_part, edges_on_cycles
from .pag import ARROW, TAIL
from .structure import GraphKind, Structure


def impose_knowledge(structure: Structure, required: Bools, possible: Bools) -> Structure:
    """`structure` with all `required` arcs and no impossible arcs; `required` and `possible` are `[d, d]`.

    A required arc that was not learned gets the weight 1. If required arcs close a cycle in a DAG, the weakest other
    edges of the cycle are removed. In a CPDAG, whose edges have no strength, the other edges of the cycle lose their
    direction; an edge that may not have the other direction is removed. Lagged edges do not change.
    """
    if not required.any() and possible[~np.eye(len(possible), dtype=np.bool_)].all():
        return structure
    if structure.kind == "pag":
        return replace(structure, weights=_pag(structure.weights, required, possible))
    if structure.kind == "cpdag":
        found = pdag_with_knowledge(structure.adjacency, required, possible)
        cycles = edges_on_cycles(directed_part(found)) & ~required
        found = (found & ~(cycles & ~possible.T)) | (cycles.T & possible)
        return replace(structure, weights=found.astype(np.float64))
    return replace(structure, weights=_dag(structure.weights, required, possible))


def truth_with_knowledge(truth: Structure, kind: GraphKind, required: Bools, possible: Bools) -> Structure:
    """The true structure to compare with a structure of this `kind` that was learned with background knowledge.

    A class learned with background knowledge has directed edges that are undirected in the CPDAG of the `truth`. So a
    true DAG that satisfies the knowledge is replaced by its CPDAG with the directions that the knowledge implies. Other
    structures do not change.
    """
    edges = truth.adjacency
    agrees = not (required & ~edges).any() and not (edges & ~possible).any()
    if kind != "cpdag" or truth.kind != "dag" or not truth.acyclic or truth.lagged is not None or not agrees:
        return truth
    directed = pdag_with_knowledge(cpdag(edges), required, possible)
    return replace(truth, weights=np.where(directed, truth.weights + truth.weights.T, 0.0), kind="cpdag")


def experimental_arcs(pdag: Bools, separated: Bools, required: Bools, possible: Bools) -> tuple[Bools, Bools]:
    """The arcs of an interventional class `pdag` `[d, d]` that rest on experiments, and those that follow from them.

    `separated` `[d, d]` has the pairs of which an experiment targets exactly one variable. An arc rests on experiments
    if its ends are such a pair, and if v-structures and background knowledge alone would leave it undirected. An arc
    follows if Meek's rules direct it because of arcs that rest on experiments. Without a DAG in the class, there are
    none of either.
    """
    dag = extend(pdag)
    if dag is None or not len(separated):
        return np.zeros_like(pdag), np.zeros_like(pdag)
    without = pdag_with_knowledge(cpdag(dag), required & dag, possible)
    arcs = directed_part(pdag) & without & without.T
    return arcs & separated, arcs & ~separated


def _dag(weights: NDArray[np.float64], required: Bools, possible: Bools) -> NDArray[np.float64]:
    found = np.where(required & (weights == 0), 1.0, np.where(possible | required, weights, 0.0))
    if not required.any():
        return found
    while (on_cycle := edges_on_cycles(found != 0) & ~required).any() and (found[on_cycle] != 0).any():
        strengths = np.where(on_cycle, np.abs(found), np.inf)
        found[np.unravel_index(int(np.argmin(strengths)), found.shape)] = 0.0
    return found


def _pag(marks: NDArray[np.float64], required: Bools, possible: Bools) -> NDArray[np.float64]:
    found = marks.copy()
    joined = (found != 0) & (possible | possible.T | required | required.T)
    found[~joined] = 0.0
    for i, j in np.argwhere(required):
        found[i, j], found[j, i] = ARROW, TAIL
    for i, j in np.argwhere((found != 0) & ~possible & ~required & ~required.T & possible.T):
        # i cannot cause j: the edge has an arrow at i.
        found[j, i] = ARROW
    return found
