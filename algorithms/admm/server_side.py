"""The server's side of consensus ADMM (000 Algorithm 1, 001 Algorithm 1): aggregate, dual update, convergence.

The server needs only ΣB_p: it follows Σβ_p itself by Σβ ← Σβ + ρ₂(ΣB_p − P·W), so a secure sum is enough. A run goes
through two phases. First h is driven towards zero with ρ₁ growing from a small start. Then, with `settle`, the order
of the variables is fixed and W is the (thresholded) mean over the entries that respect it: the exact consensus lasso.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..graphs.dag import break_cycles
from ..graphs.structure import Structure
from ..protocol import FloatArray, Replies, Schema
from .consensus_step import consensus_step, soft_threshold
from .messages import change_between, hold_back
from .order import forward, settled_order
from .settings import ConsensusSettings
from .silo_side import Broadcast, Reply, held, l1_weights

# Sums of changes leave rounding where an entry has gone back to zero: anything below this is zero.
NOTHING = 1e-10
# Rounds kept in hand for the second phase when the first one would use them all up.
RESERVE = 15
# A further pass starts from this times the first ρ₁: warm enough to turn edges, not to forget the structure.
REHEAT = 10
# An order settles on edges at least this fraction of the threshold strong; weaker ones are noise.
WEAK = 1 / 3


@dataclass(frozen=True)
class Server:
    """The server's state: nothing of it comes from one silo alone."""

    variables: tuple[str, ...]
    silos: int
    number: int
    W: FloatArray
    W_known: FloatArray
    """W as the silos know it"""
    B_sum: FloatArray
    beta_sum: FloatArray
    scale: FloatArray
    """what penalties are measured in, `[d]`; ones until the first replies"""
    alpha: float
    rho1: float
    rho2: float
    place: NDArray[np.int64]
    """each variable's place in the settled order; empty in the first phase"""
    in_phase: int
    passes: int
    news: bool
    h: float
    primal: float
    dual: float


def open_server(schema: Schema, settings: ConsensusSettings) -> Server:
    """Return the state before round 1: W = 0, no duals."""
    d, P = len(schema.variables), len(schema.rows)
    zero = np.zeros((d, d))
    return Server(
        variables=schema.variables,
        silos=P,
        number=0,
        W=zero,
        W_known=zero,
        B_sum=zero,
        beta_sum=zero,
        scale=np.ones(d),
        alpha=0.0,
        rho1=settings.rho1 * P,
        rho2=settings.rho2,
        place=np.empty(0, dtype=np.int64),
        in_phase=0,
        passes=0,
        news=False,
        h=0.0,
        primal=np.inf,
        dual=np.inf,
    )


def broadcast(server: Server, settings: ConsensusSettings) -> Broadcast:
    """Return what all silos are told: the change of W since they last heard, ρ₂, new scales, a new order."""
    scale = server.scale if server.number == 1 and settings.scaled else np.empty(0)
    place = server.place if server.news else np.empty(0, dtype=np.int64)
    return Broadcast(change_between(server.W_known, server.W), server.rho2, scale, place, server.news)


def aggregate(server: Server, replies: Replies[Reply], settings: ConsensusSettings, l1: float) -> Server:
    """Return the state with the new W: 000 Eq. 5 (`l1` = 0) or 001 Eq. 3, by `consensus_step` or under the order."""
    assert replies.total is not None
    d, P = len(server.variables), server.silos
    B_sum = server.B_sum + replies.total[: d * d].reshape(d, d)
    first = server.number == 0 and settings.scaled
    scale = replies.total[d * d : d * d + d] / P if first else server.scale
    r = server.rho2 * scale
    target = (B_sum + server.beta_sum / r[:, None]) / P
    target = soft_threshold(target, (l1_weights(l1, scale) / r)[:, None])
    target = np.where(forward(server.place, d) & (np.abs(target) > NOTHING), target, 0.0)
    if len(server.place):
        W, h = target, 0.0
    else:
        W, h = consensus_step(target, server.W, P * r / scale.min(), server.alpha, server.rho1, settings.w_steps)
    W = np.where(forward(server.place, d), hold_back(server.W, W, held(settings.hold, scale)), 0.0)
    size = max(float(np.sqrt(scale @ (W * W).sum(axis=1))), float(np.sqrt(scale.min())))
    moved = W - server.W
    return replace(
        server,
        number=server.number + 1,
        W=W,
        W_known=server.W,
        B_sum=B_sum,
        scale=scale,
        h=h,
        in_phase=server.in_phase + 1,
        primal=float(np.sqrt(replies.total[-1] / P)) / size if server.number else np.inf,
        dual=float(np.sqrt(scale @ (moved * moved).sum(axis=1))) / size,
    )


