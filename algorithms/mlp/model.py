"""NOTEARS-MLP as a model of consensus ADMM: what a silo solves, and what the server does with the mean.

Source: Ng & Zhang 2022, §5.2; Zheng et al. 2020.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from ..admm.consensus_step import consensus_step
from ..admm.problem import Pull
from ..core.schema import FloatArray, Schema
from .network import WeightLayout, in_one_order, ridged_loss
from .settings import MlpSettings


@dataclass(frozen=True)
class MlpProblem:
    """A silo's problem: ½/n̄·‖X − X̂‖² + ½λ₂(‖A‖² + ‖c‖²) plus the pull, n̄ the silos' mean number of rows.

    Weighted like this, every row of the federation counts the same.
    """

    layout: WeightLayout
    settings: MlpSettings
    steps: int
    table: FloatArray
    mean_rows: float

    def solve(self, pull: Pull) -> FloatArray:
        """Return θ `[m, d]` after some steps of L-BFGS from where the last round ended (see `Problem`).

        Before the first round every silo starts from the same small random weights, so that the hidden units of all
        silos stay in one order and their mean means something.
        """
        shape = pull.start.shape
        start = pull.start if pull.start.any() else self.layout.start(self.settings.start)

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
    """Perceptrons of one hidden layer, whose silos take `steps` L-BFGS steps a round (see `admm.problem.Model`)."""

    settings: MlpSettings
    steps: int

    def layout(self, d: int) -> WeightLayout:
        """Return where the parameters stand."""
        return WeightLayout(d, self.settings.units)

    def rows(self, d: int) -> int:
        """Return m = (d + 2)·units + 1."""
        return self.layout(d).m

    def possible(self, edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return all parameters but the first-layer weights of pairs that are no `edges`, and of a variable itself."""
        return self.layout(len(edges)).free(edges & ~np.eye(len(edges), dtype=bool))

    def prices(self, d: int) -> FloatArray:
        """Return 1 for first-layer weights and 0 for all others."""
        layout = self.layout(d)
        return np.repeat([1.0, 0.0], [layout.first, layout.m - layout.first])

    def problem(self, table: FloatArray, schema: Schema, silo: str) -> MlpProblem:
        """Return the problem of the silo whose rows are `table` `[n_rows, d]`."""
        mean_rows = sum(schema.rows.values()) / len(schema.rows)
        return MlpProblem(self.layout(table.shape[1]), self.settings, self.steps, in_one_order(table), mean_rows)

    def nearest(
        self, target: FloatArray, start: FloatArray, curvature: FloatArray, alpha: float, rho1: float, steps: int
    ) -> tuple[FloatArray, float]:
        """Return the server's θ and h: the linear model's step, on the norms W.

        h and the distance depend on the weights A_ij· of an edge only through their norm and their direction, and at
        the minimum their direction is the target's. So the norms alone are sought, by `consensus_step`, and the
        weights of each edge shrink together. What is not of the first layer is as in `target`.
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
        """Return the norms of the first-layer weights, `[d, d]`."""
        return self.layout(parameters.shape[1]).adjacency(parameters)
