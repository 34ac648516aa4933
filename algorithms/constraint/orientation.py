"""From separating sets to a CPDAG: colliders, and Meek's rules, independently of the order of the variables.

Colombo & Maathuis 2014, §4.2-4.3: a triple whose separating sets disagree is ambiguous, and no rule uses it; an edge
for which two rules demand opposite directions stays undirected. All edges oriented in the same sweep are oriented at
once.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from ..graphs.skeleton import VStructure
from ..graphs.unshielded import unshielded_triples
from .search import SeparatorSearch, separating_sets
from .settings import Orientation

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
    """Return the CPDAG `[d, d]` of the skeleton `joined`: colliders directed, then closed under Meek's rules.

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
    """Return which undirected edges i — j a rule directs i → j."""
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
    """Say whether i — k → j and i — m → j, with k and m not joined and i certainly not a collider between them."""
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
    """Say whether i — k → m → j with i, m joined, k, j not, and i certainly not a collider between k and j."""
    ends = lines[i] & ~joined[j]
    ends[j] = False
    if len(unclear):
        ends = ends & ~unclear[:, i, j]
    middle = joined[i] & directed[:, j]
    return bool(directed[np.ix_(ends, middle)].any())
