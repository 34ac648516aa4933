"""The parameters of a network of mixed variables from sums over the silos: a few exchanges after a run (ours).

A family is a variable and its parents. Exchange 1 adds up the means of the coded columns, their second moments about
the silos' own means, and the count tables of the discrete variables with only discrete parents (`tables.py`). These
sums determine the least-squares regressions and the tables. Intercepts are computed from the means of all rows. If the
moments are already known, for example from the diagnosis, exchange 1 adds up the tables and the first Newton terms.

Further exchanges are steps of Newton's method for the multinomial logistic regressions of the other discrete variables.
Each exchange requests the sums for log-likelihood, gradient and Hessian. It costs a silo O(n·p²·k²) for n rows, p coded
columns of parents and k levels. The weights are `[levels − 1, 1 + coded columns of the parents]`: the first column is
the intercept, and the first level has no weights. The weights of standardised columns have a Gaussian prior of mean 0,
equivalent to `ess` rows, which keeps them finite under perfect separation.

Of time series, the rows are windows: x_t and the `lags` rows before it side by side, `[n_windows, (lags + 1)·d]`. Then
the families are those of the variables at t, with parents at the same and at earlier times. The variables at earlier
times have no parents.

If cells are empty, products are expectations, and tables and logistic regressions omit rows with an empty cell in the
family.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import CountOrNone, Positive, Settings
from ..graphs.structure import Structure
from ..privacy.disclosure_control import MIN_COUNT, SMALL_CELL, CountTable
from ..statistics.coding import Coding, coded_units, coding_of
from ..statistics.count_tables import count_limits
from ..statistics.expected_moments import about_own_means
from ..statistics.lagged import over_windows, window_schema
from ..statistics.moments import SummedMomentsWithin, Table, moment_units, pooled_packing, sum_over_chunks
from ..statistics.packing import from_triangle, triangle
from .distributions import Distribution, Linear, Logistic, Tabular, softmax
from .networks import Network, unrolled_weights
from .tables import counts_for_model, smooth_counts

MIN_VARIANCE = 1e-12
BLOCK_CELLS = 1 << 21
"""number of cells of the products of columns and probabilities that are in memory at once"""


@dataclass(frozen=True, eq=False)
class Family:
    """A discrete variable, its parents with their standardisation, and the current weights of its regression."""

    child: int
    parents: NDArray[np.intp]
    coding: Coding
    shifts: FloatArray
    scales: FloatArray
    weights: FloatArray

    def sums(self, rows: FloatArray) -> FloatArray:
        """The `logistic_sums` over the `rows` with no empty cell in the family."""
        complete = rows[~np.isnan(rows[:, [self.child, *self.parents]]).any(axis=1)]
        columns = (self.coding.rows(complete[:, self.parents]) - self.shifts) / self.scales
        design = np.column_stack([np.ones(len(complete)), columns])
        return logistic_sums(design, complete[:, self.child].astype(np.int64), self.weights)


def logistic_sums(columns: FloatArray, codes: NDArray[np.int64], weights: FloatArray) -> FloatArray:
    """The log-likelihood of `codes` `[n]` under `weights`, its gradient, and minus its Hessian, as one vector."""
    levels = len(weights)
    probabilities = softmax(np.column_stack([np.zeros(len(columns)), columns @ weights.T]))
    likelihood = np.log(np.maximum(probabilities[np.arange(len(codes)), codes], 1e-300)).sum()
    residuals = (codes[:, None] == np.arange(1, levels + 1)) - probabilities[:, 1:]
    gradient = residuals.T @ columns
    curvature = logistic_curvature(columns, probabilities[:, 1:])
    return np.concatenate([[likelihood], gradient.ravel(), triangle(curvature)])


def logistic_curvature(columns: FloatArray, probabilities: FloatArray) -> FloatArray:
    """Minus the Hessian of the log-likelihood of rows `columns` `[n, p]` with these `probabilities` `[n, levels]`.

    The first level, which has no weights, is not among the levels. With Z_a = the columns times the probability of
    level a, the block of levels a and b is δ_ab Z_aᵀ X − Z_aᵀ Z_b, `[levels · p, levels · p]`.
    """
    levels, p = probabilities.shape[1], columns.shape[1]
    curvature, size = np.zeros((levels * p, levels * p)), max(1, BLOCK_CELLS // (levels * p))
    for begin in range(0, len(columns), size):
        X = columns[begin : begin + size]
        Z = (probabilities[begin : begin + size, :, None] * X[:, None, :]).reshape(len(X), levels * p)
        curvature -= Z.T @ Z
        for a, own in enumerate((Z.T @ X).reshape(levels, p, p)):
            curvature[a * p : (a + 1) * p, a * p : (a + 1) * p] += own
    return curvature


def packed_size(weights: int) -> int:
    """The length of `logistic_sums` with this number of `weights`; of the Hessian, the upper triangle is sent."""
    return 1 + weights + weights * (weights + 1) // 2


def newton_step(packed: FloatArray, weights: FloatArray, prior: float) -> tuple[float, FloatArray]:
    """The penalised log-likelihood of `weights`, and the Newton step.

    `packed` are the sums `[packed_size]` over all rows, divided by their number; `prior` is the precision of the prior,
    divided by the same number.
    """
    q, penalty = weights.size, np.array([0.0] + [1.0] * (weights.shape[1] - 1))
    penalised = weights * penalty
    gradient = packed[1 : 1 + q] - prior * penalised.ravel()
    curvature = from_triangle(packed[1 + q :]) + np.diag(prior * np.tile(penalty, len(weights)) + MIN_VARIANCE)
    likelihood = float(packed[0]) - 0.5 * prior * float((penalised**2).sum())
    return likelihood, np.asarray(np.linalg.solve(curvature, gradient))


def unstandardise(weights: FloatArray, shifts: FloatArray, scales: FloatArray) -> Logistic:
    """The regression on the original coded columns, from the `weights` of standardised columns."""
    slopes = weights[:, 1:] / scales
    intercepts = weights[:, 0] - slopes @ shifts
    return Logistic(np.append(0.0, intercepts), np.vstack([np.zeros(slopes.shape[1]), slopes]))


MAX_TABLE_CELLS = 1 << 15
"""maximum number of cells of a table; with more, a discrete variable is regressed on the indicators of its parents"""
MAX_NEWTON_STEPS = 30
"""maximum number of Newton steps"""
MIN_LIKELIHOOD_GAIN = 1e-7
"""the regressions have converged if a step gains less than this in mean log-likelihood"""


@dataclass(frozen=True)
class MixedFamilies(Settings):
    """Settings of the exchanges."""

    ess: Positive = 1.0
    """equivalent sample size of the priors of tables and logistic weights, in rows"""
    masked: bool = False
    """always mask the replies, even if the run does not"""
    lags: CountOrNone = 0
    """number of earlier rows in a window; 0 for independent rows"""


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
    """The DAG `[d, d]`; after the first exchange also the standardisation of coded columns, and the current weights."""

    dag: NDArray[np.bool_]
    shifts: FloatArray
    """the shifts that are subtracted from indicators, `[D]`; from numbers, each silo subtracts its own means; without
    shifts and scales, moments are requested"""
    scales: FloatArray
    weights: FloatArray
    tables: bool
    """whether count tables are requested"""


@dataclass(frozen=True)
class Server:
    """The DAG, the first sum, and the state of the logistic regressions."""

    schema: Schema
    dag: NDArray[np.bool_]
    moments: FloatArray
    """1, means, and second moments per row, packed; empty before they are known"""
    counts: FloatArray
    """the concatenated count tables; empty before they are known"""
    weights: FloatArray
    """the concatenated logistic weights of all variables with logistic regressions"""
    direction: FloatArray
    """the last step of the weights"""
    likelihood: float
    """greatest penalised mean log-likelihood so far"""
    rows: int
    """number of rows of the silos that answered"""
    sums: FloatArray
    """log-likelihood, gradient and minus the Hessian per row, as last summed; once done, those at the final weights"""
    done: bool
    steps: int = 0
    """number of Newton steps so far"""


def start(
    schema: Schema,
    dag: NDArray[np.bool_],
    lagged: FloatArray | None = None,
    known: SummedMomentsWithin | None = None,
) -> Server:
    """The server's state before the exchanges, for the learned `dag` `[d, d]`; of series, also for its `lagged` edges.

    `lagged` is `[lags, d, d]`. Moments of the coded columns that are `known` are not requested again.
    """
    if lagged is not None:
        schema, dag = window_schema(schema, len(lagged)), unrolled_weights(dag.astype(np.float64), lagged) != 0
    coding, nothing = coding_of(schema), np.empty(0)
    weights = np.zeros(sum(levels * columns for levels, columns in weight_shapes(coding, dag).values()))
    server = Server(schema.in_order(), dag, nothing, nothing, weights, 0 * weights, -np.inf, 0, nothing, done=False)
    if known is None:
        return server
    moments = pooled_packing(coding.size).pack(rows=1.0, sums=known.means, products=known.within)
    return replace(server, moments=moments, rows=known.rows)


def weight_shapes(coding: Coding, dag: NDArray[np.bool_]) -> dict[int, tuple[int, int]]:
    """The variables of `dag` with logistic regressions, and the shapes of their weights.

    There is a row for each level but the first, and a column for the intercept and each coded column of the parents.
    """
    shapes = {}
    for v in np.flatnonzero(coding.discrete):
        parents = np.flatnonzero(dag[:, v])
        if not has_table(coding, dag, int(v)):
            shapes[int(v)] = (coding.widths[v], 1 + sum(coding.widths[u] for u in parents))
    return shapes


def has_table(coding: Coding, dag: NDArray[np.bool_], v: int) -> bool:
    """Whether variable `v` has a table: `v` and its parents are discrete, and the table is not too large."""
    family = [v, *np.flatnonzero(dag[:, v])]
    discrete = all(coding.discrete[u] for u in family)
    return discrete and prod(coding.widths[u] + 1 for u in family) <= MAX_TABLE_CELLS


def build(settings: MixedFamilies) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchanges, which begin in the state `start(...)`."""
    rowwise = sum_each_round(
        open_silo=open_silo,
        open_server=lambda schema: start(schema, np.zeros((len(schema.variables),) * 2, np.bool_)),
        broadcast=broadcast,
        part=part,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: server.done,
        structure=lambda server: Structure(server.schema.variables, server.dag.astype(np.float64)),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=1 + MAX_NEWTON_STEPS,
        entry_units=_units,
        needs_secure_sum=settings.masked,
    )
    return over_windows(rowwise, settings.lags) if settings.lags else rowwise


