"""Consensus ADMM, the papers' loop (Fassy El Fehri et al., Algorithm 1; Ng & Zhang 2022, Algorithm 1).

It minimises Σ_p L_p(B_p) + λ‖·‖₁ subject to B_p = W and h(W) = 0. In every round:

    silo:    β_p ← β_p + ρ₂(B_p − W)
             B_p ← argmin L_p(B) + ⟨β_p, B − W⟩ + ρ₂/2 ‖B − W‖²
    server:  W ← argmin ρ₂P/2 ‖W − B̄‖² + αh(W) + ρ₁/2 h(W)²,  B̄ = (1/P) Σ_p (B_p + β_p/ρ₂)
             α ← α + ρ₁h(W),  ρ₁ ← γ₁ρ₁,  ρ₂ ← γ₂ρ₂

with the ℓ₁ term on B_p (Fassy El Fehri et al.) or on W (Ng & Zhang). The server needs only ΣB_p: it updates Σβ_p by
Σβ ← Σβ + ρ₂(ΣB_p − P·W), so a secure sum suffices. What leaves a silo in each round: the changed entries of B_p
(`Change`), and ‖B_p − W‖².

`Terms` are the weights and constraints of a round's problems. The papers' terms are `plain_terms`. Our additions
(`staged_admm.py`) set other terms, which depend on the phase of the run.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from ..core.knowledge import Prior
from ..core.protocol import FederatedAlgorithm, Replies
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Settings
from ..graphs.dag import break_cycles, edges_on_cycles
from ..graphs.structure import Structure, stacked
from ..secure.masks import FRACTION_BITS
from ..statistics.lagged import silo_windows
from ..statistics.moments import SecondMoments, Table, products, to_multiples
from ..statistics.packing import Packing, packing

# The optimisation problems of consensus ADMM at the silos and at the server, their solvers, and the settings.
#
# A silo minimises its own loss plus a `Pull` towards the consensus. Consensus ADMM needs a `Problem`, which solves the
# silo's part, and a `Model`, which maps parameters to a graph and projects them towards acyclic graphs. Both exist for
# linear and for nonlinear models. Parameters are a matrix `[m, d]` with a column for each variable.
#
# The acyclicity measure of NOTEARS is h(W) = tr(exp(W∘W)) − d; it is zero for a DAG and for no other graph (Zheng et
# al. 2018). Two facts make the computation of h fast and prevent overflow. First, only edges on cycles affect h: edges
# between strongly connected components add nothing to the trace. So `CyclicPart` computes the exponential only of the
# submatrix of the nodes on cycles. Second, the trace is the same for W and DWD⁻¹ with a diagonal D. So rescaling every
# variable by its root mean square leaves h unchanged, but prevents overflow of the exponential if units differ.
#
# The server's step finds the matrix nearest to the silos' mean with few cycles (Fassy El Fehri et al., Eq. 5; Ng &
# Zhang 2022, Eq. 3):
#
#     W ← argmin ½ Σ_ij c_i (W_ij − B̄_ij)² + Σ_ij λ_i |W_ij| + α h(W) + ρ₁/2 h(W)²
#
# h grows with every W_ij², so the penalty pulls each entry towards zero and never across it. This makes the step cheap
# and exact (Fassy El Fehri et al., §4.1). Soft-thresholding B̄ first accounts for the ℓ₁ term. Then each W_ij lies
# between zero and the thresholded B̄_ij. So a zero stays zero, and an entry on no cycle equals the thresholded B̄_ij.
# Newton steps find the entries on cycles, with the part of the Hessian whose inverse is cheap: a diagonal and one outer
# product (`_newton_step`). A step costs one exponential. Five steps from the last round's W come as near to the minimum
# as 20 steps of L-BFGS.
#
# `ConsensusSettings` are the settings of the papers' loop, `Additions` those of our additions, `RefinedSettings` both.


@dataclass(frozen=True)
class ConsensusSettings(Settings):
    """Settings of the papers' loop, with the papers' values for d = 20 variables and P = 8 silos.

    Fassy El Fehri et al., Algorithm 1 and Appendix B.3.2; Ng & Zhang 2022, Algorithm 1.
    """

    rho1: Positive = 1000 / 8
    """weight of h² per silo (the papers' ρ₁ is this times the number of silos)"""
    rho1_growth: Factor = 1.0
    """γ₁ of Ng & Zhang 2022, Eq. 6: the factor of ρ₁ from round to round"""
    rho2: Positive = 1.0
    """weight of the consensus between the silos and the server"""
    rho2_growth: Factor = 1.0
    """γ₂ of Ng & Zhang 2022, Eq. 7"""
    l1: NonNegative = 0.1
    """λ, the ℓ₁ penalty on the edge weights"""
    rounds: Count = 100
    """T, the maximum number of rounds"""
    tolerance: Positive = 0.01
    """residuals, relative to the weights, below which consensus is reached"""
    h_tolerance: Positive = 1e-8
    """h below which the graph counts as acyclic, in runs that do not fix the order"""
    threshold: NonNegative = 0.3
    """τ: edges of at most this absolute weight are dropped"""
    repair: bool = False
    """drop the weakest edges on remaining cycles"""
    center: bool = False
    """subtract each silo's own column means first"""


@dataclass(frozen=True)
class Additions(Settings):
    """Settings of our additions to the papers' loop; the defaults add nothing.

    With `scaled`, the silos first send the mean squares of their variables. Their mean over the silos, m, scales every
    penalty: ρ₂·m_i and λ·√(m_i·min m) in row i, ρ₁·min m for h. The consensus is then loose where the loss is flat and
    tight where the loss is steep, and the result does not depend on a common unit of measurement. With `fix_order`, the
    server fixes the order of the variables once h < `fix_order_h`. What remains is a convex lasso over the entries that
    respect the order. After that, `order_searches` improves the order, and `relax` removes the shrinkage of selected
    entries.
    """

    scaled: bool = False
    """scale all penalties by the variables' mean squares"""
    fix_order: bool = False
    """fix the order of the variables once h is small"""
    fix_order_h: ClassVar[float] = 2e-3
    """h below which the order is fixed; above 20 variables, the limit is this times d / 20"""
    order_searches: CountOrNone = 0
    """maximum number of searches for a better order after the order is fixed, by reversed edges and by the fitted model
    (0: none)"""
    relax: bool = False
    """with many rows, refit without λ before applying τ: the selected entries, or all entries that the order allows"""
    send_threshold: NonNegative = 0.0
    """silos send only changes of an entry of at least this size (times √(min m / m_i) with `scaled`)"""

    @property
    def any(self) -> bool:
        """Whether `scaled`, `fix_order` or `send_threshold` is on; `order_searches` and `relax` alone do not count."""
        return self.scaled or self.fix_order or self.send_threshold > 0


@dataclass(frozen=True)
class RefinedSettings(Additions, ConsensusSettings):
    """Settings of the papers' loop and of our additions, with our defaults."""

    rho1: Positive = 0.3
    rho1_growth: Factor = 1.3
    rho2: Positive = 0.3
    l1: NonNegative = 0.05
    scaled: bool = True
    fix_order: bool = True
    order_searches: CountOrNone = 10
    relax: bool = True
    send_threshold: NonNegative = 0.01
    center: bool = True


@dataclass(frozen=True)
class CyclicPart:
    """The entries of a support that are on cycles."""

    entries: NDArray[np.bool_]
    """`[n_variables, n_variables]`: whether each entry is on a cycle"""
    rows: NDArray[np.intp]
    """the row of each entry in the submatrix of the nodes on cycles"""
    columns: NDArray[np.intp]
    size: int
    """number of nodes on cycles"""
    balance: FloatArray
    """for each entry (i, j), the ratio of the units of its variables: D_i/D_j"""

    def h(self, w: FloatArray) -> tuple[float, FloatArray]:
        """The measure h and its coefficients 2 exp(W∘W)ᵀ for the weights `w` of the entries, in the order of `entries`.

        The gradient of h is the coefficients times `w`.
        """
        squares = np.zeros((self.size, self.size))
        squares[self.rows, self.columns] = (w * self.balance) ** 2
        exponential = expm(squares)
        return float(np.trace(exponential)) - self.size, 2 * self.balance**2 * exponential[self.columns, self.rows]


def cyclic_part(support: NDArray[np.bool_], units: FloatArray) -> CyclicPart:
    """The entries of `support` `[n_variables, n_variables]` inside its strongly connected components.

    `units` `[n_variables]`, above 0, are the units of the variables.
    """
    entries = edges_on_cycles(support)
    np.fill_diagonal(entries, False)
    rows, columns = np.nonzero(entries)
    nodes = np.unique(np.concatenate([rows, columns]))
    return CyclicPart(
        entries, np.searchsorted(nodes, rows), np.searchsorted(nodes, columns), len(nodes), units[rows] / units[columns]
    )


def acyclicity(W: FloatArray) -> tuple[float, FloatArray]:
    """h(W) and its gradient for `W` `[n_variables, n_variables]`."""
    part = cyclic_part(W != 0, np.ones(len(W)))
    gradient = np.zeros_like(W)
    h, coefficients = part.h(W[part.entries])
    gradient[part.entries] = coefficients * W[part.entries]
    return h, gradient


def soft_threshold(x: FloatArray, by: FloatArray | float) -> FloatArray:
    """The proximal point of `by`·|·| at `x`: sign(x)·max(|x| − by, 0)."""
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - by, 0.0))


