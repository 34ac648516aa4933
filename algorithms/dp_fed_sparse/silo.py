"""A silo's side of DP-Fed-Sparse-BNSL: its replies, all of them private, and DP-PGCD.

The first request is for the sizes of the variables; in every later round, the silo takes K private steps from the
server's weights. A reply is a function of the request and of the releases with a cost in `PrivacyPlan`: bucket counts
(or mean squares), the spread of the residuals, selections and gradients. Residuals and exact gradients exist only
during the computation of a reply. The state of a silo, B_p and its dual β_p, is a function of its earlier replies.

DP-PGCD is proximal greedy coordinate descent with private access to the rows (Fassy El Fehri et al., Algorithm 2,
Eq. 11-12). A step selects one entry (i, j) by its score with the exponential mechanism, and moves this entry along its
gradient, which is released with noise. Nothing else depends on the rows. The result is therefore a function of released
numbers, and its privacy cost is fixed before the first step. Without noise, clipping and weights w_j, these are the
coordinate steps of PGCD (`admm/pgcd.py`).

The score of (i, j) is √M_i |prox(B_ij − G_ij/M_i) − B_ij|·w_j. The proximal operator is nonexpansive. So if G_ij
changes by at most 2L_ij/n (`clipping.py`), the score changes by at most (2L_ij/n)·w_j/√M_i. The public weights w_j
balance columns with different bounds, so that the largest bound does not determine the noise scale of all entries. A
step changes one column of the residuals, of the gradient and of the scores: O(n·d).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..admm.acyclicity import soft_threshold
from ..admm.consensus import Change, Terms, change_between
from ..admm.orders import forward
from ..compiled import njit
from ..core.promise import Release
from ..core.schema import FloatArray, Schema
from ..errors import BadInput
from ..privacy import gram, private_scales
from ..privacy.discrete_gaussian import Bits, child_key, release_on_grid
from ..secure.masks import FRACTION_BITS
from ..statistics.moments import to_multiples
from ..statistics.packing import Packing, packing
from .clipping import MAX_SCALE_MULTIPLE, Clip, huber, product
from .plan import PrivacyPlan, plan
from .settings import DpFedSparse
from .step_noise import SLACK, StepNoise, private_squares, release, rounding_margin


@dataclass(frozen=True)
class PrivateProblem:
    """A silo's lasso: loss(B; rows) + ⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over `allowed`; only rows are private.

    The loss is ½tr((I − B)ᵀS(I − B)), or its clipped version; `start` is zero outside `allowed`.
    """

    linear: FloatArray
    r: FloatArray
    M: FloatArray
    """curvature of each row, `[d]`: a public estimate of S_ii, plus r_i"""
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray
    clip: Clip
    weights: FloatArray
    """w_j, the factor of each column's scores, `[d]`"""


@dataclass(frozen=True)
class Entries:
    """The allowed entries, column by column."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    ends: NDArray[np.intp]
    """column j has the entries from ends[j] to ends[j + 1]"""

    def column(self, j: int) -> slice:
        """The entries of column j."""
        return slice(int(self.ends[j]), int(self.ends[j + 1]))


def entries(allowed: NDArray[np.bool_]) -> Entries:
    """The entries of `allowed` `[d, d]`."""
    columns, rows = np.nonzero(allowed.T)
    return Entries(rows, columns, np.searchsorted(columns, np.arange(len(allowed) + 1)))


def clip_to_scale(table: FloatArray, scales: FloatArray) -> FloatArray:
    """`table` `[n_rows, d]` with each value clipped to `MAX_SCALE_MULTIPLE` times its variable's scale."""
    return np.clip(table, -MAX_SCALE_MULTIPLE * scales, MAX_SCALE_MULTIPLE * scales)


def residuals(table: FloatArray, B: FloatArray) -> FloatArray:
    """X − XB, transposed: `[d, n_rows]`."""
    columns = np.ascontiguousarray(table.T)
    R = columns.copy()
    _subtract(columns, R, B)
    return R


