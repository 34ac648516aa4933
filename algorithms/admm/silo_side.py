"""The silo's side of consensus ADMM (000 Algorithm 1, 001 Algorithm 1): dual update, local solve, reply.

The rows are read once, for S_p = X_pᵀX_p/n_p; after that a round costs no pass over them. S_p is weighted by n_p over
the mean number of rows, so that every row of the federation counts the same. What leaves: the change of B_p, the
variables' mean squares (once, where penalties are scaled by them), and ‖B_p − W‖² for the stopping rule.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..protocol import FloatArray, Schema
from .messages import Change, change_between, hold_back
from .order import forward
from .settings import ConsensusSettings


@dataclass(frozen=True)
class Silo:
    """A silo's private state; S is made from the rows, the rest is what the rounds have come to."""

    S: FloatArray
    """weighted second moments, `[d, d]`"""
    rounds: int
    B: FloatArray
    beta: FloatArray
    W: FloatArray
    rho2: float
    scale: FloatArray
    """what penalties are measured in, `[d]`: this silo's own until the federation's is known"""
    place: NDArray[np.int64]
    """each variable's place in the settled order; empty before"""


@dataclass(frozen=True)
class Broadcast:
    """What the server sends: the change of W, ρ₂, and, only when they change, scales and order."""

    W: Change
    rho2: float
    scale: FloatArray
    place: NDArray[np.int64]
    news: bool
    """whether `place` replaces the one before (an empty one takes the order back)"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of 000 B.2.1, counting ρ₂, scales and order as 8 a number."""
        return self.W.cost + 8 * (1 + len(self.scale) + len(self.place))


@dataclass(frozen=True)
class Reply:
    """What a silo sends: the change of B_p, its variables' mean squares (first round), ‖B_p − W‖² of the last round."""

    B: Change
    scale: FloatArray
    gap: float

    @property
    def cost(self) -> int:
        """Bytes by the formula of 000 B.2.1, counting scales and gap as 8 a number."""
        return self.B.cost + 8 * (1 + len(self.scale))


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
    S = rows.T @ rows / mean_rows
    zero = np.zeros_like(S)
    scale = np.diag(S).copy() if settings.scaled else np.ones(len(S))
    return Silo(S, 0, zero, zero, zero, settings.rho2, scale, np.empty(0, dtype=np.int64))


def local_solve(
    silo: Silo, broadcast: Broadcast, solve: LocalSolver, l1: float, settings: ConsensusSettings
) -> tuple[Silo, Reply]:
    """Update β_p for the W just received, solve for B_p, and return the new state and the reply."""
    W = broadcast.W.put(silo.W)
    scale = broadcast.scale if len(broadcast.scale) else silo.scale
    place = broadcast.place if broadcast.news else silo.place
    allowed = forward(place, len(W))
    gap = silo.B - W
    beta = silo.beta + (silo.rho2 * scale)[:, None] * gap
    r = broadcast.rho2 * scale
    problem = LocalProblem(
        silo.S, beta - r[:, None] * W, r, l1_weights(l1, scale), allowed, np.where(allowed, silo.B, 0)
    )
    B = np.where(allowed, hold_back(silo.B, solve(problem), held(settings.hold, scale)), 0.0)
    sent = scale if settings.scaled and silo.rounds == 0 else np.empty(0)
    reply = Reply(change_between(np.zeros_like(B), B - silo.B), sent, float(scale @ (gap * gap).sum(axis=1)))
    return Silo(silo.S, silo.rounds + 1, B, beta, W, broadcast.rho2, scale, place), reply


def summand(reply: Reply) -> FloatArray:
    """Return `reply` as one vector `[d² + d + 1]` (change of B_p, mean squares, gap): the server needs only the sum."""
    d = reply.B.d
    change = reply.B.put(np.zeros((d, d))).ravel()
    scale = reply.scale if len(reply.scale) else np.zeros(d)
    return np.concatenate([change, scale, [reply.gap]])


KEPT = ("rounds", "B", "beta", "W", "rho2", "scale", "place")