W_STEPS = 15_000
"""maximum number of steps of descent of the server in a round of the papers' loop"""
MIN_GAIN = 1e-9
"""the descent of the server's step ends once a step decreases the objective by less than this share"""
MIN_STEP = 1e-6
"""the smallest share of a step that is tried before the descent ends"""


def consensus_step(
    target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, iterations: int
) -> tuple[FloatArray, float]:
    """W and h(W) for the (thresholded) mean `target`, by at most `iterations` steps of descent from `start`.

    `target` and `start` are `[n_variables, n_variables]`; `curvature` c is `[n_variables]`, one a row, above 0.
    """
    part = cyclic_part(target != 0, np.sqrt(curvature))
    W = np.where(part.entries, 0.0, target)
    if not part.size:
        return W, 0.0
    c, centre = curvature[np.nonzero(part.entries)[0]], target[part.entries]
    lower, upper = np.minimum(centre, 0.0), np.maximum(centre, 0.0)

    def objective(w: FloatArray) -> tuple[float, float, FloatArray]:
        h, coefficients = part.h(w)
        return float(0.5 * c @ (w - centre) ** 2 + alpha * h + 0.5 * rho1 * h * h), h, coefficients

    w = np.clip(start[part.entries], lower, upper)
    value, h, coefficients = objective(w)
    if not value < 0.5 * c @ centre**2:  # strong cycles, whose exponential may overflow: zero is nearer to the minimum
        w = np.zeros_like(w)
        value, h, coefficients = objective(w)
    for _ in range(iterations):
        pressure = (alpha + rho1 * h) * coefficients
        direction = _newton_step(c * (w - centre) + pressure * w, c + pressure, rho1, coefficients * w)
        before, step = value, 1.0
        while step >= MIN_STEP:
            tried = np.clip(w - step * direction, lower, upper)
            value, h_tried, coefficients_tried = objective(tried)
            if value < before:
                break
            step /= 2
        else:
            break
        w, h, coefficients = tried, h_tried, coefficients_tried
        if before - value < MIN_GAIN * value:
            break
    W[part.entries] = w
    return W, h


