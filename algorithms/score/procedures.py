"""GES and BOSS behind one interface (`ScoreSearch`), and scores of families on local rows (`scores_of`).

A family is a child with its parents. A search continues whenever scores of families arrive, and ends with a graph.
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
from ..graphs.cpdag import cpdag, pdag_with_knowledge
from ..statistics.coding import Blocks
from ..statistics.expected_moments import own_moments
from ..statistics.moments import Table, covariance
from ..statistics.rows import MixedRows, Rows, configuration_moments, open_mixed_rows, open_rows
from .block_order import block_boss
from .boss_starts import Starts, advance_starts, best_graph, best_so_far, copy_starts, starts_from
from .discrete import score_rows, sets_of
from .families import Batch, Families, no_families
from .gaussian import price_of, score_blocks, score_configurations, score_covariance, score_moments
from .gaussian_order import gaussian_boss
from .ges import EquivalenceSearch, Scores, advance, score_pending
from .knowledge_constraints import apply_knowledge, drop_impossible
from .refinement import RefinedSearch, advance_refined, copy_refined, greedy_from, refined_from, refined_graph
from .settings import OrderSettings, ScoreSettings, SearchSettings

State = TypeVar("State", EquivalenceSearch, RefinedSearch, Starts)


Found = tuple[NDArray[np.bool_], bool]
"""a CPDAG `[d, d]`, and whether the search ended by itself, not by its time limit"""


@dataclass(frozen=True)
class ScoreSearch(Generic[State]):
    """A search from the empty graph."""

    begin: Callable[[Prior, SearchSettings], State]
    """(background knowledge, settings) -> the initial state"""
    advance: Callable[[State, Families, int], State]
    """(state, known scores, number of moves to look ahead) -> the state as far as the scores allow"""
    graph: Callable[[State, Families], NDArray[np.bool_]]
    """the CPDAG found; the search must be done"""
    so_far: Callable[[State, Families], NDArray[np.bool_]]
    """the best CPDAG of a search that is not done"""
    copy: Callable[[State], State]
    """(state) -> a copy with its own arrays: `advance` writes to the arrays of a state and of `Families`"""
    with_candidates: Callable[[State, int], State] | None = None
    """(state, number) -> the same search with this number of sparse candidates (`ges.py`); None: it can have none"""
    orders: bool = False
    """whether the search is over orders; then the scores include the background knowledge (`apply_knowledge`), and
    moments have a search of their own (`gaussian_order.py`, `block_order.py`)"""


def order_settings(settings: SearchSettings) -> OrderSettings:
    """The settings of a search over orders in `gaussian_order.py` and `block_order.py`."""
    starts = OrderSettings.starts if settings.starts == "auto" else settings.starts
    return OrderSettings(starts=starts, seed=settings.seed)


GES: ScoreSearch[EquivalenceSearch] = ScoreSearch(
    begin=greedy_from,
    advance=advance,
    graph=lambda search, families: search.graph,
    so_far=lambda search, families: search.graph,
    copy=lambda search: search,
    with_candidates=lambda search, number: replace(search, candidates=number),
)
REFINED_GES: ScoreSearch[RefinedSearch] = ScoreSearch(
    begin=refined_from,
    advance=advance_refined,
    graph=lambda search, families: refined_graph(search),
    so_far=lambda search, families: search.graph,
    copy=copy_refined,
    with_candidates=lambda search, number: replace(search, greedy=replace(search.greedy, candidates=number)),
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
    so_far=best_so_far,
    copy=copy_starts,
    orders=True,
)


def ges_of(settings: SearchSettings) -> ScoreSearch[Any]:
    """GES, refined by BOSS if `settings` request it."""
    return REFINED_GES if settings.refine else GES


@dataclass(frozen=True)
class Shuffled:
    """A random order of the variables for a search, so that ties depend on the seed, not on the order of the columns.

    Position k of the search's own order is variable `variables[k]`.
    """

    variables: NDArray[np.int64]

    def families(self, batch: Batch) -> Batch:
        """`batch` with positions replaced by the numbers of variables; the parents are not in ascending order."""
        return Batch(batch.first, self.variables[batch.members].astype(np.uint16))

    def graph(self, found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The graph that the search found, with the variables in the order of the columns."""
        graph = np.zeros_like(found)
        graph[np.ix_(self.variables, self.variables)] = found
        return graph


def shuffled(d: int, settings: SearchSettings) -> Shuffled:
    """The order of `d` variables for the seed of `settings`; its random numbers are not those of the starts of BOSS."""
    return Shuffled(np.random.default_rng((settings.seed, 1)).permutation(d))


def search(
    procedure: ScoreSearch[Any], d: int, settings: SearchSettings, scores: Scores, prior: Prior | None = None
) -> NDArray[np.bool_]:
    """The graph that `procedure` finds; `scores` scores families.

    The graph is a CPDAG with the directions that follow from the background knowledge `prior`.
    """
    knowledge, families, shuffle = prior or no_prior(d), no_families(), shuffled(d, settings)
    state = procedure.begin(knowledge.reordered(shuffle.variables), settings)

    def score(batch: Batch) -> FloatArray:
        batch_families = shuffle.families(batch)
        return (
            apply_knowledge(scores(drop_impossible(batch_families, knowledge)), batch_families, knowledge)
            if procedure.orders
            else scores(batch_families)
        )

    while True:
        state = procedure.advance(state, families, 0)
        if state.done:
            found = shuffle.graph(procedure.graph(state, families))
            return pdag_with_knowledge(found, knowledge.required, knowledge.possible)
        families = score_pending(families, score)


