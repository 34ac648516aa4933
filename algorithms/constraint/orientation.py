"""Orientation of a skeleton by its separating sets, possible-d-sep sets, and the methods PC and FCI.

- `classify`, `orient`: colliders and Meek's rules, independent of the order of the variables. Colombo & Maathuis 2014,
  §4.2-4.3: a triple whose separating sets disagree is ambiguous, and no rule uses it. An edge stays undirected if two
  rules imply opposite directions. Each sweep orients all its edges at once.
- `possible_d_sep`: the sets in which FCI searches for separating sets when there may be latent variables (Spirtes,
  Glymour & Scheines 2000, §6.7; Colombo et al. 2012, Definition 3.3).
- `PC`, `FCI`: the stages of the search and the orientation of its result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior
from ..graphs.dag import VStructure, transitive_closure
from ..graphs.kernels import implied_arrows
from ..graphs.pag import ARROW, CIRCLE, TAIL, Marks, orient_pag, unshielded_triples
from ..graphs.structure import Structure
from .search import Pools, SeparatorSearch, separating_sets
from .settings import Orientation

MAX_DISSENT: dict[Orientation, float] = {"sepset": 0.0, "conservative": 0.0, "clear": 0.2, "majority": 0.5}
"""by rule, the maximum share of separating sets that may contradict a conclusion; for "majority" it must be less"""


@dataclass(frozen=True)
class Triples:
    """The unshielded triples (i, k, j), i < j, that are colliders, and those that are ambiguous."""

    colliders: frozenset[VStructure]
    ambiguous: frozenset[VStructure]


def classify(search: SeparatorSearch, orientation: Orientation) -> Triples:
    """Classify each unshielded triple (i, k, j) by the share of separating sets of i and j that contain k.

    "sepset" uses the set found first (Spirtes et al. 2000). The other rules use all sets found. If few sets contain k,
    k is a collider. If few sets lack k, k is not a collider. In all other cases the triple is ambiguous. "Few" means
    none for "conservative", at most a fifth for "clear", and less than half for "majority". If there is no separating
    set, because background knowledge forbids the edge, the triple is ambiguous.
    """
    sets = separating_sets(search)
    colliders, ambiguous = set(), set()
    for i, k, j in unshielded_triples(search.joined):
        separators = sets.get((i, j), [])
        considered = separators[:1] if orientation == "sepset" else separators
        share = sum(k in given for given in considered) / len(considered) if considered else 0.5
        if share == 0.5 or MAX_DISSENT[orientation] < share < 1 - MAX_DISSENT[orientation]:
            ambiguous.add((i, k, j))
        elif share < 0.5:
            colliders.add((i, k, j))
    return Triples(frozenset(colliders), frozenset(ambiguous))


Rules = tuple[tuple[int, ...], ...]
"""groups of Meek's rules, by number: the rules of a group apply in the same sweep, and the groups one after another"""