def _newton_step(gradient: FloatArray, diagonal: FloatArray, rho1: float, along: FloatArray) -> FloatArray:
    """The Newton step to subtract from the weights w, for this `gradient` of the objective and part of its Hessian.

    Let a be the coefficients of h and κ = α + ρ₁h. The step uses diag(c + κa) + ρ₁(a∘w)(a∘w)ᵀ, where `diagonal` is
    c + κa and `along` is a∘w, the gradient of h. It leaves out κw∘∂a, the change of the exponential, which is small
    where cycles are weak. The inverse of the part is a rank-one update of a diagonal (Sherman & Morrison 1950).
    """
    plain, scaled = gradient / diagonal, along / diagonal
    return np.asarray(plain - scaled * (rho1 * (along @ plain) / (1 + rho1 * (along @ scaled))))


@dataclass(frozen=True)
class Pull:
    """⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over the `allowed` entries of B, and the starting point.

    Raises `FloatingPointError` if a number is not finite, because compiled solvers assume finite numbers.
    """

    linear: FloatArray
    r: FloatArray
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray

    def __post_init__(self) -> None:
        """Check the numbers."""
        _require_finite("the terms of the coordinator", self.linear, self.r, self.l1, self.start)


class Problem(Protocol):
    """A silo's part of the objective, computed from its private rows."""

    def solve(self, pull: Pull) -> FloatArray:
        """The parameters that minimise this silo's loss plus `pull`, exactly or approximately."""
        ...