def dp_pgcd(
    problem: PrivateProblem,
    table: FloatArray,
    R: FloatArray,
    noise: StepNoise,
    steps: int,
    gamma: float,
    key: bytes,
) -> FloatArray:
    """B after `steps` private steps of size γ from the start, `[d, d]`.

    `table` is a result of `clip_to_scale`. `R` `[d, n_rows]` has the `residuals` of `table` for the start; it is
    overwritten.
    """
    B, table_columns = problem.start.copy(), np.ascontiguousarray(table.T)
    factors, where = problem.clip.factors(table), entries(problem.allowed)
    G, S = problem.clip.gradient(factors, R, slice(None)), np.empty(len(where.rows))
    for j in range(len(B)):
        S[where.column(j)] = scores(problem, G[:, j], B[:, j], where, j)
    unit = 2 * problem.clip.reach / len(table) * rounding_margin(len(table))
    sensitivity = score_sensitivity(problem, len(table))
    choosing = Bits(child_key(key, "choices"))
    for drawn in noise.draw(Bits(child_key(key, "gradients")), steps):
        chosen = noise.select(choosing, S, sensitivity)
        i, j = int(where.rows[chosen]), int(where.columns[chosen])
        g = release(noise, G[i, j] / unit[i, j], int(drawn)) * unit[i, j]
        g += problem.linear[i, j] + problem.r[i] * B[i, j]
        size = gamma / problem.M[i]
        moved = float(soft_threshold(B[i, j] - size * g, size * problem.l1[i]))
        if moved != B[i, j]:
            R[j] -= (moved - B[i, j]) * table_columns[i]
            B[i, j] = moved
            sensitivity = max(sensitivity, float(score_moves(problem, len(table), moved, i, j)))
            G[:, j] = problem.clip.gradient(factors, R[j : j + 1], slice(j, j + 1))[:, 0]
            S[where.column(j)] = scores(problem, G[:, j], B[:, j], where, j)
    return B


def scores(problem: PrivateProblem, G: FloatArray, B: FloatArray, where: Entries, j: int) -> FloatArray:
    """The scores of the entries of column j, from this column `[d]` of the gradient `G` and of the weights `B`."""
    i = where.rows[where.column(j)]
    M, b = problem.M[i], B[i]
    g = G[i] + problem.linear[i, j] + problem.r[i] * b
    return np.asarray(np.sqrt(M) * np.abs(soft_threshold(b - g / M, problem.l1[i] / M) - b) * problem.weights[j])


def score_sensitivity(problem: PrivateProblem, rows: int) -> float:
    """Δ_S at the start, the maximum change of any score if one record is replaced."""
    i, j = np.nonzero(problem.allowed)
    return float(score_moves(problem, rows, problem.start[i, j], i, j).max())


# Bound on the relative rounding error of a score, in units of the numbers it is computed from.
SCORE_ROUNDING = 2.0**-47


def score_moves(problem: PrivateProblem, rows: int, b: Any, i: Any, j: Any) -> Any:
    """The maximum change of the scores of the entries (i, j), whose weights are `b`, if one record is replaced.

    A score is the difference of two weights. If the weights are large, the rounding error of the score may exceed the
    effect of a record, so a bound on the rounding error is added.
    """
    reach, M, r = problem.clip.reach[i, j], problem.M[i], problem.r[i]
    moves = 2 * reach / rows / np.sqrt(M) * problem.weights[j] * SLACK * rounding_margin(rows)
    size = np.abs(b) + (reach + np.abs(problem.linear[i, j]) + r * np.abs(b) + problem.l1[i]) / M
    return moves + SCORE_ROUNDING * size * np.sqrt(M) * problem.weights[j]


@njit(cache=True)
def _subtract(columns, R, B):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Subtract from row j of `R` what the other columns predict for column j, for every j, skipping zeros of B."""
    d, n = columns.shape
    for j in range(d):
        for i in range(d):
            if B[i, j] != 0.0:
                for k in range(n):
                    R[j, k] -= B[i, j] * columns[i, k]


# Residuals are clipped to this multiple of their expected spread for the measurement of the spread.
SPREAD_CAP = 1.25
# Noise may make a mean square too small or negative. So a mean square is raised to at least this share of its bound.
MIN_SQUARE = 1e-6


@dataclass(frozen=True)
class Silo:
    """A silo's rows and state."""

    table: FloatArray
    weight: float
    """n_p, the number of rows, divided by its mean over all silos"""
    plan: PrivacyPlan
    B: FloatArray
    beta: FloatArray
    key: bytes = field(default=b"", repr=False)


PERSISTED_STATE = ("B", "beta")

# The weights of a broadcast, in units of the two variables' scales, are at most this. Larger ones could make the
# residual of one record infinite or NaN, and the failure of the round would disclose this record.
MAX_WEIGHT = 1e6


