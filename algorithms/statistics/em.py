"""The covariance of columns with empty cells, by EM over the silos: before a run on such numbers (ours).

If cells are empty at random given those that are there, leaving out rows wastes most of them, and pairwise
covariances need not fit together; maximum likelihood does neither. Exchange 1 asks for the products of those pairs of
cells that are both there, and how many these are; every further one for the second moments that each silo expects under
the covariance so far (`expectation.py`). Only sums are needed, of D(D + 1)/2 numbers; they are masked if the run is.

It ends when no direction's variance changes by more than `tolerance`: where columns nearly determine each other, edges
rest on directions of little variance. Steps are accelerated (`acceleration.py`); without that, EM takes two to ten
times as many.

For the price of an edge, the rows count as many as both cells of a pair are there, in the mean over all pairs.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..core.filling import Filling
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..errors import BadInput, require
from ..graphs.structure import Structure, no_edges
from .acceleration import Iteration, stepped
from .chunks import Table, chunks
from .coding import Coding, coded_units, coding_of
from .columns import columns_of
from .expectation import expected
from .symmetric import from_triangle, triangle
from .units import of_products

LEAST_EIGENVALUE = 1e-3
"""of the correlations that EM begins with: those of different rows may not fit together"""
SHRUNK = 0.1
"""how much less they are at first: EM finds dependence sooner than it unlearns it"""
FLOOR = 1e-6
"""this share of their diagonal is added to covariances, for columns that are sums of others"""


@dataclass(frozen=True)
class ExpectationMaximisation:
    """Settings of the exchanges."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    tolerance: float = 0.01
    """how much the variance in any direction may still change at the end, relatively"""
    rounds: int = 50
    """exchanges, at most"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.tolerance > 0, "tolerance", self.tolerance, "above 0")
        require(self.rounds >= 2, "rounds", self.rounds, "2 or more")


@dataclass(frozen=True, eq=False)
class Silo:
    """A silo's rows `[n_rows, d]`, how they are coded, and the number of rows of all silos."""

    table: Table
    coding: Coding
    all_rows: int


@dataclass(frozen=True)
class Broadcast:
    """The covariance so far `[D, D]`; empty at first."""

    S: FloatArray


@dataclass(frozen=True)
class Reply:
    """A silo's part of what is summed."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The covariance so far, and the rows it is worth; none before the first sum."""

    schema: Schema
    iteration: Iteration
    rows: int
    tolerance: float

    @property
    def covariance(self) -> FloatArray:
        """That so far, `[D, D]`."""
        return self.iteration.point

    @property
    def filling(self) -> Filling:
        """What silos are to know of their empty cells."""
        return Filling(covariance=self.covariance, rows=self.rows)


def build(settings: ExpectationMaximisation) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Return the exchanges."""
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: Silo(table, coding_of(schema), sum(schema.rows.values())),
        open_server=lambda schema: Server(schema.in_order(), Iteration(np.empty((0, 0))), 0, settings.tolerance),
        broadcast=lambda server: Broadcast(server.covariance),
        local_solve=lambda silo, asked: (silo, answer(silo, asked)),
        aggregate=aggregate,
        dual_update=lambda server: server,
        converged=lambda server: server.iteration.change <= server.tolerance,
        structure=_structure,
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=lambda reply: reply.values,
        entry_units=_units,
        needs_secure_sum=settings.masked,
        bears_loss=True,
        measures=lambda server: {"change": server.iteration.change},
    )


def answer(silo: Silo, asked: Broadcast) -> Reply:
    """Return the silo's part of the pairs and their products, or of the second moments it expects."""
    if len(asked.S):
        return Reply(triangle(expected(silo.table, silo.coding, asked.S).products) / silo.all_rows)
    products, pairs = together(silo.table, silo.coding)
    return Reply(np.concatenate([triangle(pairs), triangle(products)]) / silo.all_rows)


def together(table: Table, coding: Coding) -> tuple[FloatArray, FloatArray]:
    """Return, of the rows of `table` in which both cells of a pair are there, the products and the number, `[D, D]`.

    Products are about the means of the cells that are there.
    """
    means = columns_of(coding.coded(table)).means
    products, pairs = np.zeros((coding.size, coding.size)), np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        coded = coding.rows(rows)
        known = ~np.isnan(coded)
        deviations = np.where(known, coded - means, 0.0)
        products += deviations.T @ deviations
        pairs += known.T.astype(np.float64) @ known
    return products, pairs


def aggregate(server: Server, replies: Replies[Reply]) -> Server:
    """Return the state with the covariance that the sum gives. Raises `BadInput` for a column without variance."""
    assert replies.total is not None
    rows, all_rows = sum(server.schema.rows[silo] for silo in replies.silos), sum(server.schema.rows.values())
    total = replies.total * all_rows
    if len(server.covariance):
        S = _with_floor(from_triangle(total) / (rows - len(replies.silos)))
        return replace(server, iteration=stepped(server.iteration, S))
    pairs, products = (from_triangle(part) for part in np.split(total, 2))
    S = np.divide(products, pairs, out=np.zeros_like(products), where=pairs > 0.5)
    coding = coding_of(server.schema)
    for j in np.flatnonzero(np.diag(S) <= 0)[:1]:
        name = server.schema.variables[coding.owners[j]]
        raise BadInput(f"column '{name}' has no variance within any silo, so no edge can be learned")
    # A lost silo counts as if its cells were empty as often as those of the others: learners rescale by all rows.
    return replace(server, iteration=Iteration(_positive(S)), rows=_mean_of_pairs(pairs * (all_rows / rows), coding))


def _positive(S: FloatArray) -> FloatArray:
    """Return a covariance with the variances of `S` and, about, its correlations, a little shrunk."""
    scale = np.sqrt(np.diag(S))
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    R = (vectors * np.maximum(values, LEAST_EIGENVALUE)) @ vectors.T
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    return np.asarray(((1 - SHRUNK) * R + SHRUNK * np.eye(len(R))) * np.outer(scale, scale))


def _with_floor(S: FloatArray) -> FloatArray:
    return S + FLOOR * np.diag(np.diag(S))


def _mean_of_pairs(pairs: FloatArray, coding: Coding) -> int:
    """Return the mean number of rows over the pairs of variables, or, of one variable, its own."""
    first = np.array([block[0] for block in coding.blocks])
    of_variables = pairs[np.ix_(first, first)]
    apart = of_variables[np.triu_indices(len(first), 1)]
    return round(float(apart.mean() if len(apart) else of_variables[0, 0]))


def _units(schema: Schema, asked: Broadcast) -> FloatArray:
    products = of_products(coded_units(schema))
    return products if len(asked.S) else np.concatenate([np.ones(len(products)), products])


def _structure(server: Server) -> Structure:
    return no_edges(server.schema.variables)
