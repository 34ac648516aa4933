"""The server of DP-Fed-Sparse-BNSL with `acyclicity=order`: W respects an order of the variables.

The order replaces NOTEARS' penalty h(W), and is that of errors with equal variances (Chen et al. 2019). With h, many
noisy rounds are needed to remove cycles. But the released numbers define a model: the weights W, which respect an
order, and the standard deviations v of the residuals imply the covariance Σ = A⁻ᵀ diag(v²) A⁻¹ with A = I − W. If the
errors have equal variances, Σ determines the order (`moments/equal_variance.py`). If the old order was wrong, the
residual variances differ, and another order is found. This costs no privacy, because it uses only released numbers.

In a round, each silo starts from W, takes K private steps within the order, and measures the spread of the residuals
under W. The server combines the steps: an entry moves by Σ_p w_p δ_p / (a·m + (1 − a)·w), where δ_p is the change of
the entry at silo p, w_p = n_p·P/N its weight (mean 1), w = Σ_p w_p over all silos, m the same sum over the silos that
moved the entry, and a is `PARTIAL_STEP_WEIGHT`. With a = 1 this would be the mean over the silos that moved the entry;
with a = 0 the other silos would count with a step of zero. The entry is then soft-thresholded by σ/√m, where σ is the
standard deviation of the noise in w_p δ_p after one step. It is the same for all silos, because the noise of a step is
inversely proportional to the rows. If all silos have equally many rows, σ/√m is the deviation that noise alone causes
in the mean over the silos that moved the entry; otherwise it is an approximation. The measured spread also sets the
clipping bounds of the next round.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..admm.acyclicity import soft_threshold
from ..admm.consensus import change_between
from ..admm.model_metric import implied_covariance
from ..admm.orders import forward
from ..core.protocol import Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure
from ..moments.equal_variance import equal_variance
from .plan import plan
from .settings import DpFedSparse
from .silo import SPREAD_CAP, Broadcast, Reply, clip_of, estimate_scales, public_scales, steps_packing
from .step_noise import deviations

FINAL_ROUNDS = 2
"""number of last rounds in which the order is fixed, so that recently reversed edges are still fitted"""
PASSES = 5
"""maximum number of passes of moves that improve the order"""
PRICE_OF_STEP_NOISE, MIN_PRICE, MAX_PRICE = 6.0, 0.05, 0.12
"""the share of the least variance that a parent must explain is the first number times the standard deviation of the
noise in a step, but at least the second and at most the third number"""
MIN_SPREAD, MAX_SPREAD = 0.5, 1.2
"""lower bound on the spread of residuals, in units of the smallest scale, and upper bound, in units of the variable's
own scale"""
PARTIAL_STEP_WEIGHT = 0.7
"""a: weight of an entry's step that only some silos take, in the mean over all silos"""
MIN_WEIGHT = 1e-12
"""avoids division by zero for entries that no silo moved"""


@dataclass(frozen=True)
class Server:
    """The server's state, computed only from released numbers."""

    variables: tuple[str, ...]
    rows: dict[str, int]
    number: int
    """number of finished exchanges"""
    scales: FloatArray
    """each variable's standard deviation, `[d]`; empty before its release"""
    spread: FloatArray
    """v, the standard deviation of each variable's residuals, `[d]`; if empty, `scales` are used"""
    W: FloatArray
    """the weights `[d, d]`: W[i, j] of i → j, zero against the order"""
    place: NDArray[np.int64]
    """each variable's position in the order; if empty, variables are ordered by scale"""
    noise: float
    """standard deviation of the noise of a step taken by all silos, if parent and residuals have the same scale"""
    moved: float
    """‖change of W‖ in the last round, divided by ‖W‖ before or after the round, whichever is larger"""


def open_server(schema: Schema, settings: DpFedSparse) -> Server:
    """The state before round 1. Raises `BadInput` for a budget or a silo that allows no plan."""
    d, none = len(schema.variables), np.empty(0, dtype=np.int64)
    every_row, silos = sum(schema.rows.values()), len(schema.rows)
    # The gradient of silo p has noise of deviation 2·L·s/n_p (L: reach, s: deviation in the plan); its weighted mean
    # over P silos has 2·L·s·√P/N.
    noise = 2 * _unit_reach(settings, d) * np.sqrt(silos) / every_row * plan(settings, schema).noise.deviation
    known, zero = public_scales(settings, schema), np.zeros((d, d))
    rows = dict(sorted(schema.rows.items()))
    return Server(schema.variables, rows, 0, known, np.empty(0), zero, none, float(noise), 1.0)


def broadcast(server: Server) -> Broadcast:
    """The next broadcast."""
    spread, place = server.spread, server.place
    if len(server.scales) and not len(spread):
        spread, place = server.scales, np.argsort(np.argsort(server.scales, kind="stable"))
    return Broadcast(server.scales, spread, change_between(np.zeros_like(server.W), server.W), place)


