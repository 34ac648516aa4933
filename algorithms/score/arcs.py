"""Messages of DAGs: the list of a DAG's arcs."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..graphs.dag import is_acyclic


@dataclass(frozen=True)
class Arcs:
    """The arcs of a DAG, `[n_arcs, 2]`, each from the first to the second variable of its pair."""

    arcs: NDArray[np.uint16]


def arcs_of(dag: NDArray[np.bool_]) -> Arcs:
    """The arcs of `dag` `[n_variables, n_variables]` in ascending order."""
    return Arcs(np.argwhere(dag).astype(np.uint16))


def dag_of(message: Arcs, d: int) -> NDArray[np.bool_]:
    """The adjacency `[d, d]` of the arcs in `message`.

    Raises `BadInput` unless they are the arcs of a DAG, because compiled code relies on it, and another party sends
    them.
    """
    dag = np.zeros((d, d), np.bool_)
    if message.arcs.ndim != 2 or message.arcs.shape[1] != 2 or (message.arcs >= d).any():
        raise BadInput(f"a message has arcs that are not pairs of {d} variables")
    dag[message.arcs[:, 0], message.arcs[:, 1]] = True
    if not is_acyclic(dag):
        raise BadInput("a message has arcs that form a cycle")
    return dag


def dags_of(messages: Sequence[Arcs], d: int) -> NDArray[np.bool_]:
    """The adjacencies of several messages, `[k, d, d]`."""
    return np.stack([dag_of(message, d) for message in messages])
