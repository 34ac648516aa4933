"""A constraint-based search over silos: what travels, and the algorithm made of a method and a kind of evidence.

The search runs at the server; a silo answers questions about its rows with numbers of which only the sum is needed.
`Evidence` says which questions are asked and how their answers decide the tests (`evidence.py`, `projection.py`, and
the votes in `baselines/`). If a silo drops out, the tests of that exchange are made on the rows of the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Knowledge, Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import Schema
from ..statistics.coding import Coding, coding_of
from ..statistics.rows import NOTHING, Numbers, Query, Rows, bytes_of, cardinalities_of, entry_units, open_rows, summand
from .orientation import ConstraintMethod
from .search import ConstraintSettings, Results, SearchPlan, SeparatorSearch, plan, start, step


@dataclass(frozen=True)
class Known:
    """What the server keeps between exchanges besides the search: summed numbers, and the silos in the sum."""

    what: str = ""
    numbers: NDArray[Any] = field(default_factory=lambda: NOTHING)
    silos: tuple[str, ...] = ()
    noise: float = 0.0
    """variance of the noise in each of the numbers"""


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
    """what is known of the graph beforehand"""
    search: SeparatorSearch
    known: Known = field(default_factory=Known)
    exchanges: int = 0

    @property
    def prior(self) -> Prior:
        """What is known beforehand, as matrices."""
        return self.background.prior(self.variables)

    @property
    def all_rows(self) -> int:
        """The number of rows of all silos."""
        return sum(self.rows.values())


@dataclass(frozen=True)
class Evidence:
    """How the answers of the silos decide the tests of a search."""

    question: Callable[[Server], Query]
    answer: Callable[[Rows, Query], Numbers]
    learn: Callable[[Server, NDArray[Any], tuple[str, ...]], Known]
    """(server, summed numbers, who answered) -> what is known now"""
    results: Callable[[Server], Results | None]
    """results of the search's current tests; None if another exchange is needed first"""
    forget: bool = True
    """whether what is known can decide the tests of one exchange only"""


def federated_search(
    settings: ConstraintSettings,
    method: ConstraintMethod,
    choose: Callable[[str], Evidence],
    rows_of_all: bool = True,
) -> FederatedAlgorithm[Server, Rows, Query, Numbers]:
    """`method` as a federated algorithm; `choose` gives the evidence for a kind of data.

    Whether a test has enough rows is judged by all silos together or, unless `rows_of_all`, by the average silo.
    """

    def the(kind: str, cardinalities: NDArray[np.int64], rows: dict[str, int], prior: Prior) -> SearchPlan:
        of_a_test = sum(rows.values()) // (1 if rows_of_all else len(rows))
        return _plan(settings, method, kind, cardinalities, of_a_test, prior)

    def open_server(schema: Schema) -> Server:
        choose(schema.kind)
        cardinalities, rows = cardinalities_of(schema), dict(sorted(schema.rows.items()))
        background = schema.knowledge
        search = start(the(schema.kind, cardinalities, rows, background.prior(schema.variables)))
        return Server(schema.variables, schema.kind, cardinalities, coding_of(schema), rows, background, search)

    def aggregate(server: Server, replies: Replies[Numbers]) -> Server:
        evidence = choose(server.kind)
        told = _told(server, replies, evidence)
        return _stepped(told, evidence, the(server.kind, server.cardinalities, server.rows, server.prior))

    return FederatedAlgorithm(
        open_silo=open_rows,
        open_server=open_server,
        broadcast=lambda server: choose(server.kind).question(server),
        local_solve=lambda silo, query: (silo, choose(silo.kind).answer(silo, query)),
        aggregate=aggregate,
        converged=lambda server: server.search.done,
        structure=lambda server: method.graph(server.search, server.variables, settings.orientation, server.prior),
        server_type=Server,
        silo_type=Rows,
        broadcast_type=Query,
        reply_type=Numbers,
        max_rounds=settings.rounds,
        summand=summand,
        entry_units=entry_units,
        tolerates_dropout=True,
        measures=measures,
        cost=bytes_of,
    )


def _told(server: Server, replies: Replies[Numbers], evidence: Evidence) -> Server:
    """The server with the silos' answers taken in."""
    assert replies.total is not None
    known = evidence.learn(server, replies.total, replies.silos)
    return replace(server, known=known, exchanges=server.exchanges + 1)


def _stepped(server: Server, evidence: Evidence, plan: SearchPlan) -> Server:
    """The server after as many steps of its search as its knowledge allows."""
    while not server.search.done and (results := evidence.results(server)) is not None:
        server = replace(server, search=step(plan, server.search, results))
        if evidence.forget:
            return replace(server, known=Known())
    return server


def measures(server: Server) -> dict[str, float]:
    """How far the search is."""
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
    if kind != "discrete":  # Fisher's z needs more than |z| + 3 rows
        deepest = max(rows - 4, 0)
        depth = deepest if settings.depth < 0 else min(settings.depth, deepest)
        settings = replace(settings, depth=depth, rows_per_cell=0.0)
    return plan(settings, cardinalities, rows, method.pools, prior)
