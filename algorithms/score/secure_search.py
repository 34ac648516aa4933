"""GES and BOSS on the rows of all silos, none of which moves: scores come from summed counts (ours).

The search runs at the server. Whenever it needs scores, the wanted families go out in one exchange as sets of
variables; a set covers all families within it. Each silo counts the joint states of every set in mixed radix, so the
numbers of all silos stand in the same public places, and only their sum is needed. Equal counts give equal scores, bit
for bit: the search takes exactly the steps that it takes on pooled rows.

What leaves a silo: its part of the summed counts; for continuous data its part of the second moments about its own
means, once; the same for mixed data, in which labels are indicators (`statistics/coding.py`); masked wherever there are
two silos or more. A round costs a silo one pass over its rows for each set. With `ahead`, counts that the next moves
may need are requested together with those needed now: fewer exchanges, more bytes. The exact search that ends a BOSS
over few variables asks for all sets of up to `exact_parents` + 1 variables, the largest first.
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
from ..statistics.moments import of_all_rows
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
from .discrete import TOO_WIDE, affordable, considered, criterion, priced, score_tables, sets_of, too_wide
from .families import Batch, Families, SearchSettings, no_families
from .gaussian import score_configurations
from .ges import EquivalenceSearch
from .procedures import (
    BOSS,
    GES,
    ScoreSearch,
    State,
    opened,
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
    """how many moves to look ahead (BOSS: any number above 0 means the whole sweep)"""
    cells: int = 4_000_000
    """most table cells to ask for in one exchange, approximately"""
    rounds: int = 10_000
    """exchanges, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        super().__post_init__()
        require(self.ahead >= 0, "ahead", self.ahead, "0 or more")
        require(self.cells >= self.most_cells, "cells", self.cells, f"at least most_cells, {self.most_cells}")
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more")


@dataclass(frozen=True)
class Server(Generic[State]):
    """The server's state: that of the search, and the scores it knows."""

    variables: tuple[str, ...]
    kind: str
    cardinalities: NDArray[np.int64]
    coding: Coding
    rows: int
    worth: int
    """to how many complete rows they amount, if cells are empty; else 0"""
    filled: bool
    """whether the silos have filled their empty cells"""
    prior: Prior
    """what is known of the graph beforehand"""
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
        open_silo=lambda table, schema, silo, rng: opened(table, schema, silo, settings, rng),
        open_server=lambda schema: _begun(schema, settings, procedure, server_type),
        broadcast=lambda server: question(server, settings, procedure),
        local_solve=lambda silo, query: (silo, answer(silo, query)),
        aggregate=lambda server, replies: _learned(server, replies, procedure, settings),
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


def _begun(
    schema: Schema, settings: SecureSearch, procedure: ScoreSearch[Any], server_type: Callable[..., Server[Any]]
) -> Server[Any]:
    """The state in which the search waits for its first scores. Raises BadInput for what cannot be scored."""
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
    return _advanced(server, procedure, settings)


def _learned(
    server: Server[Any], replies: Replies[Numbers], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The state with the scores that the summed answers give, and the search advanced as far as they allow."""
    assert replies.total is not None
    server = replace(server, exchanges=server.exchanges + 1)
    if not settings.in_tables(server.kind):
        return _from_moments(server, of_all_rows(replies.total, server.rows), procedure, settings)
    batch = asked(server, settings, procedure)
    put = considered(batch, server.prior) if procedure.orders else batch
    scores = scored(server, replies.total, put, settings)
    scores = priced(scores, batch, server.prior) if procedure.orders else scores
    families, state = server.families.copy().with_scores(scores), procedure.copied(server.state)
    return _advanced(replace(server, families=families, state=state), procedure, settings)


def question(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Query:
    """Return what all silos are asked: the moments, or the counts over the sets that hold the families wanted now."""
    if not settings.in_tables(server.kind):
        return Query("moments", exchange=server.exchanges)
    batch = asked(server, settings, procedure)
    batch = considered(batch, server.prior) if procedure.orders else batch
    sets = sets_of(batch, server.cardinalities, settings.most_cells).sets
    return Query("tables" if server.kind == "discrete" else "configurations", sets, exchange=server.exchanges)


def asked(server: Server[Any], settings: SecureSearch, procedure: ScoreSearch[Any]) -> Batch:
    """The families that this exchange is to score."""
    wanted = shuffled(len(server.variables), settings).families(server.families.wanted)
    put = considered(wanted, server.prior) if procedure.orders else wanted
    first = len(affordable(put, server.cardinalities, settings.most_cells, settings.cells))
    return Batch(wanted.first[: first + 1], wanted.members[: wanted.first[first]])


def units_of(schema: Schema, query: Query) -> FloatArray:
    """About how large the numbers are that a `query` asks for."""
    if query.what == "configurations":
        return configuration_units(schema, query.sets)
    return entry_units(schema, query)


def scored(server: Server[Any], total: NDArray[Any], batch: Batch, settings: SearchSettings) -> FloatArray:
    """The scores of `batch` that the summed tables give."""
    if server.kind == "discrete":
        by = criterion(settings, len(server.variables), server.rows, server.worth, filled=server.filled)
        return score_tables(total, batch, server.cardinalities, by, settings)
    discrete = np.array(server.coding.discrete)
    return score_configurations(total, batch, server.cardinalities, discrete, server.rows, settings.most_cells)


def answer(rows: Rows, query: Query) -> Numbers:
    """The silo's part of the sum."""
    if isinstance(rows, MixedRows):
        return Numbers(configuration_moments(rows, query.sets))
    return moments_of(rows) if query.what == "moments" else counts_of(rows, query)


def measures(server: Server[Any]) -> dict[str, float]:
    """How many families are scored and how many edges the graph has."""
    edges = server.state.graph if isinstance(server.state, EquivalenceSearch) else server.found
    return {"families": float(server.families.used[1]), "edges": float(np.triu(edges | edges.T).sum())}


def _advanced(server: Server[Any], procedure: ScoreSearch[Any], settings: SecureSearch) -> Server[Any]:
    """The state with the search advanced until it needs scores or is done."""
    state, families = server.state, server.families
    within = shuffled(len(server.variables), settings)
    while not state.done:
        if len(families.wanted):
            wanted = within.families(families.wanted)
            if not settings.in_tables(server.kind) or not too_wide(wanted, server.cardinalities, settings.most_cells):
                break
            families = families.with_scores(np.full(len(families.wanted), TOO_WIDE))
        state = procedure.advance(state, families, settings.ahead)
        if families.full:
            families = families.grown()
    found = server.found
    if state.done:
        found = within.graph(procedure.graph(state, families))
        found = pdag_with_knowledge(found, server.prior.required, server.prior.possible)
    return replace(server, state=state, families=families, found=found, done=state.done)


def _from_moments(
    server: Server[Any], moments: NDArray[Any], procedure: ScoreSearch[Any], settings: SecureSearch
) -> Server[Any]:
    """The final state: the moments give every score."""
    if server.kind == "mixed":
        found = search_blocks(procedure, blocks_of(moments, server.coding), settings, server.prior)
    else:
        found = search_moments(procedure, moments, len(server.variables), settings, server.prior)
    return replace(server, found=found, done=True)
