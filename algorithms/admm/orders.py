"""Orders of the variables in consensus ADMM: the first order, and a local search for better ones (our own method).

The first order (`settled_order`) comes from a matrix that is almost acyclic: once h is small, only the weakest edge of
each cycle has to be removed.

Moves (`proposals`, `variance_changes`) are a local search over orders that needs only sums of variances. A settled
order may have an edge in the wrong direction, which small steps cannot correct. NOTEARS' own loss detects such edges:
with each variable regressed on its predecessors, the loss of an order is ½Σ_j var(x_j | predecessors). For equal error
variances it is minimal at a true order. For every learned edge the server proposes the two moves that would reverse
the edge: one of its variables moves to the position of the other. Each silo replies with the change of its sum of
conditional variances. Changes of moves that do not overlap add up, and the best moves are applied.

A move changes only the conditional variances of the variables between its two positions, inclusive. Let L be the
Cholesky factor of S in the current order. Given the variables before position j, x_s has the variance T_j = Σ_{j ≤ q ≤
s} L_sq². If x_s moves before x_j, its partial correlation with x_j lowers the variance L_jj² of x_j to L_jj²
T_{j+1}/T_j. If x_s moves behind x_j, the same holds in reverse, with the precisions Σ_{s ≤ q ≤ j} (L⁻¹)_qs² of x_s in
place of T. So a move of length k costs O(k), after one factorisation and one inverse.
"""

import numpy as np
from numpy.typing import NDArray

from ..core.schema import FloatArray
from ..graphs.dag import topological_order, transitive_closure

NO_ORDER: NDArray[np.int64] = np.empty(0, dtype=np.int64)
Moves = NDArray[np.int32]
"""moves of a variable to the position of another variable in an order, `[n_moves, 2]`: from, to"""
NO_MOVES: Moves = np.empty((0, 2), dtype=np.int32)


def settled_order(strength: FloatArray, precedes: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
    """Each variable's position, `[n_variables]`, in an order that respects the strongest edges.

    Edges of `strength` `[n_variables, n_variables]` (0: no edge) are added in decreasing strength (ties by position),
    except those that would close a cycle; the result is a topological order of the added edges. The order always
    respects `precedes` `[d, d]`.
    """
    d = len(strength)
    rows, columns = np.nonzero(strength)
    graph = np.zeros((d, d), np.bool_) if precedes is None else precedes.copy()
    before = transitive_closure(graph) | np.eye(d, dtype=bool)  # before[i, j]: i already precedes j
    for k in np.argsort(-strength[rows, columns], kind="stable"):
        i, j = int(rows[k]), int(columns[k])
        if not before[j, i]:
            graph[i, j] = True
            before[np.ix_(before[:, i], before[j])] = True
    return np.argsort(topological_order(graph, np.arange(d)))


def free_entries(place: NDArray[np.int64], support: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The entries of `support` `[m, d]` that an order allows: forward ones in the first d rows, and all lagged ones."""
    d = support.shape[1]
    return np.vstack([forward(place, d) & support[:d], support[d:]])


def forward(place: NDArray[np.int64], d: int) -> NDArray[np.bool_]:
    """The entries `[d, d]` that an order allows, from earlier to later; without an order, all but the diagonal."""
    return ~np.eye(d, dtype=bool) if not len(place) else place[:, None] < place[None, :]


def proposals(place: NDArray[np.int64], edges: NDArray[np.bool_]) -> Moves:
    """The moves that would reverse each of `edges` `[d, d]`: (from, to) positions in the order, `[n_moves, 2]`.

    For i → j, i moves behind j, or j before i.
    """
    sources, targets = (place[nodes] for nodes in np.nonzero(edges))
    moves = np.concatenate([np.stack([sources, targets], axis=1), np.stack([targets, sources], axis=1)])
    return np.asarray(np.unique(moves, axis=0), dtype=np.int32)


def compatible_moves(moves: Moves, place: NDArray[np.int64], precedes: NDArray[np.bool_]) -> Moves:
    """The `moves` that respect `precedes`: no variable moves past one that must precede or follow it."""
    order = np.argsort(place)
    in_order = precedes[np.ix_(order, order)]
    compatible = [
        not (in_order[start, start : end + 1].any() if start < end else in_order[end : start + 1, start].any())
        for start, end in moves.tolist()
    ]
    return np.asarray(moves[np.array(compatible, bool)])


def variance_changes(S: FloatArray, place: NDArray[np.int64], moves: Moves) -> FloatArray:
    """For each move, the change of Σ_j var(x_j | predecessors), `[n_moves]`, with second moments `S` `[d, d]`."""
    from scipy.linalg import solve_triangular  # imported late: most learners have no order

    order = np.argsort(place)
    L = np.linalg.cholesky(S[np.ix_(order, order)])
    inverse = solve_triangular(L, np.eye(len(L)), lower=True)
    variances = np.diag(L) ** 2
    changes = np.empty(len(moves))
    for k, (start, end) in enumerate(moves.tolist()):
        if start < end:
            given = np.cumsum(inverse[start : end + 1, start] ** 2)
            passed, own = variances[start + 1 : end + 1], 1 / given[-1]
        else:
            given = np.cumsum(L[start, end : start + 1][::-1] ** 2)[::-1]
            passed, own = variances[end:start], given[0]
        changes[k] = passed @ (given[1:] / given[:-1] - 1) + own - variances[start]
    return changes


def turned(place: NDArray[np.int64], moves: Moves, changes: FloatArray, least: float) -> NDArray[np.int64]:
    """The positions after all moves whose change is below −`least`.

    Moves are applied in order, the best first. A move that overlaps an applied move is skipped.
    """
    order = np.argsort(place)
    free = np.ones(len(order), dtype=bool)
    for k in np.argsort(changes, kind="stable"):
        start, end = (int(at) for at in moves[k])
        span = slice(min(start, end), max(start, end) + 1)
        if changes[k] < -least and free[span].all():
            free[span] = False
            order[span] = order[span][_move_element(span.stop - span.start, start - span.start, end - span.start)]
    return np.argsort(order)


def _move_element(length: int, start: int, end: int) -> NDArray[np.intp]:
    """0..length-1 with the element at `start` moved to `end`."""
    others = np.delete(np.arange(length), start)
    return np.insert(others, end, start)
