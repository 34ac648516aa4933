"""GES and BOSS on the rows of all silos, scored from summed counts while the rows stay at the silos (ours).

The search runs at the server. Whenever it needs scores, it requests the pending families in one exchange as sets of
variables; a set covers all families within it. Each silo counts the joint states of every set in mixed radix, so the
counts of all silos have the same public positions, and only their sum is needed. Equal counts give bit-identical
scores, so the search takes exactly the same steps as on pooled rows.

What leaves a silo: its part of the summed counts; for continuous data its part of the second moments about its own
means, once; the same for mixed data, in which labels are indicators (`statistics/coding.py`); masked with two silos or
more. A round costs a silo one pass over its rows for each set. With `ahead`, counts that the next moves may need are
requested together with those needed now: fewer exchanges, more bytes. The exact search at the end of BOSS over few
variables requests all sets of up to `exact_parents` + 1 variables, the largest first.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.cpdag import pdag_with_knowledge
from ..graphs.structure import Structure
from ..statistics.coding import Coding, blocks_of, coding_of
from ..statistics.moments import undo_per_row
from ..statistics.rows import (
    MixedRows,
    Numbers,
    Query,
    Rows,
    bytes_of,
    cardinalities_of,
    configuration_moments,
    configuration_units,
    configurations_of,
    counts_of,
    entry_units,
    moments_of,
    summand,
)
from .boss import Starts
from .discrete import (
    EXCLUDED_SCORE,
    all_too_wide,
    apply_knowledge,
    create_criterion,
    drop_impossible,
    families_within_budget,
    score_tables,
    sets_of,
)
from .families import Batch, Families, SearchSettings, no_families
from .gaussian import score_configurations
from .ges import EquivalenceSearch
from .procedures import (
    BOSS,
    GES,
    ScoreSearch,
    State,
    open_search_rows,
    refuse_gaps,
    refuse_wide,
    search_blocks,
    search_moments,
    shuffled,
)


@dataclass(frozen=True)
class SecureSearch(SearchSettings):
    """Settings of `secure-ges` and `secure-boss`."""

    ahead: int = 8
    """number of moves to look ahead (BOSS: any positive number means the whole sweep)"""
    cells: int = 4_000_000
    """approximate largest number of table cells to request in one exchange"""
    rounds: int = 10_000
    """largest number of exchanges"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.ahead >= 0, "ahead", self.ahead, "0 or more")
        require(self.cells >= self.most_cells, "cells", self.cells, f"at least most_cells, {self.most_cells}")
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more")


@dataclass(frozen=True)
class Server(Generic[State]):
    """The server's state: the state of the search, and the known scores."""

    variables: tuple[str, ...]
    kind: str
    cardinalities: NDArray[np.int64]
    coding: Coding
    rows: int
    worth: int
    """effective number of complete rows if cells are empty; else 0"""
    filled: bool
    """whether the silos have imputed their empty cells"""
    prior: Prior
    """background knowledge of the graph"""
    families: Families
    state: State
    found: NDArray[np.bool_]
    """the CPDAG, `[d, d]`, once the search is done"""
    done: bool
    exchanges: int


@dataclass(frozen=True)
class GesServer(Server[EquivalenceSearch]):
    """The server's state in a GES."""

    state: EquivalenceSearch


@dataclass(frozen=True)
class BossServer(Server[Starts]):
    """The server's state in a BOSS."""

    state: Starts


def secure_ges(settings: SecureSearch) -> FederatedAlgorithm[Any, Rows, Query, Numbers]:
    """GES over summed counts."""
    return _secure(settings, GES, GesServer)


def secure_boss(settings: SecureSearch) -> FederatedAlgorithm[Any, Rows, Query, Numbers]:
    """BOSS over summed counts."""
    return _secure(settings, BOSS, BossServer)


def _secure(
    settings: SecureSearch, procedure: ScoreSearch[Any], server_type: Callable[..., Server[Any]]
) -> FederatedAlgorithm[Any, Rows, Query, Numbers]:
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_search_rows(table, schema, silo, settings, rng),
        open_server=lambda schema: _initial_server(schema, settings, procedure, server_type),
        broadcast=lambda server: question(server, settings, procedure),
        local_solve=lambda silo, query: (silo, answer(silo, query)),
        aggregate=lambda server, replies: _with_sum(server, replies, procedure, settings),
        converged=lambda server: server.done,
        structure=lambda server: Structure(server.variables, server.found.astype(np.float64), "cpdag"),
        server_type=server_type,  # type: ignore[arg-type]
        silo_type=Rows,
        broadcast_type=Query,
        reply_type=Numbers,
        max_rounds=settings.rounds,
        summand=summand,
        entry_units=units_of,
        needs_secure_sum=True,
        measures=measures,
        cost=bytes_of,
    )


