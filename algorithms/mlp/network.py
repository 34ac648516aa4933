"""The model of NOTEARS-MLP: a perceptron with one hidden layer of sigmoid units predicts each variable from all others.

Source: Zheng et al. 2020, §3.2 and §4.3.

    x̂_j = σ(X A_j + a_j) c_j + b_j,   W_ij = ‖A_ij·‖₂

All parameters are one matrix θ `[m, d]` with a column for every variable j and m = (d + 2)·units + 1 rows. The rows are
A (by input, then by unit), a, c and b. No variable predicts itself: A_jj = 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm
from scipy.optimize import Bounds, minimize

from ..admm.consensus import Broadcast, ConsensusSettings, Pull, Reply, consensus_admm, consensus_step
from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, Factor, NonNegative, Positive, Seed, Settings
from ..graphs.dag import break_cycles, topological_order
from ..graphs.structure import Structure

BLOCK = 15_000
"""number of values of hidden units per block of rows"""


@dataclass(frozen=True)
class WeightLayout:
    """The layout of the parameters of `d` perceptrons with `units` hidden units each in θ `[m, d]`."""

    d: int
    units: int

    @property
    def first(self) -> int:
        """The number of rows of A."""
        return self.d * self.units

    @property
    def m(self) -> int:
        """The number of rows of θ."""
        return self.first + 2 * self.units + 1

    @property
    def weights(self) -> NDArray[np.bool_]:
        """Whether each row of θ has weights, to which λ₂ applies, rather than biases, `[m]`."""
        weights = np.ones(self.m, dtype=bool)
        weights[self.first : self.first + self.units] = weights[-1] = False
        return weights

    def split(self, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """A `[d, units, d]` (input, unit, variable), a and c `[units, d]`, b `[d]`: views of θ."""
        a, c = self.first + self.units, self.first + 2 * self.units
        A = theta[: self.first].reshape(self.d, self.units, self.d)
        return A, theta[self.first : a], theta[a:c], theta[c]

    def adjacency(self, theta: FloatArray) -> FloatArray:
        """W `[d, d]`, the norms of the first-layer weights (Zheng et al. 2020, Eq. 12)."""
        A = self.split(theta)[0]
        return np.asarray(np.sqrt((A * A).sum(axis=1)))

    def free(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether each parameter `[m, d]` is free if only `edges` `[d, d]` are possible."""
        free = np.ones((self.m, self.d), dtype=bool)
        free[: self.first] = np.repeat(edges, self.units, axis=0)
        return free

    def start(self, seed: int) -> FloatArray:
        """Small random parameters, because with zeros all units would be identical and the gradient of A zero.

        As in the authors' program, A and a are uniform within ±1/√d, and c and b within ±1/√units.
        """
        rng = np.random.default_rng(seed)
        first, second = 1 / np.sqrt(self.d), 1 / np.sqrt(self.units)
        bound = np.full((self.m, 1), second)
        bound[: self.first + self.units] = first
        return np.where(self.free(~np.eye(self.d, dtype=bool)), rng.uniform(-bound, bound, (self.m, self.d)), 0.0)


def sort_rows(table: FloatArray) -> FloatArray:
    """The rows of `table`, sorted, so that rounding errors of sums do not depend on the order of the rows.

    The loss has many minima, and rounding errors can determine which one a search finds.
    """
    return np.ascontiguousarray(table[np.lexsort(table.T)])


