"""Symmetric matrices as what travels of them: the upper triangle, row by row."""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray

Number = TypeVar("Number", np.float64, np.int64)


def triangle(S: NDArray[Number]) -> NDArray[Number]:
    """Return the upper triangle of `S` `[d, d]` with its diagonal, `[d(d + 1)/2]`."""
    return S[np.triu_indices(len(S))]


def from_triangle(entries: FloatArray) -> FloatArray:
    """Return the symmetric matrix with this upper triangle `[d(d + 1)/2]`."""
    d = int(np.sqrt(2 * len(entries)))
    S = np.zeros((d, d))
    S[np.triu_indices(d)] = entries
    return S + np.triu(S, 1).T
