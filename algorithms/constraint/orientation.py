"""From separating sets to a CPDAG: colliders, and Meek's rules, independently of the order of the variables.

Colombo & Maathuis 2014, §4.2-4.3: a triple whose separating sets disagree is ambiguous, and no rule uses it; an edge
for which two rules demand opposite directions stays undirected. All edges oriented in the same sweep are oriented at
once.

Possible-d-sep sets: where FCI looks for separating sets when there may be latent variables.

Source: Spirtes, Glymour & Scheines 2000, §6.7; Colombo et al. 2012, Definition 3.3.

PC and FCI: which stages the search has, and how its result is oriented.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.knowledge import Prior, reachable
from ..graphs.dag import VStructure
from ..graphs.pag import ARROW, CIRCLE, TAIL, Marks, orient_pag, unshielded_triples
from ..graphs.structure import Structure
from .search import Orientation, Pools, SeparatorSearch, separating_sets

DOUBT: dict[Orientation, float] = {"sepset": 0.0, "conservative": 0.0, "clear": 0.2, "majority": 0.5}
"""the share of separating sets that may speak against a conclusion"""


@dataclass(frozen=True)
class Triples:
    """The unshielded triples (i, k, j), i < j, that are colliders, and those that are ambiguous."""

    colliders: frozenset[VStructure]
    ambiguous: frozenset[VStructure]


def classify(search: SeparatorSearch, orientation: Orientation) -> Triples:
    """Classify each unshielded triple (i, k, j) by the separating sets of i and j: a collider k is in none of them.

    "sepset" looks at the set found first (Spirtes et al. 2000). The others look at all sets found: if few contain k, it
    is a collider; if few lack k, it is not; otherwise the triple is ambiguous. "Few" means none for "conservative",
    less than half for "majority", and at most a fifth for "clear". If no set is known, as where background knowledge
    keeps i and j apart, the triple is ambiguous.
    """
    sets = separating_sets(search)
    colliders, ambiguous = set(), set()
    for i, k, j in unshielded_triples(search.joined):
        found = sets.get((i, j), [])
        separate = found[:1] if orientation == "sepset" else found
        share = sum(k in given for given in separate) / len(separate) if separate else 0.5
        if share == 0.5 or DOUBT[orientation] < share < 1 - DOUBT[orientation]:
            ambiguous.add((i, k, j))
        elif share < 0.5:
            colliders.add((i, k, j))
    return Triples(frozenset(colliders), frozenset(ambiguous))


def orient(joined: NDArray[np.bool_], triples: Triples, one_way: NDArray[np.bool_] | None = None) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` of the skeleton `joined`: colliders directed, then closed under Meek's rules.

    `one_way`, `[d, d]`, are directions known beforehand: edges take those first, and a triple with one of them out of
    its middle is no collider, whatever its separating sets say. Meek's fourth rule (1995) is for such knowledge alone.
    """
    known = np.zeros_like(joined) if one_way is None else joined & one_way
    heads = np.zeros_like(joined)
    for i, k, j in triples.colliders:
        if not (known[k, i] or known[k, j]):
            heads[i, k] = heads[j, k] = True
    unclear = np.zeros((len(joined),) * 3 if triples.ambiguous else (0, 0, 0), dtype=np.bool_)
    for i, k, j in triples.ambiguous:
        unclear[i, k, j] = unclear[j, k, i] = True
    heads |= known
    settled = heads | heads.T
    directed = heads & ~heads.T
    while True:
        heads = _meek_sweep(joined, directed, unclear, fourth=bool(known.any())) & joined & ~settled
        if not heads.any():
            return directed | (joined & ~directed.T & ~directed)
        settled |= heads | heads.T
        directed |= heads & ~heads.T


def _meek_sweep(
    joined: NDArray[np.bool_], directed: NDArray[np.bool_], unclear: NDArray[np.bool_], *, fourth: bool
) -> NDArray[np.bool_]:
    """Which undirected edges i — j a rule directs i → j."""
    lines = joined & ~directed & ~directed.T
    heads = np.zeros_like(joined)
    for i, j in np.argwhere(lines):
        into_i, out_of_i = directed[:, i], directed[i]
        ends = into_i & ~joined[j]
        ends[j] = False
        if len(unclear):
            ends = ends & ~unclear[:, i, j]
        heads[i, j] = (
            ends.any()
            or (out_of_i & directed[:, j]).any()
            or _rule_3(joined, directed, lines, unclear, i, j)
            or (fourth and _rule_4(joined, directed, lines, unclear, i, j))
        )
    return heads


