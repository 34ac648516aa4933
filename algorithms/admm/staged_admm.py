"""Consensus ADMM with our additions to the papers' loop: scaled penalties, a refined order, a send threshold.

Each addition sets the `Terms` of a round (`consensus.py`) and leaves the loop unchanged:

- scaling: penalties are measured in the variables' mean squares, which the silos send once;
- order refinement: phases in which an order is fixed and improved, and weights are fitted without λ (see below);
- send threshold: small changes of an entry are not sent.

The last phase is consensus ADMM without λ under a fixed order, in the metric of the model. In dense graphs, the mean
square of a variable exceeds its variance given the earlier variables by factors up to 10⁵. If the consensus is weighted
by mean squares (ρ₂·m_i), silos can then hardly move away from W, and a stopping rule relative to the norm of W stops
long before the weights are right. So the distance to W is measured in the metric of the covariance Σ, which W and the
variances of the residuals under W imply. Σ is near the curvature of every silo's loss:

    silo:    β_p ← β_p + ρΣ(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ/2 tr((B − W)ᵀ Σ (B − W))
    server:  W ← (1/P) Σ_p B_p

Σ_p β_p starts at zero and stays zero, so the mean needs no correction. ρ = √(d/n_p), with n_p the silos' mean number of
rows, is about the relative distance of a silo's moments from the moments of all rows. A column has converged when the
change of its prediction is small relative to its residuals. A round in this metric removes most of the error, also in
dense graphs.

What leaves a silo besides the changes of B_p and ‖B_p − W‖²: once, the mean squares of its variables; for each move
that the server proposes, the change of a sum of conditional variances; and, in the rounds that evaluate moves before a
fit and in the rounds of the fit, the mean squares of its residuals under W.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..graphs.dag import topological_order, transitive_closure
from ..secure.masks import FRACTION_BITS
from ..statistics.moments import residual_variances, to_multiples, top_down_order
from ..statistics.packing import Packing, packing
from . import consensus
from .consensus import (
    UNINFORMATIVE_ROUNDS,
    LinearModel,
    LinearProblem,
    RefinedSettings,
    Terms,
    change_between,
    replace_zeros,
)

# Order refinement: phases that fix and improve an order of the variables once h is small (our own method).
#
# FREE      the papers' loop: ρ₁, growing from a small start, drives h towards zero
# ORDERED   the order of the variables is fixed; what remains is a convex lasso over the entries that respect it, so
#           edges that were lost on the way to acyclicity can return, and no cycle is possible
# JUDGING   the silos evaluate moves that would turn an edge; a better order begins ORDERED again. They also send their
#           mean squared residuals under W
# FITTED    no move improves the order enough; the entries selected by the lasso are fitted without λ in the metric of
#           the model (see above). If the lasso selected many of the allowed entries, all of these are fitted. The model
#           then implies an order: a better order starts another fit of all entries that it allows
# RELAXED   for series, whose lagged variables have no model: the entries selected by the lasso are fitted without λ
#
# The first order (`settled_order`) comes from a matrix that is almost acyclic: once h is small, only the weakest edge
# of each cycle has to be removed.
#
# Moves (`proposals`, `variance_changes`) are a local search over orders that needs only sums of variances. A settled
# order may have an edge in the wrong direction, which small steps cannot correct. NOTEARS' own loss detects such edges:
# with each variable regressed on its predecessors, the loss of an order is ½Σ_j var(x_j | predecessors). For equal
# error variances it is minimal at a true order. For every learned edge the server proposes the two moves that would
# reverse the edge: one of its variables moves to the position of the other. Each silo replies with the change of its
# sum of conditional variances. Changes of moves that do not overlap add up, and the best moves are applied.
#
# A move changes only the conditional variances of the variables between its two positions, inclusive. Let L be the
# Cholesky factor of S in the current order. Given the variables before position j, x_s has the variance T_j = Σ_{j ≤ q
# ≤ s} L_sq². If x_s moves before x_j, its partial correlation with x_j lowers the variance L_jj² of x_j to L_jj²
# T_{j+1}/T_j. If x_s moves behind x_j, the same holds in reverse, with the precisions Σ_{s ≤ q ≤ j} (L⁻¹)_qs² of x_s in
# place of T. So a move of length k costs O(k), after one factorisation and one inverse.
#
# The model of a round and its order (`reread`, after Chen, Drton & Wang 2019): a consensus W that respects an order,
# and the variances v of the residuals under W, define the covariance Σ = A⁻ᵀ diag(v) A⁻¹ with A = I − W. With all
# allowed entries fitted, Σ equals the second moments of all rows, for any order. If errors have equal variances, Σ
# determines the order, from the first variable on (`statistics/moments.py`). The silos send only weights and residual
# variances.


EMPTY: FloatArray = np.empty(0)
NO_ORDER: NDArray[np.int64] = np.empty(0, dtype=np.int64)
Moves = NDArray[np.int32]
"""moves of a variable to the position of another variable in an order, `[n_moves, 2]`: from, to"""
NO_MOVES: Moves = np.empty((0, 2), dtype=np.int32)
AT_ONCE = 1_000_000
"""approximate maximum number of entries of the systems of equations that are solved together"""


def implied_covariance(W: FloatArray, variances: FloatArray) -> FloatArray:
    """The covariance `[d, d]` of variables with weights `W`, acyclic, and errors of these `variances` `[d]`."""
    A = np.linalg.inv(np.eye(len(W)) - W)
    return np.asarray((A.T * variances) @ A)


def least_squares(S: FloatArray, right: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """B `[m, d]` with S·B = `right` in the `free` entries of each column, and zero elsewhere.

    S is `[m, m]` and positive definite. With `right` = S, each variable is regressed on the variables of its free
    entries. If these are its predecessors in a common order, one factorisation serves all columns: O(d³), not O(d⁴).
    """
    order, counts = np.argsort(-free.sum(axis=1), kind="stable"), free.sum(axis=0)
    leading = np.arange(len(S))[:, None] < counts
    B = np.zeros_like(right)
    if np.array_equal(free[order], leading):
        from scipy.linalg import solve_triangular  # imported late: most learners fit nothing in an order

        L = np.linalg.cholesky(S[np.ix_(order, order)])
        # The first k unknowns of L·y = r depend only on the first k rows. If y is 0 after row k, so is b in Lᵀ·b = y.
        B[order] = solve_triangular(
            L, np.where(leading, solve_triangular(L, right[order], lower=True), 0), trans=1, lower=True
        )
        return B
    # Small systems of one size are solved together.
    for count in np.unique(counts[counts > 0]):
        same = np.flatnonzero(counts == count)
        for columns in np.array_split(same, max(1, len(same) * count**2 // AT_ONCE)):
            rows = np.nonzero(free[:, columns].T)[1].reshape(-1, count)
            entries = rows, columns[:, None]
            B[entries] = np.linalg.solve(S[rows[:, :, None], rows[:, None, :]], right[entries][..., None])[..., 0]
    return B


def settled_order(strength: FloatArray, precedes: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Each variable's position, `[n_variables]`, in an order that respects the strongest edges.

    Edges of `strength` `[n_variables, n_variables]` (0: no edge) are added in decreasing strength (ties by position),
    except those that would close a cycle; the result is a topological order of the added edges. The order always
    respects `precedes` `[d, d]`.
    """
    d = len(strength)
    rows, columns = np.nonzero(strength)
    graph = np.zeros((d, d), np.bool_) if precedes is None else precedes.copy()
    before = transitive_closure(graph) | np.eye(d, dtype=bool)  # before[i, j]: i already precedes j
    for k in np.argsort(-strength[rows, columns], kind="stable"):
        i, j = int(rows[k]), int(columns[k])
        if not before[j, i]:
            graph[i, j] = True
            before[np.ix_(before[:, i], before[j])] = True
    return np.argsort(topological_order(graph, np.arange(d)))