def open_silo(table: Table, schema: Schema, silo: str, rng: np.random.Generator) -> Silo:
    """The silo with its rows and their moments, or their expectations if cells are empty."""
    own = about_own_means(table, schema)
    return Silo(table, coding_of(schema), own.mean, own.products, sum(schema.rows.values()))


def broadcast(server: Server) -> Broadcast:
    """The request for moments and tables that are not known yet, then for the sums of the logistic regressions."""
    if not len(server.moments):
        return Broadcast(server.dag, np.empty(0), np.empty(0), server.weights, tables=True)
    moments = moments_of(server)
    return Broadcast(server.dag, moments["sums"], _scales(moments), server.weights, tables=not len(server.counts))


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums."""
    coding, n, each, begin = silo.coding, silo.all_rows, list[FloatArray](), 0
    if not len(request.scales):
        share = silo.table.shape[0] / n
        each.append(pooled_packing(coding.size).pack(rows=share, sums=share * silo.means, products=silo.products / n))
    if request.tables:
        each += [_counts(silo, request.dag, v) / n for v in _variables_with_tables(coding, request.dag)]
    if not len(request.scales):
        return np.concatenate(each)
    shifts = np.where(np.array(coding.discrete)[coding.owners], request.shifts, silo.means)
    for v, shape in weight_shapes(coding, request.dag).items():
        weights = request.weights[begin : begin + prod(shape)].reshape(shape)
        begin += prod(shape)
        parents = np.flatnonzero(request.dag[:, v])
        block = np.concatenate([coding.blocks[u] for u in parents])
        family = Family(v, parents, coding.subset(parents.tolist()), shifts[block], request.scales[block], weights)
        each.append(sum_over_chunks(silo.table, family.sums) / n)
    return np.concatenate(each)


def aggregate(server: Server, replies: Replies[Summand], settings: MixedFamilies) -> Server:
    """The state after the sum: with moments and tables, if they were requested, and with the next logistic weights."""
    coding, total, all_rows = coding_of(server.schema), replies.total, sum(server.schema.rows.values())
    request = broadcast(server)
    if not len(request.scales):
        moments, total = np.split(total, [pooled_packing(coding.size).length])
        server = replace(server, moments=moments / moments[0], rows=round(float(moments[0]) * all_rows))
    if request.tables:
        cells = sum(prod(_table_shape(coding, server.dag, v)) for v in _variables_with_tables(coding, server.dag))
        counts, total = np.split(total, [cells])
        server = replace(server, counts=np.rint(counts * all_rows))
    if not len(server.weights):
        return replace(server, done=True)
    if not len(request.scales):
        return server
    stepped = _newton_update(server, total * (all_rows / server.rows), settings.ess / server.rows, coding)
    steps = server.steps + 1
    return replace(stepped, steps=steps, done=stepped.done or steps == MAX_NEWTON_STEPS)


def _newton_update(server: Server, total: FloatArray, prior: float, coding: Coding) -> Server:
    """The state after a Newton step, after halving a step that lowered the likelihood, or after convergence."""
    likelihood, direction = 0.0, np.zeros_like(server.weights)
    begin, position = 0, 0
    for shape in weight_shapes(coding, server.dag).values():
        q = prod(shape)
        family_sums = total[begin : begin + packed_size(q)]
        family_likelihood, direction[position : position + q] = newton_step(
            family_sums, server.weights[position : position + q].reshape(shape), prior
        )
        likelihood, begin, position = likelihood + family_likelihood, begin + packed_size(q), position + q
    if likelihood < server.likelihood:
        half = 0.5 * server.direction
        return replace(server, weights=server.weights - half, direction=half)
    if likelihood - server.likelihood < MIN_LIKELIHOOD_GAIN:
        return replace(server, likelihood=likelihood, sums=total, done=True)
    further = server.weights + direction
    return replace(server, weights=further, direction=direction, likelihood=likelihood, sums=total)


def network(server: Server, ess: float, *, lags: int = 0, blank: bool = False) -> Network:
    """The network of the server's final state; with `lags`, a network over time.

    With `blank`, no parameter depends on a cell of 1 or 2 rows. Tables are then computed from publishable counts
    (`privacy/disclosure_control.py`). In regressions, levels of fewer than three rows are merged with another level.
    """
    coding, moments = coding_of(server.schema), moments_of(server)
    tables, logistic = _count_tables(server, coding), weight_shapes(coding, server.dag)
    counts = dict(zip(tables, counts_for_model([*tables.values()], blank=blank), strict=True))
    rare = _rare_levels(server, coding) if blank else {}
    parents = tuple(tuple(map(int, np.flatnonzero(column))) for column in server.dag.T)
    local: list[Distribution] = []
    at = 0
    for v, own in enumerate(parents):
        if v in tables:
            order = tables[v].variables.index(v)
            local.append(Tabular(smooth_counts(np.moveaxis(counts[v], order, -1), ess)))
            continue
        block = np.concatenate([coding.blocks[u] for u in own]) if own else np.empty(0, np.int64)
        if v in logistic:
            weights = server.weights[at : at + prod(logistic[v])].reshape(logistic[v])
            at += weights.size
            fitted = unstandardise(weights, moments["sums"][block], _scales(moments)[block])
            local.append(_merge_in_logistic(fitted, v, own, rare, coding, server.rows))
        else:
            local.append(_merge_in_linear(moments, int(coding.blocks[v][0]), own, rare, coding))
    names = coding.variables
    return Network(
        names[: len(names) // (lags + 1)],
        server.schema.levels,
        {name: tuple(names[u] for u in own) for name, own in zip(names, parents, strict=True)},
        dict(zip(names, local, strict=True)),
        lags,
    )


def contributing_rows(server: Server) -> int:
    """The number of rows of the silos that answered."""
    return server.rows


def _linear_regression(moments: Mapping[str, FloatArray], j: int, block: NDArray[np.int64]) -> Linear:
    S, means = moments["products"], moments["sums"]
    weights = np.linalg.lstsq(S[np.ix_(block, block)], S[block, j])[0] if len(block) else np.empty(0)
    variance = S[j, j] - float(weights @ S[block, j])
    return Linear(float(means[j] - weights @ means[block]), np.asarray(weights), max(variance, 1e-6 * S[j, j]))


@dataclass(frozen=True)
class RareLevels:
    """The levels of a variable with fewer than three rows, and its most frequent level."""

    levels: tuple[int, ...]
    largest: int

    @property
    def columns(self) -> list[int]:
        """The indicators, numbered from 0, whose removal merges these levels with other levels.

        A rare level other than the first is merged with the first level, and a rare first level is merged with the most
        frequent level.
        """
        merged = {*self.levels, *((self.largest,) if 0 in self.levels else ())}
        return [level - 1 for level in sorted(merged) if level > 0]


def _rare_levels(server: Server, coding: Coding) -> dict[int, RareLevels]:
    """The rare levels of the discrete variables that have some."""
    rare, shares = {}, moments_of(server)["sums"]
    for v in np.flatnonzero(coding.discrete):
        others = shares[coding.blocks[v]]
        rows = np.rint(np.append(1 - others.sum(), others) * server.rows)
        levels = tuple(int(level) for level in np.flatnonzero(rows < MIN_COUNT))
        if levels:
            rare[int(v)] = RareLevels(levels, int(rows.argmax()))
    return rare


def _merge_in_linear(
    moments: Mapping[str, FloatArray], j: int, own: tuple[int, ...], rare: Mapping[int, RareLevels], coding: Coding
) -> Linear:
    """The regression of coded column `j` on the parents `own`, whose rare levels are merged with another level."""
    block = np.concatenate([coding.blocks[u] for u in own]) if own else np.empty(0, np.int64)
    merged = [coding.blocks[u][column] for u in own if u in rare for column in rare[u].columns]
    kept = ~np.isin(block, merged)
    fitted = _linear_regression(moments, j, block[kept])
    weights = np.zeros(len(block))
    weights[kept] = fitted.weights
    return Linear(fitted.intercept, weights, fitted.variance)


def _merge_in_logistic(
    fitted: Logistic, v: int, own: tuple[int, ...], rare: Mapping[int, RareLevels], coding: Coding, rows: int
) -> Logistic:
    """The regression of `v` on the parents `own`, without coefficients of rare levels of `v` and of the parents.

    A rare level of `v` has about the probability of `SMALL_CELL` rows, whatever the values of the parents.
    """
    intercepts, weights, begin = fitted.intercepts.copy(), fitted.weights.copy(), 0
    for u in own:
        if u in rare:
            columns = weights[:, begin : begin + coding.widths[u]]
            if 0 in rare[u].levels:
                reference = columns[:, rare[u].largest - 1].copy()
                intercepts += reference
                columns -= reference[:, None]
            columns[:, rare[u].columns] = 0.0
        begin += coding.widths[u]
    if v in rare:
        largest = rare[v].largest if 0 in rare[v].levels else 0
        intercepts, weights = intercepts - intercepts[largest], weights - weights[largest]
        intercepts[[*rare[v].levels]] = np.log(SMALL_CELL / rows)
        weights[[*rare[v].levels]] = 0.0
    return Logistic(intercepts, weights)


def _variables_with_tables(coding: Coding, dag: NDArray[np.bool_]) -> list[int]:
    return [v for v in range(len(dag)) if coding.discrete[v] and has_table(coding, dag, v)]


def _table_shape(coding: Coding, dag: NDArray[np.bool_], v: int) -> list[int]:
    """The shape of the silos' table of `v`: the levels of its parents, ascending, then its own."""
    return [coding.widths[u] + 1 for u in (*np.flatnonzero(dag[:, v]), v)]


