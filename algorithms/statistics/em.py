"""The covariance of numbers with empty cells, by EM over the silos.

EM over the silos (ours) precedes a run on numbers with empty cells. Deleting incomplete rows wastes most of the data,
and pairwise covariances need not be positive definite. If values are missing at random, maximum likelihood avoids both
problems. Exchange 1 adds up the products of pairs of observed cells, and the numbers of these pairs. Every further
exchange adds up the second moments that each silo expects under the current covariance. Only sums of D(D + 1)/2 numbers
are needed; they are masked if the run is masked. EM ends when the variance changes by at most the share `tolerance` in
every direction: with nearly collinear columns, edges depend on directions of little variance. The price of an edge
depends on the effective number of rows. It is the mean, over all pairs, of the number of rows with both cells observed.

If no row has cells in both of two columns, the data do not determine their covariance, and EM would not change its
initial value. This covariance is set so that the two columns are independent given all other columns, which is the
choice of maximum entropy (Dempster 1972, "Covariance selection"). Learners must not join such a pair
(`ImputationModel.apart`).

The E-step is that of `expected_moments.py`, and the steps use Anderson acceleration (`anderson.py`).
"""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, ImputationModel, Schema
from ..core.settings import Positive, Settings
from ..errors import BadInput
from .anderson import Iteration, anderson_step
from .coding import Coding, coded_units, coding_of
from .expected_moments import expected_products, parts_of, sum_parts
from .lagged import window_rows, window_schema
from .moments import Table, chunks, column_summaries, over_parts, product_units
from .packing import from_triangle, triangle

MIN_EIGENVALUE = 1e-3
"""minimum eigenvalue of EM's initial correlations, because pairwise correlations need not be positive definite"""
SHRINKAGE = 0.1
"""shrinkage of EM's initial correlations, because EM converges faster from values that are too small"""
FLOOR = 1e-6
"""share of the diagonal that is added to it, because a column may be a sum of other columns"""

LEAST_ROWS = 0.5
"""lower bound on the number of rows of a level, for the variance of its indicator"""
MIN_PAIRS = 0.5
"""minimum number of rows of a pair of columns that is observed together; it allows for rounding in masked sums"""
MAX_SWEEPS = 50
"""maximum number of passes over the pairs of columns that are never observed together"""
SWEEP_TOLERANCE = 1e-6
"""maximum change of a correlation in the last of these passes"""


@dataclass(frozen=True)
class ExpectationMaximisation(Settings):
    """Settings of the exchanges."""

    masked: bool = False
    """always mask the replies, even if the run does not"""
    tolerance: Positive = 0.01
    """maximum relative change of the variance in any direction at convergence"""
    rounds: Annotated[int, Ge(2)] = 50
    """maximum number of exchanges"""
    lags: int = 0
    """for time series, the number of earlier rows in a window; the rows are then windows"""


@dataclass(frozen=True, eq=False)
class Silo:
    """A silo's rows `[n_rows, d]`, their coding, the number of rows of all silos, and the lengths of centred parts."""

    table: Table
    coding: Coding
    all_rows: int
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Broadcast:
    """The current covariance `[D, D]`; empty in the first exchange."""

    S: FloatArray


@dataclass(frozen=True)
class Server:
    """The current covariance and its effective number of rows, 0 before the first sum."""

    schema: Schema
    iteration: Iteration
    rows: int
    tolerance: float
    observed: FloatArray
    """the number of observed cells of each coded column, `[D]`; empty before the first sum"""
    apart: NDArray[np.bool_]
    """whether no row has cells of both coded columns, `[D, D]`; empty before the first sum"""
    present: int = 0
    """for time series, the number of variables, which are the first columns of the windows; otherwise 0"""

    @property
    def covariance(self) -> FloatArray:
        """The current covariance, `[D, D]`."""
        return self.iteration.point

    @property
    def imputation_model(self) -> ImputationModel:
        """The imputation model that every silo receives."""
        first = [block[0] for block in coding_of(self.schema).blocks]
        first = first[: self.present] if self.present else first
        apart = self.apart[np.ix_(first, first)]
        windows = sum(self.schema.rows.values()) if self.present else 0
        apart = apart if apart.any() else np.empty((0, 0), bool)
        return ImputationModel(self.covariance, rows=self.rows, windows=windows, apart=apart)