class Model(Protocol):
    """A model whose parameters `[m, d]` silos and server exchange."""

    def rows(self, d: int) -> int:
        """m, the number of parameters of each of d variables."""
        ...

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """The parameters that may differ from zero if only `edges` `[d, d]` are possible, `[m, d]`."""
        ...

    def penalty_factors(self, d: int) -> FloatArray:
        """The factor of λ in each row, `[m]`: zero for parameters that are not weights of edges."""
        ...

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> Problem:
        """The problem of `silo`, whose rows are `table` `[n_rows, d]`."""
        ...

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """The server's W and h(W): argmin ½Σ c_i (W_ij − target_ij)² + αh(W) + ρ₁/2 h(W)² (`consensus_step`)."""
        ...

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """The weighted graph of `parameters`, `[d, d]`, from which h is computed.

        The graph of a dynamic model is `[(lags + 1)·d, d]`. Its h is computed from the first d rows, which are the
        edges within one time step.
        """
        ...


@dataclass(frozen=True)
class Lasso(Pull):
    """The linear silo's problem in one round: ½tr((I − B)ᵀS(I − B)) plus the pull.

    S is `[m, m]`, B is `[m, d]`, and I has the first d columns of the identity. The loss regresses each variable on the
    other variables and, if m > d, also on lagged values.
    """

    S: FloatArray

    def __post_init__(self) -> None:
        """Check the numbers."""
        super().__post_init__()
        _require_finite("the moments of the rows", self.S)


def _require_finite(what: str, *numbers: FloatArray) -> None:
    if not all(np.isfinite(one).all() for one in numbers):
        raise FloatingPointError(f"{what} include numbers that are not finite")


LassoSolver = Callable[[Lasso], FloatArray]
"""minimises a lasso over the allowed entries, exactly or up to a maximum number of steps: B `[m, d]`"""
MomentsOf = Callable[[FloatArray, Schema, str], SecondMoments]
"""(table, schema, silo) -> the moments of a linear problem: of d variables, or of their windows"""


@dataclass(frozen=True)
class LinearProblem:
    """A linear structural equation model: its parameters are the weights B `[m, d]` themselves."""

    moments: SecondMoments
    solver: LassoSolver

    def solve(self, pull: Pull) -> FloatArray:
        """B for this round's `pull` (see `Problem`)."""
        return self.solver(Lasso(pull.linear, pull.r, pull.l1, pull.allowed, pull.start, self.moments.S))

    def contemporaneous_moments(self, W: FloatArray) -> FloatArray:
        """The second moments of the d variables within one time step, minus the lagged effects, `[d, d]`.

        The lagged effects are those of the consensus `W` `[m, d]`. A ridge of (d/n_p)² times the diagonal makes the
        matrix invertible with few rows; with many rows it is negligible.
        """
        d = W.shape[1]
        left = np.vstack([np.eye(d), -W[d:]])
        S = left.T @ self.moments.S @ left if len(W) > d else self.moments.S
        return np.asarray(S + (d / self.moments.rows) ** 2 * np.diag(replace_zeros(np.diag(S))))


def replace_zeros(squares: FloatArray) -> FloatArray:
    """The mean `squares` `[d]`, with the largest mean square in place of zeros.

    A mean square is zero if the centred column is constant in a silo. Such a column has no covariance with any other
    column, so any positive value works.
    """
    return np.where(squares > 0, squares, squares.max() or 1.0)


