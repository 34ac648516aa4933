"""The lagged edges of a dynamic structure as a list, each compared with the truth: right, extra or missing.

Time gives every lagged edge its direction, so none is reversed: an edge is right if the truth has it at the same lag.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .edge_classes import Category, Edge
from .lagged import lagged_name
from .marks import ARROW, TAIL
from .structure import Structure


@dataclass(frozen=True)
class LaggedEdge(Edge):
    """The edge from `source` at time t − `lag` to `target` at time t."""

    lag: int

    @property
    def own(self) -> bool:
        """Whether a variable depends on its own past."""
        return self.source == self.target

    @property
    def cause(self) -> str:
        """What its source is called at that time."""
        return lagged_name(self.source, self.lag)


def classify_lagged(structure: Structure, truth: Structure | None) -> tuple[LaggedEdge, ...]:
    """Return the lagged edges of `structure`, and those of `truth` that it misses, by lag, source and target.

    Without a truth, or with one that has no lagged edges to compare with, every edge is just "learned". Raises
    `ValueError` if the truth is over other variables.
    """
    true = None if truth is None else truth.reordered(structure.variables).lagged
    if true is None:
        learned = lagged_of(structure, structure.lags)
        return tuple(_edge(structure, learned, None, at) for at in np.argwhere(learned).tolist())
    lags = max(structure.lags, len(true))
    learned, true = lagged_of(structure, lags), padded(true, lags)
    return tuple(_edge(structure, learned, true, at) for at in np.argwhere((learned != 0) | (true != 0)).tolist())


def lagged_of(structure: Structure, lags: int) -> NDArray[np.float64]:
    """Return the lagged weights of `structure`, `[lags, d, d]`, those of lags that it does not have empty."""
    d = len(structure.variables)
    return padded(np.zeros((0, d, d)) if structure.lagged is None else structure.lagged, lags)


def padded(lagged: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """Return `lagged` with empty lags added up to `lags`, which must not be fewer than it has."""
    return np.concatenate([lagged, np.zeros((lags - len(lagged), *lagged.shape[1:]))])


def _edge(
    structure: Structure, learned: NDArray[np.float64], true: NDArray[np.float64] | None, at: list[int]
) -> LaggedEdge:
    k, i, j = at
    weight, true_weight = float(learned[k, i, j]), 0.0 if true is None else float(true[k, i, j])
    category: Category = "learned"
    if true is not None:
        category = "missing" if not weight else "right" if true_weight else "extra"
    source, target = structure.variables[i], structure.variables[j]
    return LaggedEdge(source, target, weight or None, true_weight or None, TAIL, ARROW, category, k + 1)
