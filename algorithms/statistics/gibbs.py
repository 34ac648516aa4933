"""Imputation of empty cells of labels by a Gibbs sampler.

Empty cells of labels are drawn from a Bayesian network that all silos have estimated together (Geman, Geman 1984 for
the sampler; Celeux, Diebolt 1985 for its use in a stochastic EM). Every empty cell is first drawn given its parents,
and then `SWEEPS` times given all other cells of its row. P(x_v | the rest) is proportional to the product of the
probabilities of v and of its children. Draws use the silo's own generator and stay at the silo; a resumed run draws the
same values.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import ImputationModel
from ..errors import BadInput
from ..graphs.dag import topological_order
from ..graphs.kernels import successor_lists

SWEEPS = 5
"""number of Gibbs sweeps after the first draws; several are needed for dependent empty cells of one row"""


def gibbs_impute(
    columns: NDArray[np.int16], cardinalities: NDArray[np.int64], model: ImputationModel, rng: np.random.Generator
) -> NDArray[np.int16]:
    """The codes `columns` `[d, n_rows]` with draws in place of the empty cells, -1.

    Raises `BadInput` if the graph or the tables of the `model` do not fit the columns.
    """
    empty, d = columns < 0, len(columns)
    if model.dag.shape != (d, d):
        raise BadInput(f"the imputation model of {d} variables has a graph of another size")
    order = np.array(topological_order(model.dag), np.int64)
    cells = np.argwhere(empty[order].T)  # by row, and within a row parents first
    cells[:, 1] = order[cells[:, 1]]
    out, uniforms = columns.copy(), rng.random((SWEEPS + 1, len(cells)))
    first, parents = successor_lists(np.ascontiguousarray(model.dag.T))
    begins, children = np.zeros(len(order) + 1, np.int64), successor_lists(np.ascontiguousarray(model.dag))
    for v in range(len(order)):
        family = [v, *parents[first[v] : first[v + 1]]]
        begins[v + 1] = begins[v] + cardinalities[family].prod()
    if len(model.tables) != begins[-1]:  # compiled code would otherwise read out of bounds
        raise BadInput("the tables of the imputation model do not fit its graph")
    _gibbs_sweeps(out, cells, uniforms, cardinalities, first, parents, *children, begins, model.tables)
    return out


@njit(cache=True)
def _gibbs_sweeps(out, cells, uniforms, sizes, first, parents, first_child, children, begins, tables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    weights = np.empty(sizes.max())
    for c in range(len(cells)):
        row, v = cells[c]
        index = _table_index(out, row, v, 0, sizes, first, parents, begins)
        for level in range(sizes[v]):
            weights[level] = tables[index + level]
        out[v, row] = _draw_level(weights, sizes[v], uniforms[0, c])
    for sweep in range(1, len(uniforms)):
        for c in range(len(cells)):
            row, v = cells[c]
            index = _table_index(out, row, v, 0, sizes, first, parents, begins)
            for level in range(sizes[v]):
                weights[level] = tables[index + level]
                out[v, row] = level
                for k in range(first_child[v], first_child[v + 1]):
                    child = children[k]
                    weights[level] *= tables[
                        _table_index(out, row, child, out[child, row], sizes, first, parents, begins)
                    ]
            out[v, row] = _draw_level(weights, sizes[v], uniforms[sweep, c])


@njit(cache=True)
def _table_index(out, row, v, level, sizes, first, parents, begins):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The index in the tables of P(v = level | the values of its parents in this row)."""
    state = 0
    for k in range(first[v], first[v + 1]):
        state = state * sizes[parents[k]] + out[parents[k], row]
    return begins[v] + state * sizes[v] + level


@njit(cache=True)
def _draw_level(weights, n, uniform):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The level at which the cumulative sum of `weights` passes the share `uniform` of the total."""
    total = 0.0
    for level in range(n):
        total += weights[level]
    level, passed = 0, weights[0]
    while level < n - 1 and passed < uniform * total:
        level += 1
        passed += weights[level]
    return level
