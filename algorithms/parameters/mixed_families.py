"""The parameters of a network of mixed variables, from sums over the silos: a few exchanges after a run (ours).

Exchange 1: the means of the coded columns, their second moments about the silos' own means, and the count tables of the
discrete variables whose parents are all discrete (`tables.py`). The least-squares regressions and the tables follow;
intercepts are about the means of all rows.

Then Newton's method for the multinomial logistic regressions of the other discrete variables: each exchange asks for
the sums that make log-likelihood, gradient and Hessian, O(n·p²·k²) at a silo for p coded parents and k levels. A
Gaussian prior on the weights of standardised columns, as heavy as `ess` rows, keeps them finite where a level is told
apart perfectly. Where cells are empty, products are those expected, and tables and logistic regressions leave out rows
without a cell they need.

Multinomial logistic regressions by Newton's method, whose sums over rows are added up over silos.

Of a discrete variable with coded parents: weights are `[levels − 1, 1 + coded columns of the parents]`, the first
column for the intercept; the first level has none. A Gaussian prior of mean 0 on the others, for standardised columns,
keeps them finite.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, only_field
from ..core.schema import FloatArray, Schema
from ..errors import require
from ..graphs.structure import Structure
from ..statistics.coding import Coding, coded_units, coding_of
from ..statistics.em import about_own_means
from ..statistics.moments import Table, moment_units, pooled_packing, sum_over_chunks
from ..statistics.packing import from_triangle, triangle
from .mixed_network import Linear, Local, Logistic, MixedNetwork, Tabular, softmax
from .tables import smoothed

TINY = 1e-12


@dataclass(frozen=True, eq=False)
class Family:
    """A discrete variable, its parents, how these are standardised, and the weights of its regression so far."""

    child: int
    parents: NDArray[np.intp]
    coding: Coding
    shifts: FloatArray
    scales: FloatArray
    weights: FloatArray

    def fit(self, rows: FloatArray) -> FloatArray:
        """Return what those of `rows` add that have all cells of the family."""
        there = rows[~np.isnan(rows[:, [self.child, *self.parents]]).any(axis=1)]
        columns = (self.coding.rows(there[:, self.parents]) - self.shifts) / self.scales
        design = np.column_stack([np.ones(len(there)), columns])
        return sums_of(design, there[:, self.child].astype(np.int64), self.weights)


def sums_of(columns: FloatArray, codes: NDArray[np.int64], weights: FloatArray) -> FloatArray:
    """The log-likelihood of `codes` `[n]` under `weights`, its gradient, and minus its Hessian, packed."""
    levels, p = weights.shape
    chances = softmax(np.column_stack([np.zeros(len(columns)), columns @ weights.T]))
    likelihood = np.log(np.maximum(chances[np.arange(len(codes)), codes], 1e-300)).sum()
    residuals = (codes[:, None] == np.arange(1, levels + 1)) - chances[:, 1:]
    curvature = np.empty((levels, p, levels, p))
    for a in range(levels):
        for b in range(levels):
            spread = chances[:, a + 1] * ((a == b) - chances[:, b + 1])
            curvature[a, :, b, :] = (columns * spread[:, None]).T @ columns
    gradient = residuals.T @ columns
    return np.concatenate([[likelihood], gradient.ravel(), triangle(curvature.reshape(levels * p, levels * p))])


def packed_size(weights: int) -> int:
    """How many numbers a regression of so many weights sends: log-likelihood, gradient, half of its Hessian."""
    return 1 + weights + weights * (weights + 1) // 2


def newton_step(packed: FloatArray, weights: FloatArray, prior: float) -> tuple[float, FloatArray]:
    """The penalised log-likelihood of `weights`, and the step to its greatest value if it were quadratic.

    `packed` are the sums `[packed_size]` of all rows, over their number; `prior` is its precision, over it, too.
    """
    q, free = weights.size, np.array([0.0] + [1.0] * (weights.shape[1] - 1))
    penalised = weights * free
    gradient = packed[1 : 1 + q] - prior * penalised.ravel()
    curvature = from_triangle(packed[1 + q :]) + np.diag(prior * np.tile(free, len(weights)) + TINY)
    likelihood = float(packed[0]) - 0.5 * prior * float((penalised**2).sum())
    return likelihood, np.asarray(np.linalg.solve(curvature, gradient))


def unscaled(weights: FloatArray, shifts: FloatArray, scales: FloatArray) -> Logistic:
    """The regression on coded columns as they are, from `weights` on standardised ones."""
    slopes = weights[:, 1:] / scales
    intercepts = weights[:, 0] - slopes @ shifts
    return Logistic(np.append(0.0, intercepts), np.vstack([np.zeros(slopes.shape[1]), slopes]))


MOST_CELLS = 1 << 15
"""of a table; a discrete variable whose table had more is regressed on the indicators of its parents"""
NEWTON = 30
"""steps, at most"""
SETTLED = 1e-7
"""gain in mean log-likelihood below which the regressions are fitted"""


@dataclass(frozen=True)
class MixedFamilies:
    """Settings of the exchanges."""

    ess: float = 1.0
    """how many rows the priors of tables and of logistic weights count for"""
    masked: bool = False
    """always mask the replies, even if the run does not"""

    def __post_init__(self) -> None:
        """Raise `BadInput` for a value outside its range."""
        require(self.ess > 0, "ess", self.ess, "above 0")


@dataclass(frozen=True, eq=False)
class Silo:
    """A silo's rows `[n_rows, d]`, its means and summed second moments about them, and the number of all rows."""

    table: Table
    coding: Coding
    means: FloatArray
    products: FloatArray
    all_rows: int


