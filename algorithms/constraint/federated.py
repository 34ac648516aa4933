"""A constraint-based search over silos: the algorithm for a method (PC, FCI) and a kind of evidence.

The search runs at the server. A silo answers queries about its rows with numbers; the server needs only their sum.
`Evidence` defines the queries and how the replies decide the tests: `evidence.py` for sums, `projection.py` for random
projections, and `baselines/vote_on_tests.py` for votes. If a silo drops out, the tests of that exchange use the rows of
the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Knowledge, Prior
from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import Schema
from ..statistics.coding import Coding, coding_of
from ..statistics.rows import (
    NO_VALUES,
    Answer,
    Query,
    Rows,
    answer_as_asked,
    bytes_of,
    cardinalities_of,
    entry_units,
    greatest_count,
    open_rows,
)
from .orientation import ConstraintMethod
from .search import Results, SearchPlan, SeparatorSearch, create_plan, start, step
from .settings import ConstraintSettings


@dataclass(frozen=True)
class SummedEvidence:
    """The sums that the search can use now, and the silos whose replies were added."""

    what: str = ""
    """the kind of the sums, such as tables or moments; empty without sums"""
    numbers: NDArray[Any] = field(default_factory=lambda: NO_VALUES)
    silos: tuple[str, ...] = ()
    noise: float = 0.0
    """variance of the noise in each number"""


@dataclass(frozen=True)
class Server:
    """The server's state."""

    variables: tuple[str, ...]
    kind: str
    cardinalities: NDArray[np.int64]
    coding: Coding
    rows: dict[str, int]
    """number of rows of each silo; public"""
    background: Knowledge
    """background knowledge of the graph"""
    search: SeparatorSearch
    known: SummedEvidence = field(default_factory=SummedEvidence)
    exchanges: int = 0
    independent_share: float = 1.0
    """the share of rows that count as independent in tests of count tables"""

    @property
    def prior(self) -> Prior:
        """The background knowledge as matrices."""
        return self.background.prior(self.variables)

    @property
    def all_rows(self) -> int:
        """The number of rows of all silos."""
        return sum(self.rows.values())


@dataclass(frozen=True)
class Evidence:
    """The queries of a search, and how the replies of the silos decide its tests."""

    question: Callable[[Server], Query]
    answers: Mapping[str, Answer]
    """how a silo answers a query of each kind"""
    learn: Callable[[Server, NDArray[Any], tuple[str, ...]], SummedEvidence]
    """(server, summed numbers, silos that answered) -> the new `Server.known`"""
    results: Callable[[Server], Results | None]
    """results of the search's current tests; None if another exchange is needed first"""
    forget: bool = True
    """whether sums can be used only for the tests of their own exchange"""


def federated_search(
    settings: ConstraintSettings,
    method: ConstraintMethod,
    choose: Callable[[str], Evidence],
    rows_of_all: bool = True,
) -> FederatedAlgorithm[Server, Rows, Query, Summand]:
    """`method` as a federated algorithm; `choose` maps a kind of data to the evidence.

    A test must have enough rows. With `rows_of_all`, the number of rows of all silos decides this, otherwise the
    average number of rows per silo.
    """

    def search_plan(
        kind: str, cardinalities: NDArray[np.int64], rows: dict[str, int], prior: Prior, share: float
    ) -> SearchPlan:
        rows_per_test = int(sum(rows.values()) * share) // (1 if rows_of_all else len(rows))
        return _plan(settings, method, kind, cardinalities, rows_per_test, prior)

    def open_server(schema: Schema) -> Server:
        choose(schema.kind)
        cardinalities, rows = cardinalities_of(schema), dict(sorted(schema.rows.items()))
        background, share = schema.knowledge, schema.independent_share
        search = start(search_plan(schema.kind, cardinalities, rows, background.prior(schema.variables), share))
        own = (schema.variables, schema.kind, cardinalities, coding_of(schema), rows, background, search)
        return Server(*own, independent_share=share)

    def aggregate(server: Server, replies: Replies[Summand]) -> Server:
        evidence = choose(server.kind)
        updated = _with_sum(server, replies, evidence)
        plan = search_plan(server.kind, server.cardinalities, server.rows, server.prior, server.independent_share)
        return _advance_search(updated, evidence, plan)

    algorithm = sum_each_round(
        open_silo=open_rows,
        open_server=open_server,
        broadcast=lambda server: choose(server.kind).question(server),
        part=lambda silo, query: answer_as_asked(silo, query, choose(silo.kind).answers),
        aggregate=aggregate,
        converged=lambda server: server.search.done,
        structure=lambda server: method.graph(server.search, server.variables, settings.orientation, server.prior),
        server_type=Server,
        broadcast_type=Query,
        max_rounds=settings.rounds,
        entry_units=entry_units,
        greatest_total=greatest_count,
        measures=measures,
    )
    return replace(algorithm, cost=bytes_of)


def _with_sum(server: Server, replies: Replies[Summand], evidence: Evidence) -> Server:
    """The server with the sum of the silos' replies."""
    sums = evidence.learn(server, replies.total, replies.silos)
    return replace(server, known=sums, exchanges=server.exchanges + 1)


def _advance_search(server: Server, evidence: Evidence, plan: SearchPlan) -> Server:
    """The server after all steps of its search for which the sums suffice."""
    while not server.search.done and (results := evidence.results(server)) is not None:
        server = replace(server, search=step(plan, server.search, results))
        if evidence.forget:
            return replace(server, known=SummedEvidence())
    return server


def measures(server: Server) -> dict[str, float]:
    """The progress of the search."""
    search = server.search
    return {
        "edges": float(search.joined.sum() / 2),
        "conditioning_set_size": float(search.level),
        "tests": float(search.made),
        "tests_left_out": float(search.left_out),
    }


def _plan(
    settings: ConstraintSettings,
    method: ConstraintMethod,
    kind: str,
    cardinalities: NDArray[np.int64],
    rows: int,
    prior: Prior,
) -> SearchPlan:
    if kind != "discrete":  # Fisher's z test given k variables needs more than k + 3 rows
        deepest = max(rows - 4, 0)
        depth = deepest if settings.depth < 0 else min(settings.depth, deepest)
        settings = replace(settings, depth=depth, rows_per_cell=0.0)
    return create_plan(settings, cardinalities, rows, method.pools, prior)