@dataclass(frozen=True)
class Broadcast:
    """The server's message: empty in the first exchange, then the start of the next steps."""

    scales: FloatArray
    """each variable's standard deviation, `[d]`; empty: a request for the sizes"""
    spread: FloatArray
    """the expected standard deviation of each variable's residuals, `[d]`"""
    W: Change
    """the nonzero entries of W"""
    place: NDArray[np.int64]
    """each variable's position in the order; empty without one"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each scale, spread and position."""
        return self.W.cost + 8 * (len(self.scales) + len(self.spread) + len(self.place))


@dataclass(frozen=True)
class Reply:
    """A silo's reply; arrays that were not requested are empty."""

    sizes: FloatArray
    """bucket counts, `[d·n_buckets]`, or mean squares over their bound, `[d]`"""
    B: Change
    """the change of B_p"""
    spread: FloatArray
    """truncated squares of the residuals under W, `[d]`"""
    gap: float
    """‖B_p − W‖² of the last round"""
    weight: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each number besides the weights."""
        return self.B.cost + 8 * (len(self.sizes) + len(self.spread) + 1)


def open_silo(table: FloatArray, schema: Schema, settings: DpFedSparse) -> Silo:
    """The state before round 1 of the silo whose rows are `table` `[n_rows, d]`."""
    d = table.shape[1]
    weight = len(table) * len(schema.rows) / sum(schema.rows.values())
    return Silo(table, weight, plan(settings, schema), np.zeros((d, d)), np.zeros((d, d)))


def releases(silo: Silo, message: Broadcast) -> tuple[Release, ...]:
    """The releases of the next `local_solve`."""
    if not len(message.scales):
        return (Release("sizes of the variables", silo.plan.scales),)
    steps = (Release("choices of entries", silo.plan.choices), Release("gradients", silo.plan.gradients))
    return (Release("spread of residuals", silo.plan.spread), *steps) if silo.plan.spread.rho else steps


def local_solve(silo: Silo, message: Broadcast, settings: DpFedSparse) -> tuple[Silo, Reply]:
    """The state and the reply to `message`."""
    d = silo.table.shape[1]
    nothing = np.zeros((d, d))
    if not len(message.scales):
        return silo, Reply(sizes(silo, settings), change_between(nothing, nothing), np.empty(0), 0.0, silo.weight)
    W = message.W.put(nothing)
    require_usable(message, W)
    r = dual_weights(message, settings)
    old = W if settings.settles_order else silo.B
    gap = old - W
    beta = silo.beta + r[:, None] * gap
    table = clip_to_scale(silo.table, message.scales)
    problem = problem_of(message, W, r, beta, old, settings)
    R = residuals(table, old)
    spread = np.empty(0)
    if settings.settles_order:
        caps = SPREAD_CAP * message.spread
        spread = to_multiples(
            private_squares(Bits(child_key(silo.key, "spread")), R.T, caps, silo.plan.spread), FRACTION_BITS
        )
    steps = dp_pgcd(problem, table, R, silo.plan.noise, silo.plan.steps, settings.gamma, silo.key)
    B = to_multiples(steps, FRACTION_BITS)
    apart = float(message.scales**2 @ (gap * gap).sum(axis=1))
    reply = Reply(np.empty(0), change_between(nothing, B - old), spread, apart, silo.weight)
    return Silo(silo.table, silo.weight, silo.plan, B, beta), reply


def require_usable(message: Broadcast, W: FloatArray) -> None:
    """Raise `BadInput` for public numbers with which the arithmetic on some rows would overflow or underflow."""
    gram.require_scales(message.scales)
    gram.require_scales(message.spread)
    if not (np.abs(W) * message.scales[:, None] <= MAX_WEIGHT * message.scales).all():
        raise BadInput(f"the broadcast has weights above {MAX_WEIGHT:g} in units of the variables' scales")


def problem_of(
    message: Broadcast, W: FloatArray, r: FloatArray, beta: FloatArray, start: FloatArray, settings: DpFedSparse
) -> PrivateProblem:
    """The silo's lasso in a round.

    With `acyclicity=order`, `beta` is 0, and the scores of the entries into a variable are divided by the spread of its
    residuals, relative to the smallest spread.
    """
    M = message.scales**2 + r
    if settings.settles_order:
        l1, weights = settings.l1 * message.scales * message.spread.min(), message.spread.min() / message.spread
    else:
        l1, weights = consensus_terms(message, settings).l1_rows, np.ones(len(M))
    return PrivateProblem(
        linear=beta - r[:, None] * W,
        r=r,
        M=M,
        l1=l1,
        allowed=forward(message.place, len(M)),
        start=start,
        clip=clip_of(settings, message.scales, message.spread, M),
        weights=weights,
    )


def clip_of(settings: DpFedSparse, scales: FloatArray, spread: FloatArray, M: FloatArray) -> Clip:
    """The rule of clipping, from public numbers."""
    if settings.clip == "huber":
        return huber(settings.clip_values * scales, settings.clip_residuals * spread, scales, spread)
    return product(settings.clip, settings.clip_total, M)


def dual_weights(message: Broadcast, settings: DpFedSparse) -> FloatArray:
    """r_i, the weight of the distance of B_p to W, `[d]`; zero with an order, because every round then begins at W."""
    if settings.settles_order:
        return np.zeros(len(message.scales))
    return consensus_terms(message, settings).r


def consensus_terms(message: Broadcast, settings: DpFedSparse) -> Terms:
    """The terms of the consensus with h (see `admm/consensus.py`)."""
    d = len(message.scales)
    scale = penalty_scale(message.scales, settings)
    return Terms(settings.rho2, settings.l1, scale, forward(message.place, d), np.ones(d))


def penalty_scale(scales: FloatArray, settings: DpFedSparse) -> FloatArray:
    """The units of the penalties, `[d]`: the variables' mean squares, or ones."""
    return scales**2 if settings.scaled else np.ones(len(scales))