def _count_tables(server: Server, coding: Coding) -> dict[int, CountTable]:
    """The summed counts by variable; in the silos' tables, the variable itself is the last axis."""
    tables, begin = {}, 0
    for v in _variables_with_tables(coding, server.dag):
        order, shape = [*map(int, np.flatnonzero(server.dag[:, v])), v], _table_shape(coding, server.dag, v)
        counts = server.counts[begin : begin + prod(shape)].reshape(shape).astype(np.int64)
        begin += prod(shape)
        ascending = tuple(sorted(order))
        tables[v] = CountTable(ascending, counts.transpose([order.index(u) for u in ascending]), v)
    return tables


def _counts(silo: Silo, dag: NDArray[np.bool_], v: int) -> FloatArray:
    """The counts of `v` (the last axis) and its parents (ascending) over rows without an empty cell in the family."""
    family, shape = [*np.flatnonzero(dag[:, v]), v], _table_shape(silo.coding, dag, v)

    def family_counts(rows: FloatArray) -> FloatArray:
        own = rows[:, family]
        codes = own[~np.isnan(own).any(axis=1)].astype(np.int64)
        return np.bincount(np.ravel_multi_index(tuple(codes.T), shape), minlength=prod(shape)).astype(np.float64)

    counts = sum_over_chunks(silo.table, family_counts)
    return count_limits().apply(counts, silo.table.shape[0], len(family))


def moments_of(server: Server) -> Mapping[str, FloatArray]:
    """The means and second moments of the coded columns, after the first exchange."""
    return pooled_packing(coding_of(server.schema).size).unpack(server.moments)


def _scales(moments: Mapping[str, FloatArray]) -> FloatArray:
    return np.sqrt(np.maximum(np.diag(moments["products"]), MIN_VARIANCE))


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    if len(request.scales):
        return np.ones(1)
    coding = coding_of(schema)
    cells = sum(prod(_table_shape(coding, request.dag, v)) for v in _variables_with_tables(coding, request.dag))
    return np.concatenate([moment_units(coded_units(schema)), np.ones(cells)])