@dataclass(frozen=True)
class Broadcast:
    """The DAG `[d, d]`; then what standardises coded columns, and the logistic weights so far, one after another."""

    dag: NDArray[np.bool_]
    shifts: FloatArray
    """subtracted from indicators, `[D]`; from continuous columns each silo subtracts its own means"""
    scales: FloatArray
    weights: FloatArray


@dataclass(frozen=True)
class Reply:
    """A silo's part of the sums."""

    values: FloatArray


@dataclass(frozen=True)
class Server:
    """The DAG, what the first sum gave, and how far the logistic regressions are."""

    schema: Schema
    dag: NDArray[np.bool_]
    moments: FloatArray
    """part of the rows, means, and second moments, packed; empty before the first exchange"""
    counts: FloatArray
    weights: FloatArray
    """logistic weights, of all variables that have some, one after another"""
    direction: FloatArray
    """the step that led to them"""
    likelihood: float
    """greatest mean log-likelihood so far, less the prior"""
    rows: int
    """of the silos that answered"""
    done: bool


def start(schema: Schema, dag: NDArray[np.bool_]) -> Server:
    """The server's state before the exchanges, for the learned `dag` `[d, d]`."""
    weights = np.zeros(sum(levels * columns for levels, columns in sizes(coding_of(schema), dag).values()))
    nothing = np.empty(0)
    return Server(schema.in_order(), dag, nothing, nothing, weights, 0 * weights, -np.inf, 0, done=False)


def sizes(coding: Coding, dag: NDArray[np.bool_]) -> dict[int, tuple[int, int]]:
    """Which variables of `dag` have logistic regressions, and the shape of their weights.

    One row for each level but the first, and one column for the intercept and each coded column of the parents.
    """
    found = {}
    for v in np.flatnonzero(coding.discrete):
        own = np.flatnonzero(dag[:, v])
        if not tabular(coding, dag, int(v)):
            found[int(v)] = (coding.widths[v], 1 + sum(coding.widths[u] for u in own))
    return found


def tabular(coding: Coding, dag: NDArray[np.bool_], v: int) -> bool:
    """Whether variable `v` has a table: it and its parents are discrete, and the table is not too large."""
    family = [v, *np.flatnonzero(dag[:, v])]
    discrete = all(coding.discrete[u] for u in family)
    return discrete and prod(coding.widths[u] + 1 for u in family) <= MOST_CELLS


def build(settings: MixedFamilies) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The exchanges; they start from the state that `start` gives."""
    return FederatedAlgorithm(
        open_silo=open_silo,
        open_server=lambda schema: start(schema, np.zeros((len(schema.variables),) * 2, np.bool_)),
        broadcast=broadcast,
        local_solve=lambda silo, asked: (silo, local_solve(silo, asked)),
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: server.done,
        structure=lambda server: Structure(server.schema.variables, server.dag.astype(np.float64)),
        server_type=Server,
        silo_type=Silo,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=1 + NEWTON,
        summand=only_field,
        entry_units=_units,
        needs_secure_sum=settings.masked,
        tolerates_dropout=True,
    )


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows and their moments: where cells are empty, those expected."""
    own = about_own_means(table, schema)
    return Silo(table, coding_of(schema), own.mean, own.products, sum(schema.rows.values()))


def broadcast(server: Server) -> Broadcast:
    """Return what the silos are asked: moments and tables, then how well the logistic weights fit."""
    if not len(server.moments):
        return Broadcast(server.dag, np.empty(0), np.empty(0), server.weights)
    moments = _moments(server)
    return Broadcast(server.dag, moments["sums"], _scales(moments), server.weights)


def local_solve(silo: Silo, asked: Broadcast) -> Reply:
    """The silo's part of the sums."""
    coding, n = silo.coding, silo.all_rows
    if not len(asked.scales):
        part = silo.table.shape[0] / n
        packed = pooled_packing(coding.size).pack(rows=part, sums=part * silo.means, products=silo.products / n)
        tables = [_counts(silo, asked.dag, v) / n for v in _tables(coding, asked.dag)]
        return Reply(np.concatenate([packed, *tables]))
    shifts = np.where(np.array(coding.discrete)[coding.owners], asked.shifts, silo.means)
    found, begin = [], 0
    for v, shape in sizes(coding, asked.dag).items():
        weights = asked.weights[begin : begin + prod(shape)].reshape(shape)
        begin += prod(shape)
        own = np.flatnonzero(asked.dag[:, v])
        block = np.concatenate([coding.blocks[u] for u in own])
        family = Family(v, own, coding.of(own.tolist()), shifts[block], asked.scales[block], weights)
        found.append(sum_over_chunks(silo.table, family.fit) / n)
    return Reply(np.concatenate(found))


