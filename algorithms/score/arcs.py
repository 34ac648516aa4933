"""Messages of DAGs: the list of a DAG's arcs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Arcs:
    """The arcs of a DAG, `[n_arcs, 2]`, each from the first to the second variable of its pair."""

    arcs: NDArray[np.uint16]


def arcs_of(dag: NDArray[np.bool_]) -> Arcs:
    """The arcs of `dag` `[n_variables, n_variables]` in ascending order."""
    return Arcs(np.argwhere(dag).astype(np.uint16))


def dag_of(message: Arcs, d: int) -> NDArray[np.bool_]:
    """The adjacency `[d, d]` of the arcs in `message`."""
    dag = np.zeros((d, d), np.bool_)
    dag[message.arcs[:, 0], message.arcs[:, 1]] = True
    return dag


def dags_of(messages: Sequence[Arcs], d: int) -> NDArray[np.bool_]:
    """The adjacencies of several messages, `[k, d, d]`."""
    return np.stack([dag_of(message, d) for message in messages])