@dataclass(frozen=True)
class LinearModel:
    """Linear structural equation models, whose silos solve their lasso with `solver`.

    With `lags`, structural vector autoregressions: W `[d, d]` is stacked on A₁, A₂, ... (Chen, Ma & Yue
    2025, Eq. 1).
    """

    solver: LassoSolver
    moments_of: MomentsOf
    lags: int = 0
    lagged_price: float = 1.0
    """λ of lagged edges divided by λ of edges within one time step: λ_A/λ_W of Chen, Ma & Yue"""

    def rows(self, d: int) -> int:
        """(lags + 1)·d (see `Model`)."""
        return (self.lags + 1) * d

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """`edges` without self-loops, and all lagged edges (see `Model`)."""
        d = len(edges)
        return np.vstack([edges & ~np.eye(d, dtype=bool), np.ones((self.rows(d) - d, d), bool)])

    def penalty_factors(self, d: int) -> FloatArray:
        """1 for the rows within one time step and `lagged_price` for the others (see `Model`)."""
        return np.repeat([1.0, self.lagged_price], [d, self.lags * d])

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> LinearProblem:
        """The problem of `silo`, whose rows are `table` (see `Model`)."""
        return LinearProblem(self.moments_of(table, schema, silo), self.solver)

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """W and h(W) (see `Model`); the lagged rows equal `target`, because lagged edges close no cycle."""
        d = target.shape[1]
        W, h = consensus_step(target[:d], start[:d], curvature[:d], alpha, rho1, steps)
        return np.vstack([W, target[d:]]), h

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """The weights, which are the graph."""
        return parameters


def weighted_moments(table: Table, schema: Schema, silo: str, *, center: bool, lags: int = 0) -> SecondMoments:
    """XᵀX / n̄ for the rows of `table` `[n_rows, d]` or, with `lags`, for windows of rows.

    n̄ is the mean number of rows (or windows) over the silos. This divisor gives every row of the federation the same
    weight.
    """
    rows = schema.windows(lags)
    mean_rows = sum(rows.values()) / len(rows)
    if not lags:
        return SecondMoments(products(table, center=center) / mean_rows, table.shape[0])
    X = silo_windows(table, schema, silo, lags, center=center)
    return SecondMoments(products(X) / mean_rows, X.shape[0])


