"""Empty cells of labels, filled by draws from a Bayesian network that all silos have estimated together.

Source: Geman, Geman 1984 for the sampler; Celeux, Diebolt 1985 for its use in a stochastic EM. Every empty cell is
first drawn given its parents, and then `SWEEPS` times given all other cells of its row: P(x_v | the rest) is
proportional to the probability of v times those of its children. Draws come from the silo's own generator and stay with
it: a run that is resumed draws the same again.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..core.filling import Filling
from ..graphs.dag import topological_order

SWEEPS = 5
"""after the first draws: cells of one row that lean on each other need some"""


def filled(
    columns: NDArray[np.int16], cardinalities: NDArray[np.int64], filling: Filling, rng: np.random.Generator
) -> NDArray[np.int16]:
    """Return `columns` `[d, n_rows]` with drawn codes in place of the empty cells, -1."""
    empty = columns < 0
    order = np.array(topological_order(filling.dag), np.int64)
    cells = np.argwhere(empty[order].T)  # by row, and within a row parents first
    cells[:, 1] = order[cells[:, 1]]
    out, uniforms = columns.copy(), rng.random((SWEEPS + 1, len(cells)))
    first, parents = _lists(filling.dag)
    begins, children = np.zeros(len(order) + 1, np.int64), _lists(filling.dag.T)
    for v in range(len(order)):
        family = [v, *parents[first[v] : first[v + 1]]]
        begins[v + 1] = begins[v] + cardinalities[family].prod()
    _draw(out, cells, uniforms, cardinalities, first, parents, *children, begins, filling.tables)
    return out


def _lists(dag: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the parents of all variables one after another, ascending, and where those of each begin."""
    first = np.concatenate([[0], np.cumsum(dag.sum(axis=0))]).astype(np.int64)
    return first, np.argwhere(dag.T)[:, 1].astype(np.int64)


@njit(cache=True)
def _draw(out, cells, uniforms, sizes, first, parents, first_child, children, begins, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    weights = np.empty(sizes.max())
    for c in range(len(cells)):
        row, v = cells[c]
        at = _place(out, row, v, 0, sizes, first, parents, begins)
        for level in range(sizes[v]):
            weights[level] = tables[at + level]
        out[v, row] = _drawn(weights, sizes[v], uniforms[0, c])
    for sweep in range(1, len(uniforms)):
        for c in range(len(cells)):
            row, v = cells[c]
            at = _place(out, row, v, 0, sizes, first, parents, begins)
            for level in range(sizes[v]):
                weights[level] = tables[at + level]
                out[v, row] = level
                for k in range(first_child[v], first_child[v + 1]):
                    child = children[k]
                    weights[level] *= tables[_place(out, row, child, out[child, row], sizes, first, parents, begins)]
            out[v, row] = _drawn(weights, sizes[v], uniforms[sweep, c])


@njit(cache=True)
def _place(out, row, v, level, sizes, first, parents, begins):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return where the tables have P(v = level | its parents as they are in this row)."""
    state = 0
    for k in range(first[v], first[v + 1]):
        state = state * sizes[parents[k]] + out[parents[k], row]
    return begins[v] + state * sizes[v] + level


@njit(cache=True)
def _drawn(weights, n, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Return the level at which the running sum of `weights` passes the share `uniform` of all."""
    total = 0.0
    for level in range(n):
        total += weights[level]
    level, passed = 0, weights[0]
    while level < n - 1 and passed < uniform * total:
        level += 1
        passed += weights[level]
    return level
