"""The silo's side of consensus ADMM (000 Algorithm 1, 001 Algorithm 1): dual update, local solve, reply.

The rows are read once, for S_p = X_pᵀX_p/n_p; after that a round costs no pass over them. S_p is weighted by n_p over
the mean number of rows, so that every row of the federation counts the same. What leaves: the change of B_p, the
variables' mean squares (once, where penalties are scaled by them), ‖B_p − W‖² for the stopping rule, and, for moves the
server proposes, changes of a sum of conditional variances.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray, Schema
from ..secure.ring import FRACTION_BITS
from .messages import Change, change_between, hold_back
from .order import forward
from .settings import ConsensusSettings
from .turns import Moves, variance_changes


@dataclass(frozen=True)
class Silo:
    """A silo's private state; S is made from the rows, the rest is what the rounds have come to."""

    S: FloatArray
    """weighted second moments, `[d, d]`"""
    ridge: float
    """what to add to S, in its own diagonal, where it is to be inverted: (d/n_p)², nothing where rows are many"""
    rounds: int
    B: FloatArray
    beta: FloatArray
    W: FloatArray
    rho2: float
    scale: FloatArray
    """what penalties are measured in, `[d]`: this silo's own until the federation's is known"""
    place: NDArray[np.int64]
    """each variable's place in the settled order; empty before"""
    support: NDArray[np.bool_]
    """entries still free, `[d, d]`: all, until the lasso is relaxed"""


@dataclass(frozen=True)
class Broadcast:
    """What the server sends: the change of W, ρ₂, and, only when they change, scales and order."""

    W: Change
    rho2: float
    scale: FloatArray
    place: NDArray[np.int64]
    moves: Moves
    """moves in the settled order that are to be judged; most often none"""
    relax: bool
    """whether λ is now zero and only what is left in W is free"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of 000 B.2.1, counting ρ₂, scales, order and moves as 8 a number."""
        return self.W.cost + 8 * (1 + len(self.scale) + len(self.place) + self.moves.size)


@dataclass(frozen=True)
class Reply:
    """What a silo sends: the change of B_p, its variables' mean squares (first round), ‖B_p − W‖² of the last round."""

    B: Change
    scale: FloatArray
    gap: float
    changes: FloatArray
    """change of Σ_j var(x_j | those before) under each move that was to be judged"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of 000 B.2.1, counting scales, gap and variances as 8 a number."""
        return self.B.cost + 8 * (1 + len(self.scale) + len(self.changes))


@dataclass(frozen=True)
class LocalProblem:
    """argmin_B ½tr((I − B)ᵀS(I − B)) + ⟨linear, B⟩ + ½Σ r_i B_ij² + Σ λ_i|B_ij| over the `allowed` entries of B."""

    S: FloatArray
    linear: FloatArray
    r: FloatArray
    l1: FloatArray
    allowed: NDArray[np.bool_]
    start: FloatArray


LocalSolver = Callable[[LocalProblem], FloatArray]


def l1_weights(l1: float, scale: FloatArray) -> FloatArray:
    """Return λ_i = λ·√(scale_i · min scale), `[d]`: plain λ where every scale is 1."""
    return np.asarray(l1 * np.sqrt(scale * scale.min()))


def held(hold: float, scale: FloatArray) -> FloatArray:
    """Return the least change worth sending in each row, hold·√(min scale / scale_i), `[d]`."""
    return np.asarray(hold * np.sqrt(scale.min() / scale))


def open_silo(table: NDArray[np.float64], schema: Schema, silo: str, settings: ConsensusSettings) -> Silo:
    """Return the state before round 1 of the silo whose rows are `table` `[n_rows, n_variables]`."""
    rows = table - table.mean(axis=0) if settings.center else table
    mean_rows = sum(schema.rows.values()) / len(schema.rows)
    return open_moments(rows.T @ rows / mean_rows, len(table), settings)


def open_moments(S: FloatArray, rows: int, settings: ConsensusSettings) -> Silo:
    """Return the state before round 1 of a silo that knows its rows by their weighted second moments `S` alone."""
    zero = np.zeros_like(S)
    scale = np.diag(S).copy() if settings.scaled else np.ones(len(S))
    ridge = (len(S) / rows) ** 2
    return Silo(S, ridge, 0, zero, zero, zero, settings.rho2, scale, np.empty(0, dtype=np.int64), zero == 0)


def local_solve(
    silo: Silo, broadcast: Broadcast, solve: LocalSolver, l1: float, loops: bool, settings: ConsensusSettings
) -> tuple[Silo, Reply]:
    """Update β_p for the W just received, solve for B_p, and return the new state and the reply.

    With `loops` the diagonal of B_p is free, and only the consensus with W, where it is zero, draws it to zero.
    """
    W = broadcast.W.put(silo.W)
    scale = broadcast.scale if len(broadcast.scale) else silo.scale
    place = broadcast.place if len(broadcast.place) else silo.place
    support = silo.support & (W != 0) if broadcast.relax else silo.support
    allowed = forward(place, len(W)) & support
    if loops:
        allowed |= np.eye(len(W), dtype=bool)
    price = l1_weights(0.0 if broadcast.relax else l1, scale)
    gap = silo.B - W
    beta = silo.beta + (silo.rho2 * scale)[:, None] * gap
    r = broadcast.rho2 * scale
    problem = LocalProblem(silo.S, beta - r[:, None] * W, r, price, allowed, np.where(allowed, silo.B, 0))
    B = np.where(allowed, on_grid(hold_back(silo.B, solve(problem), held(settings.hold, scale))), 0.0)
    sent = scale if settings.scaled and silo.rounds == 0 else np.empty(0)
    reply = Reply(
        B=change_between(np.zeros_like(B), B - silo.B),
        scale=sent,
        gap=float(scale @ (gap * gap).sum(axis=1)),
        changes=judged(silo, place, broadcast.moves),
    )
    return Silo(silo.S, silo.ridge, silo.rounds + 1, B, beta, W, broadcast.rho2, scale, place, support), reply


def on_grid(B: FloatArray) -> FloatArray:
    """Return `B` in whole 2⁻³² parts: sums of changes are then exact, in the clear and as fixed-point numbers."""
    return np.asarray(np.rint(np.ldexp(B, FRACTION_BITS)) * 2.0**-FRACTION_BITS)


def judged(silo: Silo, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """Return the change of the sum of conditional variances under each of `moves`, `[n_moves]`."""
    if not len(moves):
        return np.empty(0)
    return variance_changes(silo.S + silo.ridge * np.diag(np.diag(silo.S)), place, moves)


def summand(reply: Reply) -> FloatArray:
    """Return `reply` as one vector `[d² + d + 1 + n_moves]`: the server needs only the sum over the silos."""
    d = reply.B.d
    change = reply.B.put(np.zeros((d, d))).ravel()
    scale = reply.scale if len(reply.scale) else np.zeros(d)
    return np.concatenate([change, scale, [reply.gap], reply.changes])


KEPT = ("rounds", "B", "beta", "W", "rho2", "scale", "place", "support")
