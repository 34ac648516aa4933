"""GES and BOSS behind one interface: a search over families that continues as scores come in, and has a graph."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.moments import covariance
from .equivalence import class_of
from .families import Batch, Families, no_families
from .gaussian import score_covariance
from .gaussian_order import gaussian_boss
from .ges import CHICKERING, WITH_TURNS, EquivalenceSearch, Scores, advance, answered, search_from
from .settings import OrderSettings, SearchSettings
from .starts import Starts, advance_starts, best_graph, copied, starts_from

State = TypeVar("State", EquivalenceSearch, Starts)


@dataclass(frozen=True)
class ScoreSearch(Generic[State]):
    """A search from the empty graph."""

    begin: Callable[[int, SearchSettings], State]
    """(number of variables, settings) -> the state at the start"""
    advance: Callable[[State, Families, int], State]
    """(state, known scores, how far to look ahead) -> the state as far as the scores allow"""
    graph: Callable[[State, Families], NDArray[np.bool_]]
    """the CPDAG found; the search must be done"""
    copied: Callable[[State], State]
    """(state) -> the same state in arrays of its own: `advance` writes to those of a state, as it does to `Families`"""
    of_covariance: Callable[[int, FloatArray, SearchSettings], NDArray[np.bool_]] | None = None
    """(rows, covariance `[d, d]`, settings) -> the CPDAG, where Gaussian data have a search of their own"""


def boss_of_covariance(rows: int, S: FloatArray, settings: SearchSettings) -> NDArray[np.bool_]:
    """Return the CPDAG of the best order by BIC, with 2 ln d more a parent: there are d to choose from (EBIC)."""
    starts = OrderSettings.starts if settings.starts == "auto" else settings.starts
    how = OrderSettings(starts=starts, seed=settings.seed)
    return class_of(gaussian_boss(S, rows, math.log(rows) + 2 * math.log(len(S)), how).dag)


GES: ScoreSearch[EquivalenceSearch] = ScoreSearch(
    begin=lambda d, settings: search_from(np.zeros((d, d), np.bool_), WITH_TURNS if settings.turning else CHICKERING),
    advance=advance,
    graph=lambda search, families: search.graph,
    copied=lambda search: search,
)
BOSS: ScoreSearch[Starts] = ScoreSearch(
    begin=lambda d, settings: starts_from(
        d, settings.starts_of(d), np.random.default_rng(settings.seed), settings.exact_parents_of(d)
    ),
    advance=advance_starts,
    graph=best_graph,
    copied=copied,
    of_covariance=boss_of_covariance,
)


@dataclass(frozen=True)
class Shuffled:
    """Another order of the variables, which a search works in: between equals it then prefers by seed, not by column.

    Place k of the search's own order is variable `variables[k]`.
    """

    variables: NDArray[np.int64]

    def families(self, batch: Batch) -> Batch:
        """Return the families that the search asks for, in the numbers of the variables; parents in any order."""
        return Batch(batch.first, self.variables[batch.members].astype(np.uint16))

    def graph(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return the graph that the search found, over the variables in their own order."""
        graph = np.zeros_like(found)
        graph[np.ix_(self.variables, self.variables)] = found
        return graph


def shuffled(d: int, settings: SearchSettings) -> Shuffled:
    """Return the order of `d` variables that the seed of `settings` draws; not that of any start of BOSS."""
    return Shuffled(np.random.default_rng((settings.seed, 1)).permutation(d))


def search(procedure: ScoreSearch[Any], d: int, settings: SearchSettings, scores: Scores) -> NDArray[np.bool_]:
    """Return the CPDAG that `procedure` finds, with `scores` to score families."""
    state, families, within = procedure.begin(d, settings), no_families(), shuffled(d, settings)
    while True:
        state = procedure.advance(state, families, 0)
        if state.done:
            return within.graph(procedure.graph(state, families))
        families = answered(families, lambda batch: scores(within.families(batch)))


def search_moments(
    procedure: ScoreSearch[Any], moments: FloatArray, d: int, settings: SearchSettings
) -> NDArray[np.bool_]:
    """Return the CPDAG that `procedure` finds for the rows of continuous columns that (summed) `moments` are of."""
    rows, S = covariance(moments, d)
    if procedure.of_covariance is not None:
        return procedure.of_covariance(rows, S, settings)
    return search(procedure, d, settings, lambda batch: score_covariance(rows, S, batch))
