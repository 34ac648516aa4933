"""A constraint-based search over silos: what travels, and the algorithm made of a procedure and a kind of evidence.

The server searches; a silo answers questions about its rows with numbers of which only the sum is needed. `Evidence`
says which questions settle the search's tests (`evidence.py`, `projection.py`, `cit_vote.py`). A silo that does not
answer costs no more than its rows: the tests of an exchange are made on the rows of those that did.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..graphs.structure import Structure
from ..protocol import FederatedAlgorithm, FloatArray, Replies, Schema
from .fisher_z import moments
from .procedures import Procedure
from .results import Results
from .search import Plan, Search, plan, start, step
from .settings import ConstraintSettings

NOTHING = np.empty(0)


@dataclass(frozen=True)
class Query:
    """What the server asks: moments, the tables over sets of variables, or something about tests."""

    what: Literal["moments", "tables", "sketches", "votes"]
    sets: NDArray[np.int16] = field(default_factory=lambda: np.empty((0, 2), np.int16))
    """of variables, `[n, size]`, filled up with -1; where tests are asked about, they themselves"""
    margins: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """for sketches: the summed margins of the tests' tables"""
    exchange: int = 0
    """number of this exchange"""


@dataclass(frozen=True)
class Answer:
    """What a silo sends: numbers to be added to those of the others."""

    numbers: NDArray[Any]


@dataclass(frozen=True)
class Silo:
    """A silo's rows: of discrete data the codes `[d, n_rows]`, of continuous data only their moments."""

    kind: str
    columns: NDArray[np.int16]
    cardinalities: NDArray[np.int64]
    moments: FloatArray


@dataclass(frozen=True)
class Known:
    """What the server keeps from one exchange to the next besides the search: summed numbers, and of which silos."""

    what: str = ""
    numbers: NDArray[Any] = field(default_factory=lambda: NOTHING)
    silos: tuple[str, ...] = ()


@dataclass(frozen=True)
class Server:
    """The server's state."""

    variables: tuple[str, ...]
    kind: str
    cardinalities: NDArray[np.int64]
    rows: int
    """that a test draws on: public, like the number of rows of each silo"""
    search: Search
    known: Known = field(default_factory=Known)
    exchanges: int = 0


@dataclass(frozen=True)
class Evidence:
    """How the tests of a search are settled by what silos answer."""

    question: Callable[[Server], Query]
    answer: Callable[[Silo, Query], Answer]
    learn: Callable[[Server, NDArray[Any], tuple[str, ...]], Known]
    """(server, summed numbers, who answered) -> what is known now"""
    results: Callable[[Server], Results | None]
    """of the search's tests; None where that takes another exchange"""
    forget: bool = True
    """whether what is known serves the tests of one exchange only"""


def federated_search(
    settings: ConstraintSettings, procedure: Procedure, choose: Callable[[str], Evidence], rows_of_all: bool = True
) -> FederatedAlgorithm[Server, Silo, Query, Answer]:
    """Return `procedure` as a federated algorithm; `choose` gives the evidence for a kind of data.

    A test must have rows enough in all silos together, or, unless `rows_of_all`, in the average silo.
    """

    def the(server: Server) -> Plan:
        return _plan(settings, procedure, server.kind, server.cardinalities, server.rows)

    def open_server(schema: Schema) -> Server:
        choose(schema.kind)
        cardinalities = cardinalities_of(schema)
        rows = sum(schema.rows.values()) // (1 if rows_of_all else len(schema.rows))
        search = start(_plan(settings, procedure, schema.kind, cardinalities, rows))
        return Server(schema.variables, schema.kind, cardinalities, rows, search)

    def aggregate(server: Server, replies: Replies[Answer]) -> Server:
        assert replies.total is not None
        evidence = choose(server.kind)
        known = evidence.learn(server, replies.total, replies.silos)
        server = replace(server, known=known, exchanges=server.exchanges + 1)
        while not server.search.done and (results := evidence.results(server)) is not None:
            server = replace(server, search=step(the(server), server.search, results))
            if evidence.forget:
                return replace(server, known=Known())
        return server

    def structure(server: Server) -> Structure:
        return procedure.graph(server.search, server.variables, settings.orientation)

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: choose(server.kind).question(server),
        local_solve=lambda silo, query: (silo, choose(silo.kind).answer(silo, query)),
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: server.search.done,
        structure=structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Query,
        reply_type=Answer,
        max_rounds=settings.rounds,
        summand=summand,
        measures=measures,
        cost=bytes_of,
    )


def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """Return the silo's rows as the tests need them. Raises BadInput for a code outside the levels of its variable."""
    cardinalities = cardinalities_of(schema)
    no_columns = np.empty((0, 0), np.int16)
    if schema.kind == "continuous":
        return Silo(schema.kind, no_columns, cardinalities, moments(table))
    wrong = np.argwhere((table < 0) | (table >= cardinalities))
    if len(wrong):
        row, v = wrong[0]
        name, last = schema.variables[v], cardinalities[v] - 1
        raise BadInput(f"{silo}: row {row + 1}, column {name}: {table[row, v]} is not a level's code, 0 to {last}")
    return Silo(schema.kind, np.ascontiguousarray(table.T, np.int16), cardinalities, NOTHING)


def cardinalities_of(schema: Schema) -> NDArray[np.int64]:
    """Return how many levels each variable has, ones for continuous data. Raises BadInput for time series."""
    if schema.kind == "continuous":
        return np.ones(len(schema.variables), np.int64)
    if schema.kind == "time-series":
        raise BadInput("independence tests need rows drawn independently, not a time series")
    return np.array([len(schema.levels[v]) for v in schema.variables], np.int64)


def summand(answer: Answer) -> FloatArray:
    """Return the numbers of one silo, counts as int64: integers add up exactly, as secure aggregation needs it."""
    exact = answer.numbers if answer.numbers.dtype.kind == "f" else answer.numbers.astype(np.int64)
    return cast(FloatArray, exact)


def measures(server: Server) -> dict[str, float]:
    """Return how far the search is."""
    search = server.search
    return {
        "edges": float(search.joined.sum() / 2),
        "conditioning_set_size": float(search.level),
        "tests": float(search.made),
        "tests_left_out": float(search.left_out),
    }


def bytes_of(message: Query | Answer) -> int:
    """Return the bytes of the message's numbers."""
    arrays = (message.numbers,) if isinstance(message, Answer) else (message.sets, message.margins)
    return sum(array.nbytes for array in arrays)


def _plan(
    settings: ConstraintSettings, procedure: Procedure, kind: str, cardinalities: NDArray[np.int64], rows: int
) -> Plan:
    if kind == "continuous":  # with |z| + 3 rows or fewer Fisher's z says nothing
        deepest = max(rows - 4, 0)
        depth = deepest if settings.depth < 0 else min(settings.depth, deepest)
        settings = replace(settings, depth=depth, rows_per_cell=0.0)
    return plan(settings, cardinalities, rows, procedure.pools)
