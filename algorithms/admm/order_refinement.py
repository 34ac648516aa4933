"""Order refinement: phases that fix and improve an order of the variables once h is small (our own method).

FREE      the papers' loop: ρ₁, growing from a small start, drives h towards zero
ORDERED   the order of the variables is fixed; what remains is a convex lasso over the entries that respect it, so edges
          that were lost on the way to acyclicity can return, and no cycle is possible
JUDGING   the silos evaluate moves that would turn an edge; a better order begins ORDERED again. They also send their
          mean squared residuals under W
FITTED    no move improves the order enough; the entries selected by the lasso are fitted without λ in the metric of
          the model (`staged_admm.py`). If the lasso selected many of the allowed entries, all of these are fitted. The
          model then implies an order: a better order starts another fit of all entries that it allows
RELAXED   for series, whose lagged variables have no model: the entries selected by the lasso are fitted without λ

The first order (`settled_order`) comes from a matrix that is almost acyclic: once h is small, only the weakest edge of
each cycle has to be removed.

Moves (`proposals`, `variance_changes`) are a local search over orders that needs only sums of variances. A settled
order may have an edge in the wrong direction, which small steps cannot correct. NOTEARS' own loss detects such edges:
with each variable regressed on its predecessors, the loss of an order is ½Σ_j var(x_j | predecessors). For equal error
variances it is minimal at a true order. For every learned edge the server proposes the two moves that would reverse the
edge: one of its variables moves to the position of the other. Each silo replies with the change of its sum of
conditional variances. Changes of moves that do not overlap add up, and the best moves are applied.

A move changes only the conditional variances of the variables between its two positions, inclusive. Let L be the
Cholesky factor of S in the current order. Given the variables before position j, x_s has the variance
T_j = Σ_{j ≤ q ≤ s} L_sq². If x_s moves before x_j, its partial correlation with x_j lowers the variance L_jj² of x_j to
L_jj² T_{j+1}/T_j. If x_s moves behind x_j, the same holds in reverse, with the precisions Σ_{s ≤ q ≤ j} (L⁻¹)_qs² of
x_s in place of T. So a move of length k costs O(k), after one factorisation and one inverse.

The model of a round and its order (`reread`, after Chen, Drton & Wang 2019): a consensus W that respects an order, and
the variances v of the residuals under W, define the covariance Σ = A⁻ᵀ diag(v) A⁻¹ with A = I − W. With all allowed
entries fitted, Σ equals the second moments of all rows, for any order. If errors have equal variances, Σ determines the
order, from the first variable on (`statistics/moments.py`). The silos send only weights and residual variances.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from ..core.knowledge import Prior
from ..core.schema import FloatArray
from ..graphs.dag import topological_order, transitive_closure
from ..statistics.moments import residual_variances, top_down_order
from .consensus import EMPTY, NO_MOVES, NO_ORDER, UNINFORMATIVE_ROUNDS, Moves
from .problem import RefinedSettings

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
