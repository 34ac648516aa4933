"""An additive model from one more masked sum: x_j = Σ f_ij(x_i) + error, where the f_ij may be curved (ours).

First, `secure_linear.py` runs to its end. Then one exchange adds up the second moments of coded columns: every variable
x becomes z, z² and z³, where z is its deviation from the silo's own mean in units of the standard deviation within the
silos. So offsets of a whole silo have no influence. In the cube, z is limited to ±`CUBE_BOUND`, because many effects
saturate. In z and z², it has no limits, so that quadratic effects are fitted exactly.

From these moments the server searches for the order of the variables with the best score (CAM; Bühlmann, Peters, Ernest
2014). A family scores −n/2·ln v − ½ ln n·3·|Pa|, where v is the residual variance of the child in a regression on all
coded columns of the parents. Of the child, only z is used. The score differs between Markov equivalent graphs, so
curved effects direct their edges. An edge must also explain `min_share` of the residual variance. Without this rule,
BIC would add edges, with many rows, that correct the misfit between a curve and its three columns. The search is that
of `score/block_order.py`.

The result is the additive model only if curved effects improve the linear graph itself (`curvature_gain`); otherwise it
is the linear model. The scores of the two models are not compared, because with skewed errors a curve can fit a linear
effect in the wrong direction.

Cost: the exchanges of `secure-linear`, then 3d(3d + 1)/2 numbers sent; O(n_p·d²) at a silo.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from fedbnsl.algorithms.graphs.cpdag import dag_extension

from ..core.protocol import FederatedAlgorithm, Replies, Summand, sum_each_round
from ..core.schema import FloatArray, Schema
from ..core.settings import NonNegative
from ..graphs.dag import directed_part
from ..graphs.structure import Structure
from ..score.block_order import block_boss
from ..score.settings import OrderSettings
from ..statistics.coding import Blocks, Coding, blocks_of_covariance
from ..statistics.moments import MAX_UNJOINED_CORRELATION, Chunked, Found, Table, about_means, over_parts
from ..statistics.packing import from_triangle, triangle
from . import secure_linear
from .secure_linear import SecureLinear, degrees_of_freedom, effective_rows

WIDTH = 3
"""number of coded columns of a variable: itself, its square and its cube"""
CUBE_BOUND = 4.0
"""limit of a value in its cube, in standard deviations"""
MIN_COLUMN_SHARE = 1e-6
"""minimum residual share of a coded column given the earlier columns of its variable; a smaller share is a rounding
error, as in the square of a variable with two values"""


@dataclass(frozen=True)
class SecureAdditive(OrderSettings):
    """Settings of `secure-additive`."""

    min_share: Annotated[float, Ge(0), Lt(1)] = 0.02
    """share of a variable's residual variance that a parent must explain"""
    min_log_likelihood_ratio: NonNegative = 10.0
    """minimum log-likelihood ratio to prefer curved effects and, in the linear model, to direct an edge"""

    @property
    def linear(self) -> SecureLinear:
        """The settings of the linear model."""
        return SecureLinear(
            self.starts,
            self.agreeing_starts,
            self.patience,
            self.seed,
            min_log_likelihood_ratio=self.min_log_likelihood_ratio,
        )


Silo = secure_linear.Silo


@dataclass(frozen=True)
class Broadcast:
    """The request of `secure-linear` or, with `scales`, the request for the second moments of the coded columns."""

    linear: secure_linear.Broadcast
    scales: FloatArray
    """the standard deviation of each variable, `[d]`, or empty"""


@dataclass(frozen=True)
class Server:
    """The linear model and, after the last sum, the additive model."""

    linear: secure_linear.Server
    strengths: FloatArray
    """the standard deviation of each effect in units of the child, 0 without an edge, `[d, d]`; empty while the result
    is the linear model"""
    gain: float
    """improvement of the linear graph by curved effects, penalties included; NaN before the last sum"""
    done: bool
    moments: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    """the second moments of the coded columns of the additive model, up to a factor, `[3d, 3d]`"""


def build(settings: SecureAdditive) -> FederatedAlgorithm[Server, Silo, Broadcast, Summand]:
    """The algorithm: one exchange more than `secure-linear`."""
    return sum_each_round(
        open_silo=secure_linear.open_silo,
        open_server=lambda schema: after_linear(secure_linear.open_server(schema)),
        broadcast=broadcast,
        part=part,
        aggregate=lambda server, replies: aggregate(server, replies, settings),
        converged=lambda server: server.done,
        structure=lambda server: structure(server, settings),
        server_type=Server,
        broadcast_type=Broadcast,
        max_rounds=3,
        entry_units=entry_units,
        needs_secure_sum=True,
        measures=measures,
        basis=basis,
    )


def after_linear(linear: secure_linear.Server) -> Server:
    """The state that continues a run of `secure-linear` from the state `linear`."""
    return Server(linear, np.empty((0, 0)), math.nan, done=False)


