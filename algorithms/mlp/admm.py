"""NOTEARS-MLP-ADMM: consensus ADMM over the silos' perceptrons (Ng & Zhang 2022, §5.2; Zheng et al. 2020).

The loop is that of `admm/consensus.py`. The parameters of silo p are θ_p `[m, d]`, and Θ are the global parameters.
What leaves a silo: all of θ_p, and ‖θ_p − Θ‖², every round. What the server needs: the sums over the silos. A round
costs a silo of n_p rows about twenty gradients, each of O(n_p·d²·units).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..admm.acyclicity import consensus_step
from ..admm.consensus import Broadcast, Reply, consensus_admm
from ..admm.problem import Pull
from ..admm.settings import ConsensusSettings
from ..core.protocol import FederatedAlgorithm
from ..core.schema import FloatArray, Schema
from ..core.settings import Count, Factor, NonNegative, Positive
from ..published import presets_of
from .network import MlpSettings, WeightLayout, ridged_loss, sort_rows


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
    mean_loss: bool = False
    """ρ₂ weighs against the mean of the silos' losses, as in the program of Ng & Zhang, and not against their sum"""


PRESETS = presets_of("notears-mlp-admm", NotearsMlpAdmm)


def build(settings: NotearsMlpAdmm) -> FederatedAlgorithm[Any, Any, Broadcast, Reply]:
    """NOTEARS-MLP-ADMM."""
    model = MlpModel(settings, settings.steps)
    return consensus_admm(settings, model, l1_at_server=True, mean_loss=settings.mean_loss, w_steps=W_STEPS)
