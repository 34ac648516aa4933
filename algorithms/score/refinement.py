"""GES refined by BOSS near its graph: the better of two searches, for a fraction of the families of BOSS (ours).

GES moves between equivalence classes one edge at a time, and ends in local optima that a search over orders leaves:
moving one variable changes the parents of all later ones. BOSS alone scores every variable as a parent of every other
one in many contexts. Here it starts from an order of GES's graph, and considers only parents within `MAX_DISTANCE`
steps of the child in that graph: neighbours, and the neighbours' neighbours, among which are the parents that a wrong
direction replaces. (From a random order it sends more, and leaves GES's directions where several classes score alike.)
The result is BOSS's class if it scores better than GES's class, else GES's: it is never worse.

Both searches read the same table of scores, in which no family is excluded. BOSS reads it through a table of its own,
in which families with other parents are excluded without being scored, so no silo counts them. BOSS needs the scores of
O(d · k²) families where every variable has k others near it, instead of O(d³).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.compiled import njit
from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from .boss import Starts, advance_starts, best_graph, copy_starts, starts_of
from .discrete import apply_knowledge, consistent_member
from .families import UNKNOWN, Batch, Families, SearchSettings, families_of, find, no_families
from .ges import CHICKERING, WITH_TURNS, EquivalenceSearch, advance, search_from

MAX_DISTANCE = 2
"""greatest number of edges between a variable and a possible parent in GES's graph"""
_SCORE_TOLERANCE = 1e-10
"""a smaller relative gain is a rounding error: GES's class is then kept"""


@dataclass(frozen=True)
class RefinedSearch:
    """The state of a search: GES, and after it BOSS near GES's graph."""

    greedy: EquivalenceSearch
    greedy_total: float
    """the score of GES's class, once GES is done"""
    near: tuple[Starts, ...]
    """the search over orders, once GES is done; it knows the restricted prior"""
    known: Families
    """the families that it has requested; those with parents that are not near are excluded"""
    done: bool = False

    @property
    def graph(self) -> NDArray[np.bool_]:
        """The CPDAG of GES, `[d, d]`."""
        return self.greedy.graph

    @property
    def gain(self) -> float:
        """By how much BOSS's class scores better than GES's; 0 if it does not, or while the search runs."""
        if not self.done:
            return 0.0
        gain = self.near[0].total - self.greedy_total
        return gain if gain > _SCORE_TOLERANCE * abs(self.greedy_total) else 0.0


def greedy_from(prior: Prior, settings: SearchSettings) -> EquivalenceSearch:
    """The start of GES from the required edges of the background knowledge `prior`."""
    return search_from(prior.required, WITH_TURNS if settings.turning else CHICKERING, prior=prior)


def refined_from(prior: Prior, settings: SearchSettings) -> RefinedSearch:
    """The start of GES from the required edges of `prior`, to be refined."""
    return RefinedSearch(greedy_from(prior, settings), 0.0, (), no_families())


def copy_refined(search: RefinedSearch) -> RefinedSearch:
    """The same state with copies of the arrays that `advance_refined` modifies."""
    return replace(search, near=tuple(copy_starts(one) for one in search.near), known=search.known.copy())


def refined_graph(search: RefinedSearch) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` of the better search; both must be done."""
    return best_graph(search.near[0], search.known) if search.gain else search.graph


def advance_refined(search: RefinedSearch, families: Families, ahead: int = 0) -> RefinedSearch:
    """Advance GES, then BOSS, as far as the scores of `families` allow, as `ges.advance` and `advance_boss` do."""
    if not search.greedy.done:
        search = replace(search, greedy=advance(search.greedy, families, ahead))
        if not search.greedy.done:
            return search
    if not search.near:
        dag = consistent_member(search.greedy.graph, search.greedy.prior)
        assert dag is not None
        total = _total(dag, families)
        if np.isnan(total):
            return search
        order = np.array(topological_order(dag))
        search = replace(search, greedy_total=total, near=(starts_of(order[None], _near(search.greedy)),))
    starts, known = search.near[0], search.known
    while not starts.done:
        pending = known.pending
        if len(pending):
            scores = _known_scores(pending, families, starts.prior)
            known.with_scores(scores)
            if len(scores) < len(pending):
                break
        starts = advance_starts(starts, known, ahead)
        if known.full:
            known = known.grown()
    return replace(search, near=(starts,), known=known, done=starts.done)


def _near(greedy: EquivalenceSearch) -> Prior:
    """The background knowledge, and as possible parents only variables near the child in the graph of `greedy`."""
    joined = (greedy.graph | greedy.graph.T | np.eye(len(greedy.graph), dtype=np.bool_)).astype(np.float32)
    near = np.linalg.matrix_power(joined, MAX_DISTANCE) > 0
    prior = greedy.prior
    return replace(prior, possible=(prior.possible & near & ~np.eye(len(near), dtype=np.bool_)) | prior.required)


def _total(dag: NDArray[np.bool_], families: Families) -> float:
    """The score of `dag` `[d, d]`; NaN if `families` lacks scores, which are then pending."""
    own = families_of(dag)
    return float(_look_up(own.first, own.members, families.tables).sum())


def _known_scores(batch: Batch, families: Families, prior: Prior) -> FloatArray:
    """The scores of the first families of `batch`, up to one whose score is unknown; unknown ones become pending.

    Families that `prior` excludes are not looked up.
    """
    excluded = apply_knowledge(np.zeros(len(batch)), batch, replace(prior, required=np.zeros_like(prior.required))) < 0
    scores = np.zeros(len(batch))
    sizes = np.diff(batch.first)
    rest = Batch(np.concatenate([[0], np.cumsum(sizes[~excluded])]), batch.members[np.repeat(~excluded, sizes)])
    scores[~excluded] = _look_up(rest.first, rest.members, families.tables)
    unknown = np.flatnonzero(np.isnan(scores))
    return apply_knowledge(scores[: unknown[0] if len(unknown) else len(scores)], batch, prior)


@njit(cache=True)
def _look_up(first, members, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The scores of families; NaN for those without one, which become pending."""
    scores = np.full(len(first) - 1, np.nan)
    for m in range(len(scores)):
        number = find(members[first[m] : first[m + 1]], first[m + 1] - first[m], tables)
        if number != UNKNOWN:
            scores[m] = tables[3][number]
    return scores