def search_moments(
    procedure: ScoreSearch[Any],
    moments: FloatArray,
    d: int,
    settings: SearchSettings,
    prior: Prior | None = None,
    ends: float = math.inf,
) -> Found:
    """The graph that `procedure` finds for continuous data with these (summed) `moments`.

    A search over orders finds the best order by the extended BIC (EBIC): the penalty on twice the log-likelihood is
    ln(rows) + 2 ln d for each parent. It ends at the time `ends` of `time.monotonic` at the latest. Other searches have
    no time limit.
    """
    rows, S = covariance(moments, d)
    if not procedure.orders:
        return search(procedure, d, settings, lambda batch: score_covariance(rows, S, batch), prior), True
    knowledge, price = prior or no_prior(d), math.log(rows) + 2 * math.log(d)
    found = gaussian_boss(S, rows, price, order_settings(settings), knowledge, knowledge.ordered, ends)
    dag = np.zeros((d, d), np.bool_)
    dag[:, : knowledge.ordered] = found.dag
    return pdag_with_knowledge(cpdag(dag), knowledge.required, knowledge.possible), found.complete


def search_blocks(
    procedure: ScoreSearch[Any],
    blocks: Blocks,
    settings: SearchSettings,
    prior: Prior | None = None,
    ends: float = math.inf,
) -> Found:
    """The graph that `procedure` finds for mixed data with the coded correlations `blocks`, as `search_moments`.

    A search over orders uses the degenerate Gaussian score. All its starts are run, even if they agree: they share
    their cache and cost little.
    """
    d = len(blocks.first) - 1
    if not procedure.orders:
        return search(procedure, d, settings, lambda batch: score_blocks(blocks, batch), prior), True
    knowledge, starts = prior or no_prior(d), order_settings(settings)
    all_starts = replace(starts, agreeing_starts=starts.starts)
    found = block_boss(blocks, price_of(blocks.rows), all_starts, knowledge, ends=ends)
    return pdag_with_knowledge(cpdag(found.dag), knowledge.required, knowledge.possible), found.complete


DEGENERATE_OPTION = "-p mixed_score=degenerate-gaussian"


def refuse_wide(schema: Schema, most_cells: int) -> None:
    """Raise `BadInput` for a variable with more than `most_cells` levels: none of its families could be scored."""
    for variable, levels in schema.levels.items():
        if len(levels) > most_cells:
            raise BadInput(f"most_cells is {most_cells}: {variable} alone has {len(levels)} levels")


def open_search_rows(
    table: Table, schema: Schema, silo: str, settings: SearchSettings, rng: np.random.Generator
) -> Rows:
    """The rows for a search with these `settings`.

    Raises `BadInput` for a code outside the levels of its variable, for time series, as `refuse_gaps` does, and for a
    mixed table that is not in memory if scores are by configuration.
    """
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        refuse_gaps(schema, settings)
        if not isinstance(table, np.ndarray):
            raise BadInput(f"silo {silo}: it has too many rows to be counted by configuration: use {DEGENERATE_OPTION}")
        return open_mixed_rows(table, schema, silo, rng)
    return open_rows(table, schema, silo, rng)


def segment_moments(rows: FloatArray, schema: Schema, silo: str, segments: int) -> FloatArray:
    """The centred moments of each segment of the windows `rows` `[n_windows, m]` of `silo`, `[segments, size]`.

    Segment k has the k-th of `segments` equal parts of every series. Moments are about the means of each part.
    """
    series = np.split(rows, np.cumsum(schema.stretches[silo])[:-1])
    parts = [np.array_split(one, segments) for one in series]
    moments = []
    for k in range(segments):
        own = [part[k] for part in parts if len(part[k])]
        lengths = replace(schema, stretches=schema.stretches | {silo: tuple(map(len, own))})
        moments.append(own_moments(np.concatenate(own), lengths, silo))
    return np.stack(moments)


def refuse_gaps(schema: Schema, settings: SearchSettings) -> None:
    """Raise `BadInput` for mixed data with empty cells or clusters if scores are by configuration."""
    if schema.independent_share < 1 and schema.kind == "mixed" and settings.in_tables(schema.kind):
        raise BadInput(
            f"the conditional Gaussian score counts all rows, and rows have clusters: use {DEGENERATE_OPTION}"
        )
    if schema.gaps and schema.kind == "mixed" and settings.in_tables(schema.kind):
        raise BadInput(
            f"the conditional Gaussian score needs complete tables, and cells are empty: use {DEGENERATE_OPTION}, or "
            "omit incomplete rows by --missing complete-rows"
        )


def scores_of(rows: Rows, settings: ScoreSettings, most_cells: float = math.inf) -> Scores:
    """The function that scores families on `rows`: numbers by moments, level codes by counts.

    Discrete families of more than `most_cells` cells are excluded. The function raises `TypeError` for level codes that
    are not in memory.
    """
    if rows.kind == "continuous":
        d = len(rows.cardinalities)
        return lambda batch: score_moments(rows.moments, d, batch)

    def score(batch: Batch) -> FloatArray:
        if not isinstance(rows.columns, np.ndarray):
            raise TypeError("families can be scored only on rows in memory")
        return score_rows(rows.columns, rows.cardinalities, batch, settings, most_cells)

    return score


def configuration_scores(rows: MixedRows, most_cells: float) -> Scores:
    """The function that scores families of mixed `rows` by their moments by configuration."""

    def score(batch: Batch) -> FloatArray:
        numbers = configuration_moments(rows, sets_of(batch, rows.cardinalities, most_cells).sets)
        return score_configurations(numbers, batch, rows.cardinalities, rows.discrete, rows.all_rows, most_cells)

    return score