def squared_loss(layout: WeightLayout, theta: FloatArray, table: FloatArray, rows: float) -> tuple[float, FloatArray]:
    """½/rows·‖X − X̂‖² for X = `table` `[n_rows, d]`, and its gradient in θ `[m, d]`.

    Rows are processed in blocks, so that their hidden units fit in the processor's cache.
    """
    block_rows = max(BLOCK // (layout.units * layout.d), 8)
    loss, gradient = 0.0, np.zeros_like(theta)
    for first in range(0, len(table), block_rows):
        loss += _add_block(layout, theta, table[first : first + block_rows], gradient)
    diagonal = np.arange(layout.d)
    layout.split(gradient)[0][diagonal, :, diagonal] = 0.0
    gradient /= rows
    return 0.5 * loss / rows, gradient


def ridged_loss(
    layout: WeightLayout, theta: FloatArray, table: FloatArray, rows: float, l2: float
) -> tuple[float, FloatArray]:
    """The squared loss plus ½λ₂(‖A‖² + ‖c‖²), and its gradient in θ `[m, d]`."""
    loss, gradient = squared_loss(layout, theta, table, rows)
    shrunk = l2 * layout.weights[:, None] * theta
    return loss + 0.5 * float(np.vdot(shrunk, theta)), gradient + shrunk


def acyclicity(layout: WeightLayout, theta: FloatArray) -> tuple[float, FloatArray]:
    """The penalty h = tr exp(W∘W) − d, and its gradient in the first-layer weights `[d·units, d]`."""
    A = layout.split(theta)[0]
    exponential = expm((A * A).sum(axis=1))
    slope = 2 * A * exponential.T[:, None, :]
    return float(np.trace(exponential)) - layout.d, slope.reshape(layout.first, layout.d)


def _add_block(layout: WeightLayout, theta: FloatArray, table: FloatArray, gradient: FloatArray) -> float:
    """The value ‖X − X̂‖² of a block of rows; adds the gradient of ½‖X − X̂‖² to `gradient`."""
    A, a, c, b = layout.split(theta)
    to_A, to_a, to_c, to_b = layout.split(gradient)
    n, d, units = len(table), layout.d, layout.units
    hidden = table @ A.reshape(d, units * d)
    hidden += a.reshape(-1)
    _sigmoid(hidden)
    cube = hidden.reshape(n, units, d)
    residual = np.einsum("nud,ud->nd", cube, c) + b - table
    to_c += np.einsum("nud,nd->ud", cube, residual)
    to_b += residual.sum(axis=0)
    cube *= 1.0 - cube
    cube *= residual[:, None, :]
    cube *= c
    to_a += cube.sum(axis=0)
    to_A += (table.T @ hidden).reshape(A.shape)
    return float(np.vdot(residual, residual))


def _sigmoid(z: FloatArray) -> None:
    """Replace `z` by 1/(1 + e^(−z)) = ½ + ½·tanh(z/2)."""
    z *= 0.5
    np.tanh(z, out=z)
    z *= 0.5
    z += 0.5


# NOTEARS-MLP-ADMM: consensus ADMM over the silos' perceptrons (Ng & Zhang 2022, §5.2; Zheng et al. 2020).
#
# The loop is that of `admm/consensus.py`. The parameters of silo p are θ_p `[m, d]`, and Θ are the global parameters.
# What leaves a silo: all of θ_p, and ‖θ_p − Θ‖², every round. What the server needs: the sums over the silos. A round
# costs a silo of n_p rows about twenty gradients, each of O(n_p·d²·units).


@dataclass(frozen=True)
class MlpSettings(Settings):
    """The network and its penalties (Zheng et al. 2020, §5 and their program)."""

    units: Count = 10
    """hidden sigmoid units of each variable's network"""
    l1: NonNegative = 0.01
    """λ₁, the price of a first-layer weight"""
    l2: NonNegative = 0.01
    """λ₂: a weight w of either layer costs ½λ₂w²"""
    init_seed: Seed = 0
    """seed of the small random initial weights of every silo"""
    threshold: NonNegative = 0.3
    """τ: edges whose norm of first-layer weights is at most this are dropped"""


@dataclass(frozen=True)
class MlpProblem:
    """A silo's problem: minimise ½/n̄·‖X − X̂‖² + ½λ₂(‖A‖² + ‖c‖²) plus the terms of consensus ADMM (`Pull`).

    n̄ is the mean number of rows of the silos. With it, in place of the silo's own number of rows, every row of the
    federation has the same weight.
    """

    layout: WeightLayout
    settings: MlpSettings
    steps: int
    table: FloatArray
    mean_rows: float

    def solve(self, pull: Pull) -> FloatArray:
        """θ `[m, d]` after at most `steps` steps of L-BFGS from the end of the last round (see `Problem`).

        Before the first round every silo starts from the same small random weights, so that the hidden units of all
        silos correspond and their mean is meaningful.
        """
        from scipy.optimize import minimize  # imported late, as in `admm.problem`

        shape = pull.start.shape
        start = pull.start if pull.start.any() else self.layout.start(self.settings.init_seed)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            theta = flat.reshape(shape)
            loss, gradient = ridged_loss(self.layout, theta, self.table, self.mean_rows, self.settings.l2)
            drawn = pull.r[:, None] * theta
            gradient += pull.linear + drawn
            value = loss + np.vdot(pull.linear, theta) + 0.5 * np.vdot(drawn, theta)
            return float(value), np.where(pull.allowed, gradient, 0.0).ravel()

        found = minimize(
            objective,
            np.where(pull.allowed, start, 0.0).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.steps, "maxfun": 2 * self.steps},
        )
        return np.asarray(found.x.reshape(shape))


