"""Whether the errors of a fitted model are independent of the causes, and rows of each other: one masked sum (ours).

Directions that rest on errors, of equal variance or not Gaussian, or on curved effects presuppose that each error is
independent of its variable's causes. In data for which this is wrong, such as data whose error variances depend on the
causes, the fit of such a model reverses edges without any other sign. Scores and tests also presuppose that rows are
independent.

The server sends the residuals of a DAG as linear functions of coded columns (`moments/secure_additive.py`),
standardised by the pooled moments. Each silo centres its residuals e and limits them to ±`BOUND`. It adds up

- for each variable with parents, the products of 1, q, v, where q is e², at most `MAX_SQUARE`, and v are the parents
  and their squares. From these, the server regresses q on v. The share r² of the variance of q that v explains is that
  of the studentised test of Breusch & Pagan (Koenker 1981), zero if errors are independent of the parents.
- e_i² e_j² for each pair of variables. The mean of e_i e_j over n rows has the variance E e_i² e_j² / n, which is 1/n
  only if the squares are uncorrelated.
- the number of rows that are unlikely by Σ_j e_j², and of those for which this is more than twice the bound. In a heavy
  tail, there are fewer rows the farther they are. More rows far away than near the bound are from another population.
- e_i(t) e_j(t) e_i(t+k) e_j(t+k) for each pair, summed over the lags k = 1 … `LAGS` in the order of the file. This is
  the further variance of that mean if rows depend on the rows before them: rows of one person, repeated rows, or rows
  in the order of time (Newey & West 1987, without weights).

By the products for pairs, n rows contain as much evidence on an edge as fewer rows that are independent and have errors
of constant variance (`IndependentRows`).

Cost: O(n_p·d²·`LAGS`) at a silo of n_p rows; about d² + Σ (p_j + 1)(2 p_j + 3) numbers are sent, with p_j parents of j.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import Settings
from ..moments.secure_additive import coded_rows
from ..statistics.moments import Table, about_means, chunks, over_parts, sum_over_chunks
from ..statistics.packing import from_triangle, triangle
from .curvature import chi_square_bound

MIN_VARIANCE = 1e-5
"""share of a variance below which a residual is a rounding error of masked sums, as with exact linear relations; it is
not checked"""
BOUND = 8.0
"""limit of a residual, in standard deviations"""
CAUSE_BOUND = 4.0
"""limit of a parent in the regression of squares"""
MAX_SQUARE = 9.0
"""limit of a squared residual in this regression"""
LAGS = 20
"""number of following rows with which each row is compared"""
MAX_PAIRED = 100
"""maximum number of variables, evenly spaced, whose pairs are compared: more would add cost and no evidence"""
MIN_SHARE, FALSE_ALARMS = 0.01, 0.001
"""least r² of a variable whose error depends on its causes, and the probability of a larger one by chance"""
MIN_STANDARD_ERRORS = 4.0
"""number of standard errors from which squares or rows count as dependent"""
HIGH_QUANTILE, HIGH_DEVIATIONS = 0.9, 1.2816
"""the quantile of the variances over all pairs that counts, and its distance from the mean for Gaussian errors"""
UNLIKELY_ROW = 1e-4
"""probability that a row is more unlikely than the bound, for Gaussian errors"""
MIN_FAR_RATIO, MIN_FAR_ROWS = 2.0, 5
"""minimum ratio of far to near unlikely rows, and number of far rows, for rows from another population; at most .8 was
seen with heavy tails, curves and unequal variances, and at least 4 with .3 to 5 % rows from elsewhere"""
MEDIAN_ERROR = 1.2533
"""ratio of the standard error of a median to that of a mean, for Gaussian values"""
MIN_INFLATION = 1.2
"""least factor on the variance of a mean that reduces the number of independent rows: for each of the two causes"""


@dataclass(frozen=True)
class ErrorChecks(Settings):
    """Settings of the exchange."""

    masked: bool = False
    """always mask the replies, even if the run does not"""


@dataclass(frozen=True)
class Broadcast:
    """A fitted model: its DAG `[d, d]`, and how its standardised residuals follow from the coded columns."""

    dag: NDArray[np.bool_]
    scales: FloatArray
    """the standard deviation of each variable, `[d]`"""
    coefficients: FloatArray
    """`[w·d, d]`: with z = (x − mean)/scale, row w·i + k has the coefficients of z_i^(k + 1); empty if each silo is to
    fit its own linear weights"""


@dataclass(frozen=True)
class Server:
    """The model, and the sums over all rows."""

    schema: Schema
    model: Broadcast
    families: tuple[FloatArray, ...] = ()
    """for each variable with parents, in order, the mean products of 1, q and v, `[2 + 2p, 2 + 2p]`"""
    squares: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """the mean products of 1 and the e_i² of m variables, `[m + 1, m + 1]`"""
    following: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """the sums over lags of the means of e_i(t) e_j(t) e_i(t+k) e_j(t+k), `[m, m]`"""
    far: float = 0.0
    """the share of rows whose squared distance from the mean is more than twice that of an unlikely row"""
    near: float = 0.0
    """the share of the other unlikely rows"""
    rows: int = 0

    @property
    def independent_rows(self) -> float:
        """The number of rows that count as independent, because rows of one cluster depend on each other."""
        return self.rows * self.schema.independent_share


def fitted_model(S: FloatArray, dag: NDArray[np.bool_], scales: FloatArray) -> Broadcast:
    """The least-squares fit of `dag` `[d, d]` to second moments `S` `[w·d, w·d]` of coded columns.

    S may have any scale. For a linear model, w = 1, and S is proportional to a correlation matrix. `scales` `[d]` are
    the standard deviations of the variables.
    """
    d = len(dag)
    S, width = S / S[0, 0], len(S) // d
    coefficients = np.zeros((len(S), d))
    for j in range(d):
        causes = (width * np.flatnonzero(dag[:, j])[:, None] + np.arange(width)).ravel()
        own = width * j
        coefficients[own, j] = 1.0
        coefficients[causes, j] = -np.linalg.lstsq(S[np.ix_(causes, causes)], S[causes, own], rcond=1e-9)[0]
    variances = np.einsum("ij,ik,kj->j", coefficients, S, coefficients, optimize=True)
    has_error = variances > MIN_VARIANCE * np.diag(S)[::width]
    return Broadcast(
        dag, scales, coefficients * np.where(has_error, 1 / np.sqrt(np.where(has_error, variances, 1.0)), 0.0)
    )


def start(schema: Schema, model: Broadcast) -> Server:
    """The state before the exchange."""
    return Server(schema.in_order(), model)


def build(settings: ErrorChecks) -> FederatedAlgorithm[Server, "Silo", Broadcast, Summand]:
    """The one exchange, which starts from the state `start(...)`."""
    nothing = np.empty((0, 0))
    return sum_each_round(
        open_silo=lambda table, schema, silo, rng: Silo(table, *about_means(table), sum(schema.rows.values())),
        open_server=lambda schema: start(schema, Broadcast(nothing.astype(np.bool_), np.empty(0), nothing)),
        broadcast=lambda server: server.model,
        part=part,
        aggregate=aggregate,
        converged=lambda server: server.rows > 0,
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=1,
        entry_units=lambda schema, request: np.ones(1),
        needs_secure_sum=settings.masked,
    )


@dataclass(frozen=True)
class Silo:
    """A silo's rows `[n_rows, d]`, their means, the sums of products about them, and the number of all rows."""

    table: Table
    means: FloatArray
    products: FloatArray
    all_rows: int