def dual_update(server: Server, settings: ConsensusSettings) -> Server:
    """Return the state with Σβ, α, ρ₁, ρ₂ updated (001 Eq. 4-7) and the phase that comes next."""
    r = server.rho2 * server.scale
    server = replace(
        server,
        beta_sum=server.beta_sum + r[:, None] * (server.B_sum - server.silos * server.W),
        alpha=server.alpha + server.rho1 * server.h,
        rho1=server.rho1 * (1.0 if len(server.place) else settings.rho1_growth),
        rho2=server.rho2 * settings.rho2_growth,
        news=False,
    )
    if not settings.settle:
        return server
    if not len(server.place):
        ripe = server.h < settings.settle_h and server.in_phase > 2
        return _settled(server, settings) if ripe or server.number >= settings.rounds - RESERVE else server
    if (
        _agreed(server, settings)
        and server.passes + 1 < settings.passes
        and server.number + 2 * RESERVE < settings.rounds
    ):
        return _released(server, settings)
    return server


def converged(server: Server, settings: ConsensusSettings) -> bool:
    """Return whether W is acyclic and the silos agree on it, to the tolerances."""
    if settings.settle:
        return bool(len(server.place)) and _agreed(server, settings)
    left_zero = bool(server.W.any())
    return left_zero and server.h < settings.h_tolerance and _agreed(server, settings)


def structure(server: Server, settings: ConsensusSettings) -> Structure:
    """Return W without the entries of at most `threshold`; `scores` are the weights before it."""
    weights = np.where(np.abs(server.W) > settings.threshold, server.W, 0.0)
    if settings.repair:
        weights, _ = break_cycles(weights)
    return Structure(server.variables, weights, scores=np.abs(server.W))


def measures(server: Server, settings: ConsensusSettings) -> dict[str, float]:
    """Return what to follow: h, the relative residuals, edges above the threshold, ρ₁ and the phase (1 or 2)."""
    return {
        "h": server.h,
        "primal": server.primal if np.isfinite(server.primal) else 1.0,
        "dual": server.dual,
        "edges": float((np.abs(server.W) > settings.threshold).sum()),
        "rho1": server.rho1,
        "phase": 2.0 if len(server.place) else 1.0,
    }


def _agreed(server: Server, settings: ConsensusSettings) -> bool:
    return server.in_phase > 2 and server.primal < settings.tolerance and server.dual < settings.tolerance


def _settled(server: Server, settings: ConsensusSettings) -> Server:
    strength = np.abs(server.W) * np.sqrt(server.scale / server.scale.min())[:, None]
    strength = np.where(np.abs(server.W) > WEAK * settings.threshold, strength, 0.0)
    return replace(server, place=settled_order(strength), in_phase=0, news=True)


def _released(server: Server, settings: ConsensusSettings) -> Server:
    """Take the order back and start h from a penalty between the first and the last: a second look at wrong turns."""
    return replace(
        server,
        place=np.empty(0, dtype=np.int64),
        in_phase=0,
        passes=server.passes + 1,
        news=True,
        alpha=0.0,
        rho1=settings.rho1 * server.silos * REHEAT,
    )