def aggregate(server: Server, replies: Replies[Reply], settings: DpFedSparse) -> Server:
    """The state after the silos' steps; in the first exchange, with the variables' scales."""
    d, message = len(server.variables), broadcast(server)
    silo_weights = (
        np.array([server.rows[silo] for silo in replies.silos]) * len(server.rows) / sum(server.rows.values())
    )
    weight, number = float(silo_weights.sum()), server.number + 1
    if not len(server.scales):
        found = estimate_scales(replies.total, weight, server.variables, settings)
        return replace(server, number=number, scales=found)
    sent = steps_packing(d, settings).unpack(replies.total)
    truncated_squares = sent["spread"] / weight
    W = apply_steps(server.W, sent["change"], sent["moving"], weight, step_noise(server, message, settings))
    low, high = MIN_SPREAD * message.scales.min(), MAX_SPREAD * message.scales
    spread = np.clip(SPREAD_CAP * message.spread * deviations(truncated_squares), low, high)
    place = message.place
    if number <= settings.exchanges - FINAL_ROUNDS:
        W, place = refit_order(W, spread, min_share(server.noise, settings), settings)
    size = max(float(np.linalg.norm(W)), float(np.linalg.norm(server.W)), 1e-300)
    moved = float(np.linalg.norm(W - server.W)) / size
    return replace(server, number=number, W=W, spread=spread, place=place, moved=moved)


def step_noise(server: Server, message: Broadcast, settings: DpFedSparse) -> FloatArray:
    """The standard deviation of the noise in an entry after one step of one silo, `[d, d]`."""
    M = message.scales**2
    reach = clip_of(settings, message.scales, message.spread, M).reach / _unit_reach(settings, len(M))
    return np.asarray(settings.gamma * server.noise * np.sqrt(len(server.rows)) * reach / M[:, None])


def apply_steps(W: FloatArray, change: FloatArray, moving: FloatArray, weight: float, noise: FloatArray) -> FloatArray:
    """W after the silos' steps.

    `change` is the weighted sum of the steps, `moving` the weight of the silos that moved each entry, and `noise` the
    standard deviation of the noise of one silo's step; all are `[d, d]`. `weight` is the total weight of the silos.
    """
    shared = PARTIAL_STEP_WEIGHT * moving + (1 - PARTIAL_STEP_WEIGHT) * weight
    W = W + change / np.maximum(shared, MIN_WEIGHT)
    threshold = noise / np.sqrt(np.maximum(moving, MIN_WEIGHT))
    return np.where(moving > 0, soft_threshold(W, threshold), W)


def min_share(noise: float, settings: DpFedSparse) -> float:
    """The share of the least variance that a parent must explain: the setting `price` or, if it is 0, by the noise."""
    return settings.price or min(max(PRICE_OF_STEP_NOISE * noise, MIN_PRICE), MAX_PRICE)


def refit_order(
    W: FloatArray, spread: FloatArray, price: float, settings: DpFedSparse
) -> tuple[FloatArray, NDArray[np.int64]]:
    """W and each variable's position in the order implied by the model of W and the residuals' `spread` `[d]`.

    A parent must explain at least the share `price` of the least variance. If the new order reverses an edge, both of
    its variables get the weights of the model.
    """
    model = equal_variance(implied_covariance(W, spread**2), price, settings.max_parents, PASSES)
    place = np.argsort(model.order)
    reversed_edges = (W != 0) & ~forward(place, len(W))
    return np.where(reversed_edges.any(axis=0) | reversed_edges.any(axis=1), model.weights, W), place


def sparse(server: Server, settings: DpFedSparse) -> Sparse | None:
    """The positions at which the summands of this round may be nonzero: the entries that the order allows."""
    if not len(server.scales):
        return None
    d = len(server.variables)
    free = forward(broadcast(server).place, d)
    return steps_packing(d, settings).sparse(change=free, moving=free, spread=True)


def structure(server: Server, settings: DpFedSparse) -> Structure:
    """W without entries of absolute value at most `threshold`; `scores` are all absolute values."""
    weights = np.where(np.abs(server.W) > settings.threshold, server.W, 0.0)
    return Structure(server.variables, weights, scores=np.abs(server.W))


def measures(server: Server, settings: DpFedSparse) -> dict[str, float]:
    """The measures of a round: edges above the threshold, the change of W, the noise of a step of all silos."""
    edges = float((np.abs(server.W) > settings.threshold).sum())
    return {"edges": edges, "moved": server.moved, "noise": server.noise}


def _unit_reach(settings: DpFedSparse, d: int) -> float:
    """The maximum contribution of a record to a gradient if all d variables and residuals have standard deviation 1."""
    one = np.ones(d)
    return float(clip_of(settings, one, one, one).reach.max())