def compared(d: int) -> NDArray[np.int64]:
    """The variables whose pairs are compared, at most `MAX_PAIRED` of `d`."""
    return np.unique(np.linspace(0, d - 1, min(d, MAX_PAIRED)).astype(np.int64))


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the sums, divided by the number of all rows."""
    coefficients, d = request.coefficients, len(request.scales)
    if not len(coefficients):
        own = silo.products / np.outer(request.scales, request.scales)
        coefficients = fitted_model(own, request.dag, request.scales).coefficients
    width, children, pairs = len(coefficients) // d, np.flatnonzero(request.dag.any(axis=0)), compared(d)

    def residuals(rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        columns = coded_rows(rows, silo.means, request.scales, width)
        return columns[:, ::width], columns @ coefficients

    bound = chi_square_bound(d, UNLIKELY_ROW)
    centre = sum_over_chunks(silo.table, lambda rows: residuals(rows)[1].sum(axis=0)) / silo.table.shape[0]

    def sums(part: Table) -> FloatArray:
        total, tail = np.zeros(1), np.empty((0, len(pairs)))
        for rows in chunks(part):
            z, raw = residuals(rows)
            e = np.clip(raw - centre, -BOUND, BOUND)
            every = []
            for j in children:
                causes = np.clip(z[:, request.dag[:, j]], -CAUSE_BOUND, CAUSE_BOUND)
                square = np.minimum(e[:, j] ** 2, MAX_SQUARE)
                design = np.column_stack([np.ones(len(e)), square, causes, causes**2])
                every.append(triangle(design.T @ design))
            distance, e = (e**2).sum(axis=1), e[:, pairs]
            far = np.array([(distance > 2 * bound).sum(), ((distance > bound) & (distance <= 2 * bound)).sum()])
            squares, following = np.column_stack([np.ones(len(e)), e**2]), np.zeros((len(pairs), len(pairs)))
            joined = np.vstack([tail, e])
            for lag in range(1, LAGS + 1):
                later = joined[max(lag, len(tail)) :]
                both = later * joined[max(lag, len(tail)) - lag :][: len(later)]
                following += both.T @ both
            total = total + np.concatenate([far, triangle(squares.T @ squares), triangle(following), *every])
            tail = joined[-LAGS:]
        return total

    return np.asarray(sum(over_parts(silo.table, sums)) / silo.all_rows)


def aggregate(server: Server, replies: Replies[Summand]) -> Server:
    """The state with the means over the rows of the silos that answered."""
    dag = server.model.dag
    m, rows = len(compared(len(dag))), sum(server.schema.rows[silo] for silo in replies.silos)
    means = replies.total * (sum(server.schema.rows.values()) / rows)
    wide = [2 + 2 * int(parents) for parents in dag.sum(axis=0) if parents]
    ends = np.cumsum([k * (k + 1) // 2 for k in (m + 1, m, *wide)])
    squares, following, *families = (from_triangle(one) for one in np.split(means[2:], ends[:-1]))
    far, near = (float(share) for share in means[:2])
    return replace(
        server, families=tuple(families), squares=squares, following=following, far=far, near=near, rows=rows
    )


def explained_squares(server: Server) -> tuple[FloatArray, NDArray[np.bool_]]:
    """For each variable with parents, r² less its expectation by chance, and whether its error depends on its causes.

    Both are `[n_children]`. An r² that is significant but smaller than `MIN_SHARE` has no consequences.
    """
    shares, significant = [], []
    for products in server.families:
        C = products - np.outer(products[0], products[0])
        freedom = len(C) - 2
        slopes = np.linalg.lstsq(C[2:, 2:], C[2:, 1], rcond=1e-9)[0]
        share = float(slopes @ C[2:, 1] / max(C[1, 1], 1e-12))
        shares.append(share - freedom / server.independent_rows)
        significant.append(server.independent_rows * share > chi_square_bound(freedom, FALSE_ALARMS))
    return np.array(shares), np.array(significant, np.bool_) & (np.array(shares) > MIN_SHARE)


def mean_explained(server: Server) -> float:
    """The mean of the r² of `explained_squares`, less one standard error."""
    shares = explained_squares(server)[0]
    mean = float(shares.mean()) if len(shares) else 0.0
    return mean - 2 * math.sqrt(max(mean, 0.0) / (server.independent_rows * max(len(shares), 1)))


def rows_from_elsewhere(server: Server) -> float:
    """The share of rows that are far from all others, if they seem to be from another population; otherwise 0."""
    apart = server.far > MIN_FAR_RATIO * server.near and server.far * server.rows > MIN_FAR_ROWS
    return server.far if apart else 0.0


@dataclass(frozen=True)
class IndependentRows:
    """By what factors the variance of a mean product of two errors exceeds that of independent rows."""

    spread: float
    """because the squares of errors are correlated; 1 if they are not"""
    following: float
    """the further variance because rows depend on rows before them; 0 if they do not"""

    @property
    def share(self) -> float:
        """The share of rows that count as independent."""
        return 1 / (self.spread + self.following)


def independent_rows(server: Server) -> IndependentRows:
    """The factors of the pairs of variables.

    Correlated squares matter by pairs, so that a high quantile over the pairs counts, less its distance from the mean
    by chance. Dependence of rows is much the same for all pairs, so the median counts: rows that are sorted by a column
    resemble the rows before them in few pairs. It is 0 if a column names clusters, whose design effect already counts.
    """
    n, checked = server.independent_rows, np.flatnonzero(server.squares[0, 1:])
    if len(checked) < 2:
        return IndependentRows(1.0, 0.0)
    squares = server.squares[1:, 1:][np.ix_(checked, checked)]
    variances, upper = server.squares[0, 1 + checked], np.triu_indices(len(checked), 1)
    products = np.outer(variances, variances)[upper]
    kurtosis = np.maximum(np.diag(squares) / variances**2 - 1, 0.0)
    by_chance = np.sqrt(np.outer(kurtosis, kurtosis)[upper] / n)
    factors = squares[upper] / products
    spread = float(np.quantile(factors - HIGH_DEVIATIONS * by_chance, HIGH_QUANTILE))
    significant = np.quantile((factors - 1) / by_chance, HIGH_QUANTILE) > MIN_STANDARD_ERRORS
    spread = spread if significant and spread > MIN_INFLATION else 1.0
    following = 2 * float(np.median(server.following[np.ix_(checked, checked)][upper] / products))
    error = 2 * MEDIAN_ERROR * spread * math.sqrt(LAGS / (n * len(products)))
    least = max(MIN_STANDARD_ERRORS * error, MIN_INFLATION - 1)
    if server.schema.independent_share < 1:
        return IndependentRows(spread, 0.0)
    return IndependentRows(spread, following if following > least else 0.0)