def broadcast(server: Server) -> Broadcast:
    """The requests of the linear model until it is complete, then the request for coded moments."""
    if server.linear.done:
        nothing = secure_linear.Broadcast(np.empty((0, 2), np.int32), np.empty((0, 0)), np.empty(0))
        return Broadcast(nothing, np.sqrt(np.diag(server.linear.S)))
    return Broadcast(secure_linear.broadcast(server.linear), np.empty(0))


def entry_units(schema: Schema, request: Broadcast) -> FloatArray:
    """The units of the summands: coded columns are in units of their standard deviation."""
    if len(request.scales):
        return np.ones(1)
    units = secure_linear.build(SecureLinear()).entry_units
    assert units is not None
    return units(schema, request.linear)


@dataclass(frozen=True)
class CodedRows:
    """The coded columns `[n_rows, 3d]` of a `table` `[n_rows, d]` that is read in passes, coded chunk by chunk."""

    table: Chunked
    means: FloatArray
    scales: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and coded columns."""
        return self.table.shape[0], WIDTH * self.table.shape[1]

    def map_parts(self, work: Callable[[Chunked], Found]) -> Iterator[Found]:
        """The results of `work` on each part of the table, in order."""
        return over_parts(self.table, lambda part: work(replace(self, table=part)))

    def __iter__(self) -> Iterator[FloatArray]:
        """Read and code the rows again."""
        return (coded_rows(rows, self.means, self.scales) for rows in self.table)


def coded_rows(rows: FloatArray, means: FloatArray, scales: FloatArray, width: int = WIDTH) -> FloatArray:
    """Each variable of `rows` `[n, d]` as the first `width` of z, z² and z³, side by side: `[n, width·d]`."""
    z = (rows - means) / scales
    powers = (z, z**2, np.clip(z, -CUBE_BOUND, CUBE_BOUND) ** 3)[:width]
    return np.stack(powers, axis=2).reshape(len(rows), -1)


def coded_products(table: Table, means: FloatArray, scales: FloatArray) -> FloatArray:
    """The sums of products of the coded columns about their own means, `[3d, 3d]`."""
    if isinstance(table, np.ndarray):
        return about_means(coded_rows(table, means, scales))[1]
    return about_means(CodedRows(table, means, scales))[1]


def part(silo: Silo, request: Broadcast) -> FloatArray:
    """The silo's part of the requested sums, divided by the number of all rows."""
    if not len(request.scales):
        return secure_linear.part(silo, request.linear)
    return triangle(coded_products(silo.table, silo.means, request.scales) / silo.all_rows)


def aggregate(server: Server, replies: Replies[Summand], settings: SecureAdditive) -> Server:
    """The state after the sum, with the next step of the linear model, or with the choice between the two models."""
    linear = server.linear
    if not linear.done:
        return replace(server, linear=secure_linear.aggregate(linear, replies, settings.linear))
    rows = effective_rows(linear.schema, degrees_of_freedom(linear.schema, replies.silos))
    return choose(server, from_triangle(replies.total), rows, settings)  # the scale is free: only correlations are used


def choose(server: Server, S: FloatArray, rows: int, settings: SecureAdditive) -> Server:
    """The state with the additive model of the coded moments `S` `[3d, 3d]`, if the data support curved effects."""
    blocks = orthogonal_blocks(S, rows)
    gain = curvature_gain(blocks, linear_dag(server, settings))
    if gain <= settings.min_log_likelihood_ratio:
        return replace(server, gain=gain, done=True)
    knowledge = server.linear.schema.knowledge.prior(server.linear.schema.variables)
    price = max(math.log(rows), -math.log1p(-settings.min_share) * rows / WIDTH)
    dag = block_boss(blocks, price, settings, knowledge, first_column_only=True).dag
    scales = np.sqrt(np.diag(server.linear.S))
    return replace(server, strengths=effect_sizes(blocks, dag) * scales, gain=gain, done=True, moments=S)


def orthogonal_blocks(S: FloatArray, rows: int) -> Blocks:
    """The correlations of the coded columns after each is regressed on the earlier columns of the same variable.

    Columns whose residual is a rounding error are omitted.
    """
    scale = np.sqrt(np.maximum(np.diag(S), 1e-300))
    R, d = S / np.outer(scale, scale), len(S) // WIDTH
    transform = np.zeros_like(R)
    for j in range(d):
        selected: list[int] = []
        for column in range(WIDTH * j, WIDTH * (j + 1)):
            weights = np.linalg.lstsq(R[np.ix_(selected, selected)], R[selected, column], rcond=None)[0]
            if 1 - weights @ R[selected, column] > MIN_COLUMN_SHARE:
                transform[column, column], transform[selected, column] = 1.0, -weights
                selected.append(column)
    coding = Coding(tuple(map(str, range(d))), (WIDTH,) * d, (False,) * d)
    return blocks_of_covariance(transform.T @ R @ transform, rows, coding)