@dataclass(frozen=True)
class Change:
    """Entries of a matrix of this `shape`, as flat positions and values.

    If `positions` is empty, `values` has all entries in row order, or none.
    """

    shape: tuple[int, int]
    positions: NDArray[np.unsignedinteger]
    values: FloatArray

    def put(self, matrix: FloatArray) -> FloatArray:
        """`matrix` with these entries replaced."""
        if len(self.values) == matrix.size:
            return self.values.reshape(self.shape)
        changed = matrix.copy()
        changed.flat[self.positions.astype(np.intp)] = self.values
        return changed

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1."""
        return len(self.values) * (entry_bytes(self.shape) if len(self.positions) else 8)


@dataclass(frozen=True)
class Broadcast:
    """The server's message: the change of W, and ρ₂."""

    W: Change
    rho2: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for ρ₂."""
        return self.W.cost + 8


@dataclass(frozen=True)
class Reply:
    """A silo's reply: the change of B_p, and ‖B_p − W‖² of the last round for the stopping rule."""

    B: Change
    gap: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, with 8 bytes for the distance."""
        return self.B.cost + 8


def reply_packing(shape: tuple[int, int]) -> Packing:
    """The packing of a reply for parameters of this `shape`; the server needs only the sum over the silos."""
    return packing(change=shape, gap=())


def summand(reply: Reply) -> FloatArray:
    """`reply` as one vector for the sum."""
    return reply_packing(reply.B.shape).pack(change=reply.B.put(np.zeros(reply.B.shape)), gap=reply.gap)


def entry_bytes(shape: tuple[int, int]) -> int:
    """The bytes of one value with its position: 8 + ⌈log₂(entries)/8⌉ (Fassy El Fehri et al., B.2.1)."""
    return 8 + int(np.ceil(np.log2(max(shape[0] * shape[1], 4)) / 8))


def change_between(old: FloatArray, new: FloatArray) -> Change:
    """The entries of `new` that differ from `old`, as a list; or the full matrix if it has fewer bytes or as many."""
    shape, small = (len(new), new.shape[1]), np.uint16 if new.size <= 1 << 16 else np.uint32
    positions = np.flatnonzero(new != old)
    if len(positions) * entry_bytes(shape) >= 8 * new.size:
        return Change(shape, np.empty(0, small), new.ravel().copy())
    return Change(shape, positions.astype(small), new.ravel()[positions])


def suppress_small_changes(old: FloatArray, new: FloatArray, least: FloatArray) -> FloatArray:
    """`new`, but with `old` in each entry of row i that changed by less than `least[i]`, so that it is not sent."""
    return np.where(np.abs(new - old) < least[:, None], old, new)


# Smaller weights count as zero, because sums of changes have rounding errors in entries that have returned to zero.
NEGLIGIBLE_WEIGHT = 1e-10
# Number of first rounds whose residuals are not used as a stopping rule.
UNINFORMATIVE_ROUNDS = 2


@dataclass(frozen=True)
class Terms:
    """The terms of the optimisation problems of a round."""

    rho2: float
    l1: float
    scale: FloatArray
    """the unit of the penalties of each row, `[m]`; 1 for penalties in plain numbers"""
    free: NDArray[np.bool_]
    """the entries that may differ from zero, `[m, d]`"""
    prices: FloatArray
    """the factor of λ in each row, `[m]`"""
    acyclic: bool = False
    """whether the free entries cannot form a cycle, so that h is always zero"""
    send_threshold: float = 0.0
    """the smallest change of an entry that is sent"""

    @property
    def r(self) -> FloatArray:
        """ρ₂ in each row, `[m]`."""
        return self.rho2 * self.scale

    @property
    def l1_rows(self) -> FloatArray:
        """λ in each row, λ·price_i·√(scale_i · min scale), `[m]`."""
        return np.asarray(self.l1 * self.prices * np.sqrt(self.scale * self.scale.min()))

    @property
    def least_change(self) -> FloatArray:
        """The smallest change that is sent in each row, send_threshold·√(min scale / scale_i), `[m]`."""
        return np.asarray(self.send_threshold * np.sqrt(self.scale.min() / self.scale))

    def norm(self, matrix: FloatArray) -> float:
        """The norm of a `[m, d]` matrix; the squares of row i count `scale[i]` times."""
        return float(np.sqrt(self.scale @ (matrix * matrix).sum(axis=1)))


@dataclass(frozen=True)
class Server:
    """The server's state, which depends only on sums over the silos."""

    variables: tuple[str, ...]
    silos: int
    number: int
    """rounds finished"""
    W: FloatArray
    """the consensus, `[m, d]`"""
    W_known: FloatArray
    """the W of the last broadcast, which the silos have"""
    B_sum: FloatArray
    beta_sum: FloatArray
    alpha: float
    rho1: float
    rho2: float
    h: float
    primal: float
    """the root mean square of ‖B_p − W‖ over the silos, relative to ‖W‖; ∞ until round 2"""
    dual: float
    """change of W in the last round, relative to ‖W‖"""
    prior: Prior
    """background knowledge of the graph; impossible edges are never free"""


State = TypeVar("State", bound=Server)
Nearest = Callable[[FloatArray, FloatArray, FloatArray, float, float, int], tuple[FloatArray, float]]
"""the server's step of a model (see `Model.nearest`)"""


@dataclass(frozen=True)
class Silo:
    """A silo's private state: its problem, computed from its rows, and the state of the rounds."""

    problem: Problem
    rounds: int
    B: FloatArray
    beta: FloatArray
    W: FloatArray
    rho2: float
    prior: Prior


PERSISTED_STATE = ("rounds", "B", "beta", "W", "rho2")