def _rule_3(
    joined: NDArray[np.bool_],
    directed: NDArray[np.bool_],
    lines: NDArray[np.bool_],
    unclear: NDArray[np.bool_],
    i: int,
    j: int,
) -> bool:
    """Whether i — k → j and i — m → j, with k and m not joined and i certainly not a collider between them."""
    between = np.flatnonzero(lines[i] & directed[:, j])
    return any(
        not joined[k, m] and not (len(unclear) and unclear[k, i, m]) for k, m in combinations(between.tolist(), 2)
    )


def _rule_4(
    joined: NDArray[np.bool_],
    directed: NDArray[np.bool_],
    lines: NDArray[np.bool_],
    unclear: NDArray[np.bool_],
    i: int,
    j: int,
) -> bool:
    """Whether i — k → m → j with i, m joined, k, j not, and i certainly not a collider between k and j."""
    ends = lines[i] & ~joined[j]
    ends[j] = False
    if len(unclear):
        ends = ends & ~unclear[:, i, j]
    middle = joined[i] & directed[:, j]
    return bool(directed[np.ix_(ends, middle)].any())


def possible_d_sep(search: SeparatorSearch) -> NDArray[np.bool_]:
    """The possible-d-sep set of every variable, `[d, d]` by rows, in the skeleton found so far.

    k is in the set of i if a path leads from i to k on which every inner variable is a collider, or its two neighbours
    on the path are joined. Colliders are identified by the separating sets found first; where background knowledge
    alone keeps the ends of a triple apart, there is none, and it may be a collider.
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
    seen = np.zeros((d, d), np.int64)
    waiting = np.empty((d * d, 2), np.int64)
    for start in range(d):
        n = 0
        for v in range(d):
            if joined[start, v]:
                waiting[n] = start, v
                n += 1
                reached[start, v] = True
        while n:
            n -= 1
            before, here = waiting[n]
            for after in range(d):
                onward = joined[here, after] and after not in (before, start) and seen[here, after] != start + 1
                passes = joined[before, after] or (heads[before, here] and heads[after, here])
                if onward and passes:
                    seen[here, after] = start + 1
                    reached[start, after] = True
                    waiting[n] = here, after
                    n += 1
    return reached


@dataclass(frozen=True)
class ConstraintMethod:
    """A constraint-based algorithm: the stages of its search follow from `pools`; the rest is orientation."""

    kind: Literal["cpdag", "pag"]
    pools: Pools | None
    """the possible-d-sep sets, for algorithms that allow for latent variables"""
    graph: Callable[[SeparatorSearch, tuple[str, ...], Orientation, Prior], Structure]
    """(search, variables, how colliders are identified, what is known) -> the graph; the search may be unfinished"""


def _cpdag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    edges = orient(search.joined, classify(search, orientation), prior.one_way)
    return Structure(variables, edges.astype(np.float64), "cpdag")


def _pag(search: SeparatorSearch, variables: tuple[str, ...], orientation: Orientation, prior: Prior) -> Structure:
    triples = classify(search, orientation)
    first = {pair: sets[0] for pair, sets in separating_sets(search).items()}
    marks = orient_pag(search.joined, triples.colliders, first, triples.ambiguous, known_marks(prior))
    return Structure(variables, marks.astype(np.float64), "pag")


def known_marks(prior: Prior) -> Marks:
    """The marks that background knowledge gives to edges wherever there are such, `[d, d]`, else circles.

    A required cause has a tail and its effect an arrow. A variable from which no way of possible arcs leads to another
    is no ancestor of it, so an edge between them has an arrow there. That an arc is forbidden alone does not tell this:
    in a PAG its cause may still be an ancestor by way of other variables.
    """
    marks = np.full(prior.possible.shape, CIRCLE, np.int8)
    marks[~reachable(prior.possible).T] = ARROW
    marks[prior.required] = ARROW
    marks[prior.required.T] = TAIL
    return marks


PC = ConstraintMethod("cpdag", None, _cpdag)
"""PC-stable (Colombo & Maathuis 2014) -> CPDAG"""
FCI = ConstraintMethod("pag", possible_d_sep, _pag)
"""FCI-stable with possible-d-sep (ibid.; Spirtes et al. 2000) and all of Zhang's rules -> PAG"""