@dataclass(frozen=True)
class MlpModel:
    """Perceptrons of one hidden layer; a silo takes `steps` L-BFGS steps a round (see `admm.problem.Model`)."""

    settings: MlpSettings
    steps: int

    def layout(self, d: int) -> WeightLayout:
        """The layout of the parameters."""
        return WeightLayout(d, self.settings.units)

    def rows(self, d: int) -> int:
        """The number of rows of θ: m = (d + 2)·units + 1."""
        return self.layout(d).m

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """All parameters except first-layer weights outside `edges` and those of a variable on itself."""
        return self.layout(len(edges)).free(edges & ~np.eye(len(edges), dtype=bool))

    def penalty_factors(self, d: int) -> FloatArray:
        """1 for first-layer weights and 0 for all others."""
        layout = self.layout(d)
        return np.repeat([1.0, 0.0], [layout.first, layout.m - layout.first])

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> MlpProblem:
        """The problem of the silo whose rows are `table` `[n_rows, d]`."""
        mean_rows = sum(schema.rows.values()) / len(schema.rows)
        return MlpProblem(self.layout(table.shape[1]), self.settings, self.steps, sort_rows(table), mean_rows)

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """The server's θ and h, from the step of the linear model on the norms W of the edges' weights.

        h depends only on the norms of the weights A_ij· of each edge, and the distance from `target` is least in the
        direction of `target`. So `consensus_step` optimises only the norms, and the weights of each edge shrink by a
        common factor. All other parameters are those of `target`.
        """
        layout = self.layout(target.shape[1])
        norms = layout.adjacency(target)
        inputs = curvature[: layout.first : layout.units]
        W, h = consensus_step(norms, np.minimum(layout.adjacency(start), norms), inputs, alpha, rho1, steps)
        shrink = np.divide(W, norms, out=np.ones_like(W), where=norms > 0)
        theta = target.copy()
        theta[: layout.first] *= np.repeat(shrink, layout.units, axis=0)
        return theta, h

    def to_adjacency(self, parameters: FloatArray) -> FloatArray:
        """The norms of the first-layer weights, `[d, d]`."""
        return self.layout(parameters.shape[1]).adjacency(parameters)


W_STEPS = 50
"""maximum number of steps of descent of the server in a round"""


@dataclass(frozen=True)
class NotearsMlpAdmm(ConsensusSettings, MlpSettings):
    """Settings of `notears-mlp-admm`.

    The authors' λ₂ and τ are 0.01 and 0.3. The order of the variables settles long before h vanishes. Later rounds,
    with an ever steeper penalty, add spurious edges, so the tolerances allow large h and residuals.
    """

    rho1: Positive = 0.1
    rho1_growth: Factor = 1.3
    rho2: Positive = 0.1
    l1: NonNegative = 0.01
    l2: NonNegative = 0.003
    threshold: NonNegative = 0.5
    h_tolerance: Positive = 1e-3
    tolerance: Positive = 0.2
    steps: Count = 20
    """L-BFGS steps of a silo a round"""


def build(settings: NotearsMlpAdmm) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """NOTEARS-MLP-ADMM."""
    return consensus_admm(settings, MlpModel(settings, settings.steps), l1_at_server=True, w_steps=W_STEPS)


# NOTEARS-MLP on one table: the augmented Lagrangian of Zheng et al. 2020, §4.3, as in their program.
#
#     minimise  ½/n ‖X − X̂‖² + λ₁‖A‖₁ + ½λ₂(‖A‖² + ‖c‖²)   subject to  h(W) = tr exp(W∘W) − d = 0
#
# A is split into A⁺ − A⁻, both nonnegative, which makes the problem smooth for L-BFGS-B.


RHO_MAX = 1e16
"""maximum of ρ, the weight of h²"""
SETTLED_H = 1e-3
"""with an h of at most this, the order of the variables counts as settled"""


