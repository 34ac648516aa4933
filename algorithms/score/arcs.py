"""A DAG as it travels: the list of its arcs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Arcs:
    """The arcs of a DAG, `[n_arcs, 2]`, from the first to the second of each pair of variables."""

    arcs: NDArray[np.uint16]


def arcs_of(dag: NDArray[np.bool_]) -> Arcs:
    """Return the arcs of `dag` `[n_variables, n_variables]` in ascending order."""
    return Arcs(np.argwhere(dag).astype(np.uint16))


def dag_of(message: Arcs, d: int) -> NDArray[np.bool_]:
    """Return the adjacency `[d, d]` of what was sent."""
    dag = np.zeros((d, d), np.bool_)
    dag[message.arcs[:, 0], message.arcs[:, 1]] = True
    return dag


def members(messages: Sequence[Arcs], d: int) -> NDArray[np.bool_]:
    """Return the adjacencies of several, `[k, d, d]`."""
    return np.stack([dag_of(message, d) for message in messages])