def free_entries(place: NDArray[np.int64], support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The entries of `support` `[m, d]` that an order allows: forward ones in the first d rows, and all lagged ones."""
    d = support.shape[1]
    return np.vstack([forward(place, d) & support[:d], support[d:]])


def forward(place: NDArray[np.int64], d: int) -> NDArray[np.bool_]:
    """The entries `[d, d]` that an order allows, from earlier to later; without an order, all but the diagonal."""
    return ~np.eye(d, dtype=bool) if not len(place) else place[:, None] < place[None, :]


def proposals(place: NDArray[np.int64], edges: NDArray[np.bool_]) -> Moves:
    """The moves that would reverse each of `edges` `[d, d]`: (from, to) positions in the order, `[n_moves, 2]`.

    For i → j, i moves behind j, or j before i.
    """
    sources, targets = (place[nodes] for nodes in np.nonzero(edges))
    moves = np.concatenate([np.stack([sources, targets], axis=1), np.stack([targets, sources], axis=1)])
    return np.asarray(np.unique(moves, axis=0), dtype=np.int32)


def compatible_moves(moves: Moves, place: NDArray[np.int64], precedes: NDArray[np.bool_]) -> Moves:
    """The `moves` that respect `precedes`: no variable moves past one that must precede or follow it."""
    order = np.argsort(place)
    in_order = precedes[np.ix_(order, order)]
    compatible = [
        not (in_order[start, start : end + 1].any() if start < end else in_order[end : start + 1, start].any())
        for start, end in moves.tolist()
    ]
    return np.asarray(moves[np.array(compatible, bool)])


def variance_changes(S: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """For each move, the change of Σ_j var(x_j | predecessors), `[n_moves]`, with second moments `S` `[d, d]`."""
    from scipy.linalg import solve_triangular  # imported late: most learners have no order

    order = np.argsort(place)
    L = np.linalg.cholesky(S[np.ix_(order, order)])
    inverse = solve_triangular(L, np.eye(len(L)), lower=True)
    variances = np.diag(L) ** 2
    changes = np.empty(len(moves))
    for k, (start, end) in enumerate(moves.tolist()):
        if start < end:
            given = np.cumsum(inverse[start : end + 1, start] ** 2)
            passed, own = variances[start + 1 : end + 1], 1 / given[-1]
        else:
            given = np.cumsum(L[start, end : start + 1][::-1] ** 2)[::-1]
            passed, own = variances[end:start], given[0]
        changes[k] = passed @ (given[1:] / given[:-1] - 1) + own - variances[start]
    return changes


def turned(place: NDArray[np.int64], moves: Moves, changes: FloatArray, least: float) -> NDArray[np.int64]:
    """The positions after all moves whose change is below −`least`.

    Moves are applied in order, the best first. A move that overlaps an applied move is skipped.
    """
    order = np.argsort(place)
    free = np.ones(len(order), dtype=bool)
    for k in np.argsort(changes, kind="stable"):
        start, end = (int(at) for at in moves[k])
        span = slice(min(start, end), max(start, end) + 1)
        if changes[k] < -least and free[span].all():
            free[span] = False
            order[span] = order[span][_move_element(span.stop - span.start, start - span.start, end - span.start)]
    return np.argsort(order)


def _move_element(length: int, start: int, end: int) -> NDArray[np.intp]:
    """0..length-1 with the element at `start` moved to `end`."""
    others = np.delete(np.arange(length), start)
    return np.insert(others, end, start)


# Above this number of variables, the h below which an order is fixed grows in proportion to the number of variables,
# because h is a sum over the variables.
SETTLED_VARIABLES = 20
# Number of last rounds in which no moves are proposed. An order is fixed at the latest when these rounds begin.
RESERVED_ROUNDS = 15
# After a change of the free entries, ρ₂ is reset to a small value and grows by this factor per round to its old value.
RHO2_TIGHTENING = 1.2
# An order is determined by edges stronger than this fraction of the threshold; weaker edges are noise.
MIN_STRENGTH_SHARE = 1 / 3
# If a lasso selects more than this share of the entries that an order allows, the graph is dense.
DENSE_SHARE = 1 / 2


class Stage(StrEnum):
    """The phase that a run is in."""

    FREE = "free"
    ORDERED = "ordered"
    JUDGING = "judging"
    FITTED = "fitted"
    RELAXED = "relaxed"


@dataclass(frozen=True)
class Phase:
    """The state of a run's phase."""

    stage: Stage
    support: NDArray[np.bool_]
    """entries not yet excluded, `[m, d]`: all possible entries until the selected entries are fitted without λ"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    rounds: int = 0
    """rounds finished since the free entries last changed"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's place in the order, `[d]`; empty before there is one"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """the moves that the silos evaluate"""
    judged: FloatArray = field(default_factory=lambda: EMPTY)
    """the variance change under each move, summed over the silos"""
    searches: int = 0
    """number of evaluations of moves; set to the maximum of the settings once no move improves the order enough"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under the last sent W, `[d]`, averaged over the silos; empty before the first request"""
    change: float = np.inf
    """change of W in the last round of a fit (`staged_admm.column_change`)"""
    readings: int = 0
    """number of orders derived from the model"""

    @property
    def free(self) -> NDArray[np.bool_]:
        """The entries that may differ from zero, `[m, d]`."""
        return free_entries(self.place, self.support)

    @property
    def ordered(self) -> bool:
        """Whether an order excludes cycles."""
        return self.stage is not Stage.FREE

    @property
    def new_order(self) -> bool:
        """Whether the order is new to the silos."""
        return self.rounds == 0 and (self.stage is Stage.ORDERED or (self.stage is Stage.FITTED and self.full))

    @property
    def full(self) -> bool:
        """Whether all entries that the order and background knowledge allow are free."""
        return np.array_equal(self.support, self.possible)

    @property
    def number(self) -> float:
        """The phase as a number to plot: 1 without an order, 2 with one, 3 without λ."""
        return {Stage.FREE: 1.0, Stage.FITTED: 3.0, Stage.RELAXED: 3.0}.get(self.stage, 2.0)


def first_phase(possible: NDArray[np.bool_]) -> Phase:
    """The first phase of a run with `possible` nonzero parameters, `[m, d]`."""
    return Phase(Stage.FREE, possible, possible)


def settle_order(phase: Phase, W: FloatArray, scale: FloatArray, threshold: float, prior: Prior) -> Phase:
    """The phase that starts with the order of the strongest contemporaneous edges of `W` `[m, d]`."""
    within = np.abs(W[: W.shape[1]])
    strength = within * np.sqrt(scale / scale.min())[: len(within), None]
    strength = np.where(within > MIN_STRENGTH_SHARE * threshold, strength, 0.0)
    return replace(phase, stage=Stage.ORDERED, place=settled_order(strength, prior.precedence), rounds=0)


def is_dense(phase: Phase, W: FloatArray) -> bool:
    """Whether the lasso selected so many of the allowed entries that the graph is dense."""
    return bool((W != 0).sum() > DENSE_SHARE * free_entries(phase.place, phase.possible)[: W.shape[1]].sum())


def after_judgement(phase: Phase, least: float, max_searches: int) -> Phase:
    """The phase after the moves that lower the sum of variances by more than `least`.

    If there are none, the order is final.
    """
    place = turned(phase.place, phase.moves, phase.judged, least)
    ended = replace(phase, stage=Stage.ORDERED, moves=NO_MOVES, judged=EMPTY)
    if np.array_equal(place, phase.place):
        return replace(ended, searches=max_searches)
    return replace(ended, place=place, searches=phase.searches + 1, rounds=0)


def remaining_support(W: FloatArray, prior: Prior) -> NDArray[np.bool_]:
    """The nonzero entries `[m, d]` of `W`, and those of required edges."""
    left: NDArray[np.bool_] = W != 0
    left[: W.shape[1]] |= prior.required
    return left


def relax_lasso(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """The phase in which the nonzero entries of `W` are fitted without λ."""
    return replace(phase, stage=Stage.RELAXED, support=remaining_support(W, prior), rounds=0)


def start_fit(phase: Phase, W: FloatArray, prior: Prior) -> Phase:
    """The phase that fits the nonzero entries of `W`, or all possible ones if dense, in the metric of the model."""
    support = phase.possible if is_dense(phase, W) else remaining_support(W, prior)
    return replace(phase, stage=Stage.FITTED, support=support, rounds=0, moves=NO_MOVES, judged=EMPTY)


def reread(phase: Phase, W: FloatArray, least: float, prior: Prior) -> tuple[Phase, FloatArray]:
    """The phase with the order implied by the model of the fit (of the `W` last sent), and W in that order.

    The new order is adopted if it lowers the sum of variances by more than `least`. If not, phase and W are unchanged.
    In an adopted order, all allowed entries are fitted, because the lasso selected entries for another order. The fit
    starts from the model's weights.
    """
    covariance = implied_covariance(W, phase.variances)
    place, _ = top_down_order(covariance, prior.precedence)
    weights = least_squares(covariance, covariance, free_entries(place, phase.possible))
    if not phase.variances.sum() - residual_variances(covariance, weights).sum() > least:
        return phase, W
    return replace(phase, place=place, support=phase.possible, rounds=0, readings=phase.readings + 1), weights


def next_phase(
    phase: Phase,
    W: FloatArray,
    scale: FloatArray,
    *,
    h: float,
    in_agreement: bool,
    rounds: int,
    worth: float,
    last: Stage,
    prior: Prior,
    settings: RefinedSettings,
) -> Phase:
    """The phase of the next round; `last` is the phase that a run ends with: FITTED, RELAXED or ORDERED.

    `in_agreement` says whether the silos agree on W in this phase. `rounds` is the number of finished rounds. `worth`
    is the minimum decrease of the silos' summed variances for a move.
    """
    few_left = rounds >= settings.rounds - RESERVED_ROUNDS
    if phase.stage is Stage.FREE:
        small = settings.fix_order_h * max(1.0, W.shape[1] / SETTLED_VARIABLES)
        ripe = h < small and phase.rounds > UNINFORMATIVE_ROUNDS
        return settle_order(phase, W, scale, settings.threshold, prior) if ripe or few_left else phase
    if phase.stage is Stage.JUDGING:
        judged = after_judgement(phase, worth, settings.order_searches)
        return start_fit(judged, W, prior) if last is Stage.FITTED and judged.rounds else judged
    if not in_agreement or phase.stage in (Stage.FITTED, Stage.RELAXED):
        return phase
    over = phase.searches >= settings.order_searches or few_left or (last is Stage.FITTED and is_dense(phase, W))
    edges = np.abs(W[: W.shape[1]]) > MIN_STRENGTH_SHARE * settings.threshold
    moves = NO_MOVES if over else compatible_moves(proposals(phase.place, edges), phase.place, prior.precedence)
    if len(moves) or last is Stage.FITTED:
        return replace(phase, stage=Stage.JUDGING, moves=moves)
    return relax_lasso(phase, W, prior) if last is Stage.RELAXED else phase


# The fit without λ.


def metric_weight(d: int, rows: float) -> float:
    """ρ = √(d/n_p), at most 1, for silos of n_p = `rows` rows on average."""
    return min(1.0, float(np.sqrt(d / rows)))


def dual_step(beta: FloatArray, apart: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """β_p + ρΣ(B_p − W) in the `free` entries, zero elsewhere; `metric` is ρΣ and `apart` is B_p − W."""
    return np.where(free, beta + metric @ apart, 0.0)


def fit_silo(S: FloatArray, beta: FloatArray, W: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
    """The silo's B_p `[d, d]` for moments `S`, in multiples of 2⁻³²: (S + ρΣ)B = S − β + ρΣW where `free`."""
    B = least_squares(S + metric, S - beta + metric @ W, free)
    return to_multiples(B, FRACTION_BITS)


def column_change(change: FloatArray, W: FloatArray, variances: FloatArray) -> float:
    """The largest change of a variable's prediction under a `change` of W, relative to its residuals.

    Both are measured as standard deviations: √(ΔW_jᵀ Σ ΔW_j / v_j), with v the `variances` of the residuals under `W`.
    """
    moved = np.einsum("ij,ik,kj->j", change, implied_covariance(W, variances), change, optimize=True)
    return float(np.sqrt(np.maximum(moved / variances, 0.0).max()))


# Messages.


@dataclass(frozen=True)
class Broadcast(consensus.Broadcast):
    """The papers' broadcast, with our additions; they are empty in most rounds."""

    scale: FloatArray = field(default_factory=lambda: EMPTY)
    """the unit of the penalties, `[m]`, sent once"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's position in a newly settled order, `[d]`"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """moves in the settled order for the silos to evaluate"""
    relax: bool = False
    """whether from now on λ is zero and only the nonzero entries of W are free"""
    measure: bool = False
    """whether the silos must send the mean squared residuals under W"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under the last W, `[d]`, averaged over the silos; empty before the fit without λ"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each number besides W."""
        return super().cost + 8 * (len(self.scale) + len(self.place) + self.moves.size + len(self.variances))


@dataclass(frozen=True)
class Reply(consensus.Reply):
    """The papers' reply, with our additions."""

    scale: FloatArray = field(default_factory=lambda: EMPTY)
    """the variables' mean squares, in the first round of a run with scaled penalties"""
    changes: FloatArray = field(default_factory=lambda: EMPTY)
    """change of Σ_j var(x_j | predecessors) under each proposed move"""
    variances: FloatArray = field(default_factory=lambda: EMPTY)
    """mean squared residuals under W in this silo, `[d]`, if the server requested them"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for each number besides B_p."""
        return super().cost + 8 * (len(self.scale) + len(self.changes) + len(self.variances))


def reply_packing(shape: tuple[int, int], moves: int, *, measured: bool) -> Packing:
    """The packing of a reply for parameters of this `shape`, with the variances if they are `measured`."""
    return packing(change=shape, scale=shape[0], gap=(), changes=moves, variances=shape[1] if measured else 0)


def summand(reply: Reply) -> FloatArray:
    """`reply` as one vector for the sum."""
    shape = reply.B.shape
    return reply_packing(shape, len(reply.changes), measured=len(reply.variances) > 0).pack(
        change=reply.B.put(np.zeros(shape)),
        scale=reply.scale if len(reply.scale) else None,
        gap=reply.gap,
        changes=reply.changes,
        variances=reply.variances,
    )


W_STEPS = 5
"""maximum number of steps of descent of the server in a round"""
RHO2_FIXED_ORDER = 0.03
"""ρ₂ once the order is fixed: the problem is then convex, and a looser consensus converges sooner"""
# The noise in weights fitted without λ is about √(2 ln d / n). There is a fit only if this noise is below this number.
MAX_FIT_NOISE = 0.05
# If a fit without λ follows, the lasso before the fit stops at this multiple of the tolerance.
LASSO_TOLERANCE_FACTOR = 3


@dataclass(frozen=True)
class Server(consensus.Server):
    """The server's state: that of the papers' loop, the scale of the penalties, and the phase of the run."""

    rows: int
    """number of rows of all silos"""
    scale: FloatArray
    """the unit of the penalties, `[m]`; ones until the first replies"""
    phase: Phase
    last: Stage
    """the phase that the run ends with"""

    @property
    def measured(self) -> bool:
        """Whether the silos send their mean squared residuals under W in this round."""
        return self.last is Stage.FITTED and self.phase.stage in (Stage.JUDGING, Stage.FITTED)

    @property
    def worth(self) -> float:
        """The minimum decrease of the silos' summed variances for a move.

        Per silo it is d over the silos' mean number of rows, in units of the smallest mean square.
        """
        d = len(self.variables)
        return d * self.silos / self.rows * self.silos * float(self.scale.min())


@dataclass(frozen=True)
class Silo(consensus.Silo):
    """A silo's private state."""

    problem: LinearProblem
    scale: FloatArray
    """the unit of the penalties, `[m]`: this silo's own mean squares until the federation's are known"""
    place: NDArray[np.int64]
    """each variable's position in the settled order, `[d]`; empty before an order is settled"""
    support: NDArray[np.bool_]
    """entries not yet excluded, `[m, d]`"""
    possible: NDArray[np.bool_]
    """entries that background knowledge allows, `[m, d]`"""
    variances: FloatArray
    """the variances that, with W, gave the metric of the fit in the last round; empty before the fit"""


PERSISTED_STATE = (*consensus.PERSISTED_STATE, "scale", "place", "support", "variances")


def refined_admm(
    settings: RefinedSettings, model: LinearModel, *, l1_at_server: bool, loops: bool = False
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """Consensus ADMM with the additions of `settings`; for the other arguments see `consensus.consensus_admm`."""
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)
    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema.knowledge.prior(schema.variables)
        ),
        open_server=lambda schema: open_server(schema, model, settings),
        broadcast=lambda server: broadcast(server, settings),
        local_solve=lambda silo, message: local_solve(silo, message, model, silo_l1, loops, settings),
        aggregate=lambda server, replies: aggregate(server, replies, model, server_l1, settings),
        dual_update=lambda server: dual_update(server, model, settings),
        converged=lambda server: converged(server, settings),
        structure=lambda server: consensus.structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        sparse=sparse,
        measures=lambda server: (
            consensus.measures(server, model.to_adjacency(server.W), settings) | {"phase": server.phase.number}
        ),
        cost=lambda message: int(message.cost),
        persisted_state=PERSISTED_STATE,
    )


def open_silo(problem: LinearProblem, model: LinearModel, settings: RefinedSettings, prior: Prior) -> Silo:
    """A silo's state before round 1."""
    S, possible = problem.moments.S, model.possible(prior.possible)
    opened = consensus.open_silo(problem, model, settings, prior)
    scale = replace_zeros(np.diag(S)) if settings.scaled else np.ones(len(S))
    zero = opened.B
    return Silo(problem, 0, zero, zero, zero, opened.rho2, prior, scale, NO_ORDER, possible, possible, EMPTY)


def open_server(schema: Schema, model: LinearModel, settings: RefinedSettings) -> Server:
    """The server's state before round 1."""
    shape = consensus.shape_of(model, schema)
    plain, rows = consensus.open_server(schema, shape[0], settings), sum(schema.windows(model.lags).values())
    last, phase = last_stage(shape, rows, settings), first_phase(model.possible(plain.prior.possible))
    return Server(**vars(plain), rows=rows, scale=np.ones(shape[0]), phase=phase, last=last)


def last_stage(shape: tuple[int, int], rows: int, settings: RefinedSettings) -> Stage:
    """The phase that a run with parameters of this `shape` ends with.

    λ is removed only if `rows` are enough to fit weights rather than noise.
    """
    m, d = shape
    noise = float(np.sqrt(2 * np.log(d) / rows))
    if not settings.relax or noise >= (settings.l1 if m > d else MAX_FIT_NOISE):
        return Stage.ORDERED
    return Stage.RELAXED if m > d else Stage.FITTED


def broadcast(server: Server, settings: RefinedSettings) -> Broadcast:
    """The broadcast: the papers' message, and our additions (new scales, a new order, moves, whether λ is off)."""
    phase = server.phase
    return Broadcast(
        **vars(consensus.change_of_w(server))
        | {
            "scale": server.scale if server.number == 1 and settings.scaled else EMPTY,
            "place": phase.place if phase.new_order else NO_ORDER,
            "moves": phase.moves,
            "relax": phase.stage is Stage.RELAXED or (phase.stage is Stage.FITTED and not phase.full),
        },
        measure=server.measured,
        variances=phase.variances if phase.stage is Stage.FITTED else EMPTY,
    )


def local_solve(
    silo: Silo, message: Broadcast, model: LinearModel, l1: float, loops: bool, settings: RefinedSettings
) -> tuple[Silo, Reply]:
    """Apply the broadcast, perform the local step on its terms, and evaluate the proposed moves."""
    W = message.W.put(silo.W)
    updated = update_from_broadcast(silo, message, W)
    free = free_entries(updated.place, updated.support)
    terms = Terms(
        message.rho2,
        0.0 if message.relax else l1,
        updated.scale,
        consensus.with_loops(free) if loops else free,
        model.penalty_factors(W.shape[1]),
        send_threshold=settings.send_threshold,
    )
    fits = len(message.variances) > 0
    beta, B = fit_step(silo, message, W, free) if fits else consensus.local_step(updated, W, terms)
    reply = Reply(
        B=change_between(np.zeros_like(B), B - silo.B),
        scale=updated.scale if settings.scaled and silo.rounds == 0 else EMPTY,
        gap=consensus.gap(silo, W, terms),
        changes=evaluate_moves(silo.problem, W, updated.place, message.moves),
        variances=residual_variances(silo.problem.moments.S, W) if message.measure else EMPTY,
    )
    following = replace(updated, rounds=silo.rounds + 1, B=B, beta=beta, W=W, rho2=message.rho2)
    return replace(following, variances=message.variances), reply


def update_from_broadcast(silo: Silo, message: Broadcast, W: FloatArray) -> Silo:
    """The silo with the scales, order and support of the broadcast; a new order frees all possible entries."""
    support = silo.possible if len(message.place) else silo.support
    return replace(
        silo,
        scale=message.scale if len(message.scale) else silo.scale,
        place=message.place if len(message.place) else silo.place,
        support=support & remaining_support(W, silo.prior) if message.relax else support,
    )


def fit_step(silo: Silo, message: Broadcast, W: FloatArray, free: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """β_p and B_p of a round of the fit without λ, whose duals start at zero."""
    beta = np.zeros_like(W)
    if len(silo.variances) and not len(message.place):
        before = silo.rho2 * implied_covariance(silo.W, silo.variances)
        beta = dual_step(silo.beta, silo.B - W, before, free)
    metric = message.rho2 * implied_covariance(W, message.variances)
    return beta, fit_silo(silo.problem.moments.S, beta, W, metric, free)


def evaluate_moves(problem: LinearProblem, W: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """The change of this silo's sum of conditional variances under each of `moves`, `[n_moves]`."""
    return variance_changes(problem.contemporaneous_moments(W), place, moves) if len(moves) else EMPTY


def sparse(server: Server) -> Sparse | None:
    """The positions at which this round's summands may be nonzero: the entries that a settled order leaves free.

    None before an order is settled, and in the first round of a new order or support. In that round, entries that are
    no longer free return to zero, so any entry may change.
    """
    phase = server.phase
    if not phase.ordered or phase.rounds == 0:
        return None
    change = consensus.with_loops(phase.free)
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    return packing.sparse(change=change, gap=True, changes=True, variances=True)


def server_terms(server: Server, model: LinearModel, l1: float, settings: RefinedSettings) -> Terms:
    """The terms of the server's step."""
    phase, prices = server.phase, model.penalty_factors(len(server.variables))
    without, fits = phase.stage in (Stage.RELAXED, Stage.FITTED), phase.stage is Stage.FITTED
    hold = 0.0 if fits else settings.send_threshold
    return Terms(server.rho2, 0.0 if without else l1, server.scale, phase.free, prices, phase.ordered, hold)


def aggregate(
    server: Server, replies: Replies[Reply], model: LinearModel, l1: float, settings: RefinedSettings
) -> Server:
    """The state with the new W: by the papers' step, without h under an order, or by the fit without λ."""
    phase = server.phase
    packing = reply_packing(server.W.shape, len(phase.moves), measured=server.measured)
    sent = packing.unpack(replies.total)
    if server.number == 0 and settings.scaled:
        server = replace(server, scale=sent["scale"] / server.silos)
    terms = server_terms(server, model, l1, settings)
    stepped = consensus.step(server, sent["change"], float(sent["gap"]), terms, W_STEPS, model.nearest)
    phase = replace(phase, rounds=phase.rounds + 1, judged=sent["changes"], variances=sent["variances"] / server.silos)
    if phase.stage is Stage.FITTED:
        phase = replace(phase, change=column_change(stepped.W - server.W, server.W, phase.variances))
    return replace(stepped, phase=phase)


def dual_update(server: Server, model: LinearModel, settings: RefinedSettings) -> Server:
    """The state with the duals, ρ₁ and ρ₂ updated, in the next phase."""
    phase = server.phase
    if phase.stage is Stage.FITTED:
        return after_fit(server, settings)
    updated = consensus.duals(server, server_terms(server, model, 0.0, settings))
    if phase.ordered:
        updated = replace(updated, rho2=min(server.rho2 * RHO2_TIGHTENING, settings.rho2))
    else:
        rho2 = server.rho2 * settings.rho2_growth
        updated = replace(updated, rho1=server.rho1 * settings.rho1_growth, rho2=rho2)
    if not settings.fix_order:
        return updated
    following = next_phase(
        phase,
        updated.W,
        updated.scale,
        h=updated.h,
        in_agreement=_phase_converged(updated, settings),
        rounds=updated.number,
        worth=updated.worth,
        last=updated.last,
        prior=updated.prior,
        settings=settings,
    )
    return _start_phase(replace(updated, phase=following), settings)


def after_fit(server: Server, settings: RefinedSettings) -> Server:
    """The state after a round of the fit; once the fit has converged, with the order implied by its model."""
    phase = server.phase
    if not _fit_converged(server, settings) or phase.readings >= settings.order_searches:
        return server
    least = len(server.variables) / server.rows * float(phase.variances.min())
    following, W = reread(phase, server.W_known, least, server.prior)
    return _start_phase(replace(server, W=W, phase=following), settings) if following.rounds == 0 else server


def _start_phase(server: Server, settings: RefinedSettings) -> Server:
    """The state with the ρ₂ of a new phase, and with zero duals for a fit.

    After a change of the free entries, a looser consensus converges sooner.
    """
    phase = server.phase
    if phase.rounds:
        return server
    if phase.stage is Stage.FITTED:
        rho = metric_weight(len(server.variables), server.rows / server.silos)
        return replace(server, rho2=rho, beta_sum=np.zeros_like(server.W))
    return replace(server, rho2=RHO2_FIXED_ORDER)


def converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether the last phase has converged or, without settled orders, the papers' criterion is satisfied."""
    if not settings.fix_order:
        return consensus.converged(server, settings)
    if server.phase.stage is Stage.FITTED:
        return server.phase.rounds > 0 and _fit_converged(server, settings)
    return server.phase.stage is server.last and _phase_converged(server, settings)


def _fit_converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether a fit has converged: the error after a round is about ρ times the change in that round."""
    return server.rho2 * server.phase.change < settings.tolerance


def _phase_converged(server: Server, settings: RefinedSettings) -> bool:
    """Whether this phase has reached consensus.

    Before a fit without λ the tolerance is larger, because the fit needs only the positions of the nonzero entries.
    """
    fit_follows = server.last is Stage.FITTED and server.phase.ordered
    looser = replace(settings, tolerance=LASSO_TOLERANCE_FACTOR * settings.tolerance) if fit_follows else settings
    return server.phase.rounds > UNINFORMATIVE_ROUNDS and consensus.consensus_reached(server, looser)
