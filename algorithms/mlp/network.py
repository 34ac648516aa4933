"""The model of NOTEARS-MLP: a perceptron with one hidden layer of sigmoid units predicts each variable from all others.

Source: Zheng et al. 2020, §3.2 and §4.3.

    x̂_j = σ(X A_j + a_j) c_j + b_j,   W_ij = ‖A_ij·‖₂

All parameters are one matrix θ `[m, d]` with a column for every variable j and m = (d + 2)·units + 1 rows. The rows are
A (by input, then by unit), a, c and b. No variable predicts itself: A_jj = 0.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from ..core.schema import FloatArray
from ..core.settings import Count, NonNegative, Seed, Settings

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