def with_loops(free: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """`free` `[m, d]` with a free diagonal.

    The diagonal of W is zero. So the consensus with W still draws the diagonal of B_p to zero.
    """
    return free | np.eye(len(free), free.shape[1], dtype=bool)


def plain_terms(model: Model, prior: Prior, rho2: float, l1: float, *, loops: bool = False) -> Terms:
    """The papers' terms: penalties in plain numbers, every possible edge free, every change sent."""
    possible, prices = model.possible(prior.possible), model.penalty_factors(len(prior.possible))
    return Terms(rho2, l1, np.ones(len(prices)), with_loops(possible) if loops else possible, prices)


def open_silo(problem: Problem, model: Model, settings: ConsensusSettings, prior: Prior) -> Silo:
    """A silo's state before round 1."""
    zero = np.zeros(model.possible(prior.possible).shape)
    return Silo(problem, 0, zero, zero, zero, settings.rho2, prior)


def local_step(silo: Silo, W: FloatArray, terms: Terms) -> tuple[FloatArray, FloatArray]:
    """β_p updated for the new consensus `W`, and the new B_p in multiples of 2⁻³².

    Sums of changes of B_p are then exact, both plain and masked.
    """
    beta = silo.beta + (silo.rho2 * terms.scale)[:, None] * (silo.B - W)
    start = np.where(terms.free, silo.B, 0)
    pull = Pull(beta - terms.r[:, None] * W, terms.r, terms.l1_rows, terms.free, start)
    solved = suppress_small_changes(silo.B, silo.problem.solve(pull), terms.least_change)
    return beta, np.where(terms.free, to_multiples(solved, FRACTION_BITS), 0.0)


def gap(silo: Silo, W: FloatArray, terms: Terms) -> float:
    """‖B_p − W‖² with the B_p of the last round; the squares of row i are multiplied by `terms.scale[i]`."""
    apart = silo.B - W
    return float(terms.scale @ (apart * apart).sum(axis=1))


def open_server(schema: Schema, m: int, settings: ConsensusSettings) -> Server:
    """The server's state before round 1: W `[m, d]` and the duals are 0."""
    P = len(schema.rows)
    zero = np.zeros((m, len(schema.variables)))
    return Server(
        variables=schema.variables,
        silos=P,
        number=0,
        W=zero,
        W_known=zero,
        B_sum=zero,
        beta_sum=zero,
        alpha=0.0,
        rho1=settings.rho1 * P,
        rho2=settings.rho2,
        h=0.0,
        primal=np.inf,
        dual=np.inf,
        prior=schema.knowledge.prior(schema.variables),
    )


def change_of_w(server: Server) -> Broadcast:
    """The broadcast: the change of W since the last broadcast, and ρ₂."""
    return Broadcast(change_between(server.W_known, server.W), server.rho2)


def step(
    server: State, change: FloatArray, gaps: float, terms: Terms, w_steps: int, nearest: Nearest = consensus_step
) -> State:
    """The state with the new W, given the silos' summed `change` of B_p and summed ‖B_p − W‖²."""
    P = server.silos
    B_sum = server.B_sum + change
    mean = (B_sum + server.beta_sum / terms.r[:, None]) / P
    target = soft_threshold(mean, (terms.l1_rows / terms.r)[:, None])
    target = np.where(terms.free & (np.abs(target) > NEGLIGIBLE_WEIGHT), target, 0.0)
    if terms.acyclic:
        W, h = target, 0.0
    else:
        W, h = nearest(target, server.W, P * terms.r / terms.scale.min(), server.alpha, server.rho1, w_steps)
    W = np.where(terms.free, suppress_small_changes(server.W, W, terms.least_change), 0.0)
    size = max(terms.norm(W), float(np.sqrt(terms.scale.min())))
    return replace(
        server,
        number=server.number + 1,
        W=W,
        W_known=server.W,
        B_sum=B_sum,
        h=h,
        primal=float(np.sqrt(gaps / P)) / size if server.number else np.inf,
        dual=terms.norm(W - server.W) / size,
    )


def duals(server: State, terms: Terms) -> State:
    """The state with Σβ and α updated (Ng & Zhang 2022, Eq. 4-5)."""
    return replace(
        server,
        beta_sum=server.beta_sum + terms.r[:, None] * (server.B_sum - server.silos * server.W),
        alpha=server.alpha + server.rho1 * server.h,
    )


def consensus_reached(server: Server, settings: ConsensusSettings) -> bool:
    """Whether the silos agree on W and W has stopped changing, both up to the tolerance."""
    return server.primal < settings.tolerance and server.dual < settings.tolerance


def converged(server: Server, settings: ConsensusSettings) -> bool:
    """Whether W has edges and is acyclic, and the consensus is reached, up to the tolerances."""
    acyclic = bool(server.W.any()) and server.h < settings.h_tolerance
    return acyclic and server.number > UNINFORMATIVE_ROUNDS and consensus_reached(server, settings)


def structure(server: Server, graph: FloatArray, settings: ConsensusSettings) -> Structure:
    """The `graph` of W `[(lags + 1)·d, d]` without entries of magnitude τ or less; required edges are kept anyway.

    With `repair`, cycles are broken. The `scores` are the absolute values of all entries.
    """
    d = len(server.variables)
    edges = np.abs(graph) > settings.threshold
    edges[:d] |= server.prior.required
    weights = np.where(edges, graph, 0.0)
    within = break_cycles(weights[:d])[0] if settings.repair else weights[:d]
    return stacked(server.variables, np.vstack([within, weights[d:]]), np.abs(graph))


def measures(server: Server, graph: FloatArray, settings: ConsensusSettings) -> dict[str, float]:
    """The measures of a round: h, the relative residuals, the number of edges above the threshold, ρ₁ and the phase."""
    d = len(server.variables)
    edges = np.abs(graph) > settings.threshold
    return {
        "h": server.h,
        "primal": server.primal if np.isfinite(server.primal) else 1.0,
        "dual": server.dual,
        "edges": float(edges[:d].sum()),
        **({"lagged_edges": float(edges[d:].sum())} if len(graph) > d else {}),
        "rho1": server.rho1,
        "phase": 1.0,
    }


def shape_of(model: Model, schema: Schema) -> tuple[int, int]:
    """The shape of the parameters of `model` for the variables of `schema`, (m, d)."""
    d = len(schema.variables)
    return model.rows(d), d


def consensus_admm(
    settings: ConsensusSettings, model: Model, *, l1_at_server: bool, loops: bool = False, w_steps: int = W_STEPS
) -> FederatedAlgorithm[Server, Silo, Broadcast, Reply]:
    """The papers' algorithm, with the ℓ₁ term on W if `l1_at_server`, otherwise on B_p.

    `loops` leaves the diagonal of B_p free, as Ng & Zhang do. The server descends for at most `w_steps` steps a round.
    """
    server_l1, silo_l1 = (settings.l1, 0.0) if l1_at_server else (0.0, settings.l1)

    def local_solve(silo: Silo, broadcast: Broadcast) -> tuple[Silo, Reply]:
        W = broadcast.W.put(silo.W)
        terms = plain_terms(model, silo.prior, broadcast.rho2, silo_l1, loops=loops)
        beta, B = local_step(silo, W, terms)
        reply = Reply(change_between(np.zeros_like(B), B - silo.B), gap(silo, W, terms))
        return Silo(silo.problem, silo.rounds + 1, B, beta, W, broadcast.rho2, silo.prior), reply

    def terms_of(server: Server) -> Terms:
        return plain_terms(model, server.prior, server.rho2, server_l1)

    def aggregate(server: Server, replies: Replies[Reply]) -> Server:
        sent = reply_packing(server.W.shape).unpack(replies.total)
        return step(server, sent["change"], float(sent["gap"]), terms_of(server), w_steps, model.nearest)

    def dual_update(server: Server) -> Server:
        updated = duals(server, terms_of(server))
        return replace(updated, rho1=server.rho1 * settings.rho1_growth, rho2=server.rho2 * settings.rho2_growth)

    return FederatedAlgorithm(
        open_silo=lambda table, schema, silo, rng: open_silo(
            model.problem(table, schema, silo), model, settings, schema.knowledge.prior(schema.variables)
        ),
        open_server=lambda schema: open_server(schema, model.rows(len(schema.variables)), settings),
        broadcast=change_of_w,
        local_solve=local_solve,
        aggregate=aggregate,
        dual_update=dual_update,
        converged=lambda server: converged(server, settings),
        structure=lambda server: structure(server, model.to_adjacency(server.W), settings),
        server_type=Server,
        broadcast_type=Broadcast,
        reply_type=Reply,
        max_rounds=settings.rounds,
        summand=summand,
        measures=lambda server: measures(server, model.to_adjacency(server.W), settings),
        cost=lambda message: int(message.cost),
        persisted_state=PERSISTED_STATE,
    )