def orient(
    joined: NDArray[np.bool_],
    triples: Triples,
    known_directions: NDArray[np.bool_] | None = None,
    rules: Rules | None = None,
) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` of the skeleton `joined`: colliders directed, then closed under Meek's rules.

    Edges first take the `known_directions` `[d, d]` of background knowledge. If one of them leads out of the middle of
    a triple, the triple is not a collider, whatever its separating sets.

    With `rules`, there is a sweep for each group of rules, and no rule uses an edge on whose direction colliders or
    rules disagree (Runge 2020). By default, all rules apply in one sweep, with Meek's fourth rule (1995) only if some
    directions are known.
    """
    imposed = np.zeros_like(joined) if known_directions is None else joined & known_directions
    heads = np.zeros_like(joined)
    for i, k, j in triples.colliders:
        if not (imposed[k, i] or imposed[k, j]):
            heads[i, k] = heads[j, k] = True
    unclear = np.zeros((len(joined),) * 3 if triples.ambiguous else (0, 0, 0), dtype=np.bool_)
    for i, k, j in triples.ambiguous:
        unclear[i, k, j] = unclear[j, k, i] = True
    heads |= imposed
    oriented = heads | heads.T
    directed = heads & ~heads.T
    sweeps = rules or ((1, 2, 3, 4) if imposed.any() else (1, 2, 3),)
    while True:
        changed = False
        for sweep in sweeps:
            lines = joined & ~directed & ~directed.T if rules is None else joined & ~oriented
            arrows = implied_arrows(joined, directed, lines, unclear, np.isin((1, 2, 3, 4), sweep))
            heads = np.asarray(arrows) & joined & ~oriented
            changed |= bool(heads.any())
            oriented |= heads | heads.T
            directed |= heads & ~heads.T
        if not changed:
            return directed | (joined & ~directed.T & ~directed)


def possible_d_sep(search: SeparatorSearch) -> NDArray[np.bool_]:
    """The possible-d-sep set of every variable, `[d, d]` by rows, in the current skeleton.

    k is in the set of i if there is a path from i to k on which every inner variable is a collider, or has two
    neighbours on the path that are joined. Colliders are identified by the separating sets found first. If only
    background knowledge separates the ends of a triple, there is no such set, and the triple counts as a collider.
    """
    heads = np.zeros_like(search.joined)
    triples = classify(search, "sepset")
    for i, k, j in triples.colliders | triples.ambiguous:
        heads[i, k] = heads[j, k] = True
    reached: NDArray[np.bool_] = _reach(search.joined, heads)
    return reached


@njit(cache=True)
def _reach(joined, heads):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    d = len(joined)
    reached = np.zeros((d, d), np.bool_)
    visited = np.zeros((d, d), np.int64)
    stack = np.empty((d * d, 2), np.int64)
    for start in range(d):
        n = 0
        for v in range(d):
            if joined[start, v]:
                stack[n] = start, v
                n += 1
                reached[start, v] = True
        while n:
            n -= 1
            previous, current = stack[n]
            for following in range(d):
                onward = (
                    joined[current, following]
                    and following not in (previous, start)
                    and visited[current, following] != start + 1
                )
                passes = joined[previous, following] or (heads[previous, current] and heads[following, current])
                if onward and passes:
                    visited[current, following] = start + 1
                    reached[start, following] = True
                    stack[n] = current, following
                    n += 1
    return reached


@dataclass(frozen=True)
class ConstraintMethod:
    """A constraint-based algorithm: `pools` determines the stages of its search, `graph` the orientation."""

    kind: Literal["cpdag", "pag"]
    pools: Pools | None
    """a function that computes the possible-d-sep sets, for algorithms that allow for latent variables"""
    graph: Callable[[SeparatorSearch, tuple[str, ...], Orientation, Prior], Structure]
    """(search, variables, rule for colliders, background knowledge) -> the graph; the search may be unfinished"""


def _cpdag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    edges = orient(search.joined, classify(search, orientation), prior.one_way_arcs)
    return Structure(variables, edges.astype(np.float64), "cpdag")


def _pag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    triples = classify(search, orientation)
    first = {pair: sets[0] for pair, sets in separating_sets(search).items()}
    marks = orient_pag(search.joined, triples.colliders, first, triples.ambiguous, known_marks(prior))
    return Structure(variables, marks.astype(np.float64), "pag")


def known_marks(prior: Prior) -> Marks:
    """The end marks (tails and arrows) that background knowledge implies, `[d, d]`, and circles elsewhere.

    A required arc has a tail at its cause and an arrow at its effect. If no path of possible arcs leads from a to b, a
    is not an ancestor of b, and an edge between a and b has an arrow at a. A single forbidden arc from a to b does not
    imply this, because a may still be an ancestor of b through other variables.
    """
    marks = np.full(prior.possible.shape, CIRCLE, np.int8)
    marks[~transitive_closure(prior.possible).T] = ARROW
    marks[prior.required] = ARROW
    marks[prior.required.T] = TAIL
    return marks


PC = ConstraintMethod("cpdag", None, _cpdag)
"""PC-stable (Colombo & Maathuis 2014) -> CPDAG"""
FCI = ConstraintMethod("pag", possible_d_sep, _pag)
"""FCI-stable with possible-d-sep (ibid.; Spirtes et al. 2000) and all of Zhang's rules -> PAG"""