@dataclass(frozen=True)
class NotearsMlp(MlpSettings):
    """Settings of `notears-mlp`, on one table."""

    rounds: Count = 100
    """maximum number of minimisations"""
    steps: Count = 15_000
    """maximum number of L-BFGS-B steps of each minimisation"""
    tolerance: Positive = 1e-7
    """a minimisation ends if a step decreases the objective by a smaller share than this"""


def notears_mlp(table: FloatArray, schema: Schema, settings: NotearsMlp) -> Structure:
    """The structure that NOTEARS-MLP learns from `table` `[n_rows, d]`; `schema` has one silo."""
    layout = WeightLayout(len(schema.variables), settings.units)
    theta = train(sort_rows(table), layout, settings, schema.knowledge.possible(schema.variables))
    return threshold_structure(layout, theta, schema.variables, settings.threshold)


def threshold_structure(
    layout: WeightLayout, theta: FloatArray, variables: tuple[str, ...], threshold: float
) -> Structure:
    """The edges whose norms in θ `[m, d]` are above τ, with the norms as weights and as scores."""
    norms = layout.adjacency(theta)
    return Structure(variables, np.where(norms > threshold, norms, 0.0), scores=norms)


def train(table: FloatArray, layout: WeightLayout, settings: NotearsMlp, possible: NDArray[np.bool_]) -> FloatArray:
    """The trained θ `[m, d]`, whose edges form a DAG and are among the `possible` edges `[d, d]`.

    If a round reduces h to a quarter or less, α grows by ρh. If not, ρ grows tenfold. Once h is small, the order of the
    variables counts as settled. The last minimisation, without α and ρ, is over the edges that respect this order. This
    is our addition: the authors continue to h = 1e-8, with an increasingly ill-conditioned problem.
    """
    theta, rho, alpha, h = layout.start(settings.init_seed), 1.0, 0.0, np.inf
    for _ in range(settings.rounds):
        theta = minimise(theta, table, layout, settings, possible, rho, alpha)
        reached = acyclicity(layout, theta)[0]
        if reached > 0.25 * h:
            rho *= 10
        else:
            h, alpha = reached, alpha + rho * reached
        if reached <= SETTLED_H or rho >= RHO_MAX:
            break
    return minimise(theta, table, layout, settings, possible & forward(layout.adjacency(theta)), 0.0, 0.0)


def forward(norms: FloatArray) -> NDArray[np.bool_]:
    """The edges `[d, d]` that respect a topological order of `norms` after removal of the weakest edges on cycles."""
    place = np.argsort(topological_order(break_cycles(norms)[0] != 0))
    return np.asarray(place[:, None] < place)


def minimise(
    theta: FloatArray,
    table: FloatArray,
    layout: WeightLayout,
    settings: NotearsMlp,
    edges: NDArray[np.bool_],
    rho: float,
    alpha: float,
) -> FloatArray:
    """The minimiser by L-BFGS-B from `theta`, over the `edges` `[d, d]`, for fixed ρ and α."""
    size, shape, first = theta.size, theta.shape, slice(layout.first)
    free = layout.free(edges)

    def theta_of(z: FloatArray) -> FloatArray:
        theta = z[:size].reshape(shape).copy()
        theta[first] -= z[size:].reshape(layout.first, layout.d)
        return theta

    def objective(z: FloatArray) -> tuple[float, FloatArray]:
        theta = theta_of(z)
        loss, gradient = ridged_loss(layout, theta, table, len(table), settings.l2)
        h, slope = acyclicity(layout, theta)
        gradient[first] += (alpha + rho * h) * slope
        size_of_A = z[: layout.first * layout.d].sum() + z[size:].sum()
        minus = settings.l1 - gradient[first]
        gradient[first] += settings.l1
        return loss + (alpha + 0.5 * rho * h) * h + settings.l1 * size_of_A, np.append(gradient, minus)

    theta = np.where(free, theta, 0.0)
    lower = np.where(np.arange(layout.m) < layout.first, 0.0, -np.inf)[:, None] + np.zeros_like(theta)
    upper = np.where(free, np.inf, 0.0)
    result = minimize(
        objective,
        np.append(np.maximum(theta, lower), np.maximum(-theta[first], 0.0)),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(np.append(lower, np.zeros_like(theta[first])), np.append(upper, upper[first])),
        options={"maxiter": settings.steps, "maxfun": 2 * settings.steps, "ftol": settings.tolerance},
    )
    return theta_of(result.x)
