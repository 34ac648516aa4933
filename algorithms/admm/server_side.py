"""The server's side of consensus ADMM (000 Algorithm 1, 001 Algorithm 1): aggregate, dual update, convergence.

The server needs only ΣB_p: it follows Σβ_p itself by Σβ ← Σβ + ρ₂(ΣB_p − P·W), so a secure sum is enough. A run goes
through three phases. First h is driven towards zero with ρ₁ growing from a small start. Then, with `settle`, the order
of the variables is fixed and W is the (thresholded) mean over the entries that respect it: the exact consensus lasso.
Where that has converged, the silos judge moves that would turn an edge, and a better order settles anew. Last, the
lasso is relaxed: what it kept is fitted again without λ.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Replies, Sparse
from ..core.schema import FloatArray, Schema
from ..graphs.dag import break_cycles
from ..graphs.structure import Structure
from .consensus_step import consensus_step, soft_threshold
from .messages import change_between, hold_back
from .order import forward, settled_order
from .settings import ConsensusSettings
from .silo_side import Broadcast, Reply, held, l1_weights
from .turns import NONE, Moves, proposals, turned

# Sums of changes leave rounding where an entry has gone back to zero: anything below this is zero.
NOTHING = 1e-10
# Rounds left over for the second phase when the first one would use them all up.
RESERVE = 15
# From a loose start after a change of the free entries, ρ₂ tightens by this factor a round, up to what it was before.
TIGHTEN = 1.2
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
    support: NDArray[np.bool_]
    """entries still free, `[d, d]`"""
    relaxable: bool
    """whether λ is well above the noise √(2 ln d / n), n all rows, so that taking it off lets truth in, not chance"""
    relaxed: bool
    """whether λ is zero now"""
    moves: Moves
    """moves the silos are to judge in the next round"""
    judged: FloatArray
    """the silos' sum of variance changes under each of them"""
    worth: float
    """by what share of the least mean square a move must lower the silos' mean variance: d over their mean rows"""
    turns: int
    """how often moves have been judged; all the settings allow once none was worth taking"""
    news: bool
    """whether the silos have yet to hear of `place`"""
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
        support=~np.eye(d, dtype=bool),
        relaxable=settings.relax and settings.l1 > float(np.sqrt(2 * np.log(d) / sum(schema.rows.values()))),
        relaxed=False,
        moves=NONE,
        judged=np.empty(0),
        worth=d * P / sum(schema.rows.values()),
        turns=0,
        news=False,
        h=0.0,
        primal=np.inf,
        dual=np.inf,
    )


def broadcast(server: Server, settings: ConsensusSettings) -> Broadcast:
    """Return what all silos are told: the change of W since they last heard, ρ₂, new scales, a new order."""
    scale = server.scale if server.number == 1 and settings.scaled else np.empty(0)
    place = server.place if server.news else np.empty(0, dtype=np.int64)
    return Broadcast(change_between(server.W_known, server.W), server.rho2, scale, place, server.moves, server.relaxed)


def sparse(server: Server) -> Sparse | None:
    """Return where this round's summands may differ from zero: once the order has settled, in what it leaves free.

    In the round that brings a new order or support, what is no longer free goes back to zero: that one is dense.
    """
    if not len(server.place) or server.in_phase == 0:
        return None
    d = len(server.variables)
    free = (forward(server.place, d) & server.support) | np.eye(d, dtype=bool)
    after = d * d + d  # the mean squares, sent in the first round only, lie in between
    length = after + 1 + len(server.moves)
    return Sparse(np.concatenate([np.flatnonzero(free), np.arange(after, length)]), length)


