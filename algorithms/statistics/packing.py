"""Packing of several arrays into one vector that silos add up; symmetric matrices are sent as their upper triangle.

An algorithm describes its summands once, by name and shape. With this description the silo packs its arrays, a secure
sum omits entries that are known to be zero, and the server unpacks the sum.
"""

from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.protocol import Sparse
from ..core.schema import FloatArray

Number = TypeVar("Number", np.float64, np.int64)


def triangle(S: NDArray[Number]) -> NDArray[Number]:
    """The upper triangle of `S` `[d, d]` with its diagonal, `[d(d + 1)/2]`."""
    return S[np.triu_indices(len(S))]


def from_triangle(entries: FloatArray) -> FloatArray:
    """The symmetric matrix with this upper triangle `[d(d + 1)/2]`."""
    d = int(np.sqrt(2 * len(entries)))
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = entries
    return S + np.triu(S, 1).T


@dataclass(frozen=True)
class Block:
    """One array among the summands; only the upper triangle of a symmetric array `[d, d]` is sent."""

    name: str
    shape: tuple[int, ...]
    symmetric: bool = False

    @property
    def size(self) -> int:
        """The number of entries that are sent."""
        return self.shape[0] * (self.shape[0] + 1) // 2 if self.symmetric else prod(self.shape)


@dataclass(frozen=True)
class Packing:
    """The arrays that silos add up, one after another."""

    blocks: tuple[Block, ...]

    @property
    def length(self) -> int:
        """The length of the packed vector."""
        return sum(block.size for block in self.blocks)

    def pack(self, **arrays: Any) -> NDArray[Any]:
        """The arrays as one vector `[length]`; missing arrays are zero.

        Raises `ValueError` for an unknown name or a wrong shape (a programming error).
        """
        unknown = set(arrays) - {block.name for block in self.blocks}
        if unknown:
            raise ValueError(f"there is no block {', '.join(sorted(unknown))}")
        return np.concatenate([_flat(block, arrays.get(block.name)) for block in self.blocks])

    def unpack(self, vector: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """The arrays in `vector` `[length]`, or in a sum of such vectors; raises `ValueError` for another length."""
        if len(vector) != self.length:
            raise ValueError(f"a vector of {len(vector)} numbers, not of {self.length}")
        ends = np.cumsum([block.size for block in self.blocks])
        parts = np.split(vector, ends[:-1])
        return {
            block.name: from_triangle(part) if block.symmetric else part.reshape(block.shape)
            for block, part in zip(self.blocks, parts, strict=True)
        }

    def sparse(self, **free: NDArray[np.bool_] | bool) -> Sparse:
        """The positions at which the vector may differ from zero: blocks that are True, or True entries of a mask."""
        where = {name: np.asarray(entries) for name, entries in free.items()}
        packed = [
            np.broadcast_to(where.get(block.name, np.False_), block.shape).ravel()
            if not block.symmetric
            else np.full(block.size, where.get(block.name, np.False_))
            for block in self.blocks
        ]
        return Sparse(np.flatnonzero(np.concatenate(packed)), self.length)


def packing(**shapes: int | tuple[int, ...]) -> Packing:
    """The packing of arrays with these names and shapes; a whole number is the length of a vector."""
    return Packing(tuple(Block(name, (shape,) if isinstance(shape, int) else shape) for name, shape in shapes.items()))


def _flat(block: Block, array: Any) -> NDArray[Any]:
    if array is None:
        return np.zeros(block.size)
    values = np.asarray(array)
    if values.shape != block.shape:
        raise ValueError(f"{block.name} has the shape {values.shape}, not {block.shape}")
    return triangle(values) if block.symmetric else values.ravel()
