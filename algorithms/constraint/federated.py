"""A constraint-based search over silos: what travels, and the algorithm made of a procedure and a kind of evidence.

The server searches; a silo answers questions about its rows with numbers of which only the sum is needed. `Evidence`
says which questions settle the search's tests (`evidence.py`, `projection.py`, `cit_vote.py`). A silo that does not
answer costs no more than its rows: the tests of an exchange are made on the rows of those that did.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from .fisher_z import moments
from .private_counts import TablePlan
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
    margins: FloatArray = field(default_factory=lambda: NOTHING)
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
    all_rows: int
    """number of rows of all silos"""
    plan: TablePlan | None = None
    """set if the counts are to be private"""
    key: bytes = field(default=b"", repr=False)
    """from which the noise of this round is drawn"""


@dataclass(frozen=True)
class Known:
    """What the server keeps from one exchange to the next besides the search: summed numbers, and of which silos."""

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
    rows: dict[str, int]
    """of each silo: public"""
    search: Search
    known: Known = field(default_factory=Known)
    exchanges: int = 0

    @property
    def all_rows(self) -> int:
        """The number of rows of all silos."""
        return sum(self.rows.values())


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

    def the(kind: str, cardinalities: NDArray[np.int64], rows: dict[str, int]) -> Plan:
        of_a_test = sum(rows.values()) // (1 if rows_of_all else len(rows))
        return _plan(settings, procedure, kind, cardinalities, of_a_test)

    def open_server(schema: Schema) -> Server:
        choose(schema.kind)
        cardinalities, rows = cardinalities_of(schema), dict(sorted(schema.rows.items()))
        search = start(the(schema.kind, cardinalities, rows))
        return Server(schema.variables, schema.kind, cardinalities, rows, search)

    def aggregate(server: Server, replies: Replies[Answer]) -> Server:
        evidence = choose(server.kind)
        told = _told(server, replies, evidence)
        return _stepped(told, evidence, the(server.kind, server.cardinalities, server.rows))

    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=open_server,
        broadcast=lambda server: choose(server.kind).question(server),
        local_solve=lambda silo, query: (silo, choose(silo.kind).answer(silo, query)),
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: server.search.done,
        structure=lambda server: procedure.graph(server.search, server.variables, settings.orientation),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Query,
        reply_type=Answer,
        max_rounds=settings.rounds,
        summand=summand,
        bears_loss=True,
        measures=measures,
        cost=bytes_of,
    )


def _told(server: Server, replies: Replies[Answer], evidence: Evidence) -> Server:
    """Return the server knowing what the silos said."""
    assert replies.total is not None
    known = evidence.learn(server, replies.total, replies.silos)
    return replace(server, known=known, exchanges=server.exchanges + 1)


def _stepped(server: Server, evidence: Evidence, plan: Plan) -> Server:
    """Return the server after as many steps of its search as what it knows settles."""
    while not server.search.done and (results := evidence.results(server)) is not None:
        server = replace(server, search=step(plan, server.search, results))
        if evidence.forget:
            return replace(server, known=Known())
    return server


def open_silo(table: NDArray[Any], schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """Return the silo's rows as the tests need them. Raises BadInput for a code outside the levels of its variable."""
    cardinalities, all_rows = cardinalities_of(schema), sum(schema.rows.values())
    if schema.kind == "continuous":
        return Silo(schema.kind, np.empty((0, 0), np.int16), cardinalities, moments(table), all_rows)
    wrong = np.argwhere((table < 0) | (table >= cardinalities))
    if len(wrong):
        row, v = wrong[0]
        name, last = schema.variables[v], cardinalities[v] - 1
        raise BadInput(f"{silo}: row {row + 1}, column {name}: {table[row, v]} is not a level's code, 0 to {last}")
    return Silo(schema.kind, np.ascontiguousarray(table.T, np.int16), cardinalities, NOTHING, all_rows)


def cardinalities_of(schema: Schema) -> NDArray[np.int64]:
    """Return how many levels each variable has, ones for continuous data. Raises BadInput for time series."""
    if schema.kind == "continuous":
        return np.ones(len(schema.variables), np.int64)
    if schema.kind == "time-series":
        raise BadInput("independence tests need rows drawn independently, not a time series")
    return np.array([len(schema.levels[v]) for v in schema.variables], np.int64)


def summand(answer: Answer) -> FloatArray:
    """Return the numbers of one silo. Sums of counts are exact: floats hold all whole numbers up to 2⁵³."""
    return answer.numbers.astype(np.float64)


def on_grid(numbers: FloatArray) -> FloatArray:
    """Return `numbers` rounded to multiples of 2⁻²⁰: like counts they add up exactly, in any order, masked or not."""
    return np.asarray(np.round(numbers * 2.0**20) / 2.0**20)


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