def build(settings: ExpectationMaximisation) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The exchanges of EM."""
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: _open_silo(table, schema, silo, settings.lags),
        open_server=lambda schema: _start(schema, settings),
        broadcast=lambda server: Broadcast(server.covariance),
        part=own_sums,
        aggregate=aggregate,
        converged=lambda server: server.iteration.change <= server.tolerance,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=settings.rounds,
        entry_units=lambda schema, request: _units(_rows_schema(schema, settings.lags), request),
        needs_secure_sum=settings.masked,
        measures=lambda server: {"change": server.iteration.change},
    )


def _rows_schema(schema: Schema, lags: int) -> Schema:
    """The public schema of the rows, which are windows for time series."""
    return window_schema(schema, lags) if lags else schema


def _start(schema: Schema, settings: ExpectationMaximisation) -> Server:
    public, present = _rows_schema(schema.in_order(), settings.lags), len(schema.variables) if settings.lags else 0
    nothing = np.empty((0, 0))
    return Server(public, Iteration(nothing), 0, settings.tolerance, np.empty(0), nothing.astype(np.bool_), present)


def _open_silo(table: Table, schema: Schema, silo: str, lags: int) -> Silo:
    """The silo with its rows or, with `lags`, the windows of its series, ordered by the parts with common means."""
    public = _rows_schema(schema, lags)
    coding, all_rows = coding_of(public), sum(public.rows.values())
    if not lags:
        return Silo(table, coding, all_rows, (table.shape[0],))
    assert isinstance(table, np.ndarray)
    return Silo(window_rows(table, schema.stretches[silo], lags), coding, all_rows, public.stretches[silo])


def own_sums(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the numbers of pairs and their products, or of the expected second moments."""
    if len(request.S):
        return triangle(expected_products(silo.table, silo.lengths, silo.coding, request.S)) / silo.all_rows
    each = [pairwise_complete(part, silo.coding) for part in parts_of(silo.table, silo.lengths)]
    products, pairs = (np.sum(one, axis=0) for one in zip(*each, strict=True))
    return np.concatenate([triangle(pairs), triangle(products)]) / silo.all_rows


def pairwise_complete(table: Table, coding: Coding) -> tuple[FloatArray, FloatArray]:
    """By pair of columns, the sum of products and the number of rows with both cells observed, `[D, D]` each.

    Products are about the means of the observed cells.
    """
    means = column_summaries(coding.encode(table)).means
    products, pairs = sum_parts(over_parts(table, lambda part: _complete_pairs(part, coding, means)))
    return products, pairs


