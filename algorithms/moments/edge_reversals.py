"""Greedy reversals of edges under equal error variances (after Peters & Bühlmann 2014, Section 4.1).

The top-down order of `equal_variance.py` compares two variables by their conditional variances. With weak effects these
variances are nearly equal, and sampling error reverses edges. So each edge i → j is compared with its reversal. For the
reversal, the edge is removed. Then j selects its parents among the variables that descend from neither i nor j, and i
selects its parents among those that do not descend from i, which include j. The reversal is accepted if it lowers
Σ (v + c · number of parents) over i and j, where v is the residual variance, and c the variance that a parent must
explain (`min_explained`). Each of the m edges of a pass needs two selections of parents, which costs O(m·d·p²) for
p parents. Later passes try only edges with an end whose parents or children have changed.
"""

import numpy as np
from numpy.typing import NDArray

from ..compiled import njit
from ..core.schema import FloatArray
from ..graphs.dag import topological_order
from ..graphs.kernels import successor_lists
from .parent_selection import score_of, select_parents

MAX_REVERSAL_PASSES = 20
"""largest number of passes over all edges"""
TOLERANCE = 1e-9
"""minimum improvement of a reversal, as a share of the variance of i"""


def order_after_reversals(
    S: FloatArray, dag: NDArray[np.bool_], min_explained: float, former: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """A topological order of the columns of `dag` after all reversals that lower the score for second moments `S`.

    `dag` is `[m, d]` and `S` `[m, m]`; columns beyond the first d precede the others (lagged variables). A
    parent must explain the variance `min_explained`. If the DAG has several topological orders, the order `former`
    `[d]` breaks ties, so most variables keep their predecessors.
    """
    m, d = dag.shape
    reversed_dag = np.zeros((m, m), np.bool_)
    reversed_dag[:, :d] = dag
    _reverse_edges(S, reversed_dag, np.full(m, min_explained), MAX_REVERSAL_PASSES, d)
    return np.array(topological_order(reversed_dag[:d, :d], former), np.int64)


@njit(cache=True)
def _reverse_edges(S, dag, min_explained, passes, variables):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Reverse edges between the first `variables` columns of `dag`, in place, in at most `passes` passes."""
    d = len(S)
    score = np.empty(d)
    for j in range(d):
        score[j] = score_of(S, j, dag[:, j].copy(), min_explained, d - 1)
    offspring = successor_lists(dag)
    changed = np.ones(d, np.bool_)
    for _ in range(passes):
        due, changed = changed, np.zeros(d, np.bool_)
        for j in range(variables):
            for i in range(variables):
                if not dag[i, j] or not (due[i] or due[j] or changed[i] or changed[j]):
                    continue
                below_i = _descendants(offspring, i, j)
                if below_i[j]:  # another path leads from i to j, so the reversal would make a cycle
                    continue
                outside = ~(below_i | _descendants(offspring, j, -1))
                outside[i] = outside[j] = False
                of_j, parents_of_j = select_parents(S, j, outside, min_explained, d - 1)
                above = ~below_i
                above[i] = False
                of_i, parents_of_i = select_parents(S, i, above, min_explained, d - 1)
                of_j, of_i = of_j + min_explained[parents_of_j].sum(), of_i + min_explained[parents_of_i].sum()
                if of_i + of_j >= score[i] + score[j] - TOLERANCE * S[i, i]:
                    continue
                changed |= dag[:, i] | dag[:, j]
                dag[:, i] = dag[:, j] = False
                dag[parents_of_i, i] = True
                dag[parents_of_j, j] = True
                changed |= dag[:, i] | dag[:, j]
                changed[i] = changed[j] = True
                score[i], score[j] = of_i, of_j
                offspring = successor_lists(dag)
        if not changed.any():
            break


@njit(cache=True)
def _descendants(offspring, i, without):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """The descendants of i in the DAG without the edge from i to `without`."""
    begins, children = offspring
    d = len(begins) - 1
    found, stack, height = np.zeros(d, np.bool_), np.empty(d, np.int64), 1
    stack[0] = i
    while height > 0:
        height -= 1
        k = stack[height]
        for child in children[begins[k] : begins[k + 1]]:
            if not found[child] and not (k == i and child == without):
                found[child] = True
                stack[height] = child
                height += 1
    return found
