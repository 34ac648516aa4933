"""NOTEARS-MLP on one table: the augmented Lagrangian of Zheng et al. 2020, §4.3, as in their program.

    minimise  ½/n ‖X − X̂‖² + λ₁‖A‖₁ + ½λ₂(‖A‖² + ‖c‖²)   subject to  h(W) = tr exp(W∘W) − d = 0

A is split into A⁺ − A⁻, both nonnegative, which makes the problem smooth for L-BFGS-B.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, minimize

from ..core.schema import FloatArray, Schema
from ..core.settings import Count, Positive
from ..graphs.dag import break_cycles, topological_order
from ..graphs.structure import Structure
from .network import MlpSettings, WeightLayout, acyclicity, ridged_loss, sort_rows

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