def _complete_pairs(table: Table, coding: Coding, means: FloatArray) -> tuple[FloatArray, FloatArray]:
    products, pairs = np.zeros((coding.size, coding.size)), np.zeros((coding.size, coding.size))
    for rows in chunks(table):
        coded = coding.rows(rows)
        observed = ~np.isnan(coded)
        deviations = np.where(observed, coded - means, 0.0)
        products += deviations.T @ deviations
        pairs += observed.T.astype(np.float64) @ observed
    return products, pairs


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the covariance from the sum. Raises `BadInput` for a column without variance."""
    rows, all_rows = sum(server.schema.rows[silo] for silo in replies.silos), sum(server.schema.rows.values())
    total = replies.total * all_rows
    if len(server.covariance):
        means = sum(len(server.schema.stretches[silo]) if server.present else 1 for silo in replies.silos)
        S = _with_floor(from_triangle(total) / max(rows - means, 1), coding_of(server.schema), rows)
        if rows - means <= len(S):
            S = (1 - SHRINKAGE) * S + SHRINKAGE * np.diag(np.diag(S))
        S = of_maximum_entropy(S, server.apart)
        return replace(server, iteration=anderson_step(server.iteration, S))
    pairs, products = (from_triangle(part) for part in np.split(total, 2))
    S = np.divide(products, pairs, out=np.zeros_like(products), where=pairs > 0.5)
    coding = coding_of(server.schema)
    for name, block in zip(server.schema.variables, coding.blocks, strict=True):
        if (np.diag(S)[block] <= 0).all():
            raise BadInput(f"column '{name}' has no variance within any silo, so it must be excluded")
    # For a lost silo, the share of empty cells of the others is assumed, because learners rescale by all rows.
    pairs *= all_rows / rows
    return replace(
        server,
        iteration=Iteration(_positive(_with_least_variances(S, coding, rows))),
        rows=_mean_of_pairs(pairs, coding),
        observed=np.diag(pairs).copy(),
        apart=pairs < MIN_PAIRS,
    )


SHRINKAGE = 0.1
"""factor by which correlations shrink in each step if there are no more rows than coded columns, because their sums of
products are then singular"""


def of_maximum_entropy(S: FloatArray, apart: NDArray[np.bool_]) -> FloatArray:
    """The covariance `S` `[D, D]`, changed so that each pair of columns in `apart` is independent given all others.

    The covariances of these pairs are updated in turn: the conditional covariance of a pair given the other columns is
    subtracted from the covariance of the pair.
    """
    pairs = np.argwhere(np.triu(apart, 1))
    if not len(pairs):
        return S
    scale = np.sqrt(np.diag(S))
    R = S / np.outer(scale, scale)
    for _ in range(MAX_SWEEPS):
        largest = 0.0
        for i, j in pairs:
            K = np.linalg.solve(R, np.eye(len(R))[:, [i, j]])[[i, j]]
            given = np.linalg.inv(K)[0, 1]
            R[i, j] -= given
            R[j, i] -= given
            largest = max(largest, abs(given))
        if largest < SWEEP_TOLERANCE:
            break
    return np.asarray(R * np.outer(scale, scale))


def _positive(S: FloatArray) -> FloatArray:
    """A positive definite covariance with the variances of `S` and slightly shrunk correlations."""
    scale = np.sqrt(np.diag(S))
    values, vectors = np.linalg.eigh(S / np.outer(scale, scale))
    R = (vectors * np.maximum(values, MIN_EIGENVALUE)) @ vectors.T
    R /= np.sqrt(np.outer(np.diag(R), np.diag(R)))
    return np.asarray(((1 - SHRINKAGE) * R + SHRINKAGE * np.eye(len(R))) * np.outer(scale, scale))


def _with_floor(S: FloatArray, coding: Coding, rows: int) -> FloatArray:
    S = _with_least_variances(S, coding, rows)
    return S + FLOOR * np.diag(np.diag(S))


def _with_least_variances(S: FloatArray, coding: Coding, rows: int) -> FloatArray:
    """`S` `[D, D]` with at least the variance of half a row for each indicator.

    Without it, S would be singular if a level has no rows. Such levels occur if they are declared for future rows, or
    after recoding. They count as rare and are merged (`coding.py`).
    """
    indicators = np.array(coding.discrete, bool)[coding.owners]
    least = np.where(indicators, LEAST_ROWS / rows, 0.0)
    return S + np.diag(np.maximum(least - np.diag(S), 0.0))


def _mean_of_pairs(pairs: FloatArray, coding: Coding) -> int:
    """The mean number of rows with both cells over the pairs of variables; if there is one variable, its cells."""
    first = np.array([block[0] for block in coding.blocks])
    variable_pairs = pairs[np.ix_(first, first)]
    between = variable_pairs[np.triu_indices(len(first), 1)]
    return round(float(between.mean() if len(between) else variable_pairs[0, 0]))


def _units(schema: Schema, request: Broadcast) -> FloatArray:
    products = product_units(coded_units(schema))
    return products if len(request.S) else np.concatenate([np.ones(len(products)), products])