def _initial_server(
    schema: Schema, settings: SecureSearch, procedure: ScoreSearch[Any], server_type: Callable[..., Server[Any]]
) -> Server[Any]:
    """The state of a search that needs its first scores. Raises BadInput for data that cannot be scored."""
    cardinalities = cardinalities_of(schema)
    if schema.kind == "mixed" and settings.in_tables(schema.kind):
        cardinalities = configurations_of(schema)
    refuse_wide(schema, settings.most_cells)
    refuse_gaps(schema, settings)
    d, prior = len(schema.variables), schema.knowledge.prior(schema.variables)
    server = server_type(
        variables=schema.variables,
        kind=schema.kind,
        cardinalities=cardinalities,
        coding=coding_of(schema),
        rows=sum(schema.rows.values()),
        worth=schema.pairs_together if schema.gaps else 0,
        filled=bool(len(schema.imputation_model.dag)),
        prior=prior,
        families=no_families(),
        state=procedure.begin(prior.reordered(shuffled(d, settings).variables), settings),
        found=np.zeros((d, d), np.bool_),
        done=False,
        exchanges=0,
    )
    return _advance(server, procedure, settings)


def _with_sum(
    server: Server[Any], replies: Replies[Numbers], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The state with the scores from the summed replies, and the search advanced as far as they allow."""
    assert replies.total is not None
    server = replace(server, exchanges=server.exchanges + 1)
    if not settings.in_tables(server.kind):
        return _from_moments(server, undo_per_row(replies.total, server.rows), procedure, settings)
    batch = requested_families(server, settings, procedure)
    possible = drop_impossible(batch, server.prior) if procedure.orders else batch
    scores = score_batch(server, replies.total, possible, settings)
    scores = apply_knowledge(scores, batch, server.prior) if procedure.orders else scores
    families, state = server.families.copy().with_scores(scores), procedure.copy(server.state)
    return _advance(replace(server, families=families, state=state), procedure, settings)


def question(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Query:
    """The query to all silos: for moments, or for counts over the sets of the requested families."""
    if not settings.in_tables(server.kind):
        return Query("moments", exchange=server.exchanges)
    batch = requested_families(server, settings, procedure)
    batch = drop_impossible(batch, server.prior) if procedure.orders else batch
    sets = sets_of(batch, server.cardinalities, settings.most_cells).sets
    return Query("tables" if server.kind == "discrete" else "configurations", sets, exchange=server.exchanges)


def requested_families(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Batch:
    """The families to score in this exchange."""
    pending = shuffled(len(server.variables), settings).families(server.families.pending)
    possible = drop_impossible(pending, server.prior) if procedure.orders else pending
    n_families = len(families_within_budget(possible, server.cardinalities, settings.most_cells, settings.cells))
    return Batch(pending.first[: n_families + 1], pending.members[: pending.first[n_families]])


def units_of(schema: Schema, query: Query) -> FloatArray:
    """The approximate magnitudes of the numbers in the reply to `query`."""
    if query.what == "configurations":
        return configuration_units(schema, query.sets)
    return entry_units(schema, query)


def score_batch(server: Server[Any], total: NDArray[Any], batch: Batch, settings: SearchSettings) -> FloatArray:
    """The scores of `batch` from the summed tables."""
    if server.kind == "discrete":
        criterion = create_criterion(settings, len(server.variables), server.rows, server.worth, filled=server.filled)
        return score_tables(total, batch, server.cardinalities, criterion, settings)
    discrete = np.array(server.coding.discrete)
    return score_configurations(total, batch, server.cardinalities, discrete, server.rows, settings.most_cells)


def answer(rows: Rows, query: Query) -> Numbers:
    """The silo's part of the sum."""
    if isinstance(rows, MixedRows):
        return Numbers(configuration_moments(rows, query.sets))
    return moments_of(rows) if query.what == "moments" else counts_of(rows, query)


def measures(server: Server[Any]) -> dict[str, float]:
    """The numbers of scored families and of edges of the graph."""
    edges = server.state.graph if isinstance(server.state, EquivalenceSearch) else server.found
    return {"families": float(server.families.used[1]), "edges": float(np.triu(edges | edges.T).sum())}


def _advance(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> Server[Any]:
    """The state with the search advanced until it needs scores or is done."""
    state, families = server.state, server.families
    shuffle = shuffled(len(server.variables), settings)
    while not state.done:
        if len(families.pending):
            pending = shuffle.families(families.pending)
            if not settings.in_tables(server.kind) or not all_too_wide(
                pending, server.cardinalities, settings.most_cells
            ):
                break
            families = families.with_scores(np.full(len(families.pending), EXCLUDED_SCORE))
        state = procedure.advance(state, families, settings.ahead)
        if families.full:
            families = families.grown()
    found = server.found
    if state.done:
        found = shuffle.graph(procedure.graph(state, families))
        found = pdag_with_knowledge(found, server.prior.required, server.prior.possible)
    return replace(server, state=state, families=families, found=found, done=state.done)


def _from_moments(
    server: Server[Any], moments: NDArray[Any], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The final state, found from the moments, which determine all scores."""
    if server.kind == "mixed":
        found = search_blocks(procedure, blocks_of(moments, server.coding), settings, server.prior)
    else:
        found = search_moments(procedure, moments, len(server.variables), settings, server.prior)
    return replace(server, found=found, done=True)
