"""What consensus ADMM sends: the entries of a matrix that changed, and what they cost.

Source: Fassy El Fehri et al., B.2.1.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..statistics.packing import Packing, packing

NOTHING: FloatArray = np.empty(0)
NO_ORDER: NDArray[np.int64] = np.empty(0, dtype=np.int64)
Moves = NDArray[np.int32]
"""moves of one variable to another's place in an order, `[n_moves, 2]`: from, to"""
NO_MOVES: Moves = np.empty((0, 2), dtype=np.int32)


@dataclass(frozen=True)
class Change:
    """Entries of a matrix of this `shape`: flat positions and values; with no positions, all values in row order."""

    shape: tuple[int, int]
    positions: NDArray[np.unsignedinteger]
    values: FloatArray

    def put(self, matrix: FloatArray) -> FloatArray:
        """Return `matrix` with these entries in place of its own."""
        if len(self.values) == matrix.size:
            return self.values.reshape(self.shape)
        changed = matrix.copy()
        changed.flat[self.positions.astype(np.intp)] = self.values
        return changed

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1."""
        return len(self.values) * (entry_bytes(self.shape) if len(self.positions) else 8)


@dataclass(frozen=True)
class Broadcast:
    """What the server sends: the change of W and ρ₂; what we add to the papers' loop may also send the rest."""

    W: Change
    rho2: float
    scale: FloatArray = field(default_factory=lambda: NOTHING)
    """what penalties are measured in, `[m]`, once it is known"""
    place: NDArray[np.int64] = field(default_factory=lambda: NO_ORDER)
    """each variable's place in an order that has settled, `[d]`, when it is new"""
    moves: Moves = field(default_factory=lambda: NO_MOVES)
    """moves in the settled order that are to be judged; most often none"""
    relax: bool = False
    """whether λ is now zero and only what is left in W is free"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, counting ρ₂, scales, order and moves as 8 a number."""
        return self.W.cost + 8 * (1 + len(self.scale) + len(self.place) + self.moves.size)


@dataclass(frozen=True)
class Reply:
    """What a silo sends: the change of B_p, and ‖B_p − W‖² of the last round for the stopping rule."""

    B: Change
    scale: FloatArray
    """the variables' mean squares, in the first round of a run that measures penalties in them"""
    gap: float
    changes: FloatArray
    """change of Σ_j var(x_j | those before) under each move that was to be judged"""

    @property
    def cost(self) -> int:
        """Bytes by the formula of Fassy El Fehri et al., B.2.1, counting scales, gap and variances as 8 a number."""
        return self.B.cost + 8 * (1 + len(self.scale) + len(self.changes))


def reply_packing(shape: tuple[int, int], moves: int) -> Packing:
    """Return how a reply is packed: all that the server needs of it is the sum over the silos.

    The parameters are a matrix of this `shape`.
    """
    return packing(change=shape, scale=shape[0], gap=(), changes=moves)


def summand(reply: Reply) -> FloatArray:
    """Return `reply` as one vector to be added up."""
    shape = reply.B.shape
    return reply_packing(shape, len(reply.changes)).pack(
        change=reply.B.put(np.zeros(shape)),
        scale=reply.scale if len(reply.scale) else None,
        gap=reply.gap,
        changes=reply.changes,
    )


def entry_bytes(shape: tuple[int, int]) -> int:
    """Return the bytes of one value with its position: 8 + ⌈log₂(entries)/8⌉ (Fassy El Fehri et al., B.2.1)."""
    return 8 + int(np.ceil(np.log2(max(shape[0] * shape[1], 4)) / 8))


def change_between(old: FloatArray, new: FloatArray) -> Change:
    """Return the entries of `new` that differ from `old`: as a list, or as a whole matrix where that is shorter."""
    shape, small = (len(new), new.shape[1]), np.uint16 if new.size <= 1 << 16 else np.uint32
    positions = np.flatnonzero(new != old)
    if len(positions) * entry_bytes(shape) >= 8 * new.size:
        return Change(shape, np.empty(0, small), new.ravel().copy())
    return Change(shape, positions.astype(small), new.ravel()[positions])


def hold_back(old: FloatArray, new: FloatArray, least: FloatArray) -> FloatArray:
    """Return `new`, but `old` in each entry of row i that moved by less than `least[i]`: not worth sending."""
    return np.where(np.abs(new - old) < least[:, None], old, new)
