"""The optimisation problems of consensus ADMM at the silos and at the server, their solvers, and the settings.

A silo minimises its own loss plus a `Pull` towards the consensus. Consensus ADMM needs a `Problem`, which solves the
silo's part, and a `Model`, which maps parameters to a graph and projects them towards acyclic graphs. Both exist for
linear and for nonlinear models. Parameters are a matrix `[m, d]` with a column for each variable.

The acyclicity measure of NOTEARS is h(W) = tr(exp(W∘W)) − d; it is zero for a DAG and for no other graph (Zheng et al.
2018). Two facts make the computation of h fast and prevent overflow. First, only edges on cycles affect h: edges
between strongly connected components add nothing to the trace. So `CyclicPart` computes the exponential only of the
submatrix of the nodes on cycles. Second, the trace is the same for W and DWD⁻¹ with a diagonal D. So rescaling every
variable by its root mean square leaves h unchanged, but prevents overflow of the exponential if units differ.

The server's step finds the matrix nearest to the silos' mean with few cycles (Fassy El Fehri et al., Eq. 5; Ng & Zhang
2022, Eq. 3):

    W ← argmin ½ Σ_ij c_i (W_ij − B̄_ij)² + Σ_ij λ_i |W_ij| + α h(W) + ρ₁/2 h(W)²

h grows with every W_ij², so the penalty pulls each entry towards zero and never across it. This makes the step cheap
and exact (Fassy El Fehri et al., §4.1). Soft-thresholding B̄ first accounts for the ℓ₁ term. Then each W_ij lies between
zero and the thresholded B̄_ij. So a zero stays zero, and an entry on no cycle equals the thresholded B̄_ij. Newton
steps find the entries on cycles, with the part of the Hessian whose inverse is cheap: a diagonal and one outer product
(`_newton_step`). A step costs one exponential. Five steps from the last round's W come as near to the minimum as 20
steps of L-BFGS.

`ConsensusSettings` are the settings of the papers' loop, `Additions` those of our additions, `RefinedSettings` both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from ..core.schema import FloatArray, Schema
from ..core.settings import Count, CountOrNone, Factor, NonNegative, Positive, Settings
from ..graphs.dag import edges_on_cycles
from ..statistics.lagged import silo_windows
from ..statistics.moments import SecondMoments, Table, products


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
    fix_order_h: Positive = 2e-3
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
