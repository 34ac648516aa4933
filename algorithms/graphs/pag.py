"""Ancestral graphs as matrices of end marks: what a PAG says, the MAG of a DAG with latent variables, and its PAG.

The matrices are described in `marks.py`. Sources: Richardson & Spirtes 2002 (maximal ancestral graphs, MAG); Zhang
2008, "On the completeness of orientation rules ..." (partial ancestral graphs, PAG). A PAG shows a tail or an arrow
where all MAGs that are Markov equivalent have it, and a circle elsewhere.
"""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from .dag import d_separated, is_acyclic, reachable
from .marks import ARROW, CIRCLE, NO_EDGE, TAIL, Marks
from .pag_rules import requests
from .skeleton import VStructure
from .unshielded import unshielded_triples

Separators = Mapping[tuple[int, int], Collection[int]]
"""for each pair (i, j), i < j, that is not joined: a set that separates it"""


def orient_pag(
    joined: NDArray[np.bool_],
    colliders: Collection[VStructure],
    separators: Separators,
    ambiguous: Collection[VStructure] = (),
    known: Marks | None = None,
) -> Marks:
    """Return the PAG of the skeleton `joined`: arrows at the `colliders`, then closed under Zhang's rules R1 to R10.

    `colliders` and `ambiguous` are unshielded triples (i, k, j), i < j; no rule uses an ambiguous one. In each pass all
    rules are applied to the same marks at once. A mark that one rule makes a tail and another an arrow, as can happen
    with independences learned from data, stays a circle. So the order of the variables does not matter.

    `known` are marks known beforehand, circles where nothing is: a triple with a tail among them at its middle is no
    collider (Andrews, Spirtes & Cooper 2020). Without a separating set of its ends, no rule uses a discriminating path.
    """
    marks = np.where(joined, CIRCLE if known is None else known, NO_EDGE).astype(np.int8)
    for i, k, j in colliders:
        if TAIL not in (marks[i, k], marks[j, k]):
            marks[i, k] = marks[j, k] = ARROW
    unclear = {triple for i, k, j in ambiguous for triple in ((i, k, j), (j, k, i))}
    disputed = np.zeros_like(joined)
    while True:
        tails, arrows = requests(marks, separators, unclear)
        open_ = (marks == CIRCLE) & ~disputed
        disputed |= open_ & tails & arrows
        open_ &= tails | arrows
        if not open_.any():
            return marks
        marks[open_] = np.where(tails, TAIL, ARROW)[open_]


def mag_of(dag: NDArray[np.bool_], latent: Collection[int] = ()) -> tuple[Marks, Separators]:
    """Return the MAG of `dag` over the variables that are not `latent`, in their order, and what separates its pairs.

    Two variables are joined if their observed ancestors do not separate them; the mark at the one is a tail if it is
    an ancestor of the other, else an arrow (Richardson & Spirtes 2002, §4.2, without selection). Raises ValueError if
    `dag` has a directed cycle.
    """
    if not is_acyclic(dag):
        raise ValueError("a graph with a directed cycle has no ancestral graph")
    observed = [v for v in range(len(dag)) if v not in set(latent)]
    place = {v: at for at, v in enumerate(observed)}
    ancestors = [reachable(dag.T, (v,)) for v in observed]
    marks = np.zeros((len(observed),) * 2, np.int8)
    separators = {}
    for i, v in enumerate(observed):
        for j, w in enumerate(observed[:i]):
            given = [u for u in observed if (ancestors[i][u] or ancestors[j][u]) and u not in (v, w)]
            if d_separated(dag, v, w, given):
                separators[j, i] = frozenset(place[u] for u in given)
            else:
                marks[i, j] = TAIL if ancestors[i][w] else ARROW
                marks[j, i] = TAIL if ancestors[j][v] else ARROW
    return marks, separators


def pag_of(dag: NDArray[np.bool_], latent: Collection[int] = ()) -> Marks:
    """Return the PAG of `dag` over the variables that are not `latent`: all that independences among them can tell.

    Raises ValueError if `dag` has a directed cycle.
    """
    mag, separators = mag_of(dag, latent)
    joined = mag != NO_EDGE
    colliders = [(i, k, j) for i, k, j in unshielded_triples(joined) if k not in separators[i, j]]
    return orient_pag(joined, colliders, separators)


def directed_edges(marks: Marks) -> NDArray[np.bool_]:
    """Return the edges i → j, tail at i and arrow at j, `[n_variables, n_variables]`."""
    return np.asarray((marks == ARROW) & (marks.T == TAIL))
