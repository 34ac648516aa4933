"""The server of DP-Fed-Sparse-BNSL for equal error variances: an order replaces h (ours; Chen et al. 2019).

NOTEARS' h needs many noisy rounds to break cycles. But what is released defines a model: the weights W, which respect
an order, and the standard deviations v of the residuals imply the covariance Σ = A⁻ᵀ diag(v²) A⁻¹ with A = I − W. If
the errors have equal variances, Σ determines the order (`moments/equal_variance.py`); if the old order was wrong, the
residual variances differ, and another order is found. All of this is post-processing.

A round: the silos start from W, take K private steps each within the order, and measure how far the residuals under W
spread. The server adds the steps up: an entry moves by Σ_p w_p δ_p / (a·m + (1 − a)·P), with m the weight of the silos
that moved it. With a = 1 this is their mean; with a = 0 the other silos count as not having moved it. The entry is then
shrunk towards zero by τ·σ/√m, as far as the noise of so few silos could have moved it. The measured spread also sets
the clipping bounds of the next round.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..admm.consensus import change_between
from ..admm.order_refinement import forward, implied_covariance
from ..admm.problem import soft_threshold
from ..core.protocol import Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..graphs.structure import Structure
from ..moments.equal_variance import equal_variance
from .settings import DpFedSparse, plan
from .silo import CAP, Broadcast, Reply, clip_of, first_scales, found_scales, steps_packing
from .step_noise import deviations

# The order is kept in the last rounds, so that edges turned last are still fitted.
SETTLED = 2
# The variance a parent must explain, in units of the least variance: per standard deviation of the noise in a step, and
# its minimum and maximum.
PRICE_OF_STEP_NOISE, LEAST_PRICE, MOST_PRICE = 6.0, 0.05, 0.12
# Bounds for the spread of residuals: in units of the smallest scale, and of their own variable's scale.
LEAST, MOST = 0.5, 1.2
# Avoids division by zero where no silo moved an entry.
NOBODY = 1e-12


@dataclass(frozen=True)
class Server:
    """The server's state; all of it follows from what was released."""

    variables: tuple[str, ...]
    rows: dict[str, int]
    number: int
    scales: FloatArray
    """each variable's deviation, `[d]`; empty until known"""
    spread: FloatArray
    """v, the deviation of each variable's residuals, `[d]`; empty: that of the variable"""
    W: FloatArray
    place: NDArray[np.int64]
    """each variable's place in the order; empty: by scale"""
    noise: float
    """deviation of the noise of a step that all silos take at once, where parent and residuals are of one scale"""
    moved: float
    """‖change of W‖ over ‖W‖ in the last round"""


def open_server(schema: Schema, settings: DpFedSparse) -> Server:
    """The state before round 1. Raises `BadInput` for a budget or a silo that allows no plan."""
    d, none = len(schema.variables), np.empty(0, dtype=np.int64)
    every_row, silos = sum(schema.rows.values()), len(schema.rows)
    noise = 2 * _unit_reach(settings, d) * np.sqrt(silos) / every_row * plan(settings, schema).noise.deviation
    known, zero = first_scales(settings, schema), np.zeros((d, d))
    rows = dict(sorted(schema.rows.items()))
    return Server(schema.variables, rows, 0, known, np.empty(0), zero, none, float(noise), 1.0)


def broadcast(server: Server) -> Broadcast:
    """The next broadcast."""
    spread, place = server.spread, server.place
    if len(server.scales) and not len(spread):
        spread, place = server.scales, _places(np.argsort(server.scales, kind="stable"))
    return Broadcast(server.scales, spread, change_between(np.zeros_like(server.W), server.W), place)