def aggregate(server: Server, replies: Replies[Reply], settings: ConsensusSettings, l1: float) -> Server:
    """Return the state with the new W: 000 Eq. 5 (`l1` = 0) or 001 Eq. 3, by `consensus_step` or under the order."""
    assert replies.total is not None
    d, P = len(server.variables), server.silos
    B_sum = server.B_sum + replies.total[: d * d].reshape(d, d)
    first = server.number == 0 and settings.scaled
    scale = replies.total[d * d : d * d + d] / P if first else server.scale
    r = server.rho2 * scale
    target = (B_sum + server.beta_sum / r[:, None]) / P
    allowed = forward(server.place, d) & server.support
    target = soft_threshold(target, (l1_weights(0.0 if server.relaxed else l1, scale) / r)[:, None])
    target = np.where(allowed & (np.abs(target) > NOTHING), target, 0.0)
    if len(server.place):
        W, h = target, 0.0
    else:
        W, h = consensus_step(target, server.W, P * r / scale.min(), server.alpha, server.rho1, settings.w_steps)
    W = np.where(allowed, hold_back(server.W, W, held(settings.hold, scale)), 0.0)
    size = max(float(np.sqrt(scale @ (W * W).sum(axis=1))), float(np.sqrt(scale.min())))
    moved = W - server.W
    return replace(
        server,
        number=server.number + 1,
        W=W,
        W_known=server.W,
        B_sum=B_sum,
        scale=scale,
        judged=replies.total[d * d + d + 1 :],
        h=h,
        in_phase=server.in_phase + 1,
        primal=float(np.sqrt(replies.total[d * d + d] / P)) / size if server.number else np.inf,
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
        rho2=_next_rho2(server, settings),
        news=False,
    )
    if not settings.settle:
        return server
    if not len(server.place):
        ripe = server.h < settings.settle_h and server.in_phase > 2
        return _settled(server, settings) if ripe or server.number >= settings.rounds - RESERVE else server
    if len(server.moves):
        return _turned(server, settings)
    if not _agreed(server, settings):
        return server
    if server.turns < settings.turns and server.number + RESERVE < settings.rounds:
        edges = np.abs(server.W) > WEAK * settings.threshold
        return replace(server, moves=proposals(server.place, edges))
    if server.relaxable and not server.relaxed:
        return replace(server, relaxed=True, support=server.W != 0, rho2=settings.rho2_settled, in_phase=0)
    return server


def converged(server: Server, settings: ConsensusSettings) -> bool:
    """Return whether W is acyclic and the silos agree on it, to the tolerances."""
    if settings.settle:
        last = server.relaxed or not server.relaxable
        return bool(len(server.place)) and last and not len(server.moves) and _agreed(server, settings)
    return bool(server.W.any()) and server.h < settings.h_tolerance and _agreed(server, settings)


def structure(server: Server, settings: ConsensusSettings) -> Structure:
    """Return W without the entries of at most `threshold`; `scores` are the weights before it."""
    weights = np.where(np.abs(server.W) > settings.threshold, server.W, 0.0)
    if settings.repair:
        weights, _ = break_cycles(weights)
    return Structure(server.variables, weights, scores=np.abs(server.W))


def measures(server: Server, settings: ConsensusSettings) -> dict[str, float]:
    """Return what to follow: h, the relative residuals, edges above the threshold, ρ₁ and the phase (1, 2 or 3)."""
    return {
        "h": server.h,
        "primal": server.primal if np.isfinite(server.primal) else 1.0,
        "dual": server.dual,
        "edges": float((np.abs(server.W) > settings.threshold).sum()),
        "rho1": server.rho1,
        "phase": 3.0 if server.relaxed else 2.0 if len(server.place) else 1.0,
    }


def _next_rho2(server: Server, settings: ConsensusSettings) -> float:
    if len(server.place):
        return min(server.rho2 * TIGHTEN, settings.rho2)
    return server.rho2 * settings.rho2_growth


def _agreed(server: Server, settings: ConsensusSettings) -> bool:
    return server.in_phase > 2 and server.primal < settings.tolerance and server.dual < settings.tolerance


def _settled(server: Server, settings: ConsensusSettings) -> Server:
    strength = np.abs(server.W) * np.sqrt(server.scale / server.scale.min())[:, None]
    strength = np.where(np.abs(server.W) > WEAK * settings.threshold, strength, 0.0)
    return replace(server, place=settled_order(strength), rho2=settings.rho2_settled, in_phase=0, news=True)


def _turned(server: Server, settings: ConsensusSettings) -> Server:
    """Take the moves that the silos, all together, found worth it; if there is none, the order stands."""
    least = server.worth * server.silos * float(server.scale.min())
    place = turned(server.place, server.moves, server.judged, least)
    if np.array_equal(place, server.place):
        return replace(server, moves=NONE, turns=settings.turns)
    turns = server.turns + 1
    return replace(server, place=place, rho2=settings.rho2_settled, moves=NONE, turns=turns, in_phase=0, news=True)