def sizes(silo: Silo, settings: DpFedSparse) -> FloatArray:
    """The released sizes, from which curvatures are computed: bucket counts, or clipped mean squares.

    Source: Fassy El Fehri et al., A.3.
    """
    bits, d = Bits(child_key(silo.key, "sizes")), silo.table.shape[1]
    if settings.smoothness == "private":
        caps = np.full(d, np.sqrt(settings.second_moment_bound))
        return to_multiples(private_squares(bits, silo.table, caps, silo.plan.scales), FRACTION_BITS)
    counts = private_scales.bucket_counts(silo.table).ravel().astype(np.float64)
    rho, rows = silo.plan.scales.rho, float(len(silo.table))
    released = release_on_grid(bits, counts, private_scales.counts_sensitivity(d) * SLACK, rho, rows)
    return to_multiples(released, FRACTION_BITS)


def summand(reply: Reply, settings: DpFedSparse) -> FloatArray:
    """`reply` as one vector for the sum.

    Counts are not weighted. Mean squares are weighted by the number of rows. Steps are packed by `steps_packing` and,
    with an order, weighted by the number of rows.
    """
    if len(reply.sizes):
        return reply.sizes if settings.smoothness == "histogram" else reply.weight * reply.sizes
    change, packed = reply.B.put(np.zeros(reply.B.shape)), steps_packing(reply.B.shape[1], settings)
    if settings.settles_order:
        return reply.weight * packed.pack(change=change, moving=change != 0, spread=reply.spread)
    return packed.pack(change=change, gap=reply.gap)


def steps_packing(d: int, settings: DpFedSparse) -> Packing:
    """The packing of the silos' steps.

    It has the change of B_p and, with an order, its nonzero entries and the spread; without an order, the gap.
    """
    if settings.settles_order:
        return packing(change=(d, d), moving=(d, d), spread=d)
    return packing(change=(d, d), gap=())


def public_scales(settings: DpFedSparse, schema: Schema) -> FloatArray:
    """The variables' standard deviations if they are public, `[d]`, else empty.

    Raises `BadInput` if they are estimated from counts and the plan's noise would hide the counts.
    """
    d = len(schema.variables)
    if settings.smoothness == "known":
        return np.full(d, np.sqrt(settings.known_smoothness))
    if settings.smoothness == "histogram":
        each = private_scales.counts_sensitivity(d) ** 2 / (2 * plan(settings, schema).scales.rho)
        private_scales.require_signal(sum(schema.rows.values()), float(np.sqrt(len(schema.rows) * each)))
    return np.empty(0)


def estimate_scales(total: FloatArray, weight: float, variables: tuple[str, ...], settings: DpFedSparse) -> FloatArray:
    """The variables' standard deviations `[d]` from the sum of all sizes; `weight` is the total weight of the silos."""
    if settings.smoothness == "histogram":
        return private_scales.scales(np.rint(total).astype(np.int64).reshape(len(variables), -1), variables)
    squares = np.maximum(total / weight, MIN_SQUARE)
    return np.asarray(np.sqrt(settings.second_moment_bound * squares))