def linear_dag(server: Server, settings: SecureAdditive) -> NDArray[np.bool_]:
    """A DAG `[d, d]` of the linear model; the directed part of the graph if it has no known extension to a DAG."""
    found = secure_linear.structure(server.linear, settings.linear)
    dag = dag_extension(found).dag
    return directed_part(found.adjacency) if dag is None else np.asarray(dag)


def curvature_gain(blocks: Blocks, dag: NDArray[np.bool_]) -> float:
    """The gain in log-likelihood if effects in a linear `dag` `[d, d]` may be curved, minus BIC's price for the curves.

    Curved effects are added for all edges. For each child, a curved effect is also added for the nonadjacent variable
    whose curved columns explain most of the residual, if this improves the score. That variable must be nearly
    uncorrelated with the residual. If it were correlated and errors were skewed, its square could reflect a linear
    effect of the child on it.
    """
    R, first, rows = blocks.R, blocks.first, blocks.rows
    d, own = len(dag), blocks.first[:-1]
    joined, gain, price = dag | dag.T | np.eye(d, dtype=np.bool_), 0.0, 0.5 * math.log(rows)
    curved = [np.arange(first[v] + 1, first[v + 1]) for v in range(d)]
    for j in range(d):
        parents = np.flatnonzero(dag[:, j])
        straight = own[parents]
        bends = np.concatenate([curved[p] for p in parents]) if len(parents) else straight
        left = _residual_covariance(R, straight)
        explained = _explained(left, bends, own[j])
        gain += -0.5 * rows * math.log(max(1 - explained / left[own[j], own[j]], 1e-12)) - price * len(bends)
        best = 0.0
        for i in np.flatnonzero(~joined[:, j]):
            variances = left[own[i], own[i]] * left[own[j], own[j]]
            if left[own[i], own[j]] ** 2 < MAX_UNJOINED_CORRELATION**2 * variances:
                share = _explained(left, curved[i], own[j]) / left[own[j], own[j]]
                penalty = price * (1 + len(curved[i])) + 2 * math.log(d)
                best = max(best, -0.5 * rows * math.log(max(1 - share, 1e-12)) - penalty)
        gain += best
    return gain


def _residual_covariance(R: FloatArray, given: NDArray[np.int64]) -> FloatArray:
    """The covariance `[K, K]` of the residuals of all columns given the columns `given`."""
    if not len(given):
        return R
    return np.asarray(R - R[:, given] @ np.linalg.lstsq(R[np.ix_(given, given)], R[given], rcond=None)[0])


def _explained(covariance: FloatArray, columns: NDArray[np.int64], child: int) -> float:
    """The variance of column `child` that a regression on `columns` explains."""
    both = covariance[columns, child]
    return float(both @ np.linalg.lstsq(covariance[np.ix_(columns, columns)], both, rcond=None)[0])


def effect_sizes(blocks: Blocks, dag: NDArray[np.bool_]) -> FloatArray:
    """The standard deviation of the effect of each edge of `dag` `[d, d]`, in standard deviations of the child."""
    R, first, sizes = blocks.R, blocks.first, np.zeros(dag.shape)
    for j in range(len(dag)):
        parents = np.flatnonzero(dag[:, j])
        columns = [np.arange(first[p], first[p + 1]) for p in parents]
        if not columns:
            continue
        every = np.concatenate(columns)
        weights = np.linalg.lstsq(R[np.ix_(every, every)], R[every, first[j]], rcond=None)[0]
        for parent, of, own in zip(
            parents, columns, np.split(weights, np.cumsum(list(map(len, columns)))[:-1]), strict=True
        ):
            sizes[parent, j] = math.sqrt(max(own @ R[np.ix_(of, of)] @ own, 1e-12))
    return sizes


def structure(server: Server, settings: SecureAdditive) -> Structure:
    """The additive model's DAG, whose weights are sizes of effects without a sign, or the linear structure."""
    if len(server.strengths):
        return Structure(server.linear.schema.variables, server.strengths)
    return secure_linear.structure(server.linear, settings.linear)


def measures(server: Server) -> dict[str, float]:
    """The measures of the linear model, and the gain by curved effects."""
    found = secure_linear.measures(server.linear)
    return found if math.isnan(server.gain) else {**found, "curvature_gain": server.gain}


def basis(server: Server) -> tuple[str, ...]:
    """The choice between the models, its evidence, and the assumptions behind the directions."""
    if not len(server.strengths):
        reason = f"Curved effects do not improve the linear graph ({server.gain:.3g}, penalties included)"
        return (f"{reason}: the result is the linear model.", *secure_linear.basis(server.linear))
    edges = int((server.strengths > 0).sum())
    return (
        f"The data support curved effects (they improve the linear graph by {server.gain:.3g}, penalties included).",
        f"{edges} edges of an additive model, whose weights are the sizes of effects without a sign.",
        "Directions rest on additive errors: against its direction, a curved effect leaves a larger residual. Effects "
        "that are nearly linear may be reversed.",
    )