def aggregate(server: Server, replies: Replies[Reply], settings: MixedFamilies) -> Server:
    """The state with what the sum says: moments and tables, or the next logistic weights."""
    assert replies.total is not None
    coding = coding_of(server.schema)
    if not len(server.moments):
        length = pooled_packing(coding.size).length
        sums = replies.total / replies.total[0]
        rows = round(float(replies.total[0]) * sum(server.schema.rows.values()))
        counts = np.rint(replies.total[length:] * sum(server.schema.rows.values()))
        return replace(server, moments=sums[:length], counts=counts, rows=rows, done=not len(server.weights))
    of_counted = replies.total * (sum(server.schema.rows.values()) / server.rows)
    return _stepped(server, of_counted, settings.ess / server.rows, coding)


def _stepped(server: Server, total: FloatArray, prior: float, coding: Coding) -> Server:
    """The state after one step of Newton's method: forwards, or half of the last one back if that did worse."""
    likelihood, direction = 0.0, np.zeros_like(server.weights)
    begin, at = 0, 0
    for shape in sizes(coding, server.dag).values():
        q = prod(shape)
        of_family = total[begin : begin + packed_size(q)]
        gained, direction[at : at + q] = newton_step(of_family, server.weights[at : at + q].reshape(shape), prior)
        likelihood, begin, at = likelihood + gained, begin + packed_size(q), at + q
    if likelihood < server.likelihood:
        half = 0.5 * server.direction
        return replace(server, weights=server.weights - half, direction=half)
    if likelihood - server.likelihood < SETTLED:
        return replace(server, likelihood=likelihood, done=True)
    return replace(server, weights=server.weights + direction, direction=direction, likelihood=likelihood)


def network(server: Server, ess: float) -> MixedNetwork:
    """The network of the server's final state."""
    coding, moments = coding_of(server.schema), _moments(server)
    tables, logistic = _tables(coding, server.dag), sizes(coding, server.dag)
    parents = tuple(tuple(map(int, np.flatnonzero(column))) for column in server.dag.T)
    local: list[Local] = []
    at = begin = 0
    for v, own in enumerate(parents):
        if v in tables:
            shape = [coding.widths[u] + 1 for u in (*own, v)]
            counts = server.counts[begin : begin + prod(shape)].reshape(shape)
            begin += prod(shape)
            local.append(Tabular(smoothed(counts.astype(np.int64), ess)))
            continue
        block = np.concatenate([coding.blocks[u] for u in own]) if own else np.empty(0, np.int64)
        if v in logistic:
            weights = server.weights[at : at + prod(logistic[v])].reshape(logistic[v])
            at += weights.size
            local.append(unscaled(weights, moments["sums"][block], _scales(moments)[block]))
        else:
            local.append(_regressed(moments, int(coding.blocks[v][0]), block))
    return MixedNetwork(coding, dict(server.schema.levels), parents, tuple(local))


def rows_behind(server: Server) -> int:
    """How many rows the silos that answered have."""
    return server.rows


def _regressed(moments: Mapping[str, FloatArray], j: int, block: NDArray[np.int64]) -> Linear:
    S, means = moments["products"], moments["sums"]
    weights = np.linalg.lstsq(S[np.ix_(block, block)], S[block, j])[0] if len(block) else np.empty(0)
    variance = S[j, j] - float(weights @ S[block, j])
    return Linear(float(means[j] - weights @ means[block]), np.asarray(weights), max(variance, 1e-6 * S[j, j]))


def _tables(coding: Coding, dag: NDArray[np.bool_]) -> list[int]:
    return [v for v in range(len(dag)) if coding.discrete[v] and tabular(coding, dag, v)]


def _counts(silo: Silo, dag: NDArray[np.bool_], v: int) -> FloatArray:
    """The counts of variable `v` with its parents, ascending, before it, of rows without an empty cell there."""
    family = [*np.flatnonzero(dag[:, v]), v]
    shape = [silo.coding.widths[u] + 1 for u in family]

    def counted(rows: FloatArray) -> FloatArray:
        own = rows[:, family]
        codes = own[~np.isnan(own).any(axis=1)].astype(np.int64)
        return np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=prod(shape)).astype(np.float64)

    return sum_over_chunks(silo.table, counted)


def _moments(server: Server) -> Mapping[str, FloatArray]:
    return pooled_packing(coding_of(server.schema).size).unpack(server.moments)


def _scales(moments: Mapping[str, FloatArray]) -> FloatArray:
    return np.sqrt(np.maximum(np.diag(moments["products"]), TINY))


def _units(schema: Schema, asked: Broadcast) -> FloatArray:
    if len(asked.scales):
        return np.ones(1)
    coding = coding_of(schema)
    cells = sum(
        prod(coding.widths[u] + 1 for u in (v, *np.flatnonzero(asked.dag[:, v]))) for v in _tables(coding, asked.dag)
    )
    return np.concatenate([moment_units(coded_units(schema)), np.ones(cells)])
