"""GES and BOSS behind one interface: a search over families that continues as scores come in, and has a graph.

Families scored on the rows at hand: level codes by their counts, numbers by their moments.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior, no_prior
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..graphs.cpdag import pdag_with_knowledge
from ..statistics.coding import Blocks
from ..statistics.count_tables import CodePasses
from ..statistics.moments import Table, covariance
from ..statistics.rows import MixedRows, Rows, configuration_moments, open_mixed_rows, open_rows
from .block_order import block_boss
from .boss import Starts, advance_starts, best_graph, copied, starts_from
from .discrete import considered, priced, score_rows, sets_of
from .equivalence import class_of
from .families import Batch, Families, OrderSettings, ScoreSettings, SearchSettings, no_families
from .gaussian import price_of, score_blocks, score_configurations, score_covariance, score_moments
from .gaussian_order import gaussian_boss
from .ges import CHICKERING, WITH_TURNS, EquivalenceSearch, Scores, advance, answered, search_from

State = TypeVar("State", EquivalenceSearch, Starts)


@dataclass(frozen=True)
class ScoreSearch(Generic[State]):
    """A search from the empty graph."""

    begin: Callable[[Prior, SearchSettings], State]
    """(what is known of the graph beforehand, settings) -> the state at the start"""
    advance: Callable[[State, Families, int], State]
    """(state, known scores, how far to look ahead) -> the state as far as the scores allow"""
    graph: Callable[[State, Families], NDArray[np.bool_]]
    """the CPDAG found; the search must be done"""
    copied: Callable[[State], State]
    """(state) -> the same state in arrays of its own: `advance` writes to those of a state, as it does to `Families`"""
    of_covariance: Callable[[int, FloatArray, SearchSettings, Prior], NDArray[np.bool_]] | None = None
    """(rows, covariance `[d, d]`, settings, what is known) -> the CPDAG, where Gaussian data have their own search"""
    of_blocks: Callable[[Blocks, SearchSettings, Prior], NDArray[np.bool_]] | None = None
    """(correlations of the coded columns, settings, what is known) -> the CPDAG, where mixed data have their own"""
    orders: bool = False
    """whether it searches orders, in which families stand for arcs and knowledge is in their scores (`priced`)"""


def boss_of_covariance(rows: int, S: FloatArray, settings: SearchSettings, prior: Prior) -> NDArray[np.bool_]:
    """The CPDAG of the best order by BIC, with 2 ln d more a parent: there are d to choose from (EBIC)."""
    return class_of(gaussian_boss(S, rows, math.log(rows) + 2 * math.log(len(S)), starting(settings), prior).dag)


def boss_of_blocks(blocks: Blocks, settings: SearchSettings, prior: Prior) -> NDArray[np.bool_]:
    """The CPDAG of the best order by the degenerate Gaussian score.

    All starts are made, whether they agree or not: they share what they have computed, and cost little.
    """
    how = starting(settings)
    return class_of(block_boss(blocks, price_of(blocks.rows), replace(how, agreeing=how.starts), prior).dag)


def starting(settings: SearchSettings) -> OrderSettings:
    """How often a search over orders of numbers starts."""
    starts = OrderSettings.starts if settings.starts == "auto" else settings.starts
    return OrderSettings(starts=starts, seed=settings.seed)


GES: ScoreSearch[EquivalenceSearch] = ScoreSearch(
    begin=lambda prior, settings: search_from(
        prior.required, WITH_TURNS if settings.turning else CHICKERING, prior=prior
    ),
    advance=advance,
    graph=lambda search, families: search.graph,
    copied=lambda search: search,
)
BOSS: ScoreSearch[Starts] = ScoreSearch(
    begin=lambda prior, settings: starts_from(
        prior,
        settings.starts_of(len(prior.required)),
        np.random.default_rng(settings.seed),
        settings.exact_parents_of(len(prior.required)),
    ),
    advance=advance_starts,
    graph=best_graph,
    copied=copied,
    of_covariance=boss_of_covariance,
    of_blocks=boss_of_blocks,
    orders=True,
)


@dataclass(frozen=True)
class Shuffled:
    """Another order of the variables, which a search works in: between equals it then prefers by seed, not by column.

    Place k of the search's own order is variable `variables[k]`.
    """

    variables: NDArray[np.int64]

    def families(self, batch: Batch) -> Batch:
        """The families that the search asks for, in the numbers of the variables; parents in any order."""
        return Batch(batch.first, self.variables[batch.members].astype(np.uint16))

    def graph(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The graph that the search found, over the variables in their own order."""
        graph = np.zeros_like(found)
        graph[np.ix_(self.variables, self.variables)] = found
        return graph


