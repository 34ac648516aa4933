"""GES refined by BOSS near its graph: the better of two searches, for a fraction of the families of BOSS (ours).

GES moves between equivalence classes one edge at a time, and ends in local optima that a search over orders leaves:
moving one variable can change the parents of many others. BOSS alone scores every variable as a parent of every other
variable in many contexts. Here BOSS starts from an order of GES's graph, and considers only parents within
`MAX_DISTANCE` edges of the child in that graph. The parents that a wrong direction replaces are among these. (From a
random order, BOSS would need more scores. It would also replace directions that GES found, where several classes score
alike.) The result is the class of BOSS if it scores better than that of GES, and otherwise the class of GES. So it
never scores worse than the class of GES.

Both searches read the same table of scores of families (a child and its parents). BOSS also has a table of its own. In
it, families with a parent that is not near the child are excluded without being scored, so no silo counts them. If each
variable has k others near it, BOSS needs the scores of O(d · k²) families, instead of O(d³).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from .boss_starts import Starts, advance_starts, best_graph, copy_starts, starts_of
from .families import UNKNOWN, Batch, Families, families_of, find, no_families
from .ges import WITH_TURNS, EquivalenceSearch, advance, search_from
from .knowledge_constraints import apply_knowledge, consistent_member
from .settings import SearchSettings

MAX_DISTANCE = 2
"""greatest number of edges between a variable and a possible parent in GES's graph"""
_GAIN_TOLERANCE = 1e-10
"""if BOSS's class gains a smaller share of the score, this is a rounding error, and GES's class is the result"""


@dataclass(frozen=True)
class RefinedSearch:
    """The state of a search: GES, and after it BOSS near GES's graph."""

    greedy: EquivalenceSearch
    greedy_total: float
    """the score of GES's class, once GES is done"""
    near: tuple[Starts, ...]
    """empty until GES is done; then the search over orders, whose background knowledge allows only near parents"""
    known: Families
    """BOSS's own table of families; a family with a parent that is not near the child has the score of exclusion"""
    done: bool = False

    @property
    def graph(self) -> NDArray[np.bool_]:
        """The CPDAG of GES, `[d, d]`."""
        return self.greedy.graph

    @property
    def gain(self) -> float:
        """The score of BOSS's class minus that of GES's class; 0 if it is not positive, or while the search runs."""
        if not self.done:
            return 0.0
        gain = self.near[0].total - self.greedy_total
        return gain if gain > _GAIN_TOLERANCE * abs(self.greedy_total) else 0.0


def greedy_from(prior: Prior, settings: SearchSettings) -> EquivalenceSearch:
    """The start of GES from the required edges of the background knowledge `prior`."""
    return search_from(prior.required, WITH_TURNS, prior=prior)


def refined_from(prior: Prior, settings: SearchSettings) -> RefinedSearch:
    """The start of a search that refines GES; GES starts from the required edges of `prior`."""
    return RefinedSearch(greedy_from(prior, settings), 0.0, (), no_families())


def copy_refined(search: RefinedSearch) -> RefinedSearch:
    """The same state with copies of the arrays that `advance_refined` modifies."""
    return replace(search, near=tuple(copy_starts(one) for one in search.near), known=search.known.copy())


def refined_graph(search: RefinedSearch) -> NDArray[np.bool_]:
    """The CPDAG `[d, d]` of the better search; both must be done."""
    return best_graph(search.near[0], search.known) if search.gain else search.graph


def advance_refined(search: RefinedSearch, families: Families, lookahead: int = 0) -> RefinedSearch:
    """Advance GES, then BOSS, as far as the scores of `families` allow, as `ges.advance` and `advance_boss` do."""
    if not search.greedy.done:
        search = replace(search, greedy=advance(search.greedy, families, lookahead))
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
        starts = advance_starts(starts, known, lookahead)
        if known.full:
            known = known.grown()
    return replace(search, near=(starts,), known=known, done=starts.done)


def _near(greedy: EquivalenceSearch) -> Prior:
    """The background knowledge of `greedy`, restricted to possible parents near the child in the graph of `greedy`.

    Required parents stay possible.
    """
    joined = (greedy.graph | greedy.graph.T | np.eye(len(greedy.graph), dtype=np.bool_)).astype(np.float32)
    near = np.linalg.matrix_power(joined, MAX_DISTANCE) > 0
    prior = greedy.prior
    return replace(prior, possible=(prior.possible & near & ~np.eye(len(near), dtype=np.bool_)) | prior.required)


def _total(dag: NDArray[np.bool_], families: Families) -> float:
    """The score of `dag` `[d, d]`; NaN if `families` lacks scores, which are then pending."""
    own = families_of(dag)
    return float(_look_up(own.first, own.members, families.tables).sum())


def _known_scores(batch: Batch, families: Families, prior: Prior) -> FloatArray:
    """The scores of the families of `batch` before the first family whose score is unknown.

    All families with unknown scores become pending. Families that `prior` excludes are not looked up.
    """
    excluded = apply_knowledge(np.zeros(len(batch)), batch, replace(prior, required=np.zeros_like(prior.required))) < 0
    scores, rest = np.zeros(len(batch)), batch.selected(~excluded)
    scores[~excluded] = _look_up(rest.first, rest.members, families.tables)
    unknown = np.flatnonzero(np.isnan(scores))
    return apply_knowledge(scores[: unknown[0] if len(unknown) else len(scores)], batch, prior)


@njit(cache=True)
def _look_up(first, members, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The scores of families; a family without a score becomes pending and has NaN."""
    scores = np.full(len(first) - 1, np.nan)
    for m in range(len(scores)):
        number = find(members[first[m] : first[m + 1]], first[m + 1] - first[m], tables)
        if number != UNKNOWN:
            scores[m] = tables[3][number]
    return scores
