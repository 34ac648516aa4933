"""What consensus ADMM sends: the entries of a matrix that changed, and what they cost (000 B.2.1)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray


@dataclass(frozen=True)
class Change:
    """Entries of a `[d, d]` matrix: flat positions and values; with no positions, all d² values in row order."""

    d: int
    positions: NDArray[np.unsignedinteger]
    values: FloatArray

    def put(self, matrix: FloatArray) -> FloatArray:
        """Return `matrix` with these entries in place of its own."""
        if len(self.values) == self.d**2:
            return self.values.reshape(self.d, self.d)
        changed = matrix.copy()
        changed.flat[self.positions.astype(np.intp)] = self.values
        return changed

    @property
    def cost(self) -> int:
        """Bytes by the formula of 000 B.2.1."""
        return len(self.values) * (entry_bytes(self.d) if len(self.positions) else 8)


def entry_bytes(d: int) -> int:
    """Return the bytes of one value with its position: 8 + ⌈log₂(d²)/8⌉ (000 B.2.1)."""
    return 8 + int(np.ceil(2 * np.log2(max(d, 2)) / 8))


def change_between(old: FloatArray, new: FloatArray) -> Change:
    """Return the entries of `new` that differ from `old`: as a list, or as a whole matrix where that is shorter."""
    d = len(new)
    positions = np.flatnonzero(new != old)
    if len(positions) * entry_bytes(d) >= 8 * new.size:
        return Change(d, np.empty(0, _position_type(d)), new.ravel().copy())
    return Change(d, positions.astype(_position_type(d)), new.ravel()[positions])


def hold_back(old: FloatArray, new: FloatArray, least: FloatArray) -> FloatArray:
    """Return `new`, but `old` in each entry of row i that moved by less than `least[i]`: not worth sending."""
    return np.where(np.abs(new - old) < least[:, None], old, new)


def _position_type(d: int) -> type[np.unsignedinteger]:
    return np.uint16 if d <= 256 else np.uint32