def aggregate(server: Server, replies: Replies[Reply], settings: DpFedSparse) -> Server:
    """The state with the silos' steps, or first their variables' scales, taken in."""
    assert replies.total is not None
    d, message = len(server.variables), broadcast(server)
    each = np.array([server.rows[silo] for silo in replies.silos]) * len(server.rows) / sum(server.rows.values())
    weight, number = float(each.sum()), server.number + 1
    if not len(server.scales):
        found = found_scales(replies.total, weight, server.variables, settings)
        return replace(server, number=number, scales=found)
    sent = steps_packing(d, settings).unpack(replies.total)
    shares = sent["spread"] / weight
    W = stepped(server.W, sent["change"], sent["moving"], weight, step_noise(server, message, settings), settings)
    spread = np.clip(CAP * message.spread * deviations(shares), LEAST * message.scales.min(), MOST * message.scales)
    place = message.place
    if number <= settings.exchanges - SETTLED:
        W, place = reordered(W, spread, price(server.noise, settings), settings)
    size = max(float(np.linalg.norm(W)), float(np.linalg.norm(server.W)), 1e-300)
    moved = float(np.linalg.norm(W - server.W)) / size
    return replace(server, number=number, W=W, spread=spread, place=place, moved=moved)


def step_noise(server: Server, message: Broadcast, settings: DpFedSparse) -> FloatArray:
    """The standard deviation of what noise does to an entry in one step of one silo, `[d, d]`."""
    M = message.scales**2
    reach = clip_of(settings, message.scales, message.spread, M).reach / _unit_reach(settings, len(M))
    return np.asarray(settings.gamma * server.noise * np.sqrt(len(server.rows)) * reach / M[:, None])


def stepped(
    W: FloatArray, change: FloatArray, moving: FloatArray, weight: float, lone: FloatArray, settings: DpFedSparse
) -> FloatArray:
    """W after the silos' steps: their weighted sum is `change`, the weight of those who moved each `moving`.

    `lone` is the noise of one silo's step; all `[d, d]`, the silos' whole `weight` a number.
    """
    W = W + change / np.maximum(settings.solo * moving + (1 - settings.solo) * weight, NOBODY)
    by = settings.doubt * lone / np.sqrt(np.maximum(moving, NOBODY))
    return np.where(moving > 0, soft_threshold(W, by), W)


def price(noise: float, settings: DpFedSparse) -> float:
    """The variance a parent must explain: as the settings say, or growing with the noise in a weight."""
    return settings.price or min(max(PRICE_OF_STEP_NOISE * noise, LEAST_PRICE), MOST_PRICE)


def reordered(
    W: FloatArray, spread: FloatArray, least: float, settings: DpFedSparse
) -> tuple[FloatArray, NDArray[np.int64]]:
    """W, and each variable's place, in the order that the model of W and the residuals' `spread` `[d]` implies.

    Where the new order turns an edge, both its variables take the model's own weights.
    """
    model = equal_variance(implied_covariance(W, spread**2), least, settings.most_parents, settings.passes)
    place = _places(model.order)
    turned = (W != 0) & ~forward(place, len(W))
    return np.where(turned.any(axis=0) | turned.any(axis=1), model.weights, W), place


def sparse(server: Server, settings: DpFedSparse) -> Sparse | None:
    """Where the summands of this round may differ from zero: in the entries that the order allows."""
    if not len(server.scales):
        return None
    d = len(server.variables)
    free = forward(broadcast(server).place, d)
    return steps_packing(d, settings).sparse(change=free, moving=free, spread=True)


def structure(server: Server, settings: DpFedSparse) -> Structure:
    """W without the entries of at most `threshold`; `scores` are the weights before it."""
    weights = np.where(np.abs(server.W) > settings.threshold, server.W, 0.0)
    return Structure(server.variables, weights, scores=np.abs(server.W))


def measures(server: Server, settings: DpFedSparse) -> dict[str, float]:
    """Return what to follow: edges above the threshold, how far W moved, the noise of a step of all silos."""
    edges = float((np.abs(server.W) > settings.threshold).sum())
    return {"edges": edges, "moved": server.moved, "noise": server.noise}


def _unit_reach(settings: DpFedSparse, d: int) -> float:
    """Return what a record can add to a gradient where all of d variables and residuals have the deviation 1."""
    one = np.ones(d)
    return float(clip_of(settings, one, one, one).reach.max())


def _places(order: NDArray[np.int64]) -> NDArray[np.int64]:
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return place