def shuffled(d: int, settings: SearchSettings) -> Shuffled:
    """The order of `d` variables that the seed of `settings` draws; not that of any start of BOSS."""
    return Shuffled(np.random.default_rng((settings.seed, 1)).permutation(d))


def search(
    procedure: ScoreSearch[Any], d: int, settings: SearchSettings, scores: Scores, prior: Prior | None = None
) -> NDArray[np.bool_]:
    """The graph that `procedure` finds, with `scores` to score families.

    It is a CPDAG, with the directions that follow from what `prior` says is known.
    """
    known, families, within = prior or no_prior(d), no_families(), shuffled(d, settings)
    state = procedure.begin(known.reordered(within.variables), settings)

    def score(batch: Batch) -> FloatArray:
        wanted = within.families(batch)
        return priced(scores(considered(wanted, known)), wanted, known) if procedure.orders else scores(wanted)

    while True:
        state = procedure.advance(state, families, 0)
        if state.done:
            found = within.graph(procedure.graph(state, families))
            return pdag_with_knowledge(found, known.required, known.possible)
        families = answered(families, score)


def search_moments(
    procedure: ScoreSearch[Any], moments: FloatArray, d: int, settings: SearchSettings, prior: Prior | None = None
) -> NDArray[np.bool_]:
    """The graph that `procedure` finds for the rows of continuous columns that (summed) `moments` are of."""
    rows, S = covariance(moments, d)
    if procedure.of_covariance is not None:
        known = prior or no_prior(d)
        found = procedure.of_covariance(rows, S, settings, known)
        return pdag_with_knowledge(found, known.required, known.possible)
    return search(procedure, d, settings, lambda batch: score_covariance(rows, S, batch), prior)


def search_blocks(
    procedure: ScoreSearch[Any], blocks: Blocks, settings: SearchSettings, prior: Prior | None = None
) -> NDArray[np.bool_]:
    """The graph that `procedure` finds for the rows of mixed columns whose coded correlations are `blocks`."""
    d = len(blocks.first) - 1
    if procedure.of_blocks is not None:
        known = prior or no_prior(d)
        return pdag_with_knowledge(procedure.of_blocks(blocks, settings, known), known.required, known.possible)
    return search(procedure, d, settings, lambda batch: score_blocks(blocks, batch), prior)


DEGENERATE = "-p mixed_score=degenerate-gaussian"


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise `BadInput` for a variable with more than `most_cells` levels: no family of it could be scored."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def opened(table: Table, schema: Schema, silo: str, settings: SearchSettings, rng: np.random.Generator) -> Rows:
    """The rows as a search with these `settings` needs them.

    Raises `BadInput` for a code outside the levels of its variable, for time series, and as `refuse_gaps` does.
    """
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        refuse_gaps(schema, settings)
        if not isinstance(table, np.ndarray):
            raise BadInput(f"silo {silo}: it has too many rows to be counted by configuration: take {DEGENERATE}")
        return open_mixed_rows(table, schema, silo, rng)
    return open_rows(table, schema, silo, rng)


def refuse_gaps(schema: Schema, settings: SearchSettings) -> None:
    """Raise `BadInput` for mixed data with empty cells that are to be counted by configuration."""
    if schema.gaps and schema.kind == "mixed" and settings.in_tables(schema.kind):
        raise BadInput(
            f"the conditional Gaussian score needs complete tables, and cells are empty: take {DEGENERATE}, or leave "
            "out their rows by --missing complete-rows"
        )


def scores_of(rows: Rows, settings: ScoreSettings, most_cells: float = math.inf) -> Scores:
    """Return what scores families on `rows`; discrete families of more than `most_cells` cells are excluded."""
    if rows.kind == "continuous":
        d = len(rows.cardinalities)
        return lambda batch: score_moments(rows.moments, d, batch)

    def score(batch: Batch) -> FloatArray:
        if isinstance(rows.columns, CodePasses):
            raise TypeError("families are scored on rows in memory alone")
        return score_rows(rows.columns, rows.cardinalities, batch, settings, most_cells)

    return score


def configuration_scores(rows: MixedRows, most_cells: float) -> Scores:
    """Return what scores families of mixed `rows` by their moments by configuration."""

    def score(batch: Batch) -> FloatArray:
        numbers = configuration_moments(rows, sets_of(batch, rows.cardinalities, most_cells).sets)
        return score_configurations(numbers, batch, rows.cardinalities, rows.discrete, rows.all_rows, most_cells)

    return score
